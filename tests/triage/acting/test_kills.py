"""SIGKILL between an action, its message, its delivery and what follows: everything is applied exactly once."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.conftest import Count, with_environment
from tests.pipeline import opened
from tests.scoring.pipeline.offered_world import offered_world
from tests.sources import PROJECT
from tests.triage.worlds.acting_child import ACTIONS
from trustsite import drive


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The process that forks workers over a world in `tmp_path`."""
    with offered_world(tmp_path / "world"):
        pass
    root = tmp_path / "root"
    root.mkdir()
    drive.mark(root)
    command = [sys.executable, "-m", "tests.triage.worlds.acting_child", str(tmp_path / "world")]
    environment = with_environment({"DATA_ROOT": root, **drive.child_environment(root)})
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert pipe(process.stdout).readline() == "ready\n"
        yield process
        pipe(process.stdin).close()


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def start(process: subprocess.Popen[str]) -> int:
    """Start a worker; returns its process number."""
    pipe(process.stdin).write("go\n")
    pipe(process.stdin).flush()
    return int(pipe(process.stdout).readline())


def ended(process: subprocess.Popen[str]) -> int:
    """Wait for the worker; returns how it ended, 0 where it did all there was."""
    return int(pipe(process.stdout).readline())


def test_every_action_is_applied_exactly_once_whatever_is_killed(
    child: subprocess.Popen[str], tmp_path: Path, count: Count
) -> None:
    draws, killed, wanted = random.Random(6), 0, count(3, 20)
    longest = 0.8 / (wanted / 3)  # so that work is left for every one of them
    for _ in range(wanted):
        worker = start(child)
        time.sleep(draws.uniform(0.02, longest))  # the moment of the kill, not a wait for anything
        os.kill(worker, signal.SIGKILL)
        killed += ended(child) == signal.SIGKILL
    start(child)
    assert ended(child) == 0
    assert killed >= wanted / 2
    with sqlite3.connect(tmp_path / "root" / "web.sqlite3") as web:
        made = {key for (key,) in web.execute("select key from triage_action")}
        told = web.execute("select key, delivered_at is not null, problem from triage_outboxentry").fetchall()
    assert len(made) == ACTIONS
    assert sorted(told) == sorted((key, 1, "") for key in made)
    with opened(tmp_path / "world") as result:
        assert sorted(row["action_key"] for row in result.rows("from maintainer_actions")) == sorted(made)
        assert [row["state"] for row in result.rows("from approvals")] == ["in force"] * 3
        assert result.value("select count(*) from current_decisions") == 3
