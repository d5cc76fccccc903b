"""Judge streams by the times of their frames: find frames dated ahead, and gaps that no host brought.

A frame dated ahead of this machine's clock is read again once its time has come. Otherwise one frame dated 2099 would
move the cursor there for good: after a reconnect the server is asked for events after 2099 and answers with the live
tail. A frame dated a minute ahead would do so for a minute, and a v1 server sends live frames among those that it still
replays. So a server is asked to continue from a time that several frames in a row have reached. Recordings have no such
frames, since their clock is their own.

A gap is found when a connection begins, and kept until a backfill has filled it. A v1 server that holds less than it is
asked for silently starts at its oldest frame. Only the first frame's time shows that, since on the live stream account
events of the whole network come several a second.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile

import numpy as np

from ingest.clock import from_microseconds, to_microseconds
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.stream.batch import Batch
from ingest.stream.frames import LATEST_US, encode, time_of

AHEAD = timedelta(minutes=5)
# Bounds on the frames of a source that wait as dead letters. Those that are due first stay: a frame that is dated
# farther ahead is less credible.
MOST_WAITING, MOST_WAITING_BYTES = 500, 32_000_000
# If this many frames in a row are early, this machine's clock is taken to be wrong and not the frames.
IN_A_ROW = 10
# A server is asked to continue after the newest time that this many frames in a row have reached: fewer frames dated
# ahead skip nothing.
AGREEING = 5
# A server is asked again for this much before the time to continue at (v1 reorders where replay turns live), so that
# time may be this far ahead of the frames that agree.
REWIND_US = 5_000_000
# A clock that is further behind lets no TLS certificate pass (they are valid for 90 days), so frames are at fault.
SLOWEST_CLOCK = timedelta(days=90)
_MICROSECOND = timedelta(microseconds=1)


class ClockProblem(Exception):
    """Too many frames in a row are early, so this machine's clock must be slow; the message says so."""


@dataclass(frozen=True, slots=True)
class Early:
    """A frame whose time has not come; reading `text` again gives an equal frame."""

    text: str
    time_us: int


@dataclass(frozen=True, slots=True)
class Divided:
    """A batch without its early frames, the early frames to store, and True in `ends` if the connection must end here.

    In that case the frames behind the last one on time are in neither: they come again, as no cursor passed them. After
    it a server may be asked to continue at `until_us` at the latest.
    """

    batch: Batch
    early: Sequence[Early] = ()
    ends: bool = False
    until_us: int = LATEST_US


class EarlyFrames:
    """Find the early frames of one connection, and judge if this machine's clock causes them."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._newest: list[int] = []  # times of the frames that arrived last, fewer than AGREEING
        self.agreed_us = 0  # the newest time that AGREEING frames in a row have reached
        self.behind_us = 0  # how far ahead the newest frame is if the clock is to blame; else 0

    def divide(self, batch: Batch, now_us: int) -> Divided:
        """Take the early frames out of a batch that arrived at `now_us`."""
        times = times_of(batch)
        latest = now_us + AHEAD // _MICROSECOND
        self._update_agreed([time_us for time_us in times if 0 < time_us <= latest])
        until_us = min(self.agreed_us + REWIND_US, now_us)
        if max(times, default=0) <= latest:
            self._in_a_row, self.behind_us = 0 if any(times) else self._in_a_row, 0
            return Divided(batch, until_us=until_us)
        places = [place for place, time_us in enumerate(times) if time_us > latest]
        row_places = self._count_in_a_row(times, latest, now_us)
        self.behind_us = (
            max(times[place] for place in row_places) - now_us if self._in_a_row >= IN_A_ROW and row_places else 0
        )
        ends = self._in_a_row > MOST_WAITING
        unstored = set(row_places) if ends else set()
        early = [_early(batch, place, times[place]) for place in places if place not in unstored]
        return Divided(_drop_places(batch, set(places)), early, ends, until_us)

    def _update_agreed(self, times: Sequence[int]) -> None:
        """Move `agreed_us` to the newest time that AGREEING frames in a row have reached."""
        recent = [*self._newest, *times]
        if len(recent) >= AGREEING:
            oldest = np.lib.stride_tricks.sliding_window_view(np.array(recent), AGREEING).min(axis=1)
            self.agreed_us = max(self.agreed_us, int(oldest.max()))
        self._newest = recent[1 - AGREEING :]

    def _count_in_a_row(self, times: Sequence[int], latest: int, now_us: int) -> list[int]:
        """Return the places of the early frames behind the last one on time; continue the count of the batch before."""
        furthest = now_us + SLOWEST_CLOCK // _MICROSECOND
        places = [place for place, time_us in enumerate(times) if 0 < time_us <= furthest]
        early_places = list(takewhile(lambda place: times[place] > latest, reversed(places)))
        self._in_a_row = len(early_places) + (self._in_a_row if len(early_places) == len(places) else 0)
        return early_places


def times_of(batch: Batch) -> Sequence[int]:
    """Return time_us of each frame in order, 0 for a missing or impossible time."""
    return batch.commits.times_us if batch.commits is not None else [time_of(raw) for raw in batch.raws]


def _drop_places(batch: Batch, places: set[int]) -> Batch:
    if batch.commits is not None:
        remaining = batch.commits.without(places)
        return Batch((), remaining) if len(remaining) else Batch(())
    return Batch([raw for place, raw in enumerate(batch.raws) if place not in places])


def _early(batch: Batch, place: int, time_us: int) -> Early:
    if batch.commits is not None:
        return Early(encode(batch.commits.frame(place)).decode(), time_us)
    raw = batch.raws[place]
    return Early((raw if isinstance(raw, str) else raw.decode(errors="replace")), time_us)


log = logging.getLogger(__name__)

NOTHING_BEFORE = "the stream was never listened to before"
# The first event that a frame from the future brought: nothing was missed before it was logged. 0 if there is none.
FIRST_AHEAD = "select min(loaded_clock) from events where source = ? and seen_at > loaded_clock + ?::interval"
RESET = "update ingest_state set cursor_us = ?, resume_us = null, moved_clock = ? where source = ?"


@dataclass(frozen=True, slots=True)
class Gap:
    """An unseen stretch between two frames; `from_us` 0 is the beginning of time."""

    source: str
    from_us: int
    to_us: int
    reason: str


def first_time(batch: Batch) -> int | None:
    """Return time_us of the first frame that has one, or None if no frame has one."""
    return next((time_us for time_us in times_of(batch) if time_us), None)


def find_gap(source: str, cursor_us: int, first_us: int, quiet_seconds: float) -> Gap | None:
    """Return the gap before a connection's first frame, on a stream never silent for over `quiet_seconds`.

    `cursor_us` is the newest frame handled before, or 0 if there is none: then everything before the first is missing.
    """
    if not cursor_us:
        return Gap(source, 0, first_us, NOTHING_BEFORE)
    if first_us - cursor_us <= quiet_seconds * 1_000_000:
        return None
    since, begin = from_microseconds(cursor_us), from_microseconds(first_us)
    return Gap(
        source, cursor_us, first_us, f"asked for what came after {since:%F %T}, the server began at {begin:%F %T}"
    )


def record_gap(store: Store, gap: Gap) -> bool:
    """Store a gap until it is filled; return True if it is new or reaches further than the stored one.

    A filled gap that turns out to reach further is open again.
    """
    with store.write() as txn:
        is_new = _store_gap(txn, gap)
    if is_new:
        log.warning("a gap in the stream: %s", gap.reason)
    return is_new


def _store_gap(txn: Transaction, gap: Gap) -> bool:
    stored_to = txn.value("select to_us from gaps where source = ? and from_us = ?", [gap.source, gap.from_us])
    if stored_to is not None and stored_to >= gap.to_us:
        return False
    row = {"source": gap.source, "from_us": gap.from_us, "to_us": gap.to_us, "reason": gap.reason}
    txn.upsert("gaps", [row | {"found_clock": txn.wall(), "filled_clock": None}])
    return True


def reset_future_cursor(store: Store, source: str) -> Gap | None:
    """Reset a cursor that lies in the future to now, and store the possible loss as a gap; None if the cursor is sound.

    A server that is asked for the future answers with the live tail, so each reconnect may have lost events since the
    cursor went there. A cursor that was in the past when it was moved stays: then the clock was set back.
    """
    with store.write() as txn:
        sql = "select cursor_us, moved_clock from ingest_state where source = ?"
        row, now = txn.row(sql, [source]), txn.wall()
        if row is None or from_microseconds(row["cursor_us"]) <= max(now, row["moved_clock"]) + AHEAD:
            return None
        since = txn.value(FIRST_AHEAD, [source, AHEAD])
        reason = f"the cursor was at {from_microseconds(row['cursor_us']):%F %T}, in the future, and was reset to now"
        gap = Gap(source, to_microseconds(since) if since else 0, to_microseconds(now), reason)
        _store_gap(txn, gap)
        txn.execute(RESET, [gap.to_us, now, source])
    log.warning("a gap in the stream: %s", gap.reason)
    return gap
