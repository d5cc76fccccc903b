"""Writing the DuckDB file anew: a deleted row's bytes stay in its blocks and its WAL until then.

Measured (DuckDB 2.0.0): COPY FROM DATABASE keeps keys, indexes, not-null, views and where sequences stand. Kill-safe:
up to the rename the old file is whole, then the new one is; what a kill leaves beside is removed at the next start.
What the file system keeps of freed blocks, and a drive of overwritten ones, is beyond any program's reach.
"""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from ingest.files import sync
from ingest.store.digest import differing, table_sums
from ingest.store.transaction import quoted

PARTIAL = ".compacting"
SPARE_BYTES = 50_000_000
HELD_SECONDS = 10.0


def clear_leftovers(path: Path) -> None:
    """Remove what a killed compaction left beside the file; only its owner may."""
    for leftover in path.parent.glob(f"{path.name}{PARTIAL}*"):
        leftover.unlink(missing_ok=True)


def compacted(
    database: duckdb.DuckDBPyConnection, path: Path, config: Mapping[str, Any], checked: bool = False
) -> duckdb.DuckDBPyConnection:
    """The connection to the file written anew, with no cursor of the old one open; errors leave the old one in use.

    `checked`: every table of both is read and compared before the old file goes.
    """
    partial = path.with_name(path.name + PARTIAL)
    clear_leftovers(path)
    _check_room(path)
    try:
        number = _copy(database, path, partial, checked)
        swapped = _swap(database, path, partial, config)
    finally:
        clear_leftovers(path)
    if _number(swapped) != number:
        raise OSError("the old file is still open in this process: restart it")
    return swapped


def _check_room(path: Path) -> None:
    size = path.stat().st_size
    if shutil.disk_usage(path.parent).free < size + SPARE_BYTES:
        raise OSError(f"{path.parent} has no room for a second copy of {size // 1_000_000} MB: free some space")


def _number(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how often the file was written anew: tells the new one from the old one."""
    found = connection.execute("select position_seq from hops where name = 'file'").fetchall()
    return found[0][0] if found else 0


def _copy(database: duckdb.DuckDBPyConnection, path: Path, partial: Path, checked: bool) -> int:
    """Everything committed, in a file of its own that is on the drive when this returns; its number."""
    cursor = database.cursor()
    try:
        cursor.execute("force checkpoint").fetchall()
        name = cursor.execute("select current_database()").fetchall()[0][0]
        number = _number(cursor) + 1
        cursor.execute(f"attach {quoted(partial)} as compacted").fetchall()
        try:
            cursor.execute(f'copy from database "{name}" to compacted').fetchall()
            if checked and (wrong := differing(table_sums(cursor), table_sums(cursor, "compacted"))):
                raise OSError(f"the copy has other rows in {', '.join(wrong)}")
            numbered = "insert or replace into compacted.hops values ('file', ?, now()::timestamp)"
            cursor.execute(numbered, [number]).fetchall()
            cursor.execute("checkpoint compacted").fetchall()
        finally:
            cursor.execute("detach compacted").fetchall()
    finally:
        cursor.close()
    wal = path.with_name(path.name + ".wal")
    if wal.exists() and wal.stat().st_size:  # it would be replayed into the new file, which holds its rows already
        raise OSError(f"{wal} was not emptied")
    wal.unlink(missing_ok=True)
    sync(partial)
    return number


def _swap(
    database: duckdb.DuckDBPyConnection, path: Path, partial: Path, config: Mapping[str, Any]
) -> duckdb.DuckDBPyConnection:
    """Put the new file in the old one's place; at no moment can another process own a file that is to be replaced.

    A second instance holds the new file's lock over the rename: without it, one that opened the old file between our
    letting go of it and the rename would write what nobody reads again.
    """
    holder = duckdb.connect(":memory:")
    try:
        holder.execute(f"attach {quoted(partial)} as held (read_only)").fetchall()
        partial.rename(path)
        sync(path.parent)
        database.close()  # to the last: DuckDB would hand out this instance again, with the old file, by its path
    finally:
        holder.close()
    return _connect(path, config)


def _connect(path: Path, config: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """Own the new file; a command that took it for a moment is waited for."""
    deadline = time.monotonic() + HELD_SECONDS
    while True:
        try:
            return duckdb.connect(str(path), config=dict(config))
        except duckdb.IOException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
