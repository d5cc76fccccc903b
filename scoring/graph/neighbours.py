"""Finds what each pull request may hear in the graph as of its opening: earlier pull requests and vouchers. Pure NumPy.

The nodes are contributors, repositories and pull requests. A contributor hears the last K pull requests of theirs that
others merged, a repository the last K that others sent there, and a contributor those who vouch for or denounce them.
Each neighbour comes with what was known of it at that moment, so messages only run forward in time.

Nobody moves themselves: an edge that the author of the target emits is not in any table. What somebody opened, merged
alone or vouched for is therefore not heard by anybody: a pull request is heard once others merged it (`Cases.merged_at`
counts nothing else), and a voucher only by the state of their own merged work, which hears no vouches. Refused pull
requests are in the tables that `settled` makes; a model that hears them may only lower a chance (`Lowered`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases, Times, Vouches

DAY, HOUR = np.timedelta64(1, "D"), np.timedelta64(1, "h")
FADE_DAYS = 180.0  # as in the faded record
LOOK_BACK = 4  # of the last LOOK_BACK * K pull requests of a repository the author's own are left out
FACTS = (
    "is_there",
    "merged",
    "reverted",
    "patched",
    "patched_fix",
    "failed_checks",
    "days_since",
    "faded",
    "hours_open",
    "same_repository",
    "by_push_holder",
)
VOUCH_FACTS = ("is_there", "is_vouch", "days_since", "faded")
Numbers = NDArray[np.int64]
Floats32 = NDArray[np.float32]


class Relation(NamedTuple):
    """The neighbours of n targets: `rows` (n, K) are places in the cases, -1 for none; `facts` (n, K, facts)."""

    rows: NDArray[np.int32]
    facts: Floats32

    def without(self) -> "Relation":
        """Return the relation in which nobody hears anybody."""
        return Relation(np.full_like(self.rows, -1), np.zeros_like(self.facts))

    def at(self, places: NDArray[np.int64]) -> "Relation":
        return Relation(self.rows[places], self.facts[places])

    def moved(self, rows: Numbers) -> "Relation":
        """Return the relation with each neighbour's row looked up in `rows`; one of -1 there is not heard."""
        found = np.where(self.rows >= 0, rows[self.rows], -1).astype(np.int32)
        return Relation(found, np.where((found >= 0)[:, :, None], self.facts, np.float32(0)))

    def first(self, count: int) -> "Relation":
        """Return the relation of the first targets; neighbours lie before their targets."""
        return Relation(self.rows[:count], self.facts[:count])


class Neighbours(NamedTuple):
    """The three relations of the cases: by the same author, by others in the repository, vouching for the author."""

    authored: Relation
    hosted: Relation
    vouched: Relation

    def without(self) -> "Neighbours":
        return Neighbours(*(relation.without() for relation in self))

    def first(self, count: int) -> "Neighbours":
        return Neighbours(*(relation.first(count) for relation in self))

    def at(self, places: NDArray[np.int64]) -> "Neighbours":
        return Neighbours(*(relation.at(places) for relation in self))

    def moved(self, rows: Numbers) -> "Neighbours":
        return Neighbours(*(relation.moved(rows) for relation in self))


def no_neighbours() -> Neighbours:
    """Return the relations of no target at all, with the widths of their facts."""
    rows = np.full((0, 1), -1, dtype=np.int32)
    heard = Relation(rows, np.zeros((0, 1, len(FACTS)), np.float32))
    return Neighbours(heard, heard, Relation(rows, np.zeros((0, 1, len(VOUCH_FACTS)), np.float32)))


def find_neighbours(
    cases: Cases, vouches: Vouches, most: int, settled: bool, targets: Numbers | None = None
) -> Neighbours:
    """Return the last `most` neighbours of each target in each relation, known before its opening.

    `targets` are places in the cases, all of them if None. Without `settled` only what others merged is heard, with it
    also what they refused.
    """
    known_at = np.fmin(cases.merged_at, cases.refused_at) if settled else cases.merged_at.copy()
    asked = np.arange(len(cases)) if targets is None else targets
    authored = _last(cases.authors, known_at, cases.opened_at, most, asked)
    hosted = _last(cases.repositories, known_at, cases.opened_at, LOOK_BACK * most, asked)
    by_others = (hosted >= 0) & (cases.authors[hosted] != cases.authors[asked, None])
    return Neighbours(
        _relation_of(cases, known_at, authored, asked),
        _relation_of(cases, known_at, _leftmost(np.where(by_others, hosted, -1), most), asked),
        _vouching(cases, vouches, most, asked),
    )


def _relation_of(cases: Cases, known_at: Times, rows: NDArray[np.int32], asked: Numbers) -> Relation:
    return Relation(rows, _facts_of(cases, known_at, rows, asked))


def _last(groups: Numbers, known_at: Times, opened_at: Times, most: int, asked: Numbers) -> NDArray[np.int32]:
    """Return the last `most` rows of each asked row's group that were known before its opening, the latest first."""
    known = np.flatnonzero(~np.isnat(known_at))
    order = known[np.lexsort((known, known_at[known], groups[known]))]
    found = np.full((len(asked), most), -1, dtype=np.int32)
    starts = np.searchsorted(groups[order], groups[asked], side="left")
    ends = _ends(groups, known_at, opened_at, order, asked)
    for place in range(most):
        at = ends - 1 - place
        there = at >= starts
        found[there, place] = order[at[there]]
    return found


def _ends(groups: Numbers, known_at: Times, opened_at: Times, order: Numbers, asked: Numbers) -> Numbers:
    """Return for each asked row the place in `order` behind the last of its group known before its opening."""
    both = np.concatenate([groups[order], groups[asked]])
    times = np.concatenate([known_at[order], opened_at[asked]])
    is_question = np.concatenate([np.zeros(len(order), bool), np.ones(len(asked), bool)])
    # At the same moment the opening comes first: a fact known only then does not count.
    ranked = np.lexsort((~is_question, times, both))
    passed = np.cumsum(~is_question[ranked])
    ends = np.empty(len(both), dtype=np.int64)
    ends[ranked] = passed
    return ends[len(order) :]


def _leftmost(rows: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return the first `most` rows that are there, in their order."""
    order = np.argsort(rows < 0, axis=1, kind="stable")[:, :most]
    return np.take_along_axis(rows, order, axis=1)


def _facts_of(cases: Cases, known_at: Times, rows: NDArray[np.int32], asked: Numbers) -> Floats32:
    """Return (n, K, FACTS): what was known of each neighbour at the opening of its target; 0 for none."""
    now, there = cases.opened_at[asked, None], rows >= 0

    def was(times: Times) -> NDArray[np.bool_]:
        return times[rows] < now

    days = np.where(there, (now - known_at[rows]) / DAY, 0.0)
    hours = np.where(there, (known_at[rows] - cases.opened_at[rows]) / HOUR, 0.0)
    columns = (
        there,
        was(cases.merged_at),
        was(cases.reverted_at),
        was(cases.patched_at),
        was(cases.patched_fix_at),
        was(cases.failed_at),
        np.log1p(np.maximum(days, 0.0)) / 4,
        0.5 ** (days / FADE_DAYS),
        np.log1p(np.maximum(hours, 0.0)) / 4,
        cases.repositories[rows] == cases.repositories[asked, None],
        cases.push_holder[rows],
    )
    facts = np.stack([np.asarray(column, np.float32) for column in columns], axis=2)
    facts[~there] = 0.0
    return facts


def _vouching(cases: Cases, vouches: Vouches, most: int, asked: Numbers) -> Relation:
    """Return the newest merged pull request of each of the last `most` people who vouch for or denounce the author."""
    rows = np.full((len(asked), most), -1, dtype=np.int32)
    facts = np.zeros((len(asked), most, len(VOUCH_FACTS)), dtype=np.float32)
    if not len(vouches.subjects):
        return Relation(rows, facts)
    merges = _merges_by_author(cases)
    by_subject = {subject: np.flatnonzero(vouches.subjects == subject) for subject in np.unique(vouches.subjects)}
    for row in np.flatnonzero(np.isin(cases.authors[asked], vouches.subjects)):
        place, author, opened = 0, cases.authors[asked[row]], cases.opened_at[asked[row]]
        for vouch in _standing(vouches, by_subject[author], opened):
            work = _newest_merge(merges, int(vouches.vouchers[vouch]), opened)
            if work < 0 or vouches.vouchers[vouch] == author:
                continue
            days = float((opened - vouches.since[vouch]) / DAY)
            rows[row, place] = work
            facts[row, place] = (1.0, vouches.is_vouch[vouch], np.log1p(days) / 4, 0.5 ** (days / FADE_DAYS))
            place += 1
            if place == most:
                break
    return Relation(rows, facts)


def _standing(vouches: Vouches, of_subject: Numbers, now: np.datetime64) -> Numbers:
    """Return the vouches for a subject that stand at a moment, the newest first."""
    stands = (vouches.since[of_subject] < now) & ~(vouches.until[of_subject] <= now)
    standing = of_subject[stands]
    return standing[np.argsort(vouches.since[standing], kind="stable")[::-1]]


def _merges_by_author(cases: Cases) -> dict[int, tuple[Times, Numbers]]:
    merged = np.flatnonzero(~np.isnat(cases.merged_at))
    merged = merged[np.argsort(cases.merged_at[merged], kind="stable")]
    return {
        int(author): (cases.merged_at[rows], rows)
        for author in np.unique(cases.authors[merged])
        for rows in [merged[cases.authors[merged] == author]]
    }


def _newest_merge(merges: dict[int, tuple[Times, Numbers]], author: int, now: np.datetime64) -> int:
    """Return the row of a person's newest pull request that others had merged before a moment; -1 without one."""
    times, rows = merges.get(author, (None, None))
    if times is None or rows is None:
        return -1
    place = int(np.searchsorted(times, now, side="left"))
    return int(rows[place - 1]) if place else -1
