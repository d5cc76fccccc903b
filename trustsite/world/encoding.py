"""Identifiers of the AT Protocol, computed: TIDs, CIDs of records (DAG-CBOR) and blobs, did:plc, timestamps."""

import hashlib
from base64 import b32decode, b32encode
from datetime import UTC, datetime, timedelta
from random import Random

from ingest.dag_cbor import Link, encode

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
