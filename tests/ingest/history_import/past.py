"""Files of past pull requests: a small honest one, and what a test changes in it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

OPENED = datetime(2024, 3, 1, 12)
DAY = timedelta(days=1)
WATCHED = OPENED + 400 * DAY
ANA = "did:plc:" + "ana".ljust(24, "q")
WALL = datetime(2026, 11, 20)


def merged(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A pull request of ana that was merged after a day and stayed as it was."""
    return past(number, state="merged", merged_at=OPENED + DAY) | changes


def refused(number: int = 2, **changes: Any) -> dict[str, Any]:
    """One of ana that nobody touched for 180 days."""
    return past(number, state="closed_or_stale", last_commit_at=OPENED) | changes


def past(number: int, state: str = "open", **changes: Any) -> dict[str, Any]:
    """One that is still open, unless changed."""
    row: dict[str, Any] = {
        "repo": "lantern/lamp",
        "number": number,
        "author": "ana",
        "opened_at": OPENED,
        "snapshot_at": WATCHED,
        "state": state,
        "additions": 10,
        "deletions": 2,
        "files_touched": 1,
    }
    return row | dict.fromkeys(("merged_at", "closed_at", "last_commit_at")) | changes


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """The rows as a Parquet file, or as CSV by the ending; a column that one row has, all have."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return path


# Rows that break a rule, and what is said of them.
BROKEN: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no row": ([], "lacks the columns repo"),
    "no author": ([merged(author=None), merged(2)], "has no author"),
    "an empty author": ([merged(author="")], "names its author with no or more than 200"),
    "a name of a megabyte": ([merged(repo="x" * 1_000_000)], "names its project with no or more than 200"),
    "another state": ([merged(state="perhaps")], "has a state that is none of merged, closed"),
    "a state that is SQL": ([merged(state="'); drop table events; --")], "has a state that is none"),
    "a text for a number": ([merged(additions="many")], "column additions must hold a whole number"),
    "NaN": ([merged(additions=float("nan")), merged(2, additions=1.5)], "column additions must hold a whole number"),
    "a list": ([merged(deletions=[1])], "column deletions must hold a whole number"),
    "a number for a time": ([merged(opened_at=5)], "column opened_at must hold a time"),
    "a text for a time": ([merged(merged_at="yesterday")], "column merged_at must hold a time"),
    "a time for a flag": ([merged(is_bot=OPENED)], "column is_bot must hold true or false"),
    "a number for a text": ([merged(author=5)], "column author must hold text"),
    "less than nothing": ([merged(additions=-1)], "has additions below 0"),
    "an absurd size": ([merged(deletions=2**62)], "has deletions below 0 or above"),
    "the middle ages": ([merged(opened_at=datetime(1290, 1, 1))], "has opened_at before 1990"),
    "the future": ([merged(snapshot_at=WALL + DAY)], "until a moment that has not come yet"),
    "opened later than watched": ([past(1, opened_at=WATCHED + DAY)], "was opened after it was last watched"),
    "merged later than watched": ([merged(merged_at=WATCHED + DAY)], "has merged_at after it was last watched"),
    "merged without a time": ([merged(merged_at=None), merged(2)], "is merged, but has no merged_at"),
    "open with a merge": ([past(1, merged_at=OPENED)], "has merged_at, but is not merged"),
    "closed without a time": ([past(1, state="closed"), merged(2)], "is closed, but has no closed_at"),
    "closed before": ([past(1, state="closed", closed_at=OPENED - DAY)], "was closed before it was opened"),
    "merged before": ([merged(merged_at=OPENED - DAY)], "was merged before it was opened, like 1 of 1"),
    "reverted before": ([merged(reverted_at=OPENED)], "taken back or patched before it was merged"),
    "stale at once": ([refused(snapshot_at=OPENED + DAY)], "was watched for less than 180 days"),
    "the same twice": ([merged(), merged(2), merged()], r"'lantern/lamp#1' is in the file 2 times"),
    "a DID that is none": ([merged(did="did:plc:ana")], "or 'did:plc:ana', which is none"),
    "two DIDs": ([merged(did=ANA), merged(2, did="did:web:a.example")], "'ana' has two DIDs"),
}
