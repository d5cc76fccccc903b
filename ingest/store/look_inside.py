"""Look into a DuckDB file that this process does not own: read-only, and the file cannot reach anything outside
itself.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from ingest.store.database import CONFIG, MEMORY_MB, SCHEMA, SCHEMA_VERSION
from ingest.store.digest import Sum, table_sums
from ingest.store.tombstones import CHECK

# Besides tables a file carries code; only the code of today's schema is accepted, since the store runs it.
CODE = """
select view_name as name, sql from duckdb_views() where not internal and database_name = current_database()
union all select function_name, coalesce(macro_definition, '') from duckdb_functions()
where not internal and database_name = current_database() order by all
"""
TRIAL = ".checkpoint-"
MISSING = "a file of Sunstead holds the table meta, this one does not"


class InspectProblem(Exception):
    """The file cannot be inspected; the message gives the reason, `held_by` is the process that owns it, 0 for none."""

    def __init__(self, message: str, held_by: int = 0) -> None:
        super().__init__(message)
        self.held_by = held_by


@dataclass(frozen=True, slots=True)
class Inside:
    """The contents of a store's file; `check` ties it to its tombstones' key, "" if nobody was ever erased."""

    schema_version: int
    tables: dict[str, Sum]
    segments: tuple[str, ...]
    check: str
    tombstones: dict[str, tuple[str, str]]  # mark -> reason, erased_at (ISO)
    gaps: tuple[tuple[datetime, str], ...]  # open ones: the time each was found and its reason
    foreign_code: tuple[str, ...]  # views and macros that no version of ours made


def look_inside(path: Path, sums: bool = True) -> Inside:
    """Read a store's file from outside; without `sums` no table is read through. Raises InspectProblem."""
    with _open_read_only(path) as cursor:
        tables = table_sums(cursor) if sums else {}
        names = {row[0] for row in cursor.execute("select table_name from duckdb_tables()").fetchall()}
        if "meta" not in names:
            raise InspectProblem(MISSING)
        meta = dict(cursor.execute("select key, value from meta").fetchall())
        version = meta.get("schema_version") or ""
        return Inside(
            schema_version=int(version) if version.isdecimal() else 0,
            tables=tables,
            segments=tuple(_read_column(cursor, names, "event_segments", "path")),
            check=meta.get(CHECK) or "",
            tombstones=_read_tombstones(cursor) if "tombstones" in names else {},
            gaps=_read_gaps(cursor) if "gaps" in names else (),
            foreign_code=_find_foreign_code(cursor, version),
        )


@contextmanager
def _open_read_only(path: Path) -> Generator[duckdb.DuckDBPyConnection]:
    config = CONFIG | {"memory_limit": f"{MEMORY_MB}MB", "enable_external_access": False}
    try:
        connection = duckdb.connect(str(path), read_only=True, config=config)
    except (duckdb.Error, OSError) as error:
        message = " ".join(str(error).split())  # uncut, since a long path comes before the process
        holder = re.search(r"held in .{1,4096}? \(PID (\d{1,10})\)", message)
        raise InspectProblem(message[:200], int(holder[1]) if holder else 0) from error
    try:
        yield connection
    except duckdb.Error as error:
        raise InspectProblem(" ".join(str(error).split())[:200]) from error
    finally:
        connection.close()


def try_checkpoint(path: Path, memory_mb: int) -> None:
    """Checkpoint a copy of a store that nobody owns, to see if its WAL can be applied. Raises InspectProblem, OSError.

    The copy lies beside the store and is removed; without a WAL nothing is done.
    """
    wal = path.with_name(f"{path.name}.wal")
    if not wal.exists() or not wal.stat().st_size:
        return
    needed = 2 * (path.stat().st_size + wal.stat().st_size)
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(f"{path.parent} has no room for a copy to try a checkpoint on: free {needed // 1_000_000} MB")
    with tempfile.TemporaryDirectory(prefix=TRIAL, dir=path.parent) as folder:
        copies = [Path(folder) / original.name for original in (path, wal)]
        for source, copy in zip((path, wal), copies, strict=True):
            subprocess.run(["cp", "--reflink=auto", "--", source, copy], check=True, capture_output=True)
        try:
            connection = duckdb.connect(str(copies[0]), config=CONFIG | {"memory_limit": f"{memory_mb}MB"})
            try:
                connection.execute("force checkpoint").fetchall()
            finally:
                connection.close()
        except duckdb.Error as error:
            raise InspectProblem(" ".join(str(error).split())[:200]) from error


def _read_column(cursor: duckdb.DuckDBPyConnection, names: set[str], table: str, column: str) -> list[str]:
    return [row[0] for row in cursor.execute(f"select {column} from {table}").fetchall()] if table in names else []


def _read_gaps(cursor: duckdb.DuckDBPyConnection) -> tuple[tuple[datetime, str], ...]:
    sql = "select found_clock, reason from gaps where filled_clock is null order by all"
    return tuple(cursor.execute(sql).fetchall())


def _read_tombstones(cursor: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str]]:
    rows = cursor.execute("select mark, why, erased_at from tombstones").fetchall()
    return {mark: (why, erased_at.isoformat()) for mark, why, erased_at in rows}


def _find_foreign_code(cursor: duckdb.DuckDBPyConnection, version: str) -> tuple[str, ...]:
    """Return views and macros that are not in the schema, compared by name alone for an older version."""
    code = dict(cursor.execute(CODE).fetchall())
    empty_database = duckdb.connect(":memory:", config=CONFIG)
    try:
        empty_database.execute("".join(part.read_text() for part in sorted(SCHEMA.glob("*.sql"))))
        own_code = dict(empty_database.execute(CODE).fetchall())
    finally:
        empty_database.close()
    is_today = version == str(SCHEMA_VERSION)
    return tuple(name for name, sql in code.items() if name not in own_code or (is_today and own_code[name] != sql))
