"""Check an assessment that somebody published: who wrote it, that it is proven, of which version, by what certificate.

Everything is fetched anew: identity and key from the directory, the record with its proof from its author's own data
server, and the pull request from its author's. What cannot be checked from here is said.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ingest.atproto.identity import Identity, handle_is_verified
from ingest.atproto.record_proof import ProofProblem
from ingest.atproto.syntax import is_did
from ingest.clock import SLACK
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.records import fetch_record
from ingest.records.assessment import NAME, Assessment, read_assessment
from ingest.records.fields import AT_URI, Unreadable
from scoring.certificates.certificate import ENDING, CertificateProblem, read_bytes
from scoring.certificates.verify import differences
from scoring.explain.reasons import PEER_DECISIONS
from scoring.formatting import percent_in_full, things, visible

State = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked: `state` "yes" means that it holds, "unknown" that it cannot be told from here."""

    name: str
    state: State
    words: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome for one address: `answer` in one sentence, `claims` what the record says, `checks` what was found.

    `is_proven` is None where the servers did not answer.
    """

    uri: str
    is_proven: bool | None
    answer: str
    claims: tuple[tuple[str, str], ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Verifier:
    """The way to the network and to the certificates of this site.

    `longest` bounds the bytes of a certificate that is recomputed.
    """

    fetcher: Fetcher
    plc_url: str
    certificates: Path
    now: datetime
    longest: int
    peers: frozenset[str] = field(default_factory=frozenset)

    def verify(self, uri: str) -> Verification:
        """Check the assessment at this at-uri; every outcome is an answer."""
        address = AT_URI.fullmatch(uri) if len(uri) <= 3_000 else None
        if address is None or not is_did(address[1]) or address[2].rpartition(".")[2] != NAME:
            wanted = "at://did:plc:…/org.sunstead.assessment/…"
            return Verification(uri, False, f"This is not the address of an assessment, which looks like {wanted}")
        did, collection, rkey = address.groups()
        try:
            fetched = fetch_record(self.fetcher, self.plc_url, did, collection, rkey)
            if fetched.proven.record is None:
                return Verification(
                    uri, False, "Its account's repository holds no such record: it was never there, or deleted."
                )
            assessment = read_assessment(fetched.proven.record, rkey)
        except (ProofProblem, Unreadable) as problem:
            return Verification(uri, False, f"Not proven: {problem}.")
        except FetchProblem as problem:
            return Verification(uri, None, f"Nothing could be checked: {problem}. Try again later.")
        name, author = self._author(fetched.identity)
        proof = f"The repository of {did} holds it at revision {fetched.proven.rev}, signed by the account's key."
        checks = (author, Check("Proof", "yes", proof), self._version(assessment), *self._grounds(assessment))
        said = f"{name} says that {PEER_DECISIONS[assessment.decision]}."
        return Verification(uri, True, said, tuple(_claims(assessment)), checks)

    def _author(self, identity: Identity) -> tuple[str, Check]:
        """Return the name of the account, and whether its handle holds both ways."""
        role = (
            "It is one of the peers that this site reads."
            if identity.did in self.peers
            else ("This site does not read its assessments.")
        )
        if identity.handle is None:
            return identity.did, Check("By whom", "unknown", f"{identity.did}, without a handle. {role}")
        try:
            holds = handle_is_verified(self.fetcher, identity.handle, identity.did)
        except FetchProblem as problem:
            words = f"{identity.did}. Whether {identity.handle} is its handle could not be checked: {problem}. {role}"
            return identity.did, Check("By whom", "unknown", words)
        if not holds:
            words = f"{identity.did}. It claims the handle {identity.handle}, which does not name it back. {role}"
            return identity.did, Check("By whom", "no", words)
        return identity.handle, Check("By whom", "yes", f"{identity.handle} ({identity.did}). {role}")

    def _version(self, assessment: Assessment) -> Check:
        """Compare the version that was judged with the one that stands at the author's data server."""
        name, (did, collection, rkey) = "Version", assessment.subject_uri.removeprefix("at://").split("/")
        try:
            proven = fetch_record(self.fetcher, self.plc_url, did, collection, rkey).proven
        except (FetchProblem, ProofProblem) as problem:
            return Check(name, "unknown", f"The pull request itself could not be read: {problem}.")
        if proven.cid is None:
            return Check(name, "no", "The pull request is gone from its author's repository.")
        if proven.cid == assessment.subject_cid:
            return Check(name, "yes", "It is about the version that stands in its author's repository now.")
        return Check(name, "no", "It is about another version than the one in its author's repository now.")

    def _grounds(self, assessment: Assessment) -> Iterator[Check]:
        if assessment.uses:
            others = things(len(assessment.uses), "assessment")
            yield Check("Own word", "no", f"It rests on {others} of others, so it counts nothing here.")
        if assessment.certificate is not None:
            yield self._certificate(assessment, assessment.certificate)
        elif assessment.decision == "fast_lane":
            yield Check("Certificate", "unknown", "It names none, so nothing shows how its threshold was found.")

    def _certificate(self, assessment: Assessment, digest: str) -> Check:
        """Recompute the certificate that it names, as of the decision: the record may be written long after it."""
        name, path = "Certificate", self.certificates / f"{digest}{ENDING}"
        try:
            data = read_bytes(path)
        except CertificateProblem:
            words = (
                "It is not one of this site's, so it cannot be recomputed here. Ask its author for the file; its name "
                "is the SHA-256 of its bytes, and manage.py verify_certificate recomputes it anywhere."
            )
            return Check(name, "unknown", words)
        if len(data) > self.longest:
            return Check(name, "unknown", "It is too large for this page: manage.py verify_assessment recomputes it.")
        claimed = assessment.decided_at or assessment.created_at
        moment = claimed if claimed is not None and claimed <= self.now + SLACK else self.now
        found = _recompute(data, digest, moment)
        if found:
            return Check(name, "no", f"It does not recompute: {' '.join(found[:3])}")
        return Check(name, "yes", "It is here, and recomputes to the same threshold from its own cases.")


@lru_cache(maxsize=16)  # a page may be asked about one certificate again and again
def _recompute(data: bytes, digest: str, moment: datetime) -> tuple[str, ...]:
    return tuple(differences(data, digest, moment))


def _claims(assessment: Assessment) -> Iterator[tuple[str, str]]:
    """Yield what the record says, each with its name; all of it is its author's word."""
    yield "Pull request", assessment.subject_uri
    shadow = " (shown only: the lane there is shut)" if assessment.shadow else ""
    yield "Lane", assessment.decision.replace("_", " ") + shadow
    if assessment.reasons:
        yield "Reasons", ", ".join(reason.replace("_", " ") for reason in assessment.reasons)
    yield "Version", assessment.subject_cid or "none named"
    if assessment.patch_id:
        yield "Patch", visible(assessment.patch_id)
    yield "Judged by", visible(assessment.evaluator)
    if assessment.budget is not None:
        yield "Budget", f"{percent_in_full(assessment.budget / 1000)} of the fast lane may be bad"
    if assessment.certificate:
        yield "Certificate", assessment.certificate
    if assessment.outcome:
        yield "Outcome", assessment.outcome
    if assessment.created_at:
        yield "Written", f"{assessment.created_at:%Y-%m-%d %H:%M} UTC"
