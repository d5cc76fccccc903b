"""Process the runs: a turn takes the oldest run as far as possible, and the worker's thread takes turn after turn.

Accounts come first. Hosts that index the whole network list the accounts with our records, collection by collection
(com.atproto.sync.listReposByCollection). A host is a stranger: it may name millions, repeat itself or fail. Each has
its own budget, so that none can crowd out another's accounts. A maintainer's run also lists people who may push to
watched repositories, people they vouch for, and authors of pull requests.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import duckdb
import msgspec

from ingest.atproto.identity import CONNECT, why_offline
from ingest.atproto.syntax import is_did
from ingest.backfill import runs
from ingest.backfill.account import Sources, Staging
from ingest.backfill.runs import Book, Run
from ingest.backfill.threads import FIRST_WAIT, Crew
from ingest.errors import FetchProblem, StoreProblem
from ingest.files import require_place
from ingest.records.derive import derive
from ingest.records.registry import ACCOUNT_CLAIM
from ingest.store.database import Store

PAGE = 1_000
HOST_ACCOUNTS = 100_000  # about ten times the accounts of Tangled
HOST_PAGES = 2_000
PAGE_BYTES = 1_000_000
TRIES, LONGEST_WAIT = 5, 60.0

Wait = Callable[[float], bool]  # waits this many seconds; returns True if it must stop


class _Repo(msgspec.Struct):
    did: str = ""


class _Repos(msgspec.Struct):
    repos: list[_Repo] | None = None
    cursor: str | None = None


@dataclass(slots=True)
class Census:
    """The accounts that were named, in order, and the failures; `answered` is True if any host gave an answer."""

    dids: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    answered: bool = False


def find_accounts(sources: Sources, wait: Wait) -> Census:
    census = Census()
    for host in sources.hosts:
        host_dids: dict[str, None] = {}
        try:
            _ask_host(sources, host, host_dids, wait)
            census.answered = True
        except FetchProblem as problem:
            if problem.closed:
                raise
            census.notes.append(f"{host} named {len(host_dids)} accounts, then: {problem}")
        census.answered = census.answered or bool(host_dids)
        census.dids |= host_dids
    return census


def _ask_host(sources: Sources, host: str, dids: dict[str, None], wait: Wait) -> None:
    """Collect every account that this host names. Raises FetchProblem if it fails for good or exceeds its budget."""
    pages = HOST_PAGES
    for collection in sources.collections:
        if collection == ACCOUNT_CLAIM:  # it would name people who have nothing to do with Tangled
            continue
        cursors, cursor = {""}, ""
        while pages:
            pages -= 1
            page = _ask_page(sources, _list_url(host, collection, cursor), wait)
            dids.update(dict.fromkeys(repo.did for repo in page.repos or () if is_did(repo.did)))
            if len(dids) > HOST_ACCOUNTS:
                for did in list(dids)[HOST_ACCOUNTS:]:
                    del dids[did]
                raise FetchProblem(f"it names more than {HOST_ACCOUNTS} accounts, and no more were taken")
            cursor = page.cursor or ""
            if cursor in cursors or len(cursor) > PAGE:
                break
            cursors.add(cursor)
    if not pages:
        raise FetchProblem(f"it sent {HOST_PAGES} pages, and no more were asked for")


def _list_url(host: str, collection: str, cursor: str) -> str:
    address = f"{host}/xrpc/com.atproto.sync.listReposByCollection?collection={collection}&limit={PAGE}"
    return f"{address}&cursor={quote(cursor, safe='')}" if cursor else address


def _ask_page(sources: Sources, address: str, wait: Wait) -> _Repos:
    """Fetch one page; repeat after a temporary failure, waiting as long as the host asks or twice as long each time."""
    for attempt in range(1, TRIES + 1):
        try:
            return sources.fetcher.get_json(address, _Repos, PAGE_BYTES)
        except FetchProblem as problem:
            seconds = max(problem.after or 0.0, 2.0**attempt)
            if problem.closed or not problem.retry or attempt == TRIES or seconds > LONGEST_WAIT or wait(seconds):
                raise
    raise AssertionError("the last try returns or raises")


HOPS = 3  # the people whom the last of these vouch for are reached too, but not asked
ACCOUNTS = 2_000  # of one run: fake accounts can fill no more; the whole run reads everybody else
# People by their distance from the judges; then people who only offered a change, the newest offer first.
NEXT = """
with recursive circle as (
  select contributor_id, 0 as hops from (
    select contributor_id from maintainers where repository_id = 0
    union select m.contributor_id from maintainers m semi join watched_repositories using (repository_id)
    union select h.contributor_id from push_holders h semi join watched_repositories using (repository_id)
      where h.held_until is null
    union select r.owner_id from repositories r semi join watched_repositories using (repository_id)
  ) where contributor_id > 0
  union
  select v.subject_id, c.hops + 1 from circle c join vouches v on v.voucher_id = c.contributor_id
  where v.kind = 'vouch' and v.superseded_at is null and c.hops < $hops
), wanted as (
  select contributor_id, hops, null::timestamp as offered_at from circle
  union all
  select p.author_id, $hops + 1, max(p.seen_at) from pull_requests p
  semi join watched_repositories using (repository_id) where p.deleted_at is null group by p.author_id
)
select c.did from wanted join contributors c using (contributor_id)
where c.did not in (select did from backfill_accounts where run_id = $run)
group by c.did order by min(hops), max(offered_at) desc, c.did limit $room
"""


def widen(store: Store, run: Run) -> int:
    """Add to the run the people found through its answers, within its bounds; return how many."""
    while derive(store):
        pass
    with store.read() as rows:
        account_count = rows.value("select count(*) from backfill_accounts where run_id = ?", [run.run_id])
        room = max(ACCOUNTS - account_count, 0)
        dids_found = [row["did"] for row in rows.rows(NEXT, {"hops": HOPS, "run": run.run_id, "room": room})]
    new_dids = store.tombstones.without(dids_found)
    runs.add_accounts(store, run, new_dids)
    return len(new_dids)


log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
FIRST_LISTEN_SECONDS = 60.0  # how long a run waits for the live socket to be open before it
LONGEST_REST_SECONDS = 300.0
NOBODY_NAMED = (
    "no host was named: only accounts whose records came before were asked, and gaps in the stream stay open; "
    "set BACKFILL_HOSTS to hosts that know which accounts keep our records"
)


class BackfillProblem(Exception):
    """The turn did not finish; the message is one sentence. Nothing is lost: the next turn continues."""


def take_turn(
    store: Store,
    sources: Sources,
    stopping: threading.Event,
    on_commit: Callable[[], None] = lambda: None,
    first_wait: float = FIRST_WAIT,
) -> Run | None:
    """Work on the next run until it is done or `stopping` is set; return None if there is none. Raises BackfillProblem.

    A maintainer's run interrupts any other, and is widened to the people found through its answers before it is done.
    `first_wait` is the wait in seconds after the first failed try of an account.
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
        _enter_accounts(store, sources, run, stopping)

    def is_over() -> bool:
        """Return True if the worker stops or another run comes first; called four times a second."""
        return stopping.is_set() or runs.is_outrun(store, run)

    while not is_over() and _list_accounts(store, sources, run, is_over, on_commit, first_wait):
        if run.reason == "setup" and widen(store, run):
            continue
        runs.end(store, run)
        on_commit()
        break
    return run


def _enter_accounts(store: Store, sources: Sources, run: Run, stopping: threading.Event) -> None:
    census = find_accounts(sources, stopping.wait)
    if stopping.is_set():
        return
    if sources.hosts and not census.answered:  # otherwise a gap would count as filled
        if offline := why_offline(sources.fetcher, sources.plc_url):
            raise BackfillProblem(f"{offline}. {CONNECT}")
        raise BackfillProblem(f"no backfill host answered ({'; '.join(census.notes)[:300]}): check BACKFILL_HOSTS")
    notes = census.notes if sources.hosts else [NOBODY_NAMED]
    runs.keep_accounts(store, run, list(census.dids), notes, bool(sources.hosts))


def _list_accounts(
    store: Store,
    sources: Sources,
    run: Run,
    is_over: Callable[[], bool],
    on_commit: Callable[[], None],
    first_wait: float,
) -> bool:
    """List the waiting accounts; return True if none is left."""
    require_place(store.path)
    staging = Staging(sources.staging_dir / "backfill" / run.run_id)
    book = Book(store, run, staging)
    try:
        with store.read() as rows:
            accounts = runs.waiting(rows, run)
        for account in Crew(sources, staging, first_wait).work(accounts, is_over):
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
    """The worker's thread for backfills: it checks every two seconds for a run to process.

    `is_listening` tells if the live socket has brought anything: a run begins after that, or after a minute.
    """

    def __init__(
        self, store: Store, sources: Sources, is_listening: Callable[[], object], on_commit: Callable[[], None]
    ) -> None:
        super().__init__(name="backfill", daemon=True)
        self._store, self._sources = store, sources
        self._is_listening, self._on_commit = is_listening, on_commit
        self._stopping = threading.Event()
        self.problem: str | None = None  # the reason why the newest turn failed, in words

    def renewed(self) -> "Backfiller":
        """Return a new thread, not started yet, in place of this one after an error in the program."""
        return Backfiller(self._store, self._sources, self._is_listening, self._on_commit)

    def stop(self) -> None:
        """End running look-ups (the fetcher stays closed), commit the listed accounts and end."""
        self.interrupt()
        if self.is_alive():
            self.join()

    def interrupt(self) -> None:
        self._stopping.set()
        self._sources.fetcher.close()

    def run(self) -> None:
        """Take turn after turn; after a failure wait longer each time, up to five minutes."""
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
