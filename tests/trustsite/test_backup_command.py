"""`backup`, `restore`, `compact` and `doctor` as an operator runs them, beside a busy worker and alone."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingest.backup_files import Manifest, read_manifest
from ingest.look_inside import look_inside
from ingest.snapshot import SnapshotReader, current_number, publish
from ingest.status import read_status
from ingest.store import Store
from tests.ingest.erased import story
from tests.ingest.planted import GONE, traces
from tests.ingest.stream import SOURCE, take
from tests.trustsite import runs
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.world import build_world

LOADED = 200  # frames that are there before the backup; the others come while it is made


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A drive after its worker ingested the world, and a backup made in the midst of that."""
    root = tmp_path_factory.mktemp("busy")
    drive, target = root / "drive", root / "backup"
    drive.mkdir()
    assert runs.run("init_drive", DATA_ROOT=drive)[0] == 0
    recording = build_world().recording
    with Jetstream(recording, hold_after=LOADED) as jetstream:
        worker = runs.start("worker", DATA_ROOT=drive, JETSTREAM_URLS=jetstream.url)
        try:
            wait_for(lambda: cursor_of(drive) > 0)
            jetstream.release(len(recording.frames))
            status, out, err = runs.run("backup", target, DATA_ROOT=drive)
            assert status == 0, err
            assert "holds the state of" in out
            wait_for(lambda: cursor_of(drive) == recording.last_time_us)
            yield drive, target
        finally:
            worker.send_signal(signal.SIGTERM)
            runs.finish(worker, timeout=runs.STOP_SECONDS)


def cursor_of(drive: Path) -> int:
    told = read_status(drive / "status.json")
    return told.cursor_us if told else 0


def test_a_backup_beside_a_busy_worker_is_restored_row_by_row_on_another_machine(
    busy: tuple[Path, Path], tmp_path: Path
) -> None:
    drive, target = busy
    manifest = read_manifest(target)
    assert 0 < manifest.cursors["jetstream"] <= cursor_of(drive)
    other = tmp_path / "other"
    other.mkdir()
    assert runs.run("init_drive", DATA_ROOT=other)[0] == 0
    status, out, err = runs.run("restore", target, DATA_ROOT=other)
    assert status == 0, err
    assert "is restored" in out
    assert_same(other, manifest)
    status, _, err = runs.run("restore", target, DATA_ROOT=drive)
    assert (status, "stop the worker" in err) == (2, True)
    assert (cursor_of(drive), read_manifest(target)) == (build_world().recording.last_time_us, manifest)


def assert_same(drive: Path, manifest: Manifest) -> None:
    with closing(SnapshotReader(drive / "snapshots")) as reader, reader.pin() as snapshot:
        assert snapshot is not None
    assert look_inside(drive / "duckdb" / "trust.duckdb").tables == manifest.tables


def test_the_doctor_leaves_the_store_to_the_worker_and_finds_what_is_to_do(busy: tuple[Path, Path]) -> None:
    drive, _ = busy
    status, out, err = runs.run("doctor", "--json", DATA_ROOT=drive)
    told = {one["name"]: one for one in json.loads(out)["findings"]}
    assert status == 1, err
    assert "held by the worker (process " in told["store"]["told"]
    assert [name for name, one in told.items() if not one["ok"] and name not in ("clock", "worker", "speed")] == [
        "accounts",  # nobody was made a maintainer
        "backups",  # which lies elsewhere
    ]


def test_whoever_was_erased_after_the_backup_is_erased_from_it_on_restore(tmp_path: Path) -> None:
    root, target = tmp_path / "drive", tmp_path / "backup"
    root.mkdir()
    assert runs.run("init_drive", DATA_ROOT=root)[0] == 0
    store = Store.open(root / "duckdb" / "trust.duckdb", key=(root / "keys" / "tombstones").read_bytes())
    store.bind(SOURCE)
    take(store, story())
    publish(store, root / "snapshots")
    store.close()
    for command in (("backup", target), ("erase_contributor", GONE, "--yes"), ("restore", target, "--replace")):
        status, out, err = runs.run(*command, DATA_ROOT=root)
        assert status == 0, err
    assert "1 who were erased after the backup was made were erased from it again." in out
    (aside,) = root.glob("replaced-*")
    shutil.rmtree(aside)
    assert traces(root, (GONE, GONE.removeprefix("did:plc:"))) == []
    assert current_number(root / "snapshots") > 2  # a web process that runs takes the next one


def test_compact_hands_over_to_the_worker_and_prints_what_it_saved(busy: tuple[Path, Path]) -> None:
    drive, _ = busy
    before = cursor_of(drive)
    status, out, err = runs.run("compact", DATA_ROOT=drive)
    assert status == 0, err
    assert [line.split(":")[0].rsplit("/", 1)[1] for line in out.splitlines()] == [
        "trust.duckdb",
        "web.sqlite3",
        "queue.sqlite3",
    ]
    assert " MB before, " in out
    assert cursor_of(drive) == before
