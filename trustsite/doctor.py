"""`manage.py doctor`: check everything that may be wrong with an installation, each check on its own.

A check that breaks costs only its own line. The checks cover the drive (speed, room, keys, clock), the state (store and
WAL, snapshots, worker, queue, accounts, archive, backups), and settings and learned data (risky settings, models,
certificates and, if asked, the peers).
"""

import os
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import quote, urlsplit

from ingest.backup.manifest import ASIDE, KEYS, PART, BackupProblem, Places, backups
from ingest.backup.missing_store import require_store
from ingest.clock import SLACK, from_microseconds
from ingest.errors import FetchProblem, StoreProblem, is_out_of_memory, plain
from ingest.files import RESERVE_BYTES, SPARE_BYTES
from ingest.http.fetcher import Fetcher
from ingest.store.database import SCHEMA_VERSION
from ingest.store.look_inside import InspectProblem, look_inside, try_checkpoint
from ingest.store.snapshots import current_number, snapshot_files
from ingest.stream.early import AHEAD
from ingest.worker.status import Status, is_let_go
from scoring.certificates.certificate import CertificateProblem, read_certificates
from scoring.dataset.cases import LabelName
from scoring.models.storage import ModelProblem, load_model, serving_name
from scoring.thresholds import Condition
from trustsite import drive
from trustsite.drive import DriveProblem, require_store_folder
from trustsite.validation import is_loopback

# Errors of a broken drive, file or setting; an error in the program itself is not among them.
EXPECTED = (
    OSError,
    ValueError,
    sqlite3.Error,
    BackupProblem,
    CertificateProblem,
    FetchProblem,
    InspectProblem,
    ModelProblem,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `ok`, or the problem and its remedy."""

    name: str
    ok: bool
    told: str


@dataclass(frozen=True, slots=True)
class Patient:
    """The things to check: the state's places, the worker's own report (None if there is none), and the present.

    `now` is naive UTC; `settings` are Django's.
    """

    places: Places
    status: Status | None
    now: datetime
    settings: Mapping[str, object]

    @property
    def works(self) -> bool:
        return self.status is not None and self.status.is_alive((self.now - datetime(1970, 1, 1)).total_seconds())


Check = Callable[[Patient], tuple[bool, str]]


def examine(patient: Patient, checks: Iterable[tuple[str, Check]]) -> list[Finding]:
    """Run every check, even after others failed."""
    return [_run_check(patient, name, check) for name, check in checks]


def _run_check(patient: Patient, name: str, check: Check) -> Finding:
    try:
        ok, text = check(patient)
    except (DriveProblem, StoreProblem) as problem:
        ok, text = False, str(problem)
    except EXPECTED as problem:
        ok, text = False, f"cannot be looked at, so see drive and settings first: {plain(problem)}"
    return Finding(name, ok, " ".join(text.split())[:600])


LARGE_WAL = 500_000_000
STALE = timedelta(minutes=10)
DEEP = 1_000  # each hop waits at most once; a thousand tasks mean that no worker runs
BUSY_SECONDS = 5.0
RECENT = timedelta(days=2)
# Anybody on the network may have an account here: it says nothing of who runs the site.
KEEPERS = "select max(role <> 'viewer') from triage_maintainer join triage_person p on p.id = person_id where is_active"
# The remedy for each problem that the worker reports; all of them are retried automatically.
REMEDIES = {
    "store_problem": "see drive and room",
    "listener_problem": "see the network, or name another server in JETSTREAM_URLS",
    "publisher_problem": "see drive and room",
    "backfill_problem": "see the network, or name others in BACKFILL_HOSTS",
}


def check_store(patient: Patient) -> tuple[bool, str]:
    """Check that the store opens, is whole and can be checkpointed; skip a store that a worker holds."""
    path, memory_mb = patient.places.store, cast(int, patient.settings["DUCKDB_MEMORY_MB"])
    require_store(path, patient.places.snapshots)
    if not path.exists():
        require_store_folder(path, patient.places.root)
        return False, f"{path} does not exist yet: the first `manage.py worker` creates it"
    try:
        inside = look_inside(path)  # every row: DuckDB opens a file that is cut in half and fails only while reading
        try_checkpoint(path, memory_mb)
    except InspectProblem as problem:
        if problem.held_by:
            return True, f"{path} is held by the worker (process {problem.held_by}), which checkpoints it: see snapshot"
        return False, _damage_advice(path, str(problem), memory_mb)
    if inside.schema_version > SCHEMA_VERSION:
        return False, f"{path} was written by a newer Sunstead (schema {inside.schema_version}): update this one"
    return True, f"{path} opens ({path.stat().st_size / 1e6:,.1f} MB, schema {inside.schema_version})"


def _damage_advice(path: Path, problem: str, memory_mb: int) -> str:
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
    """Check that changes reach the main file: publishing empties the WAL."""
    wal = patient.places.store.with_name(patient.places.store.name + ".wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > LARGE_WAL:
        return False, f"{size / 1e6:,.0f} MB of changes wait in {wal}: nothing is published; see snapshot and worker"
    return True, f"{size / 1e6:,.1f} MB of changes wait for the next publish"


def check_worker(patient: Patient) -> tuple[bool, str]:
    """Check that the worker runs, and report its problems."""
    status = patient.status
    was_killed = status is not None and status.holds_file and is_let_go(cast(Path, patient.settings["STATUS_PATH"]))
    if status is None or not patient.works or was_killed:
        last_seen = (
            "" if status is None else f" since {from_microseconds(int(status.written_at * 1e6)):%Y-%m-%d %H:%M} UTC"
        )
        return False, f"no worker runs{last_seen}: `manage.py worker` (or `make run`)"
    problems = [f"{problem}: {action}" for name, action in REMEDIES.items() if (problem := getattr(status, name))]
    problems += [f"{problem}: see the network, or take it out of KNOT_STREAMS" for problem in status.event_problems]
    problems += [f"{hop} fails, see its log" for hop in status.failing_hops]
    return not problems, "; ".join(problems) or "it runs without a problem"


def check_snapshot(patient: Patient) -> tuple[bool, str]:
    """Check that pages have a readable snapshot that is up to date."""
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
    made_at = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(tzinfo=None)
    age = max(patient.now - made_at, timedelta())
    newest = from_microseconds(patient.status.cursor_us) if patient.status else made_at
    if patient.works and newest - made_at > STALE:
        return False, f"snapshot {number} is {age} old and events came since: see worker and room"
    return True, f"snapshot {number}, {age.total_seconds():,.0f} s old"


def check_gaps(patient: Patient) -> tuple[bool, str]:
    """Check that no gap of the stream stayed unfilled for more than two days."""
    number = current_number(patient.places.snapshots)
    if not number:
        return True, "nothing was published yet"
    gaps = look_inside(patient.places.snapshots / f"serve-{number}.duckdb", sums=False).gaps
    if not gaps:
        return True, "the stream has no open gap"
    summary = f"{len(gaps)} in the stream, the newest because {gaps[-1][1]}"
    if patient.now - gaps[0][0] > RECENT:
        return False, f"{summary}: open since {gaps[0][0]:%Y-%m-%d}, name hosts in BACKFILL_HOSTS or see worker"
    return True, f"{summary}: the backfill fills them"


def check_queue(patient: Patient) -> tuple[bool, str]:
    """Check that the queue's file is whole and its tasks are processed."""
    path = cast(Path, patient.settings["QUEUE_PATH"])
    if not path.is_file():
        return True, "the first start creates it"
    if damage := _find_damage(path):
        return False, f"{path} is damaged ({damage}): stop worker and web and delete it; no work is lost"
    if not _read_value(path, "select count(*) from sqlite_master where name = 'task'"):
        return True, "it is empty: the first start creates its tables"
    depth = _read_value(path, "select count(*) from task")
    if depth > DEEP:
        return False, f"{depth:,} tasks wait: the worker does not process them, see its log"
    return True, f"{path} is whole, {depth:,} tasks wait"


def check_accounts(patient: Patient) -> tuple[bool, str]:
    """Check that the web's database is whole, somebody can sign in, and their actions reach the worker."""
    path = patient.places.accounts
    if not path.is_file():
        return False, f"{path} is missing: `manage.py init_drive` makes it"
    if damage := _find_damage(path):
        return False, f"{path} is damaged ({damage}): stop the web process and restore a backup"
    if not _read_value(path, KEEPERS):
        return False, "nobody maintains anything here: `manage.py first_admin`, or `manage.py add_maintainer HANDLE`"
    latest_due = (patient.now - STALE).isoformat(" ")
    late = _read_value(
        path, "select count(*) from triage_outboxentry where delivered_at is null and due_at < ?", [latest_due]
    )
    if late:
        return False, f"{late} messages to the worker wait for over 10 minutes: see worker"
    return True, f"{path} is whole"


def _open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)


def _find_damage(path: Path) -> str:
    """Return SQLite's report on a file's structure, "" for none."""
    try:
        with closing(_open_read_only(path)) as file:
            report = file.execute("pragma quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError:  # locked or unavailable: no damage
        raise
    except sqlite3.DatabaseError as problem:
        return str(problem)
    return "" if report == "ok" else str(report)[:200]


def _read_value(path: Path, sql: str, params: Sequence[object] = ()) -> int:
    with closing(_open_read_only(path)) as file:
        return file.execute(sql, params).fetchone()[0]


def check_archive(patient: Patient) -> tuple[bool, str]:
    """Check that every archive file that the newest snapshot names exists."""
    number = current_number(patient.places.snapshots)
    if not number:
        return True, "nothing was archived yet"
    paths = look_inside(patient.places.snapshots / f"serve-{number}.duckdb", sums=False).segments
    missing = [path for path in paths if not (patient.places.staging / "events" / Path(path).name).is_file()]
    if missing:
        return False, f"{len(missing)} files are missing, such as {missing[0]}: put them back from a backup"
    return True, f"{len(paths)} files of older events are there"


def check_backups(patient: Patient) -> tuple[bool, str]:
    """Check that there is a recent backup, and none that is too old to keep."""
    folder, days = cast(Path, patient.settings["BACKUP_DIR"]), cast(int, patient.settings["BACKUP_DAYS"])
    entries = backups(folder, days, patient.places.root)
    for backup in entries:
        if backup.expires_at < patient.now:
            return False, f"{backup.path} may no longer be kept since {backup.expires_at:%Y-%m-%d}: delete it"
        if backup.path.name.endswith(PART) and patient.now - backup.made_at > timedelta(hours=1):
            return False, f"{backup.path} was left by a backup that was cut off: delete it"
    complete = [
        backup for backup in entries if not backup.path.name.startswith(ASIDE) and not backup.path.name.endswith(PART)
    ]
    newest = max((backup.made_at for backup in complete), default=None)
    if newest is None or patient.now - newest > RECENT:
        when = "there is none" if newest is None else f"the newest is of {newest:%Y-%m-%d}"
        return False, f"{when}: `manage.py backup` makes one in {folder}, or elsewhere with a name"
    return True, f"{len(complete)}, the newest of {newest:%Y-%m-%d %H:%M} UTC"


Settings = Mapping[str, Any]


def _has_https(settings: Settings) -> bool:
    origins = (settings["PUBLIC_ORIGIN"], *settings["CSRF_TRUSTED_ORIGINS"])
    return bool(settings["TRUSTED_PROXY"]) or any(origin.startswith("https:") for origin in origins)


def _is_reached(settings: Settings) -> bool:
    return _has_https(settings) or not is_loopback(settings["BIND"])


# Risky settings, each with its remedy.
RISKS: Sequence[tuple[Callable[[Settings], object], str]] = (
    (
        lambda of: of["PUBLIC_READ"] and not is_loopback(of["BIND"]),
        "PUBLIC_READ with a public BIND shows people's scores to everybody: set PUBLIC_READ=False",
    ),
    (
        lambda of: not is_loopback(of["BIND"]) and not _has_https(of),
        "BIND is reached from outside without https: put a proxy with TLS in front and set TRUSTED_PROXY",
    ),
    (
        lambda of: _has_https(of) and not of["SECURE_COOKIES"],
        "a proxy speaks https and SECURE_COOKIES is off: set SECURE_COOKIES=True",
    ),
    (lambda of: "*" in of["ALLOWED_HOSTS"], "ALLOWED_HOSTS=* takes any name: list those of this site"),
    (lambda of: of["T_HIGH"] is not None, "T_HIGH opens the fast lane by hand, not certified: leave it empty"),
    (lambda of: not of["TRUST_TWO_WAYS"], "TRUST_TWO_WAYS is off: one stolen account brings fakes into the fast lane"),
    (
        lambda of: of["TRUST"] != "first_passage",
        "TRUST=eigentrust can be raised by people who are trusted: set TRUST=first_passage",
    ),
    (
        lambda of: set(get_args(Condition)) - {"certificate"} - set(of["LANE_CONDITIONS"]),
        "LANE_CONDITIONS leaves out default conditions of the fast lane: see .env.example",
    ),
    (
        lambda of: not (of["OPERATOR_NAME"] and of["OPERATOR_CONTACT"]) and _is_reached(of),
        "the site does not say who runs it: set OPERATOR_NAME and OPERATOR_CONTACT",
    ),
    (lambda of: of["MERGE_ON_FORGE"], "MERGE_ON_FORGE lets this machine merge: switch it off where nobody uses it"),
)


def check_settings(patient: Patient) -> tuple[bool, str]:
    """Check the settings for risks."""
    risks = [advice for is_risky, advice in RISKS if is_risky(patient.settings)]
    return not risks, "; ".join(risks) or "none that is risky"


def check_models(patient: Patient) -> tuple[bool, str]:
    """Check that the model that each label points at can serve."""
    folder = patient.places.models
    names = [name for label in get_args(LabelName) if (name := serving_name(folder, label))]
    for name in names:
        load_model(folder, name)
    return True, f"{len(names)} serve" if names else "no model is trained yet: the shrunk rate is used"


def check_certificates(patient: Patient) -> tuple[bool, str]:
    """Check that all certificates can be read, and that one is valid if there are any."""
    certificates, problems = read_certificates(patient.places.models / "certificates")
    if problems:
        return False, f"{problems[0]}: put it back from a backup, or delete it"
    if not certificates:
        return True, "no certificate yet: the fast lane is shut"
    valid = [certificate for certificate in certificates.values() if certificate.is_valid(patient.now)]
    if not valid:
        advice = "all expired or without a threshold: `manage.py train` makes another attempt"
        return False, f"{len(certificates)}, {advice}"
    return True, f"{len(certificates)}, {len(valid)} valid"


def peer_checks(settings: Settings, fetcher: Fetcher) -> list[tuple[str, Callable[[Patient], tuple[bool, str]]]]:
    """Return one check for each host that this site depends on; any answer over https is enough."""
    urls = [*settings["JETSTREAM_URLS"], *settings["KNOT_STREAMS"], settings["PLC_URL"], *settings["BACKFILL_HOSTS"]]
    hosts = dict.fromkeys(host for url in urls if (host := urlsplit(url).hostname))
    return [(f"peer {host}", _make_peer_check(fetcher, host)) for host in hosts]


def _make_peer_check(fetcher: Fetcher, host: str) -> Callable[[Patient], tuple[bool, str]]:
    def check(patient: Patient) -> tuple[bool, str]:
        try:
            fetcher.get(f"https://{host}/", seconds=10.0)
        except FetchProblem as problem:
            if problem.status is None and not problem.too_large:
                return False, f"{problem}: see the network, or name another one in the settings"
        return True, "answers"

    return check


PROBE_BYTES = 4_000_000
PROBE_SYNCS = 5
SLOWEST_BYTES = 10_000_000  # a second: below it a store of 500 MB cannot be published within a minute
SLOWEST_SYNC = 0.5  # seconds: the worker syncs several times a second
EARLY = AHEAD + SLACK  # an event may be dated this far ahead of the worker's clock, and heartbeats are rare
BEHIND = timedelta(minutes=10)


def check_drive(patient: Patient) -> tuple[bool, str]:
    """Check that DATA_ROOT is a marked folder that only this user can open."""
    root = patient.places.root
    drive.require(drive.Place("drive", root))
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & 0o077:
        return False, f"{root} is open to others (mode {mode:o}): chmod 700 {root}"
    return True, f"{root} is marked and private to this user"


def check_speed(patient: Patient, clock: Callable[[], float] = time.perf_counter) -> tuple[bool, str]:
    """Measure how fast 4 MB are written and synced, and a small write synced."""
    probe = patient.places.root / f".probe-{secrets.token_hex(8)}"
    try:
        began = clock()
        _write(probe, os.urandom(PROBE_BYTES))
        written = clock() - began
        began = clock()
        for _ in range(PROBE_SYNCS):
            _write(probe, b"x" * 4_096)
        synced = (clock() - began) / PROBE_SYNCS
    finally:
        probe.unlink(missing_ok=True)
    rate = PROBE_BYTES / max(written, 1e-9)
    measured = f"{rate / 1e6:,.0f} MB/s written and synced, {synced * 1e3:,.1f} ms for a small write"
    if rate < SLOWEST_BYTES or synced > SLOWEST_SYNC:
        return False, f"{measured}: the drive is slow, so pages will lag; use a local disk"
    return True, measured


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def check_room(patient: Patient) -> tuple[bool, str]:
    """Check that the next snapshot fits and ingest does not stop."""
    places = patient.places
    free = shutil.disk_usage(places.root).free
    store = places.store.stat().st_size if places.store.exists() else 0
    needed = max(drive.FREE_BYTES, RESERVE_BYTES, store + SPARE_BYTES)
    room = f"{free / 1e9:,.1f} GB free, {needed / 1e9:,.1f} GB are needed"
    return free >= needed, room if free >= needed else f"{room}: free space on this drive, or move to a larger one"


def check_keys(patient: Patient) -> tuple[bool, str]:
    """Check that all keys are there, whole, and only readable for this user."""
    folder = patient.places.keys
    unusable_keys = [name for name in KEYS if not drive.is_key(folder / name)]
    if not folder.exists() and not patient.places.store.exists():
        return False, "no keys yet: run `manage.py init_drive` on a new drive"
    if unusable_keys:
        return False, f"{', '.join(unusable_keys)} missing or damaged in {folder}: put the backup of the keys there"
    exposed = [path for path in (folder, *(folder / name for name in KEYS)) if path.stat().st_mode & 0o077]
    if exposed:
        return False, f"{exposed[0]} can be read by others: chmod -R go= {folder}"
    return True, f"{len(KEYS)} keys, private to this user: keep a copy elsewhere"


def check_clock(patient: Patient) -> tuple[bool, str]:
    """Check that the wall clock agrees with the stream and with earlier writes."""
    status = patient.status
    if status is None:
        return True, f"{patient.now:%Y-%m-%d %H:%M:%S} UTC; nothing to compare with yet"
    if patient.works and status.clock_behind_minutes:
        problem = f"the clock is {status.clock_behind_minutes:,} min or more behind all new events, which wait"
        return False, f"{problem}: it is wrong, set it by NTP"
    beat, newest = from_microseconds(int(status.written_at * 1e6)), from_microseconds(status.cursor_us)
    if beat > patient.now + SLACK:
        return False, f"the clock is {_format_minutes(beat - patient.now)} behind what the worker wrote: set it by NTP"
    if newest > beat + EARLY:
        problem = f"an event dated {newest:%Y-%m-%d %H:%M} moved the cursor of the stream into the future"
        advice = "start the worker, which resets it as a gap; if the clock is wrong, set it by NTP first"
        return False, f"{problem}: {advice}"
    if patient.works and status.cursor_us and status.listener_problem is None and patient.now - newest > BEHIND:
        age = _format_minutes(patient.now - newest)
        return False, f"the newest event is {age} old: the stream is behind, or the clock wrong"
    compared = "agrees with the stream" if status.cursor_us else "agrees with the worker; no event has arrived yet"
    return True, f"{patient.now:%Y-%m-%d %H:%M:%S} UTC {compared}"


def _format_minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:,.0f} min"


# In the order in which their lines are printed.
CHECKS: Sequence[tuple[str, Check]] = (
    ("drive", check_drive),
    ("speed", check_speed),
    ("room", check_room),
    ("keys", check_keys),
    ("clock", check_clock),
    ("store", check_store),
    ("wal", check_wal),
    ("worker", check_worker),
    ("snapshot", check_snapshot),
    ("gaps", check_gaps),
    ("queue", check_queue),
    ("accounts", check_accounts),
    ("archive", check_archive),
    ("backups", check_backups),
    ("models", check_models),
    ("certificates", check_certificates),
    ("settings", check_settings),
)
