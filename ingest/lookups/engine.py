"""Run every look-up on the network: the tables list what is due; answers and outcomes are written together.

Requests run outside any transaction, in a few threads; the answers of some seconds are written in one transaction. A
failed look-up comes back after 1 minute, then twice as long each time up to 6 hours; an absent subject is asked about
again after a day.

Strangers' records decide what is due. So every turn takes the most important and the newest alternately, at most 50 of
one payer, and no payer or domain holds more than a few of the threads (ingest/http/rate_limits.py).
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
WRITE_SECONDS = 5.0  # between two writes while other answers are awaited
SPAN_SECONDS = 30.0  # no further look-up begins after this long, so that one kind cannot starve the others
FROM_THE_FUTURE = "select count(*) from fetches where fetched_clock > ?"
# Alternately the most important, longest waiting first, and the newest: a backlog starves neither.
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
AWAITED = frozenset({"identity", "push_holders", "patch", "ci"})  # a decision may wait for the end of one of these

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

    `subject`; `payer`, the account or repository that is the reason for it, null if no stranger chose the host; `rank`,
    0 for the most important; `since`, when the reason came up; `attempts`, the failures in a row; and any column that
    `ask` reads.
    """

    sql: str
    params: Mapping[str, object] = field(default_factory=dict)

    def rows(self, rows: Rows, wall: datetime, most: int, spent: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return a fair choice of at most `most` due rows, without payers whose share is `spent`."""
        sql = FAIR.format(sql=self.sql, each=EACH, most=most)
        return rows.rows(sql, {"wall": wall, "spent": [*spent], **self.params})

    def count(self, rows: Rows, wall: datetime) -> int:
        return rows.value(f"select count(*) from ({self.sql})", {"wall": wall, **self.params})


@dataclass(frozen=True)
class Note:
    """The part of an answer that `fetches` stores: when to ask again, and a remaining doubt.

    `unfinished`: the subject is still changing, so it is asked about again as after a failure, each time later.
    """

    again: timedelta | None = None
    doubt: str | None = None
    unfinished: bool = False


@dataclass(frozen=True)
class Kind(Generic[Answer]):
    """One kind of look-up: the rows that are due, how to ask about one, how to write and remember the answers."""

    name: str
    due: Due
    ask: Callable[[Row], Answer]
    write: Callable[[Transaction, Sequence[Found[Answer]]], None]
    note: Callable[[Answer], Note] = lambda _: Note()
    fill: Callable[[Rows, list[dict[str, Any]]], None] = lambda _, __: None  # adds columns to the chosen rows


def fetch(store: Store, fetcher: Fetcher, wall: Wall, kind: Kind[Any]) -> int:
    """Ask about everything that was due at the start, chunk by chunk, until done or out of time; return how many."""
    now, deadline, asked_count = wall(), time.monotonic() + SPAN_SECONDS, 0
    while True:
        with store.read() as reader:
            chunk = kind.due.rows(reader, now, CHUNK, fetcher.shares.spent(kind.name))
            kind.fill(reader, chunk)
        asked_before = asked_count
        for results in _Turn(fetcher, kind, chunk, deadline).answers():
            with store.write() as txn:
                kind.write(txn, results)
                _write_outcomes(txn, kind, results, wall())
            asked_count += len(results)
        if asked_count == asked_before:
            return asked_count


def forget_future(store: Store, now: datetime) -> int:
    """Make look-ups due now that a clock ahead of time put off until much later; return how many."""
    with store.read() as rows:
        if not rows.value(FROM_THE_FUTURE, [now + SLACK]):
            return 0
    with store.write() as txn:
        sql = "update fetches set due_clock = ?, fetched_clock = ? where fetched_clock > ? returning subject"
        return len(txn.rows(sql, [now, now, now + SLACK]))


class _Turn(Generic[Answer]):
    """Rows asked about in a few threads, each payer within its share; rows not begun by `ends` stay due."""

    def __init__(self, fetcher: Fetcher, kind: Kind[Answer], rows: Sequence[Row], ends: float) -> None:
        self._fetcher, self._kind, self._ends = fetcher, kind, ends
        self._rows = list(rows)
        self._under_way = 0
        self._results: list[Found[Answer]] = []
        self._changed = threading.Condition()

    def answers(self) -> Iterator[list[Found[Answer]]]:
        """Yield the answers so far, every few seconds until all have come; raise an error in the program."""
        if not self._rows:
            return
        with ThreadPoolExecutor(min(THREADS, len(self._rows)), thread_name_prefix="fetch") as pool:
            working = {pool.submit(self._work_off) for _ in range(min(THREADS, len(self._rows)))}
            try:
                while working:
                    finished, working = wait_for(working, WRITE_SECONDS)
                    if results := self._take_results():
                        yield results
                    for future in finished:
                        future.result()
            finally:
                self._ends = 0.0  # after an error no further look-up begins

    def _take_results(self) -> list[Found[Answer]]:
        with self._changed:
            results, self._results = self._results, []
        return results

    def _work_off(self) -> None:
        is_look_up.set(True)
        while (row := self._next_row()) is not None:
            began, result = time.monotonic(), None
            try:
                result = Found(row, self._kind.ask(row))
            except FetchProblem as problem:
                result = None if problem.closed else Found(row, problem)
            finally:
                slow = time.monotonic() - began > self._fetcher.timeout / 2
                self._fetcher.shares.end(self._kind.name, row["payer"], slow)
                with self._changed:
                    self._under_way -= 1
                    self._results += [result] if result else []
                    self._changed.notify_all()

    def _next_row(self) -> Row | None:
        """Return the first row whose payer has a free place, waiting for one if needed; None ends the turn."""
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


def _write_outcomes(txn: Transaction, kind: Kind[Any], results: Sequence[Found[Any]], now: datetime) -> None:
    subjects = [result.row["subject"] for result in results]
    stored = txn.rows(
        "select subject, outcome, attempts from fetches where kind = ? and subject in (select unnest(?))",
        [kind.name, subjects],
    )
    attempts = {row["subject"]: row["attempts"] for row in stored}
    rows = [_fetch_row(kind, result, attempts.get(result.row["subject"], 0), now) for result in results]
    ended_before = {row["subject"] for row in stored if row["outcome"] in ENDED}
    if kind.name in AWAITED and any(row["outcome"] in ENDED and row["subject"] not in ended_before for row in rows):
        txn.inputs_changed()
    txn.upsert("fetches", [{"kind": kind.name, "fetched_clock": now, **row} for row in rows])


def _fetch_row(kind: Kind[Any], result: Found[Any], attempts: int, now: datetime) -> dict[str, object]:
    """Return the row of `fetches` for one result; `attempts` counts the look-ups in a row without a final answer."""
    answer, wait = result.answer, None
    if isinstance(answer, FetchProblem):
        attempts, reason = attempts + (not answer.busy), str(answer)
        outcome, wait = ("absent", DAY) if answer.absent else ("failed", waiting_time(max(attempts, 1), answer))
    else:
        note = kind.note(answer)
        attempts = attempts + 1 if note.unfinished else 0
        outcome, reason, wait = "found", note.doubt, doubled(attempts) if note.unfinished else note.again
    return {
        "subject": result.row["subject"],
        "outcome": outcome,
        "reason": reason,
        "attempts": attempts,
        "due_clock": now + wait if wait else None,
    }
