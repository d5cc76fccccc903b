"""The queue and its rows as pages show them: what the snapshot holds, with what people did since."""

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
    """`read.queue` without snoozed rows, with what people closed and answered since that snapshot."""
    query = as_it_stands(snapshot, query)
    found = _queues.get(snapshot, query, lambda: read.queue(snapshot, query))
    groups = tuple(replace(group, rows=_as_they_stand(snapshot, group.rows)) for group in found.groups)
    return lowered(replace(found, groups=groups), standing_closures(snapshot))


def longest_waiting(snapshot: Snapshot, query: QueueQuery) -> QueueRow | None:
    """Return the pull request that has waited longest for a maintainer, push-holders' own apart."""
    uri = read.longest_waiting(snapshot, replace(as_it_stands(snapshot, query), sort="oldest"))
    return pull(snapshot, uri) if uri else None


def as_it_stands(snapshot: Snapshot, query: QueueQuery) -> QueueQuery:
    """The query with the rows that somebody snoozed and the lanes that somebody shut since the snapshot."""
    snoozed = tuple(sorted(one.pull_uri for one in snoozing.in_force(snapshot, timezone.now())))
    return replace(query, snoozed=snoozed, shut=tuple(sorted(decided_since(snapshot).shut)))


def prepare(snapshot: Snapshot) -> None:
    """Read what the queue's first page shows of a snapshot, before anybody asks for it."""
    query = as_it_stands(snapshot, QueueFilters().query())
    _queues.get(snapshot, query, lambda: read.queue(snapshot, query))
    _approved.get(snapshot, "", lambda: read.approved(snapshot))
    _changed.get(snapshot, "", lambda: tuple(read.changed_after(snapshot).values()))


def pulls(snapshot: Snapshot, uris: Sequence[str]) -> tuple[QueueRow, ...]:
    """`read.pulls` likewise."""
    closures = standing_closures(snapshot)
    return tuple(lowered_row(row, closures) for row in _as_they_stand(snapshot, read.pulls(snapshot, uris)))


def pull(snapshot: Snapshot, uri: str) -> QueueRow | None:
    """`read.pull` likewise."""
    return next(iter(pulls(snapshot, [uri])), None)


def as_listed(snapshot: Snapshot, query: QueueQuery, row: QueueRow) -> QueueRow:
    """Return the row with its place and with how many are alike, where a list of this query shows it."""
    rows = (one for group in queue(snapshot, query).groups for one in group.rows)
    listed = next((one for one in rows if one.uri == row.uri), row)
    return replace(row, place=listed.place, alike=listed.alike)


def own_pulls(snapshot: Snapshot, uris: Sequence[str]) -> tuple[QueueRow, ...]:
    """Read the same for their authors alone, from whom no chance of their own is hidden."""
    closures = standing_closures(snapshot)
    return tuple(lowered_row(row, closures) for row in _since(snapshot, read.pulls(snapshot, uris)))


def _as_they_stand(snapshot: Snapshot, found: Sequence[QueueRow]) -> tuple[QueueRow, ...]:
    """Return these rows with what people did since, and without the chance of authors whose audit is due."""
    hidden = hiding_audits(snapshot)
    shown = _since(snapshot, found)
    return tuple(read.hide_row(row, hidden[row.author.did]) if row.author.did in hidden else row for row in shown)


def _since(snapshot: Snapshot, found: Sequence[QueueRow]) -> tuple[QueueRow, ...]:
    """Return these rows with the audits answered, and the lanes shut, since the snapshot."""
    shut = decided_since(snapshot).shut
    rows = (unsealed(snapshot, row) for row in found)
    return tuple(replace(row, shadow=True) if row.repository_key in shut else row for row in rows)


def approved(snapshot: Snapshot) -> tuple[Approved, ...]:
    """`read.approved` with the names that approvers have here."""
    return named(_approved.get(snapshot, "", lambda: read.approved(snapshot)), "approver")


def changed_after(snapshot: Snapshot) -> dict[str, ChangedApproval]:
    """`read.changed_after` likewise."""
    found = _changed.get(snapshot, "", lambda: tuple(read.changed_after(snapshot).values()))
    return {one.uri: one for one in named(found, "approver")}


def past_actions(snapshot: Snapshot, uri: str) -> tuple[PastAction, ...]:
    """`read.past_actions` with the names that those who acted have here."""
    return named(read.past_actions(snapshot, uri), "actor")


def incident(snapshot: Snapshot, uri: str, now: datetime) -> Incident | None:
    """`read.incident` with the name that the approver has here."""
    found = read.incident(snapshot, uri, now)
    return named([found], "approver")[0] if found else None
