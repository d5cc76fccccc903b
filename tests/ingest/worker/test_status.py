"""The heartbeat's file: always the same size, never half of one thing and half of another, harmless when damaged."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.worker.status import FILE_BYTES, Heartbeat, Status, encode, read_status, write_page
from tests.waiting import wait_for

texts = st.one_of(st.none(), st.text(max_size=2000))
statuses = st.builds(
    Status,
    written_at=st.floats(0, 1e11),
    running=st.booleans(),
    cursor_us=st.integers(0, 2**62),
    listener_problem=texts,
    store_problem=texts,
    publisher_problem=texts,
    event_problems=st.lists(st.text(max_size=500), max_size=20).map(tuple),
    event_streams_down=st.integers(0, 10_000),
    failing_hops=st.lists(st.text(max_size=500), max_size=20).map(tuple),
    hosts_left_alone=st.integers(0, 10_000),
    hosts_named=st.lists(st.text(max_size=500), max_size=20).map(tuple),
    free_bytes=st.integers(0, 2**62),
)


@contextmanager
def beating(path: Path, ask: list[Status]) -> Generator[Heartbeat]:
    """A heartbeat that says what is last in the list."""
    heartbeat = Heartbeat(path, lambda: msgspec.structs.replace(ask[-1], written_at=time.time()))
    heartbeat.start()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()


@given(statuses)
def test_every_status_fits_and_is_read_back_with_its_figures(
    tmp_path_factory: pytest.TempPathFactory, status: Status
) -> None:
    page = encode(status)
    assert len(page) == FILE_BYTES
    path = tmp_path_factory.getbasetemp() / "status.json"
    write_page(path, page)
    told = read_status(path)
    assert told is not None
    same = ("written_at", "running", "cursor_us", "hosts_left_alone", "event_streams_down", "free_bytes")
    assert [getattr(told, name) for name in same] == [getattr(status, name) for name in same]
    assert (told.store_problem is None) == (status.store_problem is None)


def test_the_longest_hostile_names_still_fit() -> None:
    bad = "\x00\u202e\ud800" * 5000
    page = encode(Status(written_at=1.0, listener_problem=bad, store_problem=bad, hosts_named=(bad,) * 50))
    assert len(page) == FILE_BYTES


@pytest.mark.parametrize(
    "found", [b"", b"{}", b"\xff" * 9000, b'{"check": 1, "status": {"written_at": 1}}', b"[" * 8192]
)
def test_what_is_no_heartbeat_is_none(tmp_path: Path, found: bytes) -> None:
    (tmp_path / "status.json").write_bytes(found)
    assert read_status(tmp_path / "status.json") is None


def test_a_missing_file_or_folder_is_none(tmp_path: Path) -> None:
    assert read_status(tmp_path / "status.json") is None
    assert read_status(tmp_path / "nowhere" / "status.json") is None
    assert read_status(tmp_path) is None


def test_a_read_that_meets_a_write_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    one, other = encode(Status(written_at=1.0)), encode(Status(written_at=22222222.5, listener_problem="x" * 200))
    write_page(path, other[:100] + one[100:])
    assert read_status(path) is None
    threading.Timer(0.007, write_page, (path, other)).start()
    told = read_status(path)
    assert told is None or told.written_at == 22222222.5


def test_a_thousand_reads_beside_a_writer_are_all_whole(tmp_path: Path) -> None:
    path, stop = tmp_path / "status.json", threading.Event()
    write_page(path, encode(Status(written_at=0.0, listener_problem="")))

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            write_page(path, encode(Status(written_at=float(number), listener_problem="x" * (number % 250))))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(1000):
            told = read_status(path)
            if told is not None:
                assert len(told.listener_problem or "") == told.written_at % 250
    finally:
        stop.set()
        writer.join()


def test_a_change_is_written_at_once_and_a_stop_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.worker.status.BEAT_SECONDS", 600.0)  # nothing is written but what changed
    path, ask = tmp_path / "status.json", [Status(written_at=0.0)]
    with beating(path, ask):
        wait_for(lambda: read_status(path) is not None)
        ask.append(Status(written_at=0.0, store_problem="free space"))
        wait_for(lambda: (told := read_status(path)) is not None and told.store_problem == "free space")
        told = read_status(path)
        assert told is not None
        assert told.is_alive(told.written_at + 29)
        assert not told.is_alive(told.written_at + 31)
        size = path.stat().st_size
    told = read_status(path)
    assert told is not None
    assert not told.is_alive(time.time())
    assert path.stat().st_size == size == FILE_BYTES
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_drive_that_is_gone_stops_no_heartbeat(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "status.json"
    with beating(path, [Status(written_at=0.0)]) as heartbeat:
        time.sleep(0.1)
        assert heartbeat.is_alive()
        path.parent.mkdir()
        wait_for(lambda: read_status(path) is not None)


def test_a_link_in_its_place_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "status.json").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        write_page(tmp_path / "status.json", encode(Status(written_at=1.0)))
    assert (tmp_path / "precious").read_text() == "keep"
