"""Stores for tests that begin with an empty one: its tables are made once a process, and a file of them is copied.

Opening one takes 53 ms of CPU that way, 75 where the tables are made; hundreds of tests open one.
"""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ingest.store import Store
from ingest.transaction import Rows

# The columns of that file's tables: twenty of them, asked of each store anew, take 20 ms of CPU.
_COLUMNS: dict[str, pa.Schema] = {}


def fresh_store(path: Path, **options: Any) -> Store:
    """`Store.open`, from the copy where there is no file yet."""
    if path.exists():
        return Store.open(path, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty())
    store = Store.open(path, **options)
    store._schemas = _COLUMNS
    return store


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.duckdb"
        Store.open(path).close()
        return path.read_bytes()


class NotingCursor:
    """A cursor that notes the statements that go through it."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, noted: list[str]) -> None:
        self._cursor, self._noted = cursor, noted

    def execute(
        self, sql: str | duckdb.Statement, params: Sequence[object] | dict[str, object] = ()
    ) -> duckdb.DuckDBPyConnection:
        self._noted.append(sql if isinstance(sql, str) else sql.query)
        return self._cursor.execute(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def statements_noted() -> Generator[list[str]]:
    """The statements of every store of this process, as they are executed: work that no clock has to measure."""
    noted: list[str] = []

    def note(rows: Rows, cursor: duckdb.DuckDBPyConnection) -> None:
        rows.cursor = NotingCursor(cursor, noted)  # ty: ignore[invalid-assignment]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "__init__", note)
        yield noted
