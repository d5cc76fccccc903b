"""Build a row's actions for its viewer: buttons, what people did to it, and the version that was displayed."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2s

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from django.utils.text import Truncator

from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import ChangedApproval, Queue, QueueQuery, QueueRow, Seen
from scoring.types import Lane
from triage.access.permissions import Role, Roles
from triage.access.requests import Request
from triage.forms.filters import QueueFilters
from triage.models import Action, Person, Snooze
from triage.presenters.pills import row_pill
from triage.presenters.queue import approved, changed_after, pulls, queue, unsnoozed
from triage.services import actions, snoozing
from triage.services.actions import Standing

IN_FLIGHT = timedelta(hours=1)  # an approval reaches the snapshot within seconds where a worker runs


@dataclass(frozen=True, slots=True)
class RowActs:
    """The actions of one viewer on one row; texts are "" where there is nothing to say.

    `seen` and `version` go into its forms, so that an action names what was displayed; `mark` identifies the displayed
    change and judgement, so that an open page can tell whether they have changed. `undo_key` is that of the viewer's
    own action while it can be undone.
    """

    seen: Seen
    mark: str
    version: int
    can_act: bool
    can_approve: bool  # neither a due audit nor the viewer's own
    done: str  # "Approved by you"
    done_brief: str  # `done` in one word
    is_approved: bool
    is_reviewed: bool
    is_decided: bool  # somebody approved or refused this round
    is_asked: bool  # somebody asked the author to change this round
    undo_key: str
    undo_left_ms: int  # from now
    looked_at: str  # "ana is looking"
    changed: str  # "changed after ana approved it", "new since ben asked for changes", or why an approval is void
    refused: str = ""  # why a maintainer cannot approve it now
    is_own: bool = False  # the viewer is the author
    snoozed: str = ""  # "Snoozed until 24 Nov 2026 by ana"
    snooze_key: str = ""
    notes: tuple[actions.Action, ...] = ()  # maintainers' notes, oldest first
    is_ready: bool = False  # it is in the fast lane, and nothing needs a look first

    @property
    def is_undecided(self) -> bool:
        """Return whether a verdict is still due; then one button is the main one."""
        return not self.is_decided

    @property
    def speaks_first(self) -> bool:
        """Return whether the main button is the one to comment instead of the one to approve."""
        return self.is_undecided and not self.is_ready


@dataclass(frozen=True, slots=True)
class Offer:
    """One action that can still be undone, worded for the toast; `left_ms` counts from now.

    `waits`: it takes effect only after that time.
    """

    key: str
    words: str
    left_ms: int
    waits: bool = True


def refused_approval(row: QueueRow) -> str:
    """Return why nobody may approve this row here, as a sentence; empty where they may."""
    return "Nothing changed. This is a random audit: answer its question first." if row.is_sealed else ""


def approvable_words(rows: Iterable[QueueRow], acts: Mapping[str, RowActs]) -> str:
    """Say how many of these rows their viewer can approve, and why not the others; "" where all can be approved."""
    shown = [row for row in rows if acts[row.uri].can_act and not row.audited]
    mine = [acts[row.uri] for row in shown]
    obstacles = {
        "{} approved already": sum(act.is_approved for act in mine),
        "{} in hand": sum(bool(act.done) and not act.is_approved for act in mine),
        "{} sent by you": sum(act.is_own and not act.done for act in mine),
        "CI failed on {}": sum(is_ci_left(row, acts[row.uri]) for row in shown),
    }
    obstacle_words = ", ".join(words.format(count) for words, count in obstacles.items() if count)
    return (
        f"{len(mine) - sum(obstacles.values()) or 'None'} can be approved: {obstacle_words}" if obstacle_words else ""
    )


def is_ci_left(row: QueueRow, act: RowActs) -> bool:
    """Return whether failed CI alone excludes a row of the fast lane from bulk approval."""
    return row.ci == "failed" and act.can_approve and not act.done


def merge_commands(row: QueueRow, act: RowActs, viewer: object) -> tuple[str, ...]:
    """Return the shell commands that merge an approved round; () where none is approved or its CI did not pass."""
    if not (act.can_act and act.is_approved and isinstance(viewer, Person)) or row.ci in ("failed", "running"):
        return ()
    if settings.MERGE_ON_FORGE:
        return (shlex.join(("manage.py", "merge_approved", row.uri, "--as", str(viewer.did))),)
    return "manage.py approved --mbox approved", "git -C ../your-clone am --keep-cr approved/*.mbox"


def dismissal_words(uri: str) -> dict[str, str]:
    """Return who dismissed each finding of a pull request, and why, by the digest of the finding."""
    dismissed = actions.dismissals(uri)
    return {
        digest: f"{visible(str(dismissal.person))}: {visible(dismissal.note)}"
        for digest, dismissal in dismissed.items()
    }


def seen_in(row: QueueRow) -> Seen:
    """Return the version that a row of the queue shows."""
    return Seen(row.record_cid, row.round, row.patch_id)


def acts_of(
    viewer: Person | AnonymousUser, roles: Roles, snapshot: Snapshot, rows: Iterable[QueueRow], now: datetime
) -> dict[str, RowActs]:
    """Return this viewer's actions on these rows, by at-uri; `now` is the wall clock.

    `roles` are those of the reader; only a person acts, never a token.
    """
    shown = {row.uri: row for row in rows}
    changed = changed_after(snapshot)
    person = viewer if isinstance(viewer, Person) else None
    may_act = {
        key: person is not None and roles.role(key) >= Role.MAINTAINER
        for key in {row.repository_key for row in shown.values()}
    }
    standings_by_uri = actions.standings({uri: seen_in(row) for uri, row in shown.items()}, now) if person else {}
    snoozed = {snooze.pull_uri: snooze for snooze in snoozing.in_force(snapshot, now)}
    return {
        uri: row_acts(
            person,
            row,
            standings_by_uri.get(uri, Standing()),
            changed.get(uri),
            may_act[row.repository_key],
            now,
            snoozed.get(uri),
        )
        for uri, row in shown.items()
    }


def row_acts(
    viewer: Person | None,
    row: QueueRow,
    standing: Standing,
    changed: ChangedApproval | None,
    may_act: bool,
    now: datetime,
    snooze: Snooze | None = None,
) -> RowActs:
    """Return a viewer's actions on one row. Pure."""
    done, is_own = standing.approval or standing.review, viewer is not None and viewer.did == row.author.did
    words = {
        "approve": "Approved by",
        "pull_for_review": "Assigned to",
        "request_changes": "Changes requested by",
        "close": "To be closed, says",
    }
    lease = standing.lease
    refused = actions.OWN_WORK if is_own else refused_approval(row)
    if standing.approval:
        refused = f"Nothing changed. {words['approve']} {_name(standing.approval.person, viewer)} already."
    is_decided = done is not None and done.kind in actions.ENDINGS
    is_open = may_act and not is_own and not is_decided
    return RowActs(
        seen=seen_in(row),
        mark=blake2s(repr((seen_in(row), row.title, row_pill(row), row.sentence)).encode(), digest_size=6).hexdigest(),
        version=standing.version,
        can_act=may_act,
        can_approve=may_act and not refused_approval(row) and not is_own,
        refused=refused if may_act else "",
        done=f"{words[done.kind]} {_name(done.person, viewer)}" if done else "",
        done_brief=_done_brief(done, viewer) if done else "",
        is_approved=standing.approval is not None,
        is_reviewed=standing.review is not None,
        is_decided=is_decided,
        is_asked=done is not None and done.kind == Action.Kind.REQUEST_CHANGES,
        undo_key=done.key if done and done.person == viewer and now <= done.effective_at else "",
        undo_left_ms=_left_ms(done.effective_at, now) if done else 0,
        looked_at=f"{_name(lease.person, None)} is looking" if lease and lease.person != viewer else "",
        changed=_changed_words(changed, standing, viewer),
        is_own=is_own,
        snoozed=snoozing.snooze_words(snooze) if snooze else "",
        snooze_key=str(snooze.key) if snooze else "",
        notes=standing.notes if may_act else (),
        # An audit's answer does not say that the tests pass; elsewhere in the lane there may be no tests.
        is_ready=is_open
        and row_pill(row).kind == "fast"
        and (row.ci == "passed" if row.audited else row.ci != "failed"),
    )


def _done_brief(done: Action, viewer: Person | None) -> str:
    if done.kind == Action.Kind.PULL_FOR_REVIEW and done.person == viewer:
        return "you"
    words = {"approve": "approved", "pull_for_review": "assigned", "request_changes": "asked", "close": "closing"}
    return words[done.kind]


def _changed_words(changed: ChangedApproval | None, standing: Standing, viewer: Person | None) -> str:
    """Say why an approval is void, or that a request for changes was answered."""
    if changed:
        who = "you" if viewer and viewer.did == changed.approver.did else visible(changed.approver.name)
        return f"changed after {who} approved it"
    if standing.own_approval:
        return f"the approval by {_name(standing.own_approval.person, None)} is void: they sent it"
    return f"new since {_name(standing.answered.person, viewer)} asked for changes" if standing.answered else ""


def offers_to(request: Request, now: datetime) -> list[Offer]:
    """Return what the reader can still undo; computed once for a request, whose tag and frame both use it."""
    offered = getattr(request, "offers", None)
    if offered is None:
        viewer = request.user
        offered = request.offers = offers(viewer, request.snapshot, now) if isinstance(viewer, Person) else []
    return offered


def offers(viewer: Person, snapshot: Snapshot | None, now: datetime) -> list[Offer]:
    """Return what the viewer can still undo, newest first; a bulk approval is one offer."""
    batches: dict[str, list[Action]] = {}
    for action in actions.undoable(viewer, now):
        batches.setdefault(action.batch or action.key, []).append(action)
    waiting = [
        Offer(key, done_words(some, snapshot), _left_ms(some[0].effective_at, now)) for key, some in batches.items()
    ]
    snoozes = snoozing.made_since(viewer, now - actions.WINDOW)
    done = [
        Offer(
            snooze.key,
            snoozing.offer_words(snooze, named_pull(snooze.pull_uri, snapshot)),
            _left_ms(snooze.made_at + actions.WINDOW, now),
            False,
        )
        for snooze in snoozes
    ]
    return sorted([*done, *waiting], key=lambda snooze: snooze.left_ms, reverse=True)


def _left_ms(ends_at: datetime, now: datetime) -> int:
    return max(0, int((ends_at - now).total_seconds() * 1000))


def query_of(filters: QueueFilters, viewer: object, snapshot: Snapshot) -> QueueQuery:
    """Return the query of a queue view for this viewer, on whom "mine" depends."""
    return replace(filters.query(), only=mine(viewer, snapshot) if filters.mine else None)


def mine(viewer: object, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the at-uris that a person is assigned, approved, or approved or refused before they changed.

    () for others.
    """
    if not isinstance(viewer, Person):
        return ()
    states = read.row_states(snapshot, actions.acted_on(viewer))
    standings_by_uri = actions.standings({uri: state.seen for uri, state in states.items()}, timezone.now())
    taken = [
        uri
        for uri, standing in standings_by_uri.items()
        if any(action and action.person == viewer for action in (standing.approval, standing.review, standing.answered))
    ]
    waiting = [standing.subject.uri for standing in approved(snapshot) if standing.approver.did == viewer.did]
    changed = [uri for uri, standing in changed_after(snapshot).items() if standing.approver.did == viewer.did]
    return tuple(sorted({*taken, *waiting, *changed}))


def less_in_flight(full_queue: Queue, query: QueueQuery, snapshot: Snapshot, now: datetime) -> Queue:
    """Return the queue with counts without approvals that the snapshot does not know yet.

    Snoozed rows are in no count already.
    """
    hidden = unsnoozed(snapshot, query).snoozed
    uris = [uri for uri in _approved_lately(snapshot, now) if uri not in hidden]
    if not uris:
        return full_queue
    counts, keys = dict(full_queue.counts), read.lanes(snapshot, uris, query)
    for key in keys.values():
        if key != "own":
            counts[Lane(key)] = max(counts.get(Lane(key), 0) - 1, 0)
    fast = [uri for uri, key in keys.items() if key == "fast_lane"]
    shadow_rows = sum(row.shadow for row in pulls(snapshot, fast)) if full_queue.watched else 0
    return replace(full_queue, counts=counts, watched=max(full_queue.watched - shadow_rows, 0))


def _approved_lately(snapshot: Snapshot, now: datetime) -> list[str]:
    """Return the at-uris whose current version was approved, where the snapshot does not know that yet."""
    approvals = actions.in_flight(now, IN_FLIGHT)
    processed = read.taken_keys(snapshot, [action.key for action in approvals])
    waiting = {action.pull_uri: action for action in approvals if action.key not in processed}
    current = {subject.uri: subject.seen for subject in read.subjects(snapshot, waiting).values()} if waiting else {}
    return [uri for uri, action in waiting.items() if current.get(uri) == actions.seen_by(action)]


@dataclass(frozen=True, slots=True)
class OpenCounts:
    """Open pull requests, push-holders' own apart: in the inbox, approved, and snoozed.

    A pull request that is both approved and snoozed counts as approved.
    """

    inbox: int
    approved: int
    snoozed: int

    @property
    def total(self) -> int:
        """Return how many are open on the forge."""
        return self.inbox + self.approved + self.snoozed


def open_counts(query: QueueQuery, snapshot: Snapshot, now: datetime) -> OpenCounts:
    """Count the open pull requests for the repository and text of a query."""
    return OpenCounts(sum(lane_counts(query, snapshot, now).values()), *left_out(query, snapshot, now))


def lane_counts(query: QueueQuery, snapshot: Snapshot, now: datetime) -> Mapping[Lane, int]:
    """Return the counts at the head of the inbox."""
    return less_in_flight(queue(snapshot, query), query, snapshot, now).counts


def left_out(query: QueueQuery, snapshot: Snapshot, now: datetime) -> tuple[int, int]:
    """Count the open pull requests that the inbox omits: approved ones, and snoozed ones that are not approved."""
    aside = {approval.subject.uri for approval in approved(snapshot)} | {*_approved_lately(snapshot, now)}
    snoozed = {*unsnoozed(snapshot, query).snoozed} - aside
    keys = read.lanes(snapshot, [*aside, *snoozed], query) if aside or snoozed else {}
    counted = [sum(keys.get(uri, "own") != "own" for uri in uris) for uris in (aside, snoozed)]
    return counted[0], counted[1]


def open_words(counts: OpenCounts) -> str:
    """Say how many are open, and where they are if not all in the inbox."""
    verb = "is" if counts.total == 1 else "are"
    parts = ((counts.approved, "approved and not merged yet"), (counts.snoozed, "snoozed"))
    aside = [f"{count:,} {words}" for count, words in parts if count]
    inbox = f": {', '.join([f'{counts.inbox:,} in the inbox', *aside])}" if aside else ""
    return f"{counts.total:,} {verb} open{inbox}."


DONE_WORDS = {
    "approve": "Approved {}.",
    "pull_for_review": "Assigned {} to you.",
    "release": "Unassigned {}.",
    "outcome": "Outcome of {} saved.",
    "note": "Note added to {}.",
    "comment": "Comment on {} saved.",
    "request_changes": "Request for changes to {} saved.",
    "close": "Request to close {} saved.",
    "dismiss_finding": "False alarm noted in {}.",
    "restore_finding": "Problem noted again in {}.",
}


def done_words(batch: Sequence[Action], snapshot: Snapshot | None) -> str:
    """Say what was just done, and to which pull request or how many: "Approved driftwood #58 “Mend the gate”."."""
    name = named_pull(batch[0].pull_uri, snapshot) if len(batch) == 1 else f"{len(batch)} pull requests"
    return DONE_WORDS[batch[0].kind].format(name)


def named_pull(uri: str, snapshot: Snapshot | None) -> str:
    """Name a pull request in a sentence by repository, number and title, which is cut after 48 characters."""
    subject = read.subjects(snapshot, [uri]).get(uri) if snapshot else None
    if snapshot is None or subject is None:
        return "the pull request"
    title = Truncator(visible(subject.title) or "(no title)").chars(48)
    return f"{visible(read.labels(snapshot, [uri])[uri])} “{title}”"


def _name(person: Person, viewer: Person | None) -> str:
    return "you" if person == viewer else visible(str(person))
