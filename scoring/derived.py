"""Rebuilds the tables that a score is made from (seeds, marks, labels, features) by the statements of derived.sql."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.store.transaction import Keys, Transaction

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).with_name("derived.sql").read_text(), re.DOTALL)
)
KEYS: Mapping[str, tuple[str, ...]] = {
    "seeds": ("repository_id", "contributor_id"),
    "marks": ("pull_uri",),
    "labels": ("pull_uri",),
    "features": ("contributor_id", "repository_id"),
}
TEMPORARY = ("outcomes", "counting")


def rebuild(txn: Transaction, table: str, now: datetime, window_days: int) -> Keys:
    """Rebuild one derived table ('seeds', 'marks', 'labels', 'features') as of now; returns the keys of changed rows.

    `find_outcomes` must have run before in the same transaction, except for seeds.
    """
    return txn.hold(table, STATEMENTS[table], _parameters(table, now, window_days), KEYS[table])


def find_outcomes(txn: Transaction, now: datetime, window_days: int) -> None:
    """Create the temporary tables `outcomes` and `counting`, which the other statements read."""
    for table in TEMPORARY:
        txn.execute(STATEMENTS[table], _parameters(table, now, window_days))


def _parameters(table: str, now: datetime, window_days: int) -> dict[str, object]:
    values = {"now": now, "window": window_days}
    return {name: value for name, value in values.items() if f"${name}" in STATEMENTS[table]}


def display_name(row: Mapping[str, Any]) -> str:
    """Return the handle where its own domain confirmed it, else the DID, cut in the middle."""
    if row["handle_verified"] and row["handle"]:
        return row["handle"]
    did = row["did"]
    return did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}"
