"""Trust of a few people from one seed set, by a search that is bounded on both sides. Pure NumPy.

A walk of at most L vouches from a seed to one of these people leaves the seeds by its first L - 2 vouches, enters the
people by its last one, and has one between: so forwards two hops are read, backwards two, and nothing else of the
network. At 100,000 people and 1,000,000 vouches that takes some milliseconds for a seed set, where everybody's trust
takes 300 to 900. Sums run in the order of `scoring.trust.first_passage`, so that every value is equal to that one in
every bit; leaving out a summand of 0 changes none.

Denounces need the trust by vouches alone of all who denounce or are denounced, so these people are searched for first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from scoring.config.policy import Parameters
from scoring.trust.denounces import share_left, weigh
from scoring.trust.first_passage import (
    FirstPassage,
    Transfers,
    return_in_three,
    return_in_two,
    trust_of,
)
from scoring.trust.graph import Floats, Integers, Network, order_by_subject, row_starts, stretches
from scoring.trust.paths import NOBODY

Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Incoming:
    """Vouches sorted by (subject, voucher), prepared once for every seed set, with `denounces` beside them.

    The vouches for person v stand at starts[v] to starts[v + 1]; `place` is the place of each in `vouches`, and `rank`
    the place here of each of those. `rate` is what each person passes on of a unit while none of their vouches is for a
    seed.
    """

    vouches: Network
    denounces: Network
    starts: Integers
    voucher: Integers
    subject: Integers
    weight: Floats
    place: Integers
    rank: Integers
    rate: Floats
    parameters: Parameters


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """Trust of a few people, each column in their order.

    `reached`: by vouches alone. `chain` is the strongest path as in `strongest_chains`; `dominator` the account, not a
    seed, whose loss would end the trust (-1: none).
    `other_ways` are voucher and subject of the vouches by which a second seed certainly reaches the subject: the
    voucher's own strongest path, one vouch shorter than the longest, begins at another seed. The others are those of
    `Denounced`.
    """

    reached: Marks
    mass: Floats
    distance: Integers
    chain: Integers
    dominator: Integers
    other_ways: tuple[Integers, Integers]
    by_seed: Marks
    trusted_denouncers: Integers
    weight: Floats
    keep: Floats


def prepare_incoming(vouches: Network, denounces: Network, parameters: Parameters) -> Incoming:
    """Sort vouches by subject, and compute what everybody passes on whose vouches are not for seeds."""
    order = order_by_subject(vouches.voucher, vouches.subject, vouches.size)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    subject = vouches.subject[order]
    nobody = np.zeros(vouches.size, dtype=bool)
    given = np.asarray(np.bincount(vouches.voucher, weights=vouches.weight, minlength=vouches.size), np.float64)
    rate = _rates(given, nobody, parameters)
    starts = row_starts(subject, vouches.size)
    return Incoming(
        vouches=vouches,
        denounces=denounces,
        starts=starts,
        voucher=vouches.voucher[order],
        subject=subject,
        weight=vouches.weight[order],
        place=order,
        rank=rank,
        rate=rate,
        parameters=parameters,
    )


def judge_few(incoming: Incoming, seeds: Integers, people: Integers, strength: float) -> Few:
    """Compute the trust of `people`, in rising order, from `seeds`; equal in every bit to that of `judge_within`."""
    is_seed = np.zeros(incoming.vouches.size, dtype=bool)
    is_seed[seeds] = True
    rate = _rates_beside(incoming, seeds, is_seed)
    whole = _Search(incoming, is_seed, rate, np.ones(len(is_seed)))
    steps, quarrel = whole.steps(people), incoming.denounces
    distance = whole.distances(steps)
    matters = whole.read_inflows(steps, people, distance)[quarrel.subject]
    if not matters.any():
        nobody, nothing = np.zeros(len(people), dtype=np.int64), np.zeros(len(people))
        return _told(whole, steps, people, (distance >= 0, distance), (nobody > 0, nobody, nothing, nothing + 1))
    wanted = np.unique(np.concatenate([people, quarrel.voucher[matters], quarrel.subject[matters]]))
    steps, mass = whole.steps(wanted), np.zeros(len(is_seed))
    mass[wanted] = whole.mass(steps, wanted)
    first = FirstPassage(mass, trust_of(mass, incoming.parameters, is_seed), np.where(is_seed, 0, -1))
    weight, trusted, by_seed = weigh(quarrel, first, incoming.parameters)
    keep = share_left(weight * strength, mass)
    keep[by_seed] = 0.0
    reached, left = whole.distances(steps) >= 0, _Search(incoming, is_seed, rate, keep)
    denounced, steps = (by_seed[people], trusted[people], weight[people], keep[people]), left.steps(people)
    return _told(left, steps, people, (reached, left.distances(steps)), denounced)


def _told(
    search: "_Search",
    steps: "Sequence[_Step]",
    people: Integers,
    reach: tuple[Marks, Integers],
    denounced: tuple[Marks, Integers, Floats, Floats],
) -> Few:
    """Put together what a search found of `people`.

    `reach` is of everybody: by vouches alone, and the distance; `denounced` holds the last four columns of `Few`.
    """
    chain, ways = _strongest(search, steps, people)
    return Few(
        reach[0][people],
        search.mass(steps, people),
        reach[1][people],
        chain,
        _dominators(search, steps, people),
        ways,
        *denounced,
    )


def _rates(given: Floats, is_seed: Marks, parameters: Parameters) -> Floats:
    """Return what each person passes on of a unit whose vouches weigh this much together."""
    rate = np.full(len(given), parameters.transfer)
    spends = (given > 0) & ~is_seed
    rate[spends] = np.minimum(parameters.transfer, parameters.budget / given[spends])
    return rate


def _rates_beside(incoming: Incoming, seeds: Integers, is_seed: Marks) -> Floats:
    """Return everybody's rate where vouches for seeds do not count: only busy people who have some change theirs."""
    rate, network = incoming.rate.copy(), incoming.vouches
    rate[seeds] = incoming.parameters.transfer
    into = incoming.voucher[stretches(incoming.starts[seeds], incoming.starts[seeds + 1])]
    busy = np.unique(into[incoming.rate[into] < incoming.parameters.transfer])
    busy = busy[~is_seed[busy]]
    places = network.places(busy)
    places = places[~is_seed[network.subject[places]]]
    row = np.searchsorted(busy, network.voucher[places])
    given = np.asarray(np.bincount(row, weights=network.weight[places], minlength=len(busy)), np.float64)
    rate[busy] = _rates(given, is_seed[busy], incoming.parameters)
    return rate


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Vouches that the hop of one number takes, sorted by (subject, voucher), with what they pass on.

    `starts` begins the vouches of each of the `reached`.
    """

    voucher: Integers
    subject: Integers
    amount: Floats
    starts: Integers
    reached: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """One seed set on the network, with what everybody passes on and what is kept of everybody's inflow."""

    incoming: Incoming
    is_seed: Marks
    rate: Floats
    keep: Floats

    def steps(self, people: Integers) -> list[_Step]:
        """Return the vouches of each hop on walks to `people`: those of the first L - 2, then what leads to them.

        Of the hop before the last two only vouches for people who lead on to them.
        """
        incoming, hops = self.incoming, self.incoming.parameters.hops
        found, steps = self.is_seed.copy(), list[_Step]()
        before = self._distinct(people, incoming.voucher[self._into(people)])
        leads_on = np.zeros(len(found), dtype=bool)
        leads_on[before], leads_on[incoming.voucher[self._into(before)]] = True, True
        for hop in range(hops - 2):
            places = incoming.vouches.places(np.flatnonzero(found))
            if hop == hops - 3:
                places = places[leads_on[incoming.vouches.subject[places]]]
            steps.append(self._step(np.sort(incoming.rank[places])))
            found[steps[-1].reached] = True
        for rows in (before, people)[-hops:]:
            places = self._into(rows)
            steps.append(self._step(places[found[incoming.voucher[places]]]))
            found[steps[-1].reached] = True
        return steps

    def read_inflows(self, steps: Sequence[_Step], people: Integers, distance: Integers) -> Marks:
        """Mark everybody whose inflow the trust of `people` depends on: on the way there, and on ways back to them."""
        read, network = np.zeros(len(self.is_seed), dtype=bool), self.incoming.vouches
        read[people] = True
        for step in steps:
            read[step.reached] = True
        near = people[(distance[people] > 0) & (distance[people] <= 2)]
        behind = network.subject[network.places(near)]
        nearest = people[distance[people] == 1]
        further = self._distinct(network.subject[network.places(nearest)])
        read[behind], read[network.subject[network.places(further)]] = True, True
        return read

    def _distinct(self, *people: Integers) -> Integers:
        """Return all of these people in rising order; `np.unique` took a hundred times as long for 500,000."""
        marked = np.zeros(len(self.is_seed), dtype=bool)
        for part in people:
            marked[part] = True
        return np.flatnonzero(marked)

    def _into(self, people: Integers) -> Integers:
        return stretches(self.incoming.starts[people], self.incoming.starts[people + 1])

    def _step(self, places: Integers) -> _Step:
        """Return these vouches without those for seeds or for people with no inflow left."""
        subject = self.incoming.subject[places]
        carries = (self.keep[subject] > 0) & ~self.is_seed[subject]
        places, subject = places[carries], subject[carries]
        voucher = self.incoming.voucher[places]
        starts = np.flatnonzero(np.diff(subject, prepend=NOBODY))
        amount = self.incoming.weight[places] * self.rate[voucher] * self.keep[subject]
        return _Step(voucher, subject, amount, starts, subject[starts])

    def distances(self, steps: Sequence[_Step]) -> Integers:
        """Return the hops from the nearest seed, of those who are on the way to the people searched for."""
        distance = np.where(self.is_seed, 0, -1)
        for hop, step in enumerate(steps, 1):
            usable = distance[step.voucher] >= 0
            met = step.subject[usable]
            distance[met[distance[met] < 0]] = hop
        return distance

    def mass(self, steps: Sequence[_Step], people: Integers) -> Floats:
        """Return F of `people`, as `passage_along` computes it."""
        size, arriving, first = len(self.is_seed), self.is_seed.astype(np.float64), list[Floats]()
        for step in steps:
            passed = step.amount * arriving[step.voucher]
            arriving = np.asarray(np.bincount(step.subject, weights=passed, minlength=size), np.float64)
            first.append(arriving[people])
        if len(first) >= 3:
            back_in_two = self._returned(people, (first[0] > 0) | (first[1] > 0), 2)
            first[2] = np.maximum(first[2] - first[0] * back_in_two, 0.0)
        if len(first) == 4:
            back_in_three = self._returned(people, first[0] > 0, 3)
            first[3] = np.maximum(first[3] - first[0] * back_in_three - first[1] * back_in_two, 0.0)
        return reduce(np.add, first)

    def _returned(self, people: Integers, wanted: Marks, hops: int) -> Floats:
        """Return what comes back after two or three hops to those of `people` who are `wanted`; 0 for the others."""
        returned, some = np.zeros(len(people)), people[wanted]
        if not len(some):
            return returned
        flow, members = self._around(some, hops)
        place = np.searchsorted(members, some)
        asked = np.zeros(len(members), dtype=bool)
        asked[place] = True
        back = return_in_two if hops == 2 else return_in_three
        returned[wanted] = back(flow, row_starts(flow.voucher, len(members)), asked)[place]
        return returned

    def _around(self, people: Integers, hops: int) -> tuple[Transfers, Integers]:
        """Return all transfers that lead from `people` back in so many hops, and who the numbers in them are."""
        network = self.incoming.vouches
        leads = np.zeros(len(network.subject), dtype=bool)
        out = network.places(people)
        leads[out] = True
        if hops == 3:
            leads[network.places(self._distinct(network.subject[out]))] = True
        leads[self.incoming.place[self._into(people)]] = True
        places = np.flatnonzero(leads)
        subject = network.subject[places]
        carries = (self.keep[subject] > 0) & ~self.is_seed[subject]
        places, subject = places[carries], subject[carries]
        voucher = network.voucher[places]
        amount = network.weight[places] * self.rate[voucher] * self.keep[subject]
        members = self._distinct(people, voucher, subject)
        number = np.empty(len(self.is_seed), dtype=np.int64)
        number[members] = np.arange(len(members))
        return Transfers(number[voucher], number[subject], amount, np.zeros(len(members), dtype=np.int64)), members


def _strongest(search: _Search, steps: Sequence[_Step], people: Integers) -> tuple[Integers, tuple[Integers, Integers]]:
    """Return the strongest path to each of `people`, and the ways to them that begin at another seed than it."""
    size, hops = len(search.is_seed), len(steps)
    product = search.is_seed.astype(np.float64)
    strongest, length = product.copy(), np.where(search.is_seed, 0, -1)
    root = np.where(search.is_seed, np.arange(size), NOBODY)
    begins, begins_earlier, previous = root.copy(), root, list[Integers]()
    for hop, step in enumerate(steps, 1):
        subject, voucher, best = _best_offers(step, product)
        product, roots = np.zeros(size), root[voucher]
        product[subject] = best
        previous.append(np.full(size, NOBODY))
        previous[-1][subject] = voucher
        root = np.full(size, NOBODY)
        root[subject] = roots
        begins_earlier = begins.copy()
        better = best > strongest[subject]
        stronger = subject[better]
        strongest[stronger], length[stronger], begins[stronger] = best[better], hop, roots[better]
    chain = np.full((len(people), hops + 1), NOBODY)
    for last in range(hops + 1):
        rows = np.flatnonzero(length[people] == last)
        chain[rows, last] = people[rows]
        for hop in range(last, 0, -1):
            chain[rows, hop - 1] = previous[hop - 1][chain[rows, hop]]
    enters = steps[-1]
    other = (begins_earlier[enters.voucher] >= 0) & (begins_earlier[enters.voucher] != begins[enters.subject])
    other &= enters.amount > 0
    return chain, (enters.voucher[other], enters.subject[other])


def _best_offers(step: _Step, product: Floats) -> tuple[Integers, Integers, Floats]:
    """Return who is offered a product above 0, the smallest voucher of the largest one, and that product."""
    if not len(step.starts):
        return step.subject, step.voucher, step.amount
    offered = step.amount * product[step.voucher]
    best = np.maximum.reduceat(offered, step.starts)
    row = np.repeat(np.arange(len(step.starts)), np.diff(step.starts, append=len(offered)))
    winners = np.flatnonzero((offered == best[row]) & (offered > 0))
    winners = winners[np.flatnonzero(np.diff(row[winners], prepend=NOBODY))]
    return step.subject[winners], step.voucher[winners], offered[winners]


def _dominators(search: _Search, steps: Sequence[_Step], people: Integers) -> Integers:
    """Return the nearest account, not a seed, that all walks to each of `people` pass; NOBODY where there is none."""
    size, hops = len(search.is_seed), len(steps)
    common = {place: np.full(size, NOBODY) for place in range(1, hops)}  # by distance; seeds dominate nobody here
    depth = np.where(search.is_seed, 0, NOBODY)
    for hop, step in enumerate(steps, 1):
        usable = (depth[step.voucher] >= 0) & (step.amount > 0)
        voucher, starts = step.voucher[usable], np.flatnonzero(np.diff(step.subject[usable], prepend=NOBODY))
        reached = step.subject[usable][starts]
        if not len(starts):
            continue
        depth[reached[depth[reached] < 0]] = hop
        for place, column in common.items():
            if place <= hop:
                column[reached] = _shared(column, place, voucher, starts, reached, depth)
    nearest = np.full(len(people), NOBODY)
    for place, column in common.items():
        theirs = column[people]
        nearest = np.where((theirs == NOBODY) | (depth[people] == place), nearest, theirs)
    return nearest


def _shared(
    column: Integers, place: int, voucher: Integers, starts: Integers, reached: Integers, depth: Integers
) -> Integers:
    """Return the account at distance `place` that all vouchers of a person share, for each of the `reached`."""
    offered = column[voucher]
    lowest, highest = np.minimum.reduceat(offered, starts), np.maximum.reduceat(offered, starts)
    shared = np.where(lowest == highest, lowest, NOBODY)
    own = depth[reached] == place
    shared[own] = reached[own]
    return shared
