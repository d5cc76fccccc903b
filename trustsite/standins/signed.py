"""Sign what the stand-in data servers hold, as real ones do, and play the one signer of claims on accounts elsewhere.

Keys follow from DIDs, and signatures are deterministic, so the same network gives the same bytes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ingest.atproto.record_proof import CURVES, LETTERS, Link, encode

P256 = b"\x80\x24"  # multicodec of a public key on that curve
BLOCK = b"\x01\x71\x12\x20"  # a CID of version 1: DAG-CBOR, SHA-256
KEYTRACE = "did:plc:hcwfdlmprcc335oixyfsw7u3"  # the default of CLAIM_SIGNERS; here the stand-in has its keys
KEY_RKEY, KEY_COLLECTION = "2020-01-01", "dev.keytrace.serverPublicKey"


@cache
def _private_key(did: str) -> ec.EllipticCurvePrivateKey:
    secret = int.from_bytes(hashlib.sha256(did.encode()).digest(), "big") % CURVES[P256][1]
    return ec.derive_private_key(secret, ec.SECP256R1())


@cache
def public_key(did: str) -> str:
    """Return the key with which an account's records are signed, in multibase (base58btc)."""
    point = _private_key(did).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    number, letters = int.from_bytes(P256 + point, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        letters = LETTERS[digit] + letters
    return f"z{letters}"


def prove(did: str, rev: str, path: str, record: Mapping[str, Any] | None) -> bytes:
    """Return com.atproto.sync.getRecord's CAR: a signed commit, and a tree that holds this record or nothing."""
    block = encode(record) if record is not None else b""
    entries = [{"p": 0, "k": path.encode(), "v": _link(block), "t": None}] if block else []
    node = encode({"l": None, "e": entries})
    unsigned = {"did": did, "version": 3, "data": _link(node), "rev": rev, "prev": None}
    commit = encode(unsigned | {"sig": _sign(did, encode(unsigned))})
    header = encode({"roots": [_link(commit)], "version": 1})
    blocks = [one for one in (commit, node, block) if one]
    parts = [_varint(len(header)), header]
    for one in blocks:
        parts += [_varint(len(BLOCK) + 32 + len(one)), _link(one), one]
    return b"".join(parts)


def signer_key() -> dict[str, str]:
    """Return the record of the signer's public key, valid in every year of a simulated network."""
    numbers = _private_key(KEYTRACE).public_key().public_numbers()
    x, y = (_base64url(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
    jwk = json.dumps({"kty": "EC", "crv": "P-256", "x": x, "y": y})
    times = {"validFrom": "2020-01-01T00:00:00Z", "validUntil": "2039-12-31T23:59:59Z"}
    return {"$type": KEY_COLLECTION, "publicJwk": jwk, **times}


def account_claim(did: str, kind: str, subject: str, proof: str, written: str) -> dict[str, Any]:
    """Return a claim of dev.keytrace.claim on an account elsewhere, with the signer's attestation (RFC 7515, ES256)."""
    payload = {"claimUri": proof, "did": did, "identity.subject": subject, "type": kind}
    texts = ({"alg": "ES256", "typ": "JWT"}, dict(sorted(payload.items())))
    signed = ".".join(_base64url(json.dumps(text, separators=(",", ":")).encode()) for text in texts)
    signature = {
        "kid": f"attest:{kind}",
        "src": f"at://{KEYTRACE}/{KEY_COLLECTION}/{KEY_RKEY}",
        "signedAt": written,
        "attestation": f"{signed}.{_base64url(_sign(KEYTRACE, signed.encode()))}",
        "signedFields": sorted(payload),
    }
    told = {"type": kind, "claimUri": proof, "identity": {"subject": subject}, "sigs": [signature]}
    return told | {"status": "verified", "lastVerifiedAt": written, "createdAt": written}


def _sign(did: str, message: bytes) -> bytes:
    """Return r then s in 64 bytes, with the lower s that AT Protocol asks for."""
    der = _private_key(did).sign(message, ec.ECDSA(SHA256(), deterministic_signing=True))
    r, s = decode_dss_signature(der)
    return r.to_bytes(32, "big") + min(s, CURVES[P256][1] - s).to_bytes(32, "big")


def _link(block: bytes) -> Link:
    return Link(BLOCK + hashlib.sha256(block).digest())


def _varint(number: int) -> bytes:
    head = b""
    while number > 127:
        head += bytes([number & 127 | 128])
        number >>= 7
    return head + bytes([number])


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
