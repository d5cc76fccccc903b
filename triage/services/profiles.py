"""Tell the worker that somebody views a person, so that it reads what they declare elsewhere.

No page waits for this: a separate thread puts it on the queue, and surplus requests are dropped.
"""

import logging
import queue
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from django.conf import settings

from ingest.tasks import look_at_person
from ingest.worker.runtime import huey

log = logging.getLogger(__name__)

EVERY_SECONDS = 3_600.0  # for one person; the worker itself asks once in seven days
REMEMBERED = 10_000  # people
IN_LINE = 100
ON_THE_QUEUE = 1_000  # without a worker nothing is taken off the queue


def _tell_worker(did: str) -> None:
    if huey.pending_count() < ON_THE_QUEUE:
        look_at_person(did)


class Looks:
    """Reports each DID at most once an hour, from a thread that starts with the first one. Thread-safe."""

    def __init__(
        self, tell: Callable[[str], object] = _tell_worker, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell, self._clock = tell, clock
        self._told: OrderedDict[str, float] = OrderedDict()
        self._line: queue.Queue[str] = queue.Queue(IN_LINE)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def note(self, did: str) -> None:
        """Note that somebody views this person.

        Return at once and raise nothing; a recorded stream makes no requests.
        """
        if settings.STREAM_CLOCK:
            return
        with self._lock:
            if not self._is_due(did) or self._line.full():
                return
            self._told[did] = self._clock()
            self._line.put_nowait(did)  # the only place that puts, and the line has room
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
                self._thread.start()

    def _is_due(self, did: str) -> bool:
        """Return whether this person was not reported within the hour.

        Forget people whose hour is over, and the oldest beyond REMEMBERED.
        """
        now = self._clock()
        while self._told:
            oldest, told = next(iter(self._told.items()))
            if now - told < EVERY_SECONDS and len(self._told) < REMEMBERED:
                break
            del self._told[oldest]
        return did not in self._told

    def _run(self) -> None:
        while True:
            did = self._line.get()
            try:
                self._tell(did)
            except (sqlite3.Error, OSError) as problem:
                log.warning("the worker could not be told which profiles are open: %s", problem)
            finally:
                self._line.task_done()


looks = Looks()
