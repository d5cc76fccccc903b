"""Wake hops: each runs once at a time, and a wake-up during its run makes it run once more."""

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
    "publish_assessments",
)
JOB = "run_job"  # a job from a command: not a step of the work; the command learns how it ended
NEXT_HOPS: Mapping[str, tuple[str, ...]] = {
    "load": ("derive_events", "ask_network"),
    "gap": (),  # the backfill finds gaps itself
    "backfill": ("derive_events", "ask_network"),
    "derive_events": ("derive_events", "ask_network", "score_everyone", "erase_deleted"),
    "ask_network": ("ask_network", "follow_mirrors", "score_everyone", "review_pulls"),
    "follow_mirrors": ("score_everyone",),
    "job": FIRST_HOPS,
    "archive_events": (),
    "score_everyone": ("review_pulls", "tell_webhook", "publish_assessments"),  # the first depends on trust
    "review_pulls": ("review_pulls", "score_everyone"),
    "erase_deleted": ("score_everyone", "publish_assessments"),
    "deliver_outbox": ("score_everyone", "ask_network"),  # changed settings need other look-ups
    "number_pulls": (),
    "tell_webhook": (),
    "publish_assessments": (),
    "sweep": FIRST_HOPS,
}

# Hops that turn an event into a row. Mirrors are not among them: a first clone takes minutes.
PREPARING = frozenset({"derive_events", "ask_network", "review_pulls"})  # each leads to a scoring pass
JUDGING = PREPARING | {"score_everyone"}


class Hops:
    """The hops of one worker. None ever waits for itself, so each needs only one consumer thread."""

    def __init__(
        self,
        huey: Huey,
        tasks: Mapping[str, Callable[[], object]],
        ran: Callable[[str, float, bool], None] = lambda name, seconds, failed: None,
    ) -> None:
        """Connect the hops to Huey. `ran` is called after every run with its seconds and True if it failed."""
        self._tasks = tasks
        self._ran = ran
        self._began_at: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._running: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        huey.signal(SIGNAL_EXECUTING)(self._on_begin)
        huey.signal(SIGNAL_COMPLETE)(self._on_complete)
        huey.signal(SIGNAL_ERROR)(self._on_error)

    def follow(self, hop: str) -> None:
        for name in NEXT_HOPS[hop]:
            self.wake(name)

    def wake(self, name: str) -> None:
        """Queue a hop, unless it waits already; if it runs, it is queued again when it ends."""
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
        return self._is_any_active(JUDGING)

    @property
    def preparing(self) -> bool:
        """Return True if a hop runs or waits that leads to more judging."""
        return self._is_any_active(PREPARING)

    def _is_any_active(self, names: frozenset[str]) -> bool:
        with self._lock:
            return bool(names & (self._waiting | self._running))

    @property
    def failure(self) -> str | None:
        """Return a hop whose newest run failed, with its error, or None if none did."""
        with self._lock:
            return next((f"{name} failed: {error}" for name, error in self._failures.items()), None)

    @property
    def failures(self) -> dict[str, str]:
        with self._lock:
            return dict(self._failures)

    def _on_begin(self, signal: str, task: Any) -> None:
        with self._lock:
            self._waiting.discard(task.name)
            self._running.add(task.name)
            self._began_at.setdefault(task.name, time.monotonic())  # another run may begin and find it locked

    def _on_complete(self, signal: str, task: Any) -> None:
        with self._lock:
            self._failures.pop(task.name, None)
        self._on_end(task.name, failed=False)

    def _on_error(self, signal: str, task: Any, error: BaseException | None = None) -> None:
        if task.name == JOB:
            log.error("a job that a command asked for failed: %s", error)
        else:
            log.error("%s failed and is tried again within a minute: %s", task.name, error)
            with self._lock:
                self._failures[task.name] = str(error)[:300]
        self._on_end(task.name, failed=True)

    def _on_end(self, name: str, failed: bool) -> None:
        with self._lock:
            began = self._began_at.pop(name, None)
            self._running.discard(name)
            again = name in self._again
            self._again.discard(name)
        if began is not None:
            self._ran(name, time.monotonic() - began, failed)
        if again:
            self.wake(name)
