"""The gauges that Prometheus scrapes, in its text format (version 0.0.4). Pure.

What is not known is left out, so that an alert on its absence fires instead of one on a made-up figure.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from ingest.status import Status
from scoring.read import Dashboard

MEDIA = ("text/plain; version=0.0.4", "text/plain")  # as Prometheus asks for it, and as a person does
Gauge = tuple[str, str, float | None]


def exposition(
    board: Dashboard | None, published_at: datetime | None, status: Status | None, now: float, recorded: bool
) -> str:
    """Every gauge that is known at `now` (unix seconds)."""
    found = [*_worker(status, now), *_store(board, published_at, now), *_lag(board, status, now, recorded)]
    return "".join(
        f"# HELP sunstead_{name} {told}\n# TYPE sunstead_{name} gauge\nsunstead_{name} {_number(value)}\n"
        for name, told, value in found
        if value is not None
    )


def newest_event(board: Dashboard | None, status: Status | None) -> float | None:
    """When the newest event handled was witnessed, in unix seconds: the worker's word, else the snapshot's."""
    if status is not None and status.cursor_us:
        return status.cursor_us / 1_000_000
    newest = board.newest_event_at if board is not None else None
    return newest.replace(tzinfo=UTC).timestamp() if newest is not None else None


def _worker(status: Status | None, now: float) -> Iterator[Gauge]:
    alive = status is not None and status.is_alive(now)
    yield "worker_up", "Whether the worker was running within the last 30 seconds.", float(alive)
    if status is None or not alive:
        return
    yield "listener_up", "Whether the stream is heard.", float(status.listener_problem is None)
    yield "store_writable", "Whether what is heard is stored.", float(status.store_problem is None)
    yield "publisher_up", "Whether the newest snapshot could be published.", float(status.publisher_problem is None)
    yield "backfill_up", "Whether older records can be read.", float(status.backfill_problem is None)
    yield "event_streams_down", "Knots and spindles whose events are not heard.", status.event_streams_down
    yield "failing_hops", "Steps of the work whose newest run failed.", len(status.failing_hops)
    yield "hosts_in_backoff", "Hosts that are left alone for a while.", status.hosts_left_alone
    yield "dead_letters_dropped", "Events not understood that were let go, too many to keep.", status.letters_dropped
    yield "drive_free_bytes", "Free space on the drive.", status.free_bytes


def _store(board: Dashboard | None, published_at: datetime | None, now: float) -> Iterator[Gauge]:
    if board is None or published_at is None:
        return
    yield "snapshot_age_seconds", "Since the newest snapshot was published.", _age(published_at, now)
    yield "gaps_open", "Spans of the stream that are missing and not filled yet.", board.gaps_open
    yield "dead_letters", "Events that could not be understood.", board.dead_letters
    yield "unknown_shapes", "Collections, fields and values that the registry does not know.", board.unknown_shapes
    yield "events", "Events in the log.", board.events


def _lag(board: Dashboard | None, status: Status | None, now: float, recorded: bool) -> Iterator[Gauge]:
    newest = newest_event(board, status)
    yield "last_event_timestamp_seconds", "When the newest event handled was witnessed.", newest
    if newest is not None and not recorded:
        yield "ingest_lag_seconds", "How far ingest is behind the network.", max(0.0, now - newest)


def _age(moment: datetime, now: float) -> float:
    return max(0.0, now - moment.replace(tzinfo=UTC).timestamp())


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
