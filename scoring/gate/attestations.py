"""Judges whether a contributor's attestation of jurisdiction holds in one repository. Pure.

Nothing is inferred from addresses, places or profiles: only what the contributor chose to show and an issuer confirmed
counts. There are three ways: an attestation by an issuer whom the maintainers accept; a contributor who is such an
issuer; a did:web on a domain of an accepted organisation, which the organisation itself gave out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import unquote

from ingest.atproto.syntax import is_did

State = Literal["valid", "missing", "expired", "revoked", "unverifiable"]

STALE = timedelta(days=7)  # a proof that could not be renewed for so long counts no longer
# Of several attestations the state that comes first here counts.
PRECEDENCE: tuple[State, ...] = ("valid", "revoked", "expired", "unverifiable", "missing")


@dataclass(frozen=True, slots=True)
class CheckedAttestation:
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
class AcceptedIssuers:
    """Issuers that a repository's maintainers accept: DIDs, and organisations' domains with all names below them."""

    issuers: frozenset[str]
    domains: frozenset[str]

    def include(self, did: str) -> bool:
        """Return whether this DID is an accepted issuer."""
        return did in self.issuers or self.lies_on_a_domain(did)

    def lies_on_a_domain(self, did: str) -> bool:
        """Return whether a did:web is at one of the domains, or at a name below one."""
        if not did.startswith("did:web:") or not is_did(did):  # an escaped / or @ would name another host
            return False
        host = unquote(did.removeprefix("did:web:")).partition(":")[0].lower()
        return any(host == domain or host.endswith(f".{domain}") for domain in self.domains)


def attestation_state(
    did: str,
    attestations: Sequence[CheckedAttestation],
    accepted: AcceptedIssuers,
    document_stands: bool,
    now: datetime,
) -> State:
    """Return the state of the contributor with this DID at `now`, by the issuers that these maintainers accept.

    `document_stands`: the contributor's DID document was found at its own host when it was last looked up, which a
    did:web needs. An attestation holds from its first moment up to, and without, its last.
    """
    if did in accepted.issuers:
        return "valid"
    if accepted.lies_on_a_domain(did):
        return "valid" if document_stands else "unverifiable"
    # An attestation whose issuer is unknown may be by an accepted one.
    relevant = (item for item in attestations if item.issuer is None or accepted.include(item.issuer))
    states = {_state_of(attestation, did, now) for attestation in relevant}
    return next((state for state in PRECEDENCE if state in states), "missing")


def _state_of(attestation: CheckedAttestation, did: str, now: datetime) -> State:
    if attestation.withdrawn or attestation.proof == "revoked":
        return "revoked"
    if attestation.proof != "proven" or attestation.issuer in (None, did) or now - attestation.checked_at > STALE:
        return "unverifiable"
    if attestation.valid_from is None or attestation.valid_until is None:
        return "unverifiable"
    if now >= attestation.valid_until:
        return "expired"
    return "valid" if now >= attestation.valid_from else "missing"
