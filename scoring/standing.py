"""Trust from every seed set kept fresh: after a change only the seed sets that it can reach are computed anew.

What was computed is held in memory beside the graph that it was computed from; without it (a new process, a new day,
other settings) everything is. Between two midnights no vouch ages, so whoever vouched or denounced, or took that back,
is all that can have changed anything: a seed set that reaches none of them keeps its rows, and one that only its walk
of EigenTrust reaches keeps its first-passage trust. A ring of fakes may vouch as often as it likes and costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from scoring.eigentrust import Walk, prepare_walk, walk_from
from scoring.graph import Floats, Integers, Network
from scoring.incremental import changed_vouchers
from scoring.policy import Policy
from scoring.structure import Graph, passage_columns, trust_columns

Basis = tuple[date, Policy]
Seeds = tuple[int, ...]
Columns = tuple[Integers, Integers, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What is known of one seed set."""

    seeds: Seeds
    passage: pa.Table
    walked: Integers  # contributor_ids whom the walk of EigenTrust reaches


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What one update knows of all seed sets."""

    graph: Graph
    walk: Walk
    changed: Integers  # contributor_ids of whoever says something else than before
    policy: Policy


class StandingTrust:
    """The trust of every seed set as it was computed last. Not for two threads at once."""

    def __init__(self) -> None:
        self._basis: Basis | None = None
        self._graph: Graph | None = None
        self._sets: dict[int, Standing] = {}

    def update(self, graph: Graph, sets: Mapping[int, Seeds], basis: Basis) -> tuple[list[pa.Table], list[int]]:
        """Rows of the seed sets that may have changed, and the repositories that they replace, those gone included."""
        before = self._graph if self._basis == basis else None
        if before is None:
            self._sets = {}
        changed = _changed(before, graph) if before is not None else _none()
        gone = [number for number in self._sets if number not in sets]
        run = Run(graph, prepare_walk(graph.edges, len(graph.contributor_ids)), changed, basis[1])
        parts = {number: self._part(run, number, seeds) for number, seeds in sorted(sets.items())}
        self._sets = {number: self._sets[number] for number in sets}
        self._basis, self._graph = basis, graph
        return [part for part in parts.values() if part is not None], [
            *(number for number, part in parts.items() if part is not None),
            *gone,
        ]

    def forget(self) -> None:
        """Compute everything anew next time: what was computed last was not kept."""
        self._basis = None

    def _part(self, run: Run, number: int, seeds: Seeds) -> pa.Table | None:
        """Rows of one seed set; None where none of them can differ from the last ones."""
        graph, changed, policy = run.graph, run.changed, run.policy
        held = self._sets.get(number)
        if held is not None and held.seeds != seeds:
            held = None
        if held is not None and not np.isin(changed, held.walked).any() and not _reaches(held, changed):
            return None
        keeps = held is not None and not _reaches(held, changed)
        passage = held.passage if held is not None and keeps else passage_columns(graph, seeds, policy)
        share = walk_from(run.walk, graph.places(seeds))
        self._sets[number] = Standing(seeds, passage, np.sort(graph.contributor_ids[share > 0]))
        return trust_columns(graph, number, seeds, passage, share, policy)


def _reaches(held: Standing, people: Integers) -> bool:
    """Whether trust from the seeds comes to any of these people."""
    reached = held.passage["contributor_id"].to_numpy()[held.passage["reached"].to_numpy() >= 0]
    return bool(np.isin(people, reached).any())


def _none() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _changed(before: Graph, after: Graph) -> Integers:
    """Whose vouches or denounces differ between two graphs, by contributor_id; numbers may have moved meanwhile."""
    pairs = ((before.vouches, after.vouches), (before.denounces, after.denounces))
    if np.array_equal(before.contributor_ids, after.contributor_ids):
        found = [after.contributor_ids[changed_vouchers(old, new)] for old, new in pairs]
    else:
        found = [_differing(_by_id(before, old), _by_id(after, new)) for old, new in pairs]
    return np.unique(np.concatenate([*found, _differing(_merges_by_id(before), _merges_by_id(after))]))


def _by_id(graph: Graph, network: Network) -> Columns:
    ids = graph.contributor_ids
    return ids[network.voucher], ids[network.subject], network.weight


def _merges_by_id(graph: Graph) -> Columns:
    """A merge more may leave the weight at its cap and still be told."""
    return graph.contributor_ids[graph.merges.voucher], graph.contributor_ids[graph.merges.subject], graph.merges.weight


def _differing(old: Columns, new: Columns) -> Integers:
    """The vouchers of rows that stand on one side only."""
    kinds = [("voucher", np.int64), ("subject", np.int64), ("weight", np.float64)]
    one, other = (np.asarray(np.rec.fromarrays(list(columns), dtype=kinds)) for columns in (old, new))
    return np.setxor1d(one, other)["voucher"]
