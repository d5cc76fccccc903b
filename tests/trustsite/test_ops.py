"""What the worker tells Prometheus, how it serves that, and that dashboard and alerts ask for nothing else."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ingest.load import load
from ingest.status import Status
from ingest.store import Store, StoreProblem
from scoring.claude_calls import FOUND, ModelCall
from scoring.claude_models import Usage, parse_prices
from tests.ingest.stream import Frames
from tests.sources import PROJECT
from tests.stores import fresh_store
from tests.triage.pages_world import DrawnWorld
from tests.trustsite.prometheus import metrics_in, program, series_named
from tests.waiting import wait_for
from triage.gauges import Known, families
from triage.measured import MEASURES
from trustsite.ops.collector import Asked, WorkerCollector, lag_of
from trustsite.ops.measures import Measures
from trustsite.ops.serve import CLIENTS, MetricsServer, serve

OPS = PROJECT / "trustsite" / "ops"
MODEL = "claude-sonnet-4-6"
USAGE = Usage(input_tokens=1_000, output_tokens=100, cache_write_tokens=10, cache_read_tokens=5_000)
CALL = ModelCall("chat", MODEL, 1.0, 2.5, 2, "answered", USAGE)


def measures() -> Measures:
    return Measures(parse_prices(settings.CLAUDE_PRICES))


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


def asked(store: Store, ending: bool = False) -> Asked:
    def lag() -> float | None:
        return lag_of(0, store)

    return Asked(store, lambda: 3, lambda: 4.0, 5.0, lag, timedelta(days=44), lambda: ending)


def collected(collector: WorkerCollector) -> dict[str, float]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return read(registry)


def test_a_call_of_claude_is_counted_with_its_tokens_dollars_and_time() -> None:
    counted = measures()
    counted.called(CALL)
    counted.called(ModelCall("chat", MODEL, 1.0, 0.0, 0, FOUND, Usage()))
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
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
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
    monkeypatch.setattr("trustsite.ops.serve.WHOLE_SECONDS", 0.05)
    monkeypatch.setattr("trustsite.ops.serve._Handler.timeout", 600.0)
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=60) as client:
        client.sendall(b"GET /ops/metr")
        assert client.recv(1) == b""
    wait_for(lambda: scrape(server)[0] == 200)


def test_a_port_in_use_is_one_sentence_and_no_end(server: MetricsServer, caplog: pytest.LogCaptureFixture) -> None:
    taken = f"127.0.0.1:{server.server_address[1]}"
    assert serve(taken, CollectorRegistry()) is None
    (line,) = caplog.messages
    assert line.startswith(f"OPS_BIND={taken} cannot be listened on (Address already in use): the worker runs without")


def expositions(store: Store) -> tuple[str, str]:
    """All that the web process tells, and all that the worker does."""
    now = datetime.now(UTC)
    known = Known(
        board=DrawnWorld().dashboard(None),
        published_at=now.replace(tzinfo=None),
        status=Status(written_at=now.timestamp(), cursor_us=1),
        outbox={"role": 1},
        now=now.timestamp(),
        recorded=False,
    )
    counted = measures()
    counted.called(CALL)
    counted.ran("score_everyone", 0.1, False)
    counted.registry.register(WorkerCollector(replace(asked(store), lag_seconds=lambda: 1.0)))
    given = CollectorRegistry(auto_describe=False)
    given.register(_Given(known))
    told = [generate_latest(registry).decode() for registry in (given, MEASURES, counted.registry)]
    return told[0] + told[1], told[2]


class _Given(Collector):
    def __init__(self, known: Known) -> None:
        self.known = known

    def collect(self) -> Iterator[Metric]:
        yield from families(self.known)


def expressions() -> list[str]:
    """Everything that dashboard and rules ask for."""
    dashboard = json.loads((OPS / "grafana.json").read_text())
    asked_for = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    groups = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    return asked_for + [rule["expr"] for group in groups for rule in group["rules"]]


def test_every_metric_that_dashboard_and_alerts_name_exists(store: Store) -> None:
    named = metrics_in(expressions())
    assert len(named) > 30
    assert sorted(named - series_named("".join(expositions(store)))) == []


def test_every_metric_of_ours_is_on_the_dashboard(store: Store) -> None:
    """What nobody looks at is not worth measuring; whether a part runs is for the alerts and the pages."""
    shown = {
        name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in metrics_in(expressions())
    }
    ours = {
        name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        for name in series_named("".join(expositions(store)))
        if name.startswith("sunstead_")
    }
    told_in_words = {"listener_up", "store_writable", "backfill_up", "last_event_timestamp_seconds"}
    created = {name for name in ours if name.endswith("_created")}
    assert sorted(ours - shown - created) == sorted(f"sunstead_{name}" for name in told_in_words)


def promtool(*arguments: str, told: str = "") -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *arguments]
    return subprocess.run(command, input=told, capture_output=True, text=True, timeout=60, check=False)


def test_promtool_takes_what_both_processes_tell(store: Store) -> None:
    for told in expositions(store):
        checked = promtool("check", "metrics", told=told)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_promtool_takes_rules_and_configuration(tmp_path: Path) -> None:
    for name in ("prometheus.yml", "alerts.yml"):
        (tmp_path / name).write_text((OPS / name).read_text())
    (tmp_path / "sunstead.token").write_text("x")
    checked = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stderr


WELL = {
    'up{job="sunstead-web"}': "1x120",
    'up{job="sunstead-worker"}': "1x120",
    "sunstead_worker_up": "1x120",
    "sunstead_publisher_up": "1x120",
    "sunstead_ingest_lag_seconds": "3x120",
    "sunstead_snapshot_age_seconds": "4x120",
    "sunstead_drive_free_bytes": "80000000000x120",
    "sunstead_dead_letters": "7x120",
    "sunstead_failing_hops": "0x120",
    'sunstead_hop_backlog{hop="ask_network"}': "2000x120",
    'sunstead_outbox_due{kind="role"}': "0x120",
    "sunstead_claude_dollars_today": "1x120",
    "sunstead_claude_budget_dollars": "5x120",
    'sunstead_claude_calls_total{outcome="answered"}': "0+5x120",
    "sunstead_events_stored_total": "0+100x120",
    'sunstead_http_requests_total{route="queue",status="200"}': "0+60x120",
    'sunstead_http_requests_total{route="get_health",status="503"}': "0+60x120",
}
WRONG = {
    "SunsteadWebDown": {'up{job="sunstead-web"}': "0x120"},
    "SunsteadWorkerDown": {"sunstead_worker_up": "0x120"},
    "SunsteadLag": {"sunstead_ingest_lag_seconds": "700x120"},
    "SunsteadSnapshotOld": {"sunstead_snapshot_age_seconds": "0+60x120"},
    "SunsteadNoSnapshot": {"sunstead_snapshot_age_seconds": "_x120"},
    "SunsteadDriveNearlyFull": {"sunstead_drive_free_bytes": "90000000000-600000000x120"},
    "SunsteadDeadLettersGrow": {"sunstead_dead_letters": "0+2x120"},
    "SunsteadHopFails": {"sunstead_failing_hops": "1x120"},
    "SunsteadBacklogGrows": {'sunstead_hop_backlog{hop="ask_network"}': "2000+1x120"},
    "SunsteadOutboxWaits": {'sunstead_outbox_due{kind="role"}': "2x120"},
    "SunsteadClaudeBudgetNear": {"sunstead_claude_dollars_today": "4.5x120"},
    "SunsteadClaudeFails": {'sunstead_claude_calls_total{outcome="rejected"}': "0+9x120"},
    "SunsteadServerErrors": {'sunstead_http_requests_total{route="queue",status="500"}': "0+60x120"},
}


def test_each_alert_fires_when_its_thing_is_wrong_and_none_when_all_is_well(tmp_path: Path) -> None:
    def case(alert: str, wrong: dict[str, str], fires: bool) -> dict[str, object]:
        series = [{"series": name, "values": values} for name, values in (WELL | wrong).items()]
        samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if fires else []
        query = f'count by (alertname) (ALERTS{{alertstate="firing", alertname=~"{alert}"}})'
        asked = {"expr": query, "eval_time": "100m", "exp_samples": samples}
        return {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}

    cases = [case(alert, wrong, True) for alert, wrong in WRONG.items()] + [case(".+", {}, False)]
    told = {"rule_files": [str(OPS / "alerts.yml")], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(told))
    checked = promtool("test", "rules", str(tmp_path / "cases.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_alerts_are_those_that_are_promised() -> None:
    groups = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    promised = "WorkerDown Lag SnapshotOld DriveNearlyFull DeadLettersGrow HopFails ClaudeBudgetNear ServerErrors"
    assert {f"Sunstead{name}" for name in promised.split()} <= set(rules) == set(WRONG)
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in rules.values())
    assert {rule["labels"]["severity"] for rule in rules.values()} == {"page", "warn", "info"}


def test_the_dashboard_asks_one_source_and_no_panel_lies_on_another() -> None:
    dashboard = json.loads((OPS / "grafana.json").read_text())
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert all(target["datasource"]["uid"] == "${source}" for target in panel.get("targets", ()))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_docs_name_every_metric_and_every_alert(store: Store) -> None:
    docs = (PROJECT / "docs" / "monitoring.md").read_text()
    named = metrics_in(docs.splitlines()) - {"sunstead_worker_"}
    exposed = {name for name in series_named("".join(expositions(store))) if name.startswith("sunstead_")}
    families = {name for name in exposed if not name.endswith(("_bucket", "_sum", "_count", "_created"))}
    families |= {name.removesuffix("_bucket") for name in exposed if name.endswith("_bucket")}
    assert named == families
    groups = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == set(re.findall(r"`(Sunstead\w+)`", docs))
