"""Measures the gain of an attack: fakes that count as trusted, and lanes that they reach with farmed merges. Pure.

The real gate judges, with the thresholds that serve. Less trust never improves a lane (a property of the gate that its
tests hold), so where the lane changes along the fakes in order of their trust is found by halving: a dozen judgements
tell the lanes of 10,000 fakes.
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

HALF = 0.5  # the s from which somebody counts as trusted


def half_mass(parameters: Parameters) -> float:
    """The trust mass at which s = .5: c^2, what one undiluted vouch two hops from a seed brings."""
    return parameters.transfer**2


def standing_on_two(attack: Attack, seeds: Integers, parameters: Parameters) -> NDArray[np.bool_]:
    """bool[size]: whose trust no single account that is no seed can end; false beyond reach."""
    flow = find_transfers(attack.edges, seeds, attack.size, parameters)
    nearest = immediate_dominators(flow, parameters.hops)
    return (flow.distance >= 0) & ~hangs_on_one(nearest, flow.distance)


def reached(ground: Ground) -> Integers:
    """Everybody whom vouches reach from the seeds in any number of hops, without the seeds, in order."""
    is_reached = np.zeros(ground.size, dtype=bool)
    is_reached[ground.seeds] = True
    count = 0
    while count != is_reached.sum():
        count = is_reached.sum()
        is_reached[ground.edges.subject[is_reached[ground.edges.voucher]]] = True
    is_reached[ground.seeds] = False
    return np.flatnonzero(is_reached)


RECORDS = (0, 5, 20)  # clean merges that were farmed for each fake
ORDER = (Lane.NEEDS_HUMAN, Lane.NORMAL_QUEUE, Lane.FAST_LANE)  # the more trust, the later


@dataclass(frozen=True, slots=True)
class Lanes:
    """The number of fakes in each lane where each has `record` clean merges and nothing else."""

    record: int
    fast: int
    normal: int
    human: int


def lanes_of(trust: Floats, on_two: NDArray[np.bool_], record: int, policy: Policy) -> Lanes:
    """The lanes of fakes with these s in [0, 1]; `on_two`: whose trust no single account but a seed can end."""
    counts = dict.fromkeys(Lane, 0)
    for sturdy in (False, True):
        ranked = np.sort(trust[on_two == sturdy])
        starts = _starts(ranked, sturdy, record, policy)
        for lane, first, end in zip(ORDER, starts, (*starts[1:], len(ranked)), strict=True):
            counts[lane] += end - first
    return Lanes(record, counts[Lane.FAST_LANE], counts[Lane.NORMAL_QUEUE], counts[Lane.NEEDS_HUMAN])


def _starts(ranked: Floats, sturdy: bool, record: int, policy: Policy) -> Sequence[int]:
    """Return where each lane begins among fakes in rising order of trust."""
    starts = [0]
    for lane in ORDER[1:]:
        low, high = starts[-1], len(ranked)
        while low < high:
            middle = (low + high) // 2
            reached = _lane_of(float(ranked[middle]), sturdy, record, policy)
            low, high = (low, middle) if ORDER.index(reached) >= ORDER.index(lane) else (middle + 1, high)
        starts.append(low)
    return starts


def _lane_of(trust: float, sturdy: bool, record: int, policy: Policy) -> Lane:
    """The gate's own word on one fake."""
    evidence = Evidence(
        clean=record, merged_here=record, settled_here=record, structural_trust=trust, one_account=not sturdy
    )
    return judge(evidence, policy.thresholds, policy.prior, policy.strength).lane
