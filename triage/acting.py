"""What a row offers to whoever looks at it: its buttons, what people did to it, and how it stood when it was shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2s

from django.contrib.auth.models import AnonymousUser

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import ChangedApproval, Queue, QueueRow, Seen
from scoring.verdict import Lane
from triage import actions
from triage.actions import Standing
from triage.as_shown import changed_after
from triage.middleware import Request
from triage.models import Person
from triage.permissions import Role, Roles
from triage.pills import row_pill
from triage.words import visible

IN_FLIGHT = timedelta(hours=1)  # an approval reaches the snapshot within seconds where a worker runs


@dataclass(frozen=True, slots=True)
class RowActs:
    """What can be done to one row by one viewer; texts are "" where there is nothing to say.

    `seen` and `version` go into its forms, so that an action names what stood on the screen; `mark` stands for the
    change and its judgement as they are shown, so that an open page can tell whether they are others by now.
    `undo_key` is that of the viewer's own action while it can be undone.
    """

    seen: Seen
    mark: str
    version: int
    can_act: bool
    can_approve: bool  # not in shadow mode, nor what the audit asks about
    done: str  # "Approved by you"
    is_approved: bool
    is_reviewed: bool
    undo_key: str
    looked_at: str  # "ana is looking"
    changed: str  # "changed after ana approved it"


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that can still be undone, as the toast words it; `left_ms` is for how long from now."""

    key: str
    words: str
    left_ms: int


def refused_approval(row: QueueRow) -> str:
    """Why nobody may approve this row here, as a sentence; empty where they may."""
    if row.shadow:
        return "Its repository is in shadow mode, in which nothing is approved here, so nothing was done."
    return "It was drawn for the audit: answer its question first. Nothing was done." if row.is_sealed else ""


def seen_in(row: QueueRow) -> Seen:
    """What a row of the queue shows."""
    return Seen(row.record_cid, row.round, row.patch_id)


def acts_of(
    viewer: Person | AnonymousUser, roles: Roles, snapshot: Snapshot, found: Iterable[QueueRow], now: datetime
) -> dict[str, RowActs]:
    """What this viewer may do to these rows, by address; `now` is the wall clock.

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
    return {
        uri: row_acts(person, row, stand.get(uri, Standing()), changed.get(uri), may[row.repository_key], now)
        for uri, row in shown.items()
    }


def row_acts(
    viewer: Person | None, row: QueueRow, stand: Standing, changed: ChangedApproval | None, may: bool, now: datetime
) -> RowActs:
    """The same for one row from what is known of it; pure."""
    done = stand.approval or stand.review
    words = {"approve": "Approved by", "pull_for_review": "In review by"}
    lease = stand.lease
    return RowActs(
        seen=seen_in(row),
        mark=blake2s(repr((seen_in(row), row.title, row_pill(row), row.sentence)).encode(), digest_size=6).hexdigest(),
        version=stand.version,
        can_act=may,
        can_approve=may and not refused_approval(row),
        done=f"{words[done.kind]} {_name(done.person, viewer)}" if done else "",
        is_approved=stand.approval is not None,
        is_reviewed=stand.review is not None,
        undo_key=done.key if done and done.person == viewer and now <= done.effective_at else "",
        looked_at=f"{_name(lease.person, None)} is looking" if lease and lease.person != viewer else "",
        changed=f"changed after {visible(changed.approver.name)} approved it" if changed else "",
    )


def offers_to(request: Request, now: datetime) -> list[Offer]:
    """What whoever asks can still undo; asked once for a request, by its tag and by its frame."""
    known = getattr(request, "offers", None)
    if known is None:
        known = request.offers = offers(request.user, now) if isinstance(request.user, Person) else []
    return known


def offers(viewer: Person, now: datetime) -> list[Offer]:
    """What the viewer can still undo, newest first; a bulk approval is one offer."""
    found: dict[str, list[actions.Action]] = {}
    for action in actions.undoable(viewer, now):
        found.setdefault(action.batch or action.key, []).append(action)
    return [
        Offer(key, _offer_words(some), int((some[0].effective_at - now).total_seconds() * 1000))
        for key, some in found.items()
    ]


def less_in_flight(found: Queue, snapshot: Snapshot, now: datetime) -> Queue:
    """The queue with counts that leave out what was approved and does not stand so in the snapshot yet."""
    made = actions.in_flight(now, IN_FLIGHT)
    taken = read.taken_keys(snapshot, [action.key for action in made])
    waiting = {action.pull_uri: action for action in made if action.key not in taken}
    if not waiting:
        return found
    current = {one.uri: one.seen for one in read.subjects(snapshot, waiting).values()}
    uris = [uri for uri, action in waiting.items() if current.get(uri) == actions.seen_by(action)]
    counts = dict(found.counts)
    for key in read.lanes(snapshot, uris).values():
        if key != "own":
            counts[Lane(key)] = max(counts.get(Lane(key), 0) - 1, 0)
    return replace(found, counts=counts)


OFFER_WORDS = {
    "approve": "Approved",
    "pull_for_review": "Pulled into your review",
    "release": "Released",
    "outcome": "Outcome noted",
    "note": "Note kept",
}


def _offer_words(some: Sequence[actions.Action]) -> str:
    said = OFFER_WORDS[some[0].kind]
    return f"{said} {len(some)} pull requests." if len(some) > 1 else f"{said}."


def _name(person: Person, viewer: Person | None) -> str:
    return "you" if person == viewer else visible(str(person))
