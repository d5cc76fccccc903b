"""The owner's part of a backup: what has to agree is copied at one moment, while everybody reads and writes on.

The store, its archived rows and the accounts agree only at one moment: an action that the accounts call delivered must
be in the store. So the accounts (megabytes) are copied while nobody writes to the store; the store's own file and the
archive are copied after that, since until the next checkpoint commits go beside the file and nothing moves to files.
"""

import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ingest.durable import sync
from ingest.store import Store
from ingest.unopened import StoreProblem

STORE, ACCOUNTS, EVENTS, TEXTS = "trust.duckdb", "web.sqlite3", "events", "texts"
BUSY_SECONDS = 20.0


def copy_state(store: Store, accounts: Path, folder: Path, show: Callable[[str], None]) -> dict[str, Any]:
    """Copy store, archive and accounts into an empty folder, all of one moment.

    Returns that moment (`made_at`, ISO), the cursor of each stream in it (`cursors`), how many `rows` each table had,
    and the `sha256` of what was copied, by name. Raises StoreProblem.
    """
    try:
        with store.files, store.publishing:
            told = _at_rest(store, accounts, folder)
            show("The store is copied.")
            segments = [Path(path) for path in told.pop("segments")]
            (folder / EVENTS).mkdir(mode=0o700)
            hashes = _copy([store.path], folder, [STORE])
            hashes |= _copy(segments, folder, [f"{EVENTS}/{path.name}" for path in segments])
    except (OSError, sqlite3.Error) as problem:
        raise StoreProblem(f"the state could not be copied to {folder} ({problem})") from problem
    return {**told, "sha256": hashes}


def _at_rest(store: Store, accounts: Path, folder: Path) -> dict[str, Any]:
    with store.whole, store.still(), store.read() as rows:
        if accounts.is_file():
            copy_sqlite(accounts, folder / ACCOUNTS)
        tables = [row["table_name"] for row in rows.rows("select table_name from duckdb_tables() order by all")]
        return {
            "made_at": store.wall().isoformat(),
            "cursors": {row["source"]: row["cursor_us"] for row in rows.rows("from ingest_state")},
            "rows": {name: rows.value(f'select count(*) from "{name}"') for name in tables},
            "segments": [row["path"] for row in rows.rows("select path from event_segments order by first_seq, path")],
        }


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite file of one moment into another one, whoever uses either. Raises sqlite3.Error."""
    have = sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    with closing(have), closing(sqlite3.connect(target, timeout=BUSY_SECONDS)) as copy:
        have.backup(copy)


def _copy(sources: Sequence[Path], folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Copy files and say what they hold, both in children: a second handle would drop DuckDB's lock on the store."""
    for source, name in zip(sources, names, strict=True):
        _run("cp", "--reflink=auto", "--no-target-directory", "--", str(source), str(folder / name))
        (folder / name).chmod(0o600)
        sync(folder / name)
    if not sources:
        return {}
    lines = _run("sha256sum", "--zero", "--", *map(str, sources)).split("\0")
    return {name: line[:64] for name, line in zip(names, lines, strict=False)}


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StoreProblem(f"the state could not be copied: {done.stderr.strip()[:300]}")
    return done.stdout
