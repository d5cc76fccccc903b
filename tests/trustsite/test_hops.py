"""Hops are woken exactly as often as there is something new, and a hop that is stuck stops no other."""

import sqlite3
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from huey import MemoryHuey
from huey.signals import SIGNAL_COMPLETE, SIGNAL_ERROR, SIGNAL_EXECUTING

from scoring.tasks import wait_while
from trustsite.hops import FIRST_HOPS, Hops


class Line:
    """Hops over a queue that only counts; `send` plays the consumer's signals."""

    def __init__(self, ran: Callable[[str, float, bool], None] = lambda *run: None) -> None:
        self.huey = MemoryHuey("hops")
        self.queued: list[str] = []
        self.hops = Hops(self.huey, {name: self.queue(name) for name in FIRST_HOPS}, ran)

    def queue(self, name: str) -> Callable[[], object]:
        return lambda: self.queued.append(name)

    def send(self, signal: str, name: str, *arguments: Any) -> None:
        self.huey._emit(signal, SimpleNamespace(name=name, id="1"), *arguments)


@pytest.fixture
def line() -> Line:
    return Line()


def test_each_run_that_ends_is_told_once_with_its_seconds_and_whether_it_failed() -> None:
    told: list[tuple[str, float, bool]] = []
    line = Line(lambda *run: told.append(run))
    line.send(SIGNAL_COMPLETE, "ask_network")
    assert told == []
    for signal in (SIGNAL_COMPLETE, SIGNAL_ERROR):
        line.send(SIGNAL_EXECUTING, "ask_network")
        line.send(SIGNAL_EXECUTING, "ask_network")  # another one, which will find it locked
        line.send(signal, "ask_network", *([ValueError("no")] if signal == SIGNAL_ERROR else []))
    assert [(name, failed) for name, _, failed in told] == [("ask_network", False), ("ask_network", True)]
    assert all(seconds >= 0 for _, seconds, _ in told)


def test_a_hop_that_waits_is_not_queued_twice(line: Line) -> None:
    line.hops.wake("derive_events")
    line.hops.wake("derive_events")
    assert line.queued == ["derive_events"]


def test_what_comes_while_a_hop_runs_makes_it_run_once_more_when_it_ends(line: Line) -> None:
    line.hops.wake("ask_network")
    line.send(SIGNAL_EXECUTING, "ask_network")
    for _ in range(5):
        line.hops.wake("ask_network")
    assert line.queued == ["ask_network"]
    assert not line.hops.idle
    line.send(SIGNAL_COMPLETE, "ask_network")
    assert line.queued == ["ask_network", "ask_network"]


def test_a_stuck_hop_takes_one_place_in_the_queue_and_the_others_go_on(line: Line) -> None:
    line.hops.follow("sweep")
    line.send(SIGNAL_EXECUTING, "ask_network")
    for _ in range(20):
        line.hops.follow("load")
        line.send(SIGNAL_EXECUTING, "derive_events")
        line.send(SIGNAL_COMPLETE, "derive_events")
    assert line.queued.count("ask_network") == 1
    assert line.queued.count("derive_events") == 20


@pytest.mark.parametrize("name", ["derive_events", "ask_network", "review_pulls"])
def test_what_gives_the_judging_hop_more_to_judge_is_at_work_until_it_ends(line: Line, name: str) -> None:
    line.hops.wake(name)
    assert line.hops.preparing
    line.send(SIGNAL_EXECUTING, name)
    assert line.hops.preparing
    line.send(SIGNAL_COMPLETE, name)
    assert not line.hops.preparing


def test_judging_itself_and_a_first_clone_of_minutes_prepare_nothing(line: Line) -> None:
    for name in ("score_everyone", "follow_mirrors"):
        line.hops.wake(name)
        line.send(SIGNAL_EXECUTING, name)
    assert (line.hops.preparing, line.hops.judging) == (False, True)


def test_judging_waits_for_what_is_prepared_and_not_for_ever() -> None:
    slept: list[float] = []
    wait_while(lambda: len(slept) < 3, 1.0, slept.append)
    assert len(slept) == 3
    wait_while(lambda: True, 1.0, slept.append)
    assert sum(slept[3:]) == pytest.approx(1.0)


def test_a_failure_is_told_until_the_hop_succeeds(line: Line) -> None:
    line.send(SIGNAL_EXECUTING, "score_everyone")
    line.send(SIGNAL_ERROR, "score_everyone", ValueError("no room"))
    assert line.hops.failure == "score_everyone failed: no room"
    assert line.hops.idle
    line.send(SIGNAL_EXECUTING, "score_everyone")
    line.send(SIGNAL_COMPLETE, "score_everyone")
    assert line.hops.failure is None


def test_a_job_that_failed_is_no_step_of_the_work_that_is_tried_again(line: Line) -> None:
    line.send(SIGNAL_EXECUTING, "run_job")
    line.send(SIGNAL_ERROR, "run_job", ValueError("no such thing"))
    assert line.hops.failures == {}
    assert line.hops.idle


def test_a_queue_that_cannot_be_written_leaves_the_hop_to_the_next_sweep() -> None:
    calls: list[int] = []

    def full() -> None:
        calls.append(1)
        raise sqlite3.OperationalError("database or disk is full")

    hops = Hops(MemoryHuey("full"), dict.fromkeys(FIRST_HOPS, full))
    hops.wake("derive_events")
    hops.wake("derive_events")
    assert len(calls) == 2
    assert hops.idle
