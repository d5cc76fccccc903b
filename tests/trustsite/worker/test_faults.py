"""Faults of the ground, with real processes: what the user sees, that nothing is lost, and that it goes on by itself.

docs/faults.md lists every fault with the test that plays it; `tests/test_faults_table.py` reads that list.
"""

import http.client
import json
import resource
import signal
import sqlite3
import subprocess
import threading
import urllib.error
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from ingest.store.snapshots import SnapshotReader
from ingest.worker.runtime import Runtime, huey
from ingest.worker.status import read_status
from tests.conftest import simulated_network
from tests.pipeline import At
from tests.trustsite import runs
from tests.trustsite.busy import answers_at, get
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from triage.models import outbox
from triage.services.notifying.deliveries import deliver_due
from triage.tasks import wake
from trustsite import drive
from trustsite.standins.jetstream import Jetstream

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
RUNTIME = cast(Runtime, SimpleNamespace(clock=At(NOW.replace(tzinfo=None))))  # all that is asked here of the worker
BEFORE, MORE = 300, 150  # frames let out at first, and in each step after it


def cursor_of(root: Path) -> int:
    told = read_status(root / "status.json")
    return told.cursor_us if told else 0


def refusal(port: int, path: str) -> tuple[int, str]:
    """Status and body of an answer that is no 200; (0, "") where there is none or it is one."""
    try:
        get(port, path)
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()
    except OSError:
        return 0, ""
    return 0, ""


def says(process: subprocess.Popen[str], words: str) -> bool:
    """Whether a process writes a line with these words on stderr; it is ended where it does not in time."""
    assert process.stderr is not None
    patience = threading.Timer(LONG_SECONDS, process.kill)
    patience.start()
    try:
        return any(words in line for line in process.stderr)
    finally:
        patience.cancel()


def let_write(bytes_at_most: int, *processes: subprocess.Popen[str]) -> None:
    """Have every file that these processes write end there: 0 is a drive that became read-only, to those who run."""
    for process in processes:
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (bytes_at_most, hard))


@dataclass
class Running:
    """A worker and a web process on one drive, fed frame by frame."""

    root: Path
    port: int
    jetstream: Jetstream
    worker: subprocess.Popen[str]
    web: subprocess.Popen[str]

    def begin_web_again(self) -> None:
        """Kill the web process and start another in its place."""
        self.web.kill()
        self.web.communicate()
        self.web = start_web(self.root, self.port)
        wait_for(lambda: answers_at(self.port, "/metrics"))

    def assert_takes(self, frames: int) -> None:
        """Let so many frames of all out, and assert that they arrive, each once, and that nothing had to be started."""
        self.jetstream.release(frames)
        newest = json.loads(simulated_network().recording.frames[frames - 1])["time_us"]
        wait_for(lambda: cursor_of(self.root) == newest)
        wait_for(lambda: answers_at(self.port, "/metrics"))
        assert (self.worker.poll(), self.web.poll()) == (None, None)


def start_web(root: Path, port: int) -> subprocess.Popen[str]:
    return runs.start("web", DATA_ROOT=root, BIND=f"127.0.0.1:{port}", PUBLIC_READ="1")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Both at work; in the end nothing is lost of what was let out, and each frame is stored once."""
    root, port = tmp_path_factory.mktemp("running") / "drive", free_port()
    root.mkdir()
    drive.mark(root)
    with Jetstream(simulated_network().recording, hold_after=BEFORE) as jetstream:
        worker = runs.start("worker", DATA_ROOT=root, JETSTREAM_URLS=jetstream.url)
        site = Running(root, port, jetstream, worker, start_web(root, port))
        try:
            wait_for(lambda: cursor_of(root) > 0 and answers_at(port, "/metrics"))
            yield site
        finally:
            for process in (worker, site.web):
                process.send_signal(signal.SIGTERM)
                runs.finish(process, timeout=runs.STOP_SECONDS)
    assert worker.returncode == 0
    with closing(SnapshotReader(root / "snapshots")) as reader, reader.pin() as snapshot:
        assert snapshot is not None
        assert snapshot.value("select count(distinct event_id) = count(*) from events")
        assert snapshot.value("select max(cursor_us) from ingest_state") == cursor_of(root)


def test_a_drive_that_takes_no_bytes_while_everything_runs_stops_only_what_writes_and_is_taken_up_again(
    running: Running,
) -> None:
    path = sign_in_path(running.root)
    cookies, token = form_of(running.port, path)
    let_write(0, running.worker, running.web)
    running.jetstream.release(BEFORE + MORE)
    assert says(running.worker, "cannot be written (files may grow no further there): make it writable")
    status, _, told = answer(running.port, "POST", path, cookies, token)
    assert (status, "Not done: nothing can be written" in told) == (503, True)
    assert answers_at(running.port, "/metrics")
    let_write(resource.RLIM_INFINITY, running.worker, running.web)
    running.assert_takes(BEFORE + 2 * MORE)
    assert answer(running.port, "POST", path, cookies, token)[0] == 302  # the link was not spent


def test_a_drive_that_goes_while_everything_runs_is_told_and_nothing_is_written_to_its_mount_point(
    running: Running,
) -> None:
    root, away = running.root, running.root.with_name("away")
    root.rename(away)
    root.mkdir()  # what is left of a drive that is unmounted
    running.jetstream.release(BEFORE + 3 * MORE)
    assert says(running.worker, "trust.duckdb is gone: mount the drive again")
    for path in ("/", "/metrics", "/health"):
        status, told = refusal(running.port, path)
        assert (status, "The site continues when the drive is mounted again." in told) == (503, True)
    assert list(root.iterdir()) == []
    root.rmdir()
    away.rename(root)
    running.assert_takes(len(simulated_network().recording.frames))
    wait_for(lambda: answers_at(running.port, "/health"))


def test_a_web_process_that_is_killed_loses_nobody_who_is_signed_in(running: Running) -> None:
    cookies, page = signed_in(running.port, sign_in_path(running.root))
    assert asked(running.port, page, "")[0] != 200
    assert asked(running.port, page, cookies)[0] == 200
    running.begin_web_again()
    assert asked(running.port, page, cookies)[0] == 200


def sign_in_path(root: Path) -> str:
    """Where the sign-in link of a new maintainer leads."""
    status, link, err = runs.run("add_maintainer", "did:plc:ewvi7nxzyoun6zhxrhs64oiz", DATA_ROOT=root)
    assert status == 0, err
    return "/" + link.split("/", 3)[3].split()[0]


def form_of(port: int, path: str) -> tuple[str, str]:
    """The cookies that a page with a button gives, and what the button sends."""
    _, cookies, body = answer(port, "GET", path)
    token = body.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    return cookies, f"csrfmiddlewaretoken={token}"


def signed_in(port: int, path: str) -> tuple[str, str]:
    """The cookies of somebody who followed a sign-in link and pressed its button, and a page that asks for them."""
    cookies, token = form_of(port, path)
    status, more, _ = answer(port, "POST", path, cookies, token)
    assert status == 302
    return f"{cookies}; {more}", "/changes"


def asked(port: int, path: str, cookies: str) -> tuple[int, str, str]:
    return answer(port, "GET", path, cookies)


def answer(port: int, method: str, path: str, cookies: str = "", body: str | None = None) -> tuple[int, str, str]:
    """Status, cookies and body of one answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_SECONDS)) as connection:
        headers = {"Cookie": cookies} | ({"Content-Type": "application/x-www-form-urlencoded"} if body else {})
        connection.request(method, path, body, headers)
        told = connection.getresponse()
        given = [value.split(";")[0] for name, value in told.getheaders() if name.lower() == "set-cookie"]
        return told.status, "; ".join(given), told.read().decode()


@pytest.fixture
def locked_queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """The queue's file held by another program, and a queue that waits a moment for it."""
    huey.pending_count()  # as a process that used it before
    monkeypatch.setattr(huey.storage, "_timeout", 0.05)
    huey.storage.close()
    with closing(sqlite3.connect(huey.storage.filename, isolation_level=None)) as other:
        other.execute("begin immediate")
        yield other
    huey.storage.close()


@pytest.mark.django_db
def test_a_queue_that_is_locked_costs_nobody_their_action_and_works_again_after(
    locked_queue: sqlite3.Connection,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    before, taken = huey.pending_count(), list[str]()
    with django_capture_on_commit_callbacks(execute=True):  # which an action's own transaction ends with
        outbox.put("told", "a", {}, NOW)
    assert "could not be woken and looks again within a minute" in caplog.text
    assert huey.pending_count() == before
    takers = {"told": lambda runtime, key, payload: taken.append(key)}
    assert deliver_due(RUNTIME, NOW, takers) == 1  # as the worker's sweep does, which needs no message on the queue
    assert taken == ["a"]
    locked_queue.execute("rollback")
    wake()
    assert huey.pending_count() == before + 1
