"""A main file that is missing: never begun anew beside its snapshots, and brought back from the newest of them."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ingest.backup_files import BackupProblem, Places, require_room
from ingest.backups import ASIDE
from ingest.durable import sync
from ingest.look_inside import InspectProblem, look_inside
from ingest.restore import require_nobody
from ingest.snapshot import snapshot_files
from ingest.store import SCHEMA_VERSION, StoreProblem

SPARE_BYTES = 200_000_000
AFRESH = "To start afresh instead, move that folder away."


@dataclass(frozen=True, slots=True)
class FromSnapshot:
    """A finished restore: the snapshot that is the store now, when it was made, and where the former file lies."""

    snapshot: Path
    made_at: datetime
    aside: Path | None


def require_store(path: Path, snapshots: Path) -> None:
    """Refuse, with StoreProblem, to begin a new store at `path` while snapshots of an earlier one lie there.

    A new store is empty and would be published over them, and with them go the tombstones of erased people.
    """
    if path.exists() or not (_has_pointer(snapshots) or snapshot_files(snapshots)):
        return
    ways = ["mount its drive or put the file back", "run `manage.py restore DIR` with a backup"]
    newest = next((one for one in snapshot_files(snapshots) if _is_readable(one, sums=False)), None)
    if newest:
        made = f"{made_at(newest):%Y-%m-%d %H:%M} UTC"
        ways.append(f"run `manage.py restore --snapshot`, which takes {newest.name} of {made}")
    told = f"{', '.join(ways[:-1])}, or {ways[-1]}"
    raise StoreProblem(f"{path} is gone, but {snapshots} holds what was published of it: {told}. {AFRESH}")


def _has_pointer(snapshots: Path) -> bool:
    """Whether CURRENT lies there, in whatever state: one that is a folder or cannot be read was published as well."""
    try:
        (snapshots / "CURRENT").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def restore_snapshot(places: Places, replace: bool, now: datetime) -> FromSnapshot:
    """Make the newest whole snapshot the store. Nobody may own the store meanwhile.

    Every table is read through first. `replace` moves a present main file aside. Raises BackupProblem with everything
    as it was; a kill leaves either the former state or a missing file, which the same command mends.
    """
    require_nobody(places.store)
    if places.store.exists() and not replace:
        raise BackupProblem(f"{places.store} is there: add --replace, which keeps it aside, to take the snapshot.")
    found = next((one for one in snapshot_files(places.snapshots) if _is_readable(one, sums=True)), None)
    if found is None:
        raise BackupProblem(f"No snapshot in {places.snapshots} can be read: restore a backup instead.")
    try:
        return FromSnapshot(found, made_at(found), _put(found, places, now))
    except OSError as problem:
        raise BackupProblem(f"{found} could not be put back ({problem}): mend that and run this again.") from problem


def _put(snapshot: Path, places: Places, now: datetime) -> Path | None:
    """Copy the snapshot beside the store's place, move away what lies there, rename; where that lies now."""
    folder = places.store.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_room(folder, snapshot.stat().st_size + SPARE_BYTES)
    draft = places.store.with_name(f"{places.store.name}.restoring")
    try:
        shutil.copyfile(snapshot, draft)
        draft.chmod(0o600)
        sync(draft)
        aside = _move_aside(places, now)
        draft.rename(places.store)
    finally:
        draft.unlink(missing_ok=True)
    sync(folder)
    return aside


def _move_aside(places: Places, now: datetime) -> Path | None:
    """Keep the former file and its log of changes; a log alone would be replayed into a file that it is not of."""
    former = [one for end in ("", ".wal") if (one := places.store.with_name(places.store.name + end)).exists()]
    if not former:
        return None
    aside = places.root / f"{ASIDE}{now:%Y-%m-%dT%H-%M-%S}"
    aside.mkdir(mode=0o700, exist_ok=True)
    for path in former:
        shutil.move(path, aside / path.name)
    return aside


def made_at(snapshot: Path) -> datetime:
    """When a snapshot was made, naive UTC."""
    return datetime.fromtimestamp(snapshot.stat().st_mtime, UTC).replace(tzinfo=None)


def _is_readable(snapshot: Path, sums: bool) -> bool:
    """Whether this Sunstead can open the snapshot and, with `sums`, read every table of it."""
    try:
        return look_inside(snapshot, sums).schema_version <= SCHEMA_VERSION
    except InspectProblem:
        return False
