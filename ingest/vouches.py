"""Vouches and denounces of one batch: every version is kept, one at most stands between two people."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ingest.records import Event, VouchRecord
from ingest.store import Transaction

Pair = tuple[int, int]  # voucher, subject

STANDING = """
select event_seq, voucher_id, subject_id from vouches
join (select unnest(?) as voucher_id, unnest(?) as subject_id) using (voucher_id, subject_id)
where superseded_at is null
"""
END = """
update vouches set superseded_at = n.ended_at, superseded_by = n.how
from (select unnest(?) as event_seq, unnest(?) as ended_at, unnest(?) as how) n where n.event_seq = vouches.event_seq
"""


class Vouches:
    """The vouches between these pairs; read once and written once, since one account can delete 10,000 in a batch."""

    def __init__(self, txn: Transaction, pairs: Iterable[Pair]) -> None:
        self.txn = txn
        unique = list(dict.fromkeys(pairs))
        params = [[voucher for voucher, _ in unique], [subject for _, subject in unique]]
        self._stored = txn.rows(STANDING, params) if unique else []
        self._standing = {(row["voucher_id"], row["subject_id"]): row for row in self._stored}
        self._new: list[dict[str, Any]] = []

    def put(self, event: Event, pair: Pair, record: VouchRecord) -> None:
        """Take a vouch in place of whatever stands between the two."""
        self.end(event, pair, "put")
        row = {
            "voucher_id": pair[0],
            "subject_id": pair[1],
            "kind": record.kind,
            "reason": record.reason,
            "evidences": msgspec.json.encode(record.evidences).decode(),
            "record_cid": event.cid,
            "written_at": min(record.created_at or event.seen_at, event.seen_at),
            "seen_at": event.seen_at,
            "superseded_at": None,
            "superseded_by": None,
            "event_seq": event.seq,
        }
        self._new.append(row)
        self._standing[pair] = row

    def end(self, event: Event, pair: Pair, how: str) -> None:
        """End whatever vouch stands between the two, whether it came in this batch or before."""
        if row := self._standing.pop(pair, None):
            row |= {"superseded_at": event.seen_at, "superseded_by": how}

    def write(self) -> None:
        """Write the new vouches and the ends of older ones."""
        ended = [row for row in self._stored if "superseded_at" in row]
        if ended:
            self.txn.execute(
                END, [[row[name] for row in ended] for name in ("event_seq", "superseded_at", "superseded_by")]
            )
        self.txn.append("vouches", self._new)
