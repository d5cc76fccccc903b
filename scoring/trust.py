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
from scipy.sparse import csr_array

from scoring.graph import Edges, Floats, Integers, Network, checked_people, matrix_of, prepare

# Products that one slice of the triangle count may make: 4 M entries of 16 bytes stay below 100 MB.
SLICE_WORK = 4_000_000


@dataclass(frozen=True, slots=True)
class Parameters:
    """How trust flows: `transfer` c in [0, 1] for each vouch, `budget` B >= 0 for each person, `hops` L in 1..4.

    Raises ValueError for anything else. The bound of the region needs B <= 1.
    """

    transfer: float = 0.10
    budget: float = 1.0
    hops: int = 4

    def __post_init__(self) -> None:
        if not 0 <= self.transfer <= 1:
            raise ValueError(f"transfer must lie in [0, 1], not {self.transfer}")
        if not 0 <= self.budget < np.inf:
            raise ValueError(f"budget must be 0 or more and finite, not {self.budget}")
        if self.hops not in (1, 2, 3, 4):
            raise ValueError(f"hops must be 1, 2, 3 or 4, not {self.hops}")


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """What one seed set's trust can flow along: edges out of people fewer than L hops away, sorted, no pair twice.

    `amount` is A_uv in [0, 1]; `distance` has one entry for each person: hops from the nearest seed, 0 for a seed,
    -1 beyond reach.
    """

    voucher: Integers
    subject: Integers
    amount: Floats
    distance: Integers


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
    arriving = [(flow.distance == 0).astype(np.float64)]
    for _ in range(parameters.hops):
        passed = flow.amount * arriving[-1][flow.voucher]
        arriving.append(np.bincount(flow.subject, weights=passed, minlength=size))
    first = [wave.copy() for wave in arriving]
    if parameters.hops >= 3:
        back_in_two = _return_in_two(flow, (first[1] > 0) | (first[2] > 0))
        first[3] = np.maximum(arriving[3] - first[1] * back_in_two, 0.0)
    if parameters.hops == 4:
        back_in_three = _return_in_three(flow, first[1] > 0)
        first[4] = np.maximum(arriving[4] - first[1] * back_in_three - first[2] * back_in_two, 0.0)
    mass = np.sum(first[1:], axis=0)
    trust = np.divide(mass, mass + parameters.transfer**2, out=np.zeros(size), where=mass > 0)
    trust[flow.distance == 0] = 1.0
    return FirstPassage(mass, trust, flow.distance)


def passed_on(voucher: Integers, weight: Floats, unbounded: NDArray[np.bool_], parameters: Parameters) -> Floats:
    """What each edge passes on: A_uv = w * min(c, B / sum of u's weights); c * w if u is `unbounded` (bool[size])."""
    given = np.bincount(voucher, weights=weight, minlength=len(unbounded))
    rate = np.full(len(unbounded), parameters.transfer)
    spends = (given > 0) & ~unbounded
    rate[spends] = np.minimum(parameters.transfer, parameters.budget / given[spends])
    return weight * rate[voucher]


def find_transfers(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> Transfers:
    """What each vouch within reach passes on, for one seed set; `transfers_within` tells it of prepared vouches.

    Raises ValueError for an unknown person or a weight outside [0, 1].
    """
    return transfers_within(prepare(edges, size), seeds, parameters)


def transfers_within(network: Network, seeds: Integers, parameters: Parameters) -> Transfers:
    """What each vouch within reach passes on: A_uv = w * min(c, B / sum of u's weights), c * w from a seed.

    Vouches for a seed are dropped before the sum. Work grows with what the seeds reach, not with the network. Raises
    ValueError for an unknown seed.
    """
    seeds = checked_people(seeds, network.size, "seed")
    is_seed = np.zeros(network.size, dtype=bool)
    is_seed[seeds] = True
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, parameters.hops + 1):
        met = network.subject[network.places(np.flatnonzero(distance == hop - 1))]
        distance[met[distance[met] < 0]] = hop
    near = np.flatnonzero((distance >= 0) & (distance < parameters.hops))
    places = network.places(near)
    voucher = np.repeat(near, network.starts[near + 1] - network.starts[near])
    subject = network.subject[places]
    kept = ~is_seed[subject]
    voucher, subject, weight = voucher[kept], subject[kept], network.weight[places[kept]]
    return Transfers(voucher, subject, passed_on(voucher, weight, is_seed, parameters), distance)


def _return_in_two(flow: Transfers, wanted: NDArray[np.bool_]) -> Floats:
    """R_2(v): trust that v passes to somebody who passes it straight back; only for the people `wanted`."""
    size = len(flow.distance)
    returned = np.zeros(size)
    if len(flow.voucher):
        keys = flow.voucher * size + flow.subject
        outward = np.flatnonzero(wanted[flow.voucher])
        reverse = flow.subject[outward] * size + flow.voucher[outward]
        place = np.minimum(np.searchsorted(keys, reverse), len(keys) - 1)
        there_and_back = flow.amount[outward] * flow.amount[place] * (keys[place] == reverse)
        returned += np.bincount(flow.voucher[outward], weights=there_and_back, minlength=size)
    return returned


def _return_in_three(flow: Transfers, wanted: NDArray[np.bool_]) -> Floats:
    """R_3(v): trust that comes back to v after three hops; only for the people `wanted`.

    Only hops between somebody whom v vouches for and somebody who vouches for v can lie in the middle, so a star or a
    seed's ten thousand subjects cost nothing; the products are made in slices of bounded memory.
    """
    size = len(flow.distance)
    returned = np.zeros(size)
    leaves, enters = wanted[flow.voucher], wanted[flow.subject]
    follows, precedes = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    follows[flow.subject[leaves]] = True
    precedes[flow.voucher[enters]] = True
    bridges = follows[flow.voucher] & precedes[flow.subject]
    if not bridges.any():
        return returned
    outward = matrix_of(flow.voucher[leaves], flow.subject[leaves], flow.amount[leaves], size)
    middle = matrix_of(flow.voucher[bridges], flow.subject[bridges], flow.amount[bridges], size)
    homeward = csr_array((flow.amount[enters], (flow.subject[enters], flow.voucher[enters])), shape=(size, size))
    people = np.flatnonzero(wanted)
    bridges_of = np.bincount(flow.voucher[bridges], minlength=size)
    work = np.bincount(flow.voucher[leaves], weights=bridges_of[flow.subject[leaves]], minlength=size)[people]
    cuts = np.flatnonzero(np.diff(np.cumsum(work) // SLICE_WORK)) + 1
    for part in np.split(people, cuts):
        returned[part] = (outward[part] @ middle).multiply(homeward[part]).sum(axis=1)
    return returned


def hops_from(voucher: Integers, subject: Integers, is_seed: NDArray[np.bool_], hops: int) -> Integers:
    """Hops from the nearest seed along the vouches, -1 beyond `hops`."""
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, hops + 1):
        candidates = subject[distance[voucher] == hop - 1]
        distance[candidates[distance[candidates] < 0]] = hop
    return distance
