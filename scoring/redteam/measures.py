"""Measures the gain of an attack: fakes that count as trusted, and lanes that they reach with farmed merges. Pure.

The real gate judges with the serving thresholds. Less trust never improves a lane (the gate's tests hold that), so a
binary search over fakes in order of trust finds the changes of lane: a dozen judgements for 10,000 fakes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.config.policy import Parameters, Policy
from scoring.gate.decide import judge
from scoring.redteam.attack import Attack, Ground
from scoring.trust.dominators import hangs_on_one, immediate_dominators
from scoring.trust.first_passage import find_transfers
from scoring.trust.graph import Floats, Integers
from scoring.types import Evidence, Lane

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
    """Return the gate's lane for one fake."""
    evidence = Evidence(
        clean=record, merged_here=record, settled_here=record, structural_trust=trust, one_account=not sturdy
    )
    return judge(evidence, policy.thresholds, policy.prior, policy.strength).lane
