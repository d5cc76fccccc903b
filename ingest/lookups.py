"""The engine of every hop that asks the network: the tables say what is due, answers and outcomes go back together.

Asking happens outside any transaction, in a few threads; what a chunk brought is written in one. A look-up that failed
comes back after 1 minute, then twice as long each time up to 6 hours; what is absent is asked again after a day.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from ingest.net import Fetcher, FetchProblem
from ingest.store import Store
from ingest.transaction import Rows, Transaction

THREADS = 8
CHUNK = 500  # subjects a transaction: the writer's mutex is held for some 50 ms
SPAN_SECONDS = 30.0  # no further look-up begins after this long, so that one hop cannot starve the others
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=6)
DAY = timedelta(days=1)
AHEAD = timedelta(minutes=1)  # a row that was written later than this from now was dated by a clock that ran ahead
FROM_THE_FUTURE = "select count(*) from fetches where fetched_clock > ?"
ENDED = frozenset({"found", "absent"})
AWAITED = frozenset({"identity", "push_holders", "patch", "ci"})  # an end of one may be all that a decision waits for

Wall = Callable[[], datetime]
Row = Mapping[str, Any]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Found(Generic[Answer]):
    """One subject that was asked about: the row that was due and what came of it."""

    row: Row
    answer: Answer | FetchProblem


@dataclass(frozen=True)
class Due:
    """Which look-ups of a kind are due: `sql` gives a column `subject` and may use `$wall` and the other parameters."""

    sql: str
    params: Mapping[str, object] = field(default_factory=dict)

    def rows(self, rows: Rows, wall: datetime, most: int) -> list[dict[str, Any]]:
        """The first so many that are due at a moment."""
        return rows.rows(f"{self.sql} limit {most}", {"wall": wall, **self.params})

    def count(self, rows: Rows, wall: datetime) -> int:
        """How many are due at a moment."""
        return rows.value(f"select count(*) from ({self.sql})", {"wall": wall, **self.params})


@dataclass(frozen=True)
class Note:
    """What `fetches` keeps of an answer: when to ask again, and what is left to be doubted.

    `unfinished`: the subject is still changing, so it is asked again as after a failure, each time later.
    """

    again: timedelta | None = None
    doubt: str | None = None
    unfinished: bool = False


@dataclass(frozen=True)
class Kind(Generic[Answer]):
    """One kind of look-up: which rows are due, how one is asked, how the answers are written and remembered."""

    name: str
    due: Due
    ask: Callable[[Row], Answer]
    write: Callable[[Transaction, Sequence[Found[Answer]]], None]
    note: Callable[[Answer], Note] = lambda _: Note()
    fill: Callable[[Rows, list[dict[str, Any]]], None] = lambda _, __: None  # adds to the rows that are next in line


def fetch(store: Store, fetcher: Fetcher, wall: Wall, kind: Kind[Any]) -> int:
    """Ask about what was due when this began, chunk by chunk, until done or the span is over; returns how many."""
    began, ends, asked = wall(), time.monotonic() + SPAN_SECONDS, 0
    while True:
        with store.read() as rows:
            chunk = kind.due.rows(rows, began, CHUNK)
            kind.fill(rows, chunk)
        found = _ask_all(fetcher, chunk, kind.ask, ends)
        if not found:
            return asked
        with store.write() as txn:
            kind.write(txn, found)
            _write_outcomes(txn, kind, found, wall())
        asked += len(found)


def forget_future(store: Store, now: datetime) -> int:
    """Make due now what a clock that ran ahead put off; how many look-ups. Else they would wait until it is so late."""
    with store.read() as rows:
        if not rows.value(FROM_THE_FUTURE, [now + AHEAD]):
            return 0
    with store.write() as txn:
        sql = "update fetches set due_clock = ?, fetched_clock = ? where fetched_clock > ? returning subject"
        return len(txn.rows(sql, [now, now, now + AHEAD]))


def _ask_all(fetcher: Fetcher, chunk: Sequence[Row], ask: Callable[[Row], Answer], ends: float) -> list[Found[Answer]]:
    """Ask in a few threads; what was not begun before `ends` or was cut by close() is left out and stays due."""

    def one(row: Row) -> Found[Answer] | None:
        if fetcher.closed or time.monotonic() > ends:
            return None
        try:
            return Found(row, ask(row))
        except FetchProblem as problem:
            return None if problem.closed else Found(row, problem)

    if not chunk:
        return []
    with ThreadPoolExecutor(min(THREADS, len(chunk)), thread_name_prefix="fetch") as pool:
        return [found for found in pool.map(one, chunk) if found is not None]


def _write_outcomes(txn: Transaction, kind: Kind[Any], found: Sequence[Found[Any]], now: datetime) -> None:
    subjects = [one.row["subject"] for one in found]
    known = txn.rows(
        "select subject, outcome, attempts from fetches where kind = ? and subject in (select unnest(?))",
        [kind.name, subjects],
    )
    attempts = {row["subject"]: row["attempts"] for row in known}
    rows = [_outcome(kind, one, attempts.get(one.row["subject"], 0), now) for one in found]
    ended = {row["subject"] for row in known if row["outcome"] in ENDED}
    if kind.name in AWAITED and any(row["outcome"] in ENDED and row["subject"] not in ended for row in rows):
        txn.inputs_changed()
    txn.upsert("fetches", [{"kind": kind.name, "fetched_clock": now, **row} for row in rows])


def _outcome(kind: Kind[Any], one: Found[Any], attempts: int, now: datetime) -> dict[str, object]:
    """What `fetches` says about one subject; `attempts` counts the look-ups in a row that brought nothing final."""
    answer, wait = one.answer, None
    if isinstance(answer, FetchProblem):
        attempts, reason = attempts + 1, str(answer)
        outcome, wait = ("absent", DAY) if answer.absent else ("failed", waiting_time(attempts, answer))
    else:
        note = kind.note(answer)
        attempts = attempts + 1 if note.unfinished else 0
        outcome, reason, wait = "found", note.doubt, doubled(attempts) if note.unfinished else note.again
    return {
        "subject": one.row["subject"],
        "outcome": outcome,
        "reason": reason,
        "attempts": attempts,
        "due_clock": now + wait if wait else None,
    }


def doubled(attempts: int) -> timedelta:
    """1 minute after the first of so many look-ups in a row, twice as long after each, 6 hours at most."""
    return min(FIRST_WAIT * 2 ** min(attempts - 1, 20), LONGEST_WAIT)


def waiting_time(attempts: int, problem: FetchProblem) -> timedelta:
    """How long to leave a subject alone after so many failures in a row: 1 minute doubled, 6 hours at most."""
    if not problem.retry:
        return LONGEST_WAIT
    return max(doubled(attempts), timedelta(seconds=problem.after or 0))
