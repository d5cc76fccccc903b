"""Accounts that the store's owner holds in memory, since every batch asks for thousands: their numbers, bytes an hour.

A DID gets its integer when it first arrives.

The log is bounded for each DID: a number of bytes of records an hour, by the stream's clock. An hour is that of the
event and not of its arrival, and repeats are not counted again. After a restart the counts of the stream's last two
hours are read from the log; an older hour starts at zero, so a replay of it may admit records that were refused before.
A deletion has no text and is always admitted: anybody can always withdraw a record.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ingest.atproto.syntax import IS_TID
from ingest.clock import from_microseconds
from ingest.store.long_texts import BYTES

if TYPE_CHECKING:
    from ingest.records.registry import Registry
    from ingest.store.transaction import Rows

# A DID, a collection, a key and a kind never hold the separator; fields that may hold it come last.
EVENT_ID = """md5(case when kind = 'commit'
  then concat_ws(chr(31), did, collection, rkey, operation, coalesce(rev, cid, ''))
  else concat_ws(chr(31), did, kind, body) end)"""
# Everyone, with the newest rev of their repository. Writing it with every batch would cost .7 µs an event; reading it
# from the rows at the start costs .15 s for the 1,000,000 that a table holds.
PEOPLE = f"""
select did, contributor_id, first_seen_at, greatest(archived_rev, rev) from contributors left join (
  select did, max(rev) as rev from events
  where {IS_TID} and collection in (select unnest(?::varchar[])) group by did
) using (did)
"""


class People:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.seen_since: dict[str, datetime] = {}
        self.newest_rev: dict[str, str] = {}
        self.highest = 0  # highest number ever given: that of an erased account is never given again

    def add(self, did: str, number: int, seen_at: datetime | None, newest_rev: str | None) -> None:
        self.numbers[did] = number
        self.highest = max(self.highest, number)
        if seen_at is not None:
            self.seen_since[did] = seen_at
        if newest_rev is not None:
            self.newest_rev[did] = newest_rev

    def remove(self, did: str) -> None:
        """Remove an erased account; its number stays taken."""
        self.numbers.pop(did, None)
        self.seen_since.pop(did, None)
        self.newest_rev.pop(did, None)


def load_people(rows: "Rows", registry: "Registry") -> People:
    """Load everyone from the store; `registry` tells which collections are ours."""
    people = People()
    collections = rows.rows("select distinct collection from events where collection is not null")
    own_collections = [row["collection"] for row in collections if registry.is_ours(row["collection"])]
    for row in rows.cursor.execute(PEOPLE, [own_collections]).fetchall():
        people.add(*row)
    last_given = rows.value("select position_seq from hops where name = 'people'") or 0
    people.highest = max(people.highest, last_given)
    return people


class Arrivals:
    """The newcomers of one transaction; they become visible to others with its commit."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._numbers: dict[str, int] = {}
        self._seen_since: dict[str, datetime] = {}
        self._newest_rev: dict[str, str] = {}

    def number(self, did: str) -> int | None:
        """Return the integer of a DID, or None if the DID never arrived."""
        return self._people.numbers.get(did) or self._numbers.get(did)

    def give(self, did: str) -> int:
        """Return a new integer for a DID that has none."""
        number = self._numbers[did] = self._people.highest + len(self._numbers) + 1
        return number

    def newest_revs(self) -> Mapping[str, str]:
        """Return the highest logged rev of each DID's repository."""
        return ChainMap(self._newest_rev, self._people.newest_rev) if self._newest_rev else self._people.newest_rev

    def note_revisions(self, newest: Mapping[str, str]) -> None:
        """Store the newest revs of these repositories."""
        self._newest_rev |= newest

    def seen_since(self, did: str) -> datetime | None:
        """Return when the first record by or about this DID was seen, or None if none has arrived."""
        return self._people.seen_since.get(did) or self._seen_since.get(did)

    def note_seen(self, first_seen: Mapping[str, datetime | None]) -> dict[str, datetime]:
        """Store the times of DIDs that were not seen before; return those."""
        newly_seen = {
            did: seen_at
            for did, seen_at in first_seen.items()
            if seen_at is not None and did not in self._people.seen_since and did not in self._seen_since
        }
        self._seen_since |= newly_seen
        return newly_seen

    def keep(self) -> None:
        self._people.numbers |= self._numbers
        self._people.highest += len(self._numbers)
        self._people.seen_since |= self._seen_since
        self._people.newest_rev |= self._newest_rev


def new_contributor(did: str, number: int, seen_at: datetime | None) -> dict[str, object]:
    """Return the row of a person known only by DID; `seen_at` is None if no record by or about them arrived."""
    return {
        "did": did,
        "contributor_id": number,
        "first_seen_at": seen_at,
        "handle": None,
        "handle_verified": False,
        "pds": None,
        "did_created_at": None,
        "account_status": "active",
        "archived_rev": None,
    }


HOUR_US = 3_600_000_000
# The busiest of the recorded accounts wrote 7 kB in an hour. The largest record, 1 MB, is at most 6 MB of JSON.
BYTES_AN_HOUR = 16_000_000
MOST_KEPT = 200_000  # accounts and hours in memory; beyond it only those of the newest hour stay
LATELY = f"""
select did, epoch_us(date_trunc('hour', seen_at)) as hour_us, sum({BYTES.format(column="body")})::bigint as bytes
from events where seen_at >= ? and body is not null group by all
"""
Hour = tuple[str, int]  # a DID and the beginning of an hour in microseconds


class Spent:
    """The bytes of each DID and hour in the log, as last committed; hours before the last two may be missing."""

    def __init__(self) -> None:
        self.bytes: dict[Hour, int] = {}

    def keep(self, changed: dict[Hour, int]) -> None:
        self.bytes |= changed
        if len(self.bytes) > MOST_KEPT:
            newest = max(hour_us for _, hour_us in self.bytes)
            self.bytes = {hour: spent for hour, spent in self.bytes.items() if hour[1] == newest}


def load_spent(rows: "Rows") -> Spent:
    """Read the stream's last two hours from the table; rows that moved to a file since are not counted."""
    spent = Spent()
    cursor_us = rows.value("select max(cursor_us) from ingest_state") or 0
    since_hour = from_microseconds(max(cursor_us // HOUR_US - 1, 0) * HOUR_US)
    for row in rows.rows(LATELY, [since_hour]):
        spent.bytes[row["did"], row["hour_us"]] = row["bytes"]
    return spent


class Intake:
    """The bytes that one transaction adds; they become visible to others with its commit."""

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._changed: dict[Hour, int] = {}

    def refused(
        self, places: Iterable[int], dids: Sequence[str], times_us: Sequence[int], sizes: Sequence[int]
    ) -> dict[int, Hour]:
        """Count the new events at these places; return the places that exceed the bound, with their hours."""
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
        self._spent.keep(self._changed)


def sentence(hour: Hour) -> str:
    """Return the reason of a refusal: one sentence, and so one dead letter, for each account and hour."""
    return (
        f"its account wrote more than {BYTES_AN_HOUR // 1_000_000} MB in the hour from "
        f"{from_microseconds(hour[1]):%Y-%m-%d %H:%M} UTC: records beyond that are not kept"
    )
