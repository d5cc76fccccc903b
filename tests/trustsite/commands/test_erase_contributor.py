"""`erase_contributor` and `export_contributor` as an operator runs them, beside a worker and alone."""

import json
import os
import shutil
import signal
import sys
import time
from hashlib import sha256
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from ingest.store.database import Store
from ingest.store.snapshots import SnapshotReader, publish
from tests.conftest import with_environment
from tests.ingest.erasure.planted import GONE, HANDLE, MARK, SHORT, plant_in_files, traces
from tests.ingest.git.git_world import Work
from tests.ingest.stream.frames import ANA, REPO, SEED, Frames, pull_uri, take
from tests.processes import run_python
from tests.trustsite import runs
from tests.trustsite.ports import free_port
from tests.waiting import wait_for

WORDS = (GONE, GONE.removeprefix("did:plc:"), HANDLE, SHORT, MARK)
LEAVER = "did:plc:" + "leaver".ljust(24, "b")
ACCOUNT = """
import django; django.setup()
from django.utils import timezone
from django.contrib.sessions.backends.db import SessionStore
from triage.access.sign_in import issue_link
from triage.models import Person
from triage.access.tokens import create_token
person = Person.objects.create(did="{did}", handle="{handle}")
issue_link(person)
create_token("{mark}", ["read"], timezone.now(), person)
session = SessionStore(); session["_auth_user_id"] = str(person.pk); session.create()
"""


@pytest.fixture(scope="module")
def made(made_drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A marked drive with somebody in its store, snapshots, files, queue and accounts."""
    root = shutil.copytree(made_drive, tmp_path_factory.mktemp("made") / "drive")
    store = Store.open(root / "duckdb" / "trust.duckdb", key=(root / "keys" / "tombstones").read_bytes())
    store.bind("jetstream")
    _fill(store)
    publish(store, root / "snapshots")
    publish(store, root / "snapshots")
    store.close()
    plant_in_files(root)
    work = Work(root / "work")
    work.commit(f"As {GONE} asked")
    work.git("clone", "-q", "--bare", ".", str(root / "mirrors" / "1.git"))
    shutil.rmtree(work.folder)
    (root / "queue.sqlite3").unlink()  # another layout than the real one's
    (root / "backups").mkdir()
    (root / "backups" / "older.tar").write_text("sealed")
    os.utime(root / "backups" / "older.tar", (1_790_000_000, 1_790_000_000))
    code = ACCOUNT.format(did=GONE, handle=HANDLE, mark=MARK)
    environment = with_environment({"DATA_ROOT": root, "DJANGO_SETTINGS_MODULE": "trustsite.settings"})
    run_python("-c", code, env=environment).check_returncode()
    return root


@pytest.fixture
def planted(made: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return shutil.copytree(made, tmp_path / "drive")


def _fill(store: Store) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.vouch(SEED, GONE, reason=MARK)
    frames.vouch(GONE, ANA)
    frames.pull(GONE, "one", title=MARK)
    frames.pull(ANA, "two", body=f"as {GONE} and @{HANDLE} said")
    frames.vouch(LEAVER, ANA)
    frames.account(LEAVER, active=False, status="deleted")
    frames.append(json.dumps({"did": GONE, "time_us": 1, "broken": MARK}).encode())
    with store.write() as txn:
        txn.execute("update ingest_state set source = 'test'")
    take(store, frames)
    with store.write() as txn:
        txn.execute("update contributors set handle = ?, handle_verified = true where did = ?", [HANDLE, GONE])
        txn.execute("update ingest_state set source = 'jetstream', cursor_us = ?", [int(time.time() * 1e6)])


def knows(root: Path, did: str) -> bool:
    with SnapshotReader(root / "snapshots").pin() as snapshot:
        return snapshot is not None and snapshot.value("select count(*) from contributors where did = ?", [did]) > 0


def assert_gone(root: Path) -> None:
    assert traces(root, WORDS) == []
    with SnapshotReader(root / "snapshots").pin() as snapshot:
        assert snapshot is not None
        assert snapshot.value("select count(*) from contributors where did in (?, ?)", [SEED, ANA]) == 2
        assert snapshot.value("select body from pull_requests where pull_uri = ?", [pull_uri(ANA, "two")]) == (
            "as (erased) and @(erased) said"
        )


def test_without_a_worker_the_command_erases_to_the_last_byte(planted: Path) -> None:
    assert traces(planted, WORDS) != []
    status, out, err = runs.run("erase_contributor", HANDLE, "--yes", DATA_ROOT=planted)
    assert status == 0, err
    assert "1 pull_requests" not in out
    assert "Erased: " in out
    assert "1.git, the mirror of a repository, names them in 1 place: that repository's own public history" in out
    assert "older.tar (made 2026-09-21, expires 2026-10-21)" in out
    assert_gone(planted)


def test_beside_a_worker_the_command_hands_over_and_a_maintainer_goes_only_on_purpose(planted: Path) -> None:
    worker = runs.start("worker", DATA_ROOT=planted, JETSTREAM_URLS=f"ws://127.0.0.1:{free_port()}/subscribe")
    try:
        wait_for(lambda: not knows(planted, LEAVER))  # their account was deleted: nobody has to ask
        assert runs.run("add_maintainer", GONE, DATA_ROOT=planted)[0] == 0
        status, _, err = runs.run("erase_contributor", GONE, "--yes", DATA_ROOT=planted)
        assert status == 2
        assert "name another maintainer first" in err
        status, out, err = runs.run("erase_contributor", GONE, "--yes", "--yes-maintainer", DATA_ROOT=planted)
        assert status == 0, err
        assert "Files and tables are searched." in err
        assert "Erased: " in out
        # The worker still owns the file, and what it writes is read.
        assert runs.run("add_maintainer", ANA, DATA_ROOT=planted)[0] == 0
    finally:
        worker.send_signal(signal.SIGTERM)
        status, _, told = runs.finish(worker, timeout=runs.STOP_SECONDS)
    assert status == 0, told
    assert_gone(planted)
    assert traces(planted, (LEAVER,)) == []
    with SnapshotReader(planted / "snapshots").pin() as snapshot:
        assert snapshot is not None
        assert snapshot.rows("select did from maintainers join contributors using (contributor_id)") == [{"did": ANA}]


@pytest.mark.django_db
def test_with_nobody_to_ask_nothing_is_erased(made: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SNAPSHOT_DIR = made / "snapshots"
    monkeypatch.setattr(sys, "stdin", StringIO())
    before, out = content(made), StringIO()
    with pytest.raises(CommandError, match="No terminal to ask on: add --yes") as refused:
        call_command("erase_contributor", GONE, stdout=out)
    assert (refused.value.returncode, out.getvalue()) == (2, "")
    assert content(made) == before


def content(root: Path) -> dict[Path, bytes]:
    """The hash of every file below."""
    return {path: sha256(path.read_bytes()).digest() for path in root.rglob("*") if path.is_file()}


@pytest.mark.django_db
def test_somebody_unknown_is_refused_in_one_sentence(made: Path, settings: Settings) -> None:
    settings.SNAPSHOT_DIR = made / "snapshots"
    nobody = "did:plc:" + "b" * 24
    for command, who, said in (
        ("erase_contributor", "nobody.example.com", "Nobody here has proven the handle"),
        ("erase_contributor", "no one", "is not a handle"),
        ("erase_contributor", nobody, "No data about"),
        ("export_contributor", nobody, "No data about"),
    ):
        with pytest.raises(CommandError, match=said) as refused:
            call_command(command, who)
        assert refused.value.returncode == 2


def test_an_export_holds_every_table_account_and_file_and_no_secret(planted: Path, tmp_path: Path) -> None:
    out = tmp_path / "export.json"
    status, _, err = runs.run("export_contributor", HANDLE, "--out", out, DATA_ROOT=planted)
    assert status == 0, err
    assert out.stat().st_mode & 0o777 == 0o600
    held = json.loads(out.read_text())
    assert held["did"] == GONE
    assert {"events", "contributors", "pull_requests", "vouches", "dead_letters"} <= held["tables"].keys()
    assert {(row["voucher_did"], row["subject_did"]) for row in held["tables"]["vouches"]} == {
        (SEED, GONE),
        (GONE, ANA),
    }
    assert any(row["body"] and MARK in row["body"] for row in held["tables"]["events"])
    assert any(path["path"].endswith("worker.log") for path in held["files"])
    assert held["archived_events"]
    assert held["account"]["api_tokens"][0]["name"] == MARK
    assert "secret_hash" not in out.read_text()
