"""A command handed to the running worker is waited for while it shows progress, and its end is told in words."""

import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management.base import CommandError

from ingest import tasks
from ingest.clock import from_microseconds
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.store.look_inside import look_inside
from ingest.worker import jobs, runtime
from ingest.worker.runtime import huey
from tests.conftest import simulated_network
from tests.pipeline import At
from tests.waiting import LONG_SECONDS
from trustsite.standins import StandIns
from trustsite.worker import handover

Told = Mapping[str, Any]
Show = Callable[[Told], None]
PATIENT = LONG_SECONDS  # without a word, where the test is not about that


@pytest.fixture(autouse=True)
def store(tmp_path: Path) -> Iterator[Store]:
    """The store of a worker whose runtime stands; its tasks are run by `works`."""
    world = simulated_network()
    owned = Store.open(tmp_path / "trust.duckdb")
    owned.bind("test")
    now = At(from_microseconds(world.recording.last_time_us))
    with StandIns(world.recording) as peers:
        fetcher = Fetcher(peers.origin)
        runtime.start(handover.make_runtime(owned, fetcher, now))
        yield owned
        runtime.stop()
        fetcher.close()
    owned.close()


@contextmanager
def works() -> Generator[None]:
    """A consumer thread: runs what comes off the queue until the block ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(0.02):
            task = huey.dequeue()
            if task is not None:
                huey.execute(task)

    huey.flush()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_each_look_up_beyond_the_forge_is_switched_in_the_settings(settings: Any, store: Store) -> None:
    def switches() -> tuple[bool, ...]:
        made = handover.make_runtime(store, Fetcher(), At(from_microseconds(0)))
        return (
            made.ask_declared,
            made.ask_registries,
            made.ask_advisories,
            made.check_signatures,
            bool(made.claim_signers),
        )

    assert switches() == (True, False, False, True, True), "the defaults"
    settings.ASK_DECLARED, settings.CLAIM_SIGNERS = False, []
    settings.ASK_REGISTRIES = settings.ASK_ADVISORIES = True
    settings.LANE_CONDITIONS = [one for one in settings.LANE_CONDITIONS if one != "signing"]
    assert switches() == (False, True, True, False, False)


def test_a_repository_that_is_looked_up_shows_every_step_of_it() -> None:
    world, steps = simulated_network(), []
    wanted = {"did": world.cast["ana"], "repositories": ["ana.example.test/lantern"]}
    done = jobs.JOBS["add_maintainer"](runtime.current(), wanted, lambda told: steps.append(told["step"]))
    assert done["keys"] == [world.watched["lantern"]]
    assert [uri.split("/")[2] for uri in done["records"]] == [world.cast["ana"]]
    asked = f"The records of {world.cast['ana']} are asked for."
    assert steps[:3] == ["ana.example.test/lantern is not known here yet: its owner is asked for.", asked, asked]
    assert steps[3].endswith("records read.")
    assert steps[-1] == "What was read is taken in."


def test_a_job_that_shows_progress_is_waited_for_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = [0.0], threading.Semaphore(0)

    def slow(runtime: object, wanted: Told, show: Show) -> Told:
        for step in range(5):
            show({"step": step})
            assert seen.acquire(timeout=PATIENT)
        return {"steps": 5}

    def see(told: Told) -> None:
        clock[0] += 50.0
        seen.release()

    monkeypatch.setattr(tasks, "JOBS", {"slow": slow})
    monkeypatch.setattr(handover, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep))
    with works():
        assert handover.ask_worker("slow", {}, see, 60.0) == {"steps": 5}
    assert clock == [250.0]


def test_what_a_command_had_done_is_in_the_main_file_before_it_is_told_so(store: Store, tmp_path: Path) -> None:
    (tmp_path / "without the log").mkdir()
    with works():
        handover.ask_worker("begin_backfill", {"dids": ["did:plc:" + "2" * 24], "collections": []})
        held = shutil.copy(store.path, tmp_path / "without the log" / "trust.duckdb")
    assert look_inside(Path(held)).tables["backfills"].rows == 1


def test_a_job_that_ends_by_an_error_in_the_program_says_so_and_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(runtime: object, wanted: Told, show: Show) -> Told:
        raise ZeroDivisionError("somebody's record")

    monkeypatch.setattr(tasks, "JOBS", {"broken": broken})
    told = r"The worker failed at broken by an error in the program \(ZeroDivisionError\): see the worker's log\."
    with works(), pytest.raises(CommandError, match=f"^{told}$"):
        handover.ask_worker("broken", {}, silent_seconds=PATIENT)


def test_a_job_that_a_stopping_worker_cuts_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(runtime: object, wanted: Told, show: Show) -> Told:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "JOBS", {"cut": cut})
    with works(), pytest.raises(CommandError, match="The worker stopped in the middle of cut: start it, then run this"):
        handover.ask_worker("cut", {}, silent_seconds=PATIENT)
