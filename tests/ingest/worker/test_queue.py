"""Messages on the queue: JSON that is signed, so that nobody but web and worker can make the worker run anything."""

import json
import pickle
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from huey import SqliteHuey
from huey.registry import Message
from hypothesis import given
from hypothesis import strategies as st

from ingest.worker.runtime import Queue, QueueDamaged, SignedJsonSerializer, huey

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
