"""Judges whether a contributor's attestation of jurisdiction holds in one repository. Pure.

Nothing is inferred: only what the contributor chose to show and an issuer confirmed counts, and neither an address nor
a place nor a profile is looked at. Three things count: an attestation by an issuer whom the maintainers accept; being
such an organisation by one's own DID; a did:web on one of its domains, which the organisation itself gave out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import unquote

from ingest.atproto.syntax import is_did

State = Literal["valid", "missing", "expired", "revoked", "unverifiable"]

STALE = timedelta(days=7)  # a proof that nobody could renew for so long proves nothing any more
# What is told where none of several is valid: the first of these that one of them is.
TOLD: tuple[State, ...] = ("valid", "revoked", "expired", "unverifiable", "missing")


@dataclass(frozen=True, slots=True)
class Attested:
    """One attestation record of a contributor as it was last checked.

    `proof` is 'proven', 'revoked' or 'unverifiable'; `issuer` None where the record could not be proven. `withdrawn`:
    the contributor deleted it, after it had been proven. Times are naive UTC.
    """

    proof: str
    issuer: str | None
    valid_from: datetime | None
    valid_until: datetime | None
    checked_at: datetime
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """Issuers whom a repository's maintainers accept: DIDs, and organisations' domains with all names below them."""

    issuers: frozenset[str]
    domains: frozenset[str]

    def takes(self, did: str) -> bool:
        """Return whether this DID's word counts."""
        return did in self.issuers or self.lies_on_a_domain(did)

    def lies_on_a_domain(self, did: str) -> bool:
        """Return whether a did:web is at one of the domains, or at a name below one."""
        if not did.startswith("did:web:") or not is_did(did):  # an escaped / or @ would make another host of it
            return False
        host = unquote(did.removeprefix("did:web:")).partition(":")[0].lower()
        return any(host == domain or host.endswith(f".{domain}") for domain in self.domains)


def attestation_state(
    did: str, attestations: Sequence[Attested], accepted: Accepted, document_stands: bool, now: datetime
) -> State:
    """Return whether the contributor with this DID is attested at `now`, in the eyes of these maintainers.

    `document_stands`: the contributor's DID document was found at its own host when it was last looked up, which a
    did:web needs. An attestation holds from its first moment up to, and without, its last.
    """
    if did in accepted.issuers:
        return "valid"
    if accepted.lies_on_a_domain(did):
        return "valid" if document_stands else "unverifiable"
    return _strongest(_state_of(one, did, now) for one in attestations if _concerns(one, accepted))


def _concerns(one: Attested, accepted: Accepted) -> bool:
    """Return whether an accepted issuer is named, or nobody could tell who is."""
    return one.issuer is None or accepted.takes(one.issuer)


def _state_of(one: Attested, did: str, now: datetime) -> State:
    if one.withdrawn or one.proof == "revoked":
        return "revoked"
    if one.proof != "proven" or one.issuer in (None, did) or now - one.checked_at > STALE:
        return "unverifiable"
    if one.valid_from is None or one.valid_until is None:
        return "unverifiable"
    if now >= one.valid_until:
        return "expired"
    return "valid" if now >= one.valid_from else "missing"


def _strongest(states: Iterable[State]) -> State:
    found = set(states)
    return next((state for state in TOLD if state in found), "missing")
