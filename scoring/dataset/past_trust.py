"""Builds slices of past trust at chosen moments, as temporary tables that features.sql joins by time."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.trust.first_passage import eigentrust
from scoring.trust.table import passage_columns, read_graph, trust_columns

TABLES = (
    "create temp table if not exists slice_dates (repository_id integer, as_of timestamp)",
    """create temp table if not exists trust_slices (
      repository_id integer, contributor_id integer, as_of timestamp, structural_trust double, eigentrust double,
      distance integer, trusted_denouncers integer)""",
)
EMPTY = ("delete from slice_dates", "delete from trust_slices")
SEEDS = "select repository_id, list(contributor_id order by contributor_id) as seeds from seeds group by 1 order by 1"
FIRST_VOUCH = "select min(seen_at) from vouches"
ADD_DATE = "insert into slice_dates select unnest($repositories), $as_of::timestamp"
ADD = """
insert into trust_slices
select $repository, unnest($contributors), $as_of::timestamp, unnest($trust), unnest($share), unnest($distance),
  unnest($denouncers)
"""
COPY_TRUST = (
    "insert into slice_dates select distinct repository_id, $as_of::timestamp from seeds",
    """insert into trust_slices by name
    select repository_id, contributor_id, $as_of::timestamp as as_of, structural_trust, eigentrust, distance,
      trusted_denouncers
    from trust""",
)


def prepare_slices(rows: Rows) -> None:
    """Create the temporary tables `slice_dates` and `trust_slices` of this cursor unless they exist."""
    for statement in TABLES:
        rows.rows(statement)


def month_starts(first: datetime, until: datetime) -> list[datetime]:
    """Return the first moment of every month after `first` and not after `until`, and `until`."""
    starts, month = [], first.year * 12 + first.month
    while (moment := datetime(month // 12, month % 12 + 1, 1)) <= until:
        starts.append(moment)
        month += 1
    return [*starts, until] if first <= until and until not in starts else starts


def build_slices(rows: Rows, now: datetime, policy: Policy) -> int:
    """Fill both tables with trust at the start of every month since the first vouch, and now; return their number.

    A slice is computed from events before its moment, but from the seed sets of today: earlier maintainers are not
    recorded.
    """
    prepare_slices(rows)
    for statement in EMPTY:
        rows.rows(statement)
    first, seeds = rows.value(FIRST_VOUCH), {row["repository_id"]: row["seeds"] for row in rows.rows(SEEDS)}
    moments = month_starts(first, now) if first is not None and seeds else []
    for moment in moments:
        _add_slice(rows, moment, seeds, policy)
    return len(moments)


def load_current_trust(rows: Rows) -> None:
    """Fill both tables with one slice for all times, the table `trust` of the last pass, to judge by now."""
    prepare_slices(rows)
    for statement in EMPTY:
        rows.rows(statement)
    for statement in COPY_TRUST:
        rows.rows(statement, {"as_of": datetime(1, 1, 1)})


def _add_slice(rows: Rows, moment: datetime, seeds: Mapping[int, Sequence[int]], policy: Policy) -> None:
    graph = read_graph(rows, moment, policy)
    rows.rows(ADD_DATE, {"repositories": list(seeds), "as_of": moment})
    for repository, people in seeds.items():
        share = np.asarray(eigentrust(graph.edges, graph.places(people), len(graph.contributor_ids)))
        passage = passage_columns(graph, people, policy)
        table = trust_columns(graph, repository, people, passage, share, policy)
        columns = {
            "contributors": table["contributor_id"],
            "trust": table["structural_trust"],
            "share": table["eigentrust"],
            "distance": table["distance"],
            "denouncers": table["trusted_denouncers"],
        }
        values = {name: column.to_pylist() for name, column in columns.items()}
        rows.rows(ADD, {"repository": repository, "as_of": moment, **values})
