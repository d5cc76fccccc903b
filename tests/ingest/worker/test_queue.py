"""Messages on the queue: JSON that is signed, so that nobody but web and worker can make the worker run anything."""

import json
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from huey import SqliteHuey
from huey.registry import Message
from hypothesis import given
from hypothesis import strategies as st

from ingest.worker.runtime import Queue, QueueDamaged, SignedJsonSerializer, huey
from ingest.worker.status import FILE_BYTES, Heartbeat, Status, encode, read_status, write_page
from tests.waiting import wait_for

SECRET = "a secret of this test"
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.fixture
def serializer() -> SignedJsonSerializer:
    return SignedJsonSerializer(secret=SECRET)


def message(**changes: object) -> Message:
    fields: dict[str, object] = {
        "id": "1",
        "name": "queue_test.greet",
        "eta": datetime(2026, 10, 1, 12, 30, 0, 250),
        "retries": 2,
        "retry_delay": 5,
        "priority": None,
        "args": ("ana", 3),
        "kwargs": {"reply": "to"},
    }
    filled = dict.fromkeys(Message._fields) | fields | changes
    return Message(**filled)


def test_a_message_comes_back_as_it_was(serializer: SignedJsonSerializer) -> None:
    for one in (message(), message(eta=None, args=(), kwargs={})):
        assert serializer.deserialize(serializer.serialize(one)) == one


@given(value=plain)
def test_plain_values_come_back_as_they_were(value: object) -> None:
    serializer = SignedJsonSerializer(secret=SECRET)
    assert serializer.deserialize(serializer.serialize(value)) == value


def test_what_is_no_json_is_refused_when_it_is_sent(serializer: SignedJsonSerializer) -> None:
    with pytest.raises(TypeError):
        serializer.serialize(message(args=(object(),)))


def test_every_changed_byte_is_refused(serializer: SignedJsonSerializer) -> None:
    data = serializer.serialize(message())
    for place in range(len(data)):
        changed = bytes([*data[:place], data[place] ^ 1, *data[place + 1 :]])
        with pytest.raises(ValueError, match=r"."):
            serializer.deserialize(changed)


@pytest.mark.parametrize("data", [b"", b"x", json.dumps({"huey_message": {}}).encode(), pickle.dumps(print)])
def test_what_was_never_signed_is_refused(serializer: SignedJsonSerializer, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        serializer.deserialize(data)


def test_another_secret_is_refused(serializer: SignedJsonSerializer) -> None:
    with pytest.raises(ValueError, match=r"."):
        SignedJsonSerializer(secret="another").deserialize(serializer.serialize(message()))


def test_the_queue_of_the_project_signs_and_keeps_no_results() -> None:
    assert isinstance(huey.serializer, SignedJsonSerializer)
    assert (huey.results, huey.immediate) == (False, False)


def test_a_task_runs_from_the_file_and_a_planted_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    queue = SqliteHuey("test", filename=str(path), serializer=SignedJsonSerializer(secret=SECRET), results=False)
    ran: list[str] = []

    @queue.task()
    def greet(name: str, *, loud: bool = False) -> None:
        ran.append(name.upper() if loud else name)

    greet("ana", loud=True)
    with sqlite3.connect(path) as database:
        ((stored,),) = database.execute("select data from task").fetchall()
    assert b'"huey_message"' in bytes(stored)
    queue.execute(queue.dequeue())
    assert ran == ["ANA"]

    greet("mara")
    with sqlite3.connect(path) as database:
        database.execute("update task set data = ?", [bytes(stored).replace(b"ana", b"mal")])
    with pytest.raises(ValueError, match=r"."):
        queue.dequeue()
    assert ran == ["ANA"]


@pytest.fixture
def damaged(tmp_path: Path) -> Queue:
    path = tmp_path / "queue.sqlite3"
    path.write_bytes(b"x" * 9_000)
    return Queue("test", filename=str(path), serializer=SignedJsonSerializer(secret=SECRET), results=False)


@pytest.mark.parametrize("use", [Queue.flush, Queue.pending_count, Queue.dequeue, lambda queue: queue.put("key", 1)])
def test_a_damaged_file_is_one_sentence_at_every_use(damaged: Queue, use: Callable[[Queue], object]) -> None:
    for _ in range(2):
        with pytest.raises(QueueDamaged, match="stop worker and web and delete it"):
            use(damaged)


def test_a_damaged_file_that_is_deleted_is_made_anew_by_the_same_process(damaged: Queue) -> None:
    with pytest.raises(QueueDamaged):
        damaged.flush()
    Path(damaged.storage.filename).unlink()
    damaged.put("key", 1)
    assert damaged.get("key") == 1


def test_a_key_that_is_taken_is_no_damage(tmp_path: Path) -> None:
    queue = Queue("test", filename=str(tmp_path / "queue.sqlite3"), serializer=SignedJsonSerializer(secret=SECRET))
    assert queue.put_if_empty("key", 1)
    assert not queue.put_if_empty("key", 2)


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
