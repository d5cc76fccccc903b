"""Dead letters kept within bounds, so that a stream of what nobody can read does not fill the drive.

Letters of events go first, the oldest first: the log holds their text, and a mark of a few bytes in `unread_events`
stays, which order heeds (ingest/records/order.py) and by which they are read again (ingest/stream/reread_letters.py).
Then go texts that were cut, which can never be read again, then those that name no collection of ours. How many went of
these is in `hops`. Early frames go last: they are few (ingest/stream/early.py) and are read by themselves.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from ingest.store.database import Store
from ingest.store.long_texts import BYTES, IS_REFERENCE
from ingest.store.transaction import Rows, Transaction

KEPT_SHARE = 0.9  # left once there are too many, so that the texts are not sorted again for every letter that comes
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
    """Holds at most `most` letters; `dropped` are those that went so far and say nothing yet."""

    def __init__(self, store: Store, most: int) -> None:
        self._store, self._most = store, most
        self._ours = '"(' + "|".join(map(re.escape, store.registry.kinds)) + ')"'
        with store.read() as rows:
            self.dropped = _dropped(rows)

    def keep(self) -> int:
        """Let go of what is least useful where there are too many; returns how many letters went."""
        with self._store.read() as rows:
            count = rows.value("select count(*) from dead_letters")
            self.dropped = _dropped(rows)
        return self._drop(count - int(self._most * KEPT_SHARE)) if count > self._most else 0

    def _drop(self, number: int) -> int:
        with self._store.write() as txn:
            going = txn.rows(LEAST_USEFUL, [LETTER_LIMIT, self._ours, number])
            logged = [row["event_seq"] for row in going if row["event_seq"] is not None]
            txn.execute(MARK, [logged])
            ids = [row["letter_id"] for row in going]
            txn.execute("delete from dead_letters where letter_id in (select unnest(?::varchar[]))", [ids])
            count_dropped(txn, len(going) - len(logged))
            self.dropped = _dropped(txn)
        return len(going)


def _dropped(rows: Rows) -> int:
    return _gone(rows) + rows.value("select count(*) from unread_events")


def _gone(rows: Rows) -> int:
    return rows.value("select position_seq from hops where name = 'letters'") or 0


LETTER_LIMIT = 65_536


def count_dropped(txn: Transaction, number: int) -> None:
    """Count dead letters that were let go for good: no event was, and no log holds, what they said."""
    txn.execute("insert or replace into hops values ('letters', ?, ?)", [_gone(txn) + number, txn.wall()])


def add_letters(txn: Transaction, letters: Sequence[Mapping[str, object]], wall: datetime) -> int:
    """Append dead letters that are not there yet (a rewound stream repeats them); returns how many were new."""
    if not letters:
        return 0
    last = txn.value("select coalesce(max(letter_seq), 0) from dead_letters")
    unique = {row["letter_id"]: row for row in letters}
    rows = [{**row, "letter_seq": last + n, "found_clock": wall} for n, row in enumerate(unique.values(), start=1)]
    for row in rows:
        if row["event_id"] is None:  # else the text is the event's own, as the log has it
            row["body"] = txn.long_texts.keep(str(row["body"]))
    return txn.append_new("dead_letters", rows)


def letter(
    source: str, reason: str, body: str, event_id: str | None = None, event_seq: int | None = None
) -> dict[str, object]:
    """A dead letter: one for each event, or for each text that is no event, and reason."""
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
