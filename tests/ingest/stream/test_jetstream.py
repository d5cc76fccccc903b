"""The listener against a Jetstream on loopback that cuts lines, falls silent and sends too much."""

import asyncio
import threading
import time
from collections.abc import Sequence

import duckdb
import pytest

from ingest.store.database import Store
from ingest.stream import jetstream
from ingest.stream.batch import Batch
from ingest.stream.early import Early
from ingest.stream.frames import LARGEST_FRAME
from ingest.stream.jetstream import Chunk, Inbox, Listener, Subscription
from ingest.stream.load import Loaded, store_batch
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import (
    FIRST_US,
    MARA,
    SOURCE,
    Frames,
    letters,
    rows,
)
from tests.ingest.stream.listening import (
    Start,
    assert_whole,
    cursor,
    peer,
    wait_for_frame,
    written,
)
from tests.waiting import LONG_SECONDS, ends_by_itself, wait_for


def test_the_stream_is_read_from_its_beginning_and_followed(store: Store, listen: Start, open_store: Open) -> None:
    frames, loaded = written(), threading.Event()
    with peer(frames, hold_after=100) as server:
        listener = listen(server.url, on_loaded=loaded.set)
        wait_for_frame(store, 99)
        assert loaded.wait(LONG_SECONDS)
        server.release(None)
        wait_for_frame(store, 299)
        wait_for(lambda: listener.quiet_for() > 0)
        assert listener.problem is None
    assert_whole(store, frames, open_store("other"))


def test_a_new_listener_goes_on_where_the_last_one_stopped(store: Store, listen: Start, open_store: Open) -> None:
    frames = written()
    with peer(frames, hold_after=150) as server:
        listener = listen(server.url)
        wait_for_frame(store, 149)
        listener.stop()
        server.release(None)
        time.sleep(0.1)
        assert cursor(store) == FIRST_US + 149 * 1_000_000
        listen(server.url)
        wait_for_frame(store, 299)
    assert_whole(store, frames, open_store("other"))


def test_cut_connections_lose_nothing_and_double_nothing(store: Store, listen: Start, open_store: Open) -> None:
    frames = written()
    with peer(frames, hold_after=0) as server:
        listen(server.url)
        for released in range(50, 301, 50):
            server.release(released)
            time.sleep(0.02)
            server.drop_connections()
        wait_for_frame(store, 299)
    assert_whole(store, frames, open_store("other"))


def test_a_dead_peer_is_a_problem_in_words_until_it_is_back(store: Store, listen: Start, open_store: Open) -> None:
    frames = written()
    with peer(frames) as gone:
        url = gone.url
    listener = listen(url)
    wait_for(lambda: listener.problem is not None)
    assert listener.problem == f"{url} is not answering (nothing listens there, or it refused the connection)"
    assert listener.is_alive()
    with peer(frames) as alive:
        listener.stop()
        # Of several hosts the next one is tried.
        listener = listen(url, alive.url)
        wait_for_frame(store, 299)
        wait_for(lambda: listener.problem is None)  # which is taken back after the commit
    assert_whole(store, frames, open_store("other"))


def test_a_refused_subscription_is_a_problem_in_words(listen: Start) -> None:
    with peer(written(10)) as server:
        listener = listen(server.url, collections=["not a collection"])
        wait_for(lambda: "400" in (listener.problem or ""))


def test_stopping_stores_what_is_in_hand(
    store: Store, listen: Start, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 60.0)
    monkeypatch.setattr(jetstream, "QUIET_SECONDS", 60.0)
    frames = written()
    with peer(frames) as server:
        listener = listen(server.url)
        wait_for(lambda: listener._pending == 300)
        assert cursor(store) == 0
        assert listener.quiet_for() == 0
        listener.stop()
        assert not listener.is_alive()
    assert_whole(store, frames, open_store("other"))


def test_stopping_while_a_batch_is_being_stored_stores_it_once(
    store: Store, listen: Start, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    def slow(*arguments: object) -> Loaded:
        began.set()
        time.sleep(0.3)
        return store_batch(*arguments)  # ty: ignore[invalid-argument-type]

    monkeypatch.setattr(jetstream, "store_batch", slow)
    frames = written()
    with peer(frames, hold_after=100) as server:
        listener = listen(server.url)
        assert began.wait(LONG_SECONDS)
        server.release(None)
        time.sleep(0.1)
        listener.stop()
    stored = (cursor(store) - FIRST_US) // 1_000_000 + 1
    assert stored >= 100
    assert_whole(store, Frames(frames[:stored]), open_store("other"))


def test_a_stop_before_anything_began_ends_at_once(store: Store) -> None:
    listener = Listener(store, Subscription(SOURCE, ["ws://127.0.0.1:1/subscribe"], ()), lambda: None)
    listener.start()
    with ends_by_itself():
        listener.stop()


def test_a_store_that_fails_for_a_while_loses_nothing(
    store: Store, listen: Start, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0

    def full(*arguments: object) -> Loaded:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise duckdb.IOException("no space left on device")
        return store_batch(*arguments)  # ty: ignore[invalid-argument-type]

    monkeypatch.setattr(jetstream, "store_batch", full)
    problems: set[str | None] = set()
    frames = written()
    with peer(frames) as server:
        listener = listen(server.url)
        wait_for(lambda: problems.add(listener.problem) or cursor(store) >= FIRST_US + 299 * 1_000_000)
    assert any("the store cannot be written" in (problem or "") for problem in problems)
    assert_whole(store, frames, open_store("other"))


def test_a_slow_store_holds_the_peer_back_instead_of_filling_memory(
    store: Store, listen: Start, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "QUEUE_BYTES", 1_000_000)
    monkeypatch.setattr(jetstream, "FLUSH_BYTES", 500_000)
    most = 0

    def slow(store: Store, source: str, batch: Batch, early: Sequence[Early], until_us: int) -> Loaded:
        nonlocal most
        assert (batch.commits.table.nbytes if batch.commits else 0) < 1_300_000
        time.sleep(0.05)
        most = max(most, listener._pending)
        return store_batch(store, source, batch, early, until_us)

    monkeypatch.setattr(jetstream, "store_batch", slow)
    frames = Frames()
    for number in range(200):
        frames.pull(MARA, f"pull{number}", body="x" * 100_000)
    with peer(frames) as server:
        listener = listen(server.url)
        wait_for_frame(store, 199)
    assert most * 100_000 < 4_000_000  # waiting, being read and being stored
    assert_whole(store, frames, open_store("other"))


def test_hostile_frames_do_not_end_the_listener(store: Store, listen: Start) -> None:
    frames = written(20)
    hostile = Frames([b"no frame", frames[3].replace(b"createdAt", b"created\xff"), b'{"time_us": 1}', *frames])
    with peer(hostile) as server:
        listen(server.url)
        wait_for_frame(store, 19)
    assert rows(store, "select count(*) from events") == [(18,)]
    assert len(letters(store)) == 3


def test_a_frame_larger_than_any_record_is_stepped_over_as_a_dead_letter(store: Store, listen: Start) -> None:
    frames = written(20)
    frames.pull(MARA, "huge", body="x" * (LARGEST_FRAME + 1))
    for number in range(20):
        frames.pull(MARA, f"pull{number}")
    with peer(frames) as server:
        listen(server.url)
        wait_for_frame(store, 40)
    assert rows(store, "select count(*) from events") == [(38,)]
    (reason,) = letters(store)
    assert "no record makes more than 16777216" in reason


def test_an_inbox_gives_batches_bounded_in_number_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_ROWS", 3)
    monkeypatch.setattr(jetstream, "FLUSH_BYTES", 10)

    async def play() -> list[list[Chunk]]:
        box = Inbox()
        for frame in (b"1", b"2", b"3", b"4", b"x" * 50, b"5"):
            assert box.put([frame])
        box.end()
        batches = []
        while not box.is_done:
            await box.wait()
            batches.append(box.take())
        return batches

    assert asyncio.run(play()) == [[[b"1"], [b"2"], [b"3"]], [[b"4"], [b"x" * 50]], [[b"5"]]]


def test_an_inbox_has_room_again_once_a_batch_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_ROWS", 2)
    monkeypatch.setattr(jetstream, "QUEUE_FRAMES", 3)

    async def play() -> None:
        box = Inbox()
        assert [box.put([frame]) for frame in (b"1", b"2", b"3")] == [True, True, False]
        waiting = asyncio.create_task(box.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert box.take() == [[b"1"], [b"2"]]
        await asyncio.wait_for(waiting, LONG_SECONDS)
        assert box.put([b"4"])

    asyncio.run(play())


def test_an_inbox_gives_what_it_has_once_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 2 * LONG_SECONDS)

    async def play() -> float:
        box = Inbox()
        began = time.monotonic()
        box.put([b"1"])
        await box.wait()
        assert box.take() == [[b"1"]]
        return time.monotonic() - began

    assert jetstream.QUIET_SECONDS <= asyncio.run(play()) < LONG_SECONDS
