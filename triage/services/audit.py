"""Answers to the audit's one question, and what is shown of a drawn pull request before and after it."""

import secrets
from collections.abc import Collection
from datetime import UTC, datetime

from django.db import IntegrityError, transaction

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.formatting import visible_name
from scoring.queries import read
from scoring.queries.read import DueAudit, QueueRow, Seen, Subject
from triage.models import AuditAnswer, Person, outbox
from triage.models.accounts import log_change
from triage.services.actions import ActionProblem, Conflict
from triage.services.lane_closures import ERASED, REASON_LENGTH

ANSWERED = "audit.answered"
CHANGED = "Not saved: it changed since you opened it. Here is the current state."
OTHER_WAS_FIRST = "Not saved: somebody answered before you, so yours would not be independent."
_drawn = PerSnapshot[tuple[tuple[Subject, DueAudit], ...]](1)


def answer(person: Person, row: QueueRow, seen: Seen, would_merge: bool, because: str, now: datetime) -> AuditAnswer:
    """Keep the answer on what was seen; `row` is how it stands now.

    Raises Conflict where it is not what was seen or was answered before, ActionProblem without a reason.
    """
    because = because.strip()
    if not because or len(because) > REASON_LENGTH:
        raise ActionProblem(f"Not saved. Give a reason of at most {REASON_LENGTH} characters.")
    if seen != Seen(row.record_cid, row.round, row.patch_id):
        raise Conflict(CHANGED, [row.uri])
    if not row.is_sealed:
        raise Conflict(OTHER_WAS_FIRST, [row.uri])
    try:
        with transaction.atomic():
            made = AuditAnswer.objects.create(
                **_named(row),
                key=secrets.token_hex(16),
                repo_key=row.repository_key,
                would_merge=would_merge,
                because=because,
                person=person,
                made_at=now,
            )
            outbox.put(ANSWERED, made.key, _payload(made, seen), now)
            log_change(person, ANSWERED, now, row.repository_key, row.uri, key=made.key, would_merge=would_merge)
    except IntegrityError as problem:
        raise Conflict(OTHER_WAS_FIRST, [row.uri]) from problem
    return made


def unsealed(snapshot: Snapshot, row: QueueRow) -> QueueRow:
    """The row with all that is known, where somebody answered since this snapshot was made."""
    if not row.is_sealed:
        return row
    made = AuditAnswer.objects.filter(**_named(row)).select_related("person").first()
    if made is None:
        return row
    by = visible_name(str(made.person)) if made.person else ERASED
    told = read.AuditAnswer(made.would_merge, made.because, by, made.made_at.astimezone(UTC).replace(tzinfo=None))
    return read.unsealed(snapshot, row.uri, told) or row


def due_audits(snapshot: Snapshot) -> list[tuple[Subject, DueAudit]]:
    """Return what the audit drew anywhere and nobody answered, the oldest first."""
    drawn = _drawn.get(snapshot, "", lambda: _read_drawn(snapshot))
    given = AuditAnswer.objects.filter(pull_uri__in=[subject.uri for subject, _ in drawn]) if drawn else ()
    answered = {(one.pull_uri, Seen(one.record_cid or None, one.round, one.patch_id or None)) for one in given}
    return [(subject, due) for subject, due in drawn if (subject.uri, subject.seen) not in answered]


def _read_drawn(snapshot: Snapshot) -> tuple[tuple[Subject, DueAudit], ...]:
    uris = read.audits_due(snapshot)
    found, labels = (read.subjects(snapshot, uris), read.labels(snapshot, uris)) if uris else ({}, {})
    return tuple((found[uri], DueAudit(uri, labels[uri])) for uri in uris if uri in found and uri in labels)


def hiding_audits(
    snapshot: Snapshot, viewer: Person | None = None, dids: Collection[str] | None = None
) -> dict[str, DueAudit]:
    """Return of these people (None: of all) whose chance is hidden for now, and by which audit.

    It is hidden from everybody, signed in or not, since whoever is to answer may read what others are told; only the
    `viewer` is told their own.
    """
    own = viewer.did if viewer else ""
    due = [
        (subject.author.did, audit)
        for subject, audit in due_audits(snapshot)
        if subject.author.did != own and (dids is None or subject.author.did in dids)
    ]
    return dict(reversed(due))


def _named(row: QueueRow) -> dict[str, object]:
    return {
        "pull_uri": row.uri,
        "record_cid": row.record_cid or "",
        "round": row.round,
        "patch_id": row.patch_id or "",
    }


def _payload(made: AuditAnswer, seen: Seen) -> dict[str, object]:
    """Return what the worker is told, as `scoring.handlers.actions` reads it."""
    return {
        "pull_uri": made.pull_uri,
        "record_cid": seen.record_cid,
        "round": seen.round,
        "patch_id": seen.patch_id,
        "would_merge": made.would_merge,
        "because": made.because,
        "person": made.person.did,
        "made_at": made.made_at.isoformat(),
    }
