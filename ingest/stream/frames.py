"""Read and check the frames of a Jetstream one by one, and build the addresses of both protocols.

Whole batches are checked as columns (ingest/stream/batch.py); only a batch that fails comes here, so that an unreadable
frame costs only itself.

The path of an address chooses the protocol. v1: `/subscribe`. v2: lexicon network.bsky.jetstream.subscribeEvents, whose
frames are converted to those of v1; its cursor is the server's own number of an event, inclusive, and means nothing to
another server; from 10^15 on it is a time as in v1.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode, urlsplit

import msgspec
from websockets.sync.client import reconnect

from ingest.clock import read_moment, to_microseconds
from ingest.records.fields import DID
from ingest.store.database import Store

LARGEST_FRAME = 16 * 1024 * 1024  # a record has at most 1 MB, which is at most 6 MB of JSON
# Recorded histories need times before AT Protocol's first public network, but none before 2000 or after 2100.
EARLIEST_US = to_microseconds(datetime(2000, 1, 1))
LATEST_US = to_microseconds(datetime(2100, 1, 1))
OPERATIONS = frozenset({"create", "update", "delete"})
COLLECTION = re.compile(r"[A-Za-z0-9.-]{1,317}")
RECORD_KEY = re.compile(r"[A-Za-z0-9._:~-]{1,512}")
KEY_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:~-"
KEY_LIMIT, REVISION_LIMIT = 512, 256
NO_BYTES = msgspec.Raw(b"")


class Commit(msgspec.Struct, gc=False, omit_defaults=True):
    """The commit part of a frame; the record stays unparsed. A delete has none."""

    operation: str
    collection: str
    rkey: str
    rev: str | None = None
    cid: str | None = None
    record: msgspec.Raw = NO_BYTES


class Frame(msgspec.Struct, gc=False, omit_defaults=True):
    """One Jetstream v1 message; unknown fields are ignored."""

    did: str
    time_us: int
    kind: str
    commit: Commit | None = None
    identity: msgspec.Raw = NO_BYTES
    account: msgspec.Raw = NO_BYTES


class Moment(msgspec.Struct):
    """The time of a frame, which even an otherwise unreadable frame may have."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A frame that cannot be read: the reason, its text, and its `time_us`, or 0 if it has none."""

    reason: str
    text: str
    time_us: int


_decode: Callable[[bytes | str], Frame] = msgspec.json.Decoder(Frame).decode
_decode_moment = msgspec.json.Decoder(Moment).decode
encode: Callable[[Frame], bytes] = msgspec.json.Encoder().encode  # as its server would send it


def decoded(raws: Sequence[bytes | str]) -> list[Frame] | None:
    """Return the frames if all are commits, else None. Their values are not checked yet."""
    try:
        frames = [_decode(raw) for raw in raws]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return frames if all(frame.kind == "commit" and frame.commit is not None for frame in frames) else None


def read_frames(raws: Sequence[bytes | str]) -> Sequence[Frame | Unread]:
    """Return each frame as read, in order; commits are checked, of other frames only DID and time."""
    return [_read_frame(raw) for raw in raws]


def _read_frame(raw: bytes | str) -> Frame | Unread:
    try:
        frame = _decode(raw)
        check(frame, len(raw))
        if isinstance(raw, bytes):
            raw.decode()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return unread(raw, str(error))
    return frame


def unread(raw: bytes | str, why: str) -> Unread:
    text = (raw if isinstance(raw, bytes) else raw.encode(errors="replace")).decode(errors="replace")
    return Unread(f"a frame that cannot be read: {why[:200]}", text, time_of(raw))


def time_of(raw: bytes | str) -> int:
    """Return time_us of any frame, else 0: without it an unreadable last frame would never be passed."""
    try:
        time_us = _decode_moment(raw).time_us
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    return time_us if EARLIEST_US <= time_us <= LATEST_US else 0


def check(frame: Frame, size: int) -> None:
    """Raise a ValueError with the reason for a frame of this size that no stream of this network carries."""
    if size > LARGEST_FRAME:
        raise ValueError(f"it has {size} bytes, and no record makes more than {LARGEST_FRAME}")
    if not DID.fullmatch(frame.did):
        raise ValueError("its did is malformed")
    if not EARLIEST_US <= frame.time_us <= LATEST_US:
        raise ValueError(f"its time_us {frame.time_us} is not a time of this network")
    if frame.kind == "commit":
        _check_commit(frame.commit)


def _check_commit(commit: Commit | None) -> None:
    if commit is None:
        raise ValueError("a commit without its commit part")
    if commit.operation not in OPERATIONS:
        raise ValueError(f"its operation {commit.operation[:40]!r} is unknown")
    if not COLLECTION.fullmatch(commit.collection) or not RECORD_KEY.fullmatch(commit.rkey):
        raise ValueError("its collection or record key is malformed")
    if max(len(commit.rev or ""), len(commit.cid or "")) > REVISION_LIMIT:
        raise ValueError("its rev or cid is too long")
    if commit.operation != "delete" and not bytes(commit.record):
        raise ValueError("a commit without its record")


def check_account(frame: Frame) -> str | None:
    """Return the reason why an identity or account event is empty, or None if it is complete."""
    part = _account_part(frame)
    if part is None:
        return f"its kind {frame.kind[:40]!r} is unknown"
    return None if bytes(part) else f"an {frame.kind} event without its {frame.kind} part"


def as_commit(frame: Frame) -> Commit:
    """Return the commit of a frame; for another frame its part as the body, without collection, key or operation."""
    if frame.kind == "commit" and frame.commit is not None:
        return frame.commit
    return Commit("", "", "", None, None, _account_part(frame) or NO_BYTES)


def _account_part(frame: Frame) -> msgspec.Raw | None:
    return {"identity": frame.identity, "account": frame.account}.get(frame.kind)


V2_PATH = "/xrpc/network.bsky.jetstream.subscribeEvents"
KINDS = ("commit", "identity", "account")
LARGEST_SEQ = 10**15 - 1  # above it a number is a time


class _Payload(msgspec.Struct):
    type: str = msgspec.field(name="$type")
    seq: int = 0
    did: str = ""
    time: str = ""
    rev: str | None = None
    operation: str = ""
    collection: str = ""
    rkey: str = ""
    cid: str | None = None
    record: msgspec.Raw = NO_BYTES
    identity: msgspec.Raw = NO_BYTES
    account: msgspec.Raw = NO_BYTES
    name: str = ""
    message: str = ""


class _Message(msgspec.Struct):
    type: str = msgspec.field(name="$type")
    payload: _Payload | None = None
    error: str = ""
    message: str = ""


@dataclass(slots=True)
class Told:
    """The content of a server's frames: v1 frames, the newest of its numbers, and its notices about itself."""

    frames: list[bytes | str]
    seq: int | None = None
    began_late: bool = False  # it holds less than it was asked for
    error: str | None = None  # the reason why it ends the stream


_decoder = msgspec.json.Decoder(_Message)


class StraightAndWaiting(reconnect):
    """The `ingest.stream.socket_process.Straight` connection without asyncio."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


def is_v2(url: str) -> bool:
    return urlsplit(url).path == V2_PATH


def address(url: str, collections: Sequence[str], cursor: int | None) -> str:
    """Return the address with a subscription: these collections, account events, from `cursor` or from now on."""
    query = [("collections" if is_v2(url) else "wantedCollections", name) for name in collections]
    query += [("kinds", kind) for kind in KINDS] if is_v2(url) else []
    query += [("cursor", str(cursor))] if cursor is not None else []
    return f"{url}?{urlencode(query)}"


def read_v2(frames: Sequence[bytes | str]) -> Told:
    """Convert v2 frames to v1; a frame that is neither event nor notice stays and becomes a dead letter."""
    content = Told([])
    for raw in frames:
        try:
            message = _decoder.decode(raw)
            if message.type == "error":
                content.error = f"{message.error}: {message.message}"[:300]
            elif message.payload is not None:
                _read_payload(content, message.payload)
            else:
                content.frames.append(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            content.frames.append(raw)
    return content


def _read_payload(content: Told, payload: _Payload) -> None:
    kind = payload.type.rpartition("#")[2]
    if kind == "info":
        content.began_late = content.began_late or payload.name == "OutdatedCursor"
        return
    if kind in KINDS:
        content.frames.append(_convert_payload(kind, payload))
    if 0 < payload.seq <= LARGEST_SEQ:
        content.seq = max(content.seq or 0, payload.seq)


def _convert_payload(kind: str, payload: _Payload) -> bytes:
    """Return the v1 frame of a v2 payload. Raises ValueError or OverflowError if its time does not follow RFC 3339."""
    if datetime.fromisoformat(payload.time).utcoffset() is None:
        raise ValueError("a time without its offset")
    time_us = to_microseconds(read_moment(payload.time))
    if kind != "commit":
        return encode(Frame(payload.did, time_us, kind, identity=payload.identity, account=payload.account))
    commit = Commit(payload.operation, payload.collection, payload.rkey, payload.rev, payload.cid, payload.record)
    return encode(Frame(payload.did, time_us, kind, commit))


def last_seq(store: Store, source: str, url: str) -> int | None:
    """Return the number that this server gave the newest handled frame, or None if another server gave that frame."""
    with store.read() as reader:
        state = reader.row("select server_seq, server from ingest_state where source = ?", [source])
    return state["server_seq"] if state is not None and state["server"] == _server_name(url) else None


def is_same_server(store: Store, source: str, url: str) -> bool:
    """Return True if this server's frames have reached the place to continue at."""
    with store.read() as rows:
        return rows.value("select server from ingest_state where source = ?", [source]) == _server_name(url)


def keep_seq(store: Store, source: str, url: str, seq: int | None) -> None:
    """Store a server, if it has an address, and its number once the frames up to it are stored."""
    server = _server_name(url) if url else None
    with store.write() as txn:
        txn.execute("update ingest_state set server_seq = ?, server = ? where source = ?", [seq, server, source])


def _server_name(url: str) -> str:
    return urlsplit(url).netloc[:255]
