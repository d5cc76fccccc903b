"""The doctor: each thing that is wrong is one line that says what to do, and costs no other line."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from django.conf import settings

from ingest.clock import to_microseconds, wall_now
from ingest.http.fetcher import Fetcher
from ingest.store.archive import archive
from ingest.store.database import CONFIG
from ingest.store.snapshots import publish
from ingest.worker.status import Status, encode, read_status
from tests.conftest import PROVE
from tests.ingest.backup.kept_state import back_up, make_drive, open_drive, places_below
from tests.ingest.http.fetched import fetcher_to
from tests.ingest.stream.frames import ANA, SEED, Frames, at, take
from tests.sources import PROJECT
from tests.waiting import wait_for
from trustsite import doctor, drive
from trustsite.doctor import CHECKS, Patient, examine

SAFE: dict[str, object] = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
SAFE |= {"BIND": "127.0.0.1:8000", "PUBLIC_READ": False, "MERGE_ON_FORGE": False}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drive at which nothing is wrong; tests copy it."""
    root = tmp_path_factory.mktemp("healthy") / "drive"
    places = make_drive(root)
    drive.mark(root)
    for path in places.keys.iterdir():
        path.chmod(0o600)
    with closing(sqlite3.connect(places.accounts)) as accounts:
        accounts.execute("create table triage_person (id integer, did text, is_active integer)")
        accounts.execute("insert into triage_person values (1, 'did:plc:somebody', 1)")
        accounts.execute("create table triage_maintainer (person_id integer, role text)")
        accounts.execute("insert into triage_maintainer values (1, 'admin')")
        accounts.execute("create table triage_outboxentry (delivered_at text, due_at text)")
        accounts.commit()
    with closing(sqlite3.connect(root / "queue.sqlite3")) as queue:
        queue.execute("create table task (id integer)")
    store, frames = open_drive(places), Frames()
    frames.vouch(SEED, ANA)
    frames.vouch(ANA, SEED)
    take(store, frames)
    archive(store, places.staging, 30, 1, at(0))
    publish(store, places.snapshots)
    back_up(store, places, root / "backups" / "one", diffs=False)
    store.close()
    return root


@pytest.fixture
def patient(healthy: Path, tmp_path: Path) -> Patient:
    return patient_of(shutil.copytree(healthy, tmp_path / "drive"))


def patient_of(root: Path) -> Patient:
    (root / "status.json").write_bytes(encode(beat()))
    chosen = SAFE | {"QUEUE_PATH": root / "queue.sqlite3", "BACKUP_DIR": root / "backups"}
    return Patient(places_below(root), read_status(root / "status.json"), wall_now(), chosen)


def beat(**changes: object) -> Status:
    now = (wall_now() - datetime(1970, 1, 1)).total_seconds()
    return Status(**{"written_at": now, "cursor_us": to_microseconds(wall_now()), **changes})  # ty: ignore[invalid-argument-type]


def test_a_drive_at_which_nothing_is_wrong_is_all_ok(patient: Patient) -> None:
    shut = [(name, check) for name, check in CHECKS if name != "speed"]  # which is the machine's
    assert [one for one in examine(patient, shut) if not one.ok] == []


def sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute(statement)
        file.commit()


def put(path: Path, text: str = "x" * 9_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def fill_queue(root: Path) -> None:
    numbers = "with n(i) as (select 1 union all select i + 1 from n where i < 2000) select i from n"
    sql(root / "queue.sqlite3", f"insert into task {numbers}")


def old_backup(root: Path) -> None:
    (root / "backups" / "one.part").mkdir()
    os.utime(root / "backups" / "one.part", (1_700_000_000, 1_700_000_000))


def damage_log(root: Path) -> None:
    """Leave changes beside the store, as a kill does, with a hole in their middle."""
    path = root / "duckdb" / "trust.duckdb"
    main, log = path.read_bytes(), path.with_name("trust.duckdb.wal")
    with closing(duckdb.connect(str(path), config=dict(CONFIG))) as store:
        store.execute("insert into meta select 'k' || i, 'v' from range(9000) t(i)")
        changes = bytearray(log.read_bytes())
    middle = len(changes) // 2
    changes[middle : middle + 64] = bytes(64)
    path.write_bytes(main)
    log.write_bytes(bytes(changes))


def cut_in_half(root: Path) -> None:
    path = root / "duckdb" / "trust.duckdb"
    os.truncate(path, path.stat().st_size // 2)


def fill_log(root: Path) -> None:
    """Leave texts of 6 MB in the log of changes, as a version before wrote them."""
    path = root / "duckdb" / "trust.duckdb"
    main, log = path.read_bytes(), path.with_name("trust.duckdb.wal")
    with closing(duckdb.connect(str(path), config=dict(CONFIG))) as store:
        for number in range(30):
            store.execute("insert into meta select 'k' || ?, repeat('<', 6000000)", [number])
        changes = log.read_bytes()
    path.write_bytes(main)
    log.write_bytes(changes)


BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no mark": ("drive", lambda root: (root / ".sunstead").unlink(), "has no mark"),
    "an open drive": ("drive", lambda root: root.chmod(0o755), "chmod 700"),
    "half a restore": ("drive", lambda root: put(root / drive.RESTORING), "restore DIR --replace"),
    "a lost key": ("keys", lambda root: (root / "keys/audit").unlink(), "audit missing or damaged"),
    "no key": ("keys", lambda root: shutil.rmtree(root / "keys"), "missing or damaged"),
    "a key for all": ("keys", lambda root: (root / "keys/django").chmod(0o644), "can be read by others"),
    "a damaged store": ("store", lambda root: put(root / "duckdb/trust.duckdb"), "restore DIR --replace"),
    "a store cut in half": ("store", cut_in_half, "restore DIR --replace` puts a backup there"),
    "a log that does not fit into memory": ("store", fill_log, "cannot be checkpointed within the 160 MB"),
    "a damaged log": ("store", damage_log, ".wal.damaged` and start again, nothing is lost"),
    "no pointer": ("snapshot", lambda root: (root / "snapshots/CURRENT").unlink(), "remove it and start the worker"),
    "no snapshot": ("snapshot", lambda root: shutil.rmtree(root / "snapshots"), "nothing is published yet"),
    "no main file": ("store", lambda root: (root / "duckdb/trust.duckdb").unlink(), "manage.py restore --snapshot"),
    "half a snapshot": ("snapshot", lambda root: put(root / "snapshots/serve-1.duckdb"), "cannot be read"),
    "a damaged queue": ("queue", lambda root: put(root / "queue.sqlite3"), "stop worker and web and delete it"),
    "a deep queue": ("queue", fill_queue, "2,000 tasks wait"),
    "damaged accounts": ("accounts", lambda root: put(root / "web.sqlite3"), "restore a backup"),
    "nobody": ("accounts", lambda root: sql(root / "web.sqlite3", "delete from triage_person"), "add_maintainer"),
    "strangers alone": (
        "accounts",
        lambda root: sql(root / "web.sqlite3", "delete from triage_maintainer"),
        "first_admin",
    ),
    "a message that waits": (
        "accounts",
        lambda root: sql(root / "web.sqlite3", "insert into triage_outboxentry values (null, '2026-01-01 00:00:00')"),
        "1 messages to the worker wait",
    ),
    "a lost file": ("archive", lambda root: shutil.rmtree(root / "staging/events"), "files are missing"),
    "no backup": ("backups", lambda root: shutil.rmtree(root / "backups"), "there is none"),
    "only what a restore kept aside": (
        "backups",
        lambda root: (root / "backups").rename(root / "replaced-2026-11-22T11-44-53"),
        "there is none",
    ),
    "an old backup": ("backups", old_backup, "delete it"),
    "a pointer": ("models", lambda root: put(root / "models/label_clean.serving", "a" * 64), "cannot be read"),
    "no certificate": ("certificates", lambda root: put(root / "models/certificates/a.json"), "does not count"),
}


def together() -> list[list[str]]:
    """Which of these are broken at once: each check meets one, and nothing is wrong beside a broken store."""
    groups: list[dict[str, str]] = []
    for what, (name, _, _) in BROKEN.items():
        check = "snapshot" if name == "archive" else name  # whose list stands in the snapshot
        free = (group for group in groups if name != "store" and not group.keys() & {check, "store"})
        group = next(free, None)
        if group is None:
            groups.append(group := {})
        group[check] = what
    return [list(group.values()) for group in groups]


@pytest.mark.parametrize("broken", [[what] for what in BROKEN] if PROVE else together(), ids=", ".join)
def test_what_is_broken_is_told_in_its_own_line_and_in_no_other(patient: Patient, broken: list[str]) -> None:
    """Several at once, each alone under PROVE=1."""
    for what in broken:
        BROKEN[what][1](patient.places.root)
    found = {one.name: one for one in examine(patient, [one for one in CHECKS if one[0] != "speed"])}
    assert [what for what in broken if BROKEN[what][2] not in found[BROKEN[what][0]].told] == []
    names = {BROKEN[what][0] for what in broken}
    others = {"archive", "gaps"} if "snapshot" in names else set[str]()  # whose list stands in the snapshot
    assert {one for one in found if not found[one].ok} - others == names


@pytest.mark.parametrize(
    ("changes", "name", "told"),
    [
        ({"running": False}, "worker", "no worker runs since"),
        ({"written_at": 1.0}, "worker", "no worker runs since"),
        ({"store_problem": "no room"}, "worker", "no room: see drive and room"),
        (
            {"listener_problem": "a.test is not answering"},
            "worker",
            "answering: see the network, or name another server",
        ),
        (
            {"event_problems": ("knot.test is not answering",)},
            "worker",
            "answering: see the network, or take it out of",
        ),
        ({"failing_hops": ("derive_events",)}, "worker", "derive_events fails"),
        (
            {"cursor_us": to_microseconds(datetime(2099, 1, 1))},
            "clock",
            "an event dated 2099-01-01 00:00",
        ),
        ({"written_at": 4_000_000_000.0}, "clock", "behind what the worker wrote: set it by NTP"),
        ({"clock_behind_minutes": 180}, "clock", "180 min or more behind all new events, which wait: it is wrong"),
        ({"cursor_us": 1}, "clock", "the stream is behind, or the clock wrong"),
    ],
)
def test_what_the_worker_says_is_told(patient: Patient, changes: dict[str, object], name: str, told: str) -> None:
    sick = replace(patient, status=beat(**changes))
    (line,) = examine(sick, [one for one in CHECKS if one[0] == name])
    assert not line.ok
    assert told in line.told


def test_a_new_drive_is_led_to_the_command_that_makes_its_keys(patient: Patient) -> None:
    shutil.rmtree(patient.places.keys)
    patient.places.store.unlink()
    assert doctor.check_keys(patient) == (False, "no keys yet: run `manage.py init_drive` on a new drive")


def test_a_clock_is_compared_with_the_stream_only_once_it_was_heard(patient: Patient) -> None:
    assert "agrees with the stream" in doctor.check_clock(patient)[1]
    ok, told = doctor.check_clock(replace(patient, status=beat(cursor_us=0)))
    assert ok
    assert "no event has arrived yet" in told


def test_what_a_restore_kept_aside_is_not_counted_as_a_backup(patient: Patient) -> None:
    (patient.places.root / "replaced-2026-11-22T11-44-53").mkdir()
    assert doctor.check_backups(patient)[1].startswith("1, the newest")


def test_events_that_are_not_published_are_told(patient: Patient) -> None:
    later = replace(patient, now=patient.now + timedelta(hours=1))
    status = beat(written_at=(later.now - datetime(1970, 1, 1)).total_seconds(), cursor_us=to_microseconds(later.now))
    ok, told = doctor.check_snapshot(replace(later, status=status))
    assert not ok
    assert "events came since" in told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"PUBLIC_READ": True, "BIND": "0.0.0.0:80"}, "PUBLIC_READ"),
        ({"BIND": "[::]:80"}, "without https"),
        ({"TRUSTED_PROXY": "127.0.0.1"}, "SECURE_COOKIES=True"),
        ({"ALLOWED_HOSTS": ["*"]}, "ALLOWED_HOSTS"),
        ({"T_HIGH": 0.9}, "not certified"),
        ({"TRUST_TWO_WAYS": False}, "TRUST_TWO_WAYS"),
        ({"TRUST": "eigentrust"}, "first_passage"),
        ({"LANE_CONDITIONS": ["verdict"]}, "LANE_CONDITIONS"),
        ({"MERGE_ON_FORGE": True}, "MERGE_ON_FORGE"),
        ({"TRUSTED_PROXY": "127.0.0.1", "OPERATOR_NAME": "Ana"}, "set OPERATOR_NAME and OPERATOR_CONTACT"),
        ({"BIND": "0.0.0.0:80", "OPERATOR_CONTACT": "mailto:a@b.example"}, "the site does not say who runs it"),
    ],
)
def test_a_risky_setting_is_named(patient: Patient, changes: dict[str, object], told: str) -> None:
    assert doctor.check_settings(patient)[0]
    ok, line = doctor.check_settings(replace(patient, settings=SAFE | changes))
    assert not ok
    assert told in line


def test_a_slow_drive_is_told_with_its_speed(patient: Patient) -> None:
    ticks = iter(range(0, 100, 3))
    ok, told = doctor.check_speed(patient, lambda: float(next(ticks)))
    assert not ok
    assert told.startswith("1 MB/s written and synced")
    assert [path.name for path in patient.places.root.glob(".probe-*")] == []


def test_without_room_for_the_next_snapshot_it_says_so(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "shutil", SimpleNamespace(disk_usage=lambda root: SimpleNamespace(free=1_000)))
    ok, told = doctor.check_room(patient)
    assert not ok
    assert "free space on this drive" in told


def test_peers_are_asked_once_a_host_and_a_dead_one_is_named(patient: Patient) -> None:
    chosen = SAFE | {"JETSTREAM_URLS": ["wss://a.invalid/x", "wss://a.invalid/y"], "BACKFILL_HOSTS": []}
    with closing(Fetcher(timeout=1.0, resolver=lambda host: [])) as fetcher:
        found = examine(patient, doctor.peer_checks(chosen | {"KNOT_STREAMS": []}, fetcher))
    assert [one.name for one in found] == ["peer a.invalid", "peer plc.directory"]
    assert not any(one.ok for one in found)
    assert all("see the network, or name another one in the settings" in one.told for one in found)


def test_a_peer_that_refuses_the_connection_is_told_without_an_error_number(patient: Patient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    chosen = SAFE | {"JETSTREAM_URLS": [], "BACKFILL_HOSTS": [], "KNOT_STREAMS": []}
    with closing(fetcher_to(port)) as fetcher:
        (found,) = examine(patient, doctor.peer_checks(chosen, fetcher))
    told = "plc.directory could not be connected to: see the network, or name another one in the settings"
    assert (found.ok, found.told) == (False, told)


def test_everything_broken_is_every_line_and_no_crash(tmp_path: Path) -> None:
    nothing = patient_of(tmp_path)
    found = examine(replace(nothing, places=places_below(tmp_path / "gone")), CHECKS)
    assert [one.name for one in found] == [name for name, _ in CHECKS]
    assert not {one.name: one.ok for one in found}["drive"]
    assert all("\n" not in one.told and one.told for one in found)
    assert [one for one in found if "[Errno" in one.told or "Error:" in one.told] == []


BEATING = """
import sys, time
from pathlib import Path
from ingest.worker.status import Heartbeat, Status

Heartbeat(Path(sys.argv[1]), lambda: Status(written_at=time.time())).start()
sys.stdin.read()
"""


def test_a_worker_that_was_killed_a_moment_ago_is_not_taken_for_one_that_runs(patient: Patient) -> None:
    path = patient.places.root / "status.json"
    chosen = {**patient.settings, "STATUS_PATH": path}
    path.unlink()

    def look() -> tuple[bool, str]:
        return doctor.check_worker(replace(patient, status=read_status(path), now=wall_now(), settings=chosen))

    command = [sys.executable, "-c", BEATING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=PROJECT) as worker:
        wait_for(lambda: (told := read_status(path)) is not None and told.holds_file)
        running = look()
        worker.kill()
    assert running == (True, "it runs without a problem")
    ok, told = look()
    assert not ok
    assert "no worker runs since" in told
