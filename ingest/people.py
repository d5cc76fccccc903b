"""The integer of each DID, given when it first arrives: held in memory, since every batch asks for thousands."""

from collections.abc import Mapping
from datetime import datetime


class People:
    """Everyone in the `contributors` table, as last committed."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.seen_since: dict[str, datetime] = {}

    def add(self, did: str, number: int, seen_at: datetime | None) -> None:
        """Take in a row of the table."""
        self.numbers[did] = number
        if seen_at is not None:
            self.seen_since[did] = seen_at


class Arrivals:
    """Who is new in one transaction; nobody else sees them before it is committed."""

    def __init__(self, people: People) -> None:
        self._people = people
        self._numbers: dict[str, int] = {}
        self._seen_since: dict[str, datetime] = {}

    def number(self, did: str) -> int | None:
        """The integer of a DID; None for one that never arrived."""
        return self._people.numbers.get(did) or self._numbers.get(did)

    def give(self, did: str) -> int:
        """An integer for a DID that has none."""
        number = self._numbers[did] = len(self._people.numbers) + len(self._numbers) + 1
        return number

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
        self._people.seen_since |= self._seen_since


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
    }
