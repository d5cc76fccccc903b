"""The pull requests that models learn from, read from a store or snapshot: the table `cases` and its columns."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ingest.titles import TITLE_SAYS
from ingest.transaction import Rows
from scoring.derived import STATEMENTS
from scoring.learning.cases import Cases, Times
from scoring.learning.waved import Audited, Waved

QUIET_DAYS = 180  # without a new round: as good as refused
CASES = Path(__file__).with_name("cases.sql").read_text()
TIMES = (
    "opened_at",
    "observed_until",
    "merged_at",
    "refused_at",
    "reverted_at",
    "patched_at",
    "patched_fix_at",
    "failed_at",
)
COLUMNS = f"select key, author_id, repository_id, push_holder, as_sent, {', '.join(TIMES)} from cases"
READ = f"{COLUMNS} where not is_bot order by opened_at, key"

# The first answer was given before lane and score were shown.
AUDITED = """
select pull_uri, arg_min(odds, known_from) as odds, arg_min(not would_merge, known_from) as bad,
  min(known_from) as known_from
from audits where known_from <= ? group by pull_uri
"""
WAVED = "select distinct pull_uri from waved_through where as_of <= ?"


def build_cases(rows: Rows, now: datetime, window_days: int) -> None:
    """Make the temporary table `cases` of this cursor, in the order of opening, as of `now`.

    Its columns: `key`, `author_id` and `repository_id` (negative for who is only known by an imported history), the
    times of `Cases`, `push_holder`, `checks_known`, `as_sent`, and of the change as opened `additions`, `deletions`,
    `files_touched`, `binary_files`, `touches_tests`, `docs_only`, `touches_sensitive`, `title_length`, `title_says`;
    `is_bot` and `state`. What follows the times is null where it is unknown. The tables `outcomes` and `counting` stay
    beside it.
    """
    values = {"now": now, "window": window_days, "quiet": QUIET_DAYS}
    rows.rows(TITLE_SAYS)
    for statement in (STATEMENTS["outcomes"], STATEMENTS["counting"], CASES):
        rows.rows(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def read_cases(rows: Rows) -> Cases:
    """Everybody's pull requests but bots', in the order of opening and without features; after `build_cases`."""
    found = rows.columns(READ)
    return Cases(
        keys=np.asarray(found["key"], dtype=np.object_),
        authors=np.asarray(found["author_id"], dtype=np.int64),
        repositories=np.asarray(found["repository_id"], dtype=np.int64),
        push_holder=np.asarray(found["push_holder"], dtype=np.bool_),
        as_sent=np.asarray(found["as_sent"], dtype=np.int8),
        features={},
        **{name: _times(found, name) for name in TIMES},
    )


def _times(found: Mapping[str, Any], name: str) -> Times:
    """A column of times with NaT where it is null."""
    column = found[name]
    if np.ma.isMaskedArray(column):
        column = column.filled(np.datetime64("NaT"))
    return np.asarray(column, dtype="datetime64[us]")


def read_lane(rows: Rows, now: datetime) -> Waved:
    """What the lane let through until now."""
    audited = {row.pop("pull_uri"): Audited(**row) for row in rows.rows(AUDITED, [now])}
    return Waved(audited, {row["pull_uri"] for row in rows.rows(WAVED, [now])})
