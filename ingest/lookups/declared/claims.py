"""Check a claim on an account elsewhere: who signed it, over what, and with a key that was valid then.

Somebody writes `dev.keytrace.claim` into their own repository; a signer, who looked at that account, signed the DID,
the account and the place of the proof. Only signers count that the operator chose. Both records, the claim and the
signer's key, are proven by the signatures of their repositories. Sources: packages/lexicon and packages/claims of
github.com/orta/keytrace; RFC 7515 for the signature.

`signedAt` and `status` are the author's own words: the signature covers neither. So a signer's old key that leaks lets
people claim what they like, which is why a claim is shown and moves nothing.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from ingest.atproto.record_proof import ProofProblem
from ingest.clock import SLACK
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.declared.facts import CLAIM, Fact
from ingest.lookups.records import fetch_record
from ingest.records.fields import AT_URI, identifier, items, mapping, moment, text
from ingest.records.registry import ACCOUNT_CLAIM

SIGNER_KEYS = "dev.keytrace.serverPublicKey"
COVERED = frozenset({"did", "type", "identity.subject", "claimUri"})  # what a signature has to be about
SIGNATURES = 5  # of one claim that are tried
SIGNATURE_LIMIT = 8_000  # characters
KEY_LIMIT = 512  # characters, by the lexicon


class _Jwk(msgspec.Struct):
    """A public key of RFC 7517; other members are dropped."""

    kty: str
    crv: str
    x: str
    y: str


def check_claim(
    fetcher: Fetcher, plc_url: str, signers: Collection[str], did: str, claim: Mapping[str, str], now: datetime
) -> Fact:
    """Return the account that this claim of the person proves. Raises ProofProblem, FetchProblem.

    `claim` is its row here: uri, type, subject, claim_uri. Pages show these words, so a record that says others proves
    nothing: a data server can hold another version than the one that it sent to the stream.
    """
    uri = claim["uri"]
    record = fetch_record(fetcher, plc_url, did, ACCOUNT_CLAIM, uri.rpartition("/")[2]).proven.record
    if record is None:
        raise ProofProblem("the person's repository does not hold the claim")
    if record.get("status", "verified") != "verified" or record.get("retractedAt") is not None:
        raise ProofProblem("the claim is retracted, or failed its last check")
    account = {
        "did": did,
        "type": text(record, "type", 40) or "",
        "identity.subject": text(mapping(record, "identity"), "subject", 200) or "",
        "claimUri": text(record, "claimUri", 1000) or "",
    }
    if (account["type"], account["identity.subject"], account["claimUri"]) != (
        claim["type"],
        claim["subject"],
        claim["claim_uri"],
    ):
        raise FetchProblem("the repository holds another version of the claim than the stream brought", retry=True)
    signer = _find_signer(fetcher, plc_url, signers, record, account, now)
    return Fact(CLAIM, f"{account['type']}:{account['identity.subject']}", signer, uri)


def _find_signer(
    fetcher: Fetcher,
    plc_url: str,
    signers: Collection[str],
    record: Mapping[str, Any],
    account: Mapping[str, str],
    now: datetime,
) -> str:
    """Return the signer of the first signature that holds. Raises ProofProblem with the reason of the last one."""
    signatures = [one for one in (*items(record, "sigs"), record.get("sig")) if isinstance(one, dict)]
    last = ProofProblem("the claim has no signature by a signer that counts here")
    for signature in signatures[:SIGNATURES]:
        source = identifier(AT_URI, signature.get("src")) or ""
        signer, collection, rkey = source.removeprefix("at://").split("/") if source else ("", "", "")
        if signer not in signers or collection != SIGNER_KEYS or signature.get("retractedAt") is not None:
            continue
        try:
            _check_cover(signature, now)
            key = _read_key(fetch_record(fetcher, plc_url, signer, SIGNER_KEYS, rkey).proven.record, signature)
            _check_signature(signature, key, account)
        except ProofProblem as problem:
            last = problem
        else:
            return signer
    raise last


def _check_cover(signature: Mapping[str, Any], now: datetime) -> None:
    signed_at = moment(signature, "signedAt")
    if not {name for name in items(signature, "signedFields")[:20] if isinstance(name, str)} >= COVERED:
        raise ProofProblem("the signature does not cover the account, its proof and the person")
    if signed_at is None or signed_at > now + SLACK:
        raise ProofProblem("the signature has no time, or one that is yet to come")


def _read_key(record: Mapping[str, Any] | None, signature: Mapping[str, Any]) -> ECKey:
    """Return the signer's key if it was valid when it signed. Raises ProofProblem."""
    if record is None:
        raise ProofProblem("the signer's repository does not hold the key")
    valid_from, valid_until = moment(record, "validFrom"), moment(record, "validUntil")
    signed_at = moment(signature, "signedAt")
    if valid_from is None or valid_until is None or signed_at is None or not valid_from <= signed_at <= valid_until:
        raise ProofProblem("the key was not valid when it signed")
    try:
        jwk = msgspec.json.decode(text(record, "publicJwk", KEY_LIMIT) or "", type=_Jwk)
        if (jwk.kty, jwk.crv) != ("EC", "P-256"):
            raise ProofProblem("the key is not one of P-256")
        return ECKey.import_key(msgspec.structs.asdict(jwk))
    except (msgspec.MsgspecError, JoseError, ValueError, TypeError) as problem:
        raise ProofProblem("the signer's key cannot be read") from problem


def _check_signature(signature: Mapping[str, Any], key: ECKey, account: Mapping[str, str]) -> None:
    """Raise ProofProblem unless this key signed exactly this account; fields beside COVERED are not compared."""
    try:
        attested = signature.get("attestation")
        compact = attested if isinstance(attested, str) and len(attested) <= SIGNATURE_LIMIT else ""
        payload = jws.deserialize_compact(compact, key, algorithms=["ES256"]).payload
        said = msgspec.json.decode(payload, type=dict[str, str])
    except (JoseError, msgspec.MsgspecError, ValueError, TypeError) as problem:
        raise ProofProblem("the signature is not the signer's") from problem
    if {name: said.get(name) for name in COVERED} != account:
        raise ProofProblem("the signature is about another account or another person")
