"""Limits towards a peer: requests at a time, its pace, the rest that it asked for, and each payer's share of look-ups.

Strangers' records decide which hosts are asked. A payer is the account behind a look-up: the author of a pull request,
or the voucher of the person who is looked up. One payer's slow hosts hold 2 of 8 threads at most, and after 10 slow
look-ups of a kind the payer's other look-ups of that kind wait for the rest of the hour.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime

from ingest.errors import FetchProblem
from ingest.http.sockets import Leash

AT_A_TIME = 4  # requests to one host: at 100 ms each that is 40 a second
QUIET_SECONDS = 60.0  # a host that timed out gets no requests for this long
LONGEST_LIMIT = 900.0  # a longer RateLimit-Reset is cut: the windows of data servers are five minutes
MOMENT = 1_000_000_000  # a larger RateLimit-Reset is a unix time, as data servers send it, and not a span
LONGEST_AFTER = 6 * 3600.0  # a longer Retry-After is cut
SLICE_SECONDS = 0.2  # longest wait for a place before checking if the request may still wait
HOSTS = 10_000  # quiet hosts that are stored before expired ones are dropped
# A stranger's record decides where a look-up goes, and one domain may have any number of hosts. A domain that never
# answered or timed out within the hour gets few requests at a time: others wait briefly, then they are put off.
UNKNOWN_AT_A_TIME, SLOW_AT_A_TIME = 2, 1
PLACE_SECONDS = 1.0
STALLS_AN_HOUR, HOUR_SECONDS = 6, 3_600.0  # after so many stalls, and more than answers, a domain gets no requests
ANSWERS_A_STALL = 20  # with this many answers for each stall a domain is busy and not slow
REMEMBERED = 200  # requests to a domain
# Seconds between the beginnings of two requests to a host that asks for it: https://crates.io/data-access.
PACES: dict[str, float] = {"crates.io": 1.0}
# Second-level labels under which a country's registry sells names, besides those of two letters.
_SECOND = frozenset(("com", "edu", "gob", "gov", "ltd", "mil", "net", "nom", "org", "plc"))
is_look_up: ContextVar[bool] = ContextVar("is_look_up", default=False)  # True in threads that run look-ups


def registrable_domain(host: str) -> str:
    """Return the registered part of a host's name, by a simple rule: two labels, three below `co.uk` and similar.

    Sites that give names to everybody count as one domain: only their users wait for each other.
    """
    labels = host.partition(":")[0].lower().rstrip(".").split(".")
    is_second = len(labels) > 2 and len(labels[-1]) == 2 and (labels[-2] in _SECOND or len(labels[-2]) == 2)
    return ".".join(labels[-3 if is_second else -2 :])


class _Domain:
    """The requests to one registrable domain: how many are running, and how the newest ended."""

    def __init__(self) -> None:
        self.under_way = 0
        self._ends: deque[tuple[float, bool]] = deque(maxlen=REMEMBERED)

    def note(self, stalled: bool) -> None:
        self._ends.append((time.monotonic(), stalled))

    def has_place(self) -> bool:
        stalls, answers = self._count_ends()
        if not stalls:
            return bool(answers) or self.under_way < UNKNOWN_AT_A_TIME
        if self.is_slow():
            return self.under_way < SLOW_AT_A_TIME and (stalls < STALLS_AN_HOUR or stalls <= answers)
        return True

    def is_slow(self) -> bool:
        """Return True if more than a few of its requests timed out within the hour."""
        stalls, answers = self._count_ends()
        return stalls * ANSWERS_A_STALL > answers

    @property
    def is_over(self) -> bool:
        return not self.under_way and not sum(self._count_ends())

    def _count_ends(self) -> tuple[int, int]:
        since = time.monotonic() - HOUR_SECONDS
        ends = [stalled for at, stalled in self._ends if at > since]
        return sum(ends), len(ends) - sum(ends)


class Manners:
    """Count running requests for each host, and know the hosts that get no requests. Safe to share between threads."""

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
        self._changed = threading.Condition()
        self._under_way: dict[str, int] = {}
        self._quiet: dict[str, float] = {}
        self._next_begin: dict[str, float] = {}  # of the hosts in PACES
        self._domains: dict[str, _Domain] = {}

    @contextmanager
    def place(self, host: str, leash: Leash) -> Generator[None]:
        """Hold one of the host's places, waiting within the leash. Raises FetchProblem while the host rests."""
        self._take_place(host, leash)
        answered = False
        try:
            yield
            answered = True
        except FetchProblem as problem:
            answered = problem.status is not None
            raise
        finally:
            with self._changed:
                self._under_way[host] -= 1
                if not self._under_way[host]:
                    del self._under_way[host]
                domain = self._domain(host)
                domain.under_way -= 1
                if answered:
                    domain.note(stalled=False)
                self._changed.notify_all()

    def _take_place(self, host: str, leash: Leash) -> None:
        with self._changed:
            self._refuse_while_quiet(host)
            if is_look_up.get():
                self._take_domain(host, leash)
            while (wait := self._wait_seconds(host)) > 0:
                self._changed.wait(min(wait, leash.left(), SLICE_SECONDS))
                self._refuse_while_quiet(host)
            if host in PACES:
                self._next_begin[host] = time.monotonic() + PACES[host]
            self._under_way[host] = self._under_way.get(host, 0) + 1
            self._domain(host).under_way += 1

    def _wait_seconds(self, host: str) -> float:
        """Return the seconds until a host may be asked, as far as they are known; 0 if it may be asked now."""
        if self._under_way.get(host, 0) >= self._at_a_time:
            return SLICE_SECONDS
        return self._next_begin.get(host, 0.0) - time.monotonic()

    def _take_domain(self, host: str, leash: Leash) -> None:
        """Wait briefly for a place of the domain. Raises FetchProblem if there is none, or if it stalls too often."""
        domain, deadline = self._domain(host), time.monotonic() + PLACE_SECONDS
        while not domain.has_place():
            seconds_left = deadline - time.monotonic()
            if domain.is_slow() or seconds_left <= 0:
                name = registrable_domain(host)
                raise FetchProblem(f"{name} is slow, and others ask it", retry=True, after=QUIET_SECONDS, busy=True)
            self._changed.wait(min(seconds_left, leash.left(), SLICE_SECONDS))

    def _domain(self, host: str) -> _Domain:
        name = registrable_domain(host)
        if len(self._domains) > HOSTS and name not in self._domains:
            self._domains = {domain_name: domain for domain_name, domain in self._domains.items() if not domain.is_over}
        return self._domains.setdefault(name, _Domain())

    def note_stall(self, host: str) -> None:
        """Send no requests for a while to a host that timed out, nor to its domain if that happens often."""
        self.hush(host, QUIET_SECONDS)
        with self._changed:
            self._domain(host).note(stalled=True)

    def hush(self, host: str, seconds: float) -> None:
        """Send a host no requests for a while, so that it cannot hold every thread in turn; the longest time counts."""
        now = time.monotonic()
        with self._changed:
            if len(self._quiet) > HOSTS:
                self._quiet = {name: until for name, until in self._quiet.items() if until > now}
            self._quiet[host] = max(self._quiet.get(host, 0.0), now + seconds)

    def quiet(self) -> dict[str, float]:
        now = time.monotonic()
        with self._changed:
            return {host: until - now for host, until in self._quiet.items() if until > now}

    def _refuse_while_quiet(self, host: str) -> None:
        seconds_left = self._quiet.get(host, 0.0) - time.monotonic()
        if seconds_left > 0:
            name = host.partition(":")[0]
            raise FetchProblem(f"{name} is left alone for {seconds_left:.0f} s more", retry=True, after=seconds_left)


def after_seconds(text: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, between 0 and 6 hours, or None if it is unusable."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_AFTER)


def limit_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a host answers again, at most 15 minutes, if its RateLimit is used up.

    None if something is left or the headers are unusable. The reset is a unix time or a number of seconds. GitHub
    writes X- before both names.
    """
    for prefix in ("", "X-"):
        remaining, reset = (headers.get(f"{prefix}RateLimit-{name}", "").strip() for name in ("Remaining", "Reset"))
        if remaining == "0" and re.fullmatch("[0-9]{1,15}", reset):
            value = float(reset)
            return min(max(value - time.time() if value >= MOMENT else value, 0.0), LONGEST_LIMIT)
    return None


LOOK_UPS_AT_A_TIME = 2
SLOW_AN_HOUR, ASKED_AN_HOUR = 10, 600
PAYERS = 10_000  # stored before those without a look-up within an hour are dropped


class _Share:
    """The look-ups of one payer: how many are running, when the newest began, and when slow ones ended."""

    def __init__(self) -> None:
        self.under_way = 0
        self.asked: deque[float] = deque(maxlen=ASKED_AN_HOUR)
        self.slow: deque[float] = deque(maxlen=SLOW_AN_HOUR)

    def is_spent(self, since: float) -> bool:
        return any(len(times) == times.maxlen and times[0] > since for times in (self.asked, self.slow))

    def is_over(self, since: float) -> bool:
        return not self.under_way and all(not times or times[-1] <= since for times in (self.asked, self.slow))


class Shares:
    """Count look-ups by kind and payer; no payer (None) has no limit. Thread-safe; `clock` never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shares: dict[tuple[str, str], _Share] = {}

    def begin(self, kind: str, payer: str | None) -> bool:
        """Take one of the payer's places; return False if none is free or the hour's share is used up."""
        if payer is None:
            return True
        with self._lock:
            share = self._shares.setdefault((kind, payer), _Share())
            if share.under_way >= LOOK_UPS_AT_A_TIME or share.is_spent(self._clock() - HOUR_SECONDS):
                return False
            share.under_way += 1
            share.asked.append(self._clock())
            return True

    def end(self, kind: str, payer: str | None, slow: bool) -> None:
        """Give the place back; `slow` means that the look-up held its thread for long."""
        if payer is None:
            return
        with self._lock:
            share = self._shares[kind, payer]
            share.under_way -= 1
            if slow:
                share.slow.append(self._clock())

    def spent(self, kind: str) -> list[str]:
        with self._lock:
            since = self._clock() - HOUR_SECONDS
            if len(self._shares) > PAYERS:
                self._shares = {key: share for key, share in self._shares.items() if not share.is_over(since)}
            return [
                payer
                for (share_kind, payer), share in self._shares.items()
                if share_kind == kind and share.is_spent(since)
            ]
