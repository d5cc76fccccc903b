"""Frames of a Jetstream v1 socket, read and checked one by one.

Whole batches are checked as columns (ingest/stream/batch.py); only one that fails comes here, so that what cannot be
read costs itself alone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from ingest.clock import to_microseconds
from ingest.records.fields import DID

LARGEST_FRAME = 16 * 1024 * 1024  # a record has at most 1 MB, which JSON makes 6 MB at the worst
# No frame is older than AT Protocol's first public network by more than recorded histories need, nor newer than this.
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
    """The place in the stream that even a frame that cannot be read otherwise may tell."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A frame that cannot be read: why, its text, and its `time_us`, 0 where it does not say."""

    reason: str
    text: str
    time_us: int


_decode: Callable[[bytes | str], Frame] = msgspec.json.Decoder(Frame).decode
_decode_moment = msgspec.json.Decoder(Moment).decode
encode: Callable[[Frame], bytes] = msgspec.json.Encoder().encode  # as its server would have sent it


def decoded(raws: Sequence[bytes | str]) -> list[Frame] | None:
    """The frames where all are commits; None where any is another or none. Their values are not checked yet."""
    try:
        frames = [_decode(raw) for raw in raws]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return frames if all(frame.kind == "commit" and frame.commit is not None for frame in frames) else None


def read_frames(raws: Sequence[bytes | str]) -> Sequence[Frame | Unread]:
    """Return what each frame says, in order; commits are checked, of other frames only DID and time."""
    return [_read_one(raw) for raw in raws]


def _read_one(raw: bytes | str) -> Frame | Unread:
    try:
        frame = _decode(raw)
        check(frame, len(raw))
        if isinstance(raw, bytes):
            raw.decode()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return unread(raw, str(error))
    return frame


def unread(raw: bytes | str, why: str) -> Unread:
    """A frame that cannot be read, with the reason in words."""
    text = (raw if isinstance(raw, bytes) else raw.encode(errors="replace")).decode(errors="replace")
    return Unread(f"a frame that cannot be read: {why[:200]}", text, time_of(raw))


def time_of(raw: bytes | str) -> int:
    """time_us of a frame, whether or not the rest of it can be read; 0 where it does not say.

    Without it an unreadable frame that comes last would never be passed.
    """
    try:
        time_us = _decode_moment(raw).time_us
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    return time_us if EARLIEST_US <= time_us <= LATEST_US else 0


def check(frame: Frame, size: int) -> None:
    """Refuse, with a ValueError that says why, a frame of this size that no stream of this network carries."""
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
    """Return why an identity or account event says nothing; None where it is whole."""
    part = _part(frame)
    if part is None:
        return f"its kind {frame.kind[:40]!r} is unknown"
    return None if bytes(part) else f"an {frame.kind} event without its {frame.kind} part"


def as_commit(frame: Frame) -> Commit:
    """The commit of a frame; of another one its part as the body, and no collection, key or operation."""
    if frame.kind == "commit" and frame.commit is not None:
        return frame.commit
    return Commit("", "", "", None, None, _part(frame) or NO_BYTES)


def _part(frame: Frame) -> msgspec.Raw | None:
    return {"identity": frame.identity, "account": frame.account}.get(frame.kind)
