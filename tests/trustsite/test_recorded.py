"""Pages that are served beside a worker in its process: by threads of which none is left once it is stopped."""

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_django import Settings

from tests.trustsite.busy import answers_at
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite.demo.recorded import reports_beside, serve_beside
from trustsite.management.commands.dev import told


def answer(environ: dict[str, object], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
    """A site of one page."""
    start("200 OK", [("Content-Length", "5")])
    return [b"there"]


def test_a_worker_that_is_stopped_leaves_neither_a_port_nor_a_thread_of_its_pages(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port, stopped = free_port(), threading.Event()
    settings.BIND, settings.ROOT = f"127.0.0.1:{port}", tmp_path
    monkeypatch.setattr(tempfile, "tempdir", None)  # serving names a folder of its own, for the whole process
    monkeypatch.setitem(sys.modules, "trustsite.wsgi", SimpleNamespace(application=answer))  # the real one begins a log
    beside = threading.Thread(target=serve_beside, args=(stopped,), daemon=True)
    beside.start()
    try:
        wait_for(lambda: answers_at(port, "/"))
    finally:
        stopped.set()
        beside.join(LONG_SECONDS)
    assert not answers_at(port, "/")
    wait_for(lambda: not any(one.name.startswith("waitress") for one in threading.enumerate()), what="their end")


TELL = "import os, sys, time; print(os.getpid(), os.nice(0), *sys.argv[1:], flush=True); time.sleep(600)"


def test_reports_are_made_beside_a_site_at_low_priority_and_end_with_it(settings: Settings, tmp_path: Path) -> None:
    settings.BASE_DIR, settings.LOG_DIR = tmp_path, tmp_path / "logs"
    (tmp_path / "manage.py").write_text(TELL)
    logs = [settings.LOG_DIR / f"{command}.log" for command in ("redteam", "backtest")]
    with reports_beside("--replay", "recording"):
        wait_for(lambda: all(log.read_text().endswith("recording\n") for log in logs))
    told = [log.read_text().split() for log in logs]
    assert [words[1:] for words in told] == [
        ["19", "redteam", "--replay", "recording"],
        ["19", "backtest", "--replay", "recording"],
    ]
    for words in told:
        with pytest.raises(ProcessLookupError):
            os.kill(int(words[0]), 0)


@pytest.mark.parametrize(("status", "why"), [(1, "Its message is above"), (-9, "killed by signal 9")])
def test_who_runs_both_halves_is_told_why_they_ended(status: int, why: str) -> None:
    assert why in told("worker", status)
