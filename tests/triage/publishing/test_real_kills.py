"""SIGKILL of the process that publishes, at any moment: the repository ends as the table, with nothing twice."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from ingest.records.assessment import assessment_key
from tests.conftest import Count, with_environment
from tests.peers.network import RealNetwork
from tests.sources import PROJECT
from tests.triage.acting.test_kills import ended, pipe, start
from tests.triage.worlds.publishing_child import wanted
from tests.triage.worlds.publishing_site import ASSESSMENT, OWN, records_of
from trustsite import drive


def test_the_repository_ends_as_the_table_whatever_is_killed(
    real_network: RealNetwork, tmp_path: Path, count: Count
) -> None:
    draws, kills, killed = random.Random(8), count(2, 20), 0
    steps = kills * 6
    account = real_network.join(f"kills{time.time_ns() % 10**9}")
    root = tmp_path / "root"
    root.mkdir()
    drive.mark(root)
    told = [real_network.origin, account.did, account.app_password(), str(steps)]
    environment = with_environment({"DATA_ROOT": root, **drive.child_environment(root)})
    command = [sys.executable, "-m", "tests.triage.worlds.publishing_child", *told]
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert pipe(child.stdout).readline() == "ready\n"
        for _ in range(kills):
            publisher = start(child)
            time.sleep(draws.uniform(0.05, 1.2))  # the moment of the kill, not a wait for anything
            os.kill(publisher, signal.SIGKILL)
            killed += ended(child) == signal.SIGKILL
        start(child)
        assert ended(child) == 0
        pipe(child.stdin).close()
    assert killed >= kills / 2
    with sqlite3.connect(root / "web.sqlite3") as web:
        rows = web.execute(
            "select rkey, record, waits from triage_publishedrecord where collection = ?", [ASSESSMENT]
        ).fetchall()
    records = records_of(real_network, account.did, ASSESSMENT)
    assert [rkey for rkey, _, waits in rows if waits] == []
    assert records == {rkey: {"$type": ASSESSMENT, **json.loads(record)} for rkey, record, _ in rows}
    last = {assessment_key(one.uri): one.lane for one in wanted(steps)}
    assert {rkey: record["decision"] for rkey, record in records.items()} == last
    assert len(records_of(real_network, account.did, f"{OWN}.service")) == 1
