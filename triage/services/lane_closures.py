"""Closes the fast lane: at once, by anybody who maintains what it is about; only a person opens it again.

The web heeds a closure from the moment in which the button is pressed, the worker from its next pass on.

Every page asks here about incidents: which mark opens one, which are open, and where the lane is closed.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, get_args

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from ingest.atproto.syntax import MalformedDid, parse_did
from ingest.store.snapshots import Snapshot
from scoring.explain.decided import CLAUSES, joined
from scoring.formatting import visible, visible_name
from scoring.pipeline.stored import CLAIMS
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
OPEN_ONLY = ("threshold_not_certified", "threshold_estimated")  # codes that say something of an open lane
ERASED = "an erased account"


@dataclass(frozen=True, slots=True)
class Scope:
    """For what a lane is closed: every change that is all of it; "" in a field is anything."""

    repo_key: str = ""
    author: str = ""
    voucher: str = ""


def read_scope(repo_key: str, author: str, voucher: str) -> Scope:
    """The scope that a form or a command names; ActionProblem for what is no DID."""
    try:
        return Scope(repo_key.strip(), *(parse_did(did.strip()) if did.strip() else "" for did in (author, voucher)))
    except MalformedDid as problem:
        raise ActionProblem(f"{problem} Nothing was closed.") from problem


def close_lane(person: Person, scope: Scope, because: str, now: datetime) -> tuple[LaneClosure, bool]:
    """Close the lane for this; the closure that stands, and whether it is new: closing twice changes nothing.

    Raises ActionProblem without a reason. Whether the person may is the caller's to ask.
    """
    because = read_reason(because)
    named = {"repo_key": scope.repo_key, "author": scope.author, "voucher": scope.voucher}
    try:
        with transaction.atomic():
            standing = LaneClosure.objects.filter(**named, opened_at=None).first()
            if standing is not None:
                return standing, False
            made = LaneClosure.objects.create(
                key=secrets.token_hex(16), **named, because=because, person=person, closed_at=now
            )
            told = {**named, "because": because, "person": person.did, "made_at": now.isoformat()}
            outbox.put(CLOSED, made.key, told, now)
            subject = scope.author or scope.voucher
            log_change(person, CLOSED, now, scope.repo_key, subject, key=made.key, because=because)
    except IntegrityError:  # somebody else was first, between our look and our write
        return LaneClosure.objects.get(**named, opened_at=None), False
    return made, True


def open_lane(person: Person, closure: LaneClosure, because: str, now: datetime) -> bool:
    """Open the lane again; False where somebody did so before. Raises ActionProblem without a reason."""
    because = read_reason(because)
    with transaction.atomic():
        moved = LaneClosure.objects.filter(pk=closure.pk, opened_at=None).update(
            opened_at=now, opened_by=person, opened_because=because
        )
        if not moved:
            return False
        told = {"closure": closure.key, "because": because, "person": person.did, "made_at": now.isoformat()}
        outbox.put(OPENED, f"{closure.key}:opened", told, now)
        subject = closure.author or closure.voucher
        log_change(person, OPENED, now, closure.repo_key, subject, key=closure.key, because=because)
    return True


def standing_closures(snapshot: Snapshot) -> tuple[Closure, ...]:
    """Every closure that stands, the oldest first."""
    if not is_any(STANDING):
        return ()
    found = list(LaneClosure.objects.filter(opened_at=None).select_related("person").order_by("pk"))
    known = names(snapshot, (did for one in found for did in (one.author, one.voucher)))
    return tuple(as_closure(one, known) for one in found)


def as_closure(one: LaneClosure, known: Mapping[str, str]) -> Closure:
    """The same as the gate knows it; `known` are the names of people by DID."""
    by = visible_name(str(one.person)) if one.person else ERASED
    closed_at = one.closed_at.astimezone(UTC).replace(tzinfo=None)
    did = one.author or one.voucher
    return Closure(one.key, one.repo_key, one.author, one.voucher, one.because, by, closed_at, _name(did, known))


def names_in(snapshot: Snapshot | None, closures: Iterable[Closure]) -> dict[str, str]:
    """Return what a sentence about closures names: repositories by key and people by DID."""
    repositories = read.repository_names(snapshot) if snapshot else {}
    return repositories | names(snapshot, (did for one in closures for did in (one.author, one.voucher)))


FAST_GROUPS: tuple[GroupKey, ...] = ("fast_lane", "would_be_fast_lane")


def lowered_row(row: QueueRow, closures: Sequence[Closure]) -> QueueRow:
    """The row as it is to be shown: not in the fast lane where a person closed it, whatever the snapshot says yet."""
    if row.verdict.lane is not Lane.FAST_LANE:
        return row
    vouchers = {person.did for person in row.path[:-1]}
    reason = closed_because(closures, row.repository_key, row.author.did, vouchers)
    return row if reason is None else _lowered(row, reason)


def lowered(found: Queue, closures: Sequence[Closure]) -> Queue:
    """The queue with what a person closed among what needs a review; counts are right for the rows in view."""
    if not closures:
        return found
    groups = {group.key: group for group in found.groups}
    own = groups.get("own")
    if own is not None:
        groups["own"] = replace(own, rows=tuple(lowered_row(row, closures) for row in own.rows))
    counts, moved = dict(found.counts), list[QueueRow]()
    for key in FAST_GROUPS:
        fast = groups.get(key)
        low = [one for row in (fast.rows if fast else ()) if (one := lowered_row(row, closures)) is not row]
        if fast is None or not low:
            continue
        gone = {row.uri for row in low}
        rest = tuple(row for row in fast.rows if row.uri not in gone)
        groups[key] = replace(fast, rows=rest, total=fast.total - len(low))
        counts[key] = max(counts.get(key, 0) - len(low), 0)
        moved += low
    if not moved:
        return replace(found, groups=tuple(groups[group.key] for group in found.groups))
    waiting = groups.get("normal_queue") or QueueGroup("normal_queue", (), 0, None, None)
    ages = [row.opened_at for row in moved if not (row.on_author or row.claim == CLAIMS["unverified"])]
    groups["normal_queue"] = replace(
        waiting,
        rows=(*moved, *waiting.rows),
        total=waiting.total + len(moved),
        oldest=min([*ages, *([waiting.oldest] if waiting.oldest else [])], default=None),
    )
    counts["normal_queue"] = counts.get("normal_queue", 0) + len(moved)
    ordered = tuple(groups[key] for key in get_args(GroupKey) if key in groups)
    return replace(found, groups=ordered, counts=counts)


def closure_words(closure: Closure, known: Mapping[str, str]) -> str:
    """One closure as a sentence without its reason; `known` are the names of repositories and people."""
    author, voucher = (visible_name(_name(did, known)) for did in (closure.author, closure.voucher))
    parts = [f"for pull requests by {author}"] if closure.author else []
    parts += [f"for people vouched for by {voucher}"] if closure.voucher else []
    where = visible_name(known.get(closure.repository, closure.repository)) if closure.repository else ""
    parts += [f"in {where}" if where else "in every repository"]
    return f"{visible_name(closure.by)} closed the fast lane {' '.join(parts)}"


def told_to_readers(closures: Iterable[Closure]) -> tuple[Closure, ...]:
    """Those that name nobody: what maintainers think of one account is not for everybody who reads the site."""
    return tuple(one for one in closures if not (one.author or one.voucher))


def _lowered(row: QueueRow, reason: Reason) -> QueueRow:
    kept = tuple(one for one in row.verdict.reasons if one.code not in OPEN_ONLY)
    verdict = replace(row.verdict, lane=Lane.NORMAL_QUEUE, reasons=(reason, *kept))
    clause = CLAUSES[reason.code](reason.params)
    sentence = joined([clause, *row.sentence.split("; ")])
    return replace(
        row,
        verdict=verdict,
        decided=clause,
        decided_exact=clause,
        sentence=sentence,
        would_change=WOULD_LIFT,
        place=None,  # that of the other lane
    )


def read_reason(text: str, missing: str = "Give a reason; maintainers see it.") -> str:
    """A reason as somebody typed it, trimmed; ActionProblem for none (`missing`) and for one that is too long."""
    because = text.strip()
    if not because:
        raise ActionProblem(f"Nothing changed. {missing}")
    if len(because) > REASON_LENGTH:
        raise ActionProblem(f"A reason may have {REASON_LENGTH} characters, this one has {len(because)}.")
    return because


def _name(did: str, known: Mapping[str, str]) -> str:
    return known.get(did) or (did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}")


BAD = (Action.Outcome.NEEDED_FIX, Action.Outcome.REVERTED)


def opened_by(mark: Action, snapshot: Snapshot) -> str | None:
    """Return where the incident of an action is, where it opens one: it marks something bad that somebody had
    approved or that the open lane had let through.
    """
    opens = opening(bad_marks().filter(pk=mark.pk), snapshot).exists()
    return reverse("incident", args=[mark.key]) if opens else None


def bad_marks() -> QuerySet:
    """Return the marks in force that say that a merge went wrong."""
    return Action.objects.filter(kind=Action.Kind.OUTCOME, outcome__in=BAD, undone_at=None)


def opening(marks: QuerySet, snapshot: Snapshot) -> QuerySet:
    """Return those bad marks that open an incident.

    An approval that took effect before the mark is kept here; that it is void, or that an open lane let the change
    through without one, is told by the snapshot.
    """
    approvals = Action.objects.filter(kind=Action.Kind.APPROVE, pull_uri=OuterRef("pull_uri"), undone_at=None)
    approved = Exists(approvals.filter(effective_at__lte=OuterRef("made_at")))
    voided = read.find_voided(snapshot, marks.filter(approved).values_list("pull_uri", flat=True))
    approved &= ~Q(pull_uri__in=voided)
    let_through = read.find_let_through(snapshot, marks.filter(~approved).values_list("pull_uri", flat=True))
    return marks.filter(approved | Q(pull_uri__in=let_through))


def incidents_of(roles: Roles, snapshot: Snapshot) -> Any:
    """The marks that open incidents in the repositories that somebody maintains: open ones first, then by age.

    A pull request has one incident, that of its newest bad mark. It `is_open` until somebody marks the pull request as
    clean or says that the incident is handled. Returns a query set.
    """
    keys = roles.keys(Role.MAINTAINER)
    where = Q() if "" in keys else Q(repo_key__in=keys)
    later = Action.objects.filter(
        pull_uri=OuterRef("pull_uri"), undone_at=None, kind=Action.Kind.OUTCOME, pk__gt=OuterRef("pk")
    )
    newest = opening(bad_marks().filter(where).exclude(Exists(later.filter(outcome__in=BAD))), snapshot)
    is_open = ~Exists(later.filter(outcome=Action.Outcome.CLEAN)) & Q(handled=None)
    told = newest.select_related("person", "handled__person").annotate(is_open=is_open)
    return told.order_by("-is_open", "-made_at", "-pk")


def handle(person: Person, mark: Action, conclusion: str, now: datetime) -> bool:
    """Keep that nothing is left to do about an incident and how it ended; False where somebody did so before."""
    told = {"person": person, "handled_at": now, "conclusion": conclusion}
    with transaction.atomic():
        _, is_new = HandledIncident.objects.get_or_create(mark=mark, defaults=told)
        if is_new:
            log_change(person, "incident.handled", now, mark.repo_key, mark.pull_uri)
    return is_new


def reopen_incident(person: Person, mark: Action, now: datetime) -> None:
    """Keep that something is to do about an incident again."""
    with transaction.atomic():
        if HandledIncident.objects.filter(mark=mark).delete()[0]:
            log_change(person, "incident.reopened", now, mark.repo_key, mark.pull_uri)


def banners(request: Request, snapshot: Snapshot) -> list[tuple[Closure, str]]:
    """Closures that this viewer is told of on queue and dashboard, each with its sentence."""
    found = standing_closures(snapshot)
    if not found:
        return []
    known, public = names_in(snapshot, found), told_to_readers(found)
    may = {key: role_of(request.user, key) >= Role.MAINTAINER for key in {one.repository for one in found}}
    told = [one for one in found if one in public or may[one.repository]]
    return [(one, visible(closure_words(one, known))) for one in told]


def newest_outcome(uri: str) -> Action | None:
    """Return the newest mark of what became of a pull request; None without one."""
    return Action.objects.filter(pull_uri=uri, kind=Action.Kind.OUTCOME, undone_at=None).order_by("-pk").first()
