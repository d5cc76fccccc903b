"""Dashboard, alerts and docs name what both processes tell, all of it and nothing else; promtool takes every file."""

import json
import re
import sqlite3
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ingest.store.database import Store
from tests.conftest import simulated_network
from tests.sources import PROJECT
from tests.stores import fresh_store
from tests.trustsite import runs
from tests.trustsite.busy import answers_at, get
from tests.trustsite.ops.exposed import expositions
from tests.trustsite.ops.prometheus import metrics_in, program, series_named
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from triage.access.tokens import PREFIX, secret_hash
from trustsite import drive
from trustsite.standins.jetstream import Jetstream

OPS = PROJECT / "trustsite" / "ops"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty one; nothing here writes to it."""
    owned = fresh_store(tmp_path_factory.mktemp("alerts") / "trust.duckdb")
    owned.bind("test")
    yield owned
    owned.close()


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
    return subprocess.run(command, input=told, capture_output=True, text=True, timeout=LONG_SECONDS, check=False)


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


SECRET = PREFIX + "s" * 43
FRAMES = 50  # of the simulated network, that the worker is given
TOKEN = """
insert into triage_apitoken (name, secret_hash, scopes, made_at, repo_key, refused)
values ('prometheus', ?, '["read"]', '2026-01-01', '', 0)
"""


@dataclass(frozen=True)
class Watched:
    """A site that Prometheus watches; `prometheus` is its port."""

    root: Path
    prometheus: int

    def value(self, query: str) -> dict[str, float]:
        """What PromQL answers just now: values by the label job."""
        told = json.loads(get(self.prometheus, f"/api/v1/query?query={urllib.parse.quote(query)}")[1])
        return {one["metric"].get("job", ""): float(one["value"][1]) for one in told["data"]["result"]}


def configured(folder: Path, web: int, worker: int) -> Path:
    """The configuration that we ship, for these ports and without patience."""
    text = (PROJECT / "trustsite" / "ops" / "prometheus.yml").read_text()
    told = yaml.safe_load(text.replace(":8000", f":{web}").replace(":8001", f":{worker}").replace("15s", "1s"))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(told))
    (folder / "alerts.yml").write_text((PROJECT / "trustsite" / "ops" / "alerts.yml").read_text())
    (folder / "sunstead.token").write_text(SECRET)
    return folder / "prometheus.yml"


def start_prometheus(folder: Path, configuration: Path, port: int) -> subprocess.Popen[bytes]:
    """The program itself, listening on loopback alone."""
    listen, data = f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'data'}"
    command = [program("prometheus"), f"--config.file={configuration}", data, listen, "--log.level=error"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Worker, web and Prometheus; the worker is given the first frames of the simulated network."""
    program("prometheus")
    root = tmp_path / "drive"
    root.mkdir()
    drive.mark(root)
    ports = web, worker, prometheus = free_port(), free_port(), free_port()
    with Jetstream(simulated_network().recording, hold_after=FRAMES) as jetstream:
        processes = [
            runs.start("worker", DATA_ROOT=root, JETSTREAM_URLS=jetstream.url, OPS_BIND=f"127.0.0.1:{worker}"),
            runs.start("web", DATA_ROOT=root, BIND=f"127.0.0.1:{web}"),
            start_prometheus(tmp_path, configured(tmp_path, *ports[:2]), prometheus),
        ]
        try:
            wait_for(lambda: answers_at(web, "/about"))
            assert not answers_at(web, "/made-up"), "which stands in its log from now on"
            with closing(sqlite3.connect(root / "web.sqlite3", timeout=30)) as database, database:
                database.execute(TOKEN, [secret_hash(SECRET)])
            wait_for(lambda: answers_at(prometheus, "/-/ready"))
            yield Watched(root, prometheus)
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def test_prometheus_scrapes_both_processes_and_finds_what_they_do(watched: Watched) -> None:
    wait_for(lambda: watched.value("up") == {"sunstead-web": 1.0, "sunstead-worker": 1.0})
    wait_for(lambda: watched.value("sunstead_hop_duration_seconds_count{hop='derive_events'} > 0"))
    wait_for(lambda: watched.value("sunstead_publish_duration_seconds_count > 0"))
    wait_for(lambda: watched.value("sunstead_worker_up") == {"sunstead-web": 1.0})
    wait_for(lambda: watched.value("sunstead_http_requests_total{route='ops_metrics', status='200'} > 0"))
    wait_for(lambda: watched.value("sunstead_events_stored_total")["sunstead-worker"] >= 0)
    assert watched.value("process_resident_memory_bytes").keys() == {"sunstead-web", "sunstead-worker"}
    rules = json.loads(get(watched.prometheus, "/api/v1/rules")[1])["data"]["groups"]
    assert [rule["lastError"] for group in rules for rule in group["rules"] if rule.get("lastError")] == []
    wait_for(lambda: watched.value(f"sunstead_last_event_timestamp_seconds < {time.time()}"))
    log = watched.root / "logs" / "web.jsonl"
    wait_for(log.exists, what="a line in the log")
    assert {json.loads(line)["process"] for line in log.read_text().splitlines()} == {"web"}
    assert SECRET not in log.read_text()
