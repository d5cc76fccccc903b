"""Vouch for a contributor in one's own name, with merged work as evidence, and take it back."""

import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ingest.errors import FetchProblem
from ingest.oauth.dpop import DpopSender
from ingest.oauth.records import VOUCH, make_vouch
from ingest.oauth.resource import OwnServer, StoredRecord
from ingest.oauth.scopes import Act
from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import MergedWork
from triage.access.oauth.sessions import SessionEnded, current_grant
from triage.models import OAuthSession, OwnRecord, Person
from triage.services.actions import ActionProblem
from triage.services.own_name.own_records import STANDING, Draft, ScopeNeeded, covers, put_record

REASON = 256  # graphemes, as the record allows; here characters, of which a grapheme has at least one
EVIDENCE = 10
SEEN_AGAIN = timedelta(days=1)  # within it the stream has told of a merge that was made from here
ACTS = (Act.VOUCH, Act.TAKE_BACK_VOUCH)
OWN = "Nothing was sent: nobody vouches for themselves."
TOO_LONG = f"Nothing was sent: a reason has at most {REASON} characters."
TOO_MANY = f"Nothing was sent: a vouch names at most {EVIDENCE} pull requests."
WAITS = "Nothing was sent: another change of your vouch for them is being sent. Try again in a minute."
DENOUNCED = "Nothing was sent: you warn about them on Tangled. Take that back there first."
NO_VOUCH = "Nothing was sent: your server has no vouch of yours for them."
ENDED = "Nothing was sent: your sign-in at your own server has ended. Sign in again."


@dataclass(frozen=True, slots=True)
class Vouch:
    """What a form asks for; `evidence` are at-uris of merged pull requests."""

    did: str
    reason: str = ""
    evidence: tuple[str, ...] = ()


def vouch(session: OAuthSession, wanted: Vouch, sender: DpopSender, clock: Callable[[], datetime]) -> OwnRecord:
    """Have a vouch written 10 s from now, in place of the one before. Raises ActionProblem or ScopeNeeded."""
    if wanted.did == session.person.did:
        raise ActionProblem(OWN)
    if len(wanted.reason) > REASON:
        raise ActionProblem(TOO_LONG)
    if len(wanted.evidence) > EVIDENCE:
        raise ActionProblem(TOO_MANY)
    now = clock()
    record = make_vouch(wanted.reason.strip(), wanted.evidence, now.astimezone(UTC).replace(tzinfo=None))
    draft = Draft(Act.VOUCH, wanted.did, "", VOUCH, wanted.did, record)
    if not covers(session, Act.VOUCH):
        _keep(session, draft, now)
        raise ScopeNeeded(Act.VOUCH)
    before = _read(session, wanted.did, sender)
    return _put(session, draft, before, clock())  # reading it may have taken seconds


def take_back(session: OAuthSession, did: str, sender: DpopSender, clock: Callable[[], datetime]) -> OwnRecord:
    """Have one's vouch deleted 10 s from now. Raises ActionProblem or ScopeNeeded."""
    if not covers(session, Act.TAKE_BACK_VOUCH):
        raise ScopeNeeded(Act.TAKE_BACK_VOUCH)
    before = _read(session, did, sender)
    if before is None:
        raise ActionProblem(NO_VOUCH)
    return _put(session, Draft(Act.TAKE_BACK_VOUCH, did, "", VOUCH, did, None), before, clock())


def newest_asked(person: Person, dids: Iterable[str] | None = None) -> dict[str, OwnRecord]:
    """Return the newest vouch, or taking it back, that this person asked for here, by whom it is for.

    The newest of them come last; `dids` names those to look for, else all.
    """
    asked = OwnRecord.objects.filter(person=person, act__in=ACTS).exclude(state=OwnRecord.State.WITHDRAWN)
    asked = asked if dids is None else asked.filter(subject__in=[*dids])
    found = dict[str, OwnRecord]()
    for row in asked.select_related("person").order_by("pk"):
        found.pop(row.subject, None)
        found[row.subject] = row
    return found


def _put(session: OAuthSession, draft: Draft, before: StoredRecord | None, now: datetime) -> OwnRecord:
    waiting = OwnRecord.objects.filter(
        person=session.person, subject=draft.subject, act__in=ACTS, state=OwnRecord.State.WAITING
    )
    if waiting.exists():
        raise ActionProblem(WAITS)
    if before is not None and before.value.get("kind") == "denounce":
        raise ActionProblem(DENOUNCED)
    fields = (draft.act, draft.subject, draft.repo_key, draft.collection, draft.rkey, draft.record)
    return put_record(session, Draft(*fields, replaces=before.cid if before else ""), now)


def _read(session: OAuthSession, did: str, sender: DpopSender) -> StoredRecord | None:
    """Return the record that stands there now, so that only that one is replaced."""
    try:
        return OwnServer(sender, current_grant(session.id, sender)).read_record(VOUCH, did)
    except SessionEnded:
        raise ActionProblem(ENDED) from None
    except FetchProblem as problem:
        raise ActionProblem(f"Nothing was sent: {problem}.") from None


def _keep(session: OAuthSession, draft: Draft, now: datetime) -> None:
    """Keep what somebody wrote while they allow it at their own server."""
    OwnRecord.objects.create(
        key=secrets.token_hex(16),
        person=session.person,
        session=session,
        act=draft.act,
        subject=draft.subject,
        collection=draft.collection,
        rkey=draft.rkey,
        record=draft.record,
        state=OwnRecord.State.REFUSED,
        problem="your server has not been asked yet",
        made_at=now,
        due_at=now,
        settled_at=now,
    )


def work_of(snapshot: Snapshot, dids: Collection[str], now: datetime) -> dict[str, list[MergedWork]]:
    """Return the newest merged pull requests of these people that a vouch can name, also those merged just now."""
    lately = OwnRecord.objects.filter(act=Act.MERGE, state__in=STANDING, settled_at__gt=now - SEEN_AGAIN)
    return read.merged_work(snapshot, dids, list(lately.values_list("subject", flat=True)), EVIDENCE)
