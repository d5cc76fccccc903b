"""Pages that are served beside a worker in its process: by threads of which none is left once it is stopped."""

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
from trustsite.management.commands.dev import told
from trustsite.recorded import serve_beside


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


@pytest.mark.parametrize(("status", "why"), [(1, "Its message is above"), (-9, "killed by signal 9")])
def test_who_runs_both_halves_is_told_why_they_ended(status: int, why: str) -> None:
    assert why in told("worker", status)
