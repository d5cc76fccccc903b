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

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Products that one slice of the triangle count may make: 4 M entries of 16 bytes stay below 100 MB.
SLICE_WORK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Vouches as three columns of one length: int64 voucher, int64 subject, float64 weight in (0, 1].

    Self-vouches count nothing; of several vouches for one pair the strongest counts; the order of rows is irrelevant.
    """

    voucher: Integers
    subject: Integers
    weight: Floats


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
    """First-passage trust of `size` people from `seeds`; zeros where no seed reaches. ValueError for unusable input.

    F_k is the trust that arrives first after k hops: W_k (all that arrives) less what had been there before and came
    back, R_2 and R_3 being the return over two and three hops. Linear in the vouches within reach, but for R_3, which
    looks at the neighbourhood of the seeds' subjects only.
    """
    flow = find_transfers(edges, seeds, size, parameters)
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


def find_transfers(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> Transfers:
    """What each vouch within reach passes on: A_uv = w * min(c, B / sum of u's weights), c * w from a seed.

    Self-vouches and vouches for a seed are dropped before the sum. Raises ValueError for an unknown person or a weight
    outside [0, 1].
    """
    seeds = _checked_people(seeds, size, "seed")
    voucher, subject, weight = _checked_edges(edges, size, heaviest=1.0)
    is_seed = np.zeros(size, dtype=bool)
    is_seed[seeds] = True
    kept = (voucher != subject) & ~is_seed[subject] & (weight > 0)
    voucher, subject, weight = voucher[kept], subject[kept], weight[kept]
    distance = _hops_from(voucher, subject, is_seed, parameters.hops)
    near = (distance[voucher] >= 0) & (distance[voucher] < parameters.hops)
    voucher, subject, weight = _strongest(voucher[near], subject[near], weight[near], size)
    given = np.bincount(voucher, weights=weight, minlength=size)
    rate = np.full(size, parameters.transfer)
    spends = (given > 0) & ~is_seed
    rate[spends] = np.minimum(parameters.transfer, parameters.budget / given[spends])
    return Transfers(voucher, subject, weight * rate[voucher], distance)


def eigentrust(
    edges: Edges,
    seeds: Integers,
    size: int,
    damping: float = 0.15,
    tolerance: float = 1e-9,
    limit: int = 200,
    start: Floats | None = None,
    pretrust: Floats | None = None,
) -> Floats:
    """Personalised EigenTrust: the share of a walk that returns to the seeds with probability `damping`; float64[size].

    t = (1 - a) (C^T t + d p) + a p with C the row-normalised vouches (any weight >= 0; self-vouches dropped), d the
    share that sits on people who vouch for nobody, p uniform over the seeds or the `pretrust` distribution. Iterated
    from p, or from `start` (an earlier result, possibly shorter), until the L1 change is at most `tolerance`, at most
    `limit` steps. Sums to 1; zeros where there is no seed. The baseline: one's own vouches move it (up to 3.6 times).
    """
    if not 0 <= damping <= 1:
        raise ValueError(f"damping must lie in [0, 1], not {damping}")
    voucher, subject, weight = _checked_edges(edges, size, heaviest=np.inf)
    seeds = _checked_people(seeds, size, "seed")
    home = _uniform(seeds, size) if pretrust is None else _distribution(pretrust, size)
    if not home.any():
        return np.zeros(size)
    kept = (voucher != subject) & (weight > 0)
    voucher, subject, weight = _strongest(voucher[kept], subject[kept], weight[kept], size)
    given = np.bincount(voucher, weights=weight, minlength=size)
    onward = _rows(voucher, subject, weight / given[voucher], size).T
    idle = given == 0
    walk = home if start is None else _distribution(start, size)
    if not walk.any():
        walk = home
    for _ in range(limit):
        following = (1 - damping) * (onward @ walk + walk[idle].sum() * home) + damping * home
        change = np.abs(following - walk).sum()
        walk = following
        if change <= tolerance:
            break
    return walk


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
    outward = _rows(flow.voucher[leaves], flow.subject[leaves], flow.amount[leaves], size)
    middle = _rows(flow.voucher[bridges], flow.subject[bridges], flow.amount[bridges], size)
    homeward = csr_array((flow.amount[enters], (flow.subject[enters], flow.voucher[enters])), shape=(size, size))
    people = np.flatnonzero(wanted)
    bridges_of = np.bincount(flow.voucher[bridges], minlength=size)
    work = np.bincount(flow.voucher[leaves], weights=bridges_of[flow.subject[leaves]], minlength=size)[people]
    cuts = np.flatnonzero(np.diff(np.cumsum(work) // SLICE_WORK)) + 1
    for part in np.split(people, cuts):
        returned[part] = (outward[part] @ middle).multiply(homeward[part]).sum(axis=1)
    return returned


def _hops_from(voucher: Integers, subject: Integers, is_seed: NDArray[np.bool_], hops: int) -> Integers:
    """Hops from the nearest seed along the vouches, -1 beyond `hops`."""
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, hops + 1):
        candidates = subject[distance[voucher] == hop - 1]
        distance[candidates[distance[candidates] < 0]] = hop
    return distance


def _strongest(voucher: Integers, subject: Integers, weight: Floats, size: int) -> tuple[Integers, Integers, Floats]:
    """The edges sorted by (voucher, subject), each pair once with its largest weight."""
    keys = voucher * size + subject
    if (keys[1:] > keys[:-1]).all():
        return voucher, subject, weight
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    firsts = order[starts]
    return voucher[firsts], subject[firsts], np.maximum.reduceat(weight[order], starts)


def _rows(voucher: Integers, subject: Integers, amount: Floats, size: int) -> csr_array:
    """A sparse size x size matrix from edges that are sorted by (voucher, subject)."""
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(voucher, minlength=size), out=starts[1:])
    return csr_array((amount, subject, starts), shape=(size, size))


def _checked_edges(edges: Edges, size: int, heaviest: float) -> tuple[Integers, Integers, Floats]:
    """The columns of `edges` with their types; ValueError where people or weights make no sense."""
    voucher = _checked_people(edges.voucher, size, "voucher")
    subject = _checked_people(edges.subject, size, "subject")
    weight = np.asarray(edges.weight, dtype=np.float64)
    if not len(voucher) == len(subject) == len(weight):
        raise ValueError("voucher, subject and weight must have one length")
    if not (np.isfinite(weight) & (weight >= 0) & (weight <= heaviest)).all():
        raise ValueError(f"the weight of a vouch must be a number in [0, {heaviest:g}]")
    return voucher, subject, weight


def _checked_people(people: Integers, size: int, role: str) -> Integers:
    """`people` as int64; ValueError names the first one outside 0..size-1."""
    ids = np.asarray(people, dtype=np.int64)
    unknown = (ids < 0) | (ids >= size)
    if unknown.any():
        raise ValueError(f"unknown {role} {ids[unknown][0]}: people are numbered 0 to {size - 1}")
    return ids


def _uniform(seeds: Integers, size: int) -> Floats:
    """The same share for each seed, a repeated one counted once; zeros without seeds."""
    shares = np.zeros(size)
    shares[seeds] = 1.0
    return shares / max(shares.sum(), 1.0)


def _distribution(values: Floats, size: int) -> Floats:
    """`values` scaled to sum 1 and filled up with zeros to `size`; ValueError for a negative or missing one."""
    shares = np.zeros(size)
    given = np.asarray(values, dtype=np.float64)
    if len(given) > size or not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(f"a distribution needs at most {size} values, each finite and 0 or more")
    shares[: len(given)] = given
    total = shares.sum()
    return shares / total if total > 0 else shares
