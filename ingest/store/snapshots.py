"""Published copies of the store: the worker makes them, all other processes read them.

A snapshot is a file `serve-<n>.duckdb`, and `CURRENT` names the newest. Each gets a new number, since DuckDB caches
open databases by path: reopening one name after a rename would silently serve the old data.

A snapshot never changes, so results computed from the newest one are cached until the next. The slowest results are
computed before anybody waits for them: the first request that meets a new snapshot wakes a thread, and the next click
finds the result. Without any request from a browser nothing is computed.
"""

import atexit
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

import duckdb

from ingest.errors import StoreProblem, plain
from ingest.files import SPARE_BYTES, require_place, sync
from ingest.store.database import Store
from ingest.store.transaction import Rows, quoted

log = logging.getLogger(__name__)

KEEP = 3
EVERY_SECONDS = 2.0
# An event is judged within a second or two and then published at once; published before, its row would wait for the
# next turn. So the publisher waits for following work as long as that turn costs, up to this.
PATIENCE_SECONDS = 5.0
SHARE_OF_TIME = 0.2
LOOK_SECONDS = 0.5


class PublishProblem(Exception):
    """No snapshot was made; the message gives the reason and the remedy. The snapshot before it stays in service."""


def publish(store: Store, folder: Path) -> int:
    """Make the next snapshot and point CURRENT at it; return its number.

    The copy is made by a child: opening and closing the file inside this process would drop DuckDB's lock on it.
    """
    return _publish(store, folder)[0]


def _publish(store: Store, folder: Path) -> tuple[int, float]:
    """Return the number of the next snapshot, and the seconds it took without the wait for a pass or a writer."""
    with store.publishing:
        try:
            return _make_snapshot(store, folder)
        except OSError as problem:
            raise PublishProblem(
                f"no snapshot could be made in {folder} ({plain(problem)}): make it writable"
            ) from problem
        except StoreProblem as problem:
            raise PublishProblem(str(problem)) from problem


def _make_snapshot(store: Store, folder: Path) -> tuple[int, float]:
    require_place(store.path)
    folder.mkdir(parents=True, exist_ok=True)
    size = store.path.stat().st_size
    if shutil.disk_usage(folder).free < size + SPARE_BYTES:
        raise PublishProblem(f"{folder} has no room for a snapshot of {size // 1_000_000} MB: free some space")
    with store.whole:
        took = store.checkpoint()
    began = time.monotonic()
    number = max([current_number(folder), *_numbers(folder).values()]) + 1
    partial = folder / f"serve-{number}.partial"
    _copy_file(store.path, partial)
    partial.rename(folder / f"serve-{number}.duckdb")
    _point_current(folder, number)
    _drop_old(folder, number)
    return number, took + time.monotonic() - began


def current_number(folder: Path) -> int:
    """Return the number of the newest snapshot; 0 if nothing was published or CURRENT cannot be read."""
    try:
        return int((folder / "CURRENT").read_text())
    except (OSError, ValueError):
        return 0


def snapshot_files(folder: Path) -> list[Path]:
    """Return the finished snapshots in the folder, newest first."""
    finished = [(number, path) for path, number in _numbers(folder).items() if path.suffix == ".duckdb"]
    return [path for _, path in sorted(finished, reverse=True)]


def _numbers(folder: Path) -> dict[Path, int]:
    """Return the snapshots in the folder, finished or not, with their numbers."""
    return {path: number for path in folder.glob("serve-*") if (number := _number_of(path))}


def _number_of(path: Path) -> int:
    """Return the number in the name of a snapshot, or 0 for another file."""
    number = path.name.removeprefix("serve-").split(".")[0]
    return int(number) if number.isdecimal() else 0


def _copy_file(source: Path, partial: Path) -> None:
    command = ["cp", "--reflink=auto", "--no-target-directory", "--", str(source), str(partial)]
    copied = subprocess.run(command, capture_output=True, text=True, check=False)
    if copied.returncode != 0:
        if not partial.is_dir():
            partial.unlink(missing_ok=True)
        raise PublishProblem(f"the snapshot could not be copied: {copied.stderr.strip()[:300]}")
    sync(partial)


def _point_current(folder: Path, number: int) -> None:
    partial = folder / "CURRENT.partial"
    partial.write_text(str(number))
    sync(partial)
    try:
        partial.rename(folder / "CURRENT")
    except IsADirectoryError as problem:
        raise PublishProblem(f"{folder / 'CURRENT'} is a folder: remove it, and publishing goes on") from problem
    sync(folder)


def _drop_old(folder: Path, newest: int) -> None:
    """Remove all but the last three; a reader of an older one still has its open file."""
    for path, number in _numbers(folder).items():
        if number <= newest - KEEP or path.suffix == ".partial":
            path.unlink(missing_ok=True)


def drop_but_newest(folder: Path) -> None:
    """Remove every snapshot before the newest: they hold people who were erased since."""
    numbers = _numbers(folder)
    newest = current_number(folder) or max(numbers.values(), default=0)
    for path, number in numbers.items():
        if number != newest:
            path.unlink(missing_ok=True)
    sync(folder)


class Publisher(threading.Thread):
    """Publish when something changed: at most every 2 s and for at most a fifth of the time."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        on_problem: Callable[[str], None],
        is_busy: Callable[[], bool] = lambda: False,
        on_published: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """Set up the thread. While `is_busy` returns True, publishing waits a little for more changes.

        `on_published` gets the seconds that each snapshot took, without the wait for a pass or a writer.
        """
        super().__init__(name="publisher", daemon=True)
        self._is_busy = is_busy
        self._on_published = on_published
        self._store = store
        self._folder = folder
        self._on_problem = on_problem
        self._dirty = threading.Event()
        self._stopping = threading.Event()
        self._publishing = threading.Lock()

    def mark(self) -> None:
        self._dirty.set()

    def run(self) -> None:
        """Wait for a change and for the work that follows from it, publish, rest."""
        pause = EVERY_SECONDS
        while not self._stopping.is_set():
            if self._dirty.wait(0.2):
                self._wait_for_what_follows(min(pause, PATIENCE_SECONDS))
                pause = max(EVERY_SECONDS, self.publish_now() * (1 / SHARE_OF_TIME - 1))
                self._stopping.wait(pause)

    def _wait_for_what_follows(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._is_busy() and time.monotonic() < deadline and not self._stopping.wait(0.02):
            pass

    def publish_now(self) -> float:
        """Publish at once; return the seconds of work that took. A problem is reported and leaves the change marked."""
        began = time.monotonic()
        with self._publishing:
            self._dirty.clear()
            try:
                seconds = _publish(self._store, self._folder)[1]
            except PublishProblem as problem:
                self._dirty.set()
                self._on_problem(str(problem))
                return time.monotonic() - began
            self._on_published(seconds)
            return seconds

    def stop(self) -> None:
        self._stopping.set()
        if self.ident is not None:
            self.join()
        if self._dirty.is_set():
            self.publish_now()


def is_damage(error: BaseException) -> bool:
    """Return True if an error of DuckDB's means that the file is damaged or can no longer be read."""
    return isinstance(error, duckdb.IOException) or (isinstance(error, duckdb.Error) and "Corrupt" in str(error))


class Snapshot(Rows):
    def __init__(self, begin: Callable[[], duckdb.DuckDBPyConnection], number: int, published_at: datetime) -> None:
        self._begin = begin  # opens a cursor, at the first statement: many requests need none
        self.number = number
        self.published_at = published_at

    @cached_property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._begin()

    def let_go(self) -> list[duckdb.DuckDBPyConnection]:
        """Return its cursor, if it has one, for other users: this snapshot is not read after this."""
        self._begin = _refuse
        return [self.__dict__.pop("cursor")] if "cursor" in self.__dict__ else []


def _refuse() -> duckdb.DuckDBPyConnection:
    raise RuntimeError("This snapshot was let go of: read it only while it is pinned.")


class SnapshotReader:
    """Serve the newest readable snapshot to many threads; an old one is closed when no request holds it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database = duckdb.connect(
            ":memory:", config={"autoinstall_known_extensions": False, "autoload_known_extensions": False, "threads": 1}
        )
        self._lock = threading.Lock()
        self._pins: dict[int, int] = {}
        self._idle: dict[int, list[duckdb.DuckDBPyConnection]] = {}  # opening one costs as much as looking up a person
        self._published: dict[int, datetime] = {}
        self._newest = 0  # the one that is served
        self._unreadable: set[int] = set()  # already reported
        self._damaged: set[int] = set()  # opened, and found damaged by a reader
        self._looked = float("-inf")

    @contextmanager
    def pin(self) -> Generator[Snapshot | None]:
        """Yield the newest snapshot, held until the block ends, or None if nothing was published yet."""
        with self._lock:
            self._attach_newest()
            number = self._newest
            if number:
                self._pins[number] += 1
        if not number:
            yield None
            return
        pinned = Snapshot(lambda: self._lend_cursor(number), number, self._published[number])
        try:
            yield pinned
        finally:
            self._return_cursors(number, pinned.let_go())

    def _lend_cursor(self, number: int) -> duckdb.DuckDBPyConnection:
        """Return a cursor that reads this snapshot, which must be pinned."""
        with self._lock:
            if idle := self._idle[number]:
                return idle.pop()
        cursor = self._database.cursor()
        cursor.execute(f"use s{number}")
        return cursor

    def _attach_newest(self) -> None:
        """Attach a newer snapshot if there is one; checked at most twice a second."""
        if time.monotonic() - self._looked < LOOK_SECONDS and self._newest:
            return
        self._looked = time.monotonic()
        number = current_number(self._folder)
        if self._newest and number in (0, self._newest):
            return
        # Three snapshots may have been published since CURRENT was read: then the next check finds the newest.
        for candidate in [number, *(self._other_snapshots(number) if not self._newest else ())]:
            if candidate and candidate not in self._damaged and self._attach(candidate):
                previous, self._newest = self._newest, candidate
                self._detach_if_free(previous)
                return

    def _other_snapshots(self, number: int) -> list[int]:
        """Return the other finished snapshots, newest first: one of them serves if `number` cannot be read."""
        try:
            return [
                other_number for path in snapshot_files(self._folder) if (other_number := _number_of(path)) != number
            ]
        except OSError:
            return []

    def _attach(self, number: int) -> bool:
        """Open a snapshot for reading, and return True if that worked; report a damaged one once."""
        if number in self._pins:  # it is still open
            return True
        path = self._folder / f"serve-{number}.duckdb"
        try:
            published = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(tzinfo=None)
            self._database.execute(f"attach {quoted(path)} as s{number} (read_only)")
        except (OSError, duckdb.Error) as problem:
            if number not in self._unreadable:
                self._unreadable.add(number)
                log.warning("snapshot %s cannot be read, so the newest that can be read serves: %s", number, problem)
            return False
        self._published[number] = published
        self._pins[number], self._idle[number] = 0, []
        return True

    @property
    def is_unreadable(self) -> bool:
        """Return True if something was published and none of it can be read."""
        if self._newest:
            return False
        try:
            return bool(snapshot_files(self._folder)) or (
                os.path.lexists(self._folder / "CURRENT") and not current_number(self._folder)
            )
        except OSError:
            return True

    def leave(self, number: int) -> None:
        """Serve another snapshot from now on, because a reader found this one damaged."""
        with self._lock:
            self._damaged.add(number)
            if number == self._newest:
                log.error("snapshot %s is damaged, so one before it serves until the next is published", number)
                self._newest = 0
                self._attach_newest()
                self._detach_if_free(number)

    def _return_cursors(self, number: int, given_back: Sequence[duckdb.DuckDBPyConnection]) -> None:
        with self._lock:
            self._pins[number] -= 1
            self._idle[number] += given_back
            self._detach_if_free(number)

    def _detach_if_free(self, number: int) -> None:
        if number and number != self._newest and self._pins.get(number) == 0:
            for cursor in self._idle.pop(number):
                cursor.close()
            self._database.execute(f"detach s{number}")
            del self._pins[number], self._published[number]

    def close(self) -> None:
        """Close every snapshot, once nobody checks for a newer one or returns one."""
        with self._lock:
            for cursor in chain(*self._idle.values()):
                cursor.close()
            self._database.close()


ENDING_SECONDS = 5.0

_running: list["Preparer"] = []  # of this process: one where it serves pages, none elsewhere


class Preparer(threading.Thread):
    """Compute results for each snapshot that it is told of; if several wait, only for the newest."""

    def __init__(self, reader: SnapshotReader, prepare: Callable[[Snapshot], None]) -> None:
        super().__init__(name="preparer", daemon=True)
        self._reader, self._prepare = reader, prepare
        self._news, self._stopping = threading.Event(), threading.Event()
        self._seen: object = None

    def tell(self, snapshot: Snapshot) -> None:
        """Note the snapshot that a request reads; costs nothing if it is known."""
        identity = (snapshot.number, snapshot.published_at)
        if identity != self._seen:
            self._seen = identity
            self._news.set()

    def run(self) -> None:
        """Wait for a new snapshot, prepare it, wait for the next."""
        while self._news.wait() and not self._stopping.is_set():
            self._news.clear()
            self.prepare_newest()

    def prepare_newest(self) -> None:
        """Prepare the newest snapshot; leave unreadable results to the requests that need them."""
        with self._reader.pin() as snapshot:
            if snapshot is None:
                return
            try:
                self._prepare(snapshot)
            except (duckdb.Error, OSError) as problem:
                log.warning("snapshot %s was not prepared: %s", snapshot.number, problem)

    def stop(self) -> None:
        self._stopping.set()
        self._news.set()
        self.join(ENDING_SECONDS)


def start(preparer: Preparer) -> None:
    """Run this preparer as long as the process runs; it ends before its reader is closed."""
    _running[:] = [preparer]
    atexit.register(preparer.stop)
    preparer.start()


def told_of(snapshot: Snapshot | None) -> None:
    """Report the snapshot that a request reads to the preparer of this process."""
    if snapshot is not None:
        for preparer in _running:
            preparer.tell(snapshot)


MOST = 64  # values: a queue of 100 rows takes half a megabyte
Value = TypeVar("Value")


class PerSnapshot(Generic[Value]):
    """Values by key, dropped with a newer snapshot or beyond `most` keys; two threads may compute a value at once."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._cached: tuple[object, dict[Hashable, Value]] = (None, {})

    def get(self, snapshot: Snapshot, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value under `key`, computed if it is missing."""
        values = self._with_room(snapshot, key)
        if key not in values:
            values[key] = make()
        return values[key]

    def keep(self, snapshot: Snapshot, key: Hashable, value: Value) -> None:
        self._with_room(snapshot, key)[key] = value

    def _with_room(self, snapshot: Snapshot, key: Hashable) -> dict[Hashable, Value]:
        identity = (snapshot.number, snapshot.published_at)
        cached_for, values = self._cached
        if cached_for != identity or (len(values) >= self._most and key not in values):
            values = {}
            self._cached = (identity, values)
        return values

    def peek(self, snapshot: Snapshot, key: Hashable) -> Value | None:
        cached_for, values = self._cached
        return values.get(key) if cached_for == (snapshot.number, snapshot.published_at) else None

    def holds(self, key: Hashable) -> bool:
        """Say whether there is a value under `key`, of the newest snapshot or of one before."""
        return key in self._cached[1]
