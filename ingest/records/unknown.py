"""Counts collections, fields and values of records that the registry does not know.

Anybody can make up names, so the number of rows is bounded; what comes after is summed under '(others)'.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from ingest.records.fields import Event, Unreadable, decode
from ingest.records.registry import Kind
from ingest.records.shapes import last_word
from ingest.store.archive import events_at_hand
from ingest.store.long_texts import TextLost
from ingest.store.transaction import Transaction

MOST_SHAPES = 1000
NAME_LIMIT = 100
FIELD_LIMIT = 100  # names counted of one record: one may carry 100,000
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
        """Count a record of a collection without an entry."""
        self._count(event, "collection")

    def note_record(self, event: Event, record: Mapping[str, Any], kind: Kind) -> None:
        """Count the fields, and the words in fields of few words, that the entry does not name."""
        if not kind.fields.issuperset(record):
            for name in [name for name in record if name not in kind.fields][:FIELD_LIMIT]:
                self._count(event, f"field:{name[:NAME_LIMIT]}")
        for name, words in kind.values.items():
            value = record.get(name)
            if value is not None and not (isinstance(value, str) and last_word(value) in words):
                told = value[:NAME_LIMIT] if isinstance(value, str) else "(no text)"
                self._count(event, f"value:{name}={told}")

    def _count(self, event: Event, what: str) -> None:
        shape, now = (event.collection or "", what), event.seen_at
        times, first, last = self._seen.get(shape, (0, now, now))
        self._seen[shape] = (times + 1, min(first, now), max(last, now))

    def forget(self) -> None:
        """Sum under '(others)' what was counted here as often as in all."""
        rows = {(row["collection"], row["what"]): row for row in self._txn.rows("select * from unknown_shapes")}
        going = [row for shape, row in rows.items() if shape in self._seen and row["sightings"] <= self._seen[shape][0]]
        if going:
            names = [[row[name] for row in going] for name in ("collection", "what")]
            self._txn.execute(FORGET, names)
            others = [rows[OTHERS]] if OTHERS in rows else []
            self._txn.upsert("unknown_shapes", [_sum([*others, *going])])

    def write(self) -> None:
        """Add to what was counted before, in the order of first sight."""
        if not self._seen:
            return
        found = self._txn.rows("select * from unknown_shapes")
        rows: dict[Shape, dict[str, Any]] = {(row["collection"], row["what"]): row for row in found}
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
    """Sum under '(others)' what nobody but this account showed: whoever writes a record chooses its names."""
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
    collection, what = shape
    moments = {"first_seen_at": seen_at, "last_seen_at": seen_at}
    return {"collection": collection, "what": what, "sightings": 0} | moments
