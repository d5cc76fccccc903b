"""Checks the proof of a record that a data server sends from an account's signed repository. Pure.

The proof is a CAR file: the commit that the account's key signed, the nodes of the tree on the way to the record's key,
and the record. Every block is named by its SHA-256. Sources: atproto.com/specs/repository, ipld.io/specs/transport/car.

Signatures are ECDSA over secp256k1 and NIST P-256 with SHA-256, checked by `cryptography`. Source:
atproto.com/specs/cryptography. Of the two forms of a signature only the one with the lower s counts, which no library
checks.
"""

import hashlib
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.atproto.cbor import CborProblem, Link, decode, decode_first, encode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # base58btc
LONGEST = 64  # characters of a key as text
# The curves by the multicodec in front of a key: cryptography's name, and the order of the curve (SEC 2 §2.4).
CURVES = {
    b"\xe7\x01": ("SECP256K1", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141),
    b"\x80\x24": ("SECP256R1", 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
}


class KeyProblem(ValueError):
    """A public key that cannot be used; the message is the reason."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of an account with the order of its curve."""

    key: "EllipticCurvePublicKey"
    order: int

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether this key's owner signed the message: 64 bytes, r then s, only the lower s allowed."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256

        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if len(signature) != 64 or not (0 < r < self.order and 0 < s <= self.order // 2):
            return False
        try:
            self.key.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


def read_key(text: str) -> PublicKey:
    """A key as DID documents and did:key write it: `z`, then base58btc of multicodec and point. Raises KeyProblem."""
    from cryptography.hazmat.primitives.asymmetric import ec  # 30 ms that most commands do without

    text = text.removeprefix("did:key:")
    if not 2 < len(text) <= LONGEST or text[0] != "z" or not set(text[1:]) <= set(LETTERS):
        raise KeyProblem("the key is not written in base58btc")
    number = 0
    for letter in text[1:]:
        number = number * 58 + LETTERS.index(letter)
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if raw[:2] not in CURVES:
        raise KeyProblem("the key is of neither curve that AT Protocol knows")
    name, order = CURVES[raw[:2]]
    if len(raw) != 35:
        raise KeyProblem("the key is not a compressed point")
    try:
        return PublicKey(ec.EllipticCurvePublicKey.from_encoded_point(getattr(ec, name)(), raw[2:]), order)
    except ValueError as problem:
        raise KeyProblem("the key is not a point of its curve") from problem


BLOCKS = 300  # of one proof; the tree of a repository with a million records is some ten nodes deep
DEEPEST = 64  # nodes on the way to one key
NAMED = b"\x01\x71\x12\x20"  # CID version 1, DAG-CBOR, SHA-256 of 32 bytes


class ProofProblem(ValueError):
    """A proof that proves nothing; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The record that an account's repository holds under a key at the revision `rev`; `record` None: provably none."""

    record: Mapping[str, Any] | None
    cid: str | None
    rev: str


def prove_record(proof: bytes, did: str, collection: str, rkey: str, signing_key: str) -> Proven:
    """Check the proof of one record. Raises ProofProblem where it does not show what stands under this key.

    `signing_key` is the account's `#atproto` key, as its DID document writes it.
    """
    try:
        root, blocks = _read_car(proof)
        commit = _commit(blocks, root, did, signing_key)
        found = _find(blocks, commit["data"], f"{collection}/{rkey}".encode())
        record = None if found is None else decode(_block(blocks, found))
    except (CborProblem, KeyProblem, KeyError, TypeError, IndexError) as problem:
        raise ProofProblem(f"the proof cannot be read: {problem}") from problem
    if record is not None and not isinstance(record, dict):
        raise ProofProblem("the record is not an object")
    return Proven(record, cid_text(found) if found is not None else None, str(commit["rev"]))


def cid_text(link: Link) -> str:
    """A CID as text."""
    return "b" + b32encode(link).decode().lower().rstrip("=")


def _read_car(proof: bytes) -> tuple[Link, dict[bytes, bytes]]:
    """The root, and the blocks by CID, each checked against it."""
    length, at = _varint(proof, 0)
    header, _ = decode_first(proof[at : at + length])
    at += length
    blocks: dict[bytes, bytes] = {}
    while at < len(proof):
        length, at = _varint(proof, at)
        cid, data = proof[at : at + len(NAMED) + 32], proof[at + len(NAMED) + 32 : at + length]
        if at + length > len(proof) or not cid.startswith(NAMED) or len(blocks) >= BLOCKS:
            raise ProofProblem("the file of the proof is cut, too large or of another kind")
        if hashlib.sha256(data).digest() != cid[len(NAMED) :]:
            raise ProofProblem("a block is not what its name says")
        blocks[cid] = data
        at += length
    (root,) = header["roots"] if len(header["roots"]) == 1 else (None,)
    if not isinstance(root, Link):
        raise ProofProblem("the file of the proof does not name one commit")
    return root, blocks


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(5):
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise ProofProblem("a length in the file of the proof is too large")


def _block(blocks: Mapping[bytes, bytes], link: object) -> bytes:
    if not isinstance(link, Link) or bytes(link) not in blocks:
        raise ProofProblem("a block is missing from the proof")
    return blocks[bytes(link)]


def _commit(blocks: Mapping[bytes, bytes], root: Link, did: str, signing_key: str) -> Mapping[str, Any]:
    """The commit, which is about this account and signed by its key."""
    commit = decode(_block(blocks, root))
    if commit["did"] != did:
        raise ProofProblem("the proof is about another account")
    unsigned = encode({name: value for name, value in commit.items() if name != "sig"})
    if not isinstance(commit["sig"], bytes) or not read_key(signing_key).signed(unsigned, commit["sig"]):
        raise ProofProblem("the commit is not signed by the account's key")
    return commit


def _find(blocks: Mapping[bytes, bytes], node: object, key: bytes) -> Link | None:
    """The record under a key, by walking down the tree; None where the way ends without it."""
    for _ in range(DEEPEST):
        if node is None:
            return None
        told = decode(_block(blocks, node))
        node, name = told["l"], b""
        for entry in told["e"]:
            name = name[: entry["p"]] + entry["k"]
            if name == key:
                return _link(entry["v"])
            if name > key:
                break
            node = entry["t"]
    raise ProofProblem("the tree of the proof is too deep")


def _link(value: object) -> Link:
    if not isinstance(value, Link):
        raise ProofProblem("an entry of the tree names no record")
    return value
