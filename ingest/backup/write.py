"""Writing a backup while everything runs: `DIR.part`, checked and on the drive, then renamed to `DIR`.

The owner of the store copies what has to agree (ingest/backup/manifest.py). Hashing, checking and the files that never
change once written are this process's work, so that the worker goes on with its own.
"""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from ingest.backup.manifest import (
    ACCOUNTS,
    ALL_KEYS,
    EVENTS,
    MANIFEST,
    STORE,
    TEXTS,
    BackupProblem,
    File,
    Manifest,
    Places,
    copy_file,
    copy_tree,
    file_of,
    require_room,
    sizes,
    sync_all,
)
from ingest.erasure.files import files_below
from ingest.files import SPARE_BYTES, sync, write_whole
from ingest.store.long_texts import LongTexts
from ingest.store.look_inside import Inside, InspectProblem, look_inside

Told = Mapping[str, Any]
PART = ".part"
STARTED = ".sunstead-backup"  # in a folder that a backup began; what a kill left of one is known by it


def write_backup(
    target: Path, places: Places, copy_state: Callable[[Path], Told], *, diffs: bool = True, keys: bool = False
) -> Manifest:
    """Make the folder `target` a backup of the state at one moment; what it holds.

    `copy_state` has the owner fill a folder (`ingest.backup.manifest.copy_state`). Raises BackupProblem, and leaves
    nothing of that name behind.
    """
    part = _begin(target, places)
    try:
        manifest = _fill(part, places, copy_state(part), diffs, keys)
        _check(part, manifest)
        (part / STARTED).unlink()
        sync_all()
        part.rename(target)
        sync(target.parent)
    except (OSError, sqlite3.Error, InspectProblem) as problem:
        raise BackupProblem(f"No backup was made in {target} ({problem}).") from problem
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _begin(target: Path, places: Places) -> Path:
    """The folder that is to be renamed; what a backup of the same name left half done goes first."""
    part = target.with_name(target.name + PART)
    if target.exists() or target.is_symlink():
        raise BackupProblem(f"{target} exists already: name a new folder, or leave the name out.")
    if (part / STARTED).is_file():
        shutil.rmtree(part, ignore_errors=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.mkdir(mode=0o700)
        (part / STARTED).touch(mode=0o600)
        require_room(part, _wanted(places))
    except OSError as problem:
        raise BackupProblem(f"{part} cannot be made ({problem.strerror}): name another folder.") from problem
    except BackupProblem:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return part


def _wanted(places: Places) -> int:
    folders = (places.staging / EVENTS, places.diffs, places.models, LongTexts(places.store).folder)
    files = [places.store, places.accounts, *(path for folder in folders for path in files_below(folder))]
    return SPARE_BYTES + sum(path.stat().st_size for path in files if path.is_file())


def _fill(part: Path, places: Places, told: Told, diffs: bool, keys: bool) -> Manifest:
    """Copy what is beside the store, and say what there is."""
    hashes: Mapping[str, str] = told["sha256"]
    files = {name: file_of(part / name) for name in hashes}
    changed = [name for name, file in files.items() if file.sha256 != hashes[name]]
    if changed:
        raise BackupProblem(f"The copy of {changed[0]} differs from what was copied: see to the drive, then try again.")
    if (part / ACCOUNTS).is_file():
        end_sessions(part / ACCOUNTS)
        files[ACCOUNTS] = file_of(part / ACCOUNTS)
    files |= copy_tree(places.models, part, "models")
    files |= copy_tree(LongTexts(places.store).folder, part, TEXTS)
    files |= copy_tree(places.diffs, part, "diffs") if diffs else {}
    names = [f"keys/{name}" for name in ALL_KEYS if keys and (places.keys / name).is_file()]
    files |= {name: copy_file(places.of(name), part / name) for name in names}
    manifest = _manifest(told, files, look_inside(part / STORE))
    write_whole(part / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    (part / MANIFEST).chmod(0o600)
    return manifest


def end_sessions(path: Path) -> None:
    """Take out who is signed in: whoever finds a backup must not be. The file is written anew, without a WAL."""
    with closing(sqlite3.connect(path, isolation_level=None)) as accounts:
        accounts.execute("pragma journal_mode=delete").fetchall()
        tables = {row[0] for row in accounts.execute("select name from sqlite_master where type = 'table'")}
        if "django_session" in tables:
            accounts.execute("delete from django_session")
        accounts.execute("vacuum")
    path.chmod(0o600)
    sync(path)


def _manifest(told: Told, files: dict[str, File], inside: Inside) -> Manifest:
    """Return what the copy holds; BackupProblem where the owner counted other rows at that moment."""
    counted = {name: one.rows for name, one in inside.tables.items()}
    if counted != dict(told["rows"]):
        wrong = sorted(
            name for name in counted.keys() | told["rows"].keys() if counted.get(name) != told["rows"].get(name)
        )
        raise BackupProblem(f"The copy of the store has other rows than the store had ({', '.join(wrong)[:200]}).")
    return Manifest(
        made_at=datetime.fromisoformat(told["made_at"]),
        cursors=dict(told["cursors"]),
        schema_version=inside.schema_version,
        duckdb=duckdb.__version__,
        tables=inside.tables,
        files=files,
    )


def _check(part: Path, manifest: Manifest) -> None:
    """Read back what was written: every file is as the manifest says, and there is none besides."""
    for name, file in manifest.files.items():
        if file_of(part / name) != file:
            raise BackupProblem(f"{part / name} cannot be read back as it was written: see to the drive.")
    found = {path.relative_to(part).as_posix() for path in files_below(part)} - {MANIFEST, STARTED}
    if found != manifest.files.keys():
        raise BackupProblem(f"{part} holds what was not copied into it: name another folder.")


def told_of(manifest: Manifest, target: Path) -> str:
    """One line about a backup."""
    rows = sum(one.rows for one in manifest.tables.values())
    keys = "with" if any(name.startswith("keys/") for name in manifest.files) else "without"
    size = sizes(manifest.files) / 1e6
    return (
        f"{target} holds the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC: {rows:,} rows in "
        f"{len(manifest.tables)} tables, {len(manifest.files)} files, {size:,.1f} MB, {keys} keys."
    )
