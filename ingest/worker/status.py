"""The worker's heartbeat: one small file with its state, for readers that cannot ask the store.

The file is JSON padded to a fixed size and rewritten in place, so that a full disk, which it reports, does not stop it
(on file systems that write in place: ext4, xfs, tmpfs). A checksum inside detects a read during a write.

It also reports the backlog of each step of the work, read from the tables in one short read.
"""

import fcntl
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import msgspec

from ingest.erasure import erase
from ingest.errors import StoreProblem
from ingest.git.mirror import due_mirrors
from ingest.lookups.attestations import DUE as DUE_ATTESTATIONS
from ingest.lookups.declared.people import DUE as DUE_DECLARED
from ingest.lookups.declared.people import DUE_FOOTPRINTS
from ingest.lookups.engine import Due, Wall
from ingest.lookups.people import DUE_IDENTITIES, DUE_PROFILES, DUE_PUSH_HOLDERS
from ingest.lookups.rounds import DUE_RUNS, due_patches
from ingest.store.database import Store
from ingest.store.transaction import Rows

log = logging.getLogger(__name__)

FILE_BYTES = 8192
BEAT_SECONDS = 2.0
LOOK_SECONDS = 0.5  # a change is written within this
DEAD_SECONDS = 30.0
TEXT_LIMITS = (300, 100, 30, 5)  # the first with which everything fits
NAMED = 10
TRIES, TRY_SECONDS = 4, 0.005


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's state at `written_at` (unix seconds); a problem is a sentence, or None if there is none."""

    written_at: float
    running: bool = True  # False: it stopped in good order
    holds_file: bool = False  # it locks the file as long as it runs, however it ends
    cursor_us: int = 0  # time_us of the newest frame handled; 0: none yet
    listener_problem: str | None = None
    store_problem: str | None = None
    publisher_problem: str | None = None
    backfill_problem: str | None = None
    event_problems: tuple[str, ...] = ()  # some problems of the event streams of knots and spindles
    event_streams_down: int = 0
    failing_hops: tuple[str, ...] = ()
    hosts_left_alone: int = 0
    hosts_named: tuple[str, ...] = ()  # some of them
    clock_behind_minutes: int = 0  # minutes by which this machine's clock seems slow, as all events are ahead of it
    letters_dropped: int = 0  # dead letters that were dropped because there were too many
    free_bytes: int = 0
    drive_full: bool = False  # less is free than ingest keeps in reserve

    def is_alive(self, now: float) -> bool:
        """Return True if the worker was running within the last 30 s; a time ahead of `now` counts as now."""
        return self.running and now - self.written_at <= DEAD_SECONDS


class _Page(msgspec.Struct):
    check: int  # CRC-32 of the bytes of `status`
    status: msgspec.Raw


_page_decoder = msgspec.json.Decoder(_Page)
_status_decoder = msgspec.json.Decoder(Status)


def read_status(path: Path) -> Status | None:
    """Return the status in the file, or None if there is no readable one."""
    for _ in range(TRIES):
        try:
            with path.open("rb") as file:
                page = _page_decoder.decode(file.read(FILE_BYTES))
            raw = bytes(page.status)
            if zlib.crc32(raw) == page.check:
                return _status_decoder.decode(raw)
        except OSError:
            return None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # a write was running, or it is another kind of file
        time.sleep(TRY_SECONDS)
    return None


def encode(status: Status) -> bytes:
    """Return the whole file, always of one size; texts are cut as much as needed."""
    for limit in TEXT_LIMITS:
        raw = msgspec.json.encode(_cut_texts(status, limit))
        page = msgspec.json.encode(_Page(zlib.crc32(raw), msgspec.Raw(raw)))
        if len(page) < FILE_BYTES:
            break
    return page.ljust(FILE_BYTES - 1) + b"\n"


def _cut_texts(status: Status, limit: int) -> Status:
    def short(text: str) -> str:
        return text[:limit].encode(errors="replace").decode()

    problems = ("listener_problem", "store_problem", "publisher_problem", "backfill_problem")
    short_problems = {name: short(text) for name in problems if (text := getattr(status, name)) is not None}
    lists = ("event_problems", "failing_hops", "hosts_named")
    short_lists = {name: tuple(map(short, getattr(status, name)[:NAMED])) for name in lists}
    return msgspec.structs.replace(status, **short_lists, **short_problems)


def is_let_go(path: Path) -> bool:
    """Return True if no process holds the file any more, as after a kill; False if that cannot be determined."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open_locked(path: Path) -> int | None:
    """Return the file, open and locked, or None if the drive is full or gone, or has no locks."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class Heartbeat(threading.Thread):
    """Write the status from `ask` into the file: every two seconds, and within half a second of a change."""

    def __init__(self, path: Path, ask: Callable[[], Status]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._path = path
        self._ask = ask
        self._stopping = threading.Event()
        self._written = Status(written_at=0.0)
        self._due = float("-inf")
        self._failed = False
        self._descriptor: int | None = None

    def run(self) -> None:
        while not self._stopping.is_set():
            self._write_if_due()
            self._stopping.wait(LOOK_SECONDS)

    def stop(self) -> None:
        """Write that the worker has stopped, and end."""
        self._stopping.set()
        if self.ident is not None:
            self.join()
            self._write_if_due()
        self._release()

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write_if_due(self) -> None:
        """Write if it is time or something changed; log once that the drive cannot be written."""
        try:
            is_running = not self._stopping.is_set()
            status = self._ask()
            if self._descriptor is not None and not _is_file(self._descriptor, self._path):
                self._release()
            if self._descriptor is None:
                self._descriptor = _open_locked(self._path)
            status = msgspec.structs.replace(status, running=is_running, holds_file=self._descriptor is not None)
            if time.monotonic() < self._due and not _differs(status, self._written):
                return
            write_page(self._path, encode(status))
            self._written, self._due, self._failed = status, time.monotonic() + BEAT_SECONDS, False
        except OSError as problem:
            if not self._failed:
                log.warning(
                    "%s cannot be written (%s): pages will say that the worker is not running", self._path, problem
                )
            self._failed = True


def _is_file(descriptor: int, path: Path) -> bool:
    """Return True if the open file is the one at this path, and not an earlier one."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def write_page(path: Path, page: bytes) -> None:
    """Overwrite the file's content with the page, in its old blocks. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.pwrite(descriptor, page, 0) != len(page):
            raise OSError(f"{path} took only part of a page")
    finally:
        os.close(descriptor)


def _differs(status: Status, other_status: Status) -> bool:
    """Return True if anything differs except values that change all the time."""
    ignored = {"written_at": 0.0, "cursor_us": 0, "free_bytes": 0}
    return msgspec.structs.replace(status, **ignored) != msgspec.structs.replace(other_status, **ignored)


# Old events lie only in segments, new ones only in the table.
NEWEST_EVENT = """
select greatest(
  coalesce((select max(event_seq) from events), 0), coalesce((select max(last_seq) from event_segments), 0)
)
"""
UNDERIVED = "select count(*) from events where event_seq > (select position_seq from hops where name = 'derive')"
UNJUDGED = """
select greatest(i.position_seq - s.position_seq, 0) from hops i, hops s where i.name = 'inputs' and s.name = 'score'
"""
UNREAD_PULLS = """
select count(*) from pull_requests p
join watched_repositories using (repository_id)
join patches k on (k.pull_uri, k.patch_ref) = (p.pull_uri, p.patch_ref)
where p.state = 'open' and k.sha256 is not null and not exists (
  from content_reviews r where (r.pull_uri, r.patch_ref) = (p.pull_uri, p.patch_ref) and r.state <> 'running'
)
"""
LETTERS = "select (select count(*) from dead_letters) + (select count(*) from unread_events)"


@dataclass(frozen=True, slots=True)
class Backlog:
    """The newest number in the log (`newest_event`, 0: empty), unreadable events, and the backlog by hop."""

    newest_event: int
    letters: int
    waiting: Mapping[str, int]


def read_backlog(store: Store, followed: timedelta, asks_declared: bool = True) -> Backlog:
    """Return the backlog now; a merged pull request is looked up as long as it is `followed`. Raises StoreProblem.

    `asks_declared` as in `due_lookups`.
    """
    wall = store.wall
    with as_problems(), store.read() as rows:
        waiting = {
            "derive_events": rows.value(UNDERIVED),
            "ask_network": due_lookups(rows, wall, wall() - followed, asks_declared),
            "follow_mirrors": due_mirrors(rows, wall),
            "score_everyone": rows.value(UNJUDGED),
            "review_pulls": rows.value(UNREAD_PULLS),
            "erase_deleted": rows.value(f"select count(*) from ({erase.DUE})"),
        }
        return Backlog(rows.value(NEWEST_EVENT), rows.value(LETTERS), waiting)


def due_lookups(rows: Rows, wall: Wall, settled_since: datetime = datetime.max, asks_declared: bool = True) -> int:
    """Return how many look-ups of all kinds are due; for merged pull requests only those settled since this time.

    `asks_declared`: what people declare is looked up; otherwise it never comes to its turn and waits for nothing.
    """
    fixed = (DUE_IDENTITIES, DUE_PUSH_HOLDERS, DUE_RUNS, DUE_PROFILES, DUE_ATTESTATIONS)
    declared = (DUE_DECLARED, DUE_FOOTPRINTS) if asks_declared else ()
    kinds = [due_patches(settled_since), *map(Due, (*fixed, *declared))]
    return sum(kind.count(rows, wall()) for kind in kinds)


@contextmanager
def as_problems() -> Generator[None]:
    """Raise DuckDB's errors in the block as StoreProblem."""
    try:
        yield
    except duckdb.Error as error:
        raise StoreProblem(f"the store cannot be asked just now: {error}") from error
