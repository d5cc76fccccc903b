"""Putting a backup in the place of a drive's state: checked as a whole first, then moved in, what was there kept aside.

Whoever was erased after the backup was made is in it. The drive's own tombstones say who (in its store, and in its
snapshots where that cannot be read): those people are hidden in the copy before it is moved in, and are then erased.
"""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from ingest.backup_files import (
    ALL_KEYS,
    BackupProblem,
    File,
    Manifest,
    Places,
    copy_file,
    read_manifest,
    require_room,
    sizes,
    sync_all,
)
from ingest.backups import ASIDE
from ingest.durable import sync
from ingest.erase_files import files_below
from ingest.long_texts import LongTexts
from ingest.look_inside import Inside, InspectProblem, look_inside
from ingest.restore_people import Beside, Buried, buried_since, hide
from ingest.room import SPARE_BYTES
from ingest.state_copy import ACCOUNTS, EVENTS, STORE, TEXTS, copy_sqlite
from ingest.store import CONFIG, SCHEMA_VERSION
from ingest.table_sums import differing

STAGED = ".restoring"
SWAPPING = "swapping"  # in it while files change places: nothing else may start then


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it: the manifest, where the former state lies (None: there was none), who is still to be erased.

    `unknown`: no tombstones of this drive could be read, so whoever was erased since the backup is back.
    """

    manifest: Manifest
    aside: Path | None
    erase: tuple[str, ...]
    unknown: bool


def restore(folder: Path, places: Places, replace: bool, now: datetime) -> Restored:
    """Make the drive's state that of the backup. Nobody may own the store or start meanwhile.

    Raises BackupProblem with everything as it was; after a kill in the midst nothing starts until it is done again.
    """
    manifest = read_manifest(folder)
    require_nobody(places.store)
    occupied = occupied_by(places)
    if occupied and not replace:
        # By its path: a DUCKDB_PATH that the shell still exports leads to another drive's store.
        raise BackupProblem(f"{occupied} holds a state already: add --replace, which keeps it aside, to restore.")
    staged = places.root / STAGED
    try:
        return _restore(folder, places, manifest, staged, now)
    except (OSError, sqlite3.Error, duckdb.Error, InspectProblem) as problem:
        told = " ".join(str(problem).split())[:200]
        raise BackupProblem(f"{folder} was not restored ({told}). {_how_it_stands(staged)}") from problem
    finally:
        if not (staged / SWAPPING).exists():
            shutil.rmtree(staged, ignore_errors=True)


def _how_it_stands(staged: Path) -> str:
    if (staged / SWAPPING).exists():
        return "Mend that, then run the same command again with --replace."
    return "Nothing was changed."


def _restore(folder: Path, places: Places, manifest: Manifest, staged: Path, now: datetime) -> Restored:
    was_cut = (staged / SWAPPING).exists()
    _stage(folder, manifest, staged, was_cut)
    inside = _checked(folder, manifest, staged)
    buried = buried_since(places, inside, staged / "keys" / "tombstones")
    erase = _prepare(staged, places, buried)
    sync_all()
    (staged / SWAPPING).touch()
    sync(staged)
    aside = _swap(places, manifest, staged, now, buried)
    _clear(staged)
    sync(places.root)
    return Restored(manifest, aside, tuple(erase), buried.unknown)


def _clear(staged: Path) -> None:
    """Remove what is left of the copy; until the last of it is gone nothing starts."""
    for path in staged.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != SWAPPING:
            path.unlink()
    shutil.rmtree(staged)


def occupied_by(places: Places) -> Path | None:
    """The first thing that a restore would take away (store, accounts, archive, diffs, models); None: nothing."""
    if places.store.exists():
        return places.store
    if _has_accounts(places.accounts):
        return places.accounts
    return next((one for one in (places.staging / EVENTS, places.diffs, places.models) if any(files_below(one))), None)


def _has_accounts(path: Path) -> bool:
    """Whether anybody has an account; a file that cannot be read counts as one with accounts."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(path)) as accounts:
            return accounts.execute("select count(*) from triage_person").fetchone()[0] > 0
    except sqlite3.OperationalError as problem:
        return "no such table" not in str(problem)
    except sqlite3.Error:
        return True


def require_nobody(store: Path) -> None:
    """Refuse, with BackupProblem, to replace a store that a worker holds."""
    if not store.exists():
        return
    try:
        look_inside(store, sums=False)
    except InspectProblem as problem:
        if problem.held_by:
            raise BackupProblem(
                f"{store} is held by process {problem.held_by}: stop the worker, then run this again."
            ) from problem


def _stage(folder: Path, manifest: Manifest, staged: Path, was_cut: bool) -> None:
    """Copy what the manifest names onto the drive; each file has to be what the manifest says of it."""
    if staged.exists():
        shutil.rmtree(staged)
    require_room(staged.parent, sizes(manifest.files) + SPARE_BYTES)
    staged.mkdir(mode=0o700)
    if was_cut:
        (staged / SWAPPING).touch()
    origin = folder.resolve()  # a link or ".." in the path that was typed is the operator's own
    for name, said in manifest.files.items():
        if _copied(origin / name, staged / name) != said:
            raise BackupProblem(f"{folder / name} is damaged or missing: take another backup. Nothing was changed.")


def _copied(source: Path, target: Path) -> File | None:
    if source.parent.resolve() != source.parent.absolute():  # a link on the way leads out of the backup
        return None
    try:
        return copy_file(source, target)
    except FileNotFoundError:
        return None


def _checked(folder: Path, manifest: Manifest, staged: Path) -> Inside:
    """What the copied store holds; BackupProblem where that is not what the manifest says, or not ours."""
    inside = look_inside(staged / STORE)
    if inside.schema_version > SCHEMA_VERSION:
        raise BackupProblem(f"{folder} was made by a newer Sunstead: update this one first. Nothing was changed.")
    if manifest.duckdb == duckdb.__version__ and (wrong := differing(inside.tables, manifest.tables)):
        raise BackupProblem(f"{folder} is damaged: {wrong[0]} has other rows than {STORE} had. Nothing was changed.")
    lost = [path for path in inside.segments if f"{EVENTS}/{Path(path).name}" not in manifest.files]
    if lost or inside.foreign_code:
        what = lost[0] if lost else inside.foreign_code[0]
        raise BackupProblem(f"{folder} is not a backup that Sunstead made ({what[:100]}). Nothing was changed.")
    return inside


def _prepare(staged: Path, places: Places, buried: Buried) -> list[str]:
    """Have the copied store find its files where they will lie, and hide who was erased since; who that is."""
    connection = duckdb.connect(str(staged / STORE), config=CONFIG)
    try:
        tables = {row[0] for row in connection.execute("select table_name from duckdb_tables()").fetchall()}
        if "event_segments" in tables:
            for (path,) in connection.execute("select path from event_segments").fetchall():
                place = str(places.staging / EVENTS / Path(path).name)
                connection.execute("update event_segments set path = ? where path = ?", [place, path])
        erase = (
            hide(connection, Beside(staged / EVENTS, staged / TEXTS, staged / ACCOUNTS), buried) if buried.marks else []
        )
        connection.execute("force checkpoint")
    finally:
        connection.close()
    (staged / f"{STORE}.wal").unlink(missing_ok=True)
    sync(staged / STORE)
    return erase


def _swap(places: Places, manifest: Manifest, staged: Path, now: datetime, buried: Buried) -> Path | None:
    """Move the former state aside and the new one in, the store's own file last."""
    aside = places.root / f"{ASIDE}{now:%Y-%m-%dT%H-%M-%S}"
    moved = _move_aside(places, manifest, aside, buried)
    names = sorted(manifest.files, key=lambda name: (name == STORE, name))
    for name in names:
        if name == "keys/tombstones" and buried.keep_key:
            continue
        target = places.of(name)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if name == ACCOUNTS:  # through SQLite, since a web process may have it open
            copy_sqlite(staged / name, target)
        else:
            _move(staged / name, target)
        sync(target.parent)
    return aside if moved else None


def _move_aside(places: Places, manifest: Manifest, aside: Path, buried: Buried) -> bool:
    """Move away what the backup replaces and what was worked out from it; CURRENT stays, so that numbers go on."""
    if places.accounts.exists() and ACCOUNTS in manifest.files:
        aside.mkdir(mode=0o700, exist_ok=True)
        _keep_accounts(places.accounts, aside / ACCOUNTS)
    keys = [name for name in ALL_KEYS if f"keys/{name}" in manifest.files]
    if buried.keep_key:
        keys = [name for name in keys if name != "tombstones"]
    going = [
        *((places.store.with_name(places.store.name + end), f"{STORE}{end}") for end in ("", ".wal")),
        *_children(LongTexts(places.store).folder, TEXTS),
        *_children(places.staging, "staging"),
        *_children(places.diffs, "diffs"),
        *_children(places.models, "models"),
        *(one for one in _children(places.snapshots, "snapshots") if one[0].name != "CURRENT"),
        *(one for folder in places.caches for one in _children(folder, folder.name)),
        *((places.keys / name, f"keys/{name}") for name in keys),
    ]
    for source, name in going:
        if source.exists():
            (aside / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _move(source, aside / name)
    return aside.exists()


def _keep_accounts(source: Path, target: Path) -> None:
    """Copy the former accounts as they are; where they cannot be read as such, byte by byte."""
    try:
        copy_sqlite(source, target)
    except sqlite3.DatabaseError:
        target.unlink(missing_ok=True)
        copy_file(source, target)
        for end in ("", "-wal", "-shm"):
            source.with_name(source.name + end).unlink(missing_ok=True)


def _children(folder: Path, name: str) -> Sequence[tuple[Path, str]]:
    """What lies in a folder, which may be a mount point and so stays itself."""
    return [(path, f"{name}/{path.name}") for path in sorted(folder.iterdir())] if folder.is_dir() else []


def _move(source: Path, target: Path) -> None:
    """Rename, or copy where the target lies on another file system."""
    shutil.move(source, target)
