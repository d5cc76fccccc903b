"""The worker and the web as processes: they refuse, hand over, stop in time and serve whole snapshots."""

import concurrent.futures
import json
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.snapshot import SnapshotReader, current_number
from tests.conftest import Count
from tests.trustsite import runs
from trustsite import drive
from trustsite.standins.recording import write_recording
from trustsite.world import bulk


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A marked drive."""
    root = tmp_path / "drive"
    root.mkdir()
    drive.mark(root)
    return root


def get(port: int, path: str, accept: str = "*/*") -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, answer.read()


def test_a_worker_stops_within_ten_seconds_of_sigterm_and_lets_go_of_the_store(marked: Path) -> None:
    process = runs.start("worker", DATA_ROOT=marked, JETSTREAM_URLS=f"ws://127.0.0.1:{free_port()}/subscribe")
    runs.wait_for(lambda: current_number(marked / "snapshots") > 0)
    process.send_signal(signal.SIGTERM)
    status, _, err = runs.finish(process, timeout=10)
    assert status == 0, err
    assert "nanobind" not in err
    assert not (marked / "duckdb" / "trust.duckdb.wal").exists()


def test_a_second_worker_is_refused_in_one_sentence_while_the_first_goes_on(marked: Path) -> None:
    peer = f"ws://127.0.0.1:{free_port()}/subscribe"
    first = runs.start("worker", DATA_ROOT=marked, JETSTREAM_URLS=peer)
    try:
        runs.wait_for(lambda: current_number(marked / "snapshots") > 0)
        status, out, err = runs.run("worker", DATA_ROOT=marked, JETSTREAM_URLS=peer)
        assert (status, out) == (2, "")
        assert f"held by process {first.pid}" in err
        assert first.poll() is None
    finally:
        first.send_signal(signal.SIGTERM)
        runs.finish(first, timeout=10)


def test_a_maintainer_is_added_with_and_without_a_running_worker(marked: Path) -> None:
    who = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
    status, link, err = runs.run("add_maintainer", who, DATA_ROOT=marked)
    assert status == 0, err
    assert link.startswith("http://127.0.0.1:8000/sign-in/")
    worker = runs.start("worker", DATA_ROOT=marked, JETSTREAM_URLS=f"ws://127.0.0.1:{free_port()}/subscribe")
    try:
        runs.wait_for(lambda: current_number(marked / "snapshots") > 1)
        other = "did:plc:z72i7hdynmk6r22z27h6tvur"
        assert runs.run("add_maintainer", other, DATA_ROOT=marked)[0] == 0
    finally:
        worker.send_signal(signal.SIGTERM)
        runs.finish(worker, timeout=10)
    with SnapshotReader(marked / "snapshots").pin() as snapshot:
        assert snapshot is not None
        found = snapshot.rows("select did from maintainers join contributors using (contributor_id) order by did")
    assert [row["did"] for row in found] == sorted([who, other])


def test_dev_runs_worker_and_web_and_one_signal_stops_both(marked: Path) -> None:
    port = free_port()
    peer = f"ws://127.0.0.1:{free_port()}/subscribe"
    process = runs.start("dev", DATA_ROOT=marked, BIND=f"127.0.0.1:{port}", PUBLIC_READ="1", JETSTREAM_URLS=peer)

    def answers() -> bool:
        return _answers(port, "/metrics")

    try:
        runs.wait_for(answers)
    finally:
        process.send_signal(signal.SIGINT)
    status, _, err = runs.finish(process, timeout=15)
    assert status == 0, err
    assert not answers()


@pytest.fixture
def busy_site(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A worker that ingests at full speed and a web process beside it: the port, and the DID of the first author."""
    recording = bulk(4_000, 20_000)
    folder, port = tmp_path / "bulk", free_port()
    write_recording(folder, recording)
    place = drive.replay_place(tmp_path, folder)
    replaying = runs.start("replay", folder, DATA_ROOT=tmp_path)
    runs.wait_for(lambda: current_number(place.root / "snapshots") > 0)
    drive.mark(place.root)  # so that a web process may serve what the replay publishes
    serving = runs.start("web", DATA_ROOT=place.root, BIND=f"127.0.0.1:{port}", PUBLIC_READ="1")
    did = json.loads(recording.frames[0])["did"]
    runs.wait_for(lambda: _answers(port, f"/score/{did}"))
    try:
        assert replaying.poll() is None, "the replay was over before the first request"
        yield port, did
    finally:
        serving.terminate()
        runs.finish(serving)
        replaying.kill()
        runs.finish(replaying)


def _answers(port: int, path: str) -> bool:
    try:
        return get(port, path)[0] == 200
    except OSError:
        return False


def test_pages_and_json_answer_from_whole_snapshots_while_the_worker_ingests(
    busy_site: tuple[int, str], count: Count
) -> None:
    port, did = busy_site
    paths = [f"/score/{did}", "/", "/metrics"] * count(20, 500)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda path: (path, *get(port, path)), paths))
    assert {status for _, status, _ in answers} == {200}
    for path, _, body in answers:
        if path == "/metrics":
            told = json.loads(body)
            # Written by one scoring pass: from half of one these would not add up.
            assert sum(one["count"] for one in told["histogram"]) + told["not_enough_evidence"] == told["scored"]
