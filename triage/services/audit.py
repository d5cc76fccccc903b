"""Answers to the audit's one question, and the display of a drawn pull request before and after it."""

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
WITHDRAWN = "Not saved: its random audit was withdrawn with the opening of the lane."
_drawn = PerSnapshot[tuple[tuple[Subject, DueAudit], ...]](1)


def answer(person: Person, row: QueueRow, seen: Seen, would_merge: bool, because: str, now: datetime) -> AuditAnswer:
    """Store the answer about the displayed version; `row` is its present state.

    Raises Conflict where the version changed, somebody answered before or the audit was withdrawn, and ActionProblem
    without a reason.
    """
    because = because.strip()
    if not because or len(because) > REASON_LENGTH:
        raise ActionProblem(f"Not saved. Give a reason of at most {REASON_LENGTH} characters.")
    if seen != Seen(row.record_cid, row.round, row.patch_id):
        raise Conflict(CHANGED, [row.uri])
    if not row.is_sealed:
        raise Conflict(OTHER_WAS_FIRST if row.audited else WITHDRAWN, [row.uri])
    try:
        with transaction.atomic():
            saved = AuditAnswer.objects.create(
                **_version_fields(row),
                key=secrets.token_hex(16),
                repo_key=row.repository_key,
                would_merge=would_merge,
                because=because,
                person=person,
                made_at=now,
            )
            outbox.put(ANSWERED, saved.key, _payload(saved, seen), now)
            log_change(person, ANSWERED, now, row.repository_key, row.uri, key=saved.key, would_merge=would_merge)
    except IntegrityError as problem:
        raise Conflict(OTHER_WAS_FIRST, [row.uri]) from problem
    return saved


def unsealed(snapshot: Snapshot, row: QueueRow) -> QueueRow:
    """Return the row with everything known, where somebody has answered since this snapshot was made."""
    if not row.is_sealed:
        return row
    given = AuditAnswer.objects.filter(**_version_fields(row)).select_related("person").first()
    if given is None:
        return row
    answerer = visible_name(str(given.person)) if given.person else ERASED
    audit_answer = read.AuditAnswer(
        given.would_merge, given.because, answerer, given.made_at.astimezone(UTC).replace(tzinfo=None)
    )
    return read.unsealed(snapshot, row.uri, audit_answer) or row


def due_audits(snapshot: Snapshot) -> list[tuple[Subject, DueAudit]]:
    """Return all unanswered audits, oldest first."""
    drawn = _drawn.get(snapshot, "", lambda: read.due_audits(snapshot))
    answers = AuditAnswer.objects.filter(pull_uri__in=[subject.uri for subject, _ in drawn]) if drawn else ()
    answered = {
        (
            given_answer.pull_uri,
            Seen(given_answer.record_cid or None, given_answer.round, given_answer.patch_id or None),
        )
        for given_answer in answers
    }
    return [(subject, due) for subject, due in drawn if (subject.uri, subject.seen) not in answered]


def hiding_audits(
    snapshot: Snapshot, viewer: Person | None = None, dids: Collection[str] | None = None
) -> dict[str, DueAudit]:
    """Return which of these people's chances (None: everybody's) are hidden for now, each with its audit.

    They are hidden from everybody, signed in or not, because the person who is to answer may read what others are
    shown; only the `viewer` may see their own.
    """
    own = viewer.did if viewer else ""
    due = [
        (subject.author.did, audit)
        for subject, audit in due_audits(snapshot)
        if subject.author.did != own and (dids is None or subject.author.did in dids)
    ]
    return dict(reversed(due))


def _version_fields(row: QueueRow) -> dict[str, object]:
    return {
        "pull_uri": row.uri,
        "record_cid": row.record_cid or "",
        "round": row.round,
        "patch_id": row.patch_id or "",
    }


def _payload(given: AuditAnswer, seen: Seen) -> dict[str, object]:
    """Return the message to the worker, as `scoring.handlers.actions` reads it."""
    return {
        "pull_uri": given.pull_uri,
        "record_cid": seen.record_cid,
        "round": seen.round,
        "patch_id": seen.patch_id,
        "would_merge": given.would_merge,
        "because": given.because,
        "person": given.person.did,
        "made_at": given.made_at.isoformat(),
    }
