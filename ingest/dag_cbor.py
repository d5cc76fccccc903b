"""DAG-CBOR, the form in which signed repositories are written: bounded, and nothing that the form does not allow. Pure.

Source: ipld.io/specs/codecs/dag-cbor. A CID link is a `Link` of its bytes without the leading zero.
"""

import struct
from collections.abc import Mapping
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
