"""Writes a backup while everything runs: a folder of plain files, and a manifest with hashes and sums of every table.

`DIR.part` is checked and on the drive, then renamed to `DIR`. The owner of the store copies what has to agree at one
moment, while everybody reads and writes on. The store, its archived rows and the accounts agree only at one moment: an
action that the accounts call delivered must be in the store. So the accounts (megabytes) are copied while nobody writes
to the store; the store's own file and the archive are copied after that, since until the next checkpoint commits go
beside the file and nothing moves to files. Hashing, checking and the files that never change once written are the work
of the command's own process, so that the worker goes on with its own.

Backups lie beside the store. An erasure touches nothing in one: it goes when the backup expires.
"""

import hashlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import msgspec

from ingest.erasure.files import files_below
from ingest.errors import StoreProblem
from ingest.files import SPARE_BYTES, sync, write_whole
from ingest.store.database import Store
from ingest.store.digest import Sum
from ingest.store.long_texts import LongTexts
from ingest.store.look_inside import Inside, InspectProblem, look_inside

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


MANIFEST = "manifest.json"
FORMAT = 1
LARGEST_MANIFEST = 64_000_000
PIECE = 1 << 20
KEYS = ("django", "audit", "tombstones")  # every drive has these
ALL_KEYS = (*KEYS, "webhook")  # and this one once a webhook was signed: its receiver holds the same
# What a name may be: the two files, or a file in one of the folders, at most five deep; it becomes a path on restore.
_NAME = re.compile(
    rf"{re.escape(STORE)}|{re.escape(ACCOUNTS)}|keys/(?:{'|'.join(ALL_KEYS)})|{EVENTS}/[A-Za-z0-9][\w.-]{{0,199}}\.parquet"
    rf"|{TEXTS}/[0-9a-f]{{2}}/[0-9a-f]{{64}}\.zst"
    r"|(?:diffs|models)(?:/[A-Za-z0-9][\w.-]{0,199}){1,4}",
    re.ASCII,
)


class BackupProblem(Exception):
    """No backup was made or restored; the message is one sentence that says why and what to do."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of a backup: the state of the moment `made_at`, up to the `cursors` (time_us) of each stream."""

    format: int = FORMAT
    made_at: datetime
    cursors: dict[str, int]
    schema_version: int
    duckdb: str
    tables: dict[str, Sum]
    files: dict[str, File]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a drive's state; `caches` follow from it and are not backed up."""

    root: Path
    store: Path
    accounts: Path
    staging: Path
    diffs: Path
    models: Path
    keys: Path
    snapshots: Path
    caches: tuple[Path, ...]

    def of(self, name: str) -> Path:
        first, _, rest = name.partition("/")
        whole = {STORE: self.store, ACCOUNTS: self.accounts}
        folders = {EVENTS: self.staging / EVENTS, "diffs": self.diffs, "models": self.models, "keys": self.keys}
        folders[TEXTS] = LongTexts(self.store).folder
        return whole[first] if first in whole else folders[first] / rest


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def copy_tree(source: Path, folder: Path, name: str) -> dict[str, File]:
    """Copy the files below `source` to `name` in the folder; pointers first, so that what they name is copied too."""
    found = sorted(files_below(source), key=lambda path: (path.suffix != ".serving", path))
    named = {f"{name}/{path.relative_to(source).as_posix()}": path for path in found}
    copied = {one: copy_present(path, folder / one) for one, path in named.items() if is_name(one)}
    return {one: file for one, file in copied.items() if file is not None}


def copy_present(source: Path, target: Path) -> File | None:
    """As `copy_file`; None for a file that is not there, as diffs go at the end of their time."""
    try:
        return copy_file(source, target)
    except FileNotFoundError:
        return None


def copy_file(source: Path, target: Path) -> File:
    """Copy a plain file, mode 600; what was read. Links are not followed. The caller has the drive hold them all."""
    handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as reading:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{source} is not a plain file")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing:
            size, digest = 0, hashlib.sha256()
            while piece := reading.read(PIECE):
                size += writing.write(piece)
                digest.update(piece)
    return File(size, digest.hexdigest())


def file_of(path: Path) -> File:
    with path.open("rb") as file:
        return File(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup. Raises BackupProblem where there is none that can be followed."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            manifest = msgspec.json.decode(file.read(LARGEST_MANIFEST), type=Manifest)
    except OSError as problem:
        raise BackupProblem(f"{folder} is not a backup: {MANIFEST} cannot be read ({problem.strerror}).") from problem
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BackupProblem(f"{folder} is damaged: {MANIFEST} makes no sense. Take another backup.") from problem
    if manifest.format != FORMAT:
        raise BackupProblem(f"{folder} was made by another version of Sunstead: restore it with that one.")
    if STORE not in manifest.files or not all(map(is_name, manifest.files)):
        raise BackupProblem(f"{folder} is damaged: {MANIFEST} names what no backup holds. Take another backup.")
    return manifest


def require_room(place: Path, wanted: int) -> None:
    """Refuse, with BackupProblem, to copy so many bytes where they do not fit."""
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise BackupProblem(f"{place} has {free // 1_000_000} MB free and {wanted // 1_000_000 + 1} MB are needed.")


def sizes(files: Mapping[str, File]) -> int:
    return sum(file.size for file in files.values())


def sync_all() -> None:
    """Have the drives hold everything that was written: one by one, 100,000 diffs take five minutes."""
    os.sync()


@dataclass(frozen=True, slots=True)
class Backup:
    """A file or folder of the backup folder; times are naive UTC."""

    path: Path
    made_at: datetime
    expires_at: datetime


ASIDE = "replaced-"  # begins the name of what a restore kept of the former state, beside the store


def backups(folder: Path, days: int, root: Path | None = None) -> list[Backup]:
    """Return what lies in the folder, oldest first, each with the moment from which it may no longer be kept.

    With `root`, DATA_ROOT, also what restores kept aside there.
    """
    found = []
    aside = root.glob(f"{ASIDE}*") if root else ()
    for path in (*(folder.iterdir() if folder.is_dir() else ()), *aside):
        made_at = datetime.fromtimestamp(path.lstat().st_mtime, UTC).replace(tzinfo=None)
        found.append(Backup(path, made_at, made_at + timedelta(days=days)))
    return sorted(found, key=lambda backup: (backup.made_at, backup.path))


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
    rows = sum(one.rows for one in manifest.tables.values())
    keys = "with" if any(name.startswith("keys/") for name in manifest.files) else "without"
    size = sizes(manifest.files) / 1e6
    return (
        f"{target} holds the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC: {rows:,} rows in "
        f"{len(manifest.tables)} tables, {len(manifest.files)} files, {size:,.1f} MB, {keys} keys."
    )
