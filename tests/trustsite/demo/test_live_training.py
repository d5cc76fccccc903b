"""The week's training beside a real worker, seen whole: begun when it is due, killed, begun again, served, compared."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.history_import.pulls import import_past
from ingest.store.snapshots import SnapshotReader, current_number
from scoring.models.serving import LABEL
from scoring.models.storage import load_model, save_model, serve, serving_name
from scoring.training.process import DAY_SECONDS, ENDED, STARTED
from tests.conftest import Count, with_environment
from tests.ingest.history_import.past import DAY, OPENED, past, write
from tests.sources import PROJECT
from tests.stores import fresh_store
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite import drive

PULLS, PEOPLE, DAYS = 500, 35, 700
TICKS = os.sysconf("SC_CLK_TCK")


def fickle(folder: Path) -> Path:
    """People who send good work for a while and then bad work: a plain rate of theirs is not all that can be known."""
    draw, rows = np.random.default_rng(5), list[dict[str, Any]]()
    is_good = draw.random(PEOPLE) < 0.5
    for number in range(1, PULLS + 1):
        who, opened = int(draw.integers(0, PEOPLE)), OPENED + DAYS * DAY * number / PULLS
        is_good[who] ^= draw.random() < 0.12
        is_merged = draw.random() < (0.95 if is_good[who] else 0.08)
        end = {"merged_at": opened + DAY / 4} if is_merged else {"closed_at": opened + DAY / 2}
        did = "did:plc:" + f"p{chr(97 + who // 26)}{chr(97 + who % 26)}".ljust(24, "q")
        told = {"opened_at": opened, "snapshot_at": OPENED + (DAYS + 200) * DAY, "author": f"p{who}", "did": did}
        rows.append(past(number, "merged" if is_merged else "closed", **told, **end))
    return write(folder / "old.parquet", rows)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A marked drive whose store has an imported history."""
    place = tmp_path / "drive"
    place.mkdir()
    drive.mark(place)
    path = place / "duckdb" / "trust.duckdb"
    store = fresh_store(path, key=drive.key(place, "tombstones").encode(), wall=lambda: datetime(2026, 11, 20))
    with closing(store):
        import_past(store, fickle(tmp_path), None, "old")
    return place


class Working:
    """A worker that runs, with the child that trains beside it."""

    def __init__(self, root: Path) -> None:
        told = {"DATA_ROOT": root, "JETSTREAM_URLS": f"ws://127.0.0.1:{free_port()}/subscribe", "BACKFILL_HOSTS": ""}
        command = [sys.executable, "-m", "tests.trustsite.worker.training_worker"]
        self.process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=with_environment(told),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def hour(self) -> int:
        """An hour passes; the process that trains then, 0 for none."""
        self.say("hour")
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def hour_after(self, child: int) -> int:
        """The first hour in which that child no longer runs; the process that trains then, 0 for none.

        One that ended is still to be waited for while any of its threads is on its way out.
        """
        later: list[int] = []
        wait_for(lambda: later.append(self.hour()) or later[-1] != child)
        return later[-1]

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it and all that it began, as a power cut does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@contextmanager
def working(root: Path) -> Generator[Working]:
    """A worker that has published."""
    before, worker = current_number(root / "snapshots"), Working(root)
    try:
        wait_for(lambda: current_number(root / "snapshots") > before)
        yield worker
    finally:
        worker.kill()


def seconds_of(process: int) -> float:
    """How long a process has computed; inf once it is gone."""
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return float("inf") if told[0] in "ZX" else (int(told[11]) + int(told[12])) / TICKS


def ended(process: int) -> bool:
    return seconds_of(process) == float("inf")


def versions(root: Path) -> set[str]:
    """The models by which the people of the newest snapshot are judged."""
    with closing(SnapshotReader(root / "snapshots")) as reader, reader.pin() as snapshot:
        assert snapshot is not None
        return {row["model_version"] for row in snapshot.rows("select distinct model_version from current_scores")}


def test_a_training_is_begun_again_after_a_power_cut_and_what_it_finds_serves_without_a_restart(
    root: Path, count: Count
) -> None:
    models, draw = root / "models", np.random.default_rng(2)
    for _ in range(count(1, 10)):
        with working(root) as worker:
            child, enough = worker.hour(), draw.uniform(0.3, 2.0)
            assert child
            wait_for(lambda child=child, enough=enough: seconds_of(child) > enough)
            worker.kill()
        wait_for(lambda child=child: ended(child))
        assert serving_name(models, LABEL) is None or count(1, 10) > 1
        for name in (path.stem for path in models.glob("*.json")):
            load_model(models, name)  # whole, or not there
    with working(root) as worker:
        child = worker.hour()
        wait_for(lambda: ended(child))
        first = serving_name(models, LABEL)
        assert first is not None, (root / "logs" / "train.log").read_text()
        assert worker.hour_after(child) == 0, "it is not due for a week"
        worker.say("minute")
        wait_for(lambda: versions(root) == {f"{LABEL}-{first[:12]}"}, LONG_SECONDS)
        a_better_one_stays(worker, models)


def a_better_one_stays(worker: Working, models: Path) -> None:
    """What a week later is trained on the same history is no match for a model that promised more."""
    first = serving_name(models, LABEL)
    assert first is not None
    record = json.loads((models / f"{first}.json").read_text())
    for part in record["scopes"].values():
        part["metrics"]["gain"]["log_loss_ci"] = [0.4, 0.5]
    better = save_model(models, record, "")
    serve(models, LABEL, better)
    for mark in (STARTED, ENDED):
        then = (models / mark).stat().st_mtime - 7 * DAY_SECONDS
        os.utime(models / mark, (then, then))
    child = worker.hour()
    assert child
    wait_for(lambda: ended(child))
    assert serving_name(models, LABEL) == better
    assert len(list(models.glob("*.json"))) > 2, "it is kept beside it"
