"""A missing main file: never begin a new one beside its snapshots; restore it from the newest of them."""

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from ingest.backup.manifest import ASIDE, EVENTS, TEXTS, BackupProblem, Places, require_room
from ingest.backup.restore import Beside, Buried, buried_since, hide, require_nobody
from ingest.erasure.files import files_below
from ingest.errors import StoreProblem
from ingest.files import SPARE_BYTES, sync
from ingest.store.archive import Lost, mend_segments
from ingest.store.database import CONFIG, SCHEMA_VERSION
from ingest.store.long_texts import LongTexts
from ingest.store.look_inside import Inside, InspectProblem, look_inside
from ingest.store.snapshots import snapshot_files

AFRESH = "To start afresh instead, move that folder away."


@dataclass(frozen=True, slots=True)
class FromSnapshot:
    """A finished restore: the snapshot that is the store now, its time, and the folder with the former state.

    `erase`: people who were erased after that time; `lost`: files of the archive that it names and that are gone;
    `unknown`: the former file could not be read, so a person who was erased only in it is back.
    """

    snapshot: Path
    made_at: datetime
    aside: Path | None
    erase: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    unknown: bool = False


def require_store(path: Path, snapshots: Path) -> None:
    """Raise StoreProblem instead of beginning a new store at `path` while snapshots of an earlier one lie there.

    A new store is empty and would be published over them, and the tombstones of erased people would be lost with them.
    """
    if path.exists() or not (_has_pointer(snapshots) or snapshot_files(snapshots)):
        return
    remedies = ["mount its drive or put the file back", "run `manage.py restore DIR` with a backup"]
    newest = next((snapshot for snapshot in snapshot_files(snapshots) if _is_readable(snapshot, sums=False)), None)
    if newest:
        made_text = f"{made_at(newest):%Y-%m-%d %H:%M} UTC"
        remedies.append(f"run `manage.py restore --snapshot`, which takes {newest.name} of {made_text}")
    choices = f"{', '.join(remedies[:-1])}, or {remedies[-1]}"
    raise StoreProblem(f"{path} is gone, but {snapshots} holds what was published of it: {choices}. {AFRESH}")


def _has_pointer(snapshots: Path) -> bool:
    """Return True if CURRENT exists in any form: even an unreadable one means that something was published."""
    try:
        (snapshots / "CURRENT").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def restore_snapshot(places: Places, replace: bool, now: datetime) -> FromSnapshot:
    """Make the newest whole snapshot the store. No process may own the store at that time.

    Every table is read through first. `replace` moves a present main file aside, with copies of the long texts and of
    the archive, since the store removes its own files that it does not name. Raises BackupProblem with everything
    unchanged; a kill leaves either the former state or a missing file, and the command can be repeated.
    """
    require_nobody(places.store)
    if places.store.exists() and not replace:
        raise BackupProblem(f"{places.store} is there: add --replace, which keeps it aside, to take the snapshot.")
    snapshot = next(
        (candidate for candidate in snapshot_files(places.snapshots) if _is_readable(candidate, sums=True)), None
    )
    if snapshot is None:
        raise BackupProblem(f"No snapshot in {places.snapshots} can be read: restore a backup instead.")
    try:
        return _put_back(snapshot, places, now)
    except (OSError, duckdb.Error, InspectProblem) as problem:
        raise BackupProblem(f"{snapshot} could not be put back ({problem}): mend that and run this again.") from problem


def _put_back(snapshot: Path, places: Places, now: datetime) -> FromSnapshot:
    """Copy the snapshot beside the store's place, move the present files aside, mend the copy, rename it."""
    folder = places.store.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_room(folder, snapshot.stat().st_size + SPARE_BYTES)
    unknown = places.store.exists() and not _is_readable(places.store, sums=False)
    inside = look_inside(snapshot, sums=False)
    buried = buried_since(places, inside, places.keys / "tombstones")
    draft = places.store.with_name(f"{places.store.name}.restoring")
    try:
        shutil.copyfile(snapshot, draft)
        draft.chmod(0o600)
        aside = _copy_aside(places, now)
        erase, lost = _mend_copy(draft, places, inside, buried)
        sync(draft)
        # The file and its WAL go together: a WAL alone would be replayed into another file.
        former = [
            former_file
            for end in ("", ".wal")
            if (former_file := places.store.with_name(places.store.name + end)).exists()
        ]
        if former:
            aside.mkdir(mode=0o700, exist_ok=True)
        for path in former:
            shutil.move(path, aside / path.name)
        draft.rename(places.store)
    finally:
        draft.unlink(missing_ok=True)
        draft.with_name(f"{draft.name}.wal").unlink(missing_ok=True)
    sync(folder)
    aside_kept = aside if aside.exists() else None
    return FromSnapshot(snapshot, made_at(snapshot), aside_kept, tuple(erase), tuple(lost), unknown)


def _mend_copy(draft: Path, places: Places, inside: Inside, buried: Buried) -> tuple[list[str], list[Lost]]:
    """Point the copy to its archive and hide people erased since; return them and the lost archive files."""
    if not inside.segments and not buried.marks:
        return [], []
    connection = duckdb.connect(str(draft), config=CONFIG)
    try:
        events = places.staging / EVENTS
        lost = mend_segments(connection, events) if inside.segments else []
        beside = Beside(events, LongTexts(places.store).folder, places.accounts)
        erase = hide(connection, beside, buried) if buried.marks else []
        connection.execute("force checkpoint")
    finally:
        connection.close()
    return erase, lost


def _copy_aside(places: Places, now: datetime) -> Path:
    """Link, or copy, long texts and archive into the folder of the former state; it is made only if there are any.

    Files there are replaced or removed, never written to, so a link keeps the old content.
    """
    aside = places.root / f"{ASIDE}{now:%Y-%m-%dT%H-%M-%S}"
    files = [
        (path, aside / name / path.relative_to(source))
        for source, name in ((LongTexts(places.store).folder, TEXTS), (places.staging / EVENTS, f"staging/{EVENTS}"))
        for path in files_below(source)
    ]
    device = places.root.stat().st_dev
    require_room(places.root, sum(size.st_size for path, _ in files if (size := path.stat()).st_dev != device))
    if aside.exists():
        raise FileExistsError(f"{aside} is there already")
    try:
        if files:
            aside.mkdir(mode=0o700)
        for path, target in files:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                os.link(path, target)
            except OSError:
                shutil.copy2(path, target)
                sync(target)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return aside


def made_at(snapshot: Path) -> datetime:
    return datetime.fromtimestamp(snapshot.stat().st_mtime, UTC).replace(tzinfo=None)


def _is_readable(snapshot: Path, sums: bool) -> bool:
    """Return True if this Sunstead can open the snapshot and, with `sums`, read every table of it."""
    try:
        return look_inside(snapshot, sums).schema_version <= SCHEMA_VERSION
    except InspectProblem:
        return False
