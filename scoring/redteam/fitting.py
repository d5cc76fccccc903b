"""The attacker who knows the parameters: a clique of fakes that is just as large as the trust behind it lasts. Pure.

The attack table has regions of fixed sizes. Whoever can compute what we compute sizes the region so that each fake ends
just above s = .5: behind a stolen account, or behind vouches bought from the most trusted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.graph import Edges, Floats, Integers
from scoring.redteam.attack import Attack, Generator, Ground, Pairs, choose_vouchers, with_pairs
from scoring.redteam.measures import HALF, half_mass, standing_on_two
from scoring.trust import Parameters, first_passage

CROWD = 1_000
RUNGS = 24  # sizes that are tried, evenly spaced in their logarithm
Entering = Callable[[Integers], Pairs]  # the vouches that enter a clique of these fakes


@dataclass(frozen=True, slots=True, eq=False)
class Stolen:
    """What somebody brings up who holds the account `regular`, which had s = `trust`, and vouches as it likes.

    `above`: fakes at s >= .5; `on_two`: those of them whose trust no single account but a seed can end, which is
    nobody; `crowd`: the s of 1,000 fakes for whom it vouches at once, for the gate to judge.
    """

    regular: int
    trust: float
    above: int
    on_two: int
    crowd: Floats


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fakes at s >= .5 for each of `bought` vouches from the `top` share, behind the best clique; the same `on_two`."""

    top: float
    bought: int
    above: float
    on_two: float


def steal(ground: Ground, regular: int, parameters: Parameters) -> Stolen:
    """The most fakes that one account can bring above s = .5; it drops its other vouches.

    By the theorem of the bounded region no plan brings more than (L - 1) * F / c^2, F being the account's trust mass.
    """
    found = first_passage(ground.edges, ground.seeds, ground.size, parameters)
    kept = ground.edges.voucher != regular
    edges = Edges(ground.edges.voucher[kept], ground.edges.subject[kept], ground.edges.weight[kept])
    turned = Ground(edges, ground.seeds, ground.size)
    limit = _most(found.mass[[regular]], parameters)
    passing, safe = _best(turned, lambda fakes: _each_to_each(np.array([regular]), fakes), limit, parameters)
    crowd = np.arange(ground.size, ground.size + CROWD)
    under = Attack(with_pairs(edges, _each_to_each(np.array([regular]), crowd)), ground.size + CROWD, crowd, 1)
    trust = first_passage(under.edges, ground.seeds, under.size, parameters).trust[crowd]
    return Stolen(regular, float(found.trust[regular]), passing, safe, trust)


def fit(ground: Ground, bought: int, top: float, parameters: Parameters, draw: Generator) -> Fitted:
    """The best clique behind `bought` vouches from the `top` share: all on one hub, or each on another fake."""
    mass = first_passage(ground.edges, ground.seeds, ground.size, parameters).mass
    vouchers = choose_vouchers(mass, ground.seeds, bought, top, draw)

    def on_hub(fakes: Integers) -> Pairs:
        return _each_to_each(vouchers, fakes[:1])

    def spread(fakes: Integers) -> Pairs:
        return np.column_stack([vouchers, fakes[np.arange(len(vouchers)) % len(fakes)]])

    limit = _most(mass[vouchers] * parameters.transfer, parameters)
    found = [_best(ground, entering, limit, parameters) for entering in (on_hub, spread)]
    passing, safe = (max(counts) / max(len(vouchers), 1) for counts in zip(*found, strict=True))
    return Fitted(top, bought, passing, safe)


def regulars(ground: Ground, parameters: Parameters, most: int) -> Integers:
    """Up to `most` people with s >= .5, no seeds, evenly spaced from the most trusted down; the first is always in."""
    found = first_passage(ground.edges, ground.seeds, ground.size, parameters)
    trusted = np.flatnonzero((found.distance > 0) & (found.trust >= HALF))
    ranked = trusted[np.argsort(-found.mass[trusted], kind="stable")]
    places = np.linspace(0, len(ranked) - 1, min(most, len(ranked))).round().astype(np.int64)
    return ranked[np.unique(places)]


def _most(entering: Floats, parameters: Parameters) -> int:
    """How many fakes the theorem lets pass at most behind what enters."""
    mark = half_mass(parameters)
    return int((parameters.hops - 1) * entering.sum() / mark) if mark else 0


def _best(ground: Ground, entering: Entering, limit: int, parameters: Parameters) -> tuple[int, int]:
    """The most fakes above s = .5 over cliques of 1 to `limit`, and the most of those who hang on no single account."""
    sizes = np.unique(np.geomspace(1, max(limit, 12), RUNGS).round().astype(np.int64)).tolist()
    played = [_played(ground, entering, size, parameters) for size in sizes]
    return max(int(passing.sum()) for passing, _ in played), max(int((one & two).sum()) for one, two in played)


def _played(
    ground: Ground, entering: Entering, size: int, parameters: Parameters
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of a clique of `size` fakes pass s = .5, and which of them stand on two."""
    fakes = np.arange(ground.size, ground.size + size)
    inside = _each_to_each(fakes, fakes)
    edges = with_pairs(ground.edges, np.concatenate([entering(fakes), inside]))
    under = Attack(edges, ground.size + size, fakes, 1)
    passing = first_passage(edges, ground.seeds, under.size, parameters).trust[fakes] >= HALF
    if not passing.any():
        return passing, passing
    return passing, standing_on_two(under, ground.seeds, parameters)[fakes]


def _each_to_each(vouchers: Integers, subjects: Integers) -> Pairs:
    """Everybody of the one for everybody of the other; a self-vouch among them is nothing."""
    return np.column_stack([np.repeat(vouchers, len(subjects)), np.tile(subjects, len(vouchers))]).astype(np.int64)
