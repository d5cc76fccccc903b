"""Archived rows of a snapshot whose file is gone, since a later state wrote them into another: found and written again.

A file of the archive is replaced when it is filled up or when a person is erased from it. So a later file holds the
same rows under the same numbers, without what was erased since.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ingest.archive import COLUMNS, GROUP_ROWS
from ingest.durable import sync

FOUND = f"""
select {COLUMNS} from read_parquet($files) where event_seq between $first and $last
  and event_seq not in (select event_seq from events)
qualify row_number() over (partition by event_seq) = 1 order by collection nulls first, did, event_seq
"""


@dataclass(frozen=True, slots=True)
class Lost:
    """A file that the snapshot names and that is gone, its rows, and how many of them were found elsewhere."""

    name: str
    rows: int
    found: int


def mend_segments(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[Lost]:
    """Have the store note its archive as it lies in `folder`; which files were gone. Raises OSError, duckdb.Error.

    No file is changed or removed: the rows of one that is gone are written anew under its name.
    """
    noted = connection.execute("select path, first_seq, last_seq, rows from event_segments order by 2, 1").fetchall()
    present = {path for path, *_ in noted if (folder / Path(path).name).is_file()}
    others = [
        str(path) for path in sorted(folder.glob("*.parquet")) if path.name not in {Path(p).name for p in present}
    ]
    lost: list[Lost] = []
    for path, first, last, rows in noted:
        place = folder / Path(path).name
        if path in present:
            connection.execute("update event_segments set path = ? where path = ?", [str(place), path])
            continue
        found = _write_again(connection, place, others, first, last)
        lost.append(Lost(place.name, rows, found))
        if found:
            connection.execute("update event_segments set path = ?, rows = ? where path = ?", [str(place), found, path])
        else:
            connection.execute("delete from event_segments where path = ?", [path])
    return lost


def _write_again(
    connection: duckdb.DuckDBPyConnection, place: Path, others: Sequence[str], first: int, last: int
) -> int:
    """Write the rows between two numbers that lie in other files to `place`; returns how many."""
    given = {"files": [*others], "first": first, "last": last}
    if not others:
        return 0
    connection.execute(f"create or replace temp table found_again as {FOUND}", given)
    (rows,) = connection.execute("select count(*) from found_again").fetchone() or (0,)
    if rows:
        partial = place.with_suffix(".partial")
        target = str(partial).replace("'", "''")
        connection.execute(
            f"copy found_again to '{target}' (format parquet, compression zstd, row_group_size {GROUP_ROWS})"
        )
        sync(partial)
        partial.rename(place)
        sync(place.parent)
    connection.execute("drop table found_again")
    return rows
