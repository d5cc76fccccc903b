"""The worker's figures for Prometheus at `/ops/metrics`, and traces of its requests to models.

Labels are names of ours: hops, models, reasons. The worker's state is its backlog, today's cost and its lag. A small
server of its own answers, which neither a port in use nor a slow client can trouble.

A trace of each model request goes to an OTLP collector that the operator names: figures, never text. Spans wait in a
queue of bounded length for the exporter's own thread. A collector that is dead or slow loses spans; it delays no review
and fails none. Importing the exporter costs .3 s, so that happens only when one is made.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any, cast

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
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

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

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
    def __init__(self, prices: Mapping[str, Price]) -> None:
        """Register the metrics. `prices` has a price for every model in use."""
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
        model, prefix = ["model"], "Of questions for a review: "
        self._calls = Counter(
            "sunstead_claude_calls", f"{prefix}how they ended.", [*model, "operation", "outcome"], registry=registry
        )
        self._attempts = Counter("sunstead_claude_attempts", f"{prefix}requests sent.", model, registry=registry)
        self._seconds = Histogram(
            "sunstead_claude_call_duration_seconds",
            f"{prefix}seconds with every attempt.",
            [*model, "operation"],
            registry=registry,
            buckets=CALL_SECONDS,
        )
        self._tokens = Counter("sunstead_claude_tokens", f"{prefix}tokens billed.", [*model, "kind"], registry=registry)
        self._dollars = Counter("sunstead_claude_dollars", f"{prefix}dollars.", model, registry=registry)
        self._found = Counter(
            "sunstead_claude_readings_found", "Readings that were there already, for nothing.", model, registry=registry
        )

    def ran(self, hop: str, seconds: float, failed: bool) -> None:
        self._hops.labels(hop).observe(seconds)
        self._failures.labels(hop).inc(failed)

    def published(self, seconds: float) -> None:
        self._publish.observe(seconds)

    def called(self, call: ModelCall) -> None:
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
        return self._prices[model].dollars(usage)


@dataclass(frozen=True, slots=True)
class Asked:
    """The sources of the worker's figures. `lag_seconds` is None while no event was handled.

    `ending` tells that the worker stops: from then on the store is not read, since it is about to be closed.
    """

    store: Store
    queued: Callable[[], int]
    spent: Callable[[], float]  # dollars of today
    budget: float  # dollars of a day
    lag_seconds: Callable[[], float | None]
    followed: timedelta
    asks_declared: bool
    ending: Callable[[], bool]


class WorkerCollector(Collector):
    """Gauges of one worker; an unavailable figure is left out, so that an alert on its absence fires."""

    def __init__(self, figures: Asked) -> None:
        self._figures = figures
        self._first: int | None = None
        self._newest = 0
        with suppress(StoreProblem):
            self._count_events(read_backlog(figures.store, figures.followed, figures.asks_declared))

    def collect(self) -> Iterator[Metric]:
        if self._figures.ending():
            return
        try:
            yield from self._store_metrics()
            yield _gauge("queue_depth", "Tasks that wait in the queue.", self._figures.queued())
            yield _gauge(
                "worker_drive_free_bytes", "Free space on the worker's drive.", free_bytes(self._figures.store.path)
            )
        except (StoreProblem, sqlite3.Error, OSError):
            return  # out of space, or the drive is gone: `up` stays 1 and the series end

    def _store_metrics(self) -> Iterator[Metric]:
        figures = self._figures
        backlog = read_backlog(figures.store, figures.followed, figures.asks_declared)
        yield self._count_events(backlog)
        yield _backlog_gauge(backlog)
        yield _gauge("worker_dead_letters", "Unreadable events.", backlog.letters)
        with as_problems():
            spent = figures.spent()
        yield _gauge("claude_dollars_today", "What today's readings cost, or may while they run.", spent)
        yield _gauge("claude_budget_dollars", "What the readings of a day may cost.", figures.budget)
        lag = figures.lag_seconds()
        if lag is not None:
            yield _gauge("worker_lag_seconds", "Between the newest event handled and now.", lag)

    def _count_events(self, backlog: Backlog) -> CounterMetricFamily:
        """Return the counter from the start of this process; events that an erasure removes still count."""
        self._newest = max(self._newest, backlog.newest_event)
        self._first = self._newest if self._first is None else self._first
        return CounterMetricFamily(
            "sunstead_events_stored", "Events stored in the log since the worker began.", self._newest - self._first
        )


def lag_of(cursor_us: int, store: Store) -> float | None:
    """Return the seconds between the frame at the cursor and now, or None if no event was handled."""
    return max(0.0, (to_microseconds(store.wall()) - cursor_us) / 1e6) if cursor_us else None


def _gauge(name: str, description: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sunstead_{name}", description, value=value)


def _backlog_gauge(backlog: Backlog) -> GaugeMetricFamily:
    family = GaugeMetricFamily("sunstead_hop_backlog", "What waits for a step of the work.", labels=["hop"])
    for hop, count in backlog.waiting.items():
        family.add_metric([hop], count)
    return family


log = logging.getLogger(__name__)

PATH = "/ops/metrics"
CLIENT_SECONDS = 5.0  # a client that sends or takes nothing for this long is dropped
WHOLE_SECONDS = 10.0  # for a whole request and its answer: one byte every 4 s would never count as silent
CLIENTS = 4  # at once; Prometheus is one


def serve(bind: str, registry: CollectorRegistry) -> "MetricsServer | None":
    """Start the server of `registry` at `bind` (host:port); return None, with a log line, if it cannot listen."""
    host, _, port = bind.rpartition(":")
    try:
        server = MetricsServer((host.strip("[]"), int(port)), registry)
    except OSError as problem:
        log.error(
            "OPS_BIND=%s cannot be listened on (%s): the worker runs without %s; set OPS_BIND to a free address",
            bind,
            problem.strerror,
            PATH,
        )
        return None
    threading.Thread(target=server.serve_forever, args=(0.2,), name="metrics", daemon=True).start()
    return server


class MetricsServer(ThreadingHTTPServer):
    """Answer on threads that no exit waits for, to a few clients at a time; a further one gets no answer."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self.registry = registry
        self._free = threading.BoundedSemaphore(CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the client, unless all places are taken."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the place for the next client."""
        end = threading.Timer(WHOLE_SECONDS, _shut_down, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log one line at debug level: clients go away, and an error of ours needs no traceback a scrape."""
        log.debug("a scrape was not answered", exc_info=True)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


def _shut_down(request: socket) -> None:
    """End a connection that another thread may still read; ignore one that is already closed."""
    with suppress(OSError):
        request.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS
    server_version, sys_version = "Sunstead", ""

    def do_GET(self) -> None:
        """Send the figures at PATH, 404 elsewhere."""
        is_figures = self.path.partition("?")[0] == PATH
        registry = cast(MetricsServer, self.server).registry
        body = generate_latest(registry) if is_figures else b"The figures are at /ops/metrics.\n"
        self.send_response(200 if is_figures else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a line for each scrape helps nobody."""


SEND_SECONDS = 5.0  # of one try
STOP_SECONDS = 1.0  # for sending waiting spans when the worker stops
EVERY_MS = 2_000
WAITING = 2_048  # spans; beyond that the oldest are lost
Attribute = str | int | float


class Traces:
    """Send a span for each model request. `dollars` returns the cost of a model's usage."""

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        dollars: Callable[[str, Usage], float],
        every_ms: int = EVERY_MS,
    ) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        self._dollars = dollars
        resource = Resource({"service.name": "sunstead", "service.namespace": "sunstead.worker"})
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_make_exporter(endpoint, headers), WAITING, every_ms, 256))
        self._tracer = self._provider.get_tracer("sunstead.claude")

    def called(self, call: ModelCall) -> None:
        """Leave a span for the exporter; a reading from the ledger is not a request."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        if call.outcome == FROM_LEDGER:
            return
        began = round(call.began * 1e9)
        span = self._tracer.start_span(f"{call.operation} {call.model}", kind=SpanKind.CLIENT, start_time=began)
        span.set_attributes(attributes(call, self._dollars(call.model, call.usage)))
        if call.outcome != "answered":
            span.set_status(Status(StatusCode.ERROR))
        span.end(began + round(call.seconds * 1e9))

    def stop(self) -> None:
        """Send waiting spans for a moment; spans that a slow collector does not take by then are lost."""
        thread = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(STOP_SECONDS)


def attributes(call: ModelCall, dollars: float) -> dict[str, Attribute]:
    """Return the span's attributes, by the semantic conventions for generative AI, with names of our own for the rest.

    Their input tokens include those of the cache, which the API counts separately.
    """
    usage = call.usage
    values: dict[str, Attribute | None] = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": call.model,
        "gen_ai.request.temperature": call.temperature,
        "gen_ai.request.max_tokens": call.output_limit,
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cost": dollars,  # as Langfuse and others read it
        "error.type": None if call.outcome == "answered" else call.outcome,
        "sunstead.attempts": call.attempts,
        "sunstead.outcome": call.outcome,
        "sunstead.seconds": call.seconds,
    }
    return {name: value for name, value in values.items() if value is not None}


def _make_exporter(endpoint: str, headers: Mapping[str, str]) -> "SpanExporter":
    """Return the exporter: only to this address, with these headers, whatever the environment says about proxies."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from requests import Session

    session = Session()
    session.trust_env, session.max_redirects = False, 0
    return OTLPSpanExporter(
        endpoint=endpoint, headers=dict(headers), timeout=SEND_SECONDS, compression=Compression.Gzip, session=session
    )
