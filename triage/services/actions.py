"""Act on pull requests: each action names the displayed version, can be undone for 10 s, and takes effect once.

The caller passes the present time and the state of the newest snapshot. Each decision is one transaction that holds
SQLite's write lock from its start, so of two people acting on one row at once, the second gets a conflict.

Before a bulk approval of fast-lane pull requests its summary is shown. That part is pure.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from scoring.formatting import one_decimal_up, percent, percent_interval
from scoring.queries.read import QueueRow, Seen, Subject
from scoring.types import Lane
from triage.models import Action, Lease, Person, outbox
from triage.models.accounts import among, is_any, log_change
from triage.models.own_records import withdraw_records

WINDOW = timedelta(seconds=10)  # time to undo an action, after which it takes effect
SECOND_CLICK = timedelta(seconds=1.5)  # a slow double click takes 0.9 s, plus the page load in between
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
VERDICTS = (*REFUSALS, Action.Kind.CONFIRM_MERGE)
TO_AUTHOR = (Action.Kind.COMMENT, Action.Kind.REQUEST_CHANGES)  # notes and reasons are for maintainers
SAID = (*WRITTEN, Action.Kind.ANSWER)
SPOKEN = (*TO_AUTHOR, Action.Kind.CLOSE, Action.Kind.APPROVE)  # after these the author's answer is not news any more
ON_CLAIM = (Action.Kind.CONFIRM_MERGE, Action.Kind.DENY_MERGE)
ENDINGS = (
    Action.Kind.APPROVE,
    *REFUSALS,
    Action.Kind.CONFIRM_MERGE,
)  # actions after which that round needs no further look
DECIDING = (*ENDINGS, Action.Kind.PULL_FOR_REVIEW, Action.Kind.RELEASE)
ACTED = "select 1 from triage_action where pull_uri in (select value from json_each(%s)) limit 1"
LOOKED_AT = "select 1 from triage_lease where expires_at > %s and pull_uri in (select value from json_each(%s)) limit 1"
UNDOABLE = "select 1 from triage_action where person_id = %s and undone_at is null and effective_at >= %s limit 1"
APPROVED = "select 1 from triage_action where made_at >= %s and kind = 'approve' and undone_at is null limit 1"
OWN_WORK = "Nothing changed. You sent this pull request, so somebody else must approve it."
OWN_CLAIM = "Nothing changed. You sent this pull request, so somebody else must say whether it was merged."
NOT_MERGED = "Nothing changed. It was not merged, so it has no outcome."
REVOKE_FIRST = "Nothing changed. This round is approved: revoke the approval first."
TOO_LATE = "The 10 seconds are over. Use Revoke approval."


class ActionProblem(Exception):
    """An action that cannot be taken, explained in one sentence; nothing was changed."""


class Conflict(ActionProblem):
    """Raised when the subject is no longer as displayed; `uris` are the pull requests concerned."""

    def __init__(self, sentence: str, uris: Sequence[str]) -> None:
        super().__init__(sentence)
        self.uris = tuple(uris)


class Late(Conflict):
    """An undo after the window."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request of a form: the action, its pull request, and the displayed version.

    `version` counts the actions on the row at that time (`Standing.version`).
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
    """People's actions on one pull request that count for the displayed round; pure data for a row."""

    version: int = 0  # number of actions and undos so far, equal where two people's screens agree
    approval: Action | None = None
    own_approval: Action | None = None  # by the author of the pull request: it never counts
    review: Action | None = None  # its person is assigned, or refused this round
    answered: Action | None = None  # a request for changes to an earlier round
    lease: Lease | None = None
    reply: Action | None = None  # the author's answer, while no maintainer spoke after it
    notes: tuple[Action, ...] = ()  # of all rounds, oldest first, with the author's answers


def act(person: Person, subjects: Mapping[str, Subject], wanted: Sequence[Wanted], now: datetime) -> list[Action]:
    """Take all of these actions or none; they take effect 10 s from now.

    `subjects` are the pull requests in the newest snapshot, with their current decisions (`read.decided_subjects`).
    Raises Conflict where one differs from what was displayed, ActionProblem where it is impossible.
    """
    batch = secrets.token_hex(16) if len(wanted) > 1 else ""
    with transaction.atomic():
        actions_by_uri = _by_uri(request.uri for request in wanted)
        conflicting = [request for request in wanted if _is_changed(request, subjects.get(request.uri))]
        if conflicting:
            raise Conflict(CHANGED_MEANWHILE, [request.uri for request in conflicting])
        conflicting = [request for request in wanted if _version(actions_by_uri[request.uri]) != request.version]
        if conflicting:
            uris = [request.uri for request in conflicting]
            newest = Action.objects.filter(pull_uri__in=uris).order_by("pk").last()
            raise Conflict(YOU_WERE_FIRST if newest and newest.person == person else OTHER_WAS_FIRST, uris)
        for request in wanted:
            _check(person, request, subjects[request.uri], standing(actions_by_uri[request.uri], request.seen))
        return [save_action(person, subjects[request.uri], request, now, now + WINDOW, batch) for request in wanted]


def undo(person: Person, key: str, now: datetime) -> list[Action]:
    """Undo an action, or all of a bulk approval by its batch key; raise Late after the window, even by a moment.

    Raises ActionProblem where there is no such action by this person.
    """
    with transaction.atomic():
        undone = list(Action.objects.filter(person=person, key=key) or Action.objects.filter(person=person, batch=key))
        if not undone or not key:
            raise ActionProblem("You have nothing to undo.")
        if all(action.undone_at is not None for action in undone):
            return undone
        uris = [action.pull_uri for action in undone]
        if any(now > action.effective_at for action in undone):
            raise Late(TOO_LATE, uris)
        if not (withdraw_records(undone) and all(outbox.withdraw(action.key) for action in undone)):
            raise Late(TOO_LATE, uris)
        Action.objects.filter(pk__in=[action.pk for action in undone]).update(undone_at=now)
        for action in undone:
            log_change(person, "action.undone", now, action.repo_key, action.pull_uri, kind=action.kind, key=action.key)
    return list(Action.objects.filter(pk__in=[action.pk for action in undone]).order_by("pk"))


def undo_sent(action: Action, now: datetime) -> None:
    """Undo an action whose record its person deleted on the forge, in the caller's transaction.

    A refusal that nobody decided over since is released too: the worker has it, and learns only so that it ended.
    """
    if action.undone_at is not None:
        return
    deciding = Action.objects.filter(pull_uri=action.pull_uri, kind__in=DECIDING, undone_at=None).order_by("pk").last()
    Action.objects.filter(pk=action.pk).update(undone_at=now)
    log_change(action.person, "action.undone", now, action.repo_key, action.pull_uri, kind=action.kind, key=action.key)
    if deciding == action:
        seen = {name: getattr(action, name) for name in ("pull_uri", "repo_key", "record_cid", "round", "patch_id")}
        about = seen | {"person": action.person, "kind": Action.Kind.RELEASE, "made_at": now, "effective_at": now}
        _tell_worker(Action(key=secrets.token_hex(16), **about))


def find_undone(person: Person, uri: str, key: str) -> Action | None:
    """Return this person's undone text about a pull request, by the key of the action."""
    undone_texts = Action.objects.filter(person=person, pull_uri=uri, key=key, undone_at__isnull=False).exclude(note="")
    return undone_texts.first() if key else None


def is_second_click(person: Person, uri: str, now: datetime) -> bool:
    """Return whether this person undid an action on this pull request less than SECOND_CLICK ago, by a click."""
    undone_lately = Action.objects.filter(person=person, pull_uri=uri, undone_at__gt=now - SECOND_CLICK)
    return undone_lately.filter(undone_at__lte=F("effective_at")).exists()  # later it ends with its record


def look(person: Person, subject: Subject, now: datetime) -> Lease:
    """Note that a person looks at a pull request, for 5 minutes from now; another person's current lease stays."""
    with transaction.atomic():
        current = Lease.objects.filter(pull_uri=subject.uri).select_related("person").first()
        if current is not None and current.person != person and current.expires_at > now:
            return current
        lease, _ = Lease.objects.update_or_create(
            pull_uri=subject.uri, defaults={"person": person, "expires_at": now + LEASE}
        )
    return lease


def undoable(person: Person, now: datetime) -> list[Action]:
    """Return this person's actions within the window, newest first; each part of a bulk approval."""
    if not is_any(UNDOABLE, person.pk, now):
        return []
    made = Action.objects.filter(person=person, undone_at=None, made_at__lte=now, effective_at__gte=now)
    return list(made.exclude(kind=Action.Kind.ANSWER).order_by("-pk"))


def acted_on(person: Person) -> list[str]:
    """Return the pull requests that a person approved, was assigned or refused, whatever their outcome."""
    kinds = (Action.Kind.APPROVE, *REVIEWS)
    own_actions = Action.objects.filter(person=person, kind__in=kinds, undone_at=None).order_by()
    return list(own_actions.values_list("pull_uri", flat=True).distinct())


def versions(uris: Iterable[str]) -> dict[str, int]:
    """Return the number of actions and undos on each of these pull requests; every at-uri is in the map."""
    return {uri: _version(actions) for uri, actions in _by_uri(uris).items()}


def standings(seen: Mapping[str, Seen], now: datetime) -> dict[str, Standing]:
    """Return people's actions on these pull requests, as far as they count for the displayed round."""
    leases = {lease.pull_uri: lease for lease in _leases(seen, now)}
    return {uri: standing(actions, seen[uri], leases.get(uri)) for uri, actions in _by_uri(seen).items()}


def dismissals(uri: str) -> dict[str, Action]:
    """Return the dismissed findings of a pull request, by digest, each with its last action."""
    decisions = Action.objects.filter(pull_uri=uri, kind__in=ON_FINDINGS, undone_at=None).select_related("person")
    return {digest: action for (_, digest), action in _dismissed_findings(decisions.order_by("pk")).items()}


def dismissed_among(uris: Collection[str]) -> dict[str, set[str]]:
    """Return the digests of the dismissed findings of those of these pull requests that have any."""
    decisions = Action.objects.filter(pull_uri__in=list(uris), kind__in=ON_FINDINGS, undone_at=None)
    digests: dict[str, set[str]] = {}
    for uri, digest in _dismissed_findings(decisions.order_by("pk")):
        digests.setdefault(uri, set()).add(digest)
    return digests


def false_alarms() -> dict[str, int]:
    """Count dismissed findings by scanner, most first."""
    decisions = Action.objects.filter(kind__in=ON_FINDINGS, undone_at=None).order_by("pk")
    return dict(Counter(action.scanner for action in _dismissed_findings(decisions).values()).most_common())


def _dismissed_findings(decisions: Iterable[Action]) -> dict[tuple[str, str], Action]:
    dismissed: dict[tuple[str, str], Action] = {}
    for action in decisions:
        for digest in action.findings.split():
            dismissed.pop((action.pull_uri, digest), None)
            if action.kind == Action.Kind.DISMISS_FINDING:
                dismissed[action.pull_uri, digest] = action
    return dismissed


def _leases(uris: Iterable[str], now: datetime) -> Iterable[Lease]:
    uri_list = list(uris)
    if not is_any(LOOKED_AT, now, among(uri_list)):
        return ()
    return Lease.objects.filter(pull_uri__in=uri_list, expires_at__gt=now).select_related("person")


def standing(actions: Sequence[Action], seen: Seen, lease: Lease | None = None) -> Standing:
    """Return the standing of one pull request from all of its actions in order. Pure."""
    approval = own_approval = review = answered = None
    standing_actions = [action for action in actions if action.undone_at is None]
    for action in standing_actions:
        if action.kind == Action.Kind.RELEASE:
            approval = own_approval = review = answered = None
        elif action.kind == Action.Kind.DENY_MERGE and review and review.kind == Action.Kind.CONFIRM_MERGE:
            review = None
        elif action.kind == Action.Kind.ANSWER:
            review = None if _is_answered(review, action) else review
        elif action.kind == Action.Kind.PULL_FOR_REVIEW or (action.kind in VERDICTS and _is_of_round(action, seen)):
            review = action
        elif action.kind == Action.Kind.REQUEST_CHANGES:
            answered = action
        elif action.kind == Action.Kind.APPROVE and seen_by(action) == seen:
            approval, own_approval = (approval, action) if is_own(action) else (action, own_approval)
    reply, asked = _find_reply(standing_actions)
    notes = tuple(action for action in standing_actions if action.kind in SAID)
    return Standing(_version(actions), approval, own_approval, review, asked or answered, lease, reply, notes)


def _is_answered(asked: Action | None, answer: Action) -> bool:
    """Return whether the author had read this request when they answered."""
    return asked is not None and asked.kind == Action.Kind.REQUEST_CHANGES and asked.effective_at < answer.made_at


def _find_reply(actions: Sequence[Action]) -> tuple[Action | None, Action | None]:
    """Return the author's answer while no maintainer spoke after it, and the newest request that it answers."""
    spoken = [action for action in actions if action.kind in (*SPOKEN, Action.Kind.ANSWER)]
    if not spoken or spoken[-1].kind != Action.Kind.ANSWER:
        return None, None
    return spoken[-1], next((action for action in reversed(spoken) if _is_answered(action, spoken[-1])), None)


def _is_of_round(action: Action, seen: Seen) -> bool:
    """Return whether an action is about this round of the patch; its record's text may have changed since."""
    return (action.round, action.patch_id) == (seen.round, seen.patch_id)


def is_own(action: Action) -> bool:
    """Return whether somebody acted on their own pull request: a record's at-uri begins with its author's DID."""
    return action.pull_uri.startswith(f"at://{action.person.did}/")


def seen_by(action: Action) -> Seen:
    """Return the version that the person saw."""
    return Seen(action.record_cid, action.round, action.patch_id)


def in_flight(now: datetime, within: timedelta) -> list[Action]:
    """Return recent approvals that were not undone: the snapshot may not show their effect yet."""
    since = now - within
    if not is_any(APPROVED, since):
        return []
    approvals = Action.objects.filter(kind=Action.Kind.APPROVE, undone_at=None, made_at__gte=since)
    return [action for action in approvals.select_related("person") if not is_own(action)]


def _by_uri(uris: Iterable[str]) -> dict[str, list[Action]]:
    by_uri: dict[str, list[Action]] = {uri: [] for uri in uris}
    if not is_any(ACTED, among(by_uri)):
        return by_uri
    for action in Action.objects.filter(pull_uri__in=list(by_uri)).select_related("person").order_by("pk"):
        by_uri[action.pull_uri].append(action)
    return by_uri


def _version(actions: Sequence[Action]) -> int:
    return len(actions) + sum(action.undone_at is not None for action in actions)


def _is_changed(wanted: Wanted, subject: Subject | None) -> bool:
    return subject is None or subject.seen != wanted.seen


def _check(person: Person, wanted: Wanted, subject: Subject, current: Standing) -> None:
    """Refuse an action that this person cannot take on a pull request in its present state."""
    if wanted.kind not in Action.Kind.values or wanted.kind == Action.Kind.ANSWER:
        raise ActionProblem("This action does not exist.")
    if wanted.kind in (Action.Kind.APPROVE, *REVIEWS, *ON_CLAIM) and subject.state != "open":
        raise Conflict(f"Nothing changed: it is already {subject.state}.", [wanted.uri])
    if wanted.kind in REFUSALS and current.approval:
        raise Conflict(REVOKE_FIRST, [wanted.uri])
    if wanted.kind == Action.Kind.APPROVE and subject.seen.patch_id is None:
        sentence = "Nothing changed: its patch has not arrived yet or cannot be read."
        raise Conflict(sentence, [wanted.uri])
    if wanted.kind == Action.Kind.APPROVE and subject.author.did == person.did:
        raise Conflict(OWN_WORK, [wanted.uri])
    if wanted.kind in ON_CLAIM and subject.author.did == person.did:
        raise Conflict(OWN_CLAIM, [wanted.uri])
    if (wanted.outcome in Action.Outcome.values) != (wanted.kind == Action.Kind.OUTCOME):
        raise ActionProblem("Choose an outcome: clean, needed a fix, or reverted.")
    if wanted.kind == Action.Kind.OUTCOME and subject.state != "merged":
        raise Conflict(NOT_MERGED, [wanted.uri])
    _check_words(person, wanted, subject)


def _check_words(person: Person, wanted: Wanted, subject: Subject) -> None:
    """Refuse an action without its text or findings, and an author's judgement of their own change's findings."""
    if wanted.kind in WRITTEN and not wanted.note.strip():
        raise ActionProblem("Write something first.")
    if (wanted.kind in ON_FINDINGS) != bool(wanted.findings):
        raise ActionProblem("Choose a finding of this change first.")
    if wanted.kind in ON_FINDINGS and subject.author.did == person.did:
        raise ActionProblem("This is your own pull request. Another maintainer decides whether a finding is a problem.")
    if wanted.kind == Action.Kind.DISMISS_FINDING and not wanted.note.strip():
        raise ActionProblem("Say why it is not a problem. The other maintainers read it.")


def save_action(
    person: Person,
    subject: Subject,
    wanted: Wanted,
    now: datetime,
    effective_at: datetime,
    batch: str = "",
    by_link: bool = False,
) -> Action:
    """Write an action with its message and its line in the log, in the caller's transaction."""
    action = Action(
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
        by_link=by_link,
        made_at=now,
        effective_at=effective_at,
    )
    _tell_worker(action)
    return action


def _tell_worker(action: Action) -> None:
    """Save a new action, log it, and have the worker told once it takes effect."""
    action.save(force_insert=True)
    outbox.put(OUTBOX_KIND, action.key, payload_of(action), action.made_at, action.effective_at)
    details = {"key": action.key, "batch": action.batch, "outcome": action.outcome}
    details |= {"source": "link"} if action.by_link else {}  # whoever held it spoke for the person
    by = None if action.by_link else action.person
    log_change(by, f"action.{action.kind}", action.made_at, action.repo_key, action.pull_uri, **details)


def payload_of(action: Action) -> dict[str, Any]:
    """Return the message to the worker, as `scoring.handlers.actions` reads it."""
    fields = ("kind", "outcome", "note", "pull_uri", "record_cid", "round", "patch_id", "decision", "batch")
    values = {name: getattr(action, name) for name in fields}
    return values | {"person": action.person.did, "made_at": action.made_at.isoformat()}


TYPED_ABOVE = 20  # for more than this many the number must be typed
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
    """The figures of the pull requests about to be approved.

    `expected_bad` is how many may need a fix: the sum over the rows of 1 minus P(clean). `worst_bad` is that sum at the
    lower ends of the 95 % intervals, where rows without P(clean) count as bad. Both round up.
    """

    count: int
    lines: int
    lowest: str  # the lowest P(clean) in whole percents, rounded down
    interval: str  # its 95 % interval; "" where there is none
    expected_bad: str
    worst_bad: str
    hidden: int  # rows whose chance is hidden until an audit is answered: neither sum counts them
    ci: str  # "12 passed, 2 without CI"
    must_type: bool


def summary(rows: Sequence[QueueRow]) -> BulkSummary:
    """Return the figures of the confirmation."""
    shown = [row.verdict.estimate for row in rows if not row.hidden_by]
    scored = [estimate for estimate in shown if estimate.probability is not None]
    states: Counter[str] = Counter(row.ci or "" for row in rows)
    lowest = min(scored, key=lambda estimate: estimate.probability or 0.0, default=None)
    return BulkSummary(
        count=len(rows),
        lines=sum((row.added or 0) + (row.removed or 0) for row in rows),
        lowest="none" if lowest is None else percent(lowest.probability or 0.0),
        interval="" if lowest is None else percent_interval(lowest.low, lowest.high),
        expected_bad=one_decimal_up(sum(1 - (estimate.probability or 0.0) for estimate in shown)),
        worst_bad=one_decimal_up(sum(1 - estimate.low for estimate in shown)),
        hidden=len(rows) - len(shown),
        ci=", ".join(f"{states[state]:,} {words}" for state, words in CI_STATES.items() if states[state]),
        must_type=len(rows) > TYPED_ABOVE,
    )


def check_lane(
    wanted: Sequence[Wanted], rows_by_uri: Mapping[str, QueueRow], changed: Collection[str], approver: str
) -> None:
    """Check a bulk approval: raise ActionProblem for none or too many, Conflict for rows that do not qualify.

    Never approved in bulk: rows that changed after an approval, rows whose author may push, rows drawn for audit, rows
    in shadow mode, and rows with failed tests. `approver` is a DID.
    """
    if not wanted:
        raise ActionProblem("Select at least one pull request first.")
    if len(wanted) > AT_MOST or len({request.uri for request in wanted}) != len(wanted):
        raise ActionProblem(f"At most {AT_MOST} different pull requests can be approved together.")
    own = [request.uri for request in wanted if (row := rows_by_uri.get(request.uri)) and row.author.did == approver]
    if own:
        raise Conflict(OWN_WORK, own)
    outside = [
        request.uri for request in wanted if request.uri in changed or not _is_fast(rows_by_uri.get(request.uri))
    ]
    if outside:
        raise Conflict(LEFT_THE_LANE, outside)
    failed = [request.uri for request in wanted if rows_by_uri[request.uri].ci == "failed"]
    if failed:
        raise Conflict(CI_FAILED, failed)


def check_typed(count: int, typed: str) -> None:
    """Raise ActionProblem where the number had to be typed and was not."""
    if count > TYPED_ABOVE and typed.strip() != str(count):
        raise ActionProblem(f"Nothing changed. Type {count} to approve {count} pull requests.")


def _is_fast(row: QueueRow | None) -> bool:
    if row is None or row.shadow or row.is_sealed:
        return False
    return row.verdict.lane is Lane.FAST_LANE and not row.own
