"""Waking hops: each runs once at a time, and what comes while it runs makes it run once more."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from huey import Huey
from huey.signals import SIGNAL_COMPLETE, SIGNAL_ERROR, SIGNAL_EXECUTING

log = logging.getLogger(__name__)

FIRST_HOPS = (
    "derive_events",
    "ask_network",
    "follow_mirrors",
    "score_everyone",
    "review_pulls",
    "erase_deleted",
    "deliver_outbox",
    "tell_webhook",
)
JOB = "run_job"  # what a command handed over: it is no step of the work, and whoever asked is told how it ended
NEXT_HOPS: Mapping[str, tuple[str, ...]] = {
    "load": ("derive_events", "ask_network"),
    "gap": (),  # the backfill looks for gaps by itself
    "backfill": ("derive_events", "ask_network"),
    "derive_events": ("derive_events", "ask_network", "score_everyone", "erase_deleted"),
    "ask_network": ("ask_network", "follow_mirrors", "score_everyone", "review_pulls"),
    "follow_mirrors": ("score_everyone",),
    "job": FIRST_HOPS,
    "archive_events": (),
    "score_everyone": ("review_pulls", "tell_webhook"),  # the first asks how far the author is trusted
    "review_pulls": ("review_pulls", "score_everyone"),
    "erase_deleted": ("score_everyone",),
    "deliver_outbox": ("score_everyone", "ask_network"),  # other settings ask for other look-ups
    "number_pulls": (),
    "tell_webhook": (),
    "sweep": FIRST_HOPS,
}

# What turns an event into a row. Mirrors are not among them: a first clone takes minutes.
PREPARING = frozenset({"derive_events", "ask_network", "review_pulls"})  # whose end leads to a pass of its own
JUDGING = PREPARING | {"score_everyone"}


class Hops:
    """The hops of one worker. None ever waits for itself, so each needs one consumer thread and no more."""

    def __init__(
        self,
        huey: Huey,
        tasks: Mapping[str, Callable[[], object]],
        ran: Callable[[str, float, bool], None] = lambda name, seconds, failed: None,
    ) -> None:
        """`ran` is told of every run that ended, with its seconds and whether it failed."""
        self._tasks = tasks
        self._ran = ran
        self._began_at: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._running: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        huey.signal(SIGNAL_EXECUTING)(self._began)
        huey.signal(SIGNAL_COMPLETE)(self._completed)
        huey.signal(SIGNAL_ERROR)(self._failed)

    def follow(self, hop: str) -> None:
        for name in NEXT_HOPS[hop]:
            self.wake(name)

    def wake(self, name: str) -> None:
        """Queue a hop; where it waits already that is enough, and where it runs it is queued when it ends."""
        with self._lock:
            if name in self._running:
                self._again.add(name)
            if name in self._running or name in self._waiting:
                return
            self._waiting.add(name)
        try:
            self._tasks[name]()
        except sqlite3.Error as error:
            with self._lock:
                self._waiting.discard(name)
            log.error("%s could not be queued and is tried again within a minute: %s", name, error)

    @property
    def idle(self) -> bool:
        with self._lock:
            return not self._waiting and not self._running

    @property
    def judging(self) -> bool:
        return self._any_of(JUDGING)

    @property
    def preparing(self) -> bool:
        """Return whether a hop runs or waits that gives the judging one more to judge."""
        return self._any_of(PREPARING)

    def _any_of(self, names: frozenset[str]) -> bool:
        with self._lock:
            return bool(names & (self._waiting | self._running))

    @property
    def failure(self) -> str | None:
        """A hop whose newest run failed, with its error; None where none did."""
        with self._lock:
            return next((f"{name} failed: {error}" for name, error in self._failures.items()), None)

    @property
    def failures(self) -> dict[str, str]:
        with self._lock:
            return dict(self._failures)

    def _began(self, signal: str, task: Any) -> None:
        with self._lock:
            self._waiting.discard(task.name)
            self._running.add(task.name)
            self._began_at.setdefault(task.name, time.monotonic())  # one more may begin, only to find it locked

    def _completed(self, signal: str, task: Any) -> None:
        with self._lock:
            self._failures.pop(task.name, None)
        self._ended(task.name, failed=False)

    def _failed(self, signal: str, task: Any, error: BaseException | None = None) -> None:
        if task.name == JOB:
            log.error("a job that a command asked for failed: %s", error)
        else:
            log.error("%s failed and is tried again within a minute: %s", task.name, error)
            with self._lock:
                self._failures[task.name] = str(error)[:300]
        self._ended(task.name, failed=True)

    def _ended(self, name: str, failed: bool) -> None:
        with self._lock:
            began = self._began_at.pop(name, None)
            self._running.discard(name)
            again = name in self._again
            self._again.discard(name)
        if began is not None:
            self._ran(name, time.monotonic() - began, failed)
        if again:
            self.wake(name)
