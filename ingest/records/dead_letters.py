"""Records that cannot be read: dead letters stored within bounds, and counts of unknown names.

Letters are bounded so that a stream of unreadable records does not fill the drive. Letters of events are dropped first,
the oldest first: the log holds their text, and a mark of a few bytes in `unread_events` stays, which the order of
events uses (ingest/records/order.py) and by which they are read again (ingest/stream/reread_letters.py). Then go texts
that were cut, which can never be read again, then those that name no collection of ours. `hops` counts these. Early
frames go last: they are few (ingest/stream/early.py) and are read automatically.

Collections, fields and values that the registry does not know are counted. Anybody can invent names, so the number of
rows is bounded; further names are summed under '(others)'.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from ingest.records.fields import Event, Unreadable, decode, last_word
from ingest.records.registry import Kind
from ingest.store.archive import events_at_hand
from ingest.store.database import Store
from ingest.store.long_texts import BYTES, IS_REFERENCE, TextLost
from ingest.store.transaction import Rows, Transaction

KEPT_SHARE = 0.9  # left once there are too many, so that texts are not sorted again for every new letter
LEAST_USEFUL = f"""
select letter_id, event_seq from dead_letters order by case
  when due_clock is not null then 4
  when event_id is not null then 0 when {BYTES.format(column="body")} >= ? then 1
  when not {IS_REFERENCE.format(column="body")} and regexp_matches(body, ?) then 3 else 2
end, letter_seq limit ?
"""
MARK = """
insert into unread_events select distinct unnest(?::bigint[]) as event_seq except from unread_events
"""


class LetterBound:
    """Hold at most `most` letters; `dropped` counts those that were dropped so far and are still unreadable."""

    def __init__(self, store: Store, most: int) -> None:
        self._store, self._most = store, most
        self._own_pattern = '"(' + "|".join(map(re.escape, store.registry.kinds)) + ')"'
        with store.read() as rows:
            self.dropped = _count_all_dropped(rows)

    def keep(self) -> int:
        """Drop the least useful letters if there are too many; return how many went."""
        with self._store.read() as rows:
            count = rows.value("select count(*) from dead_letters")
            self.dropped = _count_all_dropped(rows)
        return self._drop(count - int(self._most * KEPT_SHARE)) if count > self._most else 0

    def _drop(self, number: int) -> int:
        with self._store.write() as txn:
            dropped_letters = txn.rows(LEAST_USEFUL, [LETTER_LIMIT, self._own_pattern, number])
            logged = [row["event_seq"] for row in dropped_letters if row["event_seq"] is not None]
            txn.execute(MARK, [logged])
            ids = [row["letter_id"] for row in dropped_letters]
            txn.execute("delete from dead_letters where letter_id in (select unnest(?::varchar[]))", [ids])
            count_dropped(txn, len(dropped_letters) - len(logged))
            self.dropped = _count_all_dropped(txn)
        return len(dropped_letters)


def _count_all_dropped(rows: Rows) -> int:
    return _count_dropped_texts(rows) + rows.value("select count(*) from unread_events")


def _count_dropped_texts(rows: Rows) -> int:
    return rows.value("select position_seq from hops where name = 'letters'") or 0


LETTER_LIMIT = 65_536


def count_dropped(txn: Transaction, number: int) -> None:
    """Count dead letters that were dropped for good: they have no event, and no log holds their text."""
    txn.execute(
        "insert or replace into hops values ('letters', ?, ?)", [_count_dropped_texts(txn) + number, txn.wall()]
    )


def add_letters(txn: Transaction, letters: Sequence[Mapping[str, object]], wall: datetime) -> int:
    """Append dead letters that are new (a rewound stream repeats them); return how many."""
    if not letters:
        return 0
    last_seq = txn.value("select coalesce(max(letter_seq), 0) from dead_letters")
    unique = {row["letter_id"]: row for row in letters}
    rows = [{**row, "letter_seq": last_seq + n, "found_clock": wall} for n, row in enumerate(unique.values(), start=1)]
    for row in rows:
        if row["event_id"] is None:  # otherwise the text is the event's own, in the log
            row["body"] = txn.long_texts.keep(str(row["body"]))
    return txn.append_new("dead_letters", rows)


def letter(
    source: str, reason: str, body: str, event_id: str | None = None, event_seq: int | None = None
) -> dict[str, object]:
    """Return a dead letter: one for each event, or each text without an event, and reason."""
    return {
        "letter_id": _hash(event_id or body, reason),
        "event_id": event_id,
        "event_seq": event_seq,
        "source": source,
        "reason": reason,
        "body": body[:LETTER_LIMIT],
        "due_clock": None,
    }


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()


MOST_SHAPES = 1000
NAME_LIMIT = 100
FIELD_LIMIT = 100  # names counted in one record: a record may carry 100,000
OTHERS = ("(others)", "(others)")
FORGET = """
delete from unknown_shapes where (collection, what) in (select (unnest(?::varchar[]), unnest(?::varchar[])))
"""
RECORDS = """
select event_seq as seq, event_id, source, kind, did, collection, rkey, operation, rev, cid, seen_at, late, body
from {events} where kind = 'commit' and did = ?
"""

Shape = tuple[str, str]  # collection, what


class UnknownShapes:
    """The unknown shapes of one batch, counted in the transaction that derives it: a crash counts nothing twice."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._seen: dict[Shape, tuple[int, datetime, datetime]] = {}

    def note_collection(self, event: Event) -> None:
        self._count(event, "collection")

    def note_record(self, event: Event, record: Mapping[str, Any], kind: Kind) -> None:
        """Count the fields, and the values of fields with fixed words, that the registry's entry does not name."""
        if not kind.fields.issuperset(record):
            for name in [name for name in record if name not in kind.fields][:FIELD_LIMIT]:
                self._count(event, f"field:{name[:NAME_LIMIT]}")
        for name, words in kind.values.items():
            value = record.get(name)
            if value is not None and not (isinstance(value, str) and last_word(value) in words):
                shown_value = value[:NAME_LIMIT] if isinstance(value, str) else "(no text)"
                self._count(event, f"value:{name}={shown_value}")

    def _count(self, event: Event, shape_name: str) -> None:
        shape, now = (event.collection or "", shape_name), event.seen_at
        times, first, last = self._seen.get(shape, (0, now, now))
        self._seen[shape] = (times + 1, min(first, now), max(last, now))

    def forget(self) -> None:
        """Sum names under '(others)' that occurred only in this batch."""
        rows = {(row["collection"], row["what"]): row for row in self._txn.rows("select * from unknown_shapes")}
        rows_to_sum = [
            row for shape, row in rows.items() if shape in self._seen and row["sightings"] <= self._seen[shape][0]
        ]
        if rows_to_sum:
            names = [[row[name] for row in rows_to_sum] for name in ("collection", "what")]
            self._txn.execute(FORGET, names)
            others_row = [rows[OTHERS]] if OTHERS in rows else []
            self._txn.upsert("unknown_shapes", [_sum([*others_row, *rows_to_sum])])

    def write(self) -> None:
        if not self._seen:
            return
        stored = self._txn.rows("select * from unknown_shapes")
        rows: dict[Shape, dict[str, Any]] = {(row["collection"], row["what"]): row for row in stored}
        changed: dict[Shape, dict[str, Any]] = {}
        for shape, (times, first, last) in self._seen.items():
            distinct = len(rows) - (OTHERS in rows)
            key = shape if shape in rows or distinct < MOST_SHAPES else OTHERS
            row = rows.get(key) or _row(key, first)
            rows[key] = changed[key] = row | {
                "sightings": row["sightings"] + times,
                "first_seen_at": min(row["first_seen_at"], first),
                "last_seen_at": max(row["last_seen_at"], last),
            }
        self._txn.upsert("unknown_shapes", list(changed.values()))


def forget_shapes(txn: Transaction, did: str) -> None:
    """Sum names under '(others)' that only this account used: the author of a record chooses its names."""
    shapes, kinds = UnknownShapes(txn), txn.registry.kinds
    for event in (Event(**row) for row in txn.rows(RECORDS.format(events=events_at_hand(txn)), [did])):
        kind = kinds.get(event.collection or "")
        if kind is None:
            shapes.note_collection(event)
        elif event.body is not None:
            with suppress(Unreadable, TextLost):
                shapes.note_record(event, decode(txn.long_texts.read(event.body), "a record"), kind)
    shapes.forget()


def _sum(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return _row(OTHERS, min(row["first_seen_at"] for row in rows)) | {
        "sightings": sum(row["sightings"] for row in rows),
        "last_seen_at": max(row["last_seen_at"] for row in rows),
    }


def _row(shape: Shape, seen_at: datetime) -> dict[str, Any]:
    collection, shape_name = shape
    times = {"first_seen_at": seen_at, "last_seen_at": seen_at}
    return {"collection": collection, "what": shape_name, "sightings": 0} | times
