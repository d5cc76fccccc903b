"""The worker and the web as processes: they refuse, hand over, stop in time and serve whole snapshots."""

import concurrent.futures
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from huey import MemoryHuey
from hypothesis import given
from hypothesis import strategies as st

from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.store.snapshots import SnapshotReader, current_number
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.knots import EventStream
from ingest.worker.status import Status, read_status
from tests.conftest import Count, simulated_network, with_environment
from tests.sources import PROJECT
from tests.trustsite import runs
from tests.trustsite.busy import OverTooSoon, answers_at, busy_site, get
from tests.trustsite.ports import free_port, is_taken
from tests.waiting import LONG_SECONDS, wait_for
from trustsite import drive
from trustsite.hops import Hops
from trustsite.standins.jetstream import Jetstream
from trustsite.worker import worker
from trustsite.worker.worker import Part, Publishing, Worker, cut_off, going_on, of_thread

FIRST, OTHER = "did:plc:ewvi7nxzyoun6zhxrhs64oiz", "did:plc:z72i7hdynmk6r22z27h6tvur"


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A marked drive."""
    root = tmp_path / "drive"
    root.mkdir()
    drive.mark(root)
    return root


@dataclass(frozen=True)
class Course:
    """What was seen of one worker from its start beside a known maintainer to its end, for the tests that follow."""

    root: Path
    process: int
    link: str
    second: tuple[int, str, str]
    goes_on: bool
    labels: int
    end: tuple[int, str, str]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A worker met by a second one and by a second maintainer, and then told to stop: each start takes 4 s of CPU."""
    root = tmp_path_factory.mktemp("course")
    drive.mark(root)
    status, link, err = runs.run("add_maintainer", FIRST, DATA_ROOT=root)
    assert status == 0, err
    peer = f"ws://127.0.0.1:{free_port()}/subscribe"
    labels = free_port()
    public = {"PUBLIC_ORIGIN": "https://triage.sunstead.org", "ALLOWED_HOSTS": "triage.sunstead.org"}
    public |= {"LABELER_BIND": f"127.0.0.1:{labels}"}
    worker = runs.start("worker", DATA_ROOT=root, JETSTREAM_URLS=peer, **public)
    try:
        wait_for(lambda: current_number(root / "snapshots") > 1)
        wait_for(lambda: is_taken(labels), what="the label server")
        second = runs.run("worker", DATA_ROOT=root, JETSTREAM_URLS=peer)
        goes_on = worker.poll() is None
        assert runs.run("add_maintainer", OTHER, DATA_ROOT=root)[0] == 0
    finally:
        worker.send_signal(signal.SIGTERM)
        end = runs.finish(worker, timeout=runs.STOP_SECONDS)
    return Course(root, worker.pid, link, second, goes_on, labels, end)


def test_a_worker_stops_within_ten_seconds_of_sigterm_and_lets_go_of_the_store(course: Course) -> None:
    status, _, err = course.end
    assert status == 0, err
    assert "nanobind" not in err
    assert not is_taken(course.labels)
    assert not (course.root / "duckdb" / "trust.duckdb.wal").exists()


def test_a_second_worker_is_refused_in_one_sentence_while_the_first_goes_on(course: Course) -> None:
    status, out, err = course.second
    assert (status, out) == (2, "")
    assert f"held by process {course.process}" in err
    assert course.goes_on


def test_a_maintainer_is_added_with_and_without_a_running_worker(course: Course) -> None:
    assert course.link.startswith("http://127.0.0.1:8000/sign-in/")
    with SnapshotReader(course.root / "snapshots").pin() as snapshot:
        assert snapshot is not None
        found = snapshot.rows("select did from maintainers join contributors using (contributor_id) order by did")
    assert [row["did"] for row in found] == sorted([FIRST, OTHER])


def test_a_live_worker_tells_how_it_is_and_that_what_came_before_it_is_missing(marked: Path) -> None:
    status = marked / "status.json"
    with Jetstream(simulated_network().recording, hold_after=50) as jetstream:
        dead = f"ws://127.0.0.1:{free_port()}/subscribe"
        urls = f"{dead},{jetstream.url}"
        process = runs.start("worker", DATA_ROOT=marked, JETSTREAM_URLS=urls)
        try:
            wait_for(lambda: (told := read_status(status)) is not None and told.cursor_us > 0)
            told = read_status(status)
            assert told is not None
            assert told.is_alive(time.time())
            assert told.listener_problem is None
            jetstream.close()
            wait_for(lambda: "not answering" in listener_problem(status))
        finally:
            process.send_signal(signal.SIGTERM)
            runs.finish(process, timeout=runs.STOP_SECONDS)
    told = read_status(status)
    assert told is not None
    assert not told.running
    with SnapshotReader(marked / "snapshots").pin() as snapshot:
        assert snapshot is not None
        found = snapshot.rows("select from_us from gaps")  # a backfill may have filled it meanwhile
    assert found == [{"from_us": 0}]


def listener_problem(status: Path) -> str:
    told = read_status(status)
    return (told.listener_problem or "") if told is not None else ""


@pytest.mark.parametrize("command", ["dev", "demo"])
def test_a_background_job_of_a_shell_stops_on_sigint_with_all_that_it_began(marked: Path, command: str) -> None:
    port, peer = free_port(), f"ws://127.0.0.1:{free_port()}/subscribe"
    process = runs.start_deaf(command, DATA_ROOT=marked, BIND=f"127.0.0.1:{port}", JETSTREAM_URLS=peer)
    try:
        if command == "dev":  # which runs worker and web
            wait_for(lambda: answers_at(port, "/sign-in") or process.poll() is not None)
        wait_for(lambda: list(marked.rglob("status.json")) or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        status, _, err = runs.finish(process, timeout=runs.STOP_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert status == (0 if command == "dev" else 1), err  # a demo that is stopped says so
    assert "Traceback" not in err
    assert not is_taken(port)


def answers_of_a_busy_site(folder: Path, pulls: int, people: int, times: int) -> list[tuple[str, int, bytes]]:
    """Each path, status and body of several requests at once while so many pull requests are ingested."""
    folder.mkdir()
    with busy_site(folder, pulls, people) as (port, did):
        paths = [f"/score/{did}", "/", "/metrics"] * times
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda path: (path, *get(port, path)), paths))


def test_pages_and_json_answer_from_whole_snapshots_while_the_worker_ingests(tmp_path: Path, count: Count) -> None:
    for pulls in (count(1_200, 150_000), 6_000, 30_000):  # the more, the longer it is busy
        with suppress(OverTooSoon):
            answers = answers_of_a_busy_site(tmp_path / str(pulls), pulls, count(300, 4_000), count(20, 500))
            break
    else:
        pytest.fail("the replay was over each time before the last request")
    assert {status for _, status, _ in answers} == {200}
    for path, _, body in answers:
        if path == "/metrics":
            told = json.loads(body)
            # Written by one scoring pass: from half of one these would not add up.
            assert sum(one["count"] for one in told["histogram"]) + told["not_enough_evidence"] == told["scored"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    owned = Store.open(tmp_path / "trust.duckdb")
    owned.bind("test")
    yield owned
    owned.close()


def told(store: Store, *streams: EventStream) -> Status:
    """The status of a worker of whom only these event streams run."""
    listener = Listener(store, Subscription("test", ["ws://127.0.0.1:9/subscribe"], [], None), lambda: None)
    parts = SimpleNamespace(
        listener=listener,
        publishing=Publishing(store.path.parent),
        hops=Hops(MemoryHuey("heartbeat"), {}),
        fetcher=Fetcher(),
        store=store,
        backfiller=None,
        event_streams=streams,
        runtime=SimpleNamespace(letters=SimpleNamespace(dropped=0)),
    )
    return Worker._status(cast(Worker, parts))


def test_an_event_stream_that_is_not_heard_is_told_with_its_host_and_reason(store: Store) -> None:
    dead, quiet = (
        EventStream(store, Fetcher(), f"ws://127.0.0.1:{free_port()}/events", lambda: None) for _ in range(2)
    )
    assert told(store, dead, quiet).event_streams_down == 0
    dead.start()
    wait_for(lambda: dead.problem)
    status = told(store, dead, quiet)
    dead.interrupt()
    assert status.event_streams_down == 1
    assert status.event_problems == (dead.problem,)
    assert status.event_problems[0].startswith(f"{dead.host} is not answering")
    dead.join()


# A whole worker with one part that never ends; with what is left of it the bounds are a tenth of a second and more.
STUCK = """
import threading, sys
import django; django.setup()
from trustsite.worker import worker as shutdown
from trustsite.worker.worker import Worker, stream_from_settings
never, is_stuck = threading.Event(), threading.Event()
shutdown.PARTS_SECONDS, shutdown.WHOLE_SECONDS = 0.5, 1.0
worker = Worker(stream_from_settings())
def hang(*_):
    is_stuck.set()
    never.wait()
if sys.argv[1] == "hop":
    worker.hops._tasks["derive_events"].task_class.execute = hang
if sys.argv[1] == "publisher":
    worker.publisher.stop = hang
    is_stuck.set()
threading.Thread(target=lambda: (is_stuck.wait(), worker.finish()), daemon=True).start()
worker.run()
"""


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def part(self, name: str, takes: float) -> Part:
        """One that ends so many seconds after the clock began."""

        def wait(seconds: float) -> bool:
            assert seconds >= 0
            has_ended = self.now + seconds >= 100.0 + takes
            self.now = max(self.now, 100.0 + takes) if has_ended else self.now + seconds
            return has_ended

        return Part(name, lambda: None, wait)


@given(st.lists(st.floats(0, 1e9)), st.floats(0, 100))
def test_all_parts_together_are_waited_for_no_longer_than_the_budget(takes: list[float], budget: float) -> None:
    clock = Clock()
    named = {f"part {number}": seconds for number, seconds in enumerate(takes)}
    left = going_on([clock.part(*told) for told in named.items()], budget, lambda: clock.now)
    assert clock.now <= 100.0 + budget + 1e-6
    assert set(left) >= {name for name, seconds in named.items() if seconds > budget + 1e-6}
    assert not {name for name, seconds in named.items() if seconds < budget - 1e-6}.intersection(left)


def test_a_thread_that_was_never_started_is_not_waited_for() -> None:
    assert going_on([of_thread(threading.Thread(name="idle"), lambda: None)], 0.0) == []


def test_a_process_that_does_not_end_in_time_is_left_and_one_that_does_is_not() -> None:
    left: list[int] = []
    has_ended = threading.Event()
    cut_off(has_ended, 0.0, left.append)
    assert left == [1]
    has_ended.set()
    cut_off(has_ended, 1e9, left.append)
    assert left == [1]


def test_the_bounds_are_those_that_are_promised() -> None:
    assert worker.PARTS_SECONDS < worker.WHOLE_SECONDS < 10


@pytest.mark.parametrize(
    ("stuck", "said"), [("hop", "Worker-"), ("publisher", "the worker did not stop in time and is cut off")]
)
def test_a_worker_with_a_part_that_never_ends_ends_and_leaves_a_store_that_opens(
    tmp_path: Path, stuck: str, said: str
) -> None:
    drive.mark(tmp_path)
    url = f"ws://127.0.0.1:{free_port()}/subscribe"
    told = {"DATA_ROOT": tmp_path, "JETSTREAM_URLS": url, "DJANGO_SETTINGS_MODULE": "trustsite.settings"}
    command = [sys.executable, "-c", STUCK, stuck]
    ended = subprocess.run(
        command,
        cwd=PROJECT,
        env=with_environment(told),
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert said in ended.stderr
    assert "jetstream" not in ended.stderr.partition("did not end in time")[0].rpartition("\n")[2]
    store = Store.open(tmp_path / "duckdb" / "trust.duckdb", key=drive.key(tmp_path, "tombstones").encode())
    with store.read() as rows:
        assert rows.value("select count(*) from ingest_state") == 1
    store.close()
