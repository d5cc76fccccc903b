"""Bounds on what one DID may have in the log: so many bytes of records an hour, by the stream's clock.

An hour is that of the event and not of its arrival, and what repeats is not counted again. After a restart the counts
of the stream's last two hours are read from the log; an older hour begins at nothing, so a replay of it admits as much
once more of what was refused. A deletion has no text and is always admitted: nobody can be kept from taking something
back.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ingest.clock import from_microseconds
from ingest.store.long_texts import BYTES

if TYPE_CHECKING:
    from ingest.store.transaction import Rows

HOUR_US = 3_600_000_000
# The busiest of the recorded accounts wrote 7 kB in an hour. The largest record, 1 MB, makes 6 MB of JSON at the worst.
BYTES_AN_HOUR = 16_000_000
MOST_KEPT = 200_000  # accounts and hours that are remembered; beyond it those of the newest hour alone
LATELY = f"""
select did, epoch_us(date_trunc('hour', seen_at)) as hour_us, sum({BYTES.format(column="body")})::bigint as bytes
from events where seen_at >= ? and body is not null group by all
"""
Hour = tuple[str, int]  # a DID and the beginning of an hour in microseconds


class Spent:
    """The bytes of each DID and hour in the log, as last committed; older hours than the last two may be missing."""

    def __init__(self) -> None:
        self.bytes: dict[Hour, int] = {}

    def keep(self, changed: dict[Hour, int]) -> None:
        """Take in what a transaction committed."""
        self.bytes |= changed
        if len(self.bytes) > MOST_KEPT:
            newest = max(hour_us for _, hour_us in self.bytes)
            self.bytes = {hour: spent for hour, spent in self.bytes.items() if hour[1] == newest}


def load_spent(rows: "Rows") -> Spent:
    """Read the stream's last two hours from the table; rows that moved to a file meanwhile are not counted."""
    spent = Spent()
    cursor_us = rows.value("select max(cursor_us) from ingest_state") or 0
    since = from_microseconds(max(cursor_us // HOUR_US - 1, 0) * HOUR_US)
    for row in rows.rows(LATELY, [since]):
        spent.bytes[row["did"], row["hour_us"]] = row["bytes"]
    return spent


class Intake:
    """The bytes that one transaction adds; nobody else sees them before it is committed."""

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._changed: dict[Hour, int] = {}

    def refused(
        self, places: Iterable[int], dids: Sequence[str], times_us: Sequence[int], sizes: Sequence[int]
    ) -> dict[int, Hour]:
        """Count the new events at these places; those of them that go beyond the bound, with whose hour it is."""
        refused: dict[int, Hour] = {}
        for place in places:
            if not (size := sizes[place]):
                continue
            hour = dids[place], times_us[place] - times_us[place] % HOUR_US
            spent = self._changed.get(hour) or self._spent.bytes.get(hour, 0)
            if spent + size > BYTES_AN_HOUR:
                refused[place] = hour
            else:
                self._changed[hour] = spent + size
        return refused

    def keep(self) -> None:
        """The transaction was committed."""
        self._spent.keep(self._changed)


def sentence(hour: Hour) -> str:
    """Return why a record was refused: one sentence for each account and hour, so that one dead letter tells of all."""
    return (
        f"its account wrote more than {BYTES_AN_HOUR // 1_000_000} MB in the hour from "
        f"{from_microseconds(hour[1]):%Y-%m-%d %H:%M} UTC: records beyond that are not kept"
    )
