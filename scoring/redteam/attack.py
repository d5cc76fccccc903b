"""An attack on a graph of vouches, the gain that it brings, and an attacker who fits it to the parameters. Pure.

The caller passes the random generator: the same seed gives the same attack. The gain is counted in fakes that count as
trusted, and in lanes that they reach with farmed merges. The real gate judges with the serving thresholds. Less trust
never improves a lane (the gate's tests hold that), so a binary search over fakes in order of trust finds the changes of
lane: a dozen judgements for 10,000 fakes.

Regions of the grid have fixed sizes. The attacker who knows the parameters steals an account and chooses the size of a
clique so that each fake ends just above s = .5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.config.policy import Parameters, Policy
from scoring.gate.decide import judge
from scoring.trust.first_passage import find_transfers, first_passage
from scoring.trust.graph import Edges, Floats, Integers
from scoring.trust.paths import hangs_on_one, immediate_dominators
from scoring.types import Evidence, Lane

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


HALF = 0.5  # people with at least this s count as trusted


def half_mass(parameters: Parameters) -> float:
    """Return the trust mass at s = .5: c^2, that of one undiluted vouch two hops from a seed."""
    return parameters.transfer**2


def standing_on_two(attack: Attack, seeds: Integers, parameters: Parameters) -> NDArray[np.bool_]:
    """Return a mask of people whose trust no single account besides seeds can end; False beyond reach."""
    flow = find_transfers(attack.edges, seeds, attack.size, parameters)
    nearest = immediate_dominators(flow, parameters.hops)
    return (flow.distance >= 0) & ~hangs_on_one(nearest, flow.distance)


def people_reached(ground: Ground) -> Integers:
    """Return all people in reach of the seeds by vouches, without the seeds, in order."""
    is_reached = np.zeros(ground.size, dtype=bool)
    is_reached[ground.seeds] = True
    count = 0
    while count != is_reached.sum():
        count = is_reached.sum()
        is_reached[ground.edges.subject[is_reached[ground.edges.voucher]]] = True
    is_reached[ground.seeds] = False
    return np.flatnonzero(is_reached)


RECORDS = (0, 5, 20)  # farmed clean merges of each fake
ORDER = (Lane.NEEDS_HUMAN, Lane.NORMAL_QUEUE, Lane.FAST_LANE)  # the more trust, the later


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """The number of fakes in each lane, each with `record` clean merges and no other record."""

    record: int
    fast: int
    normal: int
    human: int


def count_lanes(trust: Floats, on_two: NDArray[np.bool_], record: int, policy: Policy) -> LaneCounts:
    """Count the lanes of fakes with these s in [0, 1]; `on_two`: no single account but a seed can end their trust."""
    counts = dict.fromkeys(Lane, 0)
    for sturdy in (False, True):
        ranked = np.sort(trust[on_two == sturdy])
        starts = _lane_starts(ranked, sturdy, record, policy)
        for lane, first, end in zip(ORDER, starts, (*starts[1:], len(ranked)), strict=True):
            counts[lane] += end - first
    return LaneCounts(record, counts[Lane.FAST_LANE], counts[Lane.NORMAL_QUEUE], counts[Lane.NEEDS_HUMAN])


def _lane_starts(ranked: Floats, sturdy: bool, record: int, policy: Policy) -> Sequence[int]:
    """Return the start of each lane among fakes in ascending order of trust."""
    starts = [0]
    for lane in ORDER[1:]:
        low, high = starts[-1], len(ranked)
        while low < high:
            middle = (low + high) // 2
            middle_lane = _lane_of(float(ranked[middle]), sturdy, record, policy)
            low, high = (low, middle) if ORDER.index(middle_lane) >= ORDER.index(lane) else (middle + 1, high)
        starts.append(low)
    return starts


def _lane_of(trust: float, sturdy: bool, record: int, policy: Policy) -> Lane:
    evidence = Evidence(
        clean=record, merged_here=record, settled_here=record, structural_trust=trust, one_account=not sturdy
    )
    return judge(evidence, policy.thresholds, policy.prior, policy.strength).lane


CROWD = 1_000
RUNGS = 24  # tried sizes, evenly spaced in their logarithm
Entering = Callable[[Integers], Pairs]  # the vouches that enter a region of these fakes


@dataclass(frozen=True, slots=True)
class Gains:
    """The largest gains of the plays of one attack, each count from its best play.

    `above`: fakes at s >= .5; `on_two`: those of them whose trust no single account but a seed can end; `fast`: fakes
    in the fast lane with 0, 5, 20 clean merges each (`RECORDS`).
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
    sizes = np.unique(np.geomspace(1, max(limit, 12), RUNGS).round().astype(np.int64)).tolist()
    regions = [(size, _fakes(ground, size)) for size in sizes]
    return [
        _play_fakes(ground, np.concatenate([entering(fakes), each_to_each(fakes, fakes)]), size, policy)
        for size, fakes in regions
    ]


def _fakes(ground: Ground, count: int) -> Integers:
    return np.arange(ground.size, ground.size + count)


def _play_fakes(ground: Ground, pairs: Pairs, size: int, policy: Policy) -> Gains:
    fakes = _fakes(ground, size)
    attacked = Attack(with_pairs(ground.edges, pairs), ground.size + size, fakes, 1)
    trust = first_passage(attacked.edges, ground.seeds, attacked.size, policy.parameters).trust[fakes]
    above, safe = trust >= HALF, np.ones(size, dtype=bool)
    if above.any() or count_lanes(trust, safe, RECORDS[-1], policy).fast:
        safe = standing_on_two(attacked, ground.seeds, policy.parameters)[fakes]
    fast = tuple(count_lanes(trust, safe, record, policy).fast for record in RECORDS)
    return Gains(int(above.sum()), int((above & safe).sum()), fast)


def largest_gains(plays: Sequence[Gains]) -> Gains:
    fast = tuple(max(counts) for counts in zip(*(play.fast for play in plays), strict=True))
    return Gains(max(play.above for play in plays), max(play.on_two for play in plays), fast)


def each_to_each(vouchers: Integers, subjects: Integers) -> Pairs:
    """Return pairs of each voucher with each subject; self-vouches among them have no effect."""
    return np.column_stack([np.repeat(vouchers, len(subjects)), np.tile(subjects, len(vouchers))]).astype(np.int64)
