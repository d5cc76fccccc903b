"""Read dead letters again with today's registry: apply those that can be read now; the rest keep a reason.

Early frames are read again only automatically, when their time has come (ingest/stream/early.py). Events whose letter
was dropped (ingest/records/dead_letters.py) are read again from the log, and stay without a letter.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from ingest.records.dead_letters import LETTER_LIMIT, letter
from ingest.records.derive import DeriveBatch, derive
from ingest.records.fields import Event
from ingest.store.archive import all_events
from ingest.store.database import Store
from ingest.store.long_texts import BYTES
from ingest.store.transaction import Transaction
from ingest.stream.batch import read_batch
from ingest.stream.load import load, store_batch

CHUNK = 50  # letters at once: the text of each may have 64 kB

LETTERS_OF_EVENTS = """
with chunk as (
  select event_id, max(letter_seq) as letter_seq, arg_max(body, letter_seq) as letter_body,
    arg_max(found_clock, letter_seq) as found_clock
  from dead_letters where event_id is not null
  group by event_id having max(letter_seq) > ? and max(letter_seq) <= ? order by letter_seq limit ?
)
select chunk.*, event_seq as seq, source, kind, did, collection, rkey, operation, cid, seen_at, body, rev, true as late
from chunk left join {events} using (event_id) order by letter_seq
"""
UNREAD = """
select event_seq as seq, event_id, source, kind, did, collection, rkey, operation, cid, seen_at, body, rev, true as late
from {events} where event_seq in (select unnest(?::bigint[])) order by seq
"""
OF_THE_LETTER = frozenset({"letter_seq", "letter_body", "found_clock"})
# A text that was cut, or that no stream brought, cannot be read again.
FRAMES = f"""
from dead_letters d semi join ingest_state i on i.source = d.source
where event_id is null and due_clock is null and {BYTES.format(column="body")} < ? and letter_seq <= ?
"""
DUE = """
select letter_id, source, body from dead_letters where due_clock <= ? and source in (select source from ingest_state)
order by source, due_clock, letter_seq limit ?
"""
RETRIED = "retried "  # marks a letter whose frame is being read again; it stays a letter until that is done


class Retried(msgspec.Struct, frozen=True):
    """The number of letters that were read again, of those that could be applied, and of those left."""

    read: int
    applied: int
    left: int


def retry_dead_letters(store: Store) -> Retried:
    """Read every letter again and apply the readable ones; a crash repeats a chunk and loses none."""
    with store.read() as rows:
        last_letter = rows.value("select coalesce(max(letter_seq), 0) from dead_letters")
    frames, frames_left = _retry_frames(store, last_letter)
    events, events_left = _retry_events(store, last_letter)
    unread, unread_left = _retry_unread(store)
    while derive(store):
        pass
    with store.read() as rows:
        left_count = rows.value("select (select count(*) from dead_letters) + (select count(*) from unread_events)")
    read_count = frames + events + unread
    return Retried(read_count, read_count - frames_left - events_left - unread_left, left_count)


def read_due_frames(store: Store) -> int:
    """Load early frames whose time has come; return how many. A crash repeats some; no cursor moves."""
    read_count = 0
    while True:
        with store.read() as reader:
            rows = reader.rows(DUE, [store.wall(), CHUNK])
        if not rows:
            return read_count
        for source, group in groupby(rows, lambda row: row["source"]):
            store_batch(
                store, source, read_batch([_letter_text(store, row["body"]) for row in group]), moves_cursor=False
            )
        with store.write() as txn:
            letter_ids = [row["letter_id"] for row in rows]
            txn.execute("delete from dead_letters where letter_id in (select unnest(?))", [letter_ids])
        read_count += len(rows)


def _retry_events(store: Store, last: int) -> tuple[int, int]:
    """Apply letters of events that are in the log, as late events; return how many were read and how many stay."""
    last_done, read_count, remaining = 0, 0, 0
    while True:
        with store.write() as txn:
            rows = txn.rows(LETTERS_OF_EVENTS.format(events=all_events(txn)), [last_done, last, CHUNK])
            if not rows:
                return read_count, remaining
            rows_by_event = {row["event_id"]: row for row in rows if _has_content(row)}
            batch = DeriveBatch(txn, [_event(row) for row in rows_by_event.values()], store.registry)
            batch.write()
            _replace_letters(txn, rows_by_event, batch.unreadable)
            txn.inputs_changed()
        last_done, read_count, remaining = (
            rows[-1]["letter_seq"],
            read_count + len(rows_by_event),
            remaining + len(batch.unreadable),
        )


def _has_content(row: Mapping[str, Any]) -> bool:
    """Return True if the log still holds the event's content: a replaced record loses its body after a month."""
    return row["body"] is not None or row["operation"] == "delete"


def _event(row: Mapping[str, Any]) -> Event:
    return Event(**{name: value for name, value in row.items() if name not in OF_THE_LETTER})


def _replace_letters(
    txn: Transaction, rows_by_event: Mapping[str, Mapping[str, Any]], unreadable: Sequence[tuple[Event, str]]
) -> None:
    """Remove the letters of these events, and put the still unreadable ones back into their places."""
    txn.execute("delete from dead_letters where event_id in (select unnest(?))", [list(rows_by_event)])
    letters = [
        letter(event.source, reason, row["letter_body"], event.event_id, event.seq)
        | {"letter_seq": row["letter_seq"], "found_clock": row["found_clock"]}
        for event, reason in unreadable
        for row in [rows_by_event[event.event_id]]
    ]
    txn.append("dead_letters", letters)


def _retry_unread(store: Store) -> tuple[int, int]:
    """Apply events whose letter was dropped, as late events; return how many were read and how many stay."""
    read_count, stay = 0, 0
    with store.read() as reader:
        marked = [row["event_seq"] for row in reader.rows("from unread_events order by event_seq")]
    for start in range(0, len(marked), CHUNK):
        chunk = marked[start : start + CHUNK]
        with store.write() as txn:
            log = all_events(txn, "first_seq <= ? and last_seq >= ?", [chunk[-1], chunk[0]])
            reader = txn.rows(UNREAD.format(events=log), [chunk])
            batch = DeriveBatch(txn, [Event(**row) for row in reader if _has_content(row)], store.registry)
            batch.write()
            unreadable = {event.seq for event, _ in batch.unreadable} | {
                row["seq"] for row in reader if not _has_content(row)
            }
            applied = [seq for seq in chunk if seq not in unreadable]
            txn.execute("delete from unread_events where event_seq in (select unnest(?::bigint[]))", [applied])
            txn.inputs_changed()
        read_count, stay = read_count + len(chunk), stay + len(unreadable)
    return read_count, stay


def _retry_frames(store: Store, last: int) -> tuple[int, int]:
    """Load frames again that became no event; return how many were read and how many stay.

    A frame that still cannot be read becomes a new letter, with today's reason, before the old one goes.
    """
    read_count, remaining = 0, 0
    while True:
        with store.write() as txn:
            rows = txn.rows(f"select d.* {FRAMES} order by d.source, letter_seq limit ?", [LETTER_LIMIT, last, CHUNK])
            ids = [row["letter_id"] for row in rows]
            marked = [row | {"letter_id": RETRIED + row["letter_id"].removeprefix(RETRIED)} for row in rows]
            txn.execute("delete from dead_letters where letter_id in (select unnest(?))", [ids])
            txn.upsert("dead_letters", marked)
        if not rows:
            return read_count, remaining
        for source, group in groupby(rows, lambda row: row["source"]):
            remaining += load(store, source, [_letter_text(store, row["body"]) for row in group]).letters
        with store.write() as txn:
            letter_ids = [row["letter_id"] for row in marked]
            txn.execute("delete from dead_letters where letter_id in (select unnest(?))", [letter_ids])
        read_count += len(rows)


def _letter_text(store: Store, body: str) -> str:
    """Return the text of a letter, or its reference if the file is lost; a reference stays a letter."""
    return store.long_texts.shown(body) or body
