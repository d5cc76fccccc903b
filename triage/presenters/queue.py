"""The queue and its rows for pages: the snapshot, updated with what people did since."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.utils import timezone

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.queries import read
from scoring.queries.read import Approved, ChangedApproval, Incident, PastAction, Queue, QueueQuery, QueueRow
from triage.forms.filters import QueueFilters
from triage.services import snoozing
from triage.services.audit import hiding_audits, unsealed
from triage.services.estimated_lanes import decided_since
from triage.services.lane_closures import lowered, lowered_row, standing_closures
from triage.services.names import named

_queues = PerSnapshot[Queue]()
_approved = PerSnapshot[tuple[Approved, ...]](1)
_changed = PerSnapshot[tuple[ChangedApproval, ...]](1)


def queue(snapshot: Snapshot, query: QueueQuery) -> Queue:
    """Return `read.queue` without snoozed rows, updated with what people closed and answered since that snapshot."""
    query = unsnoozed(snapshot, query)
    stored_queue = _queues.get(snapshot, query, lambda: read.queue(snapshot, query))
    groups = tuple(replace(group, rows=_displayed_rows(snapshot, group.rows)) for group in stored_queue.groups)
    # For a lane shut since the snapshot only the rows in view are counted.
    shadow_rows = sum(row.shadow for group in groups if group.key == "fast_lane" for row in group.rows)
    shown = replace(stored_queue, groups=groups, watched=max(stored_queue.watched, shadow_rows))
    return lowered(shown, standing_closures(snapshot))


def unsnoozed(snapshot: Snapshot, query: QueueQuery) -> QueueQuery:
    """Return the query with the snoozed rows that it omits."""
    snoozes = snoozing.in_force(snapshot, timezone.now())
    return replace(query, snoozed=tuple(sorted(snooze.pull_uri for snooze in snoozes))) if snoozes else query


def prepare(snapshot: Snapshot) -> None:
    """Read the queue's first page of a new snapshot into the cache before somebody asks for it."""
    query = unsnoozed(snapshot, QueueFilters().query())
    _queues.get(snapshot, query, lambda: read.queue(snapshot, query))
    _approved.get(snapshot, "", lambda: read.approved(snapshot))
    _changed.get(snapshot, "", lambda: tuple(read.changed_after(snapshot).values()))


def pulls(snapshot: Snapshot, uris: Sequence[str]) -> tuple[QueueRow, ...]:
    """Return `read.pulls`, updated with what people did since the snapshot."""
    closures = standing_closures(snapshot)
    return tuple(lowered_row(row, closures) for row in _displayed_rows(snapshot, read.pulls(snapshot, uris)))


def pull(snapshot: Snapshot, uri: str) -> QueueRow | None:
    """Return `read.pull`, updated with what people did since the snapshot."""
    return next(iter(pulls(snapshot, [uri])), None)


def own_pulls(snapshot: Snapshot, uris: Sequence[str]) -> tuple[QueueRow, ...]:
    """Return these rows for their authors, who may see their own chance."""
    closures = standing_closures(snapshot)
    return tuple(lowered_row(row, closures) for row in _updated_rows(snapshot, read.pulls(snapshot, uris)))


def _displayed_rows(snapshot: Snapshot, rows: Sequence[QueueRow]) -> tuple[QueueRow, ...]:
    """Return these rows with what people did since, and without the chance of authors whose audit is due."""
    hidden = hiding_audits(snapshot)
    updated = _updated_rows(snapshot, rows)
    return tuple(read.hide_row(row, hidden[row.author.did]) if row.author.did in hidden else row for row in updated)


def _updated_rows(snapshot: Snapshot, rows_before: Sequence[QueueRow]) -> tuple[QueueRow, ...]:
    """Return these rows with the audits answered and the lanes shut since the snapshot."""
    shut_repositories = decided_since(snapshot).shut
    rows = (unsealed(snapshot, row) for row in rows_before)
    return tuple(replace(row, shadow=True) if row.repository_key in shut_repositories else row for row in rows)


def approved(snapshot: Snapshot) -> tuple[Approved, ...]:
    """Return `read.approved` with the approvers' names on this site."""
    return named(_approved.get(snapshot, "", lambda: read.approved(snapshot)), "approver")


def changed_after(snapshot: Snapshot) -> dict[str, ChangedApproval]:
    """Return `read.changed_after` with the approvers' names on this site."""
    changed = _changed.get(snapshot, "", lambda: tuple(read.changed_after(snapshot).values()))
    return {approval.uri: approval for approval in named(changed, "approver")}


def past_actions(snapshot: Snapshot, uri: str) -> tuple[PastAction, ...]:
    """Return `read.past_actions` with the actors' names on this site."""
    return named(read.past_actions(snapshot, uri), "actor")


def incident(snapshot: Snapshot, uri: str, now: datetime) -> Incident | None:
    """Return `read.incident` with the approver's name on this site."""
    read_incident = read.incident(snapshot, uri, now)
    return named([read_incident], "approver")[0] if read_incident else None
