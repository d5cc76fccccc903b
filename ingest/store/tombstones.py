"""Remember erased people by keyed hash, and find the places where a text names a person.

The hash is enough to keep a replay from bringing them back, and holds no personal data. Everything seen up to the
erasure stays out; later records are new, as if from a stranger. A listing dates records by their own keys, so listing
such an account again brings nothing older back either.

A text names a person by DID, by verified handle, or by the short form in which a DID is shown.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ingest.clock import from_microseconds
from ingest.store.long_texts import PREFIX, LongTexts

if TYPE_CHECKING:
    from ingest.store.transaction import Rows

ERASED = "(erased)"
_PLC = "did:plc:"
# The end of a name that could continue: did:web:a.example is another DID than did:web:a.example.org.
_ENDS = r"(?![A-Za-z0-9%-]|[._:][A-Za-z0-9])"


@dataclass(frozen=True)
class Names:
    """The names of one person. `handle` only if its own domain confirmed it: a claimed one may be anybody's.

    `long_texts` are references (ingest/store/long_texts.py) of texts that name the person. Such a reference counts as a
    name and as a reference to the person, since a text that is named by its hash cannot be changed and goes as a whole.
    """

    did: str
    handle: str | None = None
    long_texts: frozenset[str] = frozenset()

    def with_long_texts(self, texts: LongTexts, searched: Collection[Path] = ()) -> "Names":
        """Return these names with the store's long texts that name the person; this takes as long as reading all texts.

        Files in `searched` are not read again: the name of a file is the hash of its text.
        """
        return replace(self, long_texts=self.long_texts.union(texts.matching(self.named_in, searched)))

    @property
    def short(self) -> str:
        """Return the DID as judgements show it, cut in the middle."""
        return self.did if len(self.did) <= 20 else f"{self.did[:14]}…{self.did[-4:]}"

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Return texts in lower case; every text that names the person contains at least one of them."""
        identifier = self.did.removeprefix(_PLC) if self.did.startswith(_PLC) else self.did.rpartition(":")[2]
        return tuple(text.lower() for text in (identifier, self.short, self.handle) if text)

    @cached_property
    def column_needles(self) -> tuple[str, ...]:
        """Return the needles for columns, which may hold references of long texts."""
        return (*self.needles, PREFIX) if self.long_texts else self.needles

    @cached_property
    def _did(self) -> str:
        """Return a pattern of the DID, also with escaped colons; the 24 characters of a did:plc are enough."""
        method, _, identifier = self.did.removeprefix("did:").partition(":")
        colon = "(?::|%3[Aa])"
        prefix = f"did{colon}{method}{colon}"
        is_plc = self.did.startswith(_PLC)
        return f"(?:{prefix})?{re.escape(identifier)}" if is_plc else f"{prefix}{re.escape(identifier)}{_ENDS}"

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        patterns = [rf"at://{self._did}(?:/[A-Za-z0-9._:~%/-]*)?", self._did]
        if self.short != self.did:
            patterns.append(re.escape(self.short))
        if self.handle:
            patterns.append(rf"(?<![A-Za-z0-9.-])(?i:{re.escape(self.handle)}){_ENDS}")
        return re.compile("|".join(patterns))

    @cached_property
    def _reference(self) -> re.Pattern[str]:
        return re.compile(rf"(?:at://)?{re.escape(self.did)}{_ENDS}")

    @cached_property
    def _quoted_reference(self) -> re.Pattern[str]:
        return re.compile(rf'"(?:at://)?{re.escape(self.did)}{_ENDS}')

    def named_in(self, text: str) -> bool:
        return text in self.long_texts or self._mention.search(text) is not None

    def referred_by(self, text: str) -> bool:
        """Return True if the text is the DID, one of its records, or a look-up that begins with one of them."""
        return self._reference.match(text) is not None

    def referred_in_json(self, text: str) -> bool:
        """Return True if a text of this JSON is such a reference."""
        return text in self.long_texts or self._quoted_reference.search(text) is not None

    def struck_from(self, text: str) -> str:
        return self._mention.sub(ERASED, text)


CHECK = "tombstone_check"
CACHED = 200_000
# Columns that hold people's numbers (ingest/store/schema/1_log.sql).
PEOPLE = frozenset({"contributor_id", "author_id", "actor_id", "voucher_id", "subject_id", "owner_id", "dominator"})
NOBODY = 0  # stands for an erased person who settled other people's pull requests
LATEST_US = 4_102_444_800_000_000  # 2100: no frame is younger
_DIDS = re.compile(r"did:(?:plc:[a-z2-7]{24}|web:[A-Za-z0-9-]+(?:[.:%][A-Za-z0-9-]+)*)")
_TIME = re.compile(r'"time_us"\s*:\s*(\d{1,16})(?!\d)')
Row = Mapping[str, Any]


class WrongKey(Exception):
    """The key is not the one under which people are remembered; the message gives the remedy."""


def mark_of(key: bytes, did: str) -> str:
    """Return HMAC-SHA256 of the DID under a key of the drive, in hex."""
    return hmac.digest(key, did.encode(), hashlib.sha256).hex()


class Tombstones:
    """Everyone who was erased; people erased in this process also by number, for running look-ups."""

    def __init__(self, key: bytes, marks: Mapping[str, datetime]) -> None:
        self.key = key
        self._marks = dict(marks)
        self._known: dict[str, datetime | None] = {}
        self._numbers: set[int] = set()
        self._recent: dict[str, Names] = {}

    @property
    def empty(self) -> bool:
        return not self._marks

    def erased_at(self, did: str) -> datetime | None:
        """Return when this DID was last erased, or None if it never was."""
        if not self._marks:
            return None
        if did not in self._known:
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[did] = self._marks.get(mark_of(self.key, did))
        return self._known[did]

    def are_named(self, text: str) -> bool:
        """Return True if a text names anybody who was ever erased."""
        return any(self.erased_at(did) is not None for did in set(_DIDS.findall(text)))

    def covers(self, did: str, seen_at: datetime) -> bool:
        """Return True if records of this DID from that time stay out."""
        erased_at = self.erased_at(did)
        return erased_at is not None and seen_at <= erased_at

    def bury(self, names: Names, number: int | None, erased_at: datetime) -> None:
        """Note an erasure that is being committed."""
        self._marks[mark_of(self.key, names.did)] = erased_at
        self._known.pop(names.did, None)
        self._recent[names.did] = names
        if number is not None:
            self._numbers.add(number)

    def exhume(self, names: Names, number: int | None) -> None:
        self._marks.pop(mark_of(self.key, names.did), None)
        self._known.pop(names.did, None)
        self._recent.pop(names.did, None)
        self._numbers.discard(number or 0)

    def without(self, dids: Iterable[str]) -> list[str]:
        """Return the DIDs that were never erased: a list from outside (a knot's) has no dates."""
        return [did for did in dids if self.erased_at(did) is None]

    def without_erased(self, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return event rows without those that stay out, and without mentions of the erased in other rows."""
        if not self._marks:
            return list(events)
        remaining = [row for row in events if not self._stays_out(row)]
        return [
            row | {"body": self._strike_mentions(row["body"], row["seen_at"])} if row["body"] else row
            for row in remaining
        ]

    def without_erased_people(self, people: Mapping[str, datetime | None]) -> dict[str, datetime | None]:
        """Return the people to register, with the times when they were seen, without those who stay out."""
        return {did: seen_at for did, seen_at in people.items() if seen_at is None or not self.covers(did, seen_at)}

    def without_erased_letters(self, letters: Sequence[Row]) -> list[Row]:
        """Return dead letters without those that refer to the erased; a frame without a time counts as an old one."""
        if not self._marks:
            return list(letters)
        return [row for row in letters if not self._refers_to_erased(row["body"])]

    def living(self, table: str, rows: Sequence[Row], number: Callable[[str], int | None]) -> Sequence[Row]:
        """Drop rows about the erased that a look-up brings which began before the erasure; see `bury`.

        Compared by number, which is never given twice, and by reference, unless the DID has come back. Events are
        sorted out by their time.
        """
        if not self._recent or table in ("events", "contributors", "tombstones"):
            return rows
        erased = [names for did, names in self._recent.items() if number(did) is None]
        return [row for row in rows if not self._is_about_erased(row, erased)]

    def living_columns(self, columns: pa.Table) -> pa.Table:
        """Drop such rows from columns that hold people only by number."""
        erased_numbers = np.array(sorted(self._numbers))
        for name in PEOPLE.intersection(columns.column_names) if len(erased_numbers) else ():
            columns = columns.filter(pa.array(~np.isin(columns[name].to_numpy(), erased_numbers)))
        return columns

    def _is_about_erased(self, row: Row, erased: Sequence[Names]) -> bool:
        for column, value in row.items():
            if isinstance(value, int) and column in PEOPLE and value in self._numbers:
                return True
            if isinstance(value, str) and any(names.referred_by(value) for names in erased):
                return True
        return False

    def _stays_out(self, row: Row) -> bool:
        return any(self.covers(did, row["seen_at"]) for did in (row["did"], *_DIDS.findall(row["rkey"] or "")))

    def _strike_mentions(self, body: str, seen_at: datetime) -> str | None:
        """Return the body without mentions, or None if it refers to the erased and so is about them."""
        for did in set(_DIDS.findall(body)):
            if self.covers(did, seen_at):
                names = Names(did)
                if names.referred_in_json(body):
                    return None
                body = names.struck_from(body)
        return body

    def _refers_to_erased(self, body: str) -> bool:
        time_match = _TIME.search(body)
        for did in set(_DIDS.findall(body)):
            erased_at = self.erased_at(did)
            if erased_at and (
                not time_match or int(time_match[1]) > LATEST_US or from_microseconds(int(time_match[1])) <= erased_at
            ):
                return True
        return False


def load_tombstones(rows: "Rows", key: bytes) -> Tombstones:
    """Load everyone whom the store remembers. Raises WrongKey for another key, which would recognise nobody."""
    check = rows.value("select value from meta where key = ?", [CHECK])
    if check is not None and check != mark_of(key, CHECK):
        raise WrongKey(
            "The key keys/tombstones is not the one under which this store remembers erased accounts: "
            "restore it from a backup, else a replay would bring them back."
        )
    rows_found = rows.rows("select mark, erased_at from tombstones")
    return Tombstones(key, {row["mark"]: row["erased_at"] for row in rows_found})
