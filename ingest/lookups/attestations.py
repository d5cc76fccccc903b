"""Attestations, proven at both ends: at the data server of the person whom one is about, and at its issuer's.

A contributor's record names an issuer; it counts only where the issuer's own repository says the same under the
contributor's DID. Both records are proven with the signature of their repository (ingest/atproto/record_proof.py), by
keys that the directory gives now. Asked for authors of open pull requests in repositories of the tier 'sensitive'
alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from ingest.atproto.identity import resolve
from ingest.atproto.record_proof import ProofProblem, Proven, prove_record
from ingest.atproto.syntax import is_did
from ingest.clock import parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Wall, fetch
from ingest.records.fields import text
from ingest.store.database import Store
from ingest.store.transaction import Transaction

AGAIN = timedelta(hours=6)  # a statement that its issuer took back unheard by the stream is found within this time
SOONEST = timedelta(minutes=1)
EACH = 10  # records of one person that are looked at, the newest
PROOF_LIMIT = 1_000_000  # bytes
ATTESTATION, STATEMENT = "jurisdiction_attestation", "jurisdiction_statement"

# Due again at once where one of the two records was written anew or taken back since, unless the last look-up failed.
DUE = f"""
with wanted as (
  select distinct p.author_id from pull_requests p join repository_settings x using (repository_id)
  where p.state = 'open' and x.tier = 'sensitive'
), offered as (
  select d.uri, d.author_id, d.record_cid, d.changed_at from declarations d semi join wanted using (author_id)
  where d.kind = '{ATTESTATION}' and d.deleted_at is null
  qualify row_number() over (partition by d.author_id order by d.changed_at desc, d.uri) <= {EACH}
)
select d.uri as subject, c.did, d.author_id, d.record_cid, k.record_cid as checked_cid,
  k.uri is not null as was_checked, coalesce(k.was_proven, false) as was_proven,
  c.did as payer, 0 as rank, d.changed_at as since, coalesce(f.attempts, 0) as attempts
from offered d join contributors c on c.contributor_id = d.author_id
left join fetches f on f.kind = 'attestation' and f.subject = d.uri
left join attestation_checks k on k.uri = d.uri
left join declarations s on s.uri = k.statement_uri
where f.subject is null or f.due_clock <= $wall or k.uri is not null and f.attempts = 0 and (
  k.record_cid is distinct from d.record_cid
  or k.statement_seen is distinct from coalesce(s.deleted_at, s.changed_at)
)
"""
SEEN = "select coalesce(deleted_at, changed_at) as seen from declarations where uri = ?"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for one attestation; `proof` and the rest as in the table `attestation_checks`."""

    proof: str
    reason: str | None
    issuer: str | None = None
    statement: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    statement_uri: str | None = None


def fetch_attestations(store: Store, fetcher: Fetcher, plc_url: str, now: datetime, wall: Wall) -> int:
    """Check the attestations that are due; returns how many were asked about. `now` is the present of decisions."""

    kind = Kind(
        "attestation",
        Due(DUE),
        lambda row: check_attestation(fetcher, plc_url, row["did"], row["subject"]),
        lambda txn, found: _write(txn, found, now),
        lambda one: _note(one, now),
    )
    return fetch(store, fetcher, wall, kind)


def check_attestation(fetcher: Fetcher, plc_url: str, did: str, uri: str) -> Checked:
    """Prove one record of this person's and the issuer's statement behind it. Raises FetchProblem where nobody answers.

    What provably says otherwise, or cannot be proven, is an answer: 'revoked' or 'unverifiable' with its reason.
    """
    collection, rkey = uri.split("/")[3:5]
    try:
        own = _prove(fetcher, plc_url, did, collection, rkey)
        told = _attested(own, did)
        authority = collection.rpartition(".")[0]
        statement = f"at://{told.issuer}/{authority}.jurisdictionStatement/{did}"
        return _countersigned(fetcher, plc_url, did, replace(told, statement_uri=statement))
    except ProofProblem as problem:
        return Checked("unverifiable", str(problem))


def _attested(own: Proven, did: str) -> Checked:
    """Return what the contributor's record says. Raises ProofProblem where that is no attestation about its author."""
    record = own.record
    if record is None:
        raise ProofProblem("the contributor's repository does not hold the record")
    issuer, statement = text(record, "issuer", 2048), text(record, "statement", 1000)
    since, until = _moments(record)
    if text(record, "subject", 2048) != did:
        raise ProofProblem("the record is about somebody else")
    if issuer is None or not is_did(issuer) or issuer == did:
        raise ProofProblem("the record names no issuer but its author")
    if not statement or since is None or until is None:
        raise ProofProblem("the record lacks a statement or the time for which it is valid")
    return Checked("proven", None, issuer, statement, since, until)


def _moments(record: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    since, until = (parse_time(text(record, name, 64) or "") for name in ("validFrom", "validUntil"))
    return since, until


def _countersigned(fetcher: Fetcher, plc_url: str, did: str, told: Checked) -> Checked:
    issuer, collection = told.issuer or "", (told.statement_uri or "").split("/")[3]
    try:
        said = _prove(fetcher, plc_url, issuer, collection, did)
    except ProofProblem as problem:
        return replace(told, proof="unverifiable", reason=f"of the issuer {problem}")
    record = said.record
    if record is None:
        return replace(told, proof="revoked", reason="the issuer's repository holds no such statement")
    if record.get("revoked") is True:
        return replace(told, proof="revoked", reason="the issuer revoked the statement")
    same = (text(record, "subject", 2048), text(record, "statement", 1000), *_moments(record))
    if same != (did, told.statement, told.valid_from, told.valid_until):
        return replace(told, proof="unverifiable", reason="the issuer's statement says something else")
    return told


def _prove(fetcher: Fetcher, plc_url: str, did: str, collection: str, rkey: str) -> Proven:
    """Return what an account's repository holds under a key, at its own data server and by its own key.

    A server that says that there is no such record is believed: nothing opens on its word.
    """
    identity = resolve(fetcher, plc_url, did)
    if identity.pds is None or identity.signing_key is None:
        raise ProofProblem("the account names no data server, or no key that signs its records")
    names = {"did": did, "collection": collection, "rkey": rkey}
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in names.items())
    try:
        proof = fetcher.get(f"{identity.pds}/xrpc/com.atproto.sync.getRecord?{asked}", PROOF_LIMIT)
    except FetchProblem as problem:
        if problem.status in (400, 404):
            return Proven(None, None, "")
        raise
    return prove_record(proof, did, collection, rkey, identity.signing_key)


def _note(one: Checked, now: datetime) -> Note:
    """Asked again before it expires, so that a decision does not outlive it by more than that."""
    left = one.valid_until - now if one.valid_until and one.valid_until > now else AGAIN
    return Note(min(max(left, SOONEST), AGAIN), one.reason)


def _write(txn: Transaction, found: Sequence[Found[Checked]], now: datetime) -> None:
    before = {row["uri"]: row for row in txn.rows("select * from attestation_checks")}
    rows = [row for one in found if (row := _row(txn, one, now)) is not None]
    txn.upsert("attestation_checks", rows)
    if any(_says_otherwise(before.get(str(row["uri"])), row, now) for row in rows):
        txn.inputs_changed()


def _row(txn: Transaction, one: Found[Checked], now: datetime) -> dict[str, object] | None:
    """One row of `attestation_checks`; None where nobody answered and what was proven before is about the same record.

    Of a record that was written anew and cannot be had nothing is known.
    """
    due, answer = one.row, one.answer
    if isinstance(answer, FetchProblem):
        if due["was_checked"] and due["checked_cid"] == due["record_cid"]:
            return None
        answer = Checked("unverifiable", str(answer)[:300])
    seen = txn.value(SEEN, [answer.statement_uri]) if answer.statement_uri else None
    kept = {name: getattr(answer, name) for name in ("proof", "reason", "issuer", "statement", "statement_uri")}
    times = {"valid_from": answer.valid_from, "valid_until": answer.valid_until, "checked_at": now}
    own = {"uri": due["subject"], "contributor_id": due["author_id"], "record_cid": due["record_cid"]}
    was_proven = due["was_proven"] or answer.proof == "proven"
    return own | kept | times | {"was_proven": was_proven, "statement_seen": seen}


def _says_otherwise(before: Mapping[str, Any] | None, row: Mapping[str, object], now: datetime) -> bool:
    """Return whether a decision may come out otherwise, also since the attestation began or ended meanwhile."""
    told = ("proof", "issuer", "valid_from", "valid_until")
    if before is None or any(before[name] != row[name] for name in told):
        return True
    moments = (before["valid_from"], before["valid_until"])
    return any(moment is not None and before["checked_at"] < moment <= now for moment in moments)
