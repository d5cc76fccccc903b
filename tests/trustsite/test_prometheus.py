"""Debian's Prometheus scrapes a real worker and a real web process, and is asked what it found."""

import json
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

from tests.conftest import simulated_network
from tests.sources import PROJECT
from tests.trustsite import runs
from tests.trustsite.busy import answers_at, get
from tests.trustsite.ports import free_port
from tests.trustsite.prometheus import program
from tests.waiting import wait_for
from triage.access.tokens import PREFIX, secret_hash
from trustsite import drive
from trustsite.standins.jetstream import Jetstream

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
