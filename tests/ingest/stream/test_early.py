"""Frames dated ahead of the machine's clock: none moves the cursor, none is lost, and a slow clock is called slow."""

import json
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.clock import from_microseconds, to_microseconds
from ingest.records.dead_letters import LetterBound
from ingest.store.database import Store
from ingest.stream.batch import read_batch
from ingest.stream.early import AGREEING, AHEAD, MOST_WAITING, REWIND_US, EarlyFrames, reset_future_cursor
from ingest.stream.frames import LARGEST_FRAME, Frame, as_commit, read_frames
from ingest.stream.jetstream import Listener
from ingest.stream.knots import begin
from ingest.stream.load import EARLY, load, store_batch
from ingest.stream.reread_letters import Retried, read_due_frames, retry_dead_letters
from tests.conftest import Count
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import (
    ANA,
    FIRST_US,
    MALLORY,
    MARA,
    SEED,
    SOURCE,
    Frames,
    at,
    digest_of,
    letters,
    open_gaps,
    rows,
    settled,
)
from tests.ingest.stream.listening import Start, cursor, listening, wait_for_frame, written
from tests.standins.jetstream_v2 import JetstreamV2
from tests.stores import fresh_store
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import Recording, make_recording

pytestmark = pytest.mark.usefixtures("fast")

SECOND = 1_000_000
FAR_US = to_microseconds(datetime(2099, 12, 31, 23, 59, 58))
HOUR = timedelta(hours=1)
Peer = Callable[[Recording, int | None], Jetstream]
PEERS: list[Peer] = [Jetstream, JetstreamV2]
COUNT = "select count(*) from events"
DENOUNCED = (
    "select count(*) from vouches v join contributors c on c.contributor_id = v.subject_id where kind = 'denounce'"
)


class Clock:
    """The wall clock of a store, set by the test."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(store: Store) -> Clock:
    """The store's clock: an hour after the first frame."""
    store.wall = clock = Clock(at(3_600))
    return clock


def dated(frame: bytes, time_us: int) -> bytes:
    """The frame with another time."""
    return json.dumps(json.loads(frame) | {"time_us": time_us}).encode()


def record_of(frame: bytes) -> str:
    """The text of a frame's record, byte by byte."""
    (read,) = read_frames([frame])
    assert isinstance(read, Frame)
    return bytes(as_commit(read).record).decode()


def served(peer: Peer, frames: list[bytes], hold_after: int | None = None, step_us: int = SECOND) -> Jetstream:
    """A server that sends these frames in this order, whatever their times say."""
    recording = make_recording(frames, {}, (), ())
    times = [FIRST_US + place * step_us for place in range(len(frames))]
    return peer(replace(recording, frames=frames, times=times), hold_after)


def early_vouch(time_us: int, **record: str) -> bytes:
    frames = Frames()
    frames.vouch(MALLORY, MARA, **record)
    return dated(frames[0], time_us)


def waiting(store: Store) -> list[datetime]:
    """When the early frames are due."""
    found = rows(store, "select due_clock from dead_letters where due_clock is not null order by due_clock")
    return [due for (due,) in found]


@pytest.mark.parametrize("peer", PEERS)
def test_a_frame_of_2099_costs_nothing_that_is_written_while_the_socket_is_down(
    store: Store, clock: Clock, live: Start, peer: Peer
) -> None:
    frames = written(60)
    frames.vouch(SEED, MALLORY, kind="denounce")
    frames[40] = early_vouch(FAR_US)
    with served(peer, frames, hold_after=60) as server:
        live(server.url)
        wait_for_frame(store, 59)
        assert cursor(store) == FIRST_US + 59 * SECOND
        server.drop_connections()
        server.release(61)  # what was written meanwhile: a server that is asked for 2099 passes it over
        wait_for_frame(store, 60)
    settled(store)
    assert rows(store, DENOUNCED) == [(1,)]
    assert waiting(store) == [from_microseconds(FAR_US)]
    assert letters(store) == [EARLY]
    assert [gap for gap in open_gaps(store) if gap[0]] == []


def test_an_early_frame_is_kept_whole_and_read_once_its_time_has_come(store: Store, clock: Clock) -> None:
    load(store, SOURCE, written(20))
    before = cursor(store)
    text = early_vouch(to_microseconds(clock.now + HOUR), reason="<" * 950_000)
    escaped = text.replace(b"<", rb"\u003c")
    assert 5_700_000 < len(escaped) < LARGEST_FRAME
    divided = EarlyFrames().divide(read_batch([escaped]), to_microseconds(clock.now))
    store_batch(store, SOURCE, divided.batch, divided.early)
    store.checkpoint()
    assert cursor(store) == before
    assert read_due_frames(store) == 0
    assert retry_dead_letters(store) == Retried(0, 0, 1)
    assert waiting(store) == [clock.now + HOUR]
    clock.now += HOUR
    assert read_due_frames(store) == 1
    settled(store)
    assert letters(store) == []
    ((body, seen_at),) = rows(store, "select body, seen_at from events where did = ?", MALLORY)
    assert (store.long_texts.read(body), seen_at) == (record_of(escaped), clock.now)
    assert cursor(store) == before, "what a connection has yet to bring may be older"


def test_an_early_frame_that_cannot_be_read_is_an_ordinary_letter_once_it_is_due(store: Store, clock: Clock) -> None:
    broken = b'{"did": 7, "time_us": %d, "kind": "commit"}' % to_microseconds(clock.now + HOUR)
    divided = EarlyFrames().divide(read_batch([broken]), to_microseconds(clock.now))
    store_batch(store, SOURCE, divided.batch, divided.early)
    assert cursor(store) == 0
    clock.now += HOUR
    assert read_due_frames(store) == 1
    assert waiting(store) == []
    assert letters(store)[0].startswith("a frame that cannot be read")


def test_early_frames_are_bounded_and_the_last_due_go_first(store: Store, clock: Clock) -> None:
    now_us = to_microseconds(clock.now)
    frames = [
        early_vouch(now_us + number * 3_600 * SECOND, reason=str(number)) for number in range(1, MOST_WAITING + 101)
    ]
    finder = EarlyFrames()
    for begins in range(0, len(frames), 100):
        on_time = dated(written(1)[0], now_us)
        divided = finder.divide(read_batch([*frames[begins : begins + 100][::-1], on_time]), now_us)
        store_batch(store, SOURCE, divided.batch, divided.early)
    kept = waiting(store)
    assert kept == [clock.now + number * HOUR for number in range(1, MOST_WAITING + 1)]
    assert LetterBound(store, 10_000).dropped == 100
    load(store, SOURCE, [b"no frame %d" % number for number in range(MOST_WAITING)])
    LetterBound(store, MOST_WAITING + 100).keep()
    assert waiting(store) == kept, "noise pushes no early frame out"


def test_early_frames_are_bounded_in_bytes(store: Store, clock: Clock) -> None:
    now_us = to_microseconds(clock.now)
    for number in range(1, 8):
        large = early_vouch(now_us + number * 3_600 * SECOND, reason="x" * 9_000_000)
        divided = EarlyFrames().divide(read_batch([large]), now_us)
        store_batch(store, SOURCE, divided.batch, divided.early)
    assert waiting(store) == [clock.now + number * HOUR for number in (1, 2, 3)]
    store.checkpoint()


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("size", [100, MOST_WAITING + 300])
def test_a_machine_whose_clock_is_slow_says_so_and_loses_nothing(
    store: Store, clock: Clock, live: Start, open_store: Open, peer: Peer, size: int
) -> None:
    frames, whole = written(size), open_store("whole")
    load(whole, SOURCE, frames)
    load(store, SOURCE, frames[:30])
    clock.now = at(30) - 3 * HOUR - AHEAD
    with served(peer, frames) as server:
        listener = live(server.url)
        wait_for(lambda: listener.clock_behind_minutes >= 180)
        if size > MOST_WAITING:
            wait_for(lambda: "set it by NTP" in (listener.problem or ""))
        assert cursor(store) == FIRST_US + 29 * SECOND
        assert [gap for gap in open_gaps(store) if gap[0]] == []
        clock.now += 4 * HOUR
        if size > MOST_WAITING:
            wait_for_frame(store, size - 1)
        wait_for(lambda: not read_due_frames(store) and rows(store, COUNT) == rows(whole, COUNT))
    told, expected = digest_of(store), digest_of(whole)
    assert {table for table in told if told[table] != expected[table]} <= {"gaps", "ingest_state"}


@pytest.mark.parametrize("peer", PEERS)
def test_a_burst_of_early_frames_holds_nothing_up(store: Store, clock: Clock, live: Start, peer: Peer) -> None:
    frames = written(900)
    clock.now = at(1_000)
    burst = [
        early_vouch(to_microseconds(clock.now + HOUR) + number, reason=str(number)) for number in range(MOST_WAITING)
    ]
    with served(peer, [*frames[:300], *burst, *frames[300:]]) as server:
        live(server.url)
        wait_for_frame(store, 899)
    assert len(waiting(store)) == MOST_WAITING


def test_frames_too_far_ahead_for_any_clock_never_end_a_connection(clock: Clock) -> None:
    finder, now_us = EarlyFrames(), to_microseconds(clock.now)
    far = [early_vouch(FAR_US + number) for number in range(2 * MOST_WAITING)]
    divided = finder.divide(read_batch(far), now_us)
    assert (divided.ends, finder.behind_us, len(divided.early)) == (False, 0, len(far))


@pytest.mark.parametrize("peer", PEERS)
def test_a_store_whose_cursor_is_in_the_future_goes_on_from_now_with_a_gap(
    store: Store, clock: Clock, live: Start, peer: Peer
) -> None:
    frames = written(700)
    clock.now = at(400)
    load(store, SOURCE, [*frames[:400], early_vouch(FAR_US)])  # as an older version took it in
    assert cursor(store) == FAR_US
    with served(peer, frames, hold_after=500) as server:
        live(server.url)
        wait_for(lambda: cursor(store) == FIRST_US + 499 * SECOND)
    (reason,) = rows(store, "select reason from gaps")
    assert reason == ("the cursor was at 2099-12-31 23:59:58, in the future, and was reset to now",)


def test_the_gap_of_a_reset_begins_with_the_frame_that_moved_the_cursor(store: Store, clock: Clock) -> None:
    load(store, SOURCE, written(20))
    clock.now = at(4_000)
    load(store, SOURCE, [early_vouch(FAR_US)])
    clock.now = at(9_000)
    load(store, SOURCE, written(30)[20:])
    gap = reset_future_cursor(store, SOURCE)
    assert gap is not None
    assert (gap.from_us, gap.to_us) == (to_microseconds(at(4_000)), to_microseconds(at(9_000)))
    assert open_gaps(store) == [(gap.from_us, gap.to_us)]
    assert cursor(store) == gap.to_us
    assert reset_future_cursor(store, SOURCE) is None


def test_a_reset_without_a_trace_of_the_frame_is_a_gap_from_the_beginning(store: Store, clock: Clock) -> None:
    with store.write() as txn:
        txn.execute("update ingest_state set cursor_us = ?, moved_clock = ?", [FAR_US, clock.now])
    reset_future_cursor(store, SOURCE)
    assert open_gaps(store) == [(0, to_microseconds(clock.now))]


def test_a_clock_that_was_set_back_resets_no_cursor(store: Store, clock: Clock) -> None:
    load(store, SOURCE, written(20))
    clock.now = at(0) - 3 * HOUR
    assert reset_future_cursor(store, SOURCE) is None
    assert cursor(store) == FIRST_US + 19 * SECOND
    assert open_gaps(store) == []


def test_a_cursor_is_reset_exactly_where_it_lies_in_the_future_and_the_gap_reaches_from_there_to_now(
    store: Store, clock: Clock, count: Count
) -> None:
    draw, spans = random.Random(5), [timedelta(0), AHEAD - MICROSECOND, AHEAD, AHEAD + MICROSECOND, HOUR, 30 * HOUR]
    for number in range(count(60, 3000)):
        clock.now += timedelta(seconds=1)
        before = clock.now + draw.choice([-1, 1]) * draw.choice(spans)
        moved = clock.now + draw.choice([-1, 1]) * draw.choice(spans)
        with store.write() as txn:
            txn.execute("delete from gaps")
            txn.execute("update ingest_state set cursor_us = ?, moved_clock = ?", [to_microseconds(before), moved])
        gap, now_us = reset_future_cursor(store, SOURCE), to_microseconds(clock.now)
        is_ahead = before > max(clock.now, moved) + AHEAD
        assert (gap is not None) == is_ahead, (number, before, moved)
        assert cursor(store) == (now_us if is_ahead else to_microseconds(before))
        assert open_gaps(store) == ([(0, now_us)] if is_ahead else [])


@pytest.mark.parametrize("peer", PEERS)
def test_a_recording_may_lie_in_the_future(store: Store, clock: Clock, peer: Peer) -> None:
    clock.now = datetime(2020, 1, 1)
    frames = written(100)
    with served(peer, frames) as server, listening(store, server.url):
        wait_for_frame(store, 99)
    assert (letters(store), open_gaps(store)) == ([], [])


def test_a_server_a_few_minutes_ahead_is_never_asked_for_the_future(store: Store, clock: Clock, live: Start) -> None:
    frames = written(100)
    clock.now = at(99) - timedelta(minutes=4)
    with served(JetstreamV2, frames) as server:
        load(store, SOURCE, frames[:50])
        live(server.url)
        wait_for_frame(store, 99)
        assert isinstance(server, JetstreamV2)
        assert server.asked == [to_microseconds(clock.now - AHEAD) - REWIND_US]


def test_a_host_of_events_is_never_asked_for_the_future(store: Store, clock: Clock) -> None:
    ahead = to_microseconds(clock.now + timedelta(minutes=50)) * 1_000
    with store.write() as txn:
        txn.execute("insert into event_streams values ('knot.test', ?, ?)", [ahead, clock.now])
    assert begin(store, "knot.test") == to_microseconds(clock.now) * 1_000


MICROSECOND = timedelta(microseconds=1)
STEP_US = 20 * SECOND  # between two frames of a game: 5 minutes are 15 of them


def mixed(draw: random.Random, now_us: int) -> list[bytes]:
    """Return a server's frames in order of time, before, at and ahead of the clock, some of them dated ahead.

    Some of these are too far ahead to be taken in, others pass for on time; of the latter fewer than AGREEING in a row.
    """
    latest = now_us + AHEAD // MICROSECOND
    frames, in_a_row = Frames(), 0
    for place in range(40):
        frames.vouch(ANA, f"did:plc:{place:024d}")
        kind = draw.choices(["plain", "early", "ahead"], [0.5, 0.2, 0.3])[0]
        if kind == "early":
            frames[place] = dated(frames[place], draw.choice([latest + 1, latest + draw.randrange(1, 10**12), FAR_US]))
        elif kind == "ahead" and in_a_row < AGREEING - 1:
            frames[place] = dated(frames[place], draw.choice([latest, now_us, now_us + draw.randrange(240) * SECOND]))
            in_a_row += 1
        else:
            frames[place] = dated(frames[place], FIRST_US + place * STEP_US)
            in_a_row = 0
    return frames


def taken_in(store: Store) -> int:
    """Return how many frames are in the log or wait to enter it."""
    return rows(store, COUNT)[0][0] + len(waiting(store))


def wait_for_frames(store: Store, number: int) -> None:
    wait_for(lambda: taken_in(store) == number)


@pytest.mark.parametrize("peer", PEERS)
def test_frames_at_before_and_ahead_of_the_clock_in_any_order_all_arrive_and_move_no_cursor_far(
    tmp_path: Path, peer: Peer, count: Count
) -> None:
    for seed in range(count(2, 60)):
        draw = random.Random(seed)
        clock = Clock(at(20 * draw.randrange(40)))
        frames = mixed(draw, to_microseconds(clock.now))
        first = draw.randrange(1, len(frames))
        with closing(fresh_store(tmp_path / str(seed) / "trust.duckdb")) as store:
            store.bind(SOURCE)
            store.wall = clock
            with (
                served(peer, frames, hold_after=first, step_us=STEP_US) as server,
                listening(store, server.url, quiet=60.0),
            ):
                wait_for_frames(store, first)
                server.drop_connections()
                server.release(None)
                wait_for_frames(store, len(frames))
            moved = cursor(store)
            assert moved <= to_microseconds(clock.now + AHEAD), seed
            clock.now = from_microseconds(FAR_US)
            read_due_frames(store)
            assert (taken_in(store), letters(store), cursor(store)) == (len(frames), [], moved), seed


def test_what_one_server_dates_later_than_the_next_is_asked_for_again(store: Store, clock: Clock, live: Start) -> None:
    frames = written(600)
    clock.now = at(600)
    late = [dated(frame, FIRST_US + (place + 240) * SECOND) for place, frame in enumerate(frames[:300])]
    with served(Jetstream, late) as first, served(JetstreamV2, frames, hold_after=600) as second:
        live(first.url, second.url)
        wait_for_frames(store, 270)
        first.close()
        wait_for_frames(store, 540)


def test_a_server_whose_clock_was_set_back_is_asked_for_what_it_sends_since(
    store: Store, clock: Clock, live: Start
) -> None:
    frames = written(400)
    clock.now = at(200)
    for place in range(200):
        frames[place] = dated(frames[place], FIRST_US + (place + 240) * SECOND)
    with served(Jetstream, frames, hold_after=200) as server:
        live(server.url)
        wait_for_frames(store, 180)
        clock.now = at(300)
        server.drop_connections()
        server.release(400)
        wait_for_frames(store, 360)


@pytest.mark.parametrize("peer", PEERS)
def test_a_listener_that_begins_again_at_the_same_server_asks_for_five_seconds_only(
    store: Store, clock: Clock, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    follow = Listener._follow
    monkeypatch.setattr(Listener, "_follow", lambda *arguments: asked.append(arguments[2]) or follow(*arguments))
    frames, is_v2 = written(500), peer is JetstreamV2
    with served(peer, frames, hold_after=400) as server:
        for number in (399, 499):
            with listening(store, server.url, quiet=60.0):
                wait_for_frame(store, number)
            server.release(500)
    again = asked[1:]
    assert again == ([400] if is_v2 else [FIRST_US + 399 * SECOND - REWIND_US])
