"""List accounts in threads, a few at a time and fewer at one host, and respect hosts that ask for rest."""

import heapq
import queue
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from random import SystemRandom
from urllib.parse import urlsplit

from ingest.backfill.account import Account, Sources, Staging
from ingest.errors import FetchProblem

THREADS, AT_A_HOST = 16, 4
OPEN = 20_000  # accounts that wait for their host, at 1 kB each
TRIES = 5  # in a row for one account
WAITS = 20  # times in a row that a host may make one account wait
HOST_TRIES = 20  # failures in a row after which a host is not asked again in this turn
FIRST_WAIT, LONGEST_WAIT = 4.0, 300.0  # a failed try waits 4, 16, 64 and 256 s: some 6 minutes in all
TICK = 0.25
_DICE = SystemRandom()  # other code may seed the generator of the process


@dataclass(slots=True)
class _Host:
    ready: deque[Account] = field(default_factory=deque)
    active: int = 0
    until: float = 0.0
    failures: int = 0


class Crew:
    """One turn's work on accounts: at most 4 requests at a time to a host, 16 to all; each failed try waits longer."""

    def __init__(self, sources: Sources, staging: Staging, first_wait: float = FIRST_WAIT) -> None:
        self._sources, self._staging, self._first_wait = sources, staging, first_wait
        self._directory = urlsplit(sources.plc_url).netloc
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._parked: list[tuple[float, int, Account]] = []
        self._done: queue.SimpleQueue[tuple[Account, _Host, Future[None]]] = queue.SimpleQueue()
        self._numbers = count()
        self._open = self._active = 0

    def work(self, accounts: Iterable[Account], is_over: Callable[[], bool]) -> Iterator[Account | None]:
        """List the accounts; yield each whenever its row changed, and None at least every quarter of a second.

        Ends when all are listed or given up, or soon after `is_over` returns True or the fetcher closed. Raises OSError
        if the staging folder cannot be written.
        """
        remaining = iter(accounts)
        with ThreadPoolExecutor(THREADS, thread_name_prefix="backfill") as pool:
            while not is_over() and not self._sources.fetcher.closed:
                self._fill_queues(remaining)
                if not self._open:
                    return
                self._start(pool)
                yield from self._collect()
                yield None

    def _fill_queues(self, remaining: Iterator[Account]) -> None:
        now = time.monotonic()
        while self._parked and self._parked[0][0] <= now:
            self._queue(heapq.heappop(self._parked)[2])
        while self._open < OPEN and (account := next(remaining, None)):
            self._open += 1
            wait = (account.due_at - self._sources.clock.now()).total_seconds() if account.due_at else 0.0
            self._park(account, wait) if wait > 0 else self._queue(account)

    def _queue(self, account: Account) -> None:
        self._hosts.setdefault(account.host(self._sources.plc_url), _Host()).ready.append(account)

    def _park(self, account: Account, seconds: float) -> None:
        heapq.heappush(self._parked, (time.monotonic() + seconds, next(self._numbers), account))

    def _start(self, pool: ThreadPoolExecutor) -> None:
        """Begin as many accounts as threads and hosts have room for, the hosts in turn."""
        now = time.monotonic()
        for name, host in list(self._hosts.items()):
            while host.ready and host.active < AT_A_HOST and host.until <= now and self._active < THREADS:
                self._begin(pool, host, host.ready.popleft())
            if not host.ready and not host.active and not host.failures:
                del self._hosts[name]
            elif host.active:
                self._hosts.move_to_end(name)
            if self._active >= THREADS:
                return

    def _begin(self, pool: ThreadPoolExecutor, host: _Host, account: Account) -> None:
        host.active += 1
        self._active += 1
        started = pool.submit(account.advance, self._sources, self._staging)
        started.add_done_callback(lambda ended: self._done.put((account, host, ended)))

    def _collect(self) -> Iterator[Account]:
        """Yield the accounts that have ended; wait a tick for the first."""
        block = True
        while True:
            try:
                account, host, finished = self._done.get(block, self._wait_seconds())
            except queue.Empty:
                return
            block = False
            host.active -= 1
            self._active -= 1
            yield from self._handle_end(account, host, finished)

    def _wait_seconds(self) -> float:
        """Return the seconds to wait for an account to end: at most until the next wait is over."""
        first = self._parked[0][0] - time.monotonic() if self._parked else TICK
        return min(max(first, 0.001), TICK)

    def _handle_end(self, account: Account, host: _Host, finished: Future[None]) -> Iterator[Account]:
        try:
            finished.result()
        except FetchProblem as problem:
            if problem.closed:
                return
            self._handle_failure(account, host, problem)
        else:
            host.failures, account.attempts, account.waits = 0, 0, 0
            if account.state == "waiting":
                self._queue(account)
                return
        if account.state != "waiting":
            self._open -= 1
        yield account
        if host.failures >= HOST_TRIES:
            yield from self._abandon(host, account.problem or "")

    def _handle_failure(self, account: Account, host: _Host, problem: FetchProblem) -> None:
        """Decide what a problem means for the account and for the others at the host."""
        if not problem.retry:
            reason = str(problem).replace(account.did, "the account")
            account.end("absent" if problem.absent else "failed", reason)
            return
        if problem.after is not None:
            host.until = max(host.until, time.monotonic() + problem.after)
        if problem.status is None and problem.after is not None:  # the host rests, and no request was sent
            self._queue(account)
            return
        account.problem = str(problem)
        host.failures += 1
        wait = self._backoff(host.failures if self._is_directory(account) else self._count_try(account, problem))
        if account.attempts >= TRIES or account.waits >= WAITS:
            account.end("failed", f"{problem}, at {TRIES} tries")
            return
        wait = max(wait, problem.after or 0.0)
        if self._is_directory(account):
            host.until = max(host.until, time.monotonic() + wait)
        account.due_at = self._sources.clock.now() + timedelta(seconds=wait)
        self._park(account, wait)

    def _count_try(self, account: Account, problem: FetchProblem) -> int:
        """Count a failed try, or another request to wait; return how many there were in a row."""
        if account.progress > account.seen_progress:
            account.seen_progress, account.attempts, account.waits = account.progress, 0, 0
        if problem.status == 429:
            account.waits += 1
            return account.waits
        account.attempts += 1
        return account.attempts

    def _is_directory(self, account: Account) -> bool:
        """Return True if the account waits for the directory, which all others need too: it is never given up."""
        return account.identity is None and account.host(self._sources.plc_url) == self._directory

    def _backoff(self, failures: int) -> float:
        wait = min(self._first_wait * 4.0 ** min(failures - 1, 10), LONGEST_WAIT)
        return wait * _DICE.uniform(0.75, 1.25)

    def _abandon(self, host: _Host, reason: str) -> Iterator[Account]:
        """Give up all accounts that wait for a host that has failed too often in a row."""
        if host is self._hosts.get(self._directory):
            return
        while host.ready:
            account = host.ready.popleft()
            account.end("failed", f"not asked, since others at the same host were not answered: {reason}"[:300])
            self._open -= 1
            yield account
