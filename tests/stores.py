"""Stores for tests that begin with an empty one: its tables are made once a process, and a file of them is copied.

Opening one takes 53 ms of CPU that way, 75 where the tables are made; hundreds of tests open one.
"""

import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pytest_django import Settings

from ingest.store.database import Store
from ingest.store.transaction import Params, Rows
from trustsite import drive

# The columns of that file's tables: twenty of them, asked of each store anew, take 20 ms of CPU.
_COLUMNS: dict[str, pa.Schema] = {}


def fresh_store(path: Path, **options: Any) -> Store:
    """`Store.open`, from the copy where there is not a file yet."""
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


def opened_elsewhere(path: Path) -> str:
    """What DuckDB says to another process that opens a store's file, which its owner holds."""
    command = [sys.executable, "-c", "import duckdb, sys; duckdb.connect(sys.argv[1])", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@contextmanager
def statements_noted() -> Generator[list[str]]:
    """The statements of every store of this process, as they are executed: work that no clock has to measure."""
    noted: list[str] = []

    run = Rows._run

    def note(rows: Rows, sql: str, params: Params) -> duckdb.DuckDBPyConnection:
        noted.append(sql)
        return run(rows, sql, params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "_run", note)
        yield noted


def use_own_store(folder: Path, settings: Settings) -> None:
    """Point the settings at a store and snapshots in this folder, which is marked as one that an operator means."""
    settings.DUCKDB_PATH = folder / "duckdb" / "trust.duckdb"
    settings.SNAPSHOT_DIR = folder / "snapshots"
    drive.mark_store_folder(settings.DUCKDB_PATH, settings.PLACE.root)
