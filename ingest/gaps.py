"""Spans of the stream that no host brought: found when a connection begins, kept until a backfill has filled them.

A v1 server that keeps less than what is asked for silently starts at its oldest frame (facts/tangled.md §3.1). It shows
only in the first frame's time, since on the live stream account events of the whole network come several a second.
"""

import logging
from dataclasses import dataclass

import msgspec

from ingest.batch import Batch
from ingest.clock import from_microseconds
from ingest.frames import EARLIEST_US, LATEST_US, Moment
from ingest.store import Store

log = logging.getLogger(__name__)

NOTHING_BEFORE = "the stream was never listened to before"
_decoder = msgspec.json.Decoder(Moment)


@dataclass(frozen=True, slots=True)
class Gap:
    """What lies between two frames and was not seen; `from_us` 0 is the beginning of time."""

    source: str
    from_us: int
    to_us: int
    reason: str


def first_time(batch: Batch) -> int | None:
    """time_us of the first frame that has one; None where none of them does."""
    if batch.commits is not None:
        return batch.commits.times_us[0]
    return next((time_us for frame in batch.raws if (time_us := _time_of(frame)) is not None), None)


def _time_of(frame: bytes | str) -> int | None:
    try:
        time_us = _decoder.decode(frame).time_us
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return time_us if EARLIEST_US <= time_us <= LATEST_US else None


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
        known = txn.value("select to_us from gaps where source = ? and from_us = ?", [gap.source, gap.from_us])
        if known is not None and known >= gap.to_us:
            return False
        row = {"source": gap.source, "from_us": gap.from_us, "to_us": gap.to_us, "reason": gap.reason}
        txn.upsert("gaps", [row | {"found_clock": store.wall(), "filled_clock": None}])
    log.warning("a gap in the stream: %s", gap.reason)
    return True
