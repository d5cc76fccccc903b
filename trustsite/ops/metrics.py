"""The worker's figures for Prometheus at `/ops/metrics`, and traces of its questions to models.

Labels are names of ours: hops, models, reasons. The worker's state is what waits, what a day has cost and how far it
is. A small server of its own answers, which neither a port in use nor a slow client can trouble.

A trace of each question goes to an OTLP collector that the operator names: figures, never a word. Spans wait in a queue
of bounded length for a thread of the exporter's own. A collector that is dead or slow loses spans; it delays no review
and fails none. Importing the exporter costs .3 s, so that happens where one is made.
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


log = logging.getLogger(__name__)

PATH = "/ops/metrics"
CLIENT_SECONDS = 5.0  # after which a client that sends or takes nothing is left
WHOLE_SECONDS = 10.0  # for all of a request and its answer: one byte every 4 s would never be silent
CLIENTS = 4  # at once; Prometheus is one


def serve(bind: str, registry: CollectorRegistry) -> "MetricsServer | None":
    """The server of `registry` at `bind` (host:port); None, told in the log, where it cannot listen."""
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
    """Answers on threads that no exit waits for, to so many clients at a time; one more is not answered."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], registry: CollectorRegistry) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self.registry = registry
        self._free = threading.BoundedSemaphore(CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the client, unless there are as many as may be."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        end = threading.Timer(WHOLE_SECONDS, _hang_up, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; an error of ours is one line, not a traceback for each scrape."""
        log.debug("a scrape was not answered", exc_info=True)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


def _hang_up(request: socket) -> None:
    """End a connection under whoever still reads from it; one that is closed already is left."""
    with suppress(OSError):
        request.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS
    server_version, sys_version = "Sunstead", ""

    def do_GET(self) -> None:
        """The figures at PATH, 404 elsewhere."""
        found = self.path.partition("?")[0] == PATH
        registry = cast(MetricsServer, self.server).registry
        body = generate_latest(registry) if found else b"The figures are at /ops/metrics.\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each scrape says nothing that anybody wants to know."""


SEND_SECONDS = 5.0  # of one try
STOP_SECONDS = 1.0  # in which what waits is sent when the worker stops
EVERY_MS = 2_000
WAITING = 2_048  # spans; beyond that the oldest are lost
Attribute = str | int | float


class Traces:
    """Sends a span for each question. `dollars` is what a usage of a model costs."""

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
        self._provider.add_span_processor(BatchSpanProcessor(_exporter(endpoint, headers), WAITING, every_ms, 256))
        self._tracer = self._provider.get_tracer("sunstead.claude")

    def called(self, call: ModelCall) -> None:
        """Leave a span for the exporter; a reading that was found is no question."""
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
        """Send what waits, for a moment; what a slow collector does not take by then is lost."""
        thread = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(STOP_SECONDS)


def attributes(call: ModelCall, dollars: float) -> dict[str, Attribute]:
    """The span's attributes, by the semantic conventions for generative AI; what they have no name for is ours.

    Their input tokens count those of the cache too, which the API counts apart.
    """
    usage = call.usage
    found: dict[str, Attribute | None] = {
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
    return {name: value for name, value in found.items() if value is not None}


def _exporter(endpoint: str, headers: Mapping[str, str]) -> "SpanExporter":
    """The exporter: to this address alone, with these headers, whatever the environment says of proxies."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from requests import Session

    session = Session()
    session.trust_env, session.max_redirects = False, 0
    return OTLPSpanExporter(
        endpoint=endpoint, headers=dict(headers), timeout=SEND_SECONDS, compression=Compression.Gzip, session=session
    )
