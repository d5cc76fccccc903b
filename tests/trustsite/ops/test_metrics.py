"""The worker's counters for Prometheus, and how they are served."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email.message import Message
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.stream.load import load
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
from scoring.review.costs import Call, Usage, parse_prices
from scoring.review.schema import NoAnswer
from tests.ingest.stream.frames import Frames
from tests.scoring.review.reviewing import PRICES, SONNET, a_reviewer, worded
from tests.standins.claude import KEY, ClaudeStandIn, error
from tests.stores import fresh_store
from tests.trustsite.ops.exposed import CALL, MODEL, USAGE, asked, measures
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, ends_by_itself, wait_for
from trustsite.ops.metrics import CLIENTS, WAITING, MetricsServer, Traces, WorkerCollector, attributes, serve


def read(registry: CollectorRegistry) -> dict[str, float]:
    """Every sample by its name and the values of its labels."""
    told = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value for family in told for sample in family.samples
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    owned = fresh_store(tmp_path / "trust.duckdb")
    owned.bind("test")
    yield owned
    owned.close()


def collected(collector: WorkerCollector) -> dict[str, float]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return read(registry)


def test_a_call_of_claude_is_counted_with_its_tokens_dollars_and_time() -> None:
    counted = measures()
    counted.called(CALL)
    counted.called(ModelCall("chat", MODEL, 1.0, 0.0, 0, FROM_LEDGER, Usage()))
    told = read(counted.registry)
    assert told[f"sunstead_claude_calls_total {MODEL} chat answered"] == 1
    assert told[f"sunstead_claude_attempts_total {MODEL}"] == 2
    assert told[f"sunstead_claude_tokens_total cache_read {MODEL}"] == 5_000
    price = parse_prices(settings.CLAUDE_PRICES)[MODEL]
    assert told[f"sunstead_claude_dollars_total {MODEL}"] == pytest.approx(price.dollars(USAGE))
    assert told[f"sunstead_claude_call_duration_seconds_sum {MODEL} chat"] == 2.5
    assert told[f"sunstead_claude_readings_found_total {MODEL}"] == 1


def test_a_run_of_a_step_is_timed_and_its_failure_counted() -> None:
    counted = measures()
    counted.ran("score_everyone", 0.2, False)
    counted.ran("score_everyone", 0.3, True)
    counted.published(0.1)
    told = read(counted.registry)
    assert told["sunstead_hop_duration_seconds_count score_everyone"] == 2
    assert told["sunstead_hop_failures_total score_everyone"] == 1
    assert told["sunstead_publish_duration_seconds_count"] == 1


def test_what_waits_is_told_by_step_and_events_from_the_start_of_the_process(store: Store) -> None:
    frames = Frames()
    frames.repository("did:plc:" + "s" * 24)
    load(store, "test", frames)
    collector = WorkerCollector(asked(store))
    assert collected(collector)["sunstead_events_stored_total"] == 0
    frames.vouch("did:plc:" + "s" * 24, "did:plc:" + "m" * 24)
    load(store, "test", frames)
    told = collected(collector)
    assert told["sunstead_events_stored_total"] == 1
    assert told["sunstead_hop_backlog derive_events"] == 2
    assert {"ask_network", "follow_mirrors", "score_everyone", "review_pulls", "erase_deleted"} <= {
        name.split()[1] for name in told if name.startswith("sunstead_hop_backlog ")
    }
    assert (told["sunstead_queue_depth"], told["sunstead_claude_dollars_today"]) == (3, 4)
    assert told["sunstead_worker_drive_free_bytes"] > 0
    assert "sunstead_worker_lag_seconds" not in told
    assert not any("did:plc:" in name for name in told)


def test_an_erasure_does_not_turn_the_count_of_events_back(store: Store) -> None:
    frames = Frames()
    collector = WorkerCollector(asked(store))
    frames.vouch("did:plc:" + "s" * 24, "did:plc:" + "m" * 24)
    load(store, "test", frames)
    before = collected(collector)["sunstead_events_stored_total"]
    with store.write() as txn:
        txn.execute("delete from events")
    assert collected(collector)["sunstead_events_stored_total"] == before == 1


def test_a_worker_that_ends_and_a_store_that_fails_tell_nothing_and_break_nothing(store: Store) -> None:
    assert collected(WorkerCollector(asked(store, ending=True))) == {}

    def fail() -> float:
        raise StoreProblem("gone")

    broken = replace(asked(store), spent=fail)
    assert "sunstead_queue_depth" not in collected(WorkerCollector(broken))


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    registry = CollectorRegistry()
    Counter("sunstead_planted", "A counter.", registry=registry)
    serving = serve("127.0.0.1:0", registry)
    assert serving is not None
    yield serving
    serving.stop()


def scrape(server: MetricsServer, path: str = "/ops/metrics") -> tuple[int, Message, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=LONG_SECONDS)
    connection.request("GET", path)
    answer = connection.getresponse()
    told = answer.status, answer.headers, answer.read()
    connection.close()
    return told


def test_the_worker_answers_at_its_one_address(server: MetricsServer) -> None:
    status, headers, body = scrape(server)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"sunstead_planted_total 0.0" in body
    status, headers, body = scrape(server, "/etc/passwd")
    assert (status, body) == (404, b"The figures are at /ops/metrics.\n")
    assert headers["Server"].strip() == "Sunstead"


def test_clients_that_send_nothing_take_few_threads_and_room_is_made_when_they_go(server: MetricsServer) -> None:
    address = ("127.0.0.1", server.server_address[1])
    idle = [socket.create_connection(address) for _ in range(CLIENTS)]
    with socket.create_connection(address) as one_more:
        assert one_more.recv(1) == b""
    for client in idle:
        client.close()

    def answers() -> bool:
        with suppress(OSError, HTTPException):
            return scrape(server)[0] == 200
        return False

    wait_for(answers)


def test_a_client_that_never_ends_its_request_is_left_though_it_is_never_silent(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustsite.ops.metrics.WHOLE_SECONDS", 0.05)
    monkeypatch.setattr("trustsite.ops.metrics._Handler.timeout", 600.0)
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=LONG_SECONDS) as client:
        client.sendall(b"GET /ops/metr")
        assert client.recv(1) == b""
    wait_for(lambda: scrape(server)[0] == 200)


def test_a_port_in_use_is_one_sentence_and_no_end(server: MetricsServer, caplog: pytest.LogCaptureFixture) -> None:
    taken = f"127.0.0.1:{server.server_address[1]}"
    assert serve(taken, CollectorRegistry()) is None
    (line,) = caplog.messages
    assert line.startswith(f"OPS_BIND={taken} cannot be listened on (Address already in use): the worker runs without")


SPENT = Usage(input_tokens=1_000, output_tokens=100, cache_write_tokens=10, cache_read_tokens=5_000)
ASKED = ModelCall("chat", SONNET, 1_700_000_000.5, 2.5, 2, "answered", SPENT, 0.0, 8_000)
SECRET = "the words of a diff that nobody else is to read"


class Collector:
    """A receiver on loopback that keeps what it is sent and answers when it is let."""

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
def receiver() -> Iterator[Collector]:
    peer = Collector()
    yield peer
    peer.close()


def dollars(model: str, usage: Usage) -> float:
    return PRICES[model].dollars(usage)


def told(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


def test_a_span_says_by_the_conventions_what_a_call_was_and_cost(receiver: Collector) -> None:
    traces = Traces(receiver.url, {"Authorization": "Basic abc=="}, dollars, every_ms=10)
    traces.called(ASKED)
    traces.stop()
    (span,) = receiver.spans
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
        "gen_ai.usage.cost": pytest.approx(PRICES[SONNET].dollars(SPENT)),
        "sunstead.attempts": 2,
        "sunstead.outcome": "answered",
        "sunstead.seconds": 2.5,
    }
    (headers,) = receiver.headers
    assert (headers["authorization"], headers["content-type"]) == ("Basic abc==", "application/x-protobuf")


def test_a_review_leaves_a_span_for_each_call_and_not_a_word_of_what_was_sent(receiver: Collector) -> None:
    traces = Traces(receiver.url, {}, dollars, every_ms=10)
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
    assert [span.name.split()[0] for span in receiver.spans] == ["count_tokens", "count_tokens", "chat", "chat"]
    assert "Sorts pears" in sent.decode()
    everything = b"".join(receiver.bodies)
    assert [text for text in (b"pear", b"Review", KEY.encode()) if text in everything] == []


def test_a_failed_call_is_an_error_with_its_reason(receiver: Collector) -> None:
    traces = Traces(receiver.url, {}, dollars, every_ms=10)
    with ClaudeStandIn() as stand_in:
        stand_in.script(error(529, "overloaded_error", "busy"), error(400, "invalid_request_error", "no"))
        claude = Claude(Access(KEY, stand_in.base_url), lambda _: None, traces.called)
        with pytest.raises(NoAnswer):
            claude.ask(Request(SONNET, "Review.", (Block(SECRET),)), 10)
    traces.stop()
    (span,) = receiver.spans
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert (told(span)["error.type"], told(span)["sunstead.attempts"]) == ("rejected", 2)
    assert SECRET.encode() not in receiver.bodies[0]


def test_a_collector_that_does_not_answer_delays_nothing_and_what_waits_is_bounded(receiver: Collector) -> None:
    receiver.go_on.clear()
    traces = Traces(receiver.url, {}, dollars, every_ms=1)
    with ends_by_itself():
        for _ in range(WAITING + 100):
            traces.called(ASKED)
        traces.stop()
    assert len(receiver.bodies) <= 1 + len(receiver.spans)


def test_a_dead_collector_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    traces = Traces(f"http://127.0.0.1:{free_port()}/v1/traces", {"x-key": SECRET}, dollars, every_ms=1)
    traces.called(ASKED)
    wait_for(lambda: caplog.messages)
    with ends_by_itself():
        traces.stop()
    assert SECRET not in caplog.text


def test_a_reading_that_was_found_is_no_span_and_nobody_has_to_listen(receiver: Collector) -> None:
    traces = Traces(receiver.url, {}, dollars, every_ms=10)
    traces.called(ModelCall("chat", SONNET, 1.0, 0.0, 0, FROM_LEDGER, Usage()))
    traces.stop()
    assert receiver.spans == []
    notify_listeners(ASKED)


def test_what_is_not_known_is_no_attribute() -> None:
    counted = ModelCall("count_tokens", SONNET, 1.0, 0.1, 1, "answered", Usage())
    found = attributes(counted, 0.0)
    assert "gen_ai.request.temperature" not in found
    assert "error.type" not in found
    assert json.dumps(found)
