"""Dead letters kept within bounds, so that a stream of what nobody can read does not fill the drive.

The letter of an event stays for ever, as order heeds it (ingest/order.py); its text goes, which the log holds as well.
Others go entirely: first texts that were cut, which can never be read again, then those that name no collection of
ours, the oldest first. How many went is kept in `hops`.
"""

import re

from ingest.load import LETTER_LIMIT
from ingest.store import Store

KEPT_SHARE = 0.9  # left once there are too many, so that the texts are not sorted again for every letter that comes
HELD = "from dead_letters where event_id is null or body <> ''"
LEAST_USEFUL = f"""
select letter_id, event_id is not null as is_logged {HELD} order by case
  when event_id is not null then 0 when strlen(body) >= ? then 1 when regexp_matches(body, ?) then 3 else 2
end, letter_seq limit ?
"""


class LetterBound:
    """Holds at most `most` texts; `dropped` are the letters that went so far."""

    def __init__(self, store: Store, most: int) -> None:
        self._store, self._most = store, most
        self._ours = '"(' + "|".join(map(re.escape, store.registry.kinds)) + ')"'
        with store.read() as rows:
            self.dropped: int = rows.value("select position_seq from hops where name = 'letters'") or 0

    def keep(self) -> int:
        """Let go of what is least useful where there are too many; returns how many letters went entirely."""
        with self._store.read() as rows:
            count = rows.value(f"select count(*) {HELD}")
        return self._drop(count - int(self._most * KEPT_SHARE)) if count > self._most else 0

    def _drop(self, number: int) -> int:
        with self._store.write() as txn:
            going = txn.rows(LEAST_USEFUL, [LETTER_LIMIT, self._ours, number])
            logged = [row["letter_id"] for row in going if row["is_logged"]]
            others = [row["letter_id"] for row in going if not row["is_logged"]]
            txn.execute("update dead_letters set body = '' where letter_id in (select unnest(?::varchar[]))", [logged])
            txn.execute("delete from dead_letters where letter_id in (select unnest(?::varchar[]))", [others])
            dropped = self.dropped + len(others)
            txn.execute("insert or replace into hops values ('letters', ?, ?)", [dropped, txn.wall()])
        self.dropped = dropped
        return len(others)
