"""The worker's counters for Prometheus, and how they are served."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email.message import Message
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from django.conf import settings
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.stream.load import load
from scoring.review.anthropic_client import FROM_LEDGER, ModelCall
from scoring.review.costs import Usage, parse_prices
from tests.ingest.stream.frames import Frames
from tests.stores import fresh_store
from tests.trustsite.exposed import CALL, MODEL, USAGE, asked, measures
from tests.waiting import LONG_SECONDS, wait_for
from trustsite.ops.metrics import WorkerCollector
from trustsite.ops.server import CLIENTS, MetricsServer, serve


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
    monkeypatch.setattr("trustsite.ops.server.WHOLE_SECONDS", 0.05)
    monkeypatch.setattr("trustsite.ops.server._Handler.timeout", 600.0)
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=LONG_SECONDS) as client:
        client.sendall(b"GET /ops/metr")
        assert client.recv(1) == b""
    wait_for(lambda: scrape(server)[0] == 200)


def test_a_port_in_use_is_one_sentence_and_no_end(server: MetricsServer, caplog: pytest.LogCaptureFixture) -> None:
    taken = f"127.0.0.1:{server.server_address[1]}"
    assert serve(taken, CollectorRegistry()) is None
    (line,) = caplog.messages
    assert line.startswith(f"OPS_BIND={taken} cannot be listened on (Address already in use): the worker runs without")
