"""A site under mixed load stays as it was: no error answer, memory that stays level, nothing left to do at the end."""

import json
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingest.worker.status import read_status
from tests.conftest import count
from tests.trustsite import runs
from tests.trustsite.busy import answers_at
from tests.trustsite.commands.test_train import history
from tests.trustsite.ports import free_port
from tests.trustsite.worker.soaked import PacedStream, Readers, each_second, growth_of_last_half, resident_mb
from tests.waiting import wait_for
from trustsite import drive

NOWHERE = "https://nowhere.invalid"
SECONDS, RATE, REQUESTS = count(4, 600), count(60, 500), count(30, 200)
MOST_GROWTH = 0.05  # of the last half, at the full counts: a process that has just started still fills its caches
pytestmark = [pytest.mark.scale, pytest.mark.repeats("test_worker.py: pages and JSON while the worker ingests")]


@contextmanager
def soaked_site(root: Path, stream: str, port: int) -> Generator[tuple[subprocess.Popen[str], ...]]:
    """Worker and web on a marked drive that hears `stream`."""
    drive.mark(root)
    quiet = dict.fromkeys(("PLC_URL", "BLUESKY_API", "APPVIEW_URL"), NOWHERE)
    environment = {
        "DATA_ROOT": root,
        "JETSTREAM_URLS": stream,
        "BACKFILL_HOSTS": "",
        "PUBLIC_READ": "1",
        "OPS_BIND": "",
    }
    environment |= {"BIND": f"127.0.0.1:{port}", "API_ANONYMOUS_A_MINUTE": "1000000", **quiet}
    started = tuple(runs.start(name, **environment) for name in ("worker", "web"))
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            runs.finish(process)


def test_a_site_under_mixed_load_stays_as_it_was(tmp_path: Path) -> None:
    root, port, stream = tmp_path / "root", free_port(), PacedStream(RATE)
    root.mkdir()
    held: dict[str, list[float]] = {"worker": [], "web": []}
    with stream.serving() as address, soaked_site(root, address, port) as (worker, web):
        wait_for(lambda: answers_at(port, f"/score/{stream.person}"), what="the first score")
        readers = Readers(f"http://127.0.0.1:{port}", paths(stream), REQUESTS)
        with readers.asking():
            for second in each_second(SECONDS):
                held["worker"].append(resident_mb(worker.pid))
                held["web"].append(resident_mb(web.pid))
                if second == SECONDS // 3:
                    file = history(tmp_path, count(60, 20_000))
                    training = runs.start("train", file, "--draws", "5", "--json", DATA_ROOT=root, OPS_BIND="")
        stream.ended.set()
        wait_for(lambda: cursor(root) >= stream.newest_us, what="the last record")
        status, _, why = runs.finish(training)
    report(held, readers, stream)
    assert status == 0, why
    assert readers.faults == []
    assert len(readers.took) >= SECONDS * REQUESTS * 0.2, "readers were served all the while"
    if SECONDS >= 600:
        assert {
            name: growth for name, figures in held.items() if (growth := growth_of_last_half(figures)) > MOST_GROWTH
        } == {}


def paths(stream: PacedStream) -> list[str]:
    """Of a hundred requests ninety ask for a score, the others for pages."""
    pages = ("/health", "/metrics", "/leaderboard", "/about", f"/c/{stream.person}")
    return [f"/score/{stream.person}"] * 95 + list(pages)


def cursor(root: Path) -> int:
    """The newest record that the worker has handled, by its heartbeat."""
    status = read_status(root / "status.json")
    return status.cursor_us if status else 0


def report(held: dict[str, list[float]], readers: Readers, stream: PacedStream) -> None:
    """What `make prove` keeps in docs/measurements.md; shown by pytest -rP."""
    took = sorted(readers.took)
    told: dict[str, object] = {
        name: [round(figures[0]), round(figures[-1]), round(growth_of_last_half(figures), 4)]
        for name, figures in held.items()
    }
    told |= {"requests": len(took), "p99_ms": round(took[int(0.99 * len(took))] * 1000), "records": stream.told}
    print(json.dumps({"at": time.strftime("%Y-%m-%d"), **told}))  # noqa: T201
