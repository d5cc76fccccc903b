"""Close the fast lane at once; only a person opens it again.

The web applies a closure as soon as the button is pressed, the worker from its next pass on.

Every page also asks here about incidents: which mark opens one, which are open, and where the lane is closed.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse

from ingest.atproto.syntax import MalformedDid, parse_did
from ingest.store.snapshots import Snapshot
from scoring.explain.decided import CLAUSES, joined
from scoring.formatting import visible, visible_name
from scoring.queries import read
from scoring.queries.read import Closure, GroupKey, Queue, QueueGroup, QueueRow, closed_because
from scoring.types import Lane, Reason
from triage.access.permissions import Role, Roles, role_of
from triage.access.requests import Request
from triage.models import Action, HandledIncident, LaneClosure, Person, outbox
from triage.models.accounts import is_any, log_change
from triage.services.actions import ActionProblem
from triage.services.names import names

REASON_LENGTH = 500
CLOSED, OPENED = "lane.closed", "lane.opened"
STANDING = "select 1 from triage_laneclosure where opened_at is null limit 1"
WOULD_LIFT = "Only a person can open this lane again."
OPEN_ONLY = ("threshold_not_certified", "threshold_estimated")  # reason codes of an open lane
ERASED = "an erased account"


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a closure: changes that match every field; "" matches anything."""

    repo_key: str = ""
    author: str = ""
    voucher: str = ""


def read_scope(repo_key: str, author: str, voucher: str) -> Scope:
    """Return the scope that a form or a command names; raise ActionProblem for a malformed DID."""
    try:
        return Scope(repo_key.strip(), *(parse_did(did.strip()) if did.strip() else "" for did in (author, voucher)))
    except MalformedDid as problem:
        raise ActionProblem(f"{problem} Nothing was closed.") from problem


def close_lane(person: Person, scope: Scope, because: str, now: datetime) -> tuple[LaneClosure, bool]:
    """Close the lane for this scope; return the closure and whether it is new: closing twice changes nothing.

    Raises ActionProblem without a reason. The caller checks the role.
    """
    because = read_reason(because)
    scope_fields = {"repo_key": scope.repo_key, "author": scope.author, "voucher": scope.voucher}
    try:
        with transaction.atomic():
            current = LaneClosure.objects.filter(**scope_fields, opened_at=None).first()
            if current is not None:
                return current, False
            created = LaneClosure.objects.create(
                key=secrets.token_hex(16), **scope_fields, because=because, person=person, closed_at=now
            )
            message = {**scope_fields, "because": because, "person": person.did, "made_at": now.isoformat()}
            outbox.put(CLOSED, created.key, message, now)
            subject = scope.author or scope.voucher
            log_change(person, CLOSED, now, scope.repo_key, subject, key=created.key, because=because)
    except IntegrityError:  # somebody else wrote it between our read and our write
        return LaneClosure.objects.get(**scope_fields, opened_at=None), False
    return created, True


def open_lane(person: Person, closure: LaneClosure, because: str, now: datetime) -> bool:
    """Open the lane again; False where somebody already did. Raises ActionProblem without a reason."""
    because = read_reason(because)
    with transaction.atomic():
        changed = LaneClosure.objects.filter(pk=closure.pk, opened_at=None).update(
            opened_at=now, opened_by=person, opened_because=because
        )
        if not changed:
            return False
        message = {"closure": closure.key, "because": because, "person": person.did, "made_at": now.isoformat()}
        outbox.put(OPENED, f"{closure.key}:opened", message, now)
        subject = closure.author or closure.voucher
        log_change(person, OPENED, now, closure.repo_key, subject, key=closure.key, because=because)
    return True


def standing_closures(snapshot: Snapshot) -> tuple[Closure, ...]:
    """Return every closure in force, oldest first."""
    if not is_any(STANDING):
        return ()
    rows = list(LaneClosure.objects.filter(opened_at=None).select_related("person").order_by("pk"))
    people = names(snapshot, (did for row in rows for did in (row.author, row.voucher)))
    return tuple(as_closure(row, people) for row in rows)


def as_closure(row: LaneClosure, people: Mapping[str, str]) -> Closure:
    """Return the closure as the gate knows it; `people` are the names of people by DID."""
    closer = visible_name(str(row.person)) if row.person else ERASED
    closed_at = row.closed_at.astimezone(UTC).replace(tzinfo=None)
    did = row.author or row.voucher
    return Closure(row.key, row.repo_key, row.author, row.voucher, row.because, closer, closed_at, _name(did, people))


def names_in(snapshot: Snapshot | None, closures: Iterable[Closure]) -> dict[str, str]:
    """Return the names in sentences about closures: repositories by key and people by DID."""
    repositories = read.repository_names(snapshot) if snapshot else {}
    return repositories | names(snapshot, (did for closure in closures for did in (closure.author, closure.voucher)))


def lowered_row(row: QueueRow, closures: Sequence[Closure]) -> QueueRow:
    """Return the row for display: outside the fast lane where a person closed it.

    The snapshot may not know of the closure yet.
    """
    if row.verdict.lane is not Lane.FAST_LANE:
        return row
    vouchers = {person.did for person in row.path[:-1]}
    reason = closed_because(closures, row.repository_key, row.author.did, vouchers)
    return row if reason is None else _with_lowered_lane(row, reason)


def lowered(shown: Queue, closures: Sequence[Closure]) -> Queue:
    """Move fast-lane rows of closed lanes to the group that needs a review; counts are right for the rows in view."""
    if not closures:
        return shown
    groups = {group.key: group for group in shown.groups}
    fast = groups.get("fast_lane")
    own = groups.get("own")
    if own is not None:
        groups["own"] = replace(own, rows=tuple(lowered_row(row, closures) for row in own.rows))
    lowered_rows = [
        changed_row for row in (fast.rows if fast else ()) if (changed_row := lowered_row(row, closures)) is not row
    ]
    if fast is None or not lowered_rows:
        return replace(shown, groups=tuple(groups[group.key] for group in shown.groups))
    moved_uris = {row.uri for row in lowered_rows}
    groups["fast_lane"] = replace(
        fast, rows=tuple(row for row in fast.rows if row.uri not in moved_uris), total=fast.total - len(lowered_rows)
    )
    waiting = groups.get("normal_queue") or QueueGroup("normal_queue", (), 0, None, None)
    oldest = min(row.opened_at for row in lowered_rows)
    groups["normal_queue"] = replace(
        waiting,
        rows=(*lowered_rows, *waiting.rows),
        total=waiting.total + len(lowered_rows),
        oldest=min(oldest, waiting.oldest or oldest),
    )
    counts = dict(shown.counts)
    counts[Lane.FAST_LANE] = max(counts.get(Lane.FAST_LANE, 0) - len(lowered_rows), 0)
    counts[Lane.NORMAL_QUEUE] = counts.get(Lane.NORMAL_QUEUE, 0) + len(lowered_rows)
    ordered = tuple(groups[key] for key in get_args(GroupKey) if key in groups)
    return replace(
        shown, groups=ordered, counts=counts, watched=shown.watched - sum(row.shadow for row in lowered_rows)
    )


def closure_words(closure: Closure, names_by_key: Mapping[str, str]) -> str:
    """Describe one closure in a sentence without its reason; `names_by_key` names repositories and people."""
    author, voucher = (visible_name(_name(did, names_by_key)) for did in (closure.author, closure.voucher))
    parts = [f"for pull requests by {author}"] if closure.author else []
    parts += [f"for people vouched for by {voucher}"] if closure.voucher else []
    where = visible_name(names_by_key.get(closure.repository, closure.repository)) if closure.repository else ""
    parts += [f"in {where}" if where else "in every repository"]
    return f"{visible_name(closure.by)} closed the fast lane {' '.join(parts)}"


def told_to_readers(closures: Iterable[Closure]) -> tuple[Closure, ...]:
    """Return closures that name nobody: maintainers' judgements of one account are not public."""
    return tuple(closure for closure in closures if not (closure.author or closure.voucher))


def _with_lowered_lane(row: QueueRow, reason: Reason) -> QueueRow:
    other_reasons = tuple(other for other in row.verdict.reasons if other.code not in OPEN_ONLY)
    verdict = replace(row.verdict, lane=Lane.NORMAL_QUEUE, reasons=(reason, *other_reasons))
    clause = CLAUSES[reason.code](reason.params)
    sentence = joined([clause, *row.sentence.split("; ")])
    return replace(
        row, verdict=verdict, decided=clause, decided_exact=clause, sentence=sentence, would_change=WOULD_LIFT
    )


def read_reason(text: str) -> str:
    """Return a typed reason, trimmed; raise ActionProblem for an empty one and one that is too long."""
    because = text.strip()
    if not because:
        raise ActionProblem("Nothing changed. Give a reason; maintainers see it.")
    if len(because) > REASON_LENGTH:
        raise ActionProblem(f"A reason may have {REASON_LENGTH} characters, this one has {len(because)}.")
    return because


def _name(did: str, people: Mapping[str, str]) -> str:
    return people.get(did) or (did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}")


BAD = (Action.Outcome.NEEDED_FIX, Action.Outcome.REVERTED)


def opened_by(mark: Action) -> str | None:
    """Return the address of the incident that a mark opens by marking an approved pull request as bad."""
    if mark.kind != Action.Kind.OUTCOME or mark.outcome not in BAD:
        return None
    approvals = Action.objects.filter(kind=Action.Kind.APPROVE, pull_uri=mark.pull_uri, undone_at=None)
    took_effect = approvals.filter(effective_at__lte=mark.made_at).exists()
    return reverse("incident", args=[mark.key]) if took_effect else None


def incidents_of(roles: Roles) -> Any:
    """Return the marks with incidents in somebody's repositories as a query set: open ones first, then by age.

    A pull request has one incident, that of its newest bad mark. It `is_open` until somebody marks the pull request as
    clean or the incident as handled.
    """
    keys = roles.keys(Role.MAINTAINER)
    where = Q() if "" in keys else Q(repo_key__in=keys)
    same_pull = Action.objects.filter(pull_uri=OuterRef("pull_uri"), undone_at=None)
    approved = same_pull.filter(kind=Action.Kind.APPROVE, effective_at__lte=OuterRef("made_at"))
    later = same_pull.filter(kind=Action.Kind.OUTCOME, pk__gt=OuterRef("pk"))
    marks = Action.objects.filter(where, Exists(approved), kind=Action.Kind.OUTCOME, outcome__in=BAD, undone_at=None)
    newest_marks = marks.exclude(Exists(later.filter(outcome__in=BAD))).select_related("person", "handled__person")
    is_open = ~Exists(later.filter(outcome=Action.Outcome.CLEAN)) & Q(handled=None)
    return newest_marks.annotate(is_open=is_open).order_by("-is_open", "-made_at", "-pk")


def handle(person: Person, mark: Action, is_handled: bool, now: datetime) -> None:
    """Record that an incident is handled, or that it is open again."""
    handled = HandledIncident.objects.filter(mark=mark)
    with transaction.atomic():
        if handled.exists() == is_handled:
            return
        if is_handled:
            HandledIncident.objects.create(mark=mark, person=person, handled_at=now)
        else:
            handled.delete()
        what = "incident.handled" if is_handled else "incident.reopened"
        log_change(person, what, now, mark.repo_key, mark.pull_uri)


def banners(request: Request, snapshot: Snapshot) -> list[tuple[Closure, str]]:
    """Return the closures that this viewer may see on queue and dashboard, each with its sentence."""
    in_force = standing_closures(snapshot)
    if not in_force:
        return []
    names_by_key, public = names_in(snapshot, in_force), told_to_readers(in_force)
    may_see = {
        key: role_of(request.user, key) >= Role.MAINTAINER for key in {closure.repository for closure in in_force}
    }
    visible_closures = [closure for closure in in_force if closure in public or may_see[closure.repository]]
    return [(closure, visible(closure_words(closure, names_by_key))) for closure in visible_closures]
