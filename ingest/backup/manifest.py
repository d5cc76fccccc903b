"""Write a backup while everything runs: a folder of plain files, and a manifest with hashes and sums of every table.

`DIR.part` is checked and durable, then renamed to `DIR`. The owner of the store copies everything that must be of one
moment, while everybody reads and writes on. The store, its archived rows and the accounts must be of one moment: an
action that the accounts call delivered must be in the store. So the accounts (megabytes) are copied while nobody writes
to the store; the store's own file and the archive are copied after that, since until the next checkpoint commits go
beside the file and no rows move to files. The command's own process does the hashing and checking and copies the files
that never change once written, so that the worker can go on.

Backups lie beside the store. An erasure does not touch them: erased data stays in a backup until the backup expires.
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
    """Copy store, archive and accounts of one moment into an empty folder.

    Returns that moment (`made_at`, ISO), the cursor of each stream (`cursors`), the number of `rows` of each table, and
    the `sha256` of each copied file, by name. Raises StoreProblem.
    """
    try:
        with store.files, store.publishing:
            state = _copy_accounts(store, accounts, folder)
            show("The store is copied.")
            segments = [Path(path) for path in state.pop("segments")]
            (folder / EVENTS).mkdir(mode=0o700)
            hashes = _copy_files([store.path], folder, [STORE])
            hashes |= _copy_files(segments, folder, [f"{EVENTS}/{path.name}" for path in segments])
    except (OSError, sqlite3.Error) as problem:
        raise StoreProblem(f"the state could not be copied to {folder} ({problem})") from problem
    return {**state, "sha256": hashes}


def _copy_accounts(store: Store, accounts: Path, folder: Path) -> dict[str, Any]:
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
    """Copy a SQLite file as of one moment into another one, even while both are in use. Raises sqlite3.Error."""
    source_database = sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    with closing(source_database), closing(sqlite3.connect(target, timeout=BUSY_SECONDS)) as copy:
        source_database.backup(copy)


def _copy_files(sources: Sequence[Path], folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Copy files and return their hashes, both in children: a second handle would drop DuckDB's lock on the store."""
    for source, name in zip(sources, names, strict=True):
        _run_command("cp", "--reflink=auto", "--no-target-directory", "--", str(source), str(folder / name))
        (folder / name).chmod(0o600)
        sync(folder / name)
    if not sources:
        return {}
    lines = _run_command("sha256sum", "--zero", "--", *map(str, sources)).split("\0")
    return {name: line[:64] for name, line in zip(names, lines, strict=False)}


def _run_command(*command: str) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise StoreProblem(f"the state could not be copied: {finished.stderr.strip()[:300]}")
    return finished.stdout


MANIFEST = "manifest.json"
FORMAT = 1
LARGEST_MANIFEST = 64_000_000
PIECE = 1 << 20
# Left out: whoever finds a backup is not signed in. A refresh token is good for one use: one that was used since the
# backup was made would also end the person's session at their server.
SESSIONS = {"django_session", "triage_oauthrequest", "triage_oauthsession"}
PUBLISHES_AS = "triage_serviceaccount"
KEYS = ("django", "audit", "tombstones")  # every drive has these
ALL_KEYS = (*KEYS, "webhook", "push")  # and these once they signed: a receiver has a copy, browsers hold the other half
# Allowed names: the two files, or a file in one of the folders, at most five deep; a name becomes a path on restore.
_NAME = re.compile(
    rf"{re.escape(STORE)}|{re.escape(ACCOUNTS)}|keys/(?:{'|'.join(ALL_KEYS)})|{EVENTS}/[A-Za-z0-9][\w.-]{{0,199}}\.parquet"
    rf"|{TEXTS}/[0-9a-f]{{2}}/[0-9a-f]{{64}}\.zst"
    r"|(?:diffs|models)(?:/[A-Za-z0-9][\w.-]{0,199}){1,4}",
    re.ASCII,
)


class BackupProblem(Exception):
    """No backup was made or restored; the message is one sentence with the reason and the remedy."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of a backup: the state at `made_at`, up to the `cursors` (time_us) of each stream."""

    format: int = FORMAT
    made_at: datetime
    cursors: dict[str, int]
    schema_version: int
    duckdb: str
    tables: dict[str, Sum]
    files: dict[str, File]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a drive's state; `caches` are made from it and not backed up."""

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
        top, _, below = name.partition("/")
        single_files = {STORE: self.store, ACCOUNTS: self.accounts}
        folders = {EVENTS: self.staging / EVENTS, "diffs": self.diffs, "models": self.models, "keys": self.keys}
        folders[TEXTS] = LongTexts(self.store).folder
        return single_files[top] if top in single_files else folders[top] / below


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def copy_tree(source: Path, folder: Path, name: str) -> dict[str, File]:
    """Copy the files below `source` to `name` in the folder; pointers first, so that the named files follow."""
    paths = sorted(files_below(source), key=lambda path: (path.suffix != ".serving", path))
    path_by_name = {f"{name}/{path.relative_to(source).as_posix()}": path for path in paths}
    copied = {
        target_name: copy_present(path, folder / target_name)
        for target_name, path in path_by_name.items()
        if is_name(target_name)
    }
    return {target_name: file for target_name, file in copied.items() if file is not None}


def copy_present(source: Path, target: Path) -> File | None:
    """Copy a file; return None if it is gone, since diffs are deleted when they get old."""
    try:
        return copy_file(source, target)
    except FileNotFoundError:
        return None


def copy_file(source: Path, target: Path) -> File:
    """Copy a plain file with mode 600, without following links; return its size and hash. The caller syncs it."""
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
    """Return the manifest of a backup. Raises BackupProblem if there is no usable one."""
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


def require_room(place: Path, needed: int) -> None:
    """Raise BackupProblem if this many bytes do not fit."""
    free = shutil.disk_usage(place).free
    if free < needed:
        raise BackupProblem(f"{place} has {free // 1_000_000} MB free and {needed // 1_000_000 + 1} MB are needed.")


def sizes(files: Mapping[str, File]) -> int:
    return sum(file.size for file in files.values())


def sync_all() -> None:
    """Make everything that was written durable at once: one by one, 100,000 diffs take five minutes."""
    os.sync()


@dataclass(frozen=True, slots=True)
class Backup:
    """A file or folder in the backup folder; times are naive UTC."""

    path: Path
    made_at: datetime
    expires_at: datetime


ASIDE = "replaced-"  # prefix of the folder in which a restore leaves the former state, beside the store


def backups(folder: Path, days: int, root: Path | None = None) -> list[Backup]:
    """Return the entries of the folder, oldest first, each with the time from which it may no longer be kept.

    With `root`, DATA_ROOT, also the former states that restores left there.
    """
    entries = []
    former_states = root.glob(f"{ASIDE}*") if root else ()
    for path in (*(folder.iterdir() if folder.is_dir() else ()), *former_states):
        made_at = datetime.fromtimestamp(path.lstat().st_mtime, UTC).replace(tzinfo=None)
        entries.append(Backup(path, made_at, made_at + timedelta(days=days)))
    return sorted(entries, key=lambda backup: (backup.made_at, backup.path))


CopiedState = Mapping[str, Any]
PART = ".part"
STARTED = ".sunstead-backup"  # marks a folder that a backup began, also after a kill


def write_backup(
    target: Path, places: Places, copy_state: Callable[[Path], CopiedState], *, diffs: bool = True, keys: bool = False
) -> Manifest:
    """Back up the state of one moment into the folder `target`; return the manifest.

    `copy_state` makes the owner fill a folder (`ingest.backup.manifest.copy_state`). Raises BackupProblem, and leaves
    no folder of that name behind.
    """
    part = _begin_folder(target, places)
    try:
        manifest = _fill_folder(part, places, copy_state(part), diffs, keys)
        _check_files(part, manifest)
        (part / STARTED).unlink()
        sync_all()
        part.rename(target)
        sync(target.parent)
    except (OSError, sqlite3.Error, InspectProblem) as problem:
        raise BackupProblem(f"No backup was made in {target} ({problem}).") from problem
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def _begin_folder(target: Path, places: Places) -> Path:
    """Return the folder that will be renamed; first remove a half-done backup of that name."""
    part = target.with_name(target.name + PART)
    if target.exists() or target.is_symlink():
        raise BackupProblem(f"{target} exists already: name a new folder, or leave the name out.")
    if (part / STARTED).is_file():
        shutil.rmtree(part, ignore_errors=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.mkdir(mode=0o700)
        (part / STARTED).touch(mode=0o600)
        require_room(part, _needed_bytes(places))
    except OSError as problem:
        raise BackupProblem(f"{part} cannot be made ({problem.strerror}): name another folder.") from problem
    except BackupProblem:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return part


def _needed_bytes(places: Places) -> int:
    folders = (places.staging / EVENTS, places.diffs, places.models, LongTexts(places.store).folder)
    files = [places.store, places.accounts, *(path for folder in folders for path in files_below(folder))]
    return SPARE_BYTES + sum(path.stat().st_size for path in files if path.is_file())


def _fill_folder(part: Path, places: Places, state: CopiedState, diffs: bool, keys: bool) -> Manifest:
    hashes: Mapping[str, str] = state["sha256"]
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
    manifest = _build_manifest(state, files, look_inside(part / STORE))
    write_whole(part / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
    (part / MANIFEST).chmod(0o600)
    return manifest


def end_sessions(path: Path) -> None:
    """Remove the sessions, so that nobody can sign in with a backup. The file is rewritten, without a WAL.

    The account as which the site publishes stays without its app password: a restored site does not know who objected
    or what was taken back since, so it publishes nothing before an admin connects the account again.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as accounts:
        accounts.execute("pragma journal_mode=delete").fetchall()
        tables = {row[0] for row in accounts.execute("select name from sqlite_master where type = 'table'")}
        for table in SESSIONS & tables:
            accounts.execute(f'delete from "{table}"')
        if PUBLISHES_AS in tables:
            accounts.execute(f'update "{PUBLISHES_AS}" set sealed = null')
        accounts.execute("vacuum")
    path.chmod(0o600)
    sync(path)


def _build_manifest(state: CopiedState, files: dict[str, File], inside: Inside) -> Manifest:
    """Return the manifest of the copy. Raises BackupProblem if the owner counted other rows at that moment."""
    row_counts = {name: table_sum.rows for name, table_sum in inside.tables.items()}
    if row_counts != dict(state["rows"]):
        wrong_tables = sorted(
            name for name in row_counts.keys() | state["rows"].keys() if row_counts.get(name) != state["rows"].get(name)
        )
        raise BackupProblem(
            f"The copy of the store has other rows than the store had ({', '.join(wrong_tables)[:200]})."
        )
    return Manifest(
        made_at=datetime.fromisoformat(state["made_at"]),
        cursors=dict(state["cursors"]),
        schema_version=inside.schema_version,
        duckdb=duckdb.__version__,
        tables=inside.tables,
        files=files,
    )


def _check_files(part: Path, manifest: Manifest) -> None:
    """Read back the written files: each must match the manifest, and there may be no others."""
    for name, file in manifest.files.items():
        if file_of(part / name) != file:
            raise BackupProblem(f"{part / name} cannot be read back as it was written: see to the drive.")
    names_found = {path.relative_to(part).as_posix() for path in files_below(part)} - {MANIFEST, STARTED}
    if names_found != manifest.files.keys():
        raise BackupProblem(f"{part} holds what was not copied into it: name another folder.")


def told_of(manifest: Manifest, target: Path) -> str:
    rows = sum(table_sum.rows for table_sum in manifest.tables.values())
    keys = "with" if any(name.startswith("keys/") for name in manifest.files) else "without"
    size = sizes(manifest.files) / 1e6
    return (
        f"{target} holds the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC: {rows:,} rows in "
        f"{len(manifest.tables)} tables, {len(manifest.files)} files, {size:,.1f} MB, {keys} keys."
    )
