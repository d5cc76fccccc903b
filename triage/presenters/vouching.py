"""The form by which maintainers vouch for a contributor: on their page, among vouches worth making, after a merge."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import MergedWork
from triage.access.permissions import Role, roles_of
from triage.models import OAuthSession, OwnRecord
from triage.presenters.queue.comments import own_account
from triage.services.own_name import vouching

LISTED = 20  # vouches sent from here, of which the newest are shown


@dataclass(frozen=True, slots=True)
class VouchForm:
    """What the form for one person shows.

    `asked` is the newest vouch that the viewer asked for here, or taking it back; `has_vouched` is what is known by it
    and by what the stream brought.
    """

    did: str
    name: str
    evidence: tuple[MergedWork, ...]
    asked: OwnRecord | None
    has_vouched: bool
    reason_length: int = vouching.REASON

    @property
    def reason(self) -> str:
        """Return the words of the newest vouch, which a new one begins with."""
        return self.asked.record.get("reason", "") if self.asked and self.asked.record else ""

    @property
    def is_kept(self) -> bool:
        """Return whether a vouch was written that was not sent."""
        return self.asked is not None and bool(self.asked.record) and self.asked.state == OwnRecord.State.REFUSED


def vouch_forms(
    session: OAuthSession | None, snapshot: Snapshot, dids: Collection[str], now: datetime
) -> dict[str, VouchForm]:
    """Return the form for each of these people by DID, without those for whom the session's person cannot vouch."""
    if session is None or roles_of(session.person).highest() < Role.MAINTAINER:
        return {}
    person, hidden = session.person, read.hidden_among(snapshot, [*dids])
    names = {
        did: visible(known.name)
        for did, known in read.persons(snapshot, dids).items()
        if did not in hidden and did != person.did
    }
    asked, work = vouching.newest_asked(person, names), vouching.work_of(snapshot, names, now)
    vouched = read.vouched_for(snapshot, str(person.did), names)
    return {
        did: VouchForm(did, name, tuple(work.get(did, ())), asked.get(did), _stands(asked.get(did), did in vouched))
        for did, name in names.items()
    }


def vouching_shown(session: OAuthSession | None, snapshot: Snapshot, did: str, now: datetime) -> dict[str, Any]:
    """Return what a page with the form for one person shows; {} where the session's person cannot vouch for them."""
    form = vouch_forms(session, snapshot, [did], now).get(did)
    return {"vouching": form, "account": own_account(session)} if form else {}


def vouches_sent(
    session: OAuthSession | None, snapshot: Snapshot, apart: Collection[str], now: datetime
) -> list[VouchForm]:
    """Return the forms of the people for whom a vouch was sent from here, the newest first, without those `apart`."""
    if session is None:
        return []
    asked = vouching.newest_asked(session.person)
    chosen = [did for did, row in reversed(asked.items()) if did not in apart and not _is_taken_back(row)][:LISTED]
    forms = vouch_forms(session, snapshot, chosen, now)
    return [forms[did] for did in chosen if did in forms]


def _stands(asked: OwnRecord | None, was_seen: bool) -> bool:
    if asked is not None and asked.state == OwnRecord.State.WRITTEN:
        return asked.record is not None
    return was_seen


def _is_taken_back(row: OwnRecord) -> bool:
    return row.record is None and row.state == OwnRecord.State.WRITTEN
