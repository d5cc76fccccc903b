"""Structural trust of everyone from every seed set, as rows of the `trust` table."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ingest.transaction import Rows
from scoring.eigentrust import eigentrust
from scoring.graph import Edges, Integers
from scoring.paths import strongest_paths
from scoring.policy import Policy
from scoring.trust import first_passage, vouch_weights

VOUCHES = """
select v.voucher_id, v.subject_id, v.kind = 'vouch' as is_vouch,
  date_diff('microsecond', v.written_at, ?::timestamp) / 86400e6 as age_days
from vouches v
where v.seen_at <= ? and (v.superseded_at is null or v.superseded_at > ?) and v.voucher_id <> v.subject_id
  and v.voucher_id not in (select contributor_id from hidden_people)
"""
NEGLIGIBLE = 1e-12  # below this a share of the EigenTrust walk is rounding


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The vouches that stand, with people numbered in the order of their DIDs.

    That order, unlike the numbers of the store, is the same however the events arrived: ties between equal paths are
    broken alike in every run.
    """

    contributor_ids: Integers  # by index
    edges: Edges
    denounces: Integers  # [n, 2]: denouncer, subject
    index: dict[int, int]  # contributor_id -> index


def read_graph(rows: Rows, now: datetime, half_life_days: float) -> Graph:
    """The vouch graph as of now, weights decayed by age."""
    ids = rows.columns("select contributor_id from contributors order by did")["contributor_id"].astype(np.int64)
    position = np.zeros(int(ids.max(initial=0)) + 1, dtype=np.int64)
    position[ids] = np.arange(len(ids))
    found = rows.columns(VOUCHES, [now, now, now])
    voucher, subject = position[found["voucher_id"]], position[found["subject_id"]]
    vouch = np.asarray(found["is_vouch"], dtype=bool)
    weight = vouch_weights(np.asarray(found["age_days"], dtype=np.float64)[vouch], half_life_days)
    return Graph(
        contributor_ids=ids,
        edges=Edges(voucher[vouch], subject[vouch], weight),
        denounces=np.column_stack([voucher[~vouch], subject[~vouch]]),
        index={int(number): place for place, number in enumerate(ids)},
    )


def trust_rows(graph: Graph, repository_id: int, seeds: list[int], policy: Policy) -> list[dict[str, object]]:
    """Rows of the `trust` table for one seed set: everyone whom it reaches or a seed of it denounced."""
    size = len(graph.contributor_ids)
    start = np.array(sorted(graph.index[person] for person in seeds), dtype=np.int64)
    passage = first_passage(graph.edges, start, size, policy.parameters)
    share = eigentrust(graph.edges, start, size)
    denounced = _denounced(graph, start)
    reached = np.flatnonzero((passage.distance >= 0) | (share > NEGLIGIBLE) | denounced)
    ids = graph.contributor_ids.tolist()
    paths = strongest_paths(graph.edges, start, size, policy.parameters)
    columns = {
        "contributor_id": graph.contributor_ids[reached],
        "first_passage": passage.mass[reached],
        # A denounce by a seed is final for its repository (DESIGN.md §1.2).
        "structural_trust": np.where(denounced, 0.0, passage.trust)[reached],
        "eigentrust": share[reached],
        "denounced_by_seed": denounced[reached],
    }
    plain = [values.tolist() for values in columns.values()]
    distance = [hops if hops >= 0 else None for hops in passage.distance[reached].tolist()]
    path = [[ids[place] for place in paths[person]] for person in reached.tolist()]
    names = ("repository_id", *columns, "distance", "path")
    return [dict(zip(names, (repository_id, *row), strict=True)) for row in zip(*plain, distance, path, strict=True)]


def _denounced(graph: Graph, seeds: Integers) -> NDArray[np.bool_]:
    """Whom a seed denounces; a seed stays one, whatever the others say."""
    denounced = np.zeros(len(graph.contributor_ids), dtype=bool)
    by_seed = np.isin(graph.denounces[:, 0], seeds)
    denounced[graph.denounces[by_seed, 1]] = True
    denounced[seeds] = False
    return denounced
