"""The thread that publishes outlives a problem, waits for what is about to change, and takes a fifth of its time."""

import threading
import time
from pathlib import Path

import pytest

from ingest.store import snapshots
from ingest.store.database import Store
from ingest.store.snapshots import Publisher, current_number
from tests.waiting import LONG_SECONDS, wait_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


def test_the_publisher_survives_a_problem_and_publishes_when_it_is_gone(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "EVERY_SECONDS", 0.05)
    folder.write_text("")
    problems: list[str] = []
    publisher = Publisher(store, folder, problems.append)
    publisher.start()
    publisher.mark()
    wait_for(lambda: len(problems) > 1)
    folder.unlink()
    wait_for(lambda: current_number(folder) == 1)
    publisher.mark()
    publisher.stop()
    assert current_number(folder) in (2, 3)
    assert not publisher.is_alive()


def test_a_publisher_that_never_began_can_be_stopped(store: Store, folder: Path) -> None:
    publisher = Publisher(store, folder, pytest.fail)
    publisher.mark()
    publisher.stop()
    assert current_number(folder) == 1


def test_the_publisher_waits_for_what_is_about_to_change_and_not_for_ever(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "PATIENCE_SECONDS", 60.0)
    asked, busy = threading.Event(), threading.Event()
    busy.set()

    def is_busy() -> bool:
        asked.set()
        return busy.is_set()

    publisher = Publisher(store, folder, pytest.fail, is_busy)
    publisher.start()
    publisher.mark()
    assert asked.wait(LONG_SECONDS)
    assert current_number(folder) == 0
    busy.clear()
    wait_for(lambda: current_number(folder) == 1)
    busy.set()
    monkeypatch.setattr(snapshots, "PATIENCE_SECONDS", 0.0)
    publisher.mark()
    wait_for(lambda: current_number(folder) == 2)
    publisher.stop()


class Held:
    """A lock that somebody holds for 100 s of a clock that stands still otherwise."""

    def __init__(self) -> None:
        self.clock = 0.0

    def __enter__(self) -> None:
        self.clock += 100.0

    def __exit__(self, *told: object) -> None:
        pass


@pytest.mark.parametrize("lock", ["whole", "_writer"])
def test_a_publisher_that_waited_for_a_pass_or_a_writer_need_not_rest_for_that(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    held = Held()
    monkeypatch.setattr(store, lock, held)
    monkeypatch.setattr(time, "monotonic", lambda: held.clock)
    assert Publisher(store, folder, pytest.fail).publish_now() == 0.0
    assert (held.clock, current_number(folder)) == (100.0, 1)


def test_publishing_takes_a_fifth_of_the_time_at_most(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "EVERY_SECONDS", 0.0)
    publisher, took = Publisher(store, folder, pytest.fail), list[float]()
    publish_now = publisher.publish_now

    def timed() -> float:
        took.append(publish_now())
        publisher.mark()
        return took[-1]

    monkeypatch.setattr(publisher, "publish_now", timed)
    publisher.mark()
    began = time.monotonic()
    publisher.start()
    wait_for(lambda: len(took) > 4)
    spent, elapsed = sum(took[:4]), time.monotonic() - began  # the fifth began after four rests
    publisher.stop()
    assert spent <= elapsed * snapshots.SHARE_OF_TIME
