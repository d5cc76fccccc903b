"""Remembers erased people by keyed hash, and finds the places where a text names a person.

The hash is enough to keep a replay from bringing them back, and holds no personal data. What was seen up to the erasure
stays out; what comes later is new, as from somebody who was never here. A listing dates records by their own keys, so
an account that is listed again brings nothing older back either.

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
# The end of a name that could go on: did:web:a.example is another DID than did:web:a.example.org.
_ENDS = r"(?![A-Za-z0-9%-]|[._:][A-Za-z0-9])"


@dataclass(frozen=True)
class Names:
    """The names of one person. `handle` only where its own domain confirmed it: a claimed one may be anybody's.

    `long_texts` are references (ingest/store/long_texts.py) of texts that name the person: such a reference does so
    too, and refers to them, since a text that is named by its hash cannot be changed and goes as a whole.
    """

    did: str
    handle: str | None = None
    long_texts: frozenset[str] = frozenset()

    def with_long_texts(self, texts: LongTexts, searched: Collection[Path] = ()) -> "Names":
        """The same, with those of a store's long texts that name the person, which takes as long as reading all.

        Files that were `searched` already are not read again: the name of a file is the hash of its text.
        """
        return replace(self, long_texts=self.long_texts.union(texts.matching(self.named_in, searched)))

    @property
    def short(self) -> str:
        """The DID as judgements show it, cut in the middle."""
        return self.did if len(self.did) <= 20 else f"{self.did[:14]}…{self.did[-4:]}"

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Texts of which at least one stands in every text that names the person, in lower case."""
        own = self.did.removeprefix(_PLC) if self.did.startswith(_PLC) else self.did.rpartition(":")[2]
        return tuple(text.lower() for text in (own, self.short, self.handle) if text)

    @cached_property
    def column_needles(self) -> tuple[str, ...]:
        """The same for columns, which may hold references of long texts."""
        return (*self.needles, PREFIX) if self.long_texts else self.needles

    @cached_property
    def _did(self) -> str:
        """The DID, also with its colons escaped as in a URL; the 24 characters of a did:plc name it alone."""
        method, _, own = self.did.removeprefix("did:").partition(":")
        colon = "(?::|%3[Aa])"
        spelled = f"did{colon}{method}{colon}"
        plc = self.did.startswith(_PLC)
        return f"(?:{spelled})?{re.escape(own)}" if plc else f"{spelled}{re.escape(own)}{_ENDS}"

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        parts = [rf"at://{self._did}(?:/[A-Za-z0-9._:~%/-]*)?", self._did]
        if self.short != self.did:
            parts.append(re.escape(self.short))
        if self.handle:
            parts.append(rf"(?<![A-Za-z0-9.-])(?i:{re.escape(self.handle)}){_ENDS}")
        return re.compile("|".join(parts))

    @cached_property
    def _reference(self) -> re.Pattern[str]:
        return re.compile(rf"(?:at://)?{re.escape(self.did)}{_ENDS}")

    @cached_property
    def _quoted_reference(self) -> re.Pattern[str]:
        return re.compile(rf'"(?:at://)?{re.escape(self.did)}{_ENDS}')

    def named_in(self, text: str) -> bool:
        return text in self.long_texts or self._anywhere.search(text) is not None

    def referred_by(self, text: str) -> bool:
        """Return whether the text is the DID, one of its records, or a look-up that begins with one of them."""
        return self._reference.match(text) is not None

    def referred_in_json(self, text: str) -> bool:
        """Return whether a text of this JSON is such a reference."""
        return text in self.long_texts or self._quoted_reference.search(text) is not None

    def struck_from(self, text: str) -> str:
        return self._anywhere.sub(ERASED, text)


CHECK = "tombstone_check"
CACHED = 200_000
# Columns that hold people's numbers (ingest/store/schema/1_log.sql).
PEOPLE = frozenset({"contributor_id", "author_id", "actor_id", "voucher_id", "subject_id", "owner_id", "dominator"})
NOBODY = 0  # whoever settled other people's pull requests and was erased since
LATEST_US = 4_102_444_800_000_000  # 2100: no frame is younger
_DIDS = re.compile(r"did:(?:plc:[a-z2-7]{24}|web:[A-Za-z0-9-]+(?:[.:%][A-Za-z0-9-]+)*)")
_TIME = re.compile(r'"time_us"\s*:\s*(\d{1,16})(?!\d)')
Row = Mapping[str, Any]


class WrongKey(Exception):
    """The key is not the one under which people are remembered; the message says what to do."""


def mark_of(key: bytes, did: str) -> str:
    """HMAC-SHA256 of the DID under a key of the drive, in hex."""
    return hmac.digest(key, did.encode(), hashlib.sha256).hex()


class Tombstones:
    """Everyone who was erased. What was dropped in this process is also known by number, for look-ups under way."""

    def __init__(self, key: bytes, marks: Mapping[str, datetime]) -> None:
        self.key = key
        self._marks = dict(marks)
        self._known: dict[str, datetime | None] = {}
        self._numbers: set[int] = set()
        self._lately: dict[str, Names] = {}

    @property
    def empty(self) -> bool:
        return not self._marks

    def erased_at(self, did: str) -> datetime | None:
        """Return when this DID was erased last; None for somebody who never was."""
        if not self._marks:
            return None
        if did not in self._known:
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[did] = self._marks.get(mark_of(self.key, did))
        return self._known[did]

    def are_named(self, text: str) -> bool:
        """Return whether a text names anybody who was ever erased."""
        return any(self.erased_at(did) is not None for did in set(_DIDS.findall(text)))

    def covers(self, did: str, seen_at: datetime) -> bool:
        """Return whether what was seen of this DID at that moment stays out."""
        erased_at = self.erased_at(did)
        return erased_at is not None and seen_at <= erased_at

    def bury(self, names: Names, number: int | None, erased_at: datetime) -> None:
        """Take note of an erasure that is being committed."""
        self._marks[mark_of(self.key, names.did)] = erased_at
        self._known.pop(names.did, None)
        self._lately[names.did] = names
        if number is not None:
            self._numbers.add(number)

    def exhume(self, names: Names, number: int | None) -> None:
        self._marks.pop(mark_of(self.key, names.did), None)
        self._known.pop(names.did, None)
        self._lately.pop(names.did, None)
        self._numbers.discard(number or 0)

    def without(self, dids: Iterable[str]) -> list[str]:
        """Those of these DIDs that were never erased: a list from outside (a knot's) dates nobody."""
        return [did for did in dids if self.erased_at(did) is None]

    def without_erased(self, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of the event log without those that stay out; other people's lose what they say of the erased."""
        if not self._marks:
            return list(events)
        kept = [row for row in events if not self._is_out(row)]
        return [row | {"body": self._struck(row["body"], row["seen_at"])} if row["body"] else row for row in kept]

    def without_erased_people(self, people: Mapping[str, datetime | None]) -> dict[str, datetime | None]:
        """The people to register, with when they were seen, without those who stay out."""
        return {did: seen for did, seen in people.items() if seen is None or not self.covers(did, seen)}

    def without_erased_letters(self, letters: Sequence[Row]) -> list[Row]:
        """Dead letters without those that refer to the erased; a frame that tells no time counts as an old one."""
        if not self._marks:
            return list(letters)
        return [row for row in letters if not self._is_about(row["body"])]

    def living(self, table: str, rows: Sequence[Row], number: Callable[[str], int | None]) -> Sequence[Row]:
        """The rows without what a look-up that began before an erasure brings of the erased; see `bury`.

        By number, which nobody else is ever given; by reference, unless the DID has come back. Events are sorted out
        by their time.
        """
        if not self._lately or table in ("events", "contributors", "tombstones"):
            return rows
        gone = [names for did, names in self._lately.items() if number(did) is None]
        return [row for row in rows if not self._is_ghost(row, gone)]

    def living_columns(self, columns: pa.Table) -> pa.Table:
        """The same for rows as columns that carry people by number alone."""
        gone = np.array(sorted(self._numbers))
        for name in PEOPLE.intersection(columns.column_names) if len(gone) else ():
            columns = columns.filter(pa.array(~np.isin(columns[name].to_numpy(), gone)))
        return columns

    def _is_ghost(self, row: Row, gone: Sequence[Names]) -> bool:
        for column, value in row.items():
            if isinstance(value, int) and column in PEOPLE and value in self._numbers:
                return True
            if isinstance(value, str) and any(names.referred_by(value) for names in gone):
                return True
        return False

    def _is_out(self, row: Row) -> bool:
        return any(self.covers(did, row["seen_at"]) for did in (row["did"], *_DIDS.findall(row["rkey"] or "")))

    def _struck(self, body: str, seen_at: datetime) -> str | None:
        """The body without mentions; None where it refers to the erased, and so is about them."""
        for did in set(_DIDS.findall(body)):
            if self.covers(did, seen_at):
                names = Names(did)
                if names.referred_in_json(body):
                    return None
                body = names.struck_from(body)
        return body

    def _is_about(self, body: str) -> bool:
        told = _TIME.search(body)
        for did in set(_DIDS.findall(body)):
            erased_at = self.erased_at(did)
            if erased_at and (not told or int(told[1]) > LATEST_US or from_microseconds(int(told[1])) <= erased_at):
                return True
        return False


def load_tombstones(rows: "Rows", key: bytes) -> Tombstones:
    """Everyone whom the store remembers; WrongKey where another key wrote it, since nobody would be recognised."""
    told = rows.value("select value from meta where key = ?", [CHECK])
    if told is not None and told != mark_of(key, CHECK):
        raise WrongKey(
            "The key keys/tombstones is not the one under which this store remembers erased accounts: "
            "restore it from a backup, else a replay would bring them back."
        )
    found = rows.rows("select mark, erased_at from tombstones")
    return Tombstones(key, {row["mark"]: row["erased_at"] for row in found})
