"""The engine of every hop that asks the network: the tables say what is due, answers and outcomes go back together.

Asking happens outside any transaction, in a few threads; what came meanwhile is written in one. A look-up that failed
comes back after 1 minute, then twice as long each time up to 6 hours; what is absent is asked again after a day.

What is due follows from what strangers write. So every turn takes the newest and the most important by turns, of one
payer 50 at most, and no payer or domain holds more than a few of the threads (ingest/http/rate_limits.py).
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from ingest.clock import DAY, SLACK, doubled, waiting_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.rate_limits import is_look_up
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

THREADS = 8
CHUNK = 500  # subjects a transaction: the writer's mutex is held for some 50 ms
EACH = 50  # of one payer in a chunk, the newest
WRITE_SECONDS = 5.0  # answers are written so often while others are waited for
SPAN_SECONDS = 30.0  # no further look-up begins after this long, so that one hop cannot starve the others
FROM_THE_FUTURE = "select count(*) from fetches where fetched_clock > ?"
# By turns the most important, which waited longest, and the newest: a backlog starves neither.
FAIR = """
with due as ({sql}), bounded as (
  select * from due where payer is null or payer not in (select unnest($spent::varchar[]))
  qualify payer is null or row_number() over (partition by payer order by since desc nulls last, subject) <= {each}
)
select * exclude (by_rank, by_news) from (
  select *, row_number() over (order by rank, attempts, since, subject) as by_rank,
    row_number() over (order by attempts > 0, since desc nulls last, subject) as by_news
  from bounded
) order by least(2 * by_rank, 2 * by_news + 1), by_rank limit {most}
"""
ENDED = frozenset({"found", "absent"})
AWAITED = frozenset({"identity", "push_holders", "patch", "ci"})  # an end of one may be all that a decision waits for

Wall = Callable[[], datetime]
Row = Mapping[str, Any]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Found(Generic[Answer]):
    row: Row
    answer: Answer | FetchProblem


@dataclass(frozen=True)
class Due:
    """The look-ups of a kind that are due: `sql` gives these columns and may use `$wall` and the other parameters.

    `subject`; `payer`, the account or repository that is the reason for it, null where no stranger chose the host;
    `rank`, 0 for the most important; `since`, when the reason came up; `attempts`, the failures in a row; what else
    `ask` reads.
    """

    sql: str
    params: Mapping[str, object] = field(default_factory=dict)

    def rows(self, rows: Rows, wall: datetime, most: int, spent: Sequence[str] = ()) -> list[dict[str, Any]]:
        """A fair choice of so many that are due at a moment, without those of payers whose share is `spent`."""
        sql = FAIR.format(sql=self.sql, each=EACH, most=most)
        return rows.rows(sql, {"wall": wall, "spent": [*spent], **self.params})

    def count(self, rows: Rows, wall: datetime) -> int:
        return rows.value(f"select count(*) from ({self.sql})", {"wall": wall, **self.params})


@dataclass(frozen=True)
class Note:
    """The part of an answer that `fetches` keeps: when to ask again, and what is left to be doubted.

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
            chunk = kind.due.rows(rows, began, CHUNK, fetcher.shares.spent(kind.name))
            kind.fill(rows, chunk)
        before = asked
        for found in _Turn(fetcher, kind, chunk, ends).answers():
            with store.write() as txn:
                kind.write(txn, found)
                _write_outcomes(txn, kind, found, wall())
            asked += len(found)
        if asked == before:
            return asked


def forget_future(store: Store, now: datetime) -> int:
    """Make due now what a clock that ran ahead put off; how many look-ups. Else they would wait until it is so late."""
    with store.read() as rows:
        if not rows.value(FROM_THE_FUTURE, [now + SLACK]):
            return 0
    with store.write() as txn:
        sql = "update fetches set due_clock = ?, fetched_clock = ? where fetched_clock > ? returning subject"
        return len(txn.rows(sql, [now, now, now + SLACK]))


class _Turn(Generic[Answer]):
    """Rows asked about in a few threads, each payer's within its share; what is not begun by `ends` stays due."""

    def __init__(self, fetcher: Fetcher, kind: Kind[Answer], rows: Sequence[Row], ends: float) -> None:
        self._fetcher, self._kind, self._ends = fetcher, kind, ends
        self._rows = list(rows)
        self._under_way = 0
        self._found: list[Found[Answer]] = []
        self._changed = threading.Condition()

    def answers(self) -> Iterator[list[Found[Answer]]]:
        """Yield the answers so far, every few seconds until all have come; an error in the program is raised."""
        if not self._rows:
            return
        with ThreadPoolExecutor(min(THREADS, len(self._rows)), thread_name_prefix="fetch") as pool:
            working = {pool.submit(self._work) for _ in range(min(THREADS, len(self._rows)))}
            try:
                while working:
                    done, working = wait_for(working, WRITE_SECONDS)
                    if found := self._take():
                        yield found
                    for one in done:
                        one.result()
            finally:
                self._ends = 0.0  # after an error nothing more begins

    def _take(self) -> list[Found[Answer]]:
        with self._changed:
            found, self._found = self._found, []
        return found

    def _work(self) -> None:
        is_look_up.set(True)
        while (row := self._next()) is not None:
            began, found = time.monotonic(), None
            try:
                found = Found(row, self._kind.ask(row))
            except FetchProblem as problem:
                found = None if problem.closed else Found(row, problem)
            finally:
                slow = time.monotonic() - began > self._fetcher.timeout / 2
                self._fetcher.shares.end(self._kind.name, row["payer"], slow)
                with self._changed:
                    self._under_way -= 1
                    self._found += [found] if found else []
                    self._changed.notify_all()

    def _next(self) -> Row | None:
        """The first row whose payer has a place; waits while one may become free. None once no more is to begin."""
        with self._changed:
            while self._rows and not self._fetcher.closed and time.monotonic() <= self._ends:
                for place, row in enumerate(self._rows):
                    if self._fetcher.shares.begin(self._kind.name, row["payer"]):
                        self._under_way += 1
                        return self._rows.pop(place)
                if not self._under_way:
                    return None
                self._changed.wait(WRITE_SECONDS)
        return None


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
    """Return its row of `fetches`; `attempts` counts the look-ups in a row that brought nothing final."""
    answer, wait = one.answer, None
    if isinstance(answer, FetchProblem):
        attempts, reason = attempts + (not answer.busy), str(answer)
        outcome, wait = ("absent", DAY) if answer.absent else ("failed", waiting_time(max(attempts, 1), answer))
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
