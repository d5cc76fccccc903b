"""Traces of Claude's calls: what a collector is sent, byte for byte, and that none can trouble a review."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from scoring.review.anthropic_client import (
    FROM_LEDGER,
    Access,
    Block,
    Claude,
    ModelCall,
    Request,
    listen,
    notify_listeners,
    stop_listening,
)
from scoring.review.costs import Call, Usage
from scoring.review.schema import NoAnswer
from tests.scoring.review.reviewing import PRICES, SONNET, a_reviewer, worded
from tests.standins.claude import KEY, ClaudeStandIn, error
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, ends_by_itself, wait_for
from trustsite.ops.traces import WAITING, Traces, attributes

USAGE = Usage(input_tokens=1_000, output_tokens=100, cache_write_tokens=10, cache_read_tokens=5_000)
CALL = ModelCall("chat", SONNET, 1_700_000_000.5, 2.5, 2, "answered", USAGE, 0.0, 8_000)
SECRET = "the words of a diff that nobody else is to read"


class Collector:
    """A collector on loopback that keeps what it is sent and answers when it is let."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.go_on = threading.Event()
        self.go_on.set()
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
                kept.take(body, {name.lower(): value for name, value in self.headers.items()})
                kept.go_on.wait(LONG_SECONDS)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.append(body)
        self.headers.append(headers)
        sent = ExportTraceServiceRequest.FromString(body)
        self.spans += [
            span for resource in sent.resource_spans for scope in resource.scope_spans for span in scope.spans
        ]

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    peer = Collector()
    yield peer
    peer.close()


def dollars(model: str, usage: Usage) -> float:
    return PRICES[model].dollars(usage)


def told(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


def test_a_span_says_by_the_conventions_what_a_call_was_and_cost(collector: Collector) -> None:
    traces = Traces(collector.url, {"Authorization": "Basic abc=="}, dollars, every_ms=10)
    traces.called(CALL)
    traces.stop()
    (span,) = collector.spans
    assert (span.name, span.kind) == (f"chat {SONNET}", Span.SPAN_KIND_CLIENT)
    assert span.start_time_unix_nano == 1_700_000_000_500_000_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 2_500_000_000
    assert told(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": SONNET,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.max_tokens": 8_000,
        "gen_ai.usage.input_tokens": 6_010,
        "gen_ai.usage.output_tokens": 100,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 5_000,
        "gen_ai.usage.cost": pytest.approx(PRICES[SONNET].dollars(USAGE)),
        "sunstead.attempts": 2,
        "sunstead.outcome": "answered",
        "sunstead.seconds": 2.5,
    }
    (headers,) = collector.headers
    assert (headers["authorization"], headers["content-type"]) == ("Basic abc==", "application/x-protobuf")


def test_a_review_leaves_a_span_for_each_call_and_not_a_word_of_what_was_sent(collector: Collector) -> None:
    traces = Traces(collector.url, {}, dollars, every_ms=10)
    listen(traces.called)
    try:
        with ClaudeStandIn() as stand_in:
            reviewer, case = a_reviewer(stand_in), worded()
            reviewer.review(case, Call.CLAUDE)
            reviewer.review(case, Call.CLAUDE)  # found, and so no question
            sent = b"".join(request.body for request in stand_in.requests)
    finally:
        stop_listening(traces.called)
    traces.stop()
    assert [span.name.split()[0] for span in collector.spans] == ["count_tokens", "count_tokens", "chat", "chat"]
    assert "Sorts pears" in sent.decode()
    everything = b"".join(collector.bodies)
    assert [text for text in (b"pear", b"Review", KEY.encode()) if text in everything] == []


def test_a_failed_call_is_an_error_with_its_reason(collector: Collector) -> None:
    traces = Traces(collector.url, {}, dollars, every_ms=10)
    with ClaudeStandIn() as stand_in:
        stand_in.script(error(529, "overloaded_error", "busy"), error(400, "invalid_request_error", "no"))
        claude = Claude(Access(KEY, stand_in.base_url), lambda _: None, traces.called)
        with pytest.raises(NoAnswer):
            claude.ask(Request(SONNET, "Review.", (Block(SECRET),)), 10)
    traces.stop()
    (span,) = collector.spans
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert (told(span)["error.type"], told(span)["sunstead.attempts"]) == ("rejected", 2)
    assert SECRET.encode() not in collector.bodies[0]


def test_a_collector_that_does_not_answer_delays_nothing_and_what_waits_is_bounded(collector: Collector) -> None:
    collector.go_on.clear()
    traces = Traces(collector.url, {}, dollars, every_ms=1)
    with ends_by_itself():
        for _ in range(WAITING + 100):
            traces.called(CALL)
        traces.stop()
    assert len(collector.bodies) <= 1 + len(collector.spans)


def test_a_dead_collector_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    traces = Traces(f"http://127.0.0.1:{free_port()}/v1/traces", {"x-key": SECRET}, dollars, every_ms=1)
    traces.called(CALL)
    wait_for(lambda: caplog.messages)
    with ends_by_itself():
        traces.stop()
    assert SECRET not in caplog.text


def test_a_reading_that_was_found_is_no_span_and_nobody_has_to_listen(collector: Collector) -> None:
    traces = Traces(collector.url, {}, dollars, every_ms=10)
    traces.called(ModelCall("chat", SONNET, 1.0, 0.0, 0, FROM_LEDGER, Usage()))
    traces.stop()
    assert collector.spans == []
    notify_listeners(CALL)


def test_what_is_not_known_is_no_attribute() -> None:
    counted = ModelCall("count_tokens", SONNET, 1.0, 0.1, 1, "answered", Usage())
    found = attributes(counted, 0.0)
    assert "gen_ai.request.temperature" not in found
    assert "error.type" not in found
    assert json.dumps(found)
