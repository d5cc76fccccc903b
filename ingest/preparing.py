"""What pages show of a new snapshot, computed before somebody waits for it.

An open page asks every few seconds whether anything is new. The first request that meets a new snapshot wakes a thread,
which computes what takes longest; whoever clicks next finds it. Without any request from a browser nothing is computed.
"""

import atexit
import logging
import threading
from collections.abc import Callable

import duckdb

from ingest.snapshot import Snapshot, SnapshotReader

ENDING_SECONDS = 5.0
log = logging.getLogger(__name__)
_running: list["Preparer"] = []  # of this process: one where it serves pages, none elsewhere


class Preparer(threading.Thread):
    """Computes what is asked of each snapshot that it is told of; of several that wait, for the newest alone."""

    def __init__(self, reader: SnapshotReader, prepare: Callable[[Snapshot], None]) -> None:
        super().__init__(name="preparer", daemon=True)
        self._reader, self._prepare = reader, prepare
        self._news, self._stopping = threading.Event(), threading.Event()
        self._seen: object = None

    def tell(self, snapshot: Snapshot) -> None:
        """Say which snapshot a request reads; costs nothing where that is known."""
        whose = (snapshot.number, snapshot.published_at)
        if whose != self._seen:
            self._seen = whose
            self._news.set()

    def run(self) -> None:
        """Wait for a new snapshot, prepare it, wait for the next."""
        while self._news.wait() and not self._stopping.is_set():
            self._news.clear()
            self.prepare_newest()

    def prepare_newest(self) -> None:
        """Prepare the newest snapshot; what cannot be read is left to whoever asks for it, who is told."""
        with self._reader.pin() as snapshot:
            if snapshot is None:
                return
            try:
                self._prepare(snapshot)
            except (duckdb.Error, OSError) as problem:
                log.warning("snapshot %s was not prepared: %s", snapshot.number, problem)

    def stop(self) -> None:
        """End, after what is being computed."""
        self._stopping.set()
        self._news.set()
        self.join(ENDING_SECONDS)


def start(preparer: Preparer) -> None:
    """Run this one for as long as the process runs; it ends before the reader that it reads from is closed."""
    _running[:] = [preparer]
    atexit.register(preparer.stop)
    preparer.start()


def told_of(snapshot: Snapshot | None) -> None:
    """Say which snapshot a request reads, to the one that runs in this process."""
    if snapshot is not None:
        for preparer in _running:
            preparer.tell(snapshot)
