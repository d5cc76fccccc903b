"""DAG-CBOR, the form in which signed repositories are written, and the identifiers of the AT Protocol. Pure.

Decoding is bounded and takes nothing that the form does not allow. Source: ipld.io/specs/codecs/dag-cbor. A CID link is
a `Link` of its bytes without the leading zero.

The identifiers that are computed are TIDs, CIDs of records (DAG-CBOR) and of blobs, did:plc and timestamps.
"""

import hashlib
import struct
from base64 import b32decode, b32encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

DEEPEST = 64  # nested lists and maps; a record of the network has a handful


class CborProblem(ValueError):
    """Bytes that are no DAG-CBOR; the message is the reason."""


class Link(bytes):
    """The bytes of a CID."""


def decode(data: bytes) -> Any:
    """The one value in these bytes. Raises CborProblem."""
    value, end = _value(data, 0, 0)
    if end != len(data):
        raise CborProblem("there is more after the value")
    return value


def decode_first(data: bytes) -> tuple[Any, int]:
    """The first value and where it ends. Raises CborProblem."""
    return _value(data, 0, 0)


def _head(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Major type, low bits, argument and where the argument ends."""
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


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    major, low, argument, at = _head(data, at)
    if major < 2:
        return (argument if major == 0 else -1 - argument), at
    if major < 4:
        return _text(data, at, argument, major)
    if major == 7:
        return _simple(low, argument), at
    if depth >= DEEPEST:
        raise CborProblem("it is nested too deeply")
    if major == 4:
        return _list(data, at, argument, depth)
    return _map(data, at, argument, depth) if major == 5 else _link(data, at, argument, depth)


def _text(data: bytes, at: int, length: int, major: int) -> tuple[Any, int]:
    end = at + length
    if end > len(data):
        raise CborProblem("it ends in the middle")
    if major == 2:
        return data[at:end], end
    try:
        return data[at:end].decode(), end
    except UnicodeDecodeError as problem:
        raise CborProblem("a text that is not UTF-8") from problem


def _simple(low: int, argument: int) -> Any:
    if low == 27:
        return struct.unpack(">d", argument.to_bytes(8, "big"))[0]
    if low not in (20, 21, 22):
        raise CborProblem("a value that DAG-CBOR does not have")
    return (False, True, None)[low - 20]


def _list(data: bytes, at: int, count: int, depth: int) -> tuple[Any, int]:
    found = []
    for _ in range(count):  # each takes a byte at least, so a false count ends with the bytes
        item, at = _value(data, at, depth + 1)
        found.append(item)
    return found, at


def _map(data: bytes, at: int, count: int, depth: int) -> tuple[Any, int]:
    found: dict[str, Any] = {}
    for _ in range(count):
        key, at = _value(data, at, depth + 1)
        if not isinstance(key, str) or key in found:
            raise CborProblem("a map with a key that is not text, or that appears twice")
        found[key], at = _value(data, at, depth + 1)
    return found, at


def _link(data: bytes, at: int, tag: int, depth: int) -> tuple[Any, int]:
    inner, at = _value(data, at, depth + 1)
    if tag != 42 or not isinstance(inner, bytes) or inner[:1] != b"\x00":
        raise CborProblem("a tag that is not a link")
    return Link(inner[1:]), at


def encode(value: object) -> bytes:
    """The canonical bytes of a value. TypeError for what DAG-CBOR does not have."""
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _written(0, value) if value >= 0 else _written(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case Link():
            return b"\xd8\x2a" + _written(2, len(value) + 1) + b"\x00" + value
        case bytes():
            return _written(2, len(value)) + value
        case str():
            return _written(3, len(value.encode())) + value.encode()
        case list() | tuple():
            return _written(4, len(value)) + b"".join(map(encode, value))
        case Mapping():
            pairs = sorted((str(key).encode(), key) for key in value)
            pairs.sort(key=lambda pair: (len(pair[0]), pair[0]))
            return _written(5, len(pairs)) + b"".join(encode(key) + encode(value[key]) for _, key in pairs)
    raise TypeError(f"DAG-CBOR has no {type(value).__name__}")


def _written(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    low = next(low for low in range(4) if argument < 1 << (8 << low))
    return bytes([major << 5 | 24 + low]) + argument.to_bytes(1 << low, "big")


TID_LETTERS = "234567abcdefghijklmnopqrstuvwxyz"
RAW, DAG_CBOR = 0x55, 0x71
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def draw(*parts: object) -> Random:
    """A generator of its own for each actor and purpose, so that leaving one actor out changes nobody else's draws."""
    return Random(":".join(map(str, parts)))  # noqa: S311


def encode_tid(time_us: int, clock: int = 0) -> str:
    """The 13 letters of a TID: 53 bits of unix microseconds, 10 bits of clock identifier."""
    number = (time_us << 10) | (clock & 1023)
    return "".join(TID_LETTERS[(number >> shift) & 31] for shift in range(60, -1, -5))


def make_did(*parts: object) -> str:
    """A well-formed did:plc, the same for the same parts."""
    return "did:plc:" + _base32(hashlib.sha256(":".join(map(str, parts)).encode()).digest()[:15])


def blob_cid(data: bytes) -> str:
    """CID of a blob: version 1, raw, SHA-256."""
    return _cid(RAW, data)


def record_cid(record: object) -> str:
    """CID of a record given as JSON values: version 1, DAG-CBOR, SHA-256; {"$link": …} becomes a CID link."""
    return _cid(DAG_CBOR, encode(_linked(record)))


def pseudo_cid(data: bytes) -> str:
    """A well-formed record CID that is the hash of other bytes: 20 times cheaper, for load tests."""
    return _cid(DAG_CBOR, data)


def _linked(value: object) -> object:
    """A JSON value with its {"$link": …} as CID links."""
    match value:
        case {"$link": str(link), **rest} if not rest:
            return Link(_cid_bytes(link))
        case dict():
            return {key: _linked(one) for key, one in value.items()}
        case list() | tuple():
            return [_linked(one) for one in value]
    return value


def to_us(moment: datetime) -> int:
    """Unix microseconds of an aware datetime."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def iso(time_us: int) -> str:
    """RFC 3339 with milliseconds and Z, as the servers write it."""
    moment = EPOCH + timedelta(microseconds=time_us)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_us // 1000 % 1000:03d}Z"


def _cid(codec: int, data: bytes) -> str:
    return "b" + _base32(bytes([1, codec, 0x12, 0x20]) + hashlib.sha256(data).digest())


def _cid_bytes(cid: str) -> bytes:
    text = cid[1:].upper()
    return b32decode(text + "=" * (-len(text) % 8))


def _base32(data: bytes) -> str:
    return b32encode(data).decode().lower().rstrip("=")
