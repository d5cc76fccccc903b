"""Frames of a Jetstream v1 socket into the event log: the rows and the cursor in one transaction.

Wire format: facts/tangled.md §3.1. A frame that cannot be read becomes a dead letter; a frame that was already logged
(the stream is at least once, and every reconnect rewinds) is dropped by its event id.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from ingest.clock import from_microseconds, to_microseconds
from ingest.records import DID, people_named
from ingest.store import Store, Transaction

LETTER_LIMIT = 65_536
LARGEST_FRAME = 16 * 1024 * 1024  # a record has at most 1 MB, which JSON makes 6 MB at the worst
# No frame is older than AT Protocol's first public network by more than recorded histories need, nor newer than this.
EARLIEST_US = to_microseconds(datetime(2000, 1, 1))
LATEST_US = to_microseconds(datetime(2100, 1, 1))
COLLECTION = re.compile(r"[A-Za-z0-9.-]{1,317}")
RECORD_KEY = re.compile(r"[A-Za-z0-9._:~-]{1,512}")
REVISION_LIMIT = 256


class Commit(msgspec.Struct):
    """The commit part of a frame; the record stays unparsed."""

    operation: str
    collection: str
    rkey: str
    rev: str | None = None
    cid: str | None = None
    record: msgspec.Raw = msgspec.Raw(b"")


class Frame(msgspec.Struct):
    """One Jetstream v1 message; unknown fields are ignored."""

    did: str
    time_us: int
    kind: str
    commit: Commit | None = None
    identity: msgspec.Raw = msgspec.Raw(b"")
    account: msgspec.Raw = msgspec.Raw(b"")


class Moment(msgspec.Struct):
    """What a frame that cannot be read otherwise may still tell: where in the stream it stood."""

    time_us: int


@dataclass(slots=True)
class Batch:
    """Frames sorted into what will be written."""

    source: str
    newest_us: int
    events: list[dict[str, object]] = field(default_factory=list)
    letters: list[dict[str, object]] = field(default_factory=list)
    people: dict[str, datetime | None] = field(default_factory=dict)
    strangers: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a batch came to: what was new of it."""

    events: int
    letters: int
    cursor_us: int


_decoder = msgspec.json.Decoder(Frame)
_moment_decoder = msgspec.json.Decoder(Moment)


def load(store: Store, source: str, frames: Sequence[bytes | str]) -> Loaded:
    """Store a batch of frames and move the source's cursor, all or nothing."""
    with store.write() as txn:
        cursor = txn.value("select cursor_us from ingest_state where source = ?", [source])
        batch = Batch(source, newest_us=cursor)
        for raw in frames:
            _sort(store, batch, raw)
        new = _append(txn, batch, store.wall())
        txn.execute(
            "update ingest_state set cursor_us = ?, dropped_strangers = dropped_strangers + ?, moved_clock = ? "
            "where source = ?",
            [batch.newest_us, batch.strangers, store.wall(), source],
        )
    return Loaded(*new, batch.newest_us)


def load_records(store: Store, records: Iterable[tuple[str, str, Mapping[str, Any]]], seen_at: datetime) -> int:
    """Log records that a listing gave, as (at-uri, CID, value), seen now; returns how many are new. No cursor moves.

    The CID stands for the rev, which a listing does not give: listing twice logs once.
    """
    batch = Batch("backfill", 0)
    for uri, cid, value in records:
        did, collection, rkey = uri.removeprefix("at://").split("/", 2)
        commit = Commit("create", collection, rkey, cid, cid, msgspec.Raw(msgspec.json.encode(value)))
        frame = Frame(did, to_microseconds(seen_at), "commit", commit)
        try:
            _check(frame, len(bytes(commit.record)))
            _add_commit(batch, frame, commit)
        except ValueError as error:
            batch.letters.append(letter(batch.source, f"a listed record that cannot be read: {error}", None, uri))
    with store.write() as txn:
        return _append(txn, batch, store.wall())[0]


def _append(txn: Transaction, batch: Batch, wall: datetime) -> tuple[int, int]:
    """Write the events and dead letters that are new, with the people they name; how many of each."""
    fresh = _without_known(txn, batch.events)
    # The log's bodies may move elsewhere one day, its numbers never start again.
    last = txn.value(
        "select greatest(max(event_seq), (select max(position_seq) from hops where name = 'derive')) from events"
    )
    numbered = [row | {"event_seq": last + n, "loaded_clock": wall} for n, row in enumerate(fresh, start=1)]
    txn.append("events", numbered)
    txn.register_people(batch.people)
    return len(fresh), add_letters(txn, batch.letters, wall)


def add_letters(txn: Transaction, letters: Sequence[Mapping[str, object]], wall: datetime) -> int:
    """Append dead letters that are not there yet (a rewound stream repeats them); returns how many were new."""
    if not letters:
        return 0
    last = txn.value("select coalesce(max(letter_seq), 0) from dead_letters")
    unique = {row["letter_id"]: row for row in letters}
    rows = [{**row, "letter_seq": last + n, "found_clock": wall} for n, row in enumerate(unique.values(), start=1)]
    return txn.append_new("dead_letters", rows)


def letter(source: str, reason: str, event_id: str | None, body: str) -> dict[str, object]:
    """A dead letter: one for each event, or for each text that is no event, and reason."""
    return {
        "letter_id": _hash(event_id or body, reason),
        "event_id": event_id,
        "source": source,
        "reason": reason,
        "body": body[:LETTER_LIMIT],
    }


def _sort(store: Store, batch: Batch, raw: bytes | str) -> None:
    """Put one frame where it belongs."""
    try:
        frame = _decoder.decode(raw)
        _check(frame, len(raw))
        if frame.kind == "commit" and frame.commit is not None:
            _add_commit(batch, frame, frame.commit)
        elif _is_known(store, batch, frame):
            _add_account(batch, frame)
        elif frame.time_us > batch.newest_us:  # else it was counted before the stream was rewound
            batch.strangers += 1
        batch.newest_us = max(batch.newest_us, frame.time_us)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"a frame that cannot be read: {str(error)[:200]}"
        batch.letters.append(letter(batch.source, reason, None, _readable(raw)))
        batch.newest_us = max(batch.newest_us, _time_of(raw))


def _check(frame: Frame, size: int) -> None:
    if size > LARGEST_FRAME:
        raise ValueError(f"it has {size} bytes, and no record makes more than {LARGEST_FRAME}")
    if not DID.fullmatch(frame.did):
        raise ValueError("its did is malformed")
    if not EARLIEST_US <= frame.time_us <= LATEST_US:
        raise ValueError(f"its time_us {frame.time_us} is no time of this network")
    if frame.kind == "commit":
        _check_commit(frame.commit)


def _check_commit(commit: Commit | None) -> None:
    if commit is None:
        raise ValueError("a commit without its commit part")
    if commit.operation not in ("create", "update", "delete"):
        raise ValueError(f"its operation {commit.operation[:40]!r} is unknown")
    if not COLLECTION.fullmatch(commit.collection) or not RECORD_KEY.fullmatch(commit.rkey):
        raise ValueError("its collection or record key is malformed")
    if max(len(commit.rev or ""), len(commit.cid or "")) > REVISION_LIMIT:
        raise ValueError("its rev or cid is too long")
    if commit.operation != "delete" and not bytes(commit.record):
        raise ValueError("a commit without its record")


def _time_of(raw: bytes | str) -> int:
    """Where in the stream an unreadable frame stood; 0 where it does not say. Else a last one would never be passed."""
    try:
        time_us = _moment_decoder.decode(raw).time_us
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    return time_us if EARLIEST_US <= time_us <= LATEST_US else 0


def _is_known(store: Store, batch: Batch, frame: Frame) -> bool:
    """Whether somebody's record came before this frame.

    By the stream's time, not by what is stored: a rewind brings again what was dropped when they still were a stranger.
    """
    seen_at = store.seen_since(frame.did) or batch.people.get(frame.did)
    return seen_at is not None and seen_at < from_microseconds(frame.time_us)


def _add_commit(batch: Batch, frame: Frame, commit: Commit) -> None:
    body = bytes(commit.record).decode() or None
    # Without a rev, which every real frame has, only the moment tells a return to an earlier record from a repetition.
    version = commit.rev or f"{commit.cid} {frame.time_us}"
    parts = (frame.did, commit.collection, commit.rkey, version, commit.operation)
    row = _row(batch.source, frame, parts, body)
    named = {name: getattr(commit, name) for name in ("collection", "rkey", "operation", "rev", "cid")}
    batch.events.append(row | named)
    for did in people_named(frame.did, commit.collection, commit.rkey):
        batch.people.setdefault(did, from_microseconds(frame.time_us))


def _add_account(batch: Batch, frame: Frame) -> None:
    part = {"identity": frame.identity, "account": frame.account}.get(frame.kind)
    if part is None:
        raise ValueError(f"its kind {frame.kind[:40]!r} is unknown")
    body = bytes(part).decode()
    if not body:
        raise ValueError(f"an {frame.kind} event without its {frame.kind} part")
    nothing = dict.fromkeys(("collection", "rkey", "operation", "rev", "cid"))
    batch.events.append(_row(batch.source, frame, (frame.did, frame.kind, str(frame.time_us), body), body) | nothing)


def _row(source: str, frame: Frame, parts: Sequence[str], body: str | None) -> dict[str, object]:
    return {
        "event_id": _hash(*parts),
        "source": source,
        "kind": frame.kind,
        "did": frame.did,
        "seen_at": from_microseconds(frame.time_us),
        "body": body,
    }


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()


def _without_known(txn: Transaction, events: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The events that are not in the log, each once, in order."""
    unique: dict[object, dict[str, object]] = {}
    for row in events:
        unique.setdefault(row["event_id"], row)
    logged = txn.rows("select event_id from events where event_id in (select unnest(?))", [list(unique)])
    for row in logged:
        del unique[row["event_id"]]
    return list(unique.values())


def _readable(raw: bytes | str) -> str:
    """The text of a frame with what no text may hold replaced."""
    return (raw if isinstance(raw, bytes) else raw.encode(errors="replace")).decode(errors="replace")
