"""What a score is computed from: seeds, labels and features, rebuilt by the statements of features.sql."""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.transaction import Rows, Transaction
from scoring.verdict import Evidence

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).with_name("features.sql").read_text(), re.DOTALL)
)
EVIDENCE = """
select f.*, t.distance, coalesce(t.path, []) as path,
  coalesce(t.path_merges, []) as path_merges,
  t.dominator is not null or t.distance is null as one_account,
  coalesce(t.denounced_by_seed, false) as denounced_by_seed, s.contributor_id is not null as is_seed
from features f
left join trust t using (contributor_id, repository_id)
left join seeds s using (contributor_id, repository_id)
"""
PLAIN = tuple(field.name for field in fields(Evidence) if field.name not in ("path", "path_merges"))


def rebuild(txn: Transaction, table: str, now: datetime, window_days: int) -> None:
    """Replace one of the derived tables ('seeds', 'labels', 'features') by what follows from the others now.

    'outcomes' is a temporary table that the other two read: it ends with the transaction's connection.
    """
    statement = STATEMENTS[table]
    values = {"now": now, "window": window_days}
    if table != "outcomes":
        txn.execute(f"delete from {table}")
    txn.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def names(rows: Rows) -> dict[int, str]:
    """How each person is shown."""
    sql = "select contributor_id, did, handle, handle_verified from contributors"
    return {row["contributor_id"]: display_name(row) for row in rows.rows(sql)}


def display_name(row: Mapping[str, Any]) -> str:
    """The handle where its own domain confirmed it, else the DID, cut in the middle."""
    if row["handle_verified"] and row["handle"]:
        return row["handle"]
    did = row["did"]
    return did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}"


def read_evidence(rows: Rows, shown: dict[int, str]) -> dict[tuple[int, int], Evidence]:
    """Evidence of every (contributor, repository) that has features."""
    return {(row["contributor_id"], row["repository_id"]): evidence(row, shown) for row in rows.rows(EVIDENCE)}


def evidence(row: Mapping[str, Any], shown: Mapping[int, str]) -> Evidence:
    """One row of EVIDENCE as the judge reads it."""
    path = tuple(shown[person] for person in row["path"])
    return Evidence(**{name: row[name] for name in PLAIN}, path=path, path_merges=tuple(row["path_merges"]))
