"""A gap of the stream is noticed when a connection begins, kept before anything behind it, and kept once."""

import time
from datetime import datetime

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.database import Store
from ingest.stream import jetstream
from ingest.stream.batch import Batch
from ingest.stream.early import NOTHING_BEFORE, Gap, find_gap, first_time, record_gap
from ingest.stream.load import Loaded, load, store_batch
from tests.ingest.stream.frames import FIRST_US, SOURCE, STRANGER, Frames, open_gaps, rows
from tests.ingest.stream.listening import Start, cursor, peer, wait_for_frame, written
from tests.waiting import wait_for

SECOND = 1_000_000


def kept(store: Store) -> list[tuple[int, int]]:
    """The open gaps in seconds after the first frame."""
    return [((since - FIRST_US) // SECOND, (until - FIRST_US) // SECOND) for since, until in open_gaps(store)]


def clamped(frames: Frames, oldest: int) -> Frames:
    """What a server that keeps less has of the stream."""
    return Frames(frames[oldest:])


def test_a_first_start_is_a_gap_from_the_beginning_of_time(store: Store, live: Start) -> None:
    found: list[Gap] = []
    with peer(written(20)) as server:
        live(server.url, on_gap=found.append)
        wait_for_frame(store, 19)
    assert found == [Gap(SOURCE, 0, FIRST_US, NOTHING_BEFORE)]


def test_a_recording_has_no_gaps_however_sparse_it_is(store: Store, live: Start) -> None:
    frames = written(600)
    load(store, SOURCE, frames[:10])
    with peer(clamped(frames, 500)) as server:
        live(server.url, quiet=None, on_gap=lambda gap: pytest.fail("a gap in a recording"))
        wait_for_frame(store, 599)
    assert kept(store) == []


def test_a_server_that_began_later_than_asked_leaves_a_gap_which_is_told_once(store: Store, live: Start) -> None:
    frames, found = written(400), list[Gap]()
    load(store, SOURCE, frames[:100])
    with peer(clamped(frames, 300), hold_after=50) as server:
        live(server.url, on_gap=found.append)
        wait_for_frame(store, 349)
        for released in (60, 70, 100):  # again and again at another cursor, which is behind the gap by then
            server.drop_connections()
            server.release(released)
            wait_for_frame(store, 299 + released)
    assert kept(store) == [(99, 300)]
    assert [(gap.from_us, gap.to_us) for gap in found] == [(FIRST_US + 99 * SECOND, FIRST_US + 300 * SECOND)]
    assert "the server began at 2026-09-21 14:18:20" in found[0].reason


def test_a_stream_that_was_quiet_for_a_minute_has_no_gap(store: Store, live: Start) -> None:
    frames = written(200)
    load(store, SOURCE, frames[:100])
    with peer(clamped(frames, 159)) as server:
        live(server.url)
        wait_for_frame(store, 199)
    assert kept(store) == []


def test_a_host_that_keeps_less_shows_a_gap_that_the_other_would_not(store: Store, live: Start) -> None:
    frames = written(400)
    with peer(frames, hold_after=100) as whole, peer(clamped(frames, 300)) as short:
        first = live(whole.url)
        wait_for_frame(store, 99)
        first.stop()
        live(short.url)
        wait_for_frame(store, 399)
    assert kept(store)[1:] == [(99, 300)]


def test_a_gap_is_kept_before_what_is_behind_it_and_a_failure_between_loses_neither(
    store: Store, live: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = written(400)
    load(store, SOURCE, frames[:100])
    seen: list[list[tuple[int, int]]] = []

    def failing(*arguments: object) -> Loaded:
        seen.append(kept(store))
        if len(seen) < 4:
            raise duckdb.IOException("the process might as well have been killed here")
        return store_batch(*arguments)  # ty: ignore[invalid-argument-type]

    monkeypatch.setattr(jetstream, "store_batch", failing)
    told: list[Gap] = []
    with peer(clamped(frames, 300)) as server:
        live(server.url, on_gap=told.append)
        wait_for_frame(store, 399)
    assert seen[:4] == [[(99, 300)]] * 4
    assert len(told) == 1


def test_a_gap_that_cannot_be_written_keeps_what_is_behind_it_out(
    store: Store, live: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = written(400)
    load(store, SOURCE, frames[:100])

    def full(*arguments: object) -> bool:
        raise duckdb.IOException("no space left on device")

    monkeypatch.setattr(jetstream, "record_gap", full)
    with peer(clamped(frames, 300)) as server:
        listener = live(server.url)
        wait_for(lambda: listener.store_failed)
        assert cursor(store) == FIRST_US + 99 * SECOND
        monkeypatch.setattr(jetstream, "record_gap", record_gap)
        wait_for_frame(store, 399)
    assert kept(store) == [(99, 300)]


def test_frames_without_a_time_do_not_hide_a_gap(store: Store, live: Start) -> None:
    frames = written(400)
    load(store, SOURCE, frames[:100])
    with peer(Frames([b"no frame", b'{"time_us": "late"}', *clamped(frames, 300)])) as server:
        live(server.url)
        wait_for_frame(store, 399)
    assert kept(store) == [(99, 300)]


def test_a_gap_that_turns_out_longer_after_it_was_filled_is_open_again(store: Store) -> None:
    assert record_gap(store, Gap(SOURCE, 1, 100, "began late"))
    assert not record_gap(store, Gap(SOURCE, 1, 100, "began late"))
    assert not record_gap(store, Gap(SOURCE, 1, 50, "began late"))
    with store.write() as txn:
        txn.execute("update gaps set filled_clock = ?", [datetime(2026, 1, 1)])
    assert not record_gap(store, Gap(SOURCE, 1, 100, "began late"))
    assert open_gaps(store) == []
    assert record_gap(store, Gap(SOURCE, 1, 200, "began later still"))
    assert open_gaps(store) == [(1, 200)]
    assert rows(store, "select reason from gaps") == [("began later still",)]


@given(st.integers(0, 4 * 10**15), st.integers(0, 4 * 10**15))
def test_what_is_found_is_exactly_the_span_between_two_frames(cursor_us: int, first_us: int) -> None:
    gap = find_gap(SOURCE, cursor_us, first_us, 60.0)
    if gap is not None:
        assert (gap.from_us, gap.to_us) == (cursor_us, first_us)
    assert (gap is not None) == (cursor_us == 0 or first_us > cursor_us + 60 * SECOND)


@given(st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=40)), max_size=10))
def test_no_frame_breaks_the_search_for_the_first_time(frames: list[bytes | str]) -> None:
    time_us = first_time(Batch([*frames, b'{"time_us": 1790000000000000}']))
    assert time_us is not None
    assert time_us >= 946_684_800_000_000


def test_a_half_dead_host_that_only_answers_pings_is_left_for_the_next(store: Store, live: Start) -> None:
    frames = written(300)
    with peer(frames, hold_after=100) as silent, peer(frames) as lively:
        listener = live(silent.url, lively.url, quiet=0.4)
        problems: set[str | None] = set()
        wait_for(lambda: problems.add(listener.problem) or cursor(store) >= FIRST_US + 299 * SECOND)
    assert any("has sent nothing for" in (problem or "") for problem in problems)


def test_a_store_that_is_slow_for_longer_than_the_stream_is_quiet_is_no_silence(
    store: Store, live: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    silences: list[str] = []

    def slow(*arguments: object) -> Loaded:
        time.sleep(1.8)
        return store_batch(*arguments)  # ty: ignore[invalid-argument-type]

    def stored() -> bool:
        silences.extend(problem for problem in [listener.problem] if problem and "sent nothing" in problem)
        return cursor(store) >= FIRST_US + 49 * SECOND

    monkeypatch.setattr(jetstream, "store_batch", slow)
    monkeypatch.setattr(jetstream, "FLUSH_ROWS", 25)
    with peer(written(50)) as server:
        listener = live(server.url, quiet=1.5)
        wait_for(stored)
    assert silences == []


def test_a_sparse_stream_moves_the_cursor_with_the_account_events_of_strangers(store: Store, live: Start) -> None:
    frames = written(20)
    for _ in range(200):
        frames.identity(STRANGER)
    with peer(frames) as server:
        listener = live(server.url)
        wait_for_frame(store, 219)
        wait_for(lambda: listener.cursor_us == FIRST_US + 219 * SECOND)
    assert rows(store, "select count(*) from events") == [(18,)]
    assert rows(store, "select dropped_strangers from ingest_state")[0][0] >= 200
