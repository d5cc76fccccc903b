"""An attack on a graph of vouches: fakes, vouches bought for them, and their own vouches. Pure.

The caller passes the random generator: the same seed gives the same attack.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.trust.graph import Edges, Integers

Generator = np.random.Generator
Pairs = NDArray[np.int64]  # [n, 2]: voucher, subject


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """The honest graph under attack: people 0..size-1 and the seeds among them."""

    edges: Edges
    seeds: Integers
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The fakes of one attack, ids `first`..`first + count - 1`, and the honest people whose vouches were bought."""

    first: int
    count: int
    vouchers: Integers

    @property
    def entries(self) -> int:
        """Return the number of fakes with a bought vouch, if each vouch is for another fake."""
        return min(self.count, len(self.vouchers))

    @property
    def fakes(self) -> Integers:
        """Return the ids of the fakes."""
        return np.arange(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Attack:
    """The graph with the attack; `fakes` are the last of its `size` people, `bought` counts vouches for them."""

    edges: Edges
    size: int
    fakes: Integers
    bought: int


Shape = Callable[[Ground, Region, Generator], Pairs]


def attack(ground: Ground, shape: Shape, vouchers: Integers, count: int, draw: Generator) -> Attack:
    """Add `count` fakes in a `shape` to the ground, with one bought vouch (weight 1) by each of `vouchers`.

    Raises ValueError without a fake or a voucher.
    """
    if count < 1 or not len(vouchers):
        raise ValueError("an attack needs a fake and a bought vouch")
    region = Region(ground.size, count, np.asarray(vouchers, dtype=np.int64))
    pairs = shape(ground, region, draw)
    return Attack(with_pairs(ground.edges, pairs), ground.size + count, region.fakes, len(vouchers))


def with_pairs(edges: Edges, pairs: Pairs, weight: float = 1.0) -> Edges:
    """Return the edges and, after them, a vouch of `weight` for every pair."""
    return Edges(
        np.concatenate([edges.voucher, pairs[:, 0]]),
        np.concatenate([edges.subject, pairs[:, 1]]),
        np.concatenate([edges.weight, np.full(len(pairs), weight)]),
    )


def choose_vouchers(trust: NDArray[np.float64], seeds: Integers, bought: int, top: float, draw: Generator) -> Integers:
    """Draw up to `bought` trusted people, no seeds, from the `top` share (0, 1] of the most trusted.

    `trust` is any score by person, above 0 for everybody in reach of the seeds.
    """
    able = np.flatnonzero(trust > 0)
    able = able[~np.isin(able, seeds)]
    ranked = able[np.argsort(-trust[able], kind="stable")]
    pool = ranked[: max(int(np.ceil(top * len(ranked))), min(bought, len(ranked)))]
    return draw.choice(pool, min(bought, len(pool)), replace=False).astype(np.int64)
