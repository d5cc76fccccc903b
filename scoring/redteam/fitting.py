"""The attacker who knows the parameters: a clique of fakes that is just as large as the trust behind it lasts. Pure.

Regions of the grid have fixed sizes. Whoever can compute what we compute sizes the region so that each fake ends just
above s = .5 behind a stolen account.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.config.policy import Parameters, Policy
from scoring.redteam.attack import Attack, Ground, Pairs, with_pairs
from scoring.redteam.measures import HALF, RECORDS, half_mass, lanes_of, standing_on_two
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Floats, Integers

CROWD = 1_000
RUNGS = 24  # sizes that are tried, evenly spaced in their logarithm
Entering = Callable[[Integers], Pairs]  # the vouches that enter a region of these fakes


@dataclass(frozen=True, slots=True)
class Brought:
    """The most that the plays of one attack bring, each count by the play that is best at it.

    `above`: fakes at s >= .5; `on_two`: those of them whose trust no single account but a seed can end; `fast`: fakes
    whom the gate sends to the fast lane where each has 0, 5, 20 clean merges (`lanes.RECORDS`).
    """

    above: int
    on_two: int
    fast: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stolen:
    """The gain of somebody who holds the account `regular`, which had s = `trust`, and vouches as they like."""

    regular: int
    trust: float
    brought: Brought


def steal(ground: Ground, regular: int, policy: Policy) -> Stolen:
    """The most fakes that one account can bring to s = .5 and into the lane; it drops its other vouches.

    Played are cliques as large as its trust lasts, and a crowd of 1,000 for whom it vouches at once. By the theorem of
    the bounded region no plan brings more than (L - 1) * F / c^2 to s = .5, F being the account's trust mass.
    """
    passage = first_passage(ground.edges, ground.seeds, ground.size, policy.parameters)
    is_kept = ground.edges.voucher != regular
    edges = Edges(ground.edges.voucher[is_kept], ground.edges.subject[is_kept], ground.edges.weight[is_kept])
    without_own = Ground(edges, ground.seeds, ground.size)

    def enters(fakes: Integers) -> Pairs:
        return each_to_each(np.array([regular]), fakes)

    limit = most_passing(passage.mass[[regular]], policy.parameters)
    crowd = _play_fakes(without_own, enters(_fakes(without_own, CROWD)), CROWD, policy)
    plays = [*play_cliques(without_own, enters, limit, policy), crowd]
    return Stolen(regular, float(passage.trust[regular]), at_their_most(plays))


def regulars(ground: Ground, parameters: Parameters, most: int) -> Integers:
    """Up to `most` people with s >= .5, no seeds, evenly spaced from the most trusted down; the first is always in."""
    passage = first_passage(ground.edges, ground.seeds, ground.size, parameters)
    trusted = np.flatnonzero((passage.distance > 0) & (passage.trust >= HALF))
    ranked = trusted[np.argsort(-passage.mass[trusted], kind="stable")]
    places = np.linspace(0, len(ranked) - 1, min(most, len(ranked))).round().astype(np.int64)
    return ranked[np.unique(places)]


def most_passing(entering: Floats, parameters: Parameters) -> int:
    """Return how many fakes the theorem lets pass at most behind what enters."""
    mark = half_mass(parameters)
    return int((parameters.hops - 1) * entering.sum() / mark) if mark else 0


def play_cliques(ground: Ground, entering: Entering, limit: int, policy: Policy) -> list[Brought]:
    """Cliques of 1 to `limit` fakes behind the entering vouches."""
    sizes = np.unique(np.geomspace(1, max(limit, 12), RUNGS).round().astype(np.int64)).tolist()
    regions = [(size, _fakes(ground, size)) for size in sizes]
    return [
        _play_fakes(ground, np.concatenate([entering(fakes), each_to_each(fakes, fakes)]), size, policy)
        for size, fakes in regions
    ]


def _fakes(ground: Ground, count: int) -> Integers:
    return np.arange(ground.size, ground.size + count)


def _play_fakes(ground: Ground, pairs: Pairs, size: int, policy: Policy) -> Brought:
    """Return what `size` fakes with these vouches get."""
    fakes = _fakes(ground, size)
    attacked = Attack(with_pairs(ground.edges, pairs), ground.size + size, fakes, 1)
    trust = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters).trust[fakes]
    above, safe = trust >= HALF, np.ones(size, dtype=bool)
    if above.any() or lanes_of(trust, safe, RECORDS[-1], policy).fast:
        safe = standing_on_two(attacked, ground.seeds, policy.parameters)[fakes]
    fast = tuple(lanes_of(trust, safe, record, policy).fast for record in RECORDS)
    return Brought(int(above.sum()), int((above & safe).sum()), fast)


def at_their_most(plays: Sequence[Brought]) -> Brought:
    """Each count at its most."""
    fast = tuple(max(counts) for counts in zip(*(play.fast for play in plays), strict=True))
    return Brought(max(play.above for play in plays), max(play.on_two for play in plays), fast)


def each_to_each(vouchers: Integers, subjects: Integers) -> Pairs:
    """Everybody of the one for everybody of the other; a self-vouch among them is nothing."""
    return np.column_stack([np.repeat(vouchers, len(subjects)), np.tile(subjects, len(vouchers))]).astype(np.int64)
