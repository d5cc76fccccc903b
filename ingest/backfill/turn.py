"""Working off the runs: one turn takes the oldest run as far as it gets; the worker's thread takes turn after turn."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import duckdb

from ingest.backfill import runs
from ingest.backfill.account import Sources, Staging
from ingest.backfill.commit import Book
from ingest.backfill.discover import find_accounts, widen
from ingest.backfill.runs import Run
from ingest.backfill.threads import FIRST_WAIT, Crew, Ending
from ingest.errors import FetchProblem, StoreProblem
from ingest.files import require_place
from ingest.store.database import Store

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
FIRST_LISTEN_SECONDS = 60.0  # how long a run waits for the live socket to be open before it
LONGEST_REST_SECONDS = 300.0
NOBODY_NAMED = (
    "no host was named: only accounts whose records came before were asked, and gaps in the stream stay open; "
    "set BACKFILL_HOSTS to hosts that know which accounts keep our records"
)


class BackfillProblem(Exception):
    """A turn that did not get to its end; the message is one sentence. Nothing is lost: the next turn goes on."""


def take_turn(
    store: Store,
    sources: Sources,
    stopping: threading.Event,
    on_commit: Callable[[], None] = lambda: None,
    first_wait: float = FIRST_WAIT,
) -> Run | None:
    """Work on the next run until it is done or `stopping` is set; None where there is none. Raises BackfillProblem.

    A run that a maintainer set off interrupts any other, and widens to whom its answers lead to before it is done.
    `first_wait` is how many seconds a first failed try of an account waits.
    """
    try:
        return _take_turn(store, sources, stopping, on_commit, first_wait)
    except (OSError, duckdb.Error, StoreProblem) as problem:
        raise BackfillProblem(
            f"what was listed cannot be kept ({str(problem)[:200]}): free space on the drive of DATA_ROOT"
        ) from problem
    except FetchProblem as problem:
        raise BackfillProblem(str(problem)) from problem


def _take_turn(
    store: Store, sources: Sources, stopping: threading.Event, on_commit: Callable[[], None], first_wait: float
) -> Run | None:
    run = runs.next_run(store, bool(sources.hosts))
    if run is None:
        return None
    if run.collections:
        sources = replace(sources, collections=run.collections)
    if run.state == "finding":
        run = runs.look_anew(store, run)
        _find(store, sources, run, stopping)
    ending = _Ending(store, run, stopping)
    while not ending.is_set() and _list(store, sources, run, ending, on_commit, first_wait):
        if run.reason == "setup" and widen(store, run):
            continue
        runs.end(store, run)
        on_commit()
        break
    return run


@dataclass(frozen=True, slots=True)
class _Ending:
    """The signal to leave this run: the worker stops, or another comes first. Asked four times a second."""

    store: Store
    run: Run
    stopping: threading.Event

    def is_set(self) -> bool:
        """Return whether it is time."""
        return self.stopping.is_set() or runs.is_outrun(self.store, self.run)


def _find(store: Store, sources: Sources, run: Run, stopping: threading.Event) -> None:
    census = find_accounts(sources, stopping.wait)
    if stopping.is_set():
        return
    if sources.hosts and not census.answered:  # else a gap would pass for filled
        raise BackfillProblem(f"no backfill host answered ({'; '.join(census.notes)[:300]}): check BACKFILL_HOSTS")
    notes = census.notes if sources.hosts else [NOBODY_NAMED]
    runs.keep_accounts(store, run, list(census.dids), notes, bool(sources.hosts))


def _list(
    store: Store,
    sources: Sources,
    run: Run,
    ending: Ending,
    on_commit: Callable[[], None],
    first_wait: float,
) -> bool:
    """List the accounts that wait; whether none is left."""
    require_place(store.path)
    staging = Staging(sources.staging_dir / "backfill" / run.run_id)
    book = Book(store, run, staging)
    try:
        with store.read() as rows:
            accounts = runs.waiting(rows, run)
        for account in Crew(sources, staging, first_wait).work(accounts, ending):
            if account is not None:
                book.take(account)
            if book.is_due and book.flush():
                on_commit()
        if book.flush():
            on_commit()
    finally:
        staging.close()
    with store.read() as rows:
        return not runs.waiting(rows, run)


class Backfiller(threading.Thread):
    """The worker's thread for it: looks every two seconds whether a run is to be worked off.

    `is_listening` says whether the live socket has brought anything: a run begins after that, or after a minute.
    """

    def __init__(
        self, store: Store, sources: Sources, is_listening: Callable[[], object], on_commit: Callable[[], None]
    ) -> None:
        super().__init__(name="backfill", daemon=True)
        self._store, self._sources = store, sources
        self._is_listening, self._on_commit = is_listening, on_commit
        self._stopping = threading.Event()
        self.problem: str | None = None  # why the newest turn did not get on, in words

    def renewed(self) -> "Backfiller":
        """One that goes on in place of this, not started yet, where this ended by an error in the program."""
        return Backfiller(self._store, self._sources, self._is_listening, self._on_commit)

    def stop(self) -> None:
        """End the look-ups under way (the fetcher stays closed), commit what is in hand and end."""
        self.interrupt()
        if self.is_alive():
            self.join()

    def interrupt(self) -> None:
        """As `stop`, but returns at once."""
        self._stopping.set()
        self._sources.fetcher.close()

    def run(self) -> None:
        """Turn after turn; one that fails waits longer each time, up to five minutes."""
        self._wait_for_stream()
        failures = 0
        while not self._stopping.wait(min(LOOK_SECONDS * 4.0 ** min(failures, 10), LONGEST_REST_SECONDS)):
            try:
                take_turn(self._store, self._sources, self._stopping, self._on_commit)
                failures, self.problem = 0, None
            except BackfillProblem as problem:
                failures += 1
                self.problem = str(problem)
                if not self._sources.fetcher.closed:
                    log.warning("the backfill goes on later: %s", self.problem)

    def _wait_for_stream(self) -> None:
        for _ in range(int(FIRST_LISTEN_SECONDS / LOOK_SECONDS)):
            if self._is_listening() or self._stopping.wait(LOOK_SECONDS):
                return
