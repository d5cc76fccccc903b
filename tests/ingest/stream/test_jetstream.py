"""The listener against a Jetstream on loopback that cuts lines, falls silent and sends too much."""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.database import Store
from ingest.stream import jetstream
from ingest.stream.batch import Batch
from ingest.stream.early import Early
from ingest.stream.frames import LARGEST_FRAME
from ingest.stream.jetstream import (
    HEALTHY_SECONDS,
    LONGEST_REST_SECONDS,
    LONGEST_WAIT_SECONDS,
    Chunk,
    Hosts,
    Inbox,
    Listener,
    Subscription,
)
from ingest.stream.load import Loaded, store_batch
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


def test_the_stream_is_read_from_its_beginning_and_followed(store: Store, listen: Start) -> None:
    frames, loaded = written(), threading.Event()
    with peer(frames, hold_after=100) as server:
        listener = listen(server.url, on_loaded=loaded.set)
        wait_for_frame(store, 99)
        assert loaded.wait(LONG_SECONDS)
        server.release(None)
        wait_for_frame(store, 299)
        wait_for(lambda: listener.quiet_for() > 0)
        assert listener.problem is None
    assert_whole(store, frames)


def test_a_new_listener_goes_on_where_the_last_one_stopped(store: Store, listen: Start) -> None:
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
    assert_whole(store, frames)


def test_cut_connections_lose_nothing_and_double_nothing(store: Store, listen: Start) -> None:
    frames = written()
    with peer(frames, hold_after=0) as server:
        listen(server.url)
        for released in range(50, 301, 50):
            server.release(released)
            time.sleep(0.02)
            server.drop_connections()
        wait_for_frame(store, 299)
    assert_whole(store, frames)


def test_a_dead_peer_is_a_problem_in_words_until_it_is_back(store: Store, listen: Start) -> None:
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
    assert_whole(store, frames)


def test_a_refused_subscription_is_a_problem_in_words(listen: Start) -> None:
    with peer(written(10)) as server:
        listener = listen(server.url, collections=["not a collection"])
        wait_for(lambda: "400" in (listener.problem or ""))


def test_stopping_stores_what_is_in_hand(store: Store, listen: Start, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert_whole(store, frames)


def test_stopping_while_a_batch_is_being_stored_stores_it_once(
    store: Store, listen: Start, monkeypatch: pytest.MonkeyPatch
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
    assert_whole(store, Frames(frames[:stored]))


def test_a_stop_before_anything_began_ends_at_once(store: Store) -> None:
    listener = Listener(store, Subscription(SOURCE, ["ws://127.0.0.1:1/subscribe"], ()), lambda: None)
    listener.start()
    with ends_by_itself():
        listener.stop()


def test_a_store_that_fails_for_a_while_loses_nothing(
    store: Store, listen: Start, monkeypatch: pytest.MonkeyPatch
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
    assert_whole(store, frames)


def test_a_slow_store_holds_the_peer_back_instead_of_filling_memory(
    store: Store, listen: Start, monkeypatch: pytest.MonkeyPatch
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
    assert_whole(store, frames)


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


def test_a_listener_without_an_address_is_refused_at_once(store: Store) -> None:
    with pytest.raises(ValueError, match=r"There is no address to listen to: give at least one"):
        Listener(store, Subscription(SOURCE, [], ()), lambda: None)


def test_a_wrong_address_is_a_problem_in_words_and_the_next_one_is_tried(store: Store, listen: Start) -> None:
    port, bracket, long = "ws://127.0.0.1:99999/", "ws://[::1/", f"ws://{'a' * 70}.test/"
    wrong = ["", "nonsense", "http://127.0.0.1/subscribe", bracket, port, long]
    for url in wrong:
        alone = listen(url)
        wait_for(lambda alone=alone: alone.problem is not None)
        assert alone.is_alive()
        assert url in (alone.problem or "")
        alone.stop()
        assert alone.ended_because is None
    with peer(written(20)) as server:
        listen(*wrong, server.url)
        wait_for_frame(store, 19)


def test_a_proxy_that_cannot_be_used_is_a_problem_in_words(listen: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ws_proxy", "socks5://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    monkeypatch.setenv("socks_proxy", "socks5://127.0.0.1:1")
    listener = listen("ws://stream.example.test/subscribe")
    wait_for(lambda: listener.problem is not None)
    assert "check it and the proxy settings" in (listener.problem or "")
    assert listener.is_alive()


def test_a_queue_that_cannot_be_written_for_a_while_ends_nothing(store: Store, listen: Start) -> None:
    calls = 0

    def wake() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise sqlite3.OperationalError("database or disk is full")

    with peer(written(20)) as server:
        listener = listen(server.url, on_loaded=wake)
        wait_for(lambda: calls >= 3)
        assert listener.is_alive()
    assert cursor(store) > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_the_program_is_told_and_a_renewed_listener_goes_on(store: Store, listen: Start) -> None:
    broken = True

    def wake() -> None:
        if broken:
            raise KeyError("a fault")

    frames = written(40)
    with peer(frames, hold_after=20) as server:
        listener = listen(server.url, on_loaded=wake)
        wait_for(lambda: not listener.is_alive())
        assert "ended by an error in the program ('a fault')" in (listener.ended_because or "")
        assert listener.problem == listener.ended_because
        broken = False
        server.release(None)
        renewed = listener.renewed()
        assert renewed.ended_because is None
        renewed.start()
        try:
            wait_for_frame(store, 39)
        finally:
            renewed.stop()
        assert (renewed.is_alive(), renewed.ended_because) == (False, None)


A, B, C = "wss://a.test/subscribe", "wss://b.test/subscribe", "wss://c.test/subscribe"


def plain(*urls: str) -> Hosts:
    return Hosts(urls, jitter=lambda: 1.0)


def play(hosts: Hosts, lasts: dict[str, float], turns: int) -> tuple[Counter[str], list[float], float]:
    """How often each host was asked, the waits, and the time it took, when a connection to each lasts so long."""
    asked: Counter[str] = Counter()
    url, now, waits = hosts.first(), 0.0, []
    for _ in range(turns):
        asked[url] += 1
        now += lasts[url]
        url, wait = hosts.after(url, lasts[url], now)
        waits.append(wait)
        now += wait
    return asked, waits, now


def test_hosts_that_work_take_turns() -> None:
    asked, waits, _ = play(plain(A, B, C), dict.fromkeys((A, B, C), 3600.0), 30)
    assert asked == {A: 10, B: 10, C: 10}
    assert set(waits) == {0.25}


def test_hosts_that_all_fail_take_turns_and_one_is_asked_every_30_seconds_at_least() -> None:
    asked, waits, _ = play(plain(A, B, C), dict.fromkeys((A, B, C), 0.0), 300)
    assert asked == {A: 100, B: 100, C: 100}
    assert max(waits) <= LONGEST_WAIT_SECONDS
    assert sum(waits[:9]) < 15


def test_a_lone_host_is_asked_again_after_longer_and_longer_waits() -> None:
    _, waits, _ = play(plain(A), {A: 0.0}, 10)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]


def test_a_host_that_fails_rests_longer_than_one_that_works() -> None:
    asked, _, seconds = play(plain(A, B), {A: 0.0, B: 60.0}, 200)
    assert asked[B] > 4 * asked[A]
    assert asked[A] >= seconds / (4 * LONGEST_REST_SECONDS), "it is still asked now and then"


def test_a_connection_that_held_clears_what_its_host_failed_before() -> None:
    hosts = plain(A)
    for _ in range(20):
        hosts.after(A, 0.0, 0.0)
    assert hosts.after(A, HEALTHY_SECONDS, 1000.0) == (A, 0.25)
    assert hosts.after(A, 0.0, 1001.0) == (A, 0.5)


def test_a_host_named_twice_is_asked_like_any_other() -> None:
    asked, _, _ = play(plain(A, A, B), {A: 0.0, B: 0.0}, 40)
    assert min(asked[A], asked[B]) >= 10


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0.5, 1.0)), min_size=1, max_size=100),
    st.integers(1, 5),
)
def test_every_wait_is_bounded_and_no_host_is_forgotten(spells: list[tuple[float, float]], count: int) -> None:
    urls = [f"wss://{number}.test" for number in range(count)]
    jitters = iter([jitter for _, jitter in spells for _ in range(2)])
    hosts = Hosts(urls, jitter=lambda: next(jitters))
    url, now = hosts.first(), 0.0
    for lasted, _ in spells:
        now += lasted
        url, wait = hosts.after(url, lasted, now)
        assert url in urls
        assert 0.1249 <= wait <= LONGEST_WAIT_SECONDS
        now += wait
