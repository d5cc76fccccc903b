"""The form on a contributor's page by which maintainers vouch for them."""

from typing import Any

from scoring.queries.read import ContributorPage
from triage.access.permissions import Role, roles_of
from triage.models import OAuthSession, OwnRecord, Person
from triage.presenters.comments import own_account
from triage.services import vouching


def evidence_for(page: ContributorPage) -> tuple[str, ...]:
    """Return the merged pull requests that a vouch for them can name."""
    return tuple(pull.uri for pull in page.pulls if pull.state == "merged" and pull.watched)[: vouching.EVIDENCE]


def vouch_form(session: OAuthSession | None, page: ContributorPage) -> dict[str, Any]:
    """Return what the form on the contributor's page shows; {} where the session's person cannot vouch from here."""
    did = page.score.person.did
    if session is None or did == session.person.did or roles_of(session.person).highest() < Role.MAINTAINER:
        return {}
    asked, offered = vouching.newest(session.person, did), evidence_for(page)
    return {
        "account": own_account(session),
        "asked": asked,
        "has_vouched": _has_vouched(session.person, page, asked),
        "reason": asked.record.get("reason", "") if asked and asked.record else "",
        "evidence": [pull for pull in page.pulls if pull.uri in offered],
        "reason_length": vouching.REASON,
    }


def _has_vouched(person: Person, page: ContributorPage, asked: OwnRecord | None) -> bool:
    """Return whether they vouch by what was seen, or by what was sent since."""
    if asked is not None and asked.state == OwnRecord.State.WRITTEN:
        return asked.record is not None
    return any(line.person.did == person.did and line.kind == "vouch" for line in page.vouches)
