"""Acts on pull requests: each action names what was seen, can be undone for 10 s, and takes effect once.

The caller passes the present and what the newest snapshot knows. Everything is decided in one transaction that holds
SQLite's write lock from its start, so of two people who act on the same row at the same moment one is late.

Before several pull requests of the fast lane are approved together, somebody sees what that would let in. That part is
pure.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from scoring.formatting import one_decimal_up, percent, percent_interval
from scoring.queries.read import QueueRow, Seen, Subject
from scoring.types import Lane
from triage.models import Action, Lease, Person, outbox
from triage.models.accounts import among, is_any, log_change

WINDOW = timedelta(seconds=10)  # in which an action can be undone, and after which it takes effect
SECOND_CLICK = timedelta(seconds=1.5)  # a slow double click takes 0.9 s, and the page between them some more
LEASE = timedelta(minutes=5)
NOTE_LENGTH = 2_000
OUTBOX_KIND = "action"
ON_FINDINGS = (Action.Kind.DISMISS_FINDING, Action.Kind.RESTORE_FINDING)
CHANGED_MEANWHILE = "Not saved: it changed since you opened it. Here is the current state."
YOU_WERE_FIRST = "Nothing changed: you acted on it already. Here is the current state."
OTHER_WAS_FIRST = "Nothing changed: somebody acted on it before you. Here is the current state."
WRITTEN = (Action.Kind.NOTE, Action.Kind.COMMENT, Action.Kind.REQUEST_CHANGES, Action.Kind.CLOSE)
REFUSALS = (Action.Kind.REQUEST_CHANGES, Action.Kind.CLOSE)
REVIEWS = (Action.Kind.PULL_FOR_REVIEW, *REFUSALS)
ENDINGS = (Action.Kind.APPROVE, *REFUSALS)  # after which nobody has to look at that round
ACTED = "select 1 from triage_action where pull_uri in (select value from json_each(%s)) limit 1"
LOOKED_AT = "select 1 from triage_lease where expires_at > %s and pull_uri in (select value from json_each(%s)) limit 1"
UNDOABLE = "select 1 from triage_action where person_id = %s and undone_at is null and effective_at >= %s limit 1"
APPROVED = "select 1 from triage_action where made_at >= %s and kind = 'approve' and undone_at is null limit 1"
OWN_WORK = "Nothing changed. You sent this pull request, so somebody else must approve it."
NOT_MERGED = "Nothing changed. It was not merged, so it has no outcome."
REVOKE_FIRST = "Nothing changed. This round is approved: revoke the approval first."
TOO_LATE = "The 10 seconds are over. Use Revoke approval."


class ActionProblem(Exception):
    """An action that cannot be taken, in one sentence for the person; nothing was changed."""


class Conflict(ActionProblem):
    """Raised when the subject is no longer as it stood on the screen; `uris` are the pull requests concerned."""

    def __init__(self, sentence: str, uris: Sequence[str]) -> None:
        super().__init__(sentence)
        self.uris = tuple(uris)


class Late(Conflict):
    """An undo after the window."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request of a form: the action, its pull request, and what stood on the screen.

    `version` counts what had been done to the row by then (`Standing.version`).
    """

    kind: str
    uri: str
    seen: Seen
    version: int
    outcome: str = ""
    note: str = ""
    findings: tuple[str, ...] = ()  # digests
    scanner: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """People's actions on one pull request that count for the round that is shown; pure data for a row."""

    version: int = 0  # actions and undos so far: two people whose screens agree hold the same number
    approval: Action | None = None
    own_approval: Action | None = None  # by whoever sent the pull request: it counts nowhere
    review: Action | None = None  # its person has it in hand, or refused this round
    answered: Action | None = None  # a request for changes that a newer round came after
    lease: Lease | None = None
    notes: tuple[Action, ...] = ()  # of whichever round, the oldest first


def act(person: Person, subjects: Mapping[str, Subject], wanted: Sequence[Wanted], now: datetime) -> list[Action]:
    """Take actions together or none of them; they take effect 10 s from now.

    `subjects` are the pull requests as the newest snapshot has them, with the decisions that stand on them
    (`read.decided_subjects`). Raises Conflict where one is not what was seen, ActionProblem where it cannot be done at
    all.
    """
    batch = secrets.token_hex(16) if len(wanted) > 1 else ""
    with transaction.atomic():
        done = _by_uri(one.uri for one in wanted)
        late = [one for one in wanted if _is_changed(one, subjects.get(one.uri))]
        if late:
            raise Conflict(CHANGED_MEANWHILE, [one.uri for one in late])
        late = [one for one in wanted if _version(done[one.uri]) != one.version]
        if late:
            uris = [one.uri for one in late]
            newest = Action.objects.filter(pull_uri__in=uris).order_by("pk").last()
            raise Conflict(YOU_WERE_FIRST if newest and newest.person == person else OTHER_WAS_FIRST, uris)
        for one in wanted:
            _check(person, one, subjects[one.uri], standing(done[one.uri], one.seen))
        return [_put(person, subjects[one.uri], one, batch, now) for one in wanted]


def undo(person: Person, key: str, now: datetime) -> list[Action]:
    """Undo an action, or all of a bulk approval by its batch key; Late after the window, even by a moment.

    Raises ActionProblem where nobody, or somebody else, did such a thing.
    """
    with transaction.atomic():
        found = list(Action.objects.filter(person=person, key=key) or Action.objects.filter(person=person, batch=key))
        if not found or not key:
            raise ActionProblem("You have nothing to undo.")
        if all(action.undone_at is not None for action in found):
            return found
        uris = [action.pull_uri for action in found]
        if any(now > action.effective_at for action in found):
            raise Late(TOO_LATE, uris)
        if not all(outbox.withdraw(action.key) for action in found):
            raise Late(TOO_LATE, uris)
        Action.objects.filter(pk__in=[action.pk for action in found]).update(undone_at=now)
        for action in found:
            log_change(person, "action.undone", now, action.repo_key, action.pull_uri, kind=action.kind, key=action.key)
    return list(Action.objects.filter(pk__in=[action.pk for action in found]).order_by("pk"))


def find_undone(person: Person, uri: str, key: str) -> Action | None:
    """Return what this person wrote about a pull request and took back, by the key of the action."""
    done = Action.objects.filter(person=person, pull_uri=uri, key=key, undone_at__isnull=False).exclude(note="")
    return done.first() if key else None


def is_second_click(person: Person, uri: str, now: datetime) -> bool:
    """Return whether this person undid something of a pull request less than SECOND_CLICK ago."""
    return Action.objects.filter(person=person, pull_uri=uri, undone_at__gt=now - SECOND_CLICK).exists()


def look(person: Person, subject: Subject, now: datetime) -> Lease:
    """Say that a person looks at a pull request, for 5 minutes from now; another's lease that stands is left alone."""
    with transaction.atomic():
        held = Lease.objects.filter(pull_uri=subject.uri).select_related("person").first()
        if held is not None and held.person != person and held.expires_at > now:
            return held
        lease, _ = Lease.objects.update_or_create(
            pull_uri=subject.uri, defaults={"person": person, "expires_at": now + LEASE}
        )
    return lease


def undoable(person: Person, now: datetime) -> list[Action]:
    """Return what this person did within the window, newest first; of a bulk approval each part."""
    if not is_any(UNDOABLE, person.pk, now):
        return []
    return list(
        Action.objects.filter(person=person, undone_at=None, made_at__lte=now, effective_at__gte=now).order_by("-pk")
    )


def acted_on(person: Person) -> list[str]:
    """The pull requests that a person approved or took in hand, whatever became of it."""
    kinds = (Action.Kind.APPROVE, *REVIEWS)
    done = Action.objects.filter(person=person, kind__in=kinds, undone_at=None).order_by()
    return list(done.values_list("pull_uri", flat=True).distinct())


def versions(uris: Iterable[str]) -> dict[str, int]:
    """Return how much was done to each of these pull requests: actions, and undos once more; none is missing from
    the map.
    """
    return {uri: _version(actions) for uri, actions in _by_uri(uris).items()}


def standings(seen: Mapping[str, Seen], now: datetime) -> dict[str, Standing]:
    """Return what people did to these pull requests, as far as it counts for the round that is shown."""
    held = {lease.pull_uri: lease for lease in _leases(seen, now)}
    return {uri: standing(actions, seen[uri], held.get(uri)) for uri, actions in _by_uri(seen).items()}


def dismissals(uri: str) -> dict[str, Action]:
    """The findings of a pull request that are called false alarms, by digest, with the action that says so last."""
    done = Action.objects.filter(pull_uri=uri, kind__in=ON_FINDINGS, undone_at=None).select_related("person")
    return {digest: action for (_, digest), action in _dismissed(done.order_by("pk")).items()}


def false_alarms() -> dict[str, int]:
    """Return how many findings people call false alarms, by scanner, the most first."""
    done = Action.objects.filter(kind__in=ON_FINDINGS, undone_at=None).order_by("pk")
    return dict(Counter(action.scanner for action in _dismissed(done).values()).most_common())


def _dismissed(done: Iterable[Action]) -> dict[tuple[str, str], Action]:
    found: dict[tuple[str, str], Action] = {}
    for action in done:
        for digest in action.findings.split():
            found.pop((action.pull_uri, digest), None)
            if action.kind == Action.Kind.DISMISS_FINDING:
                found[action.pull_uri, digest] = action
    return found


def _leases(uris: Iterable[str], now: datetime) -> Iterable[Lease]:
    named = list(uris)
    if not is_any(LOOKED_AT, now, among(named)):
        return ()
    return Lease.objects.filter(pull_uri__in=named, expires_at__gt=now).select_related("person")


def standing(actions: Sequence[Action], seen: Seen, lease: Lease | None = None) -> Standing:
    """The same for one pull request from all of its actions in order; pure."""
    approval = own_approval = review = answered = None
    for action in actions:
        if action.undone_at is not None:
            continue
        if action.kind == Action.Kind.RELEASE:
            approval = own_approval = review = answered = None
        elif action.kind == Action.Kind.PULL_FOR_REVIEW or (action.kind in REFUSALS and _is_of_round(action, seen)):
            review = action
        elif action.kind == Action.Kind.REQUEST_CHANGES:
            answered = action
        elif action.kind == Action.Kind.APPROVE and seen_by(action) == seen:
            approval, own_approval = (approval, action) if is_own(action) else (action, own_approval)
    notes = tuple(one for one in actions if one.kind in WRITTEN and one.undone_at is None)
    return Standing(_version(actions), approval, own_approval, review, answered, lease, notes)


def _is_of_round(action: Action, seen: Seen) -> bool:
    """Return whether an action meant this round of the patch; its record may have other words by now."""
    return (action.round, action.patch_id) == (seen.round, seen.patch_id)


def is_own(action: Action) -> bool:
    """Return whether somebody acted on what they sent themselves: the address of a record begins with its author's
    DID.
    """
    return action.pull_uri.startswith(f"at://{action.person.did}/")


def seen_by(action: Action) -> Seen:
    """Return what the person saw."""
    return Seen(action.record_cid, action.round, action.patch_id)


def in_flight(now: datetime, within: timedelta) -> list[Action]:
    """Approvals made lately and not undone: the snapshot may not show yet that they took effect."""
    since = now - within
    if not is_any(APPROVED, since):
        return []
    made = Action.objects.filter(kind=Action.Kind.APPROVE, undone_at=None, made_at__gte=since)
    return [action for action in made.select_related("person") if not is_own(action)]


def _by_uri(uris: Iterable[str]) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = {uri: [] for uri in uris}
    if not is_any(ACTED, among(found)):
        return found
    for action in Action.objects.filter(pull_uri__in=list(found)).select_related("person").order_by("pk"):
        found[action.pull_uri].append(action)
    return found


def _version(actions: Sequence[Action]) -> int:
    return len(actions) + sum(action.undone_at is not None for action in actions)


def _is_changed(wanted: Wanted, subject: Subject | None) -> bool:
    return subject is None or subject.seen != wanted.seen


def _check(person: Person, wanted: Wanted, subject: Subject, stand: Standing) -> None:
    """Refuse an action that this person cannot take on a pull request as it stands now."""
    if wanted.kind not in Action.Kind.values:
        raise ActionProblem("This action does not exist.")
    if wanted.kind in (Action.Kind.APPROVE, *REVIEWS) and subject.state != "open":
        raise Conflict(f"Nothing changed: it is already {subject.state}.", [wanted.uri])
    if wanted.kind in REFUSALS and stand.approval:
        raise Conflict(REVOKE_FIRST, [wanted.uri])
    if wanted.kind == Action.Kind.APPROVE and subject.seen.patch_id is None:
        sentence = "Nothing changed: its patch has not arrived yet or cannot be read."
        raise Conflict(sentence, [wanted.uri])
    if wanted.kind == Action.Kind.APPROVE and subject.author.did == person.did:
        raise Conflict(OWN_WORK, [wanted.uri])
    if (wanted.outcome in Action.Outcome.values) != (wanted.kind == Action.Kind.OUTCOME):
        raise ActionProblem("Choose an outcome: clean, needed a fix, or reverted.")
    if wanted.kind == Action.Kind.OUTCOME and subject.state != "merged":
        raise Conflict(NOT_MERGED, [wanted.uri])
    _check_words(person, wanted, subject)


def _check_words(person: Person, wanted: Wanted, subject: Subject) -> None:
    """Refuse what lacks its text or its findings, and an author's word on what was found in their own change."""
    if wanted.kind in WRITTEN and not wanted.note.strip():
        raise ActionProblem("Write something first.")
    if (wanted.kind in ON_FINDINGS) != bool(wanted.findings):
        raise ActionProblem("Choose a finding of this change first.")
    if wanted.kind in ON_FINDINGS and subject.author.did == person.did:
        raise ActionProblem("This is your own pull request. Another maintainer decides whether a finding is a problem.")
    if wanted.kind == Action.Kind.DISMISS_FINDING and not wanted.note.strip():
        raise ActionProblem("Say why it is not a problem. The other maintainers read it.")


def _put(person: Person, subject: Subject, wanted: Wanted, batch: str, now: datetime) -> Action:
    action = Action.objects.create(
        key=secrets.token_hex(16),
        person=person,
        pull_uri=subject.uri,
        repo_key=subject.repository_key,
        kind=wanted.kind,
        outcome=wanted.outcome,
        note=wanted.note.strip()[:NOTE_LENGTH],
        findings=" ".join(wanted.findings),
        scanner=wanted.scanner,
        record_cid=wanted.seen.record_cid,
        round=wanted.seen.round,
        patch_id=wanted.seen.patch_id,
        decision=subject.decision,
        batch=batch,
        made_at=now,
        effective_at=now + WINDOW,
    )
    outbox.put(OUTBOX_KIND, action.key, payload_of(action), now, action.effective_at)
    told = {"key": action.key, "batch": batch, "outcome": action.outcome}
    log_change(person, f"action.{action.kind}", now, action.repo_key, action.pull_uri, **told)
    return action


def payload_of(action: Action) -> dict[str, Any]:
    """Return what the worker is told, as `scoring.handlers.actions` reads it."""
    named = ("kind", "outcome", "note", "pull_uri", "record_cid", "round", "patch_id", "decision", "batch")
    told = {name: getattr(action, name) for name in named}
    return told | {"person": action.person.did, "made_at": action.made_at.isoformat()}


TYPED_ABOVE = 20  # more at once are approved only by somebody who types how many
AT_MOST = 200
CI_STATES = {
    "passed": "passed",
    "failed": "failed",
    "running": "running",
    "never_ran": "did not run",
    "": "without CI",
}
LEFT_THE_LANE = "Nothing changed: some of them are no longer in the fast lane."
CI_FAILED = "Nothing changed: CI failed on some of them. Approve those one by one."


@dataclass(frozen=True, slots=True)
class BulkSummary:
    """The pull requests about to be approved, in figures.

    `expected_bad` is how many of them may need a fix: the sum over the rows of 1 minus P(clean). `worst_bad` is the
    same at the lower ends of the 95 % intervals, where the rows without a P(clean) count as bad. Both round up.
    """

    count: int
    lines: int
    lowest: str  # the lowest P(clean) in whole percents, rounded down
    interval: str  # of that one, 95 %; "" where there is none
    expected_bad: str
    worst_bad: str
    hidden: int  # whose chance is hidden until an audit is answered: neither sum counts them
    ci: str  # "12 passed, 2 without CI"
    must_type: bool


def summary(found: Sequence[QueueRow]) -> BulkSummary:
    """The figures of the confirmation."""
    shown = [row.verdict.estimate for row in found if not row.hidden_by]
    known = [estimate for estimate in shown if estimate.probability is not None]
    states: Counter[str] = Counter(row.ci or "" for row in found)
    lowest = min(known, key=lambda estimate: estimate.probability or 0.0, default=None)
    return BulkSummary(
        count=len(found),
        lines=sum((row.added or 0) + (row.removed or 0) for row in found),
        lowest="none" if lowest is None else percent(lowest.probability or 0.0),
        interval="" if lowest is None else percent_interval(lowest.low, lowest.high),
        expected_bad=one_decimal_up(sum(1 - (estimate.probability or 0.0) for estimate in shown)),
        worst_bad=one_decimal_up(sum(1 - estimate.low for estimate in shown)),
        hidden=len(found) - len(shown),
        ci=", ".join(f"{states[state]:,} {words}" for state, words in CI_STATES.items() if states[state]),
        must_type=len(found) > TYPED_ABOVE,
    )


def check_lane(
    wanted: Sequence[Wanted], found: Mapping[str, QueueRow], changed: Collection[str], approver: str
) -> None:
    """ActionProblem for none or too many, Conflict naming those that are not in the fast lane as it stands now.

    The same for those that the approver, a DID, sent themselves.

    What changed after somebody approved it, what its author could push themselves, what the audit asks about, what is
    in shadow mode and what failed its tests are never approved in bulk.
    """
    if not wanted:
        raise ActionProblem("Select at least one pull request first.")
    if len(wanted) > AT_MOST or len({one.uri for one in wanted}) != len(wanted):
        raise ActionProblem(f"At most {AT_MOST} different pull requests can be approved together.")
    own = [one.uri for one in wanted if (row := found.get(one.uri)) and row.author.did == approver]
    if own:
        raise Conflict(OWN_WORK, own)
    outside = [one.uri for one in wanted if one.uri in changed or not _is_fast(found.get(one.uri))]
    if outside:
        raise Conflict(LEFT_THE_LANE, outside)
    failed = [one.uri for one in wanted if found[one.uri].ci == "failed"]
    if failed:
        raise Conflict(CI_FAILED, failed)


def check_typed(count: int, typed: str) -> None:
    """ActionProblem where the number was to be typed and was not."""
    if count > TYPED_ABOVE and typed.strip() != str(count):
        raise ActionProblem(f"Nothing changed. Type {count} to approve {count} pull requests.")


def _is_fast(row: QueueRow | None) -> bool:
    if row is None or row.shadow or row.is_sealed:
        return False
    return row.verdict.lane is Lane.FAST_LANE and not row.own
