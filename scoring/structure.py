"""Structural trust of everyone from every seed set, as rows of the `trust` table."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ingest.store import Rows
from scoring.paths import strongest_paths
from scoring.policy import Policy
from scoring.trust import Edges, Integers, eigentrust, first_passage, vouch_weights

VOUCHES = """
select v.voucher_id, v.subject_id, v.kind = 'vouch' as is_vouch,
  date_diff('microsecond', v.written_at, ?::timestamp) / 86400e6 as age_days
from vouches v
where v.seen_at <= ? and (v.superseded_at is null or v.superseded_at > ?) and v.voucher_id <> v.subject_id
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
    paths = strongest_paths(graph.edges, start, size, policy.parameters)
    denounced = np.zeros(size, dtype=bool)
    by_seed = np.isin(graph.denounces[:, 0], start)
    denounced[graph.denounces[by_seed, 1]] = True
    denounced[start] = False
    reached = np.flatnonzero((passage.distance >= 0) | (share > NEGLIGIBLE) | denounced)
    return [
        {
            "repository_id": repository_id,
            "contributor_id": int(graph.contributor_ids[i]),
            "first_passage": float(passage.mass[i]),
            # A denounce by a seed is final for its repository (DESIGN.md §1.2).
            "structural_trust": 0.0 if denounced[i] else float(passage.trust[i]),
            "eigentrust": float(share[i]),
            "distance": int(passage.distance[i]) if passage.distance[i] >= 0 else None,
            "path": graph.contributor_ids[list(paths[i])].tolist() if paths[i] else [],
            "denounced_by_seed": bool(denounced[i]),
        }
        for i in reached
    ]
