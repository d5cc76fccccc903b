"""A drive with a state, for tests of backup and restore: store, archive, accounts, diffs, models and keys."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.backup.manifest import Manifest, Places, copy_state, write_backup
from ingest.backup.restore import Restored, restore
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, MARA, SEED, SOURCE, Frames
from tests.stores import fresh_store

NOW = datetime(2026, 11, 22, 10)
KEY = "a" * 64
SESSION = "zq7SESSIONzq7"


def places_below(root: Path) -> Places:
    """The places of a drive whose settings are the defaults."""
    return Places(
        root=root,
        store=root / "duckdb" / "trust.duckdb",
        accounts=root / "web.sqlite3",
        staging=root / "staging",
        diffs=root / "diffs",
        models=root / "models",
        keys=root / "keys",
        snapshots=root / "snapshots",
        caches=(root / "mirrors", root / "pyg"),
    )


def make_drive(root: Path, key: str = KEY) -> Places:
    """A folder with keys, as `init_drive` makes it."""
    places = places_below(root)
    places.keys.mkdir(parents=True, mode=0o700)
    for name in ("django", "audit", "tombstones"):
        (places.keys / name).write_text(key)
    return places


def open_drive(places: Places) -> Store:
    """The drive's store, bound to the test's stream."""
    store = fresh_store(places.store, key=(places.keys / "tombstones").read_bytes())
    store.bind(SOURCE)
    return store


def fill_beside(places: Places) -> None:
    """Accounts with somebody who is signed in, a diff, a model that serves and its certificate."""
    with closing(sqlite3.connect(places.accounts)) as accounts:
        accounts.execute("pragma journal_mode=wal").fetchall()
        accounts.execute("create table triage_person (did text)")
        accounts.execute("insert into triage_person values ('did:plc:somebody')")
        accounts.execute("create table django_session (session_key text)")
        accounts.execute("insert into django_session values (?)", [SESSION])
        for table in ("triage_oauthsession", "triage_oauthrequest", "triage_serviceaccount"):
            accounts.execute(f"create table {table} (sealed blob)")
            accounts.execute(f"insert into {table} values (?)", [SESSION.encode()])
        accounts.commit()
    for path in ("diffs/ab/abc.patch.gz", "models/label_clean.serving", "models/certificates/one.json"):
        file = places.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"what {path} holds")


def copier(store: Store, places: Places) -> Callable[[Path], Mapping[str, Any]]:
    """What the owner of the store does for a backup."""
    return lambda folder: copy_state(store, places.accounts, folder, lambda step: None)


def back_up(store: Store, places: Places, target: Path, **options: bool) -> Manifest:
    """A backup by the owner of the store itself."""
    return write_backup(target, places, copier(store, places), **options)


def put_back(folder: Path, places: Places, replace: bool = False) -> Restored:
    """A restore at a fixed moment."""
    return restore(folder, places, replace, NOW)


def frames_of(size: int) -> Frames:
    """So many vouches by three people, each for somebody else."""
    frames = Frames()
    while len(frames) < size:
        frames.vouch((SEED, ANA, MARA)[len(frames) % 3], f"did:plc:{len(frames):024d}".replace("0", "a"))
    return frames


def files_of(root: Path) -> dict[str, bytes]:
    """Every file below a folder and what it holds."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
