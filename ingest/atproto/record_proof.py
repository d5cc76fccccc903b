"""Check the proof of a record that a data server sends from an account's signed repository. Pure.

The proof is a CAR file: the commit that the account's key signed, the nodes of the tree on the way to the record's key,
and the record. Every block is named by its SHA-256. Sources: atproto.com/specs/repository, ipld.io/specs/transport/car.

Blocks are DAG-CBOR. Decoding is bounded and refuses everything that the format does not allow. Source:
ipld.io/specs/codecs/dag-cbor. A CID link is a `Link` of its bytes without the leading zero.

Signatures are ECDSA over secp256k1 and NIST P-256 with SHA-256, checked by `cryptography`. Source:
atproto.com/specs/cryptography. Of the two forms of a signature only the one with the lower s is valid, which no library
checks.
"""

import hashlib
import struct
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

DEEPEST_VALUE = 64  # nested lists and maps; records of the network have a few levels


class CborProblem(ValueError):
    """The bytes are not DAG-CBOR; the message is the reason."""


class Link(bytes):
    """The bytes of a CID."""


def decode(data: bytes) -> Any:
    """Decode the one value in these bytes. Raises CborProblem."""
    value, end = _read_value(data, 0, 0)
    if end != len(data):
        raise CborProblem("there is more after the value")
    return value


def decode_first(data: bytes) -> tuple[Any, int]:
    """Decode the first value; return it and its end. Raises CborProblem."""
    return _read_value(data, 0, 0)


def _read_head(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return major type, low bits, argument and the end of the argument."""
    if at >= len(data):
        raise CborProblem("it ends in the middle")
    major, low = data[at] >> 5, data[at] & 31
    if low < 24:
        return major, low, low, at + 1
    if low > 27:
        raise CborProblem("a length that is not definite")
    end = at + 1 + (1 << (low - 24))
    if end > len(data):
        raise CborProblem("it ends in the middle")
    return major, low, int.from_bytes(data[at + 1 : end], "big"), end


def _read_value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    major, low, argument, at = _read_head(data, at)
    if major < 2:
        return (argument if major == 0 else -1 - argument), at
    if major < 4:
        return _read_text(data, at, argument, major)
    if major == 7:
        return _read_simple(low, argument), at
    if depth >= DEEPEST_VALUE:
        raise CborProblem("it is nested too deeply")
    if major == 4:
        return _read_list(data, at, argument, depth)
    return _read_map(data, at, argument, depth) if major == 5 else _read_link(data, at, argument, depth)


def _read_text(data: bytes, at: int, length: int, major: int) -> tuple[Any, int]:
    end = at + length
    if end > len(data):
        raise CborProblem("it ends in the middle")
    if major == 2:
        return data[at:end], end
    try:
        return data[at:end].decode(), end
    except UnicodeDecodeError as problem:
        raise CborProblem("a text that is not UTF-8") from problem


def _read_simple(low: int, argument: int) -> Any:
    if low == 27:
        return struct.unpack(">d", argument.to_bytes(8, "big"))[0]
    if low not in (20, 21, 22):
        raise CborProblem("a value that DAG-CBOR does not have")
    return (False, True, None)[low - 20]


def _read_list(data: bytes, at: int, count: int, depth: int) -> tuple[Any, int]:
    values = []
    for _ in range(count):  # each item takes at least one byte, so a false count ends with the bytes
        item, at = _read_value(data, at, depth + 1)
        values.append(item)
    return values, at


def _read_map(data: bytes, at: int, count: int, depth: int) -> tuple[Any, int]:
    pairs: dict[str, Any] = {}
    for _ in range(count):
        key, at = _read_value(data, at, depth + 1)
        if not isinstance(key, str) or key in pairs:
            raise CborProblem("a map with a key that is not text, or that appears twice")
        pairs[key], at = _read_value(data, at, depth + 1)
    return pairs, at


def _read_link(data: bytes, at: int, tag: int, depth: int) -> tuple[Any, int]:
    inner, at = _read_value(data, at, depth + 1)
    if tag != 42 or not isinstance(inner, bytes) or inner[:1] != b"\x00":
        raise CborProblem("a tag that is not a link")
    return Link(inner[1:]), at


def encode(value: object) -> bytes:
    """Return the canonical bytes of a value. Raises TypeError for types that DAG-CBOR does not have."""
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _write_head(0, value) if value >= 0 else _write_head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case Link():
            return b"\xd8\x2a" + _write_head(2, len(value) + 1) + b"\x00" + value
        case bytes():
            return _write_head(2, len(value)) + value
        case str():
            return _write_head(3, len(value.encode())) + value.encode()
        case list() | tuple():
            return _write_head(4, len(value)) + b"".join(map(encode, value))
        case Mapping():
            pairs = sorted((str(key).encode(), key) for key in value)
            pairs.sort(key=lambda pair: (len(pair[0]), pair[0]))
            return _write_head(5, len(pairs)) + b"".join(encode(key) + encode(value[key]) for _, key in pairs)
    raise TypeError(f"DAG-CBOR has no {type(value).__name__}")


def _write_head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    low = next(low for low in range(4) if argument < 1 << (8 << low))
    return bytes([major << 5 | 24 + low]) + argument.to_bytes(1 << low, "big")


LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # base58btc
LONGEST = 64  # characters of a key as text
# The curves by the multicodec in front of a key: cryptography's name, and the order of the curve (SEC 2 §2.4).
CURVES = {
    b"\xe7\x01": ("SECP256K1", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141),
    b"\x80\x24": ("SECP256R1", 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
}


class KeyProblem(ValueError):
    """The public key cannot be used; the message is the reason."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    key: "EllipticCurvePublicKey"
    order: int

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Return True if this key's owner signed the message: 64 bytes, r then s, only the lower s allowed."""
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
    """Read a key of a DID document or did:key: `z`, then base58btc of multicodec and point. Raises KeyProblem."""
    from cryptography.hazmat.primitives.asymmetric import ec  # takes 30 ms, and most commands do not need it

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


BLOCKS = 300  # of one proof; the tree of a repository with a million records is about ten nodes deep
DEEPEST_TREE = 64  # nodes on the way to one key
NAMED = b"\x01\x71\x12\x20"  # CID version 1, DAG-CBOR, SHA-256 of 32 bytes


class ProofProblem(ValueError):
    """The proof proves nothing; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The record under a key of an account's repository at the revision `rev`; None if provably absent."""

    record: Mapping[str, Any] | None
    cid: str | None
    rev: str


def prove_record(proof: bytes, did: str, collection: str, rkey: str, signing_key: str) -> Proven:
    """Check the proof of one record. Raises ProofProblem if it does not show the content of this key.

    `signing_key` is the account's `#atproto` key, in the form of its DID document.
    """
    try:
        root, blocks = _read_car(proof)
        commit = _check_commit(blocks, root, did, signing_key)
        link = _find_record(blocks, commit["data"], f"{collection}/{rkey}".encode())
        record = None if link is None else decode(_get_block(blocks, link))
    except (CborProblem, KeyProblem, KeyError, TypeError, IndexError) as problem:
        raise ProofProblem(f"the proof cannot be read: {problem}") from problem
    if record is not None and not isinstance(record, dict):
        raise ProofProblem("the record is not an object")
    return Proven(record, cid_text(link) if link is not None else None, str(commit["rev"]))


def cid_text(link: Link) -> str:
    return "b" + b32encode(link).decode().lower().rstrip("=")


def _read_car(proof: bytes) -> tuple[Link, dict[bytes, bytes]]:
    """Return the root, and the blocks by CID, each checked against its CID."""
    length, at = _read_varint(proof, 0)
    header, _ = decode_first(proof[at : at + length])
    at += length
    blocks: dict[bytes, bytes] = {}
    while at < len(proof):
        length, at = _read_varint(proof, at)
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


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(5):
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise ProofProblem("a length in the file of the proof is too large")


def _get_block(blocks: Mapping[bytes, bytes], link: object) -> bytes:
    if not isinstance(link, Link) or bytes(link) not in blocks:
        raise ProofProblem("a block is missing from the proof")
    return blocks[bytes(link)]


def _check_commit(blocks: Mapping[bytes, bytes], root: Link, did: str, signing_key: str) -> Mapping[str, Any]:
    """Return the commit after checking that it is about this account and signed by its key."""
    commit = decode(_get_block(blocks, root))
    if commit["did"] != did:
        raise ProofProblem("the proof is about another account")
    unsigned = encode({name: value for name, value in commit.items() if name != "sig"})
    if not isinstance(commit["sig"], bytes) or not read_key(signing_key).signed(unsigned, commit["sig"]):
        raise ProofProblem("the commit is not signed by the account's key")
    return commit


def _find_record(blocks: Mapping[bytes, bytes], node: object, key: bytes) -> Link | None:
    """Return the link to the record under a key by walking down the tree, or None if the tree does not have it."""
    for _ in range(DEEPEST_TREE):
        if node is None:
            return None
        node_value = decode(_get_block(blocks, node))
        node, name = node_value["l"], b""
        for entry in node_value["e"]:
            name = name[: entry["p"]] + entry["k"]
            if name == key:
                return _as_link(entry["v"])
            if name > key:
                break
            node = entry["t"]
    raise ProofProblem("the tree of the proof is too deep")


def _as_link(value: object) -> Link:
    if not isinstance(value, Link):
        raise ProofProblem("an entry of the tree names no record")
    return value
