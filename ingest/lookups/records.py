"""Fetch one record with the proof of its repository, from its account's own data server and by its own key."""

from dataclasses import dataclass
from urllib.parse import quote

from ingest.atproto.identity import Identity, resolve
from ingest.atproto.record_proof import ProofProblem, Proven, prove_record
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher

PROOF_LIMIT = 1_000_000  # bytes


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    """A record that a repository holds, with the account that signed it as the directory knows it now."""

    identity: Identity
    proven: Proven


def fetch_record(fetcher: Fetcher, plc_url: str, did: str, collection: str, rkey: str) -> FetchedRecord:
    """Return what an account's repository holds under a key. Raises FetchProblem, ProofProblem.

    A server's answer that the record does not exist is believed: it grants nothing.
    """
    identity = resolve(fetcher, plc_url, did)
    if identity.pds is None or identity.signing_key is None:
        raise ProofProblem("the account names no data server, or no key that signs its records")
    names = {"did": did, "collection": collection, "rkey": rkey}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in names.items())
    try:
        proof = fetcher.get(f"{identity.pds}/xrpc/com.atproto.sync.getRecord?{query}", PROOF_LIMIT)
    except FetchProblem as problem:
        if problem.status in (400, 404):
            return FetchedRecord(identity, Proven(None, None, ""))
        raise
    return FetchedRecord(identity, prove_record(proof, did, collection, rkey, identity.signing_key))
