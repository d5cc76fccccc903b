"""Spans of the stream that no host brought: found when a connection begins, kept until a backfill has filled them.

A v1 server that keeps less than what is asked for silently starts at its oldest frame. It shows
only in the first frame's time, since on the live stream account events of the whole network come several a second.
"""

import logging
from dataclasses import dataclass

from ingest.clock import from_microseconds, to_microseconds
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.stream.batch import Batch
from ingest.stream.early import AHEAD, times_of

log = logging.getLogger(__name__)

NOTHING_BEFORE = "the stream was never listened to before"
# The first event that a frame from the future brought: nothing was missed before it was logged. 0 where none says.
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
    """time_us of the first frame that has one; None where none of them does."""
    return next((time_us for time_us in times_of(batch) if time_us), None)


def find_gap(source: str, cursor_us: int, first_us: int, quiet_seconds: float) -> Gap | None:
    """The gap before a connection's first frame, where the stream is never silent for longer than `quiet_seconds`.

    `cursor_us` is the newest frame handled before, 0 where there is none: then everything before the first is missing.
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
    """Keep a gap until it is filled; returns whether it is new, or reaches further than what was kept of it.

    One that was filled and turns out to reach further is open again.
    """
    with store.write() as txn:
        is_new = _keep(txn, gap)
    if is_new:
        log.warning("a gap in the stream: %s", gap.reason)
    return is_new


def _keep(txn: Transaction, gap: Gap) -> bool:
    known = txn.value("select to_us from gaps where source = ? and from_us = ?", [gap.source, gap.from_us])
    if known is not None and known >= gap.to_us:
        return False
    row = {"source": gap.source, "from_us": gap.from_us, "to_us": gap.to_us, "reason": gap.reason}
    txn.upsert("gaps", [row | {"found_clock": txn.wall(), "filled_clock": None}])
    return True


def reset_future_cursor(store: Store, source: str) -> Gap | None:
    """Put a cursor that lies in the future back to now, and keep what may be missing as a gap; None where it is sound.

    A server that is asked for the future answers with the live tail, so each reconnect may have lost something since
    the cursor went there. A cursor that was in the past when it was moved stays: then the clock was set back.
    """
    with store.write() as txn:
        sql = "select cursor_us, moved_clock from ingest_state where source = ?"
        row, now = txn.row(sql, [source]), txn.wall()
        if row is None or from_microseconds(row["cursor_us"]) <= max(now, row["moved_clock"]) + AHEAD:
            return None
        since = txn.value(FIRST_AHEAD, [source, AHEAD])
        reason = f"the cursor was at {from_microseconds(row['cursor_us']):%F %T}, in the future, and was reset to now"
        gap = Gap(source, to_microseconds(since) if since else 0, to_microseconds(now), reason)
        _keep(txn, gap)
        txn.execute(RESET, [gap.to_us, now, source])
    log.warning("a gap in the stream: %s", gap.reason)
    return gap
