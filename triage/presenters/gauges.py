"""The gauges that Prometheus scrapes from the web process: what the newest snapshot and the heartbeat tell. Pure.

What is not known is left out, so that an alert on its absence fires instead of one on a made-up figure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client.metrics_core import GaugeMetricFamily

from ingest.worker.status import Status
from scoring.queries.read import Dashboard

Gauge = tuple[str, str, float | None]


@dataclass(frozen=True, slots=True)
class Known:
    """The facts known at `now` (unix seconds); None where nothing was published, or no worker ever ran.

    `left_out` is how many open pull requests the inbox leaves out, by why; `lanes_open` how many fast lanes are open.
    `outbox` is how many messages to the worker are due, by kind; `recorded` says that the stream is a recording.
    """

    board: Dashboard | None
    left_out: Mapping[str, int]
    lanes_open: int
    published_at: datetime | None
    status: Status | None
    outbox: Mapping[str, int]
    now: float
    recorded: bool


def families(known: Known) -> Iterator[GaugeMetricFamily]:
    """Every gauge that is known."""
    for name, told, value in (*_worker(known), *_store(known), *_lag(known)):
        if value is not None:
            yield GaugeMetricFamily(f"sunstead_{name}", told, value=value)
    yield _labelled("outbox_due", "Messages to the worker that are due.", "kind", known.outbox)
    if known.board is not None:
        lanes = {**known.board.lanes, "own": known.board.own}
        yield _labelled(
            "open_pull_requests",
            "Open pull requests by lane, approved and snoozed ones too; own: by people with push access.",
            "lane",
            lanes,
        )
        yield _labelled(
            "inbox_left_out", "Open pull requests that the inbox leaves out, own ones apart.", "why", known.left_out
        )
        yield GaugeMetricFamily(
            "sunstead_fast_lanes_open", "Watched repositories whose fast lane is open.", value=known.lanes_open
        )


def newest_event(board: Dashboard | None, status: Status | None) -> float | None:
    """Return when the newest event handled was witnessed, in unix seconds: the worker's word, else the snapshot's."""
    if status is not None and status.cursor_us:
        return status.cursor_us / 1_000_000
    newest = board.newest_event_at if board is not None else None
    return newest.replace(tzinfo=UTC).timestamp() if newest is not None else None


def _labelled(name: str, told: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"sunstead_{name}", told, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _worker(known: Known) -> Iterator[Gauge]:
    status = known.status
    alive = status is not None and status.is_alive(known.now)
    yield "worker_up", "Whether the worker was running within the last 30 seconds.", float(alive)
    if status is None or not alive:
        return
    yield "listener_up", "Whether the stream is connected.", float(status.listener_problem is None)
    yield "store_writable", "Whether incoming events are stored.", float(status.store_problem is None)
    yield "publisher_up", "Whether the newest snapshot could be published.", float(status.publisher_problem is None)
    yield "backfill_up", "Whether older records can be read.", float(status.backfill_problem is None)
    yield "event_streams_down", "Knots and spindles whose events do not arrive.", status.event_streams_down
    yield "failing_hops", "Steps of the work whose newest run failed.", len(status.failing_hops)
    yield "hosts_in_backoff", "Hosts that are paused for a while.", status.hosts_left_alone
    yield "dead_letters_dropped", "Unreadable events dropped because there were too many.", status.letters_dropped
    yield "drive_free_bytes", "Free space on the drive.", status.free_bytes


def _store(known: Known) -> Iterator[Gauge]:
    board = known.board
    if board is None or known.published_at is None:
        return
    age = max(0.0, known.now - known.published_at.replace(tzinfo=UTC).timestamp())
    yield "snapshot_age_seconds", "Since the newest snapshot was published.", age
    yield "gaps_open", "Spans of the stream that are missing and not filled yet.", board.gaps_open
    yield "dead_letters", "Unreadable events.", board.dead_letters
    yield "unknown_shapes", "Collections, fields and values that the registry does not know.", board.unknown_shapes
    yield "events", "Events in the log.", board.events


def _lag(known: Known) -> Iterator[Gauge]:
    newest = newest_event(known.board, known.status)
    yield "last_event_timestamp_seconds", "When the newest event handled was witnessed.", newest
    if newest is not None and not known.recorded:
        yield "ingest_lag_seconds", "How far ingest is behind the network.", max(0.0, known.now - newest)
