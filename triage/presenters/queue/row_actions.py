"""Builds a row's actions for its viewer: buttons, what people did to it, and how it stood when it was shown."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2s
from itertools import groupby
from operator import attrgetter

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from django.utils.text import Truncator

from ingest.oauth.scopes import Act
from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import ChangedApproval, Queue, QueueQuery, QueueRow, Seen
from triage.access.permissions import Role, Roles
from triage.access.requests import Request
from triage.forms.filters import QueueFilters
from triage.models import Action, OwnRecord, Person, Snooze
from triage.presenters.queue.comments import request_text
from triage.presenters.queue.pills import row_pill
from triage.presenters.queue.queue import approved, as_it_stands, changed_after, queue
from triage.services import actions, snoozing
from triage.services.actions import Standing
from triage.services.own_name import own_records

RELEASE_WORDS: Mapping[str, str] = {
    "approve": "Revoke approval",
    "pull_for_review": "Unassign",
    "request_changes": "Withdraw request",
    "close": "Withdraw request to close",
    "confirm_merge": "Withdraw confirmation",
}
IN_FLIGHT = timedelta(hours=1)  # an approval reaches the snapshot within seconds where a worker runs


@dataclass(frozen=True, slots=True)
class RowActs:
    """The actions that one viewer has on one row; texts are "" where there is nothing to say.

    `seen` and `version` go into its forms, so that an action names what stood on the screen; `mark` stands for the
    change and its judgement as they are shown, so that an open page can tell whether they are others by now.
    `undo_key` is that of the viewer's own action while it can be undone.
    """

    seen: Seen
    mark: str
    version: int
    can_act: bool
    can_approve: bool  # not what the audit asks about, nor the viewer's own
    done: str  # "Approved by you"
    done_brief: str  # the same in a word
    is_approved: bool
    release: str  # the button that takes the approval, request or assignment back
    is_decided: bool  # somebody approved or refused this round
    is_asked: bool  # somebody asked the author to change this round
    undo_key: str
    undo_left_ms: int  # for how long from now
    looked_at: str  # "ana is looking"
    changed: str  # "changed after ana approved it", "new since ben asked for changes", "its author answered", or such
    refused: str = ""  # why a maintainer cannot approve it now
    is_own: bool = False  # the viewer sent it
    snoozed: str = ""  # "Snoozed until 24 Nov 2026 by ana"
    snooze_key: str = ""
    notes: tuple[actions.Action, ...] = ()  # what maintainers noted and the author answered, the oldest first
    reply: str = ""  # the author's answer, while no maintainer spoke after it
    is_ready: bool = False  # the fast lane has it, and nothing that a person has to look at first

    @property
    def is_undecided(self) -> bool:
        """Return whether a verdict is still to come, which is when a button is the main one."""
        return not self.is_decided

    @property
    def speaks_first(self) -> bool:
        """Return whether the main button is the one to comment, not the one to approve."""
        return self.is_undecided and not self.is_ready


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that can still be undone, as the toast words it; `left_ms` is for how long from now.

    `waits`: it takes effect only then. `for_author` is ready to paste on the forge, "" where nothing was asked or it is
    sent there.
    """

    key: str
    words: str
    left_ms: int
    waits: bool = True
    for_author: str = ""


def refused_approval(row: QueueRow) -> str:
    """Return why nobody may approve this row here, as a sentence; empty where they may."""
    return "Nothing changed. This is a random audit: answer its question first." if row.is_sealed else ""


def approvable_words(rows: Iterable[QueueRow], acts: Mapping[str, RowActs]) -> str:
    """Say how many of these rows their viewer can approve, and what keeps the others; "" where nothing does."""
    shown = [row for row in rows if acts[row.uri].can_act and not row.audited]
    mine = [acts[row.uri] for row in shown]
    kept = {
        "{} approved already": sum(act.is_approved for act in mine),
        "{} in hand": sum(bool(act.done) and not act.is_approved for act in mine),
        "{} sent by you": sum(act.is_own and not act.done for act in mine),
        "CI failed on {}": sum(is_ci_left(row, acts[row.uri]) for row in shown),
    }
    why = ", ".join(words.format(count) for words, count in kept.items() if count)
    return f"{len(mine) - sum(kept.values()) or 'None'} can be approved: {why}" if why else ""


def is_ci_left(row: QueueRow, act: RowActs) -> bool:
    """Return whether failed CI alone keeps a row of an open fast lane from being approved together with others."""
    return not row.shadow and not row.audited and row.ci == "failed" and act.can_approve and not act.done


def merge_commands(row: QueueRow, act: RowActs, viewer: object) -> tuple[str, ...]:
    """Return the shell commands that merge an approved round; () where none is approved or its CI did not pass."""
    if not (act.can_act and act.is_approved and isinstance(viewer, Person)) or row.ci in ("failed", "running"):
        return ()
    if settings.MERGE_ON_FORGE:
        return (shlex.join(("manage.py", "merge_approved", row.uri, "--as", str(viewer.did))),)
    return "manage.py approved --mbox approved", "git -C ../your-clone am --keep-cr approved/*.mbox"


def publishable_approval(act: RowActs, viewer: Person, uri: str) -> Action | None:
    """Return the viewer's own approval of the round that is shown, if it is not published yet."""
    mine = Action.objects.filter(person=viewer, pull_uri=uri, kind=Action.Kind.APPROVE, undone_at=None)
    action = mine.order_by("-pk").first() if act.is_approved else None
    if action is None or actions.seen_by(action) != act.seen or own_records.is_asked(action):
        return None
    return action


def dismissal_words(uri: str) -> dict[str, str]:
    """Return who calls a finding of a pull request a false alarm, and why, by the digest of the finding."""
    found = actions.dismissals(uri)
    return {digest: f"{visible(str(one.person))}: {visible(one.note)}" for digest, one in found.items()}


def seen_in(row: QueueRow) -> Seen:
    """Return what a row of the queue shows."""
    return Seen(row.record_cid, row.round, row.patch_id)


def acts_of(
    viewer: Person | AnonymousUser, roles: Roles, snapshot: Snapshot, found: Iterable[QueueRow], now: datetime
) -> dict[str, RowActs]:
    """Return what this viewer may do to these rows, by address; `now` is the wall clock.

    `roles` are those of whoever reads; of them only a person acts, never a token.
    """
    shown = {row.uri: row for row in found}
    changed = changed_after(snapshot)
    person = viewer if isinstance(viewer, Person) else None
    may = {
        key: person is not None and roles.role(key) >= Role.MAINTAINER
        for key in {row.repository_key for row in shown.values()}
    }
    stand = actions.standings({uri: seen_in(row) for uri, row in shown.items()}, now) if person else {}
    snoozed = {one.pull_uri: one for one in snoozing.in_force(snapshot, now)}
    return {
        uri: row_acts(
            person, row, stand.get(uri, Standing()), changed.get(uri), may[row.repository_key], now, snoozed.get(uri)
        )
        for uri, row in shown.items()
    }


def row_acts(
    viewer: Person | None,
    row: QueueRow,
    stand: Standing,
    changed: ChangedApproval | None,
    may: bool,
    now: datetime,
    snooze: Snooze | None = None,
) -> RowActs:
    """The same for one row from what is known of it; pure."""
    done, is_own = stand.approval or stand.review, viewer is not None and viewer.did == row.author.did
    words = {
        "approve": "Approved by",
        "pull_for_review": "Assigned to",
        "request_changes": "Changes requested by",
        "close": "To be closed, says",
        "confirm_merge": "Merged, says",
    }
    lease = stand.lease
    refused = actions.OWN_WORK if is_own else refused_approval(row)
    if stand.approval:
        refused = f"Nothing changed. {words['approve']} {_name(stand.approval.person, viewer)} already."
    is_decided = done is not None and done.kind in actions.ENDINGS
    is_open = may and not is_own and not is_decided
    return RowActs(
        seen=seen_in(row),
        mark=blake2s(repr((seen_in(row), row.title, row_pill(row), row.sentence)).encode(), digest_size=6).hexdigest(),
        version=stand.version,
        can_act=may,
        can_approve=may and not refused_approval(row) and not is_own,
        refused=refused if may else "",
        done=f"{words[done.kind]} {_name(done.person, viewer)}" if done else "",
        done_brief=_brief(done, viewer) if done else "",
        is_approved=stand.approval is not None,
        release=RELEASE_WORDS[done.kind] if done else "",
        is_decided=is_decided,
        is_asked=done is not None and done.kind == Action.Kind.REQUEST_CHANGES,
        undo_key=done.key if done and done.person == viewer and now <= done.effective_at else "",
        undo_left_ms=_left_ms(done.effective_at, now) if done else 0,
        looked_at=f"{_name(lease.person, None)} is looking" if lease and lease.person != viewer else "",
        changed=_changed_words(changed, stand, viewer),
        is_own=is_own,
        snoozed=snoozing.snooze_words(snooze) if snooze else "",
        snooze_key=str(snooze.key) if snooze else "",
        notes=stand.notes if may else (),
        reply=stand.reply.note if stand.reply and may else "",
        # Who answered an audit did not say that the tests pass; elsewhere in the lane there may be none.
        is_ready=is_open
        and row_pill(row).kind == "fast"
        and (row.ci == "passed" if row.audited else row.ci != "failed"),
    )


def _brief(done: Action, viewer: Person | None) -> str:
    if done.kind == Action.Kind.PULL_FOR_REVIEW and done.person == viewer:
        return "you"
    words = {"approve": "approved", "pull_for_review": "assigned", "request_changes": "asked", "close": "closing"}
    return words.get(done.kind, "merged")


def _changed_words(changed: ChangedApproval | None, stand: Standing, viewer: Person | None) -> str:
    """Say why an approval does not count any more or never did, or that its author answered or sent a new round."""
    if changed:
        who = "you" if viewer and viewer.did == changed.approver.did else visible(changed.approver.name)
        return f"changed after {who} approved it"
    if stand.own_approval:
        return f"the approval by {_name(stand.own_approval.person, None)} is void: they sent it"
    if stand.reply:
        return "its author answered"
    return f"new since {_name(stand.answered.person, viewer)} asked for changes" if stand.answered else ""


def offers_to(request: Request, now: datetime) -> list[Offer]:
    """Return what whoever asks can still undo; asked once for a request, by its tag and by its frame."""
    known = getattr(request, "offers", None)
    if known is None:
        viewer = request.user
        known = request.offers = offers(viewer, request.snapshot, now) if isinstance(viewer, Person) else []
    return known


def offers(viewer: Person, snapshot: Snapshot | None, now: datetime) -> list[Offer]:
    """Return what the viewer can still undo, newest first; what one click did to several is one offer."""
    found: dict[str, list[Action]] = {}
    for action in actions.undoable(viewer, now):
        found.setdefault(action.batch or action.key, []).append(action)
    waiting = [
        Offer(
            key,
            done_words(some, snapshot),
            _left_ms(some[0].effective_at, now),
            for_author=_text_for_author(some[0], snapshot),
        )
        for key, some in found.items()
    ]
    waiting += [
        Offer(row.key, sent_words(row, snapshot), _left_ms(row.due_at, now))
        for row in own_records.waiting_records(viewer, now)
    ]
    recent = snoozing.made_since(viewer, now - actions.WINDOW)
    clicks = [list(some) for _, some in groupby(recent, attrgetter("made_at"))]
    done = [
        Offer(
            some[0].key,
            snoozing.offer_words(some, named_pull(some[0].pull_uri, snapshot)),
            _left_ms(some[0].made_at + actions.WINDOW, now),
            False,
        )
        for some in clicks
    ]
    return sorted([*done, *waiting], key=lambda one: one.left_ms, reverse=True)


def _text_for_author(action: Action, snapshot: Snapshot | None) -> str:
    if action.kind not in actions.TO_AUTHOR or actions.is_own(action) or own_records.is_asked(action):
        return ""
    label = read.labels(snapshot, [action.pull_uri]).get(action.pull_uri) if snapshot else None
    return request_text([action], label or "your pull request")


def _left_ms(ends_at: datetime, now: datetime) -> int:
    return max(0, int((ends_at - now).total_seconds() * 1000))


def query_of(filters: QueueFilters, viewer: object, snapshot: Snapshot) -> QueueQuery:
    """The query of a view of the queue by this viewer, on whom "mine" depends."""
    return replace(filters.query(), only=mine(viewer, snapshot) if filters.mine else None)


def mine(viewer: object, snapshot: Snapshot) -> tuple[str, ...]:
    """At-uris of what a person has in hand, approved, or approved or refused before it changed; () for anybody else."""
    if not isinstance(viewer, Person):
        return ()
    states = read.row_states(snapshot, actions.acted_on(viewer))
    stand = actions.standings({uri: state.seen for uri, state in states.items()}, timezone.now())
    taken = [
        uri
        for uri, one in stand.items()
        if any(done and done.person == viewer for done in (one.approval, one.review, one.answered))
    ]
    waiting = [one.subject.uri for one in approved(snapshot) if one.approver.did == viewer.did]
    changed = [uri for uri, one in changed_after(snapshot).items() if one.approver.did == viewer.did]
    return tuple(sorted({*taken, *waiting, *changed}))


def less_in_flight(found: Queue, query: QueueQuery, snapshot: Snapshot, now: datetime) -> Queue:
    """The queue of this query with counts that leave out what was approved and the snapshot does not know yet.

    A row that is snoozed as well is in no count already.
    """
    query = as_it_stands(snapshot, query)
    uris = [uri for uri in _approved_lately(snapshot, now) if uri not in query.snoozed]
    if not uris:
        return found
    counts = dict(found.counts)
    for key in read.lanes(snapshot, uris, query).values():
        if key != "own":
            counts[key] = max(counts.get(key, 0) - 1, 0)
    return replace(found, counts=counts)


def _approved_lately(snapshot: Snapshot, now: datetime) -> list[str]:
    """At-uris of what was approved as it is now, where the snapshot does not know that yet."""
    made = actions.in_flight(now, IN_FLIGHT)
    taken = read.taken_keys(snapshot, [action.key for action in made])
    waiting = {action.pull_uri: action for action in made if action.key not in taken}
    current = {one.uri: one.seen for one in read.subjects(snapshot, waiting).values()} if waiting else {}
    return [uri for uri, action in waiting.items() if current.get(uri) == actions.seen_by(action)]


@dataclass(frozen=True, slots=True)
class OpenCounts:
    """Open pull requests, push-holders' own apart: those in the inbox by lane, and those that it leaves out.

    What is approved and snoozed as well counts as approved.
    """

    lanes: Mapping[read.GroupKey, int]
    approved: int
    snoozed: int

    @property
    def inbox(self) -> int:
        """Return how many the inbox holds."""
        return sum(self.lanes.values())

    @property
    def total(self) -> int:
        """Return how many are open on the forge."""
        return self.inbox + self.approved + self.snoozed


def open_counts(query: QueueQuery, snapshot: Snapshot, now: datetime) -> OpenCounts:
    """Count what is open for the repository and text of a query."""
    return OpenCounts(lane_counts(query, snapshot, now), *left_out(query, snapshot, now))


def lane_counts(query: QueueQuery, snapshot: Snapshot, now: datetime) -> Mapping[read.GroupKey, int]:
    """Return the counts at the head of the inbox."""
    return less_in_flight(queue(snapshot, query), query, snapshot, now).counts


def left_out(query: QueueQuery, snapshot: Snapshot, now: datetime) -> tuple[int, int]:
    """Count the open pull requests that the inbox leaves out: approved ones, and snoozed ones beside them."""
    aside = {one.subject.uri for one in approved(snapshot)} | {*_approved_lately(snapshot, now)}
    snoozed = {*as_it_stands(snapshot, query).snoozed} - aside
    keys = read.lanes(snapshot, [*aside, *snoozed], query) if aside or snoozed else {}
    counted = [sum(keys.get(uri, "own") != "own" for uri in uris) for uris in (aside, snoozed)]
    return counted[0], counted[1]


def open_words(told: OpenCounts) -> str:
    """Say how many are open, and where they are if not all in the inbox."""
    verb = "is" if told.total == 1 else "are"
    parts = ((told.approved, "approved and not merged yet"), (told.snoozed, "snoozed"))
    aside = [f"{count:,} {words}" for count, words in parts if count]
    inbox = f": {', '.join([f'{told.inbox:,} in the inbox', *aside])}" if aside else ""
    return f"{told.total:,} {verb} open{inbox}."


DONE_WORDS = {
    "approve": "Approved {}.",
    "pull_for_review": "Assigned {} to you.",
    "release": "Released {}.",
    "outcome": "Outcome of {} saved.",
    "note": "Note added to {}.",
    "comment": "Comment on {} saved.",
    "request_changes": "Request for changes to {} saved.",
    "close": "Reason for closing {} saved.",
    "dismiss_finding": "False alarm noted in {}.",
    "restore_finding": "Problem noted again in {}.",
    "confirm_merge": "Merge of {} confirmed.",
    "deny_merge": "Merge of {} denied.",
    "answer": "Answer about {} saved.",
}


def done_words(some: Sequence[Action], snapshot: Snapshot | None) -> str:
    """Say what was just done, to which pull request or to how many: "Approved driftwood #58 “Mend the gate”."."""
    named = named_pull(some[0].pull_uri, snapshot) if len(some) == 1 else f"{len(some)} pull requests"
    return DONE_WORDS[some[0].kind].format(named)


SENT_WORDS = {
    Act.COMMENT: "Comment on {} goes to Tangled.",
    Act.TAKE_BACK_COMMENT: "Your comment on {} is deleted from Tangled.",
    Act.CLOSE: "Request to close {} goes to Tangled.",
    Act.TAKE_BACK_CLOSE: "Your closing of {} is taken back on Tangled.",
    Act.APPROVE: "Your approval of {} is published.",
    Act.TAKE_BACK_APPROVAL: "Your published approval of {} is taken back.",
    Act.LABEL: "Your label on {} goes to Tangled.",
    Act.TAKE_BACK_LABEL: "Your label on {} is taken back on Tangled.",
    Act.VOUCH: "Your vouch goes to Tangled.",
    Act.TAKE_BACK_VOUCH: "Your vouch is taken back on Tangled.",
}


def sent_words(row: OwnRecord, snapshot: Snapshot | None) -> str:
    """Say which record is about to be written."""
    return SENT_WORDS[Act(row.act)].format(named_pull(row.subject, snapshot))


def named_pull(uri: str, snapshot: Snapshot | None) -> str:
    """Name a pull request in a sentence by repository, number and title, which ends after 48 characters."""
    found = read.subjects(snapshot, [uri]).get(uri) if snapshot else None
    if snapshot is None or found is None:
        return "the pull request"
    title = Truncator(visible(found.title) or "(no title)").chars(48)
    return f"{visible(read.labels(snapshot, [uri])[uri])} “{title}”"


def _name(person: Person, viewer: Person | None) -> str:
    return "you" if person == viewer else visible(str(person))
