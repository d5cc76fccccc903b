"""Check attestations at both ends: at the data server of the contributor and at the issuer's.

A contributor's record names an issuer; it counts only if the issuer's own repository holds a matching statement under
the contributor's DID. Both records are proven with the signature of their repository (ingest/atproto/record_proof.py),
by keys that the directory gives now. Only authors of open pull requests in repositories of the tier 'sensitive' are
checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ingest.atproto.record_proof import ProofProblem, Proven
from ingest.atproto.syntax import is_did
from ingest.clock import parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Wall, fetch
from ingest.lookups.records import fetch_record
from ingest.records.fields import text
from ingest.store.database import Store
from ingest.store.transaction import Transaction

AGAIN = timedelta(hours=6)  # a withdrawn statement that the stream missed is found within this time
SOONEST = timedelta(minutes=1)
EACH = 10  # newest records of one person that are checked
ATTESTATION, STATEMENT = "jurisdiction_attestation", "jurisdiction_statement"

# Due again at once if one of the two records was rewritten or withdrawn since, unless the last look-up failed.
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
    """The result for one attestation; `proof` and the other fields as in the table `attestation_checks`."""

    proof: str
    reason: str | None
    issuer: str | None = None
    statement: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    statement_uri: str | None = None


def fetch_attestations(store: Store, fetcher: Fetcher, plc_url: str, now: datetime, wall: Wall) -> int:
    """Check the attestations that are due; return how many. `now` is the present of decisions."""

    kind = Kind(
        "attestation",
        Due(DUE),
        lambda row: check_attestation(fetcher, plc_url, row["did"], row["subject"]),
        lambda txn, results: _write(txn, results, now),
        lambda checked: _note(checked, now),
    )
    return fetch(store, fetcher, wall, kind)


def check_attestation(fetcher: Fetcher, plc_url: str, did: str, uri: str) -> Checked:
    """Prove one record of this person and the issuer's statement. Raises FetchProblem if a server does not answer.

    A contradiction, or a record that cannot be proven, is an answer: 'revoked' or 'unverifiable' with its reason.
    """
    collection, rkey = uri.split("/")[3:5]
    try:
        proven = fetch_record(fetcher, plc_url, did, collection, rkey).proven
        claims = _read_claims(proven, did)
        authority = collection.rpartition(".")[0]
        statement = f"at://{claims.issuer}/{authority}.jurisdictionStatement/{did}"
        return _check_statement(fetcher, plc_url, did, replace(claims, statement_uri=statement))
    except ProofProblem as problem:
        return Checked("unverifiable", str(problem))


def _read_claims(proven: Proven, did: str) -> Checked:
    """Return the claims of the contributor's record. Raises ProofProblem if it does not attest to its author."""
    record = proven.record
    if record is None:
        raise ProofProblem("the contributor's repository does not hold the record")
    issuer, statement = text(record, "issuer", 2048), text(record, "statement", 1000)
    valid_from, valid_until = _read_validity(record)
    if text(record, "subject", 2048) != did:
        raise ProofProblem("the record is about somebody else")
    if issuer is None or not is_did(issuer) or issuer == did:
        raise ProofProblem("the record names no issuer but its author")
    if not statement or valid_from is None or valid_until is None:
        raise ProofProblem("the record lacks a statement or the time for which it is valid")
    return Checked("proven", None, issuer, statement, valid_from, valid_until)


def _read_validity(record: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    valid_from, valid_until = (parse_time(text(record, name, 64) or "") for name in ("validFrom", "validUntil"))
    return valid_from, valid_until


def _check_statement(fetcher: Fetcher, plc_url: str, did: str, claims: Checked) -> Checked:
    issuer, collection = claims.issuer or "", (claims.statement_uri or "").split("/")[3]
    try:
        countersigned = fetch_record(fetcher, plc_url, issuer, collection, did).proven
    except ProofProblem as problem:
        return replace(claims, proof="unverifiable", reason=f"of the issuer {problem}")
    record = countersigned.record
    if record is None:
        return replace(claims, proof="revoked", reason="the issuer's repository holds no such statement")
    if record.get("revoked") is True:
        return replace(claims, proof="revoked", reason="the issuer revoked the statement")
    statement = (text(record, "subject", 2048), text(record, "statement", 1000), *_read_validity(record))
    if statement != (did, claims.statement, claims.valid_from, claims.valid_until):
        return replace(claims, proof="unverifiable", reason="the issuer's statement says something else")
    return claims


def _note(checked: Checked, now: datetime) -> Note:
    """Ask again before the attestation expires, so that a decision does not outlive it by more than that."""
    remaining = checked.valid_until - now if checked.valid_until and checked.valid_until > now else AGAIN
    return Note(min(max(remaining, SOONEST), AGAIN), checked.reason)


def _write(txn: Transaction, results: Sequence[Found[Checked]], now: datetime) -> None:
    previous = {row["uri"]: row for row in txn.rows("select * from attestation_checks")}
    rows = [row for result in results if (row := _check_row(txn, result, now)) is not None]
    txn.upsert("attestation_checks", rows)
    if any(_is_changed(previous.get(str(row["uri"])), row, now) for row in rows):
        txn.inputs_changed()


def _check_row(txn: Transaction, result: Found[Checked], now: datetime) -> dict[str, object] | None:
    """Return one row of `attestation_checks`, or None if nobody answered and the earlier check is about this record.

    Nothing is known of a rewritten record that cannot be fetched.
    """
    row, answer = result.row, result.answer
    if isinstance(answer, FetchProblem):
        if row["was_checked"] and row["checked_cid"] == row["record_cid"]:
            return None
        answer = Checked("unverifiable", str(answer)[:300])
    statement_seen = txn.value(SEEN, [answer.statement_uri]) if answer.statement_uri else None
    columns = {name: getattr(answer, name) for name in ("proof", "reason", "issuer", "statement", "statement_uri")}
    times = {"valid_from": answer.valid_from, "valid_until": answer.valid_until, "checked_at": now}
    key_columns = {"uri": row["subject"], "contributor_id": row["author_id"], "record_cid": row["record_cid"]}
    was_proven = row["was_proven"] or answer.proof == "proven"
    return key_columns | columns | times | {"was_proven": was_proven, "statement_seen": statement_seen}


def _is_changed(previous: Mapping[str, Any] | None, row: Mapping[str, object], now: datetime) -> bool:
    """Return True if a decision may change, also because the attestation began or ended since the last check."""
    columns = ("proof", "issuer", "valid_from", "valid_until")
    if previous is None or any(previous[name] != row[name] for name in columns):
        return True
    boundaries = (previous["valid_from"], previous["valid_until"])
    return any(moment is not None and previous["checked_at"] < moment <= now for moment in boundaries)
