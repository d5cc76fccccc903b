"""Finds people whose evidence may have changed since the last whole pass: only they are looked at again.

Held in memory beside the store. A process that begins, other rules and a pass that failed have everybody looked at; so
has a change that touches more people than are worth telling apart. What is told here is told once it is committed, so
nobody is missed: at worst somebody is looked at in vain.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from ingest.store.transaction import Keys, Rows
from scoring.types import Pair

MOST = 5_000  # beyond that many pairs the statement over everybody costs less than one that names them
NAMES = "select contributor_id, hash(did, handle_verified, handle) as shown from contributors"
NAMED = "select contributor_id, repository_id from trust where list_has_any(path, $people::integer[])"
Numbers = NDArray[np.uint64]


class StandingPeople:
    """The people whom the last pass left judged as they were, and those of whom it cannot be said. Not for two threads.

    `touched` is None where that is everybody.
    """

    def __init__(self) -> None:
        self.touched: set[Pair] | None = None
        self._basis = ""
        self._shown = np.zeros(0, dtype=np.uint64)
        self._read = self._shown

    def touch(self, changed: Keys) -> None:
        """Take note of rows that changed: `contributor_id` and `repository_id` of each."""
        people, repositories = changed["contributor_id"], changed["repository_id"]
        if self.touched is not None and len(people) + len(self.touched) <= MOST:
            self.touched.update(zip(people.tolist(), repositories.tolist(), strict=True))
        else:
            self.touched = None

    def look(self, rows: Rows, basis: str) -> Collection[Pair] | None:
        """Return whom to look at when judging on this basis.

        None: everybody. A new name touches every path that it is on.
        """
        self._read = _names(rows)
        if basis != self._basis:
            self._basis, self.touched = basis, None
        if self.touched is None:
            return None
        renamed = _differing(self._shown, self._read)
        if len(renamed):
            self.touch(rows.columns(NAMED, {"people": renamed.tolist()}))
        return self.touched

    def settle(self) -> None:
        """All whom `look` named are judged as they are now."""
        self._shown, self.touched = self._read, set()

    def forget(self) -> None:
        """Look at everybody next time: what was judged last was not kept."""
        self.touched = None


def _names(rows: Rows) -> Numbers:
    """Return how people are shown, by contributor_id: a hash each, 0 for a number that nobody has."""
    found = rows.columns(NAMES)
    shown = np.zeros(int(found["contributor_id"].max(initial=0)) + 1, dtype=np.uint64)
    shown[found["contributor_id"]] = found["shown"]
    return shown


def _differing(old: Numbers, new: Numbers) -> NDArray[np.intp]:
    """The numbers of people of whom two readings say different things."""
    size = max(len(old), len(new))
    before, after = (np.pad(part, (0, size - len(part))) for part in (old, new))
    return np.flatnonzero(before != after)
