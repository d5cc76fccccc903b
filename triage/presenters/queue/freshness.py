"""Describe the state of ingest: troubles, notes and the pill's words for people, gauges for Prometheus. Pure.

A trouble replaces the word Live. A note does not: some host is always paused, and hostile records always accumulate. An
unknown value has no gauge, so that an alert on its absence fires instead of one on an invented figure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from prometheus_client.metrics_core import GaugeMetricFamily

from ingest.worker.status import Status
from scoring.queries.read import Dashboard
from triage.presenters.text import Freshness, duration_words, said

HOPS = {
    "derive_events": "Reading new records",
    "ask_network": "Asking other servers",
    "follow_mirrors": "Following the git history",
    "score_everyone": "Scoring",
    "erase_deleted": "Erasing accounts that are gone",
    "deliver_outbox": "Applying decisions made here",
    "tell_webhook": "Telling the webhook and browsers",
    "send_pushes": "Sending notifications",
    "publish_assessments": "Publishing assessments",
    "archive_events": "Moving older events to files",
    "drop_old_diffs": "Dropping older diffs",
    "drop_ended_sessions": "Dropping sessions that have ended",
}

SEE_LOG = "Retrying automatically. If this lasts, see the worker's log."
Gauge = tuple[str, str, float | None]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem: two or three words for the pill, one sentence, and its severity."""

    short: str
    sentence: str
    tone: Literal["late", "stopped"] = "late"


def troubles(
    status: Status | None, now: float, gaps_open: int, recorded: bool, has_hosts: bool = True, gap_reason: str = ""
) -> tuple[Trouble, ...]:
    """Return the problems at `now` (unix seconds), worst first.

    A stopped worker is not a problem of a recording.

    `has_hosts`: BACKFILL_HOSTS names a host; without one no gap is ever filled. `gap_reason`: cause of the newest open
    gap.
    """
    missing = () if recorded else _gaps(gaps_open, has_hosts, gap_reason)
    if status is None or not status.is_alive(now):
        return missing if recorded else (_not_running(status, now), *missing)
    parts = (_store, _clock, _listener, _publisher, _backfill, _event_streams)
    checked = [part(status) for part in parts]
    checked += map(_hop, status.failing_hops)
    return (*(trouble for trouble in checked if trouble), *missing)


def notes(status: Status | None, now: float, dead_letters: int, unknown_shapes: int) -> tuple[str, ...]:
    """Return facts worth knowing that need no action."""
    sentences = []
    if status is not None and status.is_alive(now) and status.hosts_left_alone:
        count, names = status.hosts_left_alone, ", ".join(status.hosts_named[:3])
        rest = " and others" if count > 3 else ""
        sentences.append(
            f"{_counted(count, 'host is', 'hosts are')} paused for a while, slow or over the limit: {names}{rest}."
        )
    if dead_letters:
        sentences.append(
            f"{_counted(dead_letters, 'event', 'events')} could not be read. Sunstead keeps them and tries again "
            "after an update."
        )
    if status is not None and status.is_alive(now) and status.letters_dropped:
        sentences.append(
            f"{_counted(status.letters_dropped, 'more was', 'more were')} dropped: DEAD_LETTERS limits how many are "
            "kept."
        )
    if unknown_shapes:
        sentences.append(
            f"{_counted(unknown_shapes, 'shape', 'shapes')} of records seen that this version does not know."
        )
    return tuple(sentences)


def with_state(fresh: Freshness, troubles: Sequence[Trouble], notes: Sequence[str]) -> Freshness:
    """Return the pill: the worst trouble in its words and colour, and the details; Live only without troubles."""
    details = (*(trouble.sentence for trouble in troubles), *notes)
    if not troubles:
        return replace(fresh, details=details)
    more = f" (+{len(troubles) - 1})" if len(troubles) > 1 else ""
    tone = "stopped" if fresh.tone == "stopped" else troubles[0].tone
    lag = (f"{fresh.words}.",) if fresh.tone != "none" else ()
    return Freshness(tone, troubles[0].short + more, (*lag, *details) if fresh.tone != "live" else details)


def _not_running(status: Status | None, now: float) -> Trouble:
    if status is None:
        sentence = "The worker has not started yet, so nothing comes in. The operator starts it with make run."
        return Trouble("Worker has not started yet", sentence, "stopped")
    last_seen = f"was last heard of {duration_words(now - status.written_at)} ago"
    sentence = f"The worker {last_seen}: nothing new comes in. The operator starts it with make run."
    return Trouble("Worker not running", sentence, "stopped")


def _store(status: Status) -> Trouble | None:
    if status.store_problem is None:
        return None
    if status.drive_full:
        left = f"{status.free_bytes // 1_000_000} MB left"
        sentence = f"The drive is full ({left}): nothing new is stored until there is free space."
        return Trouble("Drive full", sentence, "stopped")
    return Trouble("Not storing", f"Nothing new is stored: {said(status.store_problem)}. {SEE_LOG}", "stopped")


def _clock(status: Status) -> Trouble | None:
    if not status.clock_behind_minutes:
        return None
    behind = duration_words(status.clock_behind_minutes * 60)
    sentence = f"The clock of this machine is wrong: all new events are dated {behind} or more ahead of it."
    return Trouble("Clock wrong", f"{sentence} They wait until the operator sets the clock (NTP). None is lost.")


def _listener(status: Status) -> Trouble | None:
    if status.listener_problem is None:
        return None
    sentence = f"Can't reach the event stream: {said(status.listener_problem)}. Retrying automatically."
    return Trouble("Offline: event stream", sentence)


def _publisher(status: Status) -> Trouble | None:
    if status.publisher_problem is None:
        return None
    return Trouble("Not publishing", f"New events cannot be shown: {said(status.publisher_problem)}. {SEE_LOG}")


def _backfill(status: Status) -> Trouble | None:
    if status.backfill_problem is None:
        return None
    problem = said(status.backfill_problem)
    return Trouble("Backfill waits", f"Older records are not read for now: {problem}. Retrying automatically.")


def _event_streams(status: Status) -> Trouble | None:
    if not status.event_streams_down:
        return None
    count, problems = status.event_streams_down, "; ".join(map(said, status.event_problems))
    rest = "; and others" if count > len(status.event_problems) else ""
    whose = "a knot or spindle" if count == 1 else f"{count:,} knots and spindles"
    sentence = f"Pushes and runs of {whose} do not arrive: {problems}{rest}. Retrying automatically."
    return Trouble("Git events missing", sentence)


def _hop(name: str) -> Trouble:
    doing = HOPS.get(name, f"A step of the work ({name})")
    return Trouble(f"{HOPS.get(name, 'A step')} fails", f"{doing} fails. Retrying automatically; see the worker's log.")


def _gaps(count: int, has_hosts: bool, reason: str) -> tuple[Trouble, ...]:
    if not count:
        return ()
    how = "" if has_hosts else " The operator must set BACKFILL_HOSTS."
    sentence = f"{_counted(count, 'gap', 'gaps')} in the stream not filled yet. Events from then may be missing here."
    why = f" The newest: {said(reason)}." if reason else ""
    return (Trouble(_counted(count, "gap", "gaps"), sentence + why + how),)


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


@dataclass(frozen=True, slots=True)
class Known:
    """The facts known at `now` (unix seconds); None where nothing was published, or no worker ever ran.

    `left_out` counts the open pull requests that the inbox omits, by cause; `lanes_open` counts open fast lanes.
    `outbox` counts due messages to the worker, by kind; `publishing` the records that wait to be written or deleted at
    the service account's server. `recorded`: the stream is a recording.
    """

    board: Dashboard | None
    left_out: Mapping[str, int]
    lanes_open: int
    published_at: datetime | None
    status: Status | None
    outbox: Mapping[str, int]
    publishing: Mapping[str, int]
    now: float
    recorded: bool


def families(known: Known) -> Iterator[GaugeMetricFamily]:
    """Yield every gauge with a known value."""
    for name, help_text, value in (*_worker(known), *_store_gauges(known), *_lag(known)):
        if value is not None:
            yield GaugeMetricFamily(f"sunstead_{name}", help_text, value=value)
    yield _labelled("outbox_due", "Messages to the worker that are due.", "kind", known.outbox)
    yield _labelled("publishing_waiting", "Public records to be written or deleted.", "act", known.publishing)
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
    """Return the time of the newest handled event, in unix seconds: from the worker, else from the snapshot."""
    if status is not None and status.cursor_us:
        return status.cursor_us / 1_000_000
    newest = board.newest_event_at if board is not None else None
    return newest.replace(tzinfo=UTC).timestamp() if newest is not None else None


def _labelled(name: str, help_text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"sunstead_{name}", help_text, labels=[label])
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


def _store_gauges(known: Known) -> Iterator[Gauge]:
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
