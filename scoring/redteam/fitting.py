"""Simulates an attacker who knows the parameters and fits a clique of fakes to the trust of a stolen account. Pure.

Regions of the grid have fixed sizes. This attacker chooses the size so that each fake ends just above s = .5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.config.policy import Parameters, Policy
from scoring.redteam.attack import Attack, Ground, Pairs, with_pairs
from scoring.redteam.measures import HALF, RECORDS, count_lanes, half_mass, standing_on_two
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges, Floats, Integers

CROWD = 1_000
RUNGS = 24  # tried sizes, evenly spaced in their logarithm
Entering = Callable[[Integers], Pairs]  # the vouches that enter a region of these fakes


@dataclass(frozen=True, slots=True)
class Gains:
    """The largest gains of the plays of one attack, each count from its best play.

    `above`: fakes at s >= .5; `on_two`: those of them whose trust no single account but a seed can end; `fast`: fakes
    in the fast lane with 0, 5, 20 clean merges each (`measures.RECORDS`).
    """

    above: int
    on_two: int
    fast: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StolenAccount:
    """The gains from the stolen account `regular`, which had s = `trust`."""

    regular: int
    trust: float
    brought: Gains


def simulate_theft(ground: Ground, regular: int, policy: Policy) -> StolenAccount:
    """Return the most fakes that one account can bring to s = .5 and into the lane; it drops its other vouches.

    It tries cliques up to the limit of its trust, and a crowd of 1,000 with a direct vouch each. By the theorem of the
    bounded region no plan brings more than (L - 1) * F / c^2 fakes to s = .5, F being the account's trust mass.
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
    return StolenAccount(regular, float(passage.trust[regular]), largest_gains(plays))


def choose_regulars(ground: Ground, parameters: Parameters, most: int) -> Integers:
    """Return up to `most` people with s >= .5, no seeds, evenly spaced by trust, with the most trusted one."""
    passage = first_passage(ground.edges, ground.seeds, ground.size, parameters)
    trusted = np.flatnonzero((passage.distance > 0) & (passage.trust >= HALF))
    ranked = trusted[np.argsort(-passage.mass[trusted], kind="stable")]
    places = np.linspace(0, len(ranked) - 1, min(most, len(ranked))).round().astype(np.int64)
    return ranked[np.unique(places)]


def most_passing(entering: Floats, parameters: Parameters) -> int:
    """Return the theorem's bound on fakes at s = .5 for the trust mass that enters."""
    mark = half_mass(parameters)
    return int((parameters.hops - 1) * entering.sum() / mark) if mark else 0


def play_cliques(ground: Ground, entering: Entering, limit: int, policy: Policy) -> list[Gains]:
    """Simulate cliques of 1 to `limit` fakes behind the entering vouches."""
    sizes = np.unique(np.geomspace(1, max(limit, 12), RUNGS).round().astype(np.int64)).tolist()
    regions = [(size, _fakes(ground, size)) for size in sizes]
    return [
        _play_fakes(ground, np.concatenate([entering(fakes), each_to_each(fakes, fakes)]), size, policy)
        for size, fakes in regions
    ]


def _fakes(ground: Ground, count: int) -> Integers:
    return np.arange(ground.size, ground.size + count)


def _play_fakes(ground: Ground, pairs: Pairs, size: int, policy: Policy) -> Gains:
    """Return the gains of `size` fakes with these vouches."""
    fakes = _fakes(ground, size)
    attacked = Attack(with_pairs(ground.edges, pairs), ground.size + size, fakes, 1)
    trust = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters).trust[fakes]
    above, safe = trust >= HALF, np.ones(size, dtype=bool)
    if above.any() or count_lanes(trust, safe, RECORDS[-1], policy).fast:
        safe = standing_on_two(attacked, ground.seeds, policy.parameters)[fakes]
    fast = tuple(count_lanes(trust, safe, record, policy).fast for record in RECORDS)
    return Gains(int(above.sum()), int((above & safe).sum()), fast)


def largest_gains(plays: Sequence[Gains]) -> Gains:
    """Return the maximum of each count."""
    fast = tuple(max(counts) for counts in zip(*(play.fast for play in plays), strict=True))
    return Gains(max(play.above for play in plays), max(play.on_two for play in plays), fast)


def each_to_each(vouchers: Integers, subjects: Integers) -> Pairs:
    """Return pairs of each voucher with each subject; self-vouches among them have no effect."""
    return np.column_stack([np.repeat(vouchers, len(subjects)), np.tile(subjects, len(vouchers))]).astype(np.int64)
