"""Structural trust: how much the seeds' vouches say about everybody else. Pure NumPy and SciPy, no clock, no store.

**Capped-budget first-passage trust.** A seed passes `c` of trust along each vouch (times its weight), anybody else at
most `c` along each and at most `B` times what they received in all; a walk ends after `L` hops. F(v) is the trust
that arrives at v *for the first time*; walks that come back to v are taken out.

Theorem (value-sybilproof). F(v) does not depend on v's own vouches: a walk is cut at its first arrival at v, so no edge
that leaves v is ever used before it counts. This is the hitting-time argument of Hopcroft and Sheldon,
"Manipulation-Resistant Reputations Using Hitting Time" (Internet Mathematics 5, 2008: the score "does not depend on v's
outlinks"); Cheng and Friedman, "Sybilproof reputation mechanisms" (2005), show that only asymmetric, seed-based scores
can have it. It holds for the value, not for the rank: others may fall when v drops them.

Theorem (bounded region). With B <= 1, for every set S of people without a seed, sum of F over S <= L * Phi, where
Phi = sum of A_us * W(u) over the vouches u -> s that cross into S and W(u) = trust that reaches u in fewer than L hops
(1 for a seed). Proof: F <= W; a row of A outside the seeds sums to at most 1 and no edge enters a seed, so what crosses
into S at one hop never grows afterwards and is counted at most once for each of the at most L hops. The size and the
shape of S do not appear.

Decay. F_k(v) is at most c times what reached v's vouchers at hop k - 1. With B <= 1 somebody whom every walk reaches
through one account e therefore gets at most (L - 1) * c * F(e): c * F(e) directly, and as much again for each hop that
trust can be passed round behind e.

Structure alone cannot tell a fake apart that a highly trusted person vouches for; see the measurements of the project.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.graph import Edges, Floats, Integers, row_starts, stretches
from scoring.policy import Parameters
from scoring.returns import return_in_three, return_in_two
from scoring.transfers import Transfers, find_transfers


@dataclass(frozen=True, slots=True, eq=False)
class FirstPassage:
    """Trust of everybody from one seed set, indexed by person.

    `mass` is F >= 0 (0 for a seed: nothing flows back), `trust` is s = F / (F + c^2) in [0, 1] (1 for a seed),
    `distance` counts hops from the nearest seed (0 for a seed, -1 beyond reach).
    """

    mass: Floats
    trust: Floats
    distance: Integers


def vouch_weights(age_days: Floats, half_life_days: float) -> Floats:
    """Weight of a vouch by its age: 2^(-age / half-life), at most 1; an age below 0 counts as 0. ValueError for NaN."""
    ages = np.asarray(age_days, dtype=np.float64)
    if not half_life_days > 0:
        raise ValueError(f"half_life_days must be above 0, not {half_life_days}")
    if np.isnan(ages).any():
        raise ValueError("the age of a vouch must be a number of days")
    return np.exp2(-np.maximum(ages, 0.0) / half_life_days)


def evidence_weights(pulls: Integers, base: float, each: float) -> Floats:
    """Weight of a vouch before it ages, by the verified pull requests that it names: base + each * pulls, at most 1."""
    if not (0 < base <= 1 and 0 <= each <= 1):
        raise ValueError(f"a vouch weighs from above 0 to 1 and evidence 0 to 1, not {base} and {each}")
    return np.minimum(base + each * np.asarray(pulls, dtype=np.float64), 1.0)


def first_passage(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> FirstPassage:
    """First-passage trust of `size` people from `seeds`; zeros where no seed reaches. ValueError for unusable input."""
    return passage_along(find_transfers(edges, seeds, size, parameters), parameters)


def passage_along(flow: Transfers, parameters: Parameters) -> FirstPassage:
    """First-passage trust along the transfers of one seed set.

    F_k is the trust that arrives first after k hops: W_k (all that arrives) less what had been there before and came
    back, R_2 and R_3 being the return over two and three hops. Linear in the vouches within reach, but for R_3, which
    looks at the neighbourhood of the seeds' subjects only.
    """
    size = len(flow.distance)
    starts = row_starts(flow.voucher, size)
    arriving = [(flow.distance == 0).astype(np.float64)]
    for _ in range(parameters.hops):
        arriving.append(_next_hop(flow, starts, arriving[-1]))
    first = [wave.copy() for wave in arriving]
    if parameters.hops >= 3:
        back_in_two = return_in_two(flow, starts, (first[1] > 0) | (first[2] > 0))
        first[3] = np.maximum(arriving[3] - first[1] * back_in_two, 0.0)
    if parameters.hops == 4:
        back_in_three = return_in_three(flow, starts, first[1] > 0)
        first[4] = np.maximum(arriving[4] - first[1] * back_in_three - first[2] * back_in_two, 0.0)
    mass = np.sum(first[1:], axis=0)
    return FirstPassage(mass, trust_of(mass, parameters, flow.distance == 0), flow.distance)


def trust_of(mass: Floats, parameters: Parameters, is_seed: NDArray[np.bool_]) -> Floats:
    """s = F / (F + c^2) in [0, 1] of trust masses F >= 0; 1 for a seed."""
    trust = np.divide(mass, mass + parameters.transfer**2, out=np.zeros(len(mass)), where=mass > 0)
    trust[is_seed] = 1.0
    return trust


def _next_hop(flow: Transfers, starts: Integers, arriving: Floats) -> Floats:
    """What arrives one hop after `arriving`; the first hops start from few people, so only their vouches are read."""
    people = np.flatnonzero(arriving)
    first, last = starts[people], starts[people + 1]
    most = 2 * (last - first).sum() > len(flow.subject)
    places = slice(None) if most else stretches(first, last)
    passed = flow.amount[places] * arriving[flow.voucher[places]]
    following = np.bincount(flow.subject[places], weights=passed, minlength=len(arriving))
    return np.asarray(following, dtype=np.float64)
