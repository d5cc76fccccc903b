"""Vouch for a contributor in one's own name, with merged work as evidence, and take it back."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ingest.errors import FetchProblem
from ingest.oauth.dpop import DpopSender
from ingest.oauth.records import VOUCH, make_vouch
from ingest.oauth.resource import OwnServer, StoredRecord
from ingest.oauth.scopes import Act
from triage.access.oauth.sessions import SessionEnded, current_grant
from triage.models import OAuthSession, OwnRecord, Person
from triage.services.actions import ActionProblem
from triage.services.own_records import Draft, ScopeNeeded, covers, put_record

REASON = 256  # graphemes, as the record allows; here characters, of which a grapheme has at least one
EVIDENCE = 10
ACTS = (Act.VOUCH, Act.TAKE_BACK_VOUCH)
OWN = "Nothing was sent: nobody vouches for themselves."
TOO_LONG = f"Nothing was sent: a reason has at most {REASON} characters."
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


def vouch(session: OAuthSession, wanted: Vouch, sender: DpopSender, now: datetime) -> OwnRecord:
    """Have a vouch written 10 s from now, in place of the one before. Raises ActionProblem or ScopeNeeded."""
    if wanted.did == session.person.did:
        raise ActionProblem(OWN)
    if len(wanted.reason) > REASON or len(wanted.evidence) > EVIDENCE:
        raise ActionProblem(TOO_LONG)
    record = make_vouch(wanted.reason.strip(), wanted.evidence, now.astimezone(UTC).replace(tzinfo=None))
    draft = Draft(Act.VOUCH, wanted.did, "", VOUCH, wanted.did, record)
    if not covers(session, Act.VOUCH):
        _keep(session, draft, now)
        raise ScopeNeeded(Act.VOUCH)
    before = _read(session, wanted.did, sender)
    return _put(session, draft, before, now)


def take_back(session: OAuthSession, did: str, sender: DpopSender, now: datetime) -> OwnRecord:
    """Have one's vouch deleted 10 s from now. Raises ActionProblem or ScopeNeeded."""
    if not covers(session, Act.TAKE_BACK_VOUCH):
        raise ScopeNeeded(Act.TAKE_BACK_VOUCH)
    before = _read(session, did, sender)
    if before is None:
        raise ActionProblem(NO_VOUCH)
    return _put(session, Draft(Act.TAKE_BACK_VOUCH, did, "", VOUCH, did, None), before, now)


def newest(person: Person, did: str) -> OwnRecord | None:
    """Return the newest vouch for somebody, or taking it back, that this person asked for here."""
    asked = OwnRecord.objects.filter(person=person, subject=did, act__in=ACTS)
    return asked.exclude(state=OwnRecord.State.WITHDRAWN).order_by("-pk").first()


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


def known_evidence(offered: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen pull requests that the page offers, in its order."""
    return tuple(uri for uri in offered if uri in chosen)[:EVIDENCE]
