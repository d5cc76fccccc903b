"""Describes the state of ingest to a maintainer: troubles, notes, and the pill's words. Pure.

A trouble takes the word Live away. A note does not: some host always rests, and hostile records pile up for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ingest.worker.status import Status
from triage.presenters.text import Freshness, duration_words, said

HOPS = {
    "derive_events": "Reading new records",
    "ask_network": "Asking other servers",
    "follow_mirrors": "Following the git history",
    "score_everyone": "Scoring",
    "erase_deleted": "Erasing accounts that are gone",
    "deliver_outbox": "Applying decisions made here",
    "tell_webhook": "Sending to the webhook",
    "archive_events": "Moving older events to files",
    "drop_old_diffs": "Dropping older diffs",
    "drop_ended_sessions": "Dropping sessions that have ended",
}

SEE_LOG = "Retrying automatically. If this lasts, see the worker's log."


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong: two or three words for the pill, one sentence, and how bad it is."""

    short: str
    sentence: str
    tone: Literal["late", "stopped"] = "late"


def troubles(
    status: Status | None, now: float, gaps_open: int, recorded: bool, has_hosts: bool = True, gap_reason: str = ""
) -> tuple[Trouble, ...]:
    """Return what is wrong at `now` (unix seconds), the worst first.

    A recording is at rest once its worker has stopped.

    `has_hosts`: whether BACKFILL_HOSTS names anybody, without whom no gap is ever filled. `gap_reason`: how the newest
    open gap came about.
    """
    missing = () if recorded else _gaps(gaps_open, has_hosts, gap_reason)
    if status is None or not status.is_alive(now):
        return missing if recorded else (_not_running(status, now), *missing)
    parts = (_store, _clock, _listener, _publisher, _backfill, _event_streams)
    found = [part(status) for part in parts]
    found += map(_hop, status.failing_hops)
    return (*(trouble for trouble in found if trouble), *missing)


def notes(status: Status | None, now: float, dead_letters: int, unknown_shapes: int) -> tuple[str, ...]:
    """Return what is worth knowing and needs nobody."""
    told = []
    if status is not None and status.is_alive(now) and status.hosts_left_alone:
        count, names = status.hosts_left_alone, ", ".join(status.hosts_named[:3])
        rest = " and others" if count > 3 else ""
        told.append(
            f"{_counted(count, 'host is', 'hosts are')} paused for a while, slow or over the limit: {names}{rest}."
        )
    if dead_letters:
        told.append(
            f"{_counted(dead_letters, 'event', 'events')} could not be read. Sunstead keeps them and tries again "
            "after an update."
        )
    if status is not None and status.is_alive(now) and status.letters_dropped:
        told.append(
            f"{_counted(status.letters_dropped, 'more was', 'more were')} dropped: DEAD_LETTERS limits how many are "
            "kept."
        )
    if unknown_shapes:
        told.append(f"{_counted(unknown_shapes, 'shape', 'shapes')} of records seen that this version does not know.")
    return tuple(told)


def with_state(fresh: Freshness, wrong: Sequence[Trouble], known: Sequence[str]) -> Freshness:
    """The pill: the worst trouble in its words and colour, everything else behind it; Live only without any."""
    details = (*(trouble.sentence for trouble in wrong), *known)
    if not wrong:
        return replace(fresh, details=details)
    more = f" (+{len(wrong) - 1})" if len(wrong) > 1 else ""
    tone = "stopped" if fresh.tone == "stopped" else wrong[0].tone
    lag = (f"{fresh.words}.",) if fresh.tone != "none" else ()
    return Freshness(tone, wrong[0].short + more, (*lag, *details) if fresh.tone != "live" else details)


def _not_running(status: Status | None, now: float) -> Trouble:
    if status is None:
        sentence = "The worker has not started yet, so nothing comes in. The operator starts it with make run."
        return Trouble("Worker has not started yet", sentence, "stopped")
    seen = f"was last heard of {duration_words(now - status.written_at)} ago"
    sentence = f"The worker {seen}: nothing new comes in. The operator starts it with make run."
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
    told = said(status.backfill_problem)
    return Trouble("Backfill waits", f"Older records are not read for now: {told}. Retrying automatically.")


def _event_streams(status: Status) -> Trouble | None:
    if not status.event_streams_down:
        return None
    count, told = status.event_streams_down, "; ".join(map(said, status.event_problems))
    rest = "; and others" if count > len(status.event_problems) else ""
    whose = "a knot or spindle" if count == 1 else f"{count:,} knots and spindles"
    sentence = f"Pushes and runs of {whose} do not arrive: {told}{rest}. Retrying automatically."
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


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
