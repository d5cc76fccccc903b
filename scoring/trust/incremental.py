"""Keeps the trust of every seed set up to date while vouches and denounces change. Pure NumPy.

The network of all vouches is prepared once for all seed sets (`scoring.trust.graph.prepare`), and a change is inserted
without sorting anew (`replace_vouches`). A seed set depends only on vouches of people fewer than L hops from it and on
denounces of people whom it trusts: other changes need no work. A change within its reach is a new run over that reach.
At 20,000 people / 100,000 vouches that is 11 ms a seed set on the mean and 31 ms at worst, where a vouch reached nine
of ten seed sets (`tests.bench.bench_trust`; the goal is 50 ms). Updating single sums would have to keep four waves, two
returns and the transposed network for each seed set, to save a part of 11 ms: so it is not done.

`TrustCache` holds results in memory beside the graph that they were computed from; without it (a new process, a new
day, other settings) everything is computed anew. Between two midnights no vouch ages, so only people who vouched,
denounced, or took that back can change anything: a seed set that reaches none of them within L hops keeps its rows,
and of another set only people are computed anew to whom its L hops lead on from a change (`Change`). EigenTrust is
walked once, from the site's seeds, and again only where these reach one of them at any distance. A ring of fakes may
vouch as often as it likes and costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scoring.config.policy import Parameters, Policy
from scoring.trust.bounded import Incoming, prepare_incoming
from scoring.trust.denounces import Denounced, judge_within
from scoring.trust.graph import Edges, Floats, Integers, Network, checked_people, prepare, row_starts, stretches
from scoring.trust.table import SITE, Graph, few_columns, needs_share, passage_columns, site_share, trust_columns


@dataclass(frozen=True, slots=True, eq=False)
class SeedSetTrust:
    """One seed set's trust in everybody, with its inputs; equal to the bit to `judge_denounces`."""

    seeds: Integers
    parameters: Parameters
    strength: float
    judged: Denounced

    @classmethod
    def compute(
        cls, vouches: Network, denounces: Network, seeds: Integers, parameters: Parameters, strength: float = 1.0
    ) -> "SeedSetTrust":
        """Compute the trust from prepared vouches and denounces; ValueError for an unknown seed."""
        return cls(seeds, parameters, strength, judge_within(vouches, denounces, seeds, parameters, strength))

    def after(
        self, vouches: Network, denounces: Network, vouchers: Integers, denouncers: Integers | None = None
    ) -> "SeedSetTrust":
        """Return the trust after `vouchers` and `denouncers` changed theirs; itself where they are out of reach.

        `vouches` and `denounces` are the new networks; everybody whose row differs from the old one must be named.
        """
        if len(self.judged.first.distance) == vouches.size:
            changed = np.zeros(0, dtype=np.int64) if denouncers is None else denouncers
            if not (self._reads_vouches_of(vouchers) or self._reads_denounces_of(changed)):
                return self
        return SeedSetTrust.compute(vouches, denounces, self.seeds, self.parameters, self.strength)

    def _reads_vouches_of(self, people: Integers) -> bool:
        """Return whether one of `people` is fewer than L hops away: vouches of others are not read."""
        distance = self.judged.first.distance[people]
        return bool(((distance >= 0) & (distance < self.parameters.hops)).any())

    def _reads_denounces_of(self, people: Integers) -> bool:
        """Return whether one of `people` is a seed or has trust: denounces of others weigh nothing."""
        first = self.judged.first
        return bool(((first.distance[people] == 0) | (first.mass[people] > 0)).any())


def replace_vouches(network: Network, people: Integers, edges: Edges) -> Network:
    """Return the network in which `edges` replace all vouches of `people`: linear, nothing is sorted anew.

    ValueError for unknown people, for weights outside [0, 1], and for an edge by somebody else than `people`.
    """
    people = checked_people(people, network.size, "voucher")
    fresh = prepare(edges, network.size)
    theirs = np.zeros(network.size, dtype=bool)
    theirs[people] = True
    if not theirs[fresh.voucher].all():
        raise ValueError("a vouch is given for somebody who is not among those whose vouches are replaced")
    unchanged = ~theirs[network.voucher]
    old = [column[unchanged] for column in (network.voucher, network.subject, network.weight)]
    # Whole rows are replaced, so a place among the vouchers is enough, and rows stay sorted within.
    places = np.searchsorted(old[0], fresh.voucher)
    columns = zip(old, (fresh.voucher, fresh.subject, fresh.weight), strict=True)
    voucher, subject, weight = (np.insert(before, places, added) for before, added in columns)
    return Network(voucher, subject, weight, row_starts(voucher, network.size))


def find_changed_vouchers(before: Network, after: Network) -> Integers:
    """Return the people whose vouches differ between two networks of one size, in order."""
    rows = np.diff(before.starts) != np.diff(after.starts)
    same = [~rows[network.voucher] for network in (before, after)]
    differs = (before.subject[same[0]] != after.subject[same[1]]) | (before.weight[same[0]] != after.weight[same[1]])
    rows[before.voucher[same[0]][differs]] = True
    return np.flatnonzero(rows)


Basis = tuple[date, Policy]
Columns = tuple[Integers, Integers, Floats]


@dataclass(frozen=True, slots=True)
class SeedSet:
    """The seeds of a repository or the site, and the `people` whose trust is wanted (None: everybody's).

    Both are contributor_ids.
    """

    seeds: tuple[int, ...]
    people: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CachedSeedSet:
    """The last result of one seed set."""

    wanted: SeedSet
    passage: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """The inputs of one update that all seed sets share."""

    graph: Graph
    incoming: Incoming
    change: "Change | None"  # None: everything is computed anew
    share_moved: bool  # people's share of the site's walk may have changed
    policy: Policy


class TrustCache:
    """The last result of every seed set. Not for two threads at once."""

    def __init__(self) -> None:
        self._basis: Basis | None = None
        self._graph: Graph | None = None
        self._incoming: Incoming | None = None
        self._sets: dict[int, CachedSeedSet] = {}

    def update(self, graph: Graph, sets: Mapping[int, SeedSet], basis: Basis) -> tuple[list[pa.Table], list[int]]:
        """Return rows of the seed sets that may have changed, and all repositories whose rows are to be replaced."""
        before, led = (self._graph, self._incoming) if self._basis == basis else (None, None)
        incoming, change = prepare_incoming(graph.vouches, graph.denounces, basis[1].parameters), None
        if before is None or led is None:
            self._sets = {}
        else:
            change = Change.find(before, led, graph, incoming)
        gone = [number for number in self._sets if number not in sets]
        site = self._sets.get(SITE)
        moved = change is None or site is None or site.wanted != sets.get(SITE) or change.is_led_to(site.wanted)
        run = Update(graph, incoming, change, moved, basis[1])
        touched = {number: self._touched(run, number, sets[number]) for number in sorted(sets)}
        due = [
            number
            for number, people in touched.items()
            if people is None or len(people) or (moved and needs_share(number, run.policy))
        ]
        share = site_share(graph) if any(needs_share(number, run.policy) for number in due) else None
        parts = [self._part(run, number, sets[number], touched[number], share) for number in due]
        self._sets = {number: self._sets[number] for number in sets}
        self._basis, self._graph, self._incoming = basis, graph, incoming
        return parts, [*due, *gone]

    def forget(self) -> None:
        """Compute everything anew next time: the last rows were not written."""
        self._basis = None

    def _touched(self, run: Update, number: int, wanted: SeedSet) -> Integers | None:
        """Return the contributor_ids of those whose first passage may be another one now; None: all who are wanted.

        Those who are gone are among them.
        """
        cached = self._sets.get(number)
        if cached is None or cached.wanted != wanted or run.change is None:
            return None
        places = run.change.touched(wanted)
        if len(places) * MOST_TOUCHED > len(run.graph.contributor_ids):
            return None
        told = cached.passage["contributor_id"].to_numpy()
        return np.concatenate([run.graph.contributor_ids[places], told[~_are_known(run.graph, told)]])

    def _part(
        self, run: Update, number: int, wanted: SeedSet, touched: Integers | None, share: Floats | None
    ) -> pa.Table:
        """Compute the rows of one seed set, of the `touched` people or of all who are wanted."""
        graph, policy, seeds, people = run.graph, run.policy, wanted.seeds, wanted.people
        if touched is not None:
            passage = self._sets[number].passage
            if len(touched):
                passage = _replaced(run, passage, wanted, touched)
        elif people is None:
            passage = passage_columns(graph, seeds, policy)
        else:
            passage = few_columns(graph, run.incoming, seeds, people, policy)
        self._sets[number] = CachedSeedSet(wanted, passage)
        return trust_columns(graph, number, seeds, passage, share, policy, people)


# One in so many: from 3,000 seeds everybody's trust takes 3 s of CPU, that of 30,000 of the 100,000 people .9 s.
MOST_TOUCHED = 3


def _replaced(run: Update, passage: pa.Table, wanted: SeedSet, touched: Integers) -> pa.Table:
    """Return the last first passage of a seed set with that of the `touched` computed anew, in the order of people."""
    graph = run.graph
    known = graph.contributor_ids[_places(graph, touched)].tolist()
    fresh = few_columns(graph, run.incoming, wanted.seeds, known, run.policy).cast(passage.schema)
    if wanted.people is None:  # as `passage_columns` tells it
        place = fresh.column_names.index("other_seed")
        fresh = fresh.set_column(place, fresh.schema.field(place), pa.array(np.zeros(len(fresh), dtype=bool)))
    stays = ~np.isin(passage["contributor_id"].to_numpy(), touched)
    rows = pa.concat_tables([passage.filter(pa.array(stays)), fresh])
    return rows.take(pa.array(np.argsort(graph.position[rows["contributor_id"].to_numpy()])))


FAR = 2**31  # more vouches than any way has


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """How far everybody is from what changed, in vouches, FAR beyond reach.

    A walk of at most L vouches carries a change to somebody only if it leads from a seed to a person whose vouches or
    denounces changed and on from there. Up to the first of them it is the same before and after. From there it goes
    over a vouch that is another one: for whom the vouch is from which somebody parts as much of their trust as before,
    else any of that person's, which stands or stood. Where such a walk leads to a denouncer or to whom one denounces,
    the denounce may leave another part of the trust in that person, and in all whom their vouches reach.
    """

    before: Graph
    after: Graph
    to_changed: Integers  # by index in `before`
    from_changed: Integers  # by index in `after`
    denounced: NDArray[np.bool_]  # by index in `after`: all whom such a denounce can touch
    hops: int

    @classmethod
    def find(cls, before: Graph, led: Incoming, after: Graph, incoming: Incoming) -> "Change":
        """Compare two graphs, from which `led` and `incoming` are prepared.

        Each vouch is read a few times, however long a chain.
        """
        hops, forwards = led.parameters.hops, partial(_steps, after.vouches.starts, after.vouches.subject)
        vouchers, denouncers = _changed_people(before, after)
        moved = np.union1d(denouncers, _busy(before, led, after, incoming, vouchers))
        merges = _differing(_merges_by_id(before), _merges_by_id(after))
        single = _differing(*(_vouches_of(graph, np.setdiff1d(vouchers, moved)) for graph in (before, after)))
        then, now = _places(before, moved), _places(after, moved)
        led_to = [before.contributor_ids[_subjects(before.vouches, then)], single["subject"], merges["subject"]]
        from_changed = np.minimum(forwards(now), forwards(_places(after, np.concatenate(led_to))) + 1)
        said = _places(after, before.contributor_ids[_subjects(before.denounces, then)])
        heard, says = from_changed <= hops, after.denounces
        weighed = says.subject[heard[says.voucher] | heard[says.subject]]
        denounced = forwards(np.union1d(said, weighed)) < hops  # a seed loses nothing, so one hop is before them
        changed = _places(before, np.concatenate([vouchers, denouncers, merges["voucher"]]))
        return cls(before, after, _steps(led.starts, led.voucher, changed), from_changed, denounced, hops)

    def is_led_to(self, wanted: SeedSet) -> bool:
        """Return whether these seeds, known in both graphs, reach a changed person at any distance."""
        return bool(self._nearest(wanted) < FAR)

    def touched(self, wanted: SeedSet) -> Integers:
        """Return where in `after` those of these people are in whom the trust of these seeds may differ.

        The seeds are known in both graphs.
        """
        nearest = self._nearest(wanted)
        if nearest > self.hops:
            return np.zeros(0, dtype=np.int64)
        people = np.arange(len(self.denounced)) if wanted.people is None else self.after.places(wanted.people)
        return people[self.denounced[people] | (nearest + self.from_changed[people] <= self.hops)]

    def _nearest(self, wanted: SeedSet) -> int:
        return int(self.to_changed[self.before.places(wanted.seeds)].min(initial=FAR))


def _steps(starts: Integers, targets: Integers, front: Integers) -> Integers:
    """Return the edges between `front` and each index; those of i lead to targets[starts[i] : starts[i + 1]]."""
    steps = np.full(len(starts) - 1, FAR)
    steps[front] = 0
    step = 0
    while len(front):
        step += 1
        reached = targets[stretches(starts[front], starts[front + 1])]
        front = np.unique(reached[steps[reached] == FAR])
        steps[front] = step
    return steps


def _subjects(network: Network, people: Integers) -> Integers:
    return network.subject[network.places(people)]


def _places(graph: Graph, people: Integers) -> Integers:
    """Return the indices of those of these contributor_ids whom the graph knows, each once."""
    return np.unique(graph.position[people[_are_known(graph, people)]])


def _are_known(graph: Graph, people: Integers) -> NDArray[np.bool_]:
    """Mark those of these contributor_ids whom the graph knows."""
    within = people < len(graph.position)
    return within & (graph.position[np.where(within, people, 0)] >= 0)


def _changed_people(before: Graph, after: Graph) -> tuple[Integers, Integers]:
    """Return the people whose vouches differ between two graphs, and those whose denounces do, by contributor_id.

    Indices of people may differ between the graphs.
    """
    pairs = ((before.vouches, after.vouches), (before.denounces, after.denounces))
    if np.array_equal(before.contributor_ids, after.contributor_ids):
        changed = [after.contributor_ids[find_changed_vouchers(old, new)] for old, new in pairs]
    elif np.isin(before.contributor_ids, after.contributor_ids).all():  # nobody is gone: nothing is sorted
        place = after.position[before.contributor_ids]  # in rising order, so rows stay sorted
        moved = [(_renumbered(old, place, new.size), new) for old, new in pairs]
        changed = [after.contributor_ids[find_changed_vouchers(*pair)] for pair in moved]
    else:
        changed = [_differing(_by_id(before, old), _by_id(after, new))["voucher"] for old, new in pairs]
    return changed[0], changed[1]


def _busy(before: Graph, led: Incoming, after: Graph, incoming: Incoming, people: Integers) -> Integers:
    """Return those of `people` who pass less on than a vouch can carry, in a graph: any vouch moves all of theirs.

    The others vouch for so few that no vouch takes from another, however few of them are for seeds.
    """
    busy = [np.zeros(0, dtype=np.int64)]
    for graph, prepared in ((before, led), (after, incoming)):
        places = _places(graph, people)
        busy.append(graph.contributor_ids[places[prepared.rate[places] < prepared.parameters.transfer]])
    return np.unique(np.concatenate(busy))


def _vouches_of(graph: Graph, people: Integers) -> Columns:
    ids, network = graph.contributor_ids, graph.vouches
    places = network.places(_places(graph, people))
    return ids[network.voucher[places]], ids[network.subject[places]], network.weight[places]


def _renumbered(network: Network, place: Integers, size: int) -> Network:
    """Return the network with everybody at their place among `size` people, whose order is the same."""
    voucher = place[network.voucher]
    return Network(voucher, place[network.subject], network.weight, row_starts(voucher, size))


def _by_id(graph: Graph, network: Network) -> Columns:
    ids = graph.contributor_ids
    return ids[network.voucher], ids[network.subject], network.weight


def _merges_by_id(graph: Graph) -> Columns:
    """Return merges with their counts: one merge more is shown even where the weight is at its cap."""
    return graph.contributor_ids[graph.merges.voucher], graph.contributor_ids[graph.merges.subject], graph.merges.weight


def _differing(old: Columns, new: Columns) -> NDArray[Any]:
    """Return the rows that are on one side only, with the fields voucher, subject and weight."""
    kinds = [("voucher", np.int64), ("subject", np.int64), ("weight", np.float64)]
    before, after = (np.asarray(np.rec.fromarrays(list(columns), dtype=kinds)) for columns in (old, new))
    return np.setxor1d(before, after)
