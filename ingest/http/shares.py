"""Shares of the look-ups: how many run at a time, and within an hour, for each account that is the reason for some.

Whom to ask follows from what strangers write, and so do the hosts that answer. A payer is the account behind a look-up:
the author of a pull request, or the voucher of who is looked up. One payer's slow hosts hold 2 of 8 threads at most,
and after 10 slow look-ups of a kind the payer's others of that kind wait for the rest of the hour.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

AT_A_TIME = 2
SLOW_AN_HOUR, ASKED_AN_HOUR = 10, 600
HOUR_SECONDS = 3_600.0
PAYERS = 10_000  # that are remembered before those of whom nothing was asked for an hour are forgotten


class _Share:
    """The look-ups of one payer: how many are under way, when the newest began, and when slow ones ended."""

    def __init__(self) -> None:
        self.under_way = 0
        self.asked: deque[float] = deque(maxlen=ASKED_AN_HOUR)
        self.slow: deque[float] = deque(maxlen=SLOW_AN_HOUR)

    def is_spent(self, since: float) -> bool:
        """Return whether no more may be asked, as of an hour that began at `since`."""
        return any(len(times) == times.maxlen and times[0] > since for times in (self.asked, self.slow))

    def is_over(self, since: float) -> bool:
        """Return whether nothing of it falls into that hour."""
        return not self.under_way and all(not times or times[-1] <= since for times in (self.asked, self.slow))


class Shares:
    """Counts look-ups by kind and payer; None pays without end. Safe between threads; `clock` never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shares: dict[tuple[str, str], _Share] = {}

    def begin(self, kind: str, payer: str | None) -> bool:
        """Take one of the payer's places; False where none is free or the hour's share is used up."""
        if payer is None:
            return True
        with self._lock:
            share = self._shares.setdefault((kind, payer), _Share())
            if share.under_way >= AT_A_TIME or share.is_spent(self._clock() - HOUR_SECONDS):
                return False
            share.under_way += 1
            share.asked.append(self._clock())
            return True

    def end(self, kind: str, payer: str | None, slow: bool) -> None:
        """Give the place back; `slow` says that the look-up held its thread for long."""
        if payer is None:
            return
        with self._lock:
            share = self._shares[kind, payer]
            share.under_way -= 1
            if slow:
                share.slow.append(self._clock())

    def spent(self, kind: str) -> list[str]:
        """The payers whose share of this hour is used up."""
        with self._lock:
            since = self._clock() - HOUR_SECONDS
            if len(self._shares) > PAYERS:
                self._shares = {key: share for key, share in self._shares.items() if not share.is_over(since)}
            return [payer for (of, payer), share in self._shares.items() if of == kind and share.is_spent(since)]
