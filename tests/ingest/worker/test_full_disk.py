"""A drive that fills up: ingest stops, says so, and goes on without loss when there is room again."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest import files as room
from ingest.errors import StoreProblem
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.stream import jetstream
from ingest.stream.jetstream import Listener, Subscription
from ingest.worker.status import Heartbeat, Status, read_status
from tests.ingest.stream.frames import FIRST_US, SOURCE, Frames
from tests.ingest.stream.listening import assert_whole, cursor, peer, wait_for_frame
from tests.waiting import wait_for

SMALL, LARGE = 30_000_000, 400_000_000


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 0.02)
    monkeypatch.setattr(jetstream, "FLUSH_ROWS", 20)
    monkeypatch.setattr(jetstream, "LONGEST_WAIT_SECONDS", 0.005)
    monkeypatch.setattr(jetstream, "STORE_WAIT_SECONDS", 0.05)


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Path]:
    """A file system of 30 MB of its own; skips where none may be mounted."""
    folder = tmp_path / "drive"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def heavy(size: int = 400) -> Frames:
    """Pull requests of 240 kB each, more than the drive takes, by as many people as may log so much in an hour."""
    frames = Frames()
    for number in range(size):
        texts = [os.urandom(40_000).hex() for _ in range(3)]  # what can be packed to a half
        author = f"did:plc:{'abcdefghij'[number % 10] * 24}"
        frames.pull(author, f"pull{number}", body=texts[0], description=texts[1], notes=texts[2])
    return frames


def grow(folder: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(folder)], check=True)


@pytest.mark.parametrize(
    "reserve", [12_000_000, 0], ids=["stops before it is full", "is full in the middle of a write"]
)
def test_ingest_stops_on_a_full_drive_with_a_clear_state_and_resumes_without_loss(
    drive: Path, monkeypatch: pytest.MonkeyPatch, reserve: int
) -> None:
    monkeypatch.setattr(room, "RESERVE_BYTES", reserve)
    if not reserve:
        monkeypatch.setattr(room, "_waiting", lambda path: 0)
    frames = heavy()
    store = Store.open(drive / "duckdb" / "trust.duckdb")
    try:
        with peer(frames) as server:
            listener = Listener(store, Subscription(SOURCE, [server.url], ()), lambda: None)
            heartbeat = Heartbeat(drive / "status.json", lambda: status(listener, store))
            heartbeat.start()
            listener.start()
            wait_for(lambda: listener.store_failed)
            assert "free space" in (listener.problem or "")
            wait_for(lambda: "free space" in told_of(drive))
            time.sleep(0.5)
            stopped_at = cursor(store)
            assert FIRST_US <= stopped_at < FIRST_US + 399 * 1_000_000
            if reserve:
                store.checkpoint()  # what was left free is enough for this
            assert listener.is_alive()
            grow(drive)
            wait_for_frame(store, 399)
            wait_for(lambda: told_of(drive) == "")
            listener.stop()
            heartbeat.stop()
        assert_whole(store, frames)
    finally:
        store.close()


def test_after_a_checkpoint_that_found_the_drive_full_ingest_goes_on_by_itself_and_loses_nothing(
    drive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "RESERVE_BYTES", 0)
    monkeypatch.setattr(room, "_waiting", lambda path: 0)
    frames, path = heavy(), drive / "duckdb" / "trust.duckdb"
    store = Store.open(path)
    with peer(frames) as server:
        listener = Listener(store, Subscription(SOURCE, [server.url], ()), lambda: None)
        listener.start()
        wait_for(lambda: listener.store_failed)
        with pytest.raises(StoreProblem):
            store.checkpoint()
        wait_for(lambda: "free space on the drive" in (listener.problem or ""))
        grow(drive)
        wait_for_frame(store, 399)
        listener.stop()
    assert_whole(store, frames)
    store.close()


def told_of(drive: Path) -> str:
    """The store's problem as the file says it, "" for none, "?" where there is not a file."""
    told = read_status(drive / "status.json")
    return (told.store_problem or "") if told is not None else "?"


def status(listener: Listener, store: Store) -> Status:
    problem = listener.problem
    return Status(written_at=time.time(), store_problem=problem if listener.store_failed else None)


def test_a_heartbeat_is_written_on_a_drive_without_a_free_byte(drive: Path) -> None:
    says = ["as usual"]
    heartbeat = Heartbeat(drive / "status.json", lambda: Status(written_at=time.time(), store_problem=says[-1]))
    heartbeat.start()
    wait_for(lambda: told_of(drive) == "as usual")
    with pytest.raises(OSError, match="No space left"):
        (drive / "fill").write_bytes(b"x" * LARGE)
    assert shutil.disk_usage(drive).free == 0
    says.append("free space")
    wait_for(lambda: told_of(drive) == "free space")
    heartbeat.stop()


def test_the_reserve_counts_what_the_next_checkpoint_will_need(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda path: 150_000_000)
    room.require_room(store.path)
    monkeypatch.setattr(room, "_waiting", lambda path: 60_000_000)
    with pytest.raises(StoreProblem, match="150 MB left of the 160 MB that must stay free"):
        room.require_room(store.path)


def test_hosts_left_alone_are_named() -> None:
    fetcher = Fetcher()
    assert fetcher.left_alone() == []
    for host, seconds in (("b.test", 9.0), ("a.test", 0.0), ("c.test", 9.0)):
        fetcher.manners.hush(host, seconds)
    assert fetcher.left_alone() == ["b.test", "c.test"]
