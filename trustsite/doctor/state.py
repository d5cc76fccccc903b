"""The state: the store and its log of changes, snapshots, worker, queue, accounts, archive and backups."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast
from urllib.parse import quote

from ingest.backup import PART
from ingest.backups import ASIDE, backups
from ingest.clock import from_microseconds
from ingest.look_inside import InspectProblem, look_inside, try_checkpoint
from ingest.missing_store import require_store
from ingest.snapshot import current_number, snapshot_files
from ingest.status import is_let_go
from ingest.store import SCHEMA_VERSION
from ingest.unopened import is_out_of_memory
from trustsite.doctor.findings import Patient
from trustsite.drive import require_store_folder

LARGE_WAL = 500_000_000
STALE = timedelta(minutes=10)
DEEP = 1_000  # the hops wait once each; a thousand is a worker that does not work
BUSY_SECONDS = 5.0
RECENT = timedelta(days=2)
# What to do about each problem that the worker tells of; all of them are tried again by themselves.
REMEDIES = {
    "store_problem": "see drive and room",
    "listener_problem": "see the network, or name another server in JETSTREAM_URLS",
    "publisher_problem": "see drive and room",
    "backfill_problem": "see the network, or name others in BACKFILL_HOSTS",
}


def check_store(patient: Patient) -> tuple[bool, str]:
    """Return whether the store opens, is whole and can be checkpointed; one that a worker holds is left to it."""
    path, memory_mb = patient.places.store, cast(int, patient.settings["DUCKDB_MEMORY_MB"])
    require_store(path, patient.places.snapshots)
    if not path.exists():
        require_store_folder(path, patient.places.root)
        return False, f"{path} does not exist yet: the first `manage.py worker` creates it"
    try:
        inside = look_inside(path)  # every row: DuckDB opens a file that is cut in half and fails where it reads on
        try_checkpoint(path, memory_mb)
    except InspectProblem as problem:
        if problem.held_by:
            return True, f"{path} is held by the worker (process {problem.held_by}), which checkpoints it: see snapshot"
        return False, _damaged(path, str(problem), memory_mb)
    if inside.schema_version > SCHEMA_VERSION:
        return False, f"{path} was written by a newer Sunstead (schema {inside.schema_version}): update this one"
    return True, f"{path} opens ({path.stat().st_size / 1e6:,.1f} MB, schema {inside.schema_version})"


def _damaged(path: Path, problem: str, memory_mb: int) -> str:
    if is_out_of_memory(problem):
        return (
            f"`manage.py worker` mends it with what memory this machine has: {path} cannot be checkpointed within the "
            f"{memory_mb} MB of DUCKDB_MEMORY_MB ({problem})"
        )
    wal = path.with_name(path.name + ".wal")
    if wal.exists():
        return f"run `mv {wal} {wal}.damaged` and start again, nothing is lost: {path} does not open ({problem})"
    return f"`manage.py restore DIR --replace` puts a backup there: {path} does not open ({problem})"


def check_wal(patient: Patient) -> tuple[bool, str]:
    """Whether changes reach the main file: publishing empties its log."""
    wal = patient.places.store.with_name(patient.places.store.name + ".wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > LARGE_WAL:
        return False, f"{size / 1e6:,.0f} MB of changes wait in {wal}: nothing is published; see snapshot and worker"
    return True, f"{size / 1e6:,.1f} MB of changes wait for the next publish"


def check_worker(patient: Patient) -> tuple[bool, str]:
    """Whether the worker runs, and what it says of itself."""
    status = patient.status
    was_killed = status is not None and status.holds_file and is_let_go(cast(Path, patient.settings["STATUS_PATH"]))
    if status is None or not patient.works or was_killed:
        last = "" if status is None else f" since {from_microseconds(int(status.written_at * 1e6)):%Y-%m-%d %H:%M} UTC"
        return False, f"no worker runs{last}: `manage.py worker` (or `make run`)"
    told = [f"{problem}: {action}" for name, action in REMEDIES.items() if (problem := getattr(status, name))]
    told += [f"{problem}: see the network, or take it out of KNOT_STREAMS" for problem in status.event_problems]
    told += [f"{hop} fails, see its log" for hop in status.failing_hops]
    return not told, "; ".join(told) or "it runs without a problem"


def check_snapshot(patient: Patient) -> tuple[bool, str]:
    """Whether pages have a snapshot that can be read and is not behind what came in."""
    folder = patient.places.snapshots
    number = current_number(folder)
    path = folder / f"serve-{number}.duckdb"
    if not number and snapshot_files(folder):
        current = folder / "CURRENT"
        return False, f"{current} cannot be read, so an older state may be shown: remove it and start the worker"
    if not number:
        return False, "nothing is published yet: pages are empty until the worker publishes"
    if not path.is_file():
        return False, f"{path} is missing: start the worker, which publishes a new one"
    try:
        look_inside(path, sums=False)
    except InspectProblem as problem:
        return False, f"{path} cannot be read ({problem}): start the worker, which publishes a new one"
    made = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(tzinfo=None)
    age = max(patient.now - made, timedelta())
    newest = from_microseconds(patient.status.cursor_us) if patient.status else made
    if patient.works and newest - made > STALE:
        return False, f"snapshot {number} is {age} old and events came since: see worker and room"
    return True, f"snapshot {number}, {age.total_seconds():,.0f} s old"


def check_gaps(patient: Patient) -> tuple[bool, str]:
    """Return whether the stream has spans that were missed and that no backfill has filled within two days."""
    number = current_number(patient.places.snapshots)
    if not number:
        return True, "nothing was published yet"
    gaps = look_inside(patient.places.snapshots / f"serve-{number}.duckdb", sums=False).gaps
    if not gaps:
        return True, "the stream has no open gap"
    told = f"{len(gaps)} in the stream, the newest because {gaps[-1][1]}"
    if patient.now - gaps[0][0] > RECENT:
        return False, f"{told}: open since {gaps[0][0]:%Y-%m-%d}, name hosts in BACKFILL_HOSTS or see worker"
    return True, f"{told}: the backfill fills them"


def check_queue(patient: Patient) -> tuple[bool, str]:
    """Whether the queue's file is whole and worked off."""
    path = cast(Path, patient.settings["QUEUE_PATH"])
    if not path.is_file():
        return True, "the first start creates it"
    if damage := _damage(path):
        return False, f"{path} is damaged ({damage}): stop worker and web and delete it; no work is lost"
    if not _value(path, "select count(*) from sqlite_master where name = 'task'"):
        return True, "it is empty: the first start creates its tables"
    depth = _value(path, "select count(*) from task")
    if depth > DEEP:
        return False, f"{depth:,} tasks wait: the worker does not process them, see its log"
    return True, f"{path} is whole, {depth:,} tasks wait"


def check_accounts(patient: Patient) -> tuple[bool, str]:
    """Whether the web's database is whole, somebody can sign in, and what they did reaches the worker."""
    path = patient.places.accounts
    if not path.is_file():
        return False, f"{path} is missing: `manage.py init_drive` makes it"
    if damage := _damage(path):
        return False, f"{path} is damaged ({damage}): stop the web process and restore a backup"
    if not _value(path, "select count(*) from triage_person where is_active"):
        return False, "nobody can sign in: `manage.py add_maintainer HANDLE`"
    before = (patient.now - STALE).isoformat(" ")
    late = _value(path, "select count(*) from triage_outboxentry where delivered_at is null and due_at < ?", [before])
    if late:
        return False, f"{late} messages to the worker wait for over 10 minutes: see worker"
    return True, f"{path} is whole"


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)


def _damage(path: Path) -> str:
    """What SQLite says of a file's structure, "" for nothing."""
    try:
        with closing(_opened(path)) as file:
            told = file.execute("pragma quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError:  # locked, or not to be had: no damage
        raise
    except sqlite3.DatabaseError as problem:
        return str(problem)
    return "" if told == "ok" else str(told)[:200]


def _value(path: Path, sql: str, params: Sequence[object] = ()) -> int:
    with closing(_opened(path)) as file:
        return file.execute(sql, params).fetchone()[0]


def check_archive(patient: Patient) -> tuple[bool, str]:
    """Whether every file of the archive that the newest snapshot knows is there."""
    number = current_number(patient.places.snapshots)
    if not number:
        return True, "nothing was archived yet"
    paths = look_inside(patient.places.snapshots / f"serve-{number}.duckdb", sums=False).segments
    lost = [path for path in paths if not (patient.places.staging / "events" / Path(path).name).is_file()]
    if lost:
        return False, f"{len(lost)} files are missing, such as {lost[0]}: put them back from a backup"
    return True, f"{len(paths)} files of older events are there"


def check_backups(patient: Patient) -> tuple[bool, str]:
    """Whether there is a recent backup, and none that may no longer be kept."""
    folder, days = cast(Path, patient.settings["BACKUP_DIR"]), cast(int, patient.settings["BACKUP_DAYS"])
    found = backups(folder, days, patient.places.root)
    for one in found:
        if one.expires_at < patient.now:
            return False, f"{one.path} may no longer be kept since {one.expires_at:%Y-%m-%d}: delete it"
        if one.path.name.endswith(PART) and patient.now - one.made_at > timedelta(hours=1):
            return False, f"{one.path} was left by a backup that was cut off: delete it"
    whole = [one for one in found if not one.path.name.startswith(ASIDE) and not one.path.name.endswith(PART)]
    newest = max((one.made_at for one in whole), default=None)
    if newest is None or patient.now - newest > RECENT:
        when = "there is none" if newest is None else f"the newest is of {newest:%Y-%m-%d}"
        return False, f"{when}: `manage.py backup` makes one in {folder}, or elsewhere with a name"
    return True, f"{len(whole)}, the newest of {newest:%Y-%m-%d %H:%M} UTC"
