"""Recorded streams through the real worker: exact counts, clear refusals, and nothing lost by a kill."""

import gzip
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from pytest_django import Settings

from ingest.records.derive import derive
from ingest.records.pull_state import settle
from ingest.store.database import Store
from ingest.store.digest import digest
from ingest.store.snapshots import SnapshotReader
from ingest.stream import jetstream
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import load
from scoring.explain.decided import LONGEST, LONGEST_REASON
from scoring.queries import read
from tests.conftest import Count, simulated_network
from tests.standins.load import bulk
from tests.stores import fresh_store
from tests.trustsite import runs
from tests.trustsite.busy import answers_at
from tests.trustsite.decided import check_decisions
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite.demo.recorded import REPORTS, offer_busiest, reports_beside, serve_beside
from trustsite.drive import replay_place
from trustsite.management.commands.dev import told
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import Recording, make_recording, open_recording, write_recording

FRAMES = 500  # of the simulated network's 1,164: people, vouches, pull requests and merges, in half the time
SHARED_COUNTS = {
    "events": 9622,
    "pull_requests": 4802,
    "statuses": 4627,
    "vouches": 184,
    "denounces": 1,
    "repositories": 4,
    "contributors": 1218,
    "scored": 1218,
    "dead_letters": 0,
}

FIRST_FRAMES = 400
FIRST_COUNTS = {
    "events": FIRST_FRAMES,
    "pull_requests": 207,
    "statuses": 181,
    "vouches": 10,
    "denounces": 0,
    "repositories": 2,
    "contributors": 52,
    "scored": 57,
    "dead_letters": 0,
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first frames of the simulated network as a folder that can be replayed, and one that is not JSON."""
    folder, whole = tmp_path_factory.mktemp("recording"), simulated_network().recording
    frames = whole.frames[:FRAMES]
    write_recording(folder, make_recording(frames, whole.blobs, whole.people, whole.repositories))
    lines = gzip.decompress((folder / "frames.ndjson.gz").read_bytes()).splitlines()
    lines.insert(len(lines) // 2, b'{"did": "did:plc:half')
    (folder / "frames.ndjson.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    return folder


@dataclass(frozen=True)
class Undisturbed:
    """What a replay that nobody disturbed left below `root`, what it printed, and the hashes of its store."""

    root: Path
    counts: dict[str, Any]
    digest: str


@pytest.fixture(scope="module")
def undisturbed(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """A replay of the simulated network; a test that goes on from it takes a copy."""
    root = tmp_path_factory.mktemp("undisturbed")
    counts = runs.replay(recording, root)
    del counts["seconds"]
    return Undisturbed(root, counts, runs.digest_here(recording, root))


def copy_of(recording: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recording, tmp_path / "copy")


@pytest.fixture
def refusal(settings: Settings) -> Callable[[Path, Path], str]:
    """The one sentence of a replay below a root that is refused."""

    def refused(folder: Path, root: Path) -> str:
        settings.PLACE = replay_place(root, folder)
        settings.ROOT = settings.PLACE.root
        settings.DUCKDB_PATH = settings.ROOT / "duckdb" / "trust.duckdb"
        with pytest.raises(CommandError) as refused:
            call_command("replay", str(folder))
        assert (refused.value.returncode, str(refused.value).count("\n")) == (2, 0)
        return str(refused.value)

    return refused


def test_the_real_history_of_four_projects_loads_to_the_last_record(shared: Path, tmp_path: Path, prove: bool) -> None:
    """All of it under PROVE=1, else its first frames."""
    folder = shared / "data" / "replay"
    if not prove:
        whole = open_recording(folder)
        first = whole.frames[:FIRST_FRAMES]
        folder = tmp_path / "first"
        write_recording(folder, make_recording(first, whole.blobs, whole.people, whole.repositories))
    counts = runs.replay(folder, tmp_path / "root")
    assert counts.pop("seconds") < (60 if prove else LONG_SECONDS * 3)
    assert counts == (SHARED_COUNTS if prove else FIRST_COUNTS)
    with SnapshotReader(replay_place(tmp_path / "root", folder).root / "snapshots").pin() as snapshot:
        assert snapshot is not None
        rows = [row for group in read.queue(snapshot, read.QueueQuery()).groups for row in group.rows]
    assert len(rows) > (100 if prove else 20)
    for row in rows:
        assert 0 < len(row.decided) <= LONGEST, "no row cuts what decided"
        assert row.sentence.startswith(row.decided)
        assert len(row.sentence) <= LONGEST_REASON


def test_all_recorded_live_frames_load_and_strangers_leave_no_rows(shared: Path, tmp_path: Path) -> None:
    counts = runs.replay(shared / "examples" / "jetstream", tmp_path)
    # 170 frames, of which 7 are identity and account events of DIDs that never wrote a Tangled record.
    assert counts["events"] == 163
    assert counts["pull_requests"] == 2
    assert counts["dead_letters"] == 0


def test_kills_at_random_moments_end_with_the_tables_of_an_undisturbed_run(
    recording: Path, shared: Path, tmp_path: Path, count: Count, prove: bool, request: pytest.FixtureRequest
) -> None:
    if prove:
        folder = shared / "data" / "replay"
        runs.replay(folder, tmp_path / "calm")
        expected = runs.digest(folder, tmp_path / "calm")
    else:
        folder, expected = recording, request.getfixturevalue("undisturbed").digest
    moments, longest, killed, rounds = random.Random(20), 5.0 if prove else 2.0, 0, 0
    while killed < count(1, 50):
        root = tmp_path / f"killed-{(rounds := rounds + 1)}"
        root.mkdir()
        while killed < count(1, 50):
            if not runs.kill_after(runs.start("replay", folder, DATA_ROOT=root), moments.uniform(0.7, longest)):
                break  # it was done before the kill: compared, then the next round begins from nothing
            killed += 1
        runs.replay(folder, root)
        assert runs.digest_here(folder, root) == expected
        with SnapshotReader(replay_place(root, folder).root / "snapshots").pin() as snapshot:
            assert snapshot is not None
            assert check_decisions(snapshot)


def test_sigterm_stops_a_replay_within_ten_seconds_and_the_next_one_goes_on(tmp_path: Path, count: Count) -> None:
    folder, pulls = tmp_path / "bulk", count(250, 10_000)
    write_recording(folder, bulk(count(60, 600), pulls))
    process = runs.start("replay", folder, DATA_ROOT=tmp_path)
    wait_for(lambda: bool(list(tmp_path.glob("replay/*/snapshots/CURRENT"))))
    process.send_signal(signal.SIGTERM)
    status, out, err = runs.finish(process, timeout=runs.STOP_SECONDS)
    assert (status, out) == (1, ""), err
    assert "the same command goes on from here" in err
    assert runs.replay(folder, tmp_path)["pull_requests"] == pulls


class Visitor:
    """A browser without scripts: it keeps its cookies and sends the forms of the page that it sees."""

    def __init__(self, address: str) -> None:
        self.address, self.page = address, ""
        self.opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def open(self, path: str) -> int:
        return self._ask(Request(self.address + path))  # noqa: S310

    def send(self, path: str, who: str = "") -> int:
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', self.page)[0]
        told = urlencode({"csrfmiddlewaretoken": token, "next": "/", "as": who}).encode()
        return self._ask(Request(self.address + path, told, {"Referer": self.address + "/"}))  # noqa: S310

    def _ask(self, request: Request) -> int:
        try:
            with self.opener.open(request) as answer:
                self.page = answer.read().decode()
                return answer.status
        except HTTPError as problem:
            return problem.code


def test_a_second_replay_says_the_same_and_who_opens_it_signs_in_in_one_click_as_the_busiest_maintainer(
    recording: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    root, port = shutil.copytree(undisturbed.root, tmp_path / "root"), free_port()
    bind = f"127.0.0.1:{port}"
    with runs.serving("replay", recording, "--serve", port=port, DATA_ROOT=root, BIND=bind) as told:
        words = f"Serving on http://{bind} until Ctrl-C; sign in there as ana.example.test in one click"
        assert words in told["said"]
        visitor = Visitor(f"http://{bind}")
        assert visitor.open("/") == 200
        assert visitor.send("/sign-in/demo") == 200
        assert "ana.example.test" in visitor.page
        assert visitor.open("/lane") == 200
        assert "lantern" in visitor.page
        assert visitor.open("/") == 200
        assert "on Tangled</a>" not in visitor.page, "nothing of a recording is on the forge"
        assert visitor.send("/sign-in/demo", "contributor") == 200
        assert visitor.open("/me") == 200
        assert "Your pull requests" in visitor.page
        assert visitor.open("/lane") == 200
        assert "Only maintainers open or close a lane." in visitor.page
    second = json.loads(told["out"])
    del second["seconds"]
    assert second == undisturbed.counts
    assert second["scored"] == second["contributors"] > 15
    assert runs.digest(recording, root) == undisturbed.digest, "an account is the web's alone"


@pytest.mark.django_db
def test_nobody_signs_in_in_one_click_where_others_reach_the_replay(
    recording: Path, undisturbed: Undisturbed, settings: Settings, client: Client
) -> None:
    settings.SNAPSHOT_DIR = replay_place(undisturbed.root, recording).root / "snapshots"
    settings.BIND, settings.DEMO_MAINTAINER = "0.0.0.0:8000", None
    with closing(SnapshotReader(settings.SNAPSHOT_DIR)) as reader, reader.pin() as snapshot:
        assert snapshot is not None
        assert "one-click sign-in is off, because BIND=0.0.0.0:" in offer_busiest(snapshot)
    assert b"/sign-in/demo" not in client.get("/sign-in").content
    assert client.post("/sign-in/demo").status_code == 404


def test_a_replay_never_touches_the_drives_own_store(undisturbed: Undisturbed) -> None:
    assert [path.name for path in undisturbed.root.iterdir()] == ["replay"]


def test_no_folder_and_truncated_and_corrupt_frames_are_refused_in_one_sentence_each(
    recording: Path, tmp_path: Path, refusal: Callable[[Path, Path], str]
) -> None:
    assert "There is no folder" in refusal(tmp_path / "nowhere", tmp_path)
    folder = copy_of(recording, tmp_path)
    frames = folder / "frames.ndjson.gz"
    whole = frames.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:40] + bytes(200) + whole[240:]):
        frames.write_bytes(damaged)
        assert "frames.ndjson.gz" in refusal(folder, tmp_path)


def test_a_frame_that_is_not_json_becomes_a_dead_letter_and_loses_nothing(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    with closing(fresh_store(tmp_path / "whole.duckdb")) as store:
        store.bind(SOURCE)
        events = load(store, SOURCE, simulated_network().recording.frames[:FRAMES]).events
    assert (undisturbed.counts["dead_letters"], undisturbed.counts["events"]) == (1, events)


def test_a_recording_that_changed_since_is_refused_and_the_store_stays(
    recording: Path, undisturbed: Undisturbed, tmp_path: Path, refusal: Callable[[Path, Path], str]
) -> None:
    folder = copy_of(recording, tmp_path)
    shutil.copytree(replay_place(undisturbed.root, recording).root, replay_place(tmp_path, folder).root)
    lines = gzip.decompress((folder / "frames.ndjson.gz").read_bytes()).splitlines()
    (folder / "frames.ndjson.gz").write_bytes(gzip.compress(b"\n".join(lines[:-1]) + b"\n"))
    assert "was filled from" in refusal(folder, tmp_path)
    assert runs.digest_here(folder, tmp_path) == undisturbed.digest


def answer(environ: dict[str, object], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
    """A site of one page."""
    start("200 OK", [("Content-Length", "5")])
    return [b"there"]


def test_a_worker_that_is_stopped_leaves_neither_a_port_nor_a_thread_of_its_pages(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port, stopped = free_port(), threading.Event()
    settings.BIND, settings.ROOT = f"127.0.0.1:{port}", tmp_path
    monkeypatch.setattr(tempfile, "tempdir", None)  # serving names a folder of its own, for the whole process
    monkeypatch.setitem(sys.modules, "trustsite.wsgi", SimpleNamespace(application=answer))  # the real one begins a log
    beside = threading.Thread(target=serve_beside, args=(stopped,), daemon=True)
    beside.start()
    try:
        wait_for(lambda: answers_at(port, "/"))
    finally:
        stopped.set()
        beside.join(LONG_SECONDS)
    assert not answers_at(port, "/")
    wait_for(lambda: not any(one.name.startswith("waitress") for one in threading.enumerate()), what="their end")


TELL = "import os, sys, time; print(os.getpid(), os.nice(0), *sys.argv[1:], flush=True); time.sleep(600)"


def test_reports_are_made_beside_a_site_at_low_priority_and_end_with_it(settings: Settings, tmp_path: Path) -> None:
    settings.BASE_DIR, settings.LOG_DIR = tmp_path, tmp_path / "logs"
    (tmp_path / "manage.py").write_text(TELL)
    commands = ("train", *REPORTS)
    logs = [settings.LOG_DIR / f"{command}.log" for command in commands]
    with reports_beside("--replay", "recording", commands=commands):
        wait_for(lambda: all(log.read_text().endswith("recording\n") for log in logs))
    told = [log.read_text().split() for log in logs]
    assert [words[1:] for words in told] == [["19", command, "--replay", "recording"] for command in commands]
    assert set(REPORTS) == {"redteam", "backtest"}
    for words in told:
        with pytest.raises(ProcessLookupError):
            os.kill(int(words[0]), 0)


@pytest.mark.parametrize(("status", "why"), [(1, "Its message is above"), (-9, "killed by signal 9")])
def test_who_runs_both_halves_is_told_why_they_ended(status: int, why: str) -> None:
    assert why in told("worker", status)


SOURCE = "bursts"


def worked_off(store: Store) -> dict[str, str]:
    """The hashes of a store whose log is derived and settled."""
    while derive(store):
        pass
    settle(store)
    with store.read() as rows:
        return digest(rows)


@pytest.fixture(name="whole")
def whole_fixture(prove: bool, request: pytest.FixtureRequest) -> Recording:
    """The simulated network; the real history of four projects at full counts."""
    if prove:
        return open_recording(request.getfixturevalue("shared") / "data" / "replay")
    return simulated_network().recording


def test_doubled_frames_in_bursts_over_a_cut_socket_equal_the_plain_stream(
    whole: Recording, tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 0.02)
    monkeypatch.setattr(jetstream, "LONGEST_WAIT_SECONDS", 0.005)
    plain, cut = fresh_store(tmp_path / "plain.duckdb"), fresh_store(tmp_path / "cut.duckdb")
    plain.bind(SOURCE)
    load(plain, SOURCE, whole.frames)
    doubled = make_recording([frame for frame in whole.frames for _ in range(2)], {}, [], [])
    draw, cuts = random.Random(4), count(5, 50)
    with Jetstream(doubled, hold_after=0) as server:
        listener = Listener(cut, Subscription(SOURCE, [server.url], []), lambda: None)
        listener.start()
        for number in range(1, cuts + 1):
            wait_for(lambda: server.connections > 0)
            server.release(len(doubled.frames) * number // cuts - draw.randrange(20))
            time.sleep(draw.uniform(0, 0.1))
            server.drop_connections()
        server.release(None)
        wait_for(lambda: _cursor(cut) == whole.times[-1], 60)
        wait_for(lambda: listener.quiet_for() > 0.5)
        listener.stop()
    assert worked_off(cut) == worked_off(plain)
    plain.close()
    cut.close()


def _cursor(store: Store) -> int:
    with store.read() as rows:
        return rows.value("select cursor_us from ingest_state")
