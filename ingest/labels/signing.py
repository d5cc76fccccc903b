"""Labels as objects of the protocol: their fields, signatures and frames. Pure; times are microseconds since 1970.

A label is signed over its canonical DAG-CBOR without `sig`. Sources: atproto.com/specs/label, /specs/cryptography and
/specs/event-stream. The key is of NIST P-256, which OpenSSL signs with far faster than with secp256k1.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.atproto.record_proof import CURVES, LETTERS, encode
from ingest.clock import from_microseconds

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

P256 = b"\x80\x24"  # multicodec
ORDER = CURVES[P256][1]
VERSION = 1
KEY_NAME, SERVICE_NAME, SERVICE_TYPE = "#atproto_label", "#atproto_labeler", "AtprotoLabeler"
CONTEXT = ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, and its public half as DID documents write it."""

    private: "EllipticCurvePrivateKey"
    public: str

    def sign(self, message: bytes) -> bytes:
        """Return r and s, 32 bytes each: of the two possible s the lower one, which alone is valid."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        r, s = decode_dss_signature(self.private.sign(message, ECDSA(SHA256())))
        return r.to_bytes(32, "big") + min(s, ORDER - s).to_bytes(32, "big")


def load_key(secret: str) -> SigningKey:
    """Return the key made from 64 hex digits. Raises ValueError, whose message does not hold them."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if len(secret) != 64 or not set(secret) <= set("0123456789abcdef"):
        raise ValueError("a key is 64 hex digits")
    private = ec.derive_private_key(int(secret, 16) % (ORDER - 1) + 1, ec.SECP256R1())
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return SigningKey(private, f"z{_to_base58(P256 + point)}")


def _to_base58(data: bytes) -> str:
    """Return base58btc of bytes that do not begin with zero."""
    number, letters = int.from_bytes(data, "big"), []
    while number:
        number, place = divmod(number, 58)
        letters.append(LETTERS[place])
    return "".join(reversed(letters))


@dataclass(frozen=True, slots=True)
class Label:
    """What this site says of one version of a record, or takes back (`negates`); it was made at `seq`."""

    seq: int
    uri: str
    cid: str
    value: str
    negates: bool
    expires: int

    def fields(self, source: str) -> dict[str, Any]:
        """Return all fields but the signature."""
        fields = {"ver": VERSION, "src": source, "uri": self.uri, "cid": self.cid, "val": self.value}
        fields["cts"] = time_text(self.seq)
        return fields | ({"neg": True} if self.negates else {"exp": time_text(self.expires)})

    def sign(self, source: str, key: SigningKey) -> bytes:
        return key.sign(encode(self.fields(source)))


def time_text(moment: int) -> str:
    return f"{from_microseconds(moment).isoformat(timespec='microseconds')}Z"


def message_frame(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return a message of an event stream; `kind` is the name of its schema, such as #labels."""
    return encode({"op": 1, "t": kind}) + encode(body)


def error_frame(name: str, text: str) -> bytes:
    """Return the frame after which a stream ends."""
    return encode({"op": -1}) + encode({"error": name, "message": text})


def as_json(fields: Mapping[str, Any], signature: bytes) -> dict[str, Any]:
    """Return a label as the query answers it."""
    return {**fields, "sig": {"$bytes": b64encode(signature).decode().rstrip("=")}}


def did_of(origin: str) -> str:
    """Return the did:web of a public origin without a port."""
    return f"did:web:{origin.removeprefix('https://')}"


def did_document(origin: str, public_key: str) -> dict[str, Any]:
    """Return the DID document of a site that labels: the key of its labels, and where they are served."""
    did = did_of(origin)
    method = {"id": f"{did}{KEY_NAME}", "type": "Multikey", "controller": did, "publicKeyMultibase": public_key}
    service = {"id": SERVICE_NAME, "type": SERVICE_TYPE, "serviceEndpoint": origin}
    return {"@context": CONTEXT, "id": did, "verificationMethod": [method], "service": [service]}
