"""Frames of a Jetstream v1 socket into the event log: the rows and the cursor in one transaction.

Wire format: facts/tangled.md §3.1. A frame that cannot be read becomes a dead letter; a frame that was already logged
(the stream is at least once, and every reconnect rewinds) is dropped by its event id.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from ingest.clock import from_microseconds, to_microseconds
from ingest.records import DID, people_named
from ingest.store import Store, Transaction

LETTER_LIMIT = 65_536
# No frame is older than AT Protocol's first public network by more than recorded histories need, nor newer than this.
EARLIEST_US = to_microseconds(datetime(2000, 1, 1))
LATEST_US = to_microseconds(datetime(2100, 1, 1))


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


@dataclass(slots=True)
class Batch:
    """Frames sorted into what will be written."""

    events: list[dict[str, object]] = field(default_factory=list)
    letters: list[dict[str, object]] = field(default_factory=list)
    people: dict[str, datetime | None] = field(default_factory=dict)
    newest_us: int = 0
    strangers: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a batch came to."""

    events: int
    letters: int
    cursor_us: int


_decoder = msgspec.json.Decoder(Frame)


def load(store: Store, source: str, frames: Sequence[bytes | str]) -> Loaded:
    """Store a batch of frames and move the source's cursor, all or nothing."""
    with store.write() as txn:
        batch = _sort(store, txn, source, frames)
        fresh = _without_known(txn, batch.events)
        first = (txn.value("select max(event_seq) from events") or 0) + 1
        wall = store.wall()
        txn.append("events", [row | {"event_seq": first + n, "loaded_clock": wall} for n, row in enumerate(fresh)])
        add_letters(txn, batch.letters, wall)
        txn.register_people(batch.people)
        txn.execute(
            "update ingest_state set cursor_us = greatest(cursor_us, ?), dropped_strangers = dropped_strangers + ?, "
            "moved_clock = ? where source = ?",
            [batch.newest_us, batch.strangers, wall, source],
        )
        cursor = txn.value("select cursor_us from ingest_state where source = ?", [source])
    return Loaded(len(fresh), len(batch.letters), cursor)


def add_letters(txn: Transaction, letters: Sequence[dict[str, object]], wall: datetime) -> None:
    """Append dead letters that are not there yet (a rewound stream repeats them)."""
    if not letters:
        return
    bodies = [row["body"] for row in letters]
    found = txn.rows("select reason, body from dead_letters where body in (select unnest(?))", [bodies])
    known = {(row["reason"], row["body"]) for row in found}
    fresh = [row for row in letters if (row["reason"], row["body"]) not in known]
    first = (txn.value("select max(letter_seq) from dead_letters") or 0) + 1
    txn.append("dead_letters", [row | {"letter_seq": first + n, "found_clock": wall} for n, row in enumerate(fresh)])


def _sort(store: Store, txn: Transaction, source: str, frames: Sequence[bytes | str]) -> Batch:
    batch = Batch()
    cursor = txn.value("select cursor_us from ingest_state where source = ?", [source])
    for raw in frames:
        try:
            frame = _decoder.decode(raw)
            _check(frame)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            batch.letters.append(_letter(source, f"a frame that cannot be read: {str(error)[:200]}", raw))
            continue
        batch.newest_us = max(batch.newest_us, frame.time_us)
        if frame.commit is not None and frame.kind == "commit":
            _add_commit(batch, source, frame, frame.commit)
        elif frame.kind in ("identity", "account") and (store.is_seen(frame.did) or frame.did in batch.people):
            _add_account(batch, source, frame)
        elif frame.time_us > cursor:
            batch.strangers += 1
    return batch


def _check(frame: Frame) -> None:
    if not DID.fullmatch(frame.did):
        raise ValueError("its did is malformed")
    if not EARLIEST_US <= frame.time_us <= LATEST_US:
        raise ValueError(f"its time_us {frame.time_us} is no time of this network")
    if frame.kind == "commit":
        if frame.commit is None:
            raise ValueError("a commit without its commit part")
        if frame.commit.operation != "delete" and not bytes(frame.commit.record):
            raise ValueError("a commit without its record")


def _add_commit(batch: Batch, source: str, frame: Frame, commit: Commit) -> None:
    body = bytes(commit.record).decode() if bytes(commit.record) else None
    parts = (frame.did, commit.collection, commit.rkey, commit.rev or commit.cid or "", commit.operation)
    seen_at = from_microseconds(frame.time_us)
    batch.events.append(
        _row(source, frame, parts, seen_at, body)
        | {
            "collection": commit.collection,
            "rkey": commit.rkey,
            "operation": commit.operation,
            "rev": commit.rev,
            "cid": commit.cid,
        }
    )
    for did in people_named(frame.did, commit.collection, commit.rkey):
        batch.people.setdefault(did, seen_at)


def _add_account(batch: Batch, source: str, frame: Frame) -> None:
    body = bytes(frame.identity if frame.kind == "identity" else frame.account).decode()
    parts = (frame.did, frame.kind, str(frame.time_us), body)
    nothing = dict.fromkeys(("collection", "rkey", "operation", "rev", "cid"))
    batch.events.append(_row(source, frame, parts, from_microseconds(frame.time_us), body or None) | nothing)


def _row(source: str, frame: Frame, parts: Sequence[str], seen_at: datetime, body: str | None) -> dict[str, object]:
    return {
        "event_id": hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest(),
        "source": source,
        "kind": frame.kind,
        "did": frame.did,
        "seen_at": seen_at,
        "body": body,
    }


def _without_known(txn: Transaction, events: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The events that are not in the log, each once, in order."""
    unique: dict[object, dict[str, object]] = {}
    for row in events:
        unique.setdefault(row["event_id"], row)
    logged = txn.rows("select event_id from events where event_id in (select unnest(?))", [list(unique)])
    for row in logged:
        del unique[row["event_id"]]
    return list(unique.values())


def _letter(source: str, reason: str, raw: bytes | str) -> dict[str, object]:
    body = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
    return {"event_id": None, "source": source, "reason": reason, "body": body[:LETTER_LIMIT]}
