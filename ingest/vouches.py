"""Vouches and denounces of one batch: every version is kept, one at most stands between two people."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.order import Place
from ingest.reading import DID, Event, identifier, json_text
from ingest.shapes import VouchRecord
from ingest.transaction import Transaction

Pair = tuple[int, int]  # voucher, subject

STANDING = """
select event_seq, voucher_id, subject_id, record_cid, seen_at from vouches
join (select unnest(?) as voucher_id, unnest(?) as subject_id) using (voucher_id, subject_id)
where superseded_at is null
"""
END = """
update vouches set superseded_at = n.ended_at, superseded_by = n.how
from (select unnest(?) as event_seq, unnest(?) as ended_at, unnest(?) as how) n where n.event_seq = vouches.event_seq
"""
WITNESS = """
update vouches set seen_at = n.seen_at, written_at = n.written_at
from (select unnest(?) as event_seq, unnest(?) as seen_at, unnest(?) as written_at) n
where n.event_seq = vouches.event_seq
"""


class Vouches:
    """The vouches between these pairs; read once and written once, since one account can delete 10,000 in a batch."""

    def __init__(self, txn: Transaction, events: Iterable[Event], people: Mapping[str, int]) -> None:
        self._txn, self._people = txn, people
        unique = list(dict.fromkeys(self._pair(event) for event in events if identifier(DID, event.rkey)))
        params = [[voucher for voucher, _ in unique], [subject for _, subject in unique]]
        self._stored = txn.rows(STANDING, params) if unique else []
        self._standing = {(row["voucher_id"], row["subject_id"]): row for row in self._stored}
        self._new: list[dict[str, Any]] = []

    def _pair(self, event: Event) -> Pair:
        return self._people[event.did], self._people[event.rkey or ""]

    def put(self, event: Event, record: VouchRecord, place: Place) -> None:
        """Take a vouch in place of whatever stands between the two.

        A late one that no longer counts is kept as a version that never stood: nobody could have acted on it.
        """
        if place.known:
            return
        pair = self._pair(event)
        if place.witness:
            self._witness(event, record, pair)
            return
        row = _version(event, record, pair)
        self._new.append(row)
        if not place.counts:
            row |= {"superseded_at": event.seen_at, "superseded_by": "put"}
        elif place.gone is not None:
            row |= {"superseded_at": max(place.gone, event.seen_at), "superseded_by": "delete"}
        else:
            self._end(event, pair, "put")
            self._standing[pair] = row

    def _witness(self, event: Event, record: VouchRecord, pair: Pair) -> None:
        """The stream's own sight of what a listing told dates it."""
        row = self._standing.get(pair)
        if row and row["record_cid"] == event.cid:
            row |= {"seen_at": event.seen_at, "written_at": _written_at(event, record)}

    def delete(self, event: Event, place: Place) -> None:
        """End whatever vouch stands between the two, whether it came in this batch or before."""
        if place.counts and identifier(DID, event.rkey):
            self._end(event, self._pair(event), "delete")

    def _end(self, event: Event, pair: Pair, how: str) -> None:
        if row := self._standing.pop(pair, None):
            # A listed version is dated by its key, which may lie before what it replaces was seen.
            row |= {"superseded_at": max(event.seen_at, row["seen_at"]), "superseded_by": how}

    def write(self) -> None:
        """Write the new vouches and what changed of older ones."""
        self._set(END, ("event_seq", "superseded_at", "superseded_by"))
        self._set(WITNESS, ("event_seq", "seen_at", "written_at"))
        self._txn.append("vouches", self._new)

    def _set(self, sql: str, names: Sequence[str]) -> None:
        changed = [row for row in self._stored if all(name in row for name in names)]
        if changed:
            self._txn.execute(sql, [[row[name] for row in changed] for name in names])


def _written_at(event: Event, record: VouchRecord) -> datetime:
    return min(record.created_at or event.seen_at, event.seen_at)


def _version(event: Event, record: VouchRecord, pair: Pair) -> dict[str, Any]:
    return {
        "voucher_id": pair[0],
        "subject_id": pair[1],
        "kind": record.kind,
        "reason": record.reason,
        "evidences": json_text(record.evidences),
        "record_cid": event.cid,
        "written_at": _written_at(event, record),
        "seen_at": event.seen_at,
        "superseded_at": None,
        "superseded_by": None,
        "event_seq": event.seq,
    }
