"""`backup`, `restore`, `compact` and `doctor` as an operator runs them, beside a busy worker and alone."""

import json
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingest.backup.manifest import read_manifest
from ingest.store.archive import archive
from ingest.store.database import Store
from ingest.store.look_inside import look_inside
from ingest.store.snapshots import SnapshotReader, current_number, publish
from ingest.worker.status import read_status
from tests.conftest import simulated_network, with_environment
from tests.ingest.erasure.erased import story
from tests.ingest.erasure.planted import GONE, traces
from tests.ingest.stream.frames import SOURCE, at, take
from tests.processes import run_python
from tests.trustsite import runs
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream

LOADED = 200  # frames that are there before the backup; the others come while it is made


@pytest.fixture(scope="module")
def busy(made_drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A drive after its worker ingested the world, and a backup made in the midst of that."""
    root = tmp_path_factory.mktemp("busy")
    drive, target = shutil.copytree(made_drive, root / "drive"), root / "backup"
    recording = simulated_network().recording
    with Jetstream(recording, hold_after=LOADED) as jetstream:
        worker = runs.start("worker", DATA_ROOT=drive, JETSTREAM_URLS=jetstream.url)
        try:
            wait_for(lambda: cursor_of(drive) > 0)
            jetstream.release(len(recording.frames))
            status, out, err = runs.run("backup", target, DATA_ROOT=drive)
            assert status == 0, err
            assert "holds the state of" in out
            wait_for(lambda: cursor_of(drive) == recording.last_time_us)
            yield drive, target
        finally:
            worker.send_signal(signal.SIGTERM)
            runs.finish(worker, timeout=runs.STOP_SECONDS)


def cursor_of(drive: Path) -> int:
    told = read_status(drive / "status.json")
    return told.cursor_us if told else 0


def test_a_backup_beside_a_busy_worker_is_restored_row_by_row_on_another_machine(
    busy: tuple[Path, Path], new_drive: Path
) -> None:
    drive, target = busy
    manifest = read_manifest(target)
    assert 0 < manifest.cursors["jetstream"] <= cursor_of(drive)
    status, out, err = runs.run("restore", target, DATA_ROOT=new_drive)
    assert status == 0, err
    assert "is restored" in out
    with closing(SnapshotReader(new_drive / "snapshots")) as reader, reader.pin() as snapshot:
        assert snapshot is not None
    assert look_inside(new_drive / "duckdb" / "trust.duckdb").tables == manifest.tables
    status, _, err = runs.run("restore", target, DATA_ROOT=drive)
    assert (status, "stop the worker" in err) == (2, True)
    assert (cursor_of(drive), read_manifest(target)) == (simulated_network().recording.last_time_us, manifest)


def test_the_doctor_leaves_the_store_to_the_worker_and_finds_what_is_to_do(busy: tuple[Path, Path]) -> None:
    drive, _ = busy
    status, out, err = runs.run("doctor", "--json", DATA_ROOT=drive)
    told = {one["name"]: one for one in json.loads(out)["findings"]}
    assert status == 1, err
    assert "held by the worker (process " in told["store"]["told"]
    assert [name for name, one in told.items() if not one["ok"] and name not in ("clock", "worker", "speed")] == [
        "accounts",  # nobody was made a maintainer
        "backups",  # which lies elsewhere
    ]


SECRETS = """
import json, django; django.setup()
from datetime import timedelta
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone
from triage.access.sign_in import issue_link
from triage.access.tokens import make_link
from triage.models import Maintainer, Person, Delivery
from triage.access.tokens import create_token, revoke_token, valid_token
now = timezone.now()
person = Person.objects.create(did="did:plc:" + "3" * 24)
person.set_password("zq7PASSWORDzq7"); person.save()
Maintainer.objects.create(person=person)
session = SessionStore(); session["_auth_user_id"] = str(person.pk); session.create()
token, revoked = create_token("one", ["read"], now, person), create_token("two", ["review"], now, person)
revoke_token(valid_token(revoked, now), person, now)
for key, days in (("young", 0), ("old", 2)):
    made_at = now - timedelta(days=days)
    Delivery.objects.create(key=key, event="webhook.test", body="{}", made_at=made_at, due_at=now, ends_at=now)
links = [make_link(person, person.did, "", pull, now) for pull in ("", "at://pull")] + [issue_link(person)]
keys = [str(settings.WEBHOOK_KEY), str(settings.PUSH_KEY)]
print(json.dumps([session.session_key, "zq7PASSWORDzq7", token, revoked, *links, *keys]))
"""
# What only the environment holds.
NAMED = {
    "ANTHROPIC_API_KEY": "sk-ant-zq7CLAUDEzq7",
    "WEBHOOK_URL": "https://hooks.example.test/zq7HOOKzq7",
    "OTLP_HEADERS": "Authorization=zq7TRACESzq7",
}


@pytest.fixture(scope="module")
def kept(made_drive: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A drive with archived events and every kind of secret, a backup of it, and the secrets."""
    root = shutil.copytree(made_drive, tmp_path_factory.mktemp("kept") / "drive")
    store = Store.open(root / "duckdb" / "trust.duckdb", key=(root / "keys" / "tombstones").read_bytes())
    store.bind(SOURCE)
    take(store, story())
    assert archive(store, root / "staging", 30, 1, at(0))
    publish(store, root / "snapshots")
    store.close()
    environment = with_environment({"DATA_ROOT": root, "DJANGO_SETTINGS_MODULE": "trustsite.settings"} | NAMED)
    told = run_python("-c", SECRETS, env=environment)
    assert told.returncode == 0, told.stderr
    keys = [path.read_text() for path in (root / "keys").iterdir()]
    secrets = [*json.loads(told.stdout), *keys, *(value.rpartition("/")[2] for value in NAMED.values())]
    status, _, err = runs.run("backup", root.with_name("backup"), timeout=300, DATA_ROOT=root, **NAMED)
    assert status == 0, err
    return root, root.with_name("backup"), secrets


def test_no_secret_is_in_a_backup_whose_rows_and_columns_are_read_too(kept: tuple[Path, Path, list[str]]) -> None:
    _, backup, secrets = kept
    assert len(set(secrets)) >= 15
    assert min(map(len, secrets)) >= 10
    assert traces(backup, tuple(secrets)) == []
    assert {path.suffix for path in backup.rglob("*") if path.is_file()} >= {".duckdb", ".sqlite3", ".parquet", ".json"}
    assert traces(backup, (GONE,)), "the search finds what is there"
    with closing(sqlite3.connect(backup / "web.sqlite3")) as accounts:  # of what opens something it has only hashes
        assert accounts.execute("select count(*) from django_session").fetchone() == (0,)
        hashed = accounts.execute("select password, secret_hash from triage_person, triage_apitoken").fetchall()
    assert all(password.startswith("pbkdf2_sha256$") and len(told) == 64 for password, told in hashed)
    assert len(hashed) == 2


def test_on_the_drive_itself_secrets_lie_in_the_keys_alone_and_sessions_in_the_accounts(
    kept: tuple[Path, Path, list[str]],
) -> None:
    root, _, (session, *others) = kept
    assert {told.split("/")[0] for told in traces(root, tuple(others))} == {"keys"}
    assert {told.split(":")[0].removesuffix("-wal") for told in traces(root, (session,))} == {"web.sqlite3"}


def test_whoever_was_erased_after_the_backup_is_erased_from_it_on_restore(kept: tuple[Path, Path, list[str]]) -> None:
    root, target, _ = kept
    for command in (("erase_contributor", GONE, "--yes"), ("restore", target, "--replace")):
        status, out, err = runs.run(*command, DATA_ROOT=root)
        assert status == 0, err
    assert "1 who were erased after the backup was made were erased from it again." in out
    assert "1 messages of the webhook wait and keep their webhook-id" in out
    assert "1 that are older than a day are not sent" in out
    (aside,) = root.glob("replaced-*")
    shutil.rmtree(aside)
    assert traces(root, (GONE, GONE.removeprefix("did:plc:"))) == []
    assert current_number(root / "snapshots") > 2  # a web process that runs takes the next one


def test_compact_hands_over_to_the_worker_and_prints_what_it_saved(busy: tuple[Path, Path]) -> None:
    drive, _ = busy
    before = cursor_of(drive)
    status, out, err = runs.run("compact", DATA_ROOT=drive)
    assert status == 0, err
    assert [line.split(":")[0].rsplit("/", 1)[1] for line in out.splitlines()] == [
        "trust.duckdb",
        "web.sqlite3",
        "queue.sqlite3",
    ]
    assert " MB before, " in out
    assert cursor_of(drive) == before
