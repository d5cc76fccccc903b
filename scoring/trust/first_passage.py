"""Structural trust: how far the seeds' trust reaches along vouches. Pure NumPy and SciPy, no clock, no store.

**Capped-budget first-passage trust.** A seed passes `c` of trust along each vouch (times its weight), anybody else at
most `c` along each and at most `B` times what they received in all; a walk ends after `L` hops. F(v) is the trust
that arrives at v *for the first time*; walks that come back to v do not count.

Theorem (value-sybilproof). F(v) does not depend on v's own vouches: a walk is cut at its first arrival at v, so no edge
that leaves v is ever used before it counts. This is the hitting-time argument of Hopcroft and Sheldon,
"Manipulation-Resistant Reputations Using Hitting Time" (Internet Mathematics 5, 2008: the score "does not depend on v's
outlinks"); Cheng and Friedman, "Sybilproof reputation mechanisms" (2005), show that only asymmetric, seed-based scores
can have this property. It holds for the value, not for the rank: others may fall when v drops them.

Theorem (bounded region). With B <= 1, for every set S of people without a seed, sum of F over S <= L * Phi, where
Phi = sum of A_us * W(u) over the vouches u -> s that cross into S and W(u) = trust that reaches u in fewer than L hops
(1 for a seed). Proof: F <= W; a row of A outside the seeds sums to at most 1 and no edge enters a seed, so what crosses
into S at one hop never grows afterwards and is counted at most once for each of the at most L hops. The size and the
shape of S do not appear.

Decay. F_k(v) is at most c times what reached v's vouchers at hop k - 1. With B <= 1 a person whom every walk reaches
through one account e therefore gets at most (L - 1) * c * F(e): c * F(e) directly, and as much again for each hop that
trust can be passed round behind e.

Structure alone cannot tell a fake for whom a highly trusted person vouches (docs/measurements.md).

`Transfers` hold how much of one seed set's trust each vouch passes on, and how far it reaches. The functions
`return_in_*` compute the trust that comes back, which first-passage trust leaves out; `starts` are the rows of the
transfers by voucher (`scoring.trust.graph.row_starts`). Each sum runs in the order of the transfers, so that equal
transfers give equal bits.

Personalised EigenTrust, the baseline that first-passage trust is compared with, stands at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scoring.config.policy import Parameters
from scoring.trust.graph import (
    Edges,
    Floats,
    Integers,
    Network,
    checked_edges,
    checked_seeds,
    matrix_of,
    order_by_subject,
    prepare,
    row_starts,
    stretches,
    strongest,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Edges that one seed set's trust can take, out of people fewer than L hops away; sorted, no pair twice.

    `amount` is A_uv in [0, 1]; `distance` has one entry for each person: hops from the nearest seed, 0 for a seed,
    -1 beyond reach.
    """

    voucher: Integers
    subject: Integers
    amount: Floats
    distance: Integers


def find_transfers(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> Transfers:
    """Compute what each vouch within reach passes on for one seed set (`transfers_within` takes prepared vouches).

    Raises ValueError for an unknown person, a weight outside [0, 1] or no seed.
    """
    return transfers_within(prepare(edges, size), seeds, parameters)


def transfers_within(network: Network, seeds: Integers, parameters: Parameters) -> Transfers:
    """Compute what each vouch within reach passes on: A_uv = w * min(c, B / sum of u's weights), c * w from a seed.

    Vouches for seeds are dropped before the sum. Work grows with what the seeds reach, not with the network. Raises
    ValueError for an unknown seed or none.
    """
    seeds = checked_seeds(seeds, network.size)
    is_seed = np.zeros(network.size, dtype=bool)
    is_seed[seeds] = True
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, parameters.hops):
        met = network.subject[network.places(np.flatnonzero(distance == hop - 1))]
        distance[met[distance[met] < 0]] = hop
    places = _places_out_of(network, distance >= 0, is_seed)
    voucher, subject, weight = network.voucher[places], network.subject[places], network.weight[places]
    met = np.zeros(network.size, dtype=bool)
    met[subject] = True
    distance[met & (distance < 0)] = parameters.hops
    return Transfers(voucher, subject, passed_on(voucher, weight, is_seed, parameters), distance)


def _places_out_of(network: Network, near: NDArray[np.bool_], is_seed: NDArray[np.bool_]) -> NDArray:
    """Return the vouches of the people `near` for non-seeds: as a mask where they are most, else as numbers."""
    people = np.flatnonzero(near)
    if 4 * (network.starts[people + 1] - network.starts[people]).sum() > len(network.subject):
        return near[network.voucher] & ~is_seed[network.subject]
    places = network.places(people)
    return places[~is_seed[network.subject[places]]]


def passed_on(voucher: Integers, weight: Floats, unbounded: NDArray[np.bool_], parameters: Parameters) -> Floats:
    """Return A_uv = w * min(c, B / sum of u's weights) of each edge; c * w if u is `unbounded` (bool[size])."""
    weight_given = np.bincount(voucher, weights=weight, minlength=len(unbounded))
    rate = np.full(len(unbounded), parameters.transfer)
    spends = (weight_given > 0) & ~unbounded
    rate[spends] = np.minimum(parameters.transfer, parameters.budget / weight_given[spends])
    return weight * rate[voucher]


def hops_from(voucher: Integers, subject: Integers, is_seed: NDArray[np.bool_], hops: int) -> Integers:
    """Return the hops from the nearest seed along the vouches, -1 beyond `hops`."""
    distance = np.where(is_seed, 0, -1)
    for hop in range(1, hops + 1):
        candidates = subject[distance[voucher] == hop - 1]
        distance[candidates[distance[candidates] < 0]] = hop
    return distance


# Walks of three hops in one slice, and the cells of its table: together they stay below 40 MB.
SLICE_WORK = 300_000
TABLE_CELLS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Bridges:
    """Middle hops by voucher: where the row of each person starts, the column of each subject, the amount."""

    starts: Integers
    column: Integers
    amount: Floats


def return_in_two(flow: Transfers, starts: Integers, wanted: NDArray[np.bool_]) -> Floats:
    """Return R_2(v): trust that v passes to a person who passes it straight back; only for the people `wanted`."""
    size = len(flow.distance)
    outward, _ = _rows(starts, np.flatnonzero(wanted))
    # In order, the look-ups walk through memory: 2 million among 7 million take .2 s instead of 2.3 s.
    outward = outward[order_by_subject(flow.voucher[outward], flow.subject[outward], size)]
    enters = np.flatnonzero(wanted[flow.subject])
    keys = flow.voucher[enters] * size + flow.subject[enters]
    back = flow.subject[outward] * size + flow.voucher[outward]
    place = np.searchsorted(keys, back)
    met = keys[np.minimum(place, len(keys) - 1)] == back if len(keys) else np.zeros(len(back), dtype=bool)
    home, there = enters[place[met]], outward[met]
    returned = np.bincount(flow.subject[home], weights=flow.amount[there] * flow.amount[home], minlength=size)
    return np.asarray(returned, dtype=np.float64)


def return_in_three(flow: Transfers, starts: Integers, wanted: NDArray[np.bool_]) -> Floats:
    """Return R_3(v): trust that comes back to v after three hops v -> a -> b -> v; only for the people `wanted`.

    Only hops a -> b from a subject of v to a voucher of v can lie in the middle, so a star or a seed's ten thousand
    subjects cost nothing. For a slice of people the amounts of b -> v are put into a table, and each way out to b is
    looked up in it: on 10 M vouches .2 s instead of .5 s for a sparse product.
    """
    size = len(flow.distance)
    returned = np.zeros(size)
    enters = np.flatnonzero(wanted[flow.subject])
    enters = enters[order_by_subject(flow.voucher[enters], flow.subject[enters], size)]
    enter_starts, enter_amount = row_starts(flow.subject[enters], size), flow.amount[enters]
    column, width = _columns(flow.voucher[enters], size)
    enter_column = column[flow.voucher[enters]]
    bridges = _bridges(flow, starts, wanted, column)
    rows = TABLE_CELLS // max(width, 1) + 1
    table = np.zeros(rows * width)
    for people in _slices(flow, starts, np.flatnonzero(wanted), bridges, rows):
        back, back_row = _rows(enter_starts, people)
        back_cell = back_row * width + enter_column[back]
        table[back_cell] = enter_amount[back]
        out, out_row = _rows(starts, people)
        home = flow.amount[out] * _sum_over_bridges(bridges, flow.subject[out], out_row * width, table)
        returned[people] = np.bincount(out_row, weights=home, minlength=len(people))
        table[back_cell] = 0.0
    return returned


def _sum_over_bridges(bridges: Bridges, followers: Integers, offset: Integers, table: Floats) -> Floats:
    """Return for each follower the sum over its bridges of their amount times the cell of `table`, from `offset` on."""
    first, last = bridges.starts[followers], bridges.starts[followers + 1]
    ways, lengths = stretches(first, last), last - first
    cell = bridges.column[ways]
    cell += np.repeat(offset, lengths)
    carried = table[cell]
    carried *= bridges.amount[ways]
    # One after the other: `np.add.reduceat` sums in blocks, so cells of other people, which are 0, would move bits.
    total = np.bincount(np.repeat(np.arange(len(followers)), lengths), weights=carried, minlength=len(followers))
    return np.asarray(total, dtype=np.float64)


def _columns(vouchers: Integers, size: int) -> tuple[Integers, int]:
    """Number the `vouchers` in order of person (-1 for anybody else), and count them."""
    column = np.full(size, -1)
    column[vouchers] = 0
    people = np.flatnonzero(column == 0)
    column[people] = np.arange(len(people))
    return column, len(people)


def _bridges(flow: Transfers, starts: Integers, returning: NDArray[np.bool_], column: Integers) -> Bridges:
    """Return the transfers from subjects of the `returning` people to people with a column."""
    follows = np.zeros_like(returning)
    leaves, _ = _rows(starts, np.flatnonzero(returning))
    follows[flow.subject[leaves]] = True
    places, _ = _rows(starts, np.flatnonzero(follows))
    places = places[column[flow.subject[places]] >= 0]
    rows = row_starts(flow.voucher[places], len(returning))
    return Bridges(rows, column[flow.subject[places]], flow.amount[places])


def _slices(flow: Transfers, starts: Integers, people: Integers, bridges: Bridges, most: int) -> Iterator[Integers]:
    """Split the people with a way out over a bridge into parts of bounded work and at most `most` people."""
    out, row = _rows(starts, people)
    work = np.bincount(row, weights=np.diff(bridges.starts)[flow.subject[out]], minlength=len(people))
    people, work = people[work > 0], work[work > 0]
    full = (np.cumsum(work) // SLICE_WORK).astype(np.int64)
    number = np.arange(len(people)) // most
    cuts = np.flatnonzero((np.diff(full) > 0) | (np.diff(number) > 0)) + 1
    return iter(np.split(people, cuts)) if len(people) else iter(())


def _rows(starts: Integers, people: Integers) -> tuple[Integers, Integers]:
    """Return the places of the rows of `people`, one after the other, and for each place its index in `people`."""
    first, last = starts[people], starts[people + 1]
    return stretches(first, last), np.repeat(np.arange(len(people)), last - first)


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
    """Weigh vouches by age: 2^(-age / half-life), at most 1; an age below 0 counts as 0. ValueError for NaN."""
    ages = np.asarray(age_days, dtype=np.float64)
    if not half_life_days > 0:
        raise ValueError(f"half_life_days must be above 0, not {half_life_days}")
    if np.isnan(ages).any():
        raise ValueError("the age of a vouch must be a number of days")
    return np.exp2(-np.maximum(ages, 0.0) / half_life_days)


def evidence_weights(pulls: Integers, base: float, each: float) -> Floats:
    """Weigh vouches by the verified pull requests that they name: base + each * pulls, at most 1, before ageing."""
    if not (0 < base <= 1 and 0 <= each <= 1):
        raise ValueError(f"a vouch weighs from above 0 to 1 and evidence 0 to 1, not {base} and {each}")
    return np.minimum(base + each * np.asarray(pulls, dtype=np.float64), 1.0)


def first_passage(edges: Edges, seeds: Integers, size: int, parameters: Parameters) -> FirstPassage:
    """Compute the trust of `size` people from `seeds`; zeros where no seed reaches. ValueError for unusable input."""
    return passage_along(find_transfers(edges, seeds, size, parameters), parameters)


def passage_along(flow: Transfers, parameters: Parameters) -> FirstPassage:
    """Compute first-passage trust along the transfers of one seed set.

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
    """Return s = F / (F + c^2) in [0, 1] of trust masses F >= 0; 1 for a seed."""
    trust = np.divide(mass, mass + parameters.transfer**2, out=np.zeros(len(mass)), where=mass > 0)
    trust[is_seed] = 1.0
    return trust


def _next_hop(flow: Transfers, starts: Integers, arriving: Floats) -> Floats:
    """Return the trust that arrives one hop after `arriving`; only the vouches of people with some are read."""
    people = np.flatnonzero(arriving)
    first, last = starts[people], starts[people + 1]
    most = 2 * (last - first).sum() > len(flow.subject)
    places = slice(None) if most else stretches(first, last)
    passed = flow.amount[places] * arriving[flow.voucher[places]]
    following = np.bincount(flow.subject[places], weights=passed, minlength=len(arriving))
    return np.asarray(following, dtype=np.float64)


DAMPING = 0.15  # probability with which the walk returns to the seeds


def eigentrust(
    edges: Edges,
    seeds: Integers,
    size: int,
    damping: float = DAMPING,
    tolerance: float = 1e-9,
    limit: int = 200,
    start: Floats | None = None,
    pretrust: Floats | None = None,
) -> Floats:
    """Return each person's share of a walk that returns to the seeds with probability `damping`; float64[size].

    t = (1 - a) (C^T t + d p) + a p with C the row-normalised vouches (any weight >= 0; self-vouches dropped), d the
    share that sits on people who vouch for nobody, p uniform over the seeds or the `pretrust` distribution. Iterated
    from p, or from `start` (an earlier result, possibly shorter), until the L1 change is at most `tolerance`, at most
    `limit` steps. Sums to 1. ValueError for unusable input. The baseline: one's own vouches move it (up to 3.6 times).
    """
    if not 0 <= damping <= 1:
        raise ValueError(f"damping must lie in [0, 1], not {damping}")
    onward, idle = _steps(edges, size)
    home = _uniform(checked_seeds(seeds, size), size) if pretrust is None else _distribution(pretrust, size)
    if not home.any():
        raise ValueError("the pretrust distribution is zero everywhere")
    shares = home if start is None else _distribution(start, size)
    if not shares.any():
        shares = home
    for _ in range(limit):
        following = (1 - damping) * (onward @ shares + shares[idle].sum() * home) + damping * home
        change = np.abs(following - shares).sum()
        shares = following
        if change <= tolerance:
            break
    return shares


def _steps(edges: Edges, size: int) -> "tuple[csr_array, NDArray[np.bool_]]":
    """Return subject x voucher shares and who vouches for nobody; ValueError for unknown people, unusable weights."""
    voucher, subject, weight = checked_edges(edges, size, heaviest=np.inf)
    counts = (voucher != subject) & (weight > 0)
    voucher, subject, weight = strongest(voucher[counts], subject[counts], weight[counts], size)
    weight_given = np.bincount(voucher, weights=weight, minlength=size)
    # By subject, so that a step reads the matrix in order: .11 s instead of .19 s on 10 M vouches.
    onward = matrix_of(voucher, subject, weight / weight_given[voucher], size).T.tocsr()
    return onward, weight_given == 0


def _uniform(seeds: Integers, size: int) -> Floats:
    """Return equal shares for all seeds, a repeated one counted once; zeros without seeds."""
    shares = np.zeros(size)
    shares[seeds] = 1.0
    return shares / max(shares.sum(), 1.0)


def _distribution(values: Floats, size: int) -> Floats:
    """Scale `values` to sum 1 and fill them up with zeros to `size`; ValueError for a negative or missing one."""
    shares = np.zeros(size)
    array = np.asarray(values, dtype=np.float64)
    if len(array) > size or not (np.isfinite(array) & (array >= 0)).all():
        raise ValueError(f"a distribution needs at most {size} values, each finite and 0 or more")
    shares[: len(array)] = array
    total = shares.sum()
    return shares / total if total > 0 else shares
