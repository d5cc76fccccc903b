"""Restore a backup in the place of a drive's state: check all of it, move it in, leave the former state aside.

People who were erased after the backup was made are in it. The drive's own tombstones (in its store, or in its
snapshots if that cannot be read) tell who they are: they are hidden in the copy before it is moved in, and then erased.

They are found by hashing every DID that the backup names, since a tombstone is a keyed hash.
"""

import hmac
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from ingest.backup.manifest import (
    ACCOUNTS,
    ALL_KEYS,
    ASIDE,
    EVENTS,
    STORE,
    TEXTS,
    BackupProblem,
    Manifest,
    Places,
    copy_file,
    copy_present,
    copy_sqlite,
    read_manifest,
    require_room,
    sizes,
    sync_all,
)
from ingest.erasure.files import files_below
from ingest.files import SPARE_BYTES, sync
from ingest.store.database import CONFIG, SCHEMA_VERSION
from ingest.store.digest import differing
from ingest.store.long_texts import LongTexts, texts_below
from ingest.store.look_inside import Inside, InspectProblem, look_inside
from ingest.store.tombstones import CHECK, mark_of

DID = r"did:(?:plc:[a-z2-7]{24}|web:[A-Za-z0-9-]+(?:[.:%][A-Za-z0-9-]+)*)"
_DID = re.compile(DID)
NAMED = f"""
select did from contributors
union select unnest(regexp_extract_all(concat_ws(' ', did, rkey, body), '{DID}')) from ({{events}})
union select unnest(regexp_extract_all(body, '{DID}')) from dead_letters
"""
Tombs = Mapping[str, tuple[str, str]]  # mark -> reason, erased_at


@dataclass(frozen=True, slots=True)
class Buried:
    """Tombstones that the backup lacks or has in an older version, under `key`; `unknown`: none was readable here.

    `keep_key`: the drive's own key stays, since its tombstones are under it.
    """

    key: bytes
    marks: Tombs
    unknown: bool
    keep_key: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """The places of the archive, the long texts and the accounts that belong to a store."""

    events: Path
    texts: Path
    accounts: Path


def buried_since(places: Places, inside: Inside, brought: Path) -> Buried:
    """Return the tombstones of this drive that the backup lacks. Raises BackupProblem if their keys do not match."""
    own_key, brought_key = _read_key(places.keys / "tombstones"), _read_key(brought)
    own_tombs, unknown = _read_tombs(places, own_key)
    key = own_key if own_tombs else brought_key or own_key
    if inside.check and not _key_fits(inside.check, key):
        raise BackupProblem(
            "This backup remembers erased people under another key than "
            + ("this drive does: " if own_tombs else "the one in keys/tombstones here: ")
            + "put the drive's keys/tombstones of that time there first. Nothing was changed."
        )
    newer_tombs = {mark: tomb for mark, tomb in own_tombs.items() if inside.tombstones.get(mark, ("", ""))[1] < tomb[1]}
    return Buried(key, newer_tombs, unknown, bool(own_tombs))


def _read_key(path: Path) -> bytes:
    try:
        return path.read_text().encode()
    except (OSError, UnicodeDecodeError):
        return b""


def _key_fits(check: str, key: bytes) -> bool:
    return hmac.compare_digest(check, mark_of(key, CHECK))


def _read_tombs(places: Places, key: bytes) -> tuple[Tombs, bool]:
    """Return the tombstones of the drive's store and snapshots, under its key, and True if none was readable."""
    tombs: dict[str, tuple[str, str]] = {}
    stores = [places.store, *sorted(places.snapshots.glob("serve-*.duckdb"))]
    inspected = [inside for inside in map(_try_look_inside, filter(Path.is_file, stores)) if inside is not None]
    for inside in inspected:
        if inside.check and not _key_fits(inside.check, key):
            raise BackupProblem(f"keys/tombstones is not the key of {places.store}: put that one there first.")
    moved_away = [
        inside
        for inside in map(_try_look_inside, places.root.glob(f"{ASIDE}*/{STORE}"))
        if inside and inside.check and _key_fits(inside.check, key)
    ]
    for inside in (*inspected, *moved_away):  # an interrupted restore has already moved the store away
        for mark, tomb in inside.tombstones.items():
            tombs[mark] = max(tombs.get(mark, tomb), tomb, key=lambda inside: inside[1])
    return tombs, not inspected


def _try_look_inside(path: Path) -> Inside | None:
    try:
        return look_inside(path, sums=False)
    except InspectProblem:
        return None


def hide(connection: duckdb.DuckDBPyConnection, beside: Beside, buried: Buried) -> list[str]:
    """Add the tombstones to the copied store and hide the people whom it knows; return the DIDs to erase."""
    rows = [(mark, why, erased_at) for mark, (why, erased_at) in buried.marks.items()]
    connection.executemany("insert or replace into tombstones values (?, ?, ?)", rows)
    connection.execute("insert or replace into meta values (?, ?)", [CHECK, mark_of(buried.key, CHECK)])
    dids_to_hide = sorted(
        did for did in set(_named_dids(connection, beside)) if mark_of(buried.key, did) in buried.marks
    )
    connection.execute(
        "update contributors set account_status = 'erasing' where list_contains(?, did)",
        [dids_to_hide],
    )
    return dids_to_hide


def _named_dids(connection: duckdb.DuckDBPyConnection, beside: Beside) -> Iterator[str]:
    """Yield every DID in the copy's log, among its people and its accounts."""
    files = [str(path) for path in sorted(beside.events.glob("*.parquet"))]
    events, params = "select did, rkey, body from events", []
    if files:
        events, params = f"{events} union all select did, rkey, body from read_parquet(?)", [files]
    yield from (row[0] for row in connection.execute(NAMED.replace("{events}", events), params).fetchall())
    for text in texts_below(beside.texts):
        yield from _DID.findall(text)
    if beside.accounts.is_file():
        with closing(sqlite3.connect(beside.accounts)) as accounts:
            try:
                yield from [row[0] for row in accounts.execute("select did from triage_person")]
            except sqlite3.OperationalError:  # on this drive nobody ever opened a page
                return


STAGED = ".restoring"
SWAPPING = "swapping"  # exists while files change places: nothing else may start then


@dataclass(frozen=True, slots=True)
class Restored:
    """The result: the manifest, the folder of the former state (None if there was none), and people still to erase.

    `unknown`: no tombstones of this drive were readable, so people who were erased since the backup are back.
    """

    manifest: Manifest
    aside: Path | None
    erase: tuple[str, ...]
    unknown: bool


def restore(folder: Path, places: Places, replace: bool, now: datetime) -> Restored:
    """Make the drive's state that of the backup. No process may own the store or start at that time.

    Raises BackupProblem with everything unchanged; after a kill in the middle nothing starts until it is repeated.
    """
    manifest = read_manifest(folder)
    require_nobody(places.store)
    occupied = occupied_by(places)
    if occupied and not replace:
        # Name the path: a DUCKDB_PATH that the shell still exports leads to another drive's store.
        raise BackupProblem(f"{occupied} holds a state already: add --replace, which keeps it aside, to restore.")
    staged = places.root / STAGED
    try:
        return _restore(folder, places, manifest, staged, now)
    except (OSError, sqlite3.Error, duckdb.Error, InspectProblem) as problem:
        message = " ".join(str(problem).split())[:200]
        raise BackupProblem(f"{folder} was not restored ({message}). {_state_sentence(staged)}") from problem
    finally:
        if not (staged / SWAPPING).exists():
            shutil.rmtree(staged, ignore_errors=True)


def _state_sentence(staged: Path) -> str:
    if (staged / SWAPPING).exists():
        return "Mend that, then run the same command again with --replace."
    return "Nothing was changed."


def _restore(folder: Path, places: Places, manifest: Manifest, staged: Path, now: datetime) -> Restored:
    was_cut = (staged / SWAPPING).exists()
    _stage_files(folder, manifest, staged, was_cut)
    inside = _check_store(folder, manifest, staged)
    buried = buried_since(places, inside, staged / "keys" / "tombstones")
    erase = _prepare_store(staged, places, buried)
    sync_all()
    (staged / SWAPPING).touch()
    sync(staged)
    aside = _swap_files(places, manifest, staged, now, buried)
    for path in staged.iterdir():  # SWAPPING goes last: nothing starts until the rest is gone
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != SWAPPING:
            path.unlink()
    shutil.rmtree(staged)
    sync(places.root)
    return Restored(manifest, aside, tuple(erase), buried.unknown)


def occupied_by(places: Places) -> Path | None:
    """Return the first thing that a restore would replace (store, accounts, archive, diffs, models), or None."""
    if places.store.exists():
        return places.store
    if _has_accounts(places.accounts):
        return places.accounts
    return next(
        (folder for folder in (places.staging / EVENTS, places.diffs, places.models) if any(files_below(folder))), None
    )


def _has_accounts(path: Path) -> bool:
    """Return True if anybody has an account; a file that cannot be read counts as one with accounts."""
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
    """Raise BackupProblem if a worker holds the store that is to be replaced."""
    if not store.exists():
        return
    try:
        look_inside(store, sums=False)
    except InspectProblem as problem:
        if problem.held_by:
            raise BackupProblem(
                f"{store} is held by process {problem.held_by}: stop the worker, then run this again."
            ) from problem


def _stage_files(folder: Path, manifest: Manifest, staged: Path, was_cut: bool) -> None:
    """Copy the files in the manifest onto the drive; each file must match its entry."""
    if staged.exists():
        shutil.rmtree(staged)
    require_room(staged.parent, sizes(manifest.files) + SPARE_BYTES)
    staged.mkdir(mode=0o700)
    if was_cut:
        (staged / SWAPPING).touch()
    origin = folder.resolve()  # a link or ".." in the typed path is the operator's own
    for name, expected in manifest.files.items():
        source = origin / name
        leads_out = source.parent.resolve() != source.parent.absolute()  # by a link on the way
        if leads_out or copy_present(source, staged / name) != expected:
            raise BackupProblem(f"{folder / name} is damaged or missing: take another backup. Nothing was changed.")


def _check_store(folder: Path, manifest: Manifest, staged: Path) -> Inside:
    """Return the contents of the copied store. Raises BackupProblem if they do not match the manifest."""
    inside = look_inside(staged / STORE)
    if inside.schema_version > SCHEMA_VERSION:
        raise BackupProblem(f"{folder} was made by a newer Sunstead: update this one first. Nothing was changed.")
    if manifest.duckdb == duckdb.__version__ and (differing_tables := differing(inside.tables, manifest.tables)):
        raise BackupProblem(
            f"{folder} is damaged: {differing_tables[0]} has other rows than {STORE} had. Nothing was changed."
        )
    missing_segments = [path for path in inside.segments if f"{EVENTS}/{Path(path).name}" not in manifest.files]
    if missing_segments or inside.foreign_code:
        example = missing_segments[0] if missing_segments else inside.foreign_code[0]
        raise BackupProblem(f"{folder} is not a backup that Sunstead made ({example[:100]}). Nothing was changed.")
    return inside


def _prepare_store(staged: Path, places: Places, buried: Buried) -> list[str]:
    """Point the copied store to its files' final places, and hide people erased since; return those people."""
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


def _swap_files(places: Places, manifest: Manifest, staged: Path, now: datetime, buried: Buried) -> Path | None:
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
    """Move away the files that the backup replaces and their derived files; CURRENT stays, so that numbers continue."""
    if places.accounts.exists() and ACCOUNTS in manifest.files:
        aside.mkdir(mode=0o700, exist_ok=True)
        _keep_accounts(places.accounts, aside / ACCOUNTS)
    keys = [name for name in ALL_KEYS if f"keys/{name}" in manifest.files]
    if buried.keep_key:
        keys = [name for name in keys if name != "tombstones"]
    sources = [
        *((places.store.with_name(places.store.name + end), f"{STORE}{end}") for end in ("", ".wal")),
        *_children(LongTexts(places.store).folder, TEXTS),
        *_children(places.staging, "staging"),
        *_children(places.diffs, "diffs"),
        *_children(places.models, "models"),
        *(
            source_and_name
            for source_and_name in _children(places.snapshots, "snapshots")
            if source_and_name[0].name != "CURRENT"
        ),
        *(source_and_name for folder in places.caches for source_and_name in _children(folder, folder.name)),
        *((places.keys / name, f"keys/{name}") for name in keys),
    ]
    for source, name in sources:
        if source.exists():
            (aside / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _move(source, aside / name)
    return aside.exists()


def _keep_accounts(source: Path, target: Path) -> None:
    """Copy the former accounts by SQLite, or byte by byte if they cannot be read."""
    try:
        copy_sqlite(source, target)
    except sqlite3.DatabaseError:
        target.unlink(missing_ok=True)
        copy_file(source, target)
        for end in ("", "-wal", "-shm"):
            source.with_name(source.name + end).unlink(missing_ok=True)


def _children(folder: Path, name: str) -> Sequence[tuple[Path, str]]:
    """Return the entries of a folder; the folder itself may be a mount point and so stays."""
    return [(path, f"{name}/{path.name}") for path in sorted(folder.iterdir())] if folder.is_dir() else []


def _move(source: Path, target: Path) -> None:
    """Rename, or copy if the target lies on another file system."""
    shutil.move(source, target)
