"""How the worker is, asked when Prometheus asks: what waits, what a day has cost, how far it is."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.backlog import Backlog, as_problems, read_backlog
from ingest.clock import to_microseconds
from ingest.room import free_bytes
from ingest.store import Store
from ingest.unopened import StoreProblem


@dataclass(frozen=True, slots=True)
class Asked:
    """Where the worker's figures come from. `lag_seconds` is None while nothing was handled.

    `ending` says that the worker stops: from then on the store is not read, since it is about to be closed.
    """

    store: Store
    queued: Callable[[], int]
    spent: Callable[[], float]  # dollars of today
    budget: float  # dollars of a day
    lag_seconds: Callable[[], float | None]
    followed: timedelta
    ending: Callable[[], bool]


class WorkerCollector(Collector):
    """Gauges of one worker; what cannot be asked just now is left out, so that an alert on its absence fires."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._first: int | None = None
        self._newest = 0
        with suppress(StoreProblem):
            self._events(read_backlog(asked.store, asked.followed))

    def collect(self) -> Iterator[Metric]:
        """Every figure, asked now."""
        if self._asked.ending():
            return
        try:
            yield from self._of_the_store()
            yield _gauge("queue_depth", "Tasks that wait in the queue.", self._asked.queued())
            yield _gauge(
                "worker_drive_free_bytes", "Free space on the worker's drive.", free_bytes(self._asked.store.path)
            )
        except (StoreProblem, sqlite3.Error, OSError):
            return  # out of space, or the drive is gone: `up` stays 1 and the series end

    def _of_the_store(self) -> Iterator[Metric]:
        asked = self._asked
        backlog = read_backlog(asked.store, asked.followed)
        yield self._events(backlog)
        yield _waiting(backlog)
        yield _gauge("worker_dead_letters", "Unreadable events.", backlog.letters)
        with as_problems():
            spent = asked.spent()
        yield _gauge("claude_dollars_today", "What today's readings cost, or may while they run.", spent)
        yield _gauge("claude_budget_dollars", "What the readings of a day may cost.", asked.budget)
        lag = asked.lag_seconds()
        if lag is not None:
            yield _gauge("worker_lag_seconds", "Between the newest event handled and now.", lag)

    def _events(self, backlog: Backlog) -> CounterMetricFamily:
        """Counted from the start of this process; what an erasure takes out of the log is counted all the same."""
        self._newest = max(self._newest, backlog.newest_event)
        self._first = self._newest if self._first is None else self._first
        return CounterMetricFamily(
            "sunstead_events_stored", "Events stored in the log since the worker began.", self._newest - self._first
        )


def lag_of(cursor_us: int, store: Store) -> float | None:
    """Seconds between the frame at the cursor and now; None where nothing was handled."""
    return max(0.0, (to_microseconds(store.wall()) - cursor_us) / 1e6) if cursor_us else None


def _gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sunstead_{name}", told, value=value)


def _waiting(backlog: Backlog) -> GaugeMetricFamily:
    family = GaugeMetricFamily("sunstead_hop_backlog", "What waits for a step of the work.", labels=["hop"])
    for hop, count in backlog.waiting.items():
        family.add_metric([hop], count)
    return family
