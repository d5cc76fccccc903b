"""Counts and times the worker's work for Prometheus, and answers how the worker is when asked.

Labels are names of ours: hops, models, reasons. The worker's state is what waits, what a day has cost and how far it
is.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ingest.clock import to_microseconds
from ingest.errors import StoreProblem
from ingest.files import free_bytes
from ingest.store.database import Store
from ingest.worker.status import Backlog, as_problems, read_backlog
from scoring.review.anthropic_client import FROM_LEDGER, ModelCall
from scoring.review.costs import Price, Usage

HOP_SECONDS = (0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)
PUBLISH_SECONDS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CALL_SECONDS = (0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 360.0)
TOKEN_KINDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_write": "cache_write_tokens",
    "cache_read": "cache_read_tokens",
}


class Measures:
    """The counters and histograms of one worker, in a registry of their own."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        """`prices` has a price for every model that is asked."""
        self.registry = registry = CollectorRegistry(auto_describe=False)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self._prices = prices
        self._hops = Histogram(
            "sunstead_hop_duration_seconds",
            "One run of a step of the work.",
            ["hop"],
            registry=registry,
            buckets=HOP_SECONDS,
        )
        self._failures = Counter("sunstead_hop_failures", "Runs that failed.", ["hop"], registry=registry)
        self._publish = Histogram(
            "sunstead_publish_duration_seconds",
            "One snapshot, without waiting for a pass or a writer.",
            registry=registry,
            buckets=PUBLISH_SECONDS,
        )
        self._add_claude(registry)

    def _add_claude(self, registry: CollectorRegistry) -> None:
        model, told = ["model"], "Of questions for a review: "
        self._calls = Counter(
            "sunstead_claude_calls", f"{told}how they ended.", [*model, "operation", "outcome"], registry=registry
        )
        self._attempts = Counter("sunstead_claude_attempts", f"{told}requests sent.", model, registry=registry)
        self._seconds = Histogram(
            "sunstead_claude_call_duration_seconds",
            f"{told}seconds with every attempt.",
            [*model, "operation"],
            registry=registry,
            buckets=CALL_SECONDS,
        )
        self._tokens = Counter("sunstead_claude_tokens", f"{told}tokens billed.", [*model, "kind"], registry=registry)
        self._dollars = Counter("sunstead_claude_dollars", f"{told}dollars.", model, registry=registry)
        self._found = Counter(
            "sunstead_claude_readings_found", "Readings that were there already, for nothing.", model, registry=registry
        )

    def ran(self, hop: str, seconds: float, failed: bool) -> None:
        """A hop ran."""
        self._hops.labels(hop).observe(seconds)
        self._failures.labels(hop).inc(failed)

    def published(self, seconds: float) -> None:
        """A snapshot was published."""
        self._publish.observe(seconds)

    def called(self, call: ModelCall) -> None:
        """A model was asked, or its reading found."""
        if call.outcome == FROM_LEDGER:
            self._found.labels(call.model).inc()
            return
        self._calls.labels(call.model, call.operation, call.outcome).inc()
        self._attempts.labels(call.model).inc(call.attempts)
        self._seconds.labels(call.model, call.operation).observe(call.seconds)
        for kind, field in TOKEN_KINDS.items():
            self._tokens.labels(call.model, kind).inc(getattr(call.usage, field))
        self._dollars.labels(call.model).inc(self.dollars(call.model, call.usage))

    def dollars(self, model: str, usage: Usage) -> float:
        """Return what this usage cost."""
        return self._prices[model].dollars(usage)


@dataclass(frozen=True, slots=True)
class Asked:
    """The sources of the worker's figures. `lag_seconds` is None while nothing was handled.

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
