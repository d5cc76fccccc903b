"""How a peer is treated: how many requests it gets at a time, and how long it is left alone once it asked for that."""

import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

from ingest.wire import FetchProblem, Leash

AT_A_TIME = 4  # requests to one host: at 100 ms each that is 40 a second
QUIET_SECONDS = 60.0  # a host that ran out the clock is left alone this long
LONGEST_LIMIT = 900.0  # a RateLimit-Reset beyond this is cut: the windows of data servers are five minutes
MOMENT = 1_000_000_000  # a RateLimit-Reset from here on is a unix time, as data servers send it, and no span
LONGEST_AFTER = 6 * 3600.0  # a Retry-After beyond this is cut
SLICE_SECONDS = 0.2  # longest wait for a place before looking whether the request may still wait
HOSTS = 10_000  # hosts whose silence is remembered before what is over is forgotten


class Manners:
    """Counts requests under way for each host and knows who is left alone. Safe to share between threads."""

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
        self._changed = threading.Condition()
        self._under_way: dict[str, int] = {}
        self._quiet: dict[str, float] = {}

    @contextmanager
    def place(self, host: str, leash: Leash) -> Generator[None]:
        """One of the host's places, waited for within the leash. Raises FetchProblem where the host is left alone."""
        self._take(host, leash)
        try:
            yield
        finally:
            with self._changed:
                self._under_way[host] -= 1
                if not self._under_way[host]:
                    del self._under_way[host]
                self._changed.notify_all()

    def _take(self, host: str, leash: Leash) -> None:
        with self._changed:
            self._refuse_while_quiet(host)
            while self._under_way.get(host, 0) >= self._at_a_time:
                self._changed.wait(min(leash.left(), SLICE_SECONDS))
                self._refuse_while_quiet(host)
            self._under_way[host] = self._under_way.get(host, 0) + 1

    def hush(self, host: str, seconds: float) -> None:
        """Leave a host alone for a while, so that one slow peer cannot hold every thread in turn.

        A shorter while that is asked for meanwhile ends no longer one.
        """
        now = time.monotonic()
        with self._changed:
            if len(self._quiet) > HOSTS:
                self._quiet = {name: until for name, until in self._quiet.items() if until > now}
            self._quiet[host] = max(self._quiet.get(host, 0.0), now + seconds)

    def quiet(self) -> dict[str, float]:
        """The hosts that are left alone just now, each with the seconds that remain."""
        now = time.monotonic()
        with self._changed:
            return {host: until - now for host, until in self._quiet.items() if until > now}

    def _refuse_while_quiet(self, host: str) -> None:
        rest = self._quiet.get(host, 0.0) - time.monotonic()
        if rest > 0:
            name = host.partition(":")[0]
            raise FetchProblem(f"{name} is left alone for {rest:.0f} s more", retry=True, after=rest)


def after_seconds(text: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, between 0 and 6 hours; None where it says nothing usable."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_AFTER)


def limit_seconds(remaining: str | None, reset: str | None) -> float | None:
    """Seconds until a host answers again, at most 15 minutes, where its RateLimit headers say that nothing is left.

    None where something is left, or where they say nothing usable. `reset` is a unix time or a number of seconds.
    """
    if remaining is None or remaining.strip() != "0" or reset is None or not re.fullmatch("[0-9]{1,15}", reset.strip()):
        return None
    told = float(reset)
    return min(max(told - time.time() if told >= MOMENT else told, 0.0), LONGEST_LIMIT)
