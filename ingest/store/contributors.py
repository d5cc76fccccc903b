"""The integer of each DID, given when it first arrives: held in memory, since every batch asks for thousands."""

from collections import ChainMap
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ingest.atproto.syntax import IS_TID

# Neither a DID nor a collection, key or kind holds the separator, and what may hold it comes last.
EVENT_ID = """md5(case when kind = 'commit'
  then concat_ws(chr(31), did, collection, rkey, operation, coalesce(rev, cid, ''))
  else concat_ws(chr(31), did, kind, body) end)"""


if TYPE_CHECKING:
    from ingest.records.registry import Registry
    from ingest.store.transaction import Rows

# Everyone, with the newest rev of their repository: written with every batch it would cost .7 µs an event, read from
# the rows at the start it costs .15 s for the 1,000,000 that a table holds.
PEOPLE = f"""
select did, contributor_id, first_seen_at, greatest(archived_rev, rev) from contributors left join (
  select did, max(rev) as rev from events
  where {IS_TID} and collection in (select unnest(?::varchar[])) group by did
) using (did)
"""


class People:
    """Everyone in the `contributors` table, as last committed."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.seen_since: dict[str, datetime] = {}
        self.newest_rev: dict[str, str] = {}
        self.highest = 0  # number that was ever given: one of an erased account means nobody else

    def add(self, did: str, number: int, seen_at: datetime | None, newest_rev: str | None) -> None:
        """Take in a row of the table."""
        self.numbers[did] = number
        self.highest = max(self.highest, number)
        if seen_at is not None:
            self.seen_since[did] = seen_at
        if newest_rev is not None:
            self.newest_rev[did] = newest_rev

    def remove(self, did: str) -> None:
        """Forget an erased account; their number stays taken."""
        self.numbers.pop(did, None)
        self.seen_since.pop(did, None)
        self.newest_rev.pop(did, None)


def load_people(rows: "Rows", registry: "Registry") -> People:
    """Everyone, as the store holds them; `registry` says which collections are ours."""
    people = People()
    collections = rows.rows("select distinct collection from events where collection is not null")
    ours = [row["collection"] for row in collections if registry.is_ours(row["collection"])]
    for row in rows.cursor.execute(PEOPLE, [ours]).fetchall():
        people.add(*row)
    given = rows.value("select position_seq from hops where name = 'people'") or 0
    people.highest = max(people.highest, given)
    return people


class Arrivals:
    """The newcomers of one transaction; nobody else sees them before it is committed."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._numbers: dict[str, int] = {}
        self._seen_since: dict[str, datetime] = {}
        self._newest_rev: dict[str, str] = {}

    def number(self, did: str) -> int | None:
        """The integer of a DID; None for one that never arrived."""
        return self._people.numbers.get(did) or self._numbers.get(did)

    def give(self, did: str) -> int:
        """An integer for a DID that has none."""
        number = self._numbers[did] = self._people.highest + len(self._numbers) + 1
        return number

    def newest_revs(self) -> Mapping[str, str]:
        """The highest rev that was logged of each DID's repository."""
        return ChainMap(self._newest_rev, self._people.newest_rev) if self._newest_rev else self._people.newest_rev

    def note_revisions(self, newest: Mapping[str, str]) -> None:
        """These repositories have come that far."""
        self._newest_rev |= newest

    def is_seen(self, did: str) -> bool:
        """Return whether a record by or about them has arrived."""
        return did in self._people.seen_since or did in self._seen_since

    def note_seen(self, first_seen: Mapping[str, datetime | None]) -> dict[str, datetime]:
        """Of these moments the ones that are first ones."""
        news = {
            did: seen_at
            for did, seen_at in first_seen.items()
            if seen_at is not None and did not in self._people.seen_since and did not in self._seen_since
        }
        self._seen_since |= news
        return news

    def keep(self) -> None:
        """The transaction was committed."""
        self._people.numbers |= self._numbers
        self._people.highest += len(self._numbers)
        self._people.seen_since |= self._seen_since
        self._people.newest_rev |= self._newest_rev


def new_contributor(did: str, number: int, seen_at: datetime | None) -> dict[str, object]:
    """The row of somebody of whom only the DID is known; `seen_at` is None where no record by or about them arrived."""
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
