"""The worker's heartbeat: one small file that says how it is, for readers that cannot ask the store.

The file is JSON padded to a fixed size and rewritten in place, so that a full disk, of which it tells, does not stop it
(on file systems that write in place: ext4, xfs, tmpfs). A checksum inside tells a read that met a write.

It also tells whoever watches over the worker what waits for each step of the work, asked of the tables in one short
read.
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
TEXT_LIMITS = (300, 100, 30, 5)  # the first at which everything fits
NAMED = 10
TRIES, TRY_SECONDS = 4, 0.005


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's state at `written_at` (unix seconds); a problem is a sentence, None where there is none."""

    written_at: float
    running: bool = True  # False: it stopped in good order
    holds_file: bool = False  # it keeps the file locked for as long as it runs, however it ends
    cursor_us: int = 0  # time_us of the newest frame handled; 0: none yet
    listener_problem: str | None = None
    store_problem: str | None = None
    publisher_problem: str | None = None
    backfill_problem: str | None = None
    event_problems: tuple[str, ...] = ()  # of the event streams of knots and spindles, some of them
    event_streams_down: int = 0
    failing_hops: tuple[str, ...] = ()
    hosts_left_alone: int = 0
    hosts_named: tuple[str, ...] = ()  # some of them
    clock_behind_minutes: int = 0  # by which this machine's clock seems slow, as all events are dated ahead of it
    letters_dropped: int = 0  # dead letters that were let go since there were too many
    free_bytes: int = 0
    drive_full: bool = False  # less is free than ingest keeps in reserve

    def is_alive(self, now: float) -> bool:
        """Return whether the worker was running within the last 30 s; a time ahead of `now` counts as now."""
        return self.running and now - self.written_at <= DEAD_SECONDS


class _Page(msgspec.Struct):
    check: int  # CRC-32 of the bytes of `status`
    status: msgspec.Raw


_page_decoder = msgspec.json.Decoder(_Page)
_status_decoder = msgspec.json.Decoder(Status)


def read_status(path: Path) -> Status | None:
    """Return what the file says; None where there is none, or none that can be read."""
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
            pass  # a write was under way, or it is no such file
        time.sleep(TRY_SECONDS)
    return None


def encode(status: Status) -> bytes:
    """The whole file, always of the same size; texts are cut as far as it takes."""
    for limit in TEXT_LIMITS:
        raw = msgspec.json.encode(_cut(status, limit))
        page = msgspec.json.encode(_Page(zlib.crc32(raw), msgspec.Raw(raw)))
        if len(page) < FILE_BYTES:
            break
    return page.ljust(FILE_BYTES - 1) + b"\n"


def _cut(status: Status, limit: int) -> Status:
    def short(text: str) -> str:
        return text[:limit].encode(errors="replace").decode()

    problems = ("listener_problem", "store_problem", "publisher_problem", "backfill_problem")
    told = {name: short(text) for name in problems if (text := getattr(status, name)) is not None}
    lists = ("event_problems", "failing_hops", "hosts_named")
    named = {name: tuple(map(short, getattr(status, name)[:NAMED])) for name in lists}
    return msgspec.structs.replace(status, **named, **told)


def is_let_go(path: Path) -> bool:
    """Return whether no process holds the file any more, as after a kill; False where that cannot be told."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _hold(path: Path) -> int | None:
    """The file, open and locked; None where it cannot be: the drive is full or gone, or has no locks."""
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
    """Writes what `ask` says into the file: every two seconds, and within half a second where something changed."""

    def __init__(self, path: Path, ask: Callable[[], Status]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._path = path
        self._ask = ask
        self._stopping = threading.Event()
        self._written = Status(written_at=0.0)
        self._due = float("-inf")
        self._failed = False
        self._held: int | None = None

    def run(self) -> None:
        while not self._stopping.is_set():
            self._beat()
            self._stopping.wait(LOOK_SECONDS)

    def stop(self) -> None:
        """Say that the worker has stopped, and end."""
        self._stopping.set()
        if self.ident is not None:
            self.join()
            self._beat()
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _beat(self) -> None:
        """Write if it is time or something changed; a drive that cannot be written is told once in the log."""
        try:
            is_running = not self._stopping.is_set()
            status = self._ask()
            if self._held is not None and not _is_file(self._held, self._path):
                self._let_go()
            if self._held is None:
                self._held = _hold(self._path)
            status = msgspec.structs.replace(status, running=is_running, holds_file=self._held is not None)
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
    """Return whether what is open is what lies there, and not a file that was there before."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def write_page(path: Path, page: bytes) -> None:
    """Put the page in the place of what the file holds, with its blocks kept. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.pwrite(descriptor, page, 0) != len(page):
            raise OSError(f"{path} took only part of a page")
    finally:
        os.close(descriptor)


def _differs(one: Status, other: Status) -> bool:
    """Return whether anything but what changes all the time is another."""
    same = {"written_at": 0.0, "cursor_us": 0, "free_bytes": 0}
    return msgspec.structs.replace(one, **same) != msgspec.structs.replace(other, **same)


# A log without events is told by its segments, and the other way round.
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
    """The log's end (`newest_event`, 0: it is empty), the events that could not be read, and what waits, by hop."""

    newest_event: int
    letters: int
    waiting: Mapping[str, int]


def read_backlog(store: Store, followed: timedelta) -> Backlog:
    """The backlog now; a merged pull request is looked up for as long as it is `followed`. Raises StoreProblem."""
    wall = store.wall
    with as_problems(), store.read() as rows:
        waiting = {
            "derive_events": rows.value(UNDERIVED),
            "ask_network": due_lookups(rows, wall, wall() - followed),
            "follow_mirrors": due_mirrors(rows, wall),
            "score_everyone": rows.value(UNJUDGED),
            "review_pulls": rows.value(UNREAD_PULLS),
            "erase_deleted": rows.value(f"select count(*) from ({erase.DUE})"),
        }
        return Backlog(rows.value(NEWEST_EVENT), rows.value(LETTERS), waiting)


def due_lookups(rows: Rows, wall: Wall, settled_since: datetime = datetime.max) -> int:
    """Return how many look-ups of all kinds are due now; of merged pull requests those that were settled since then."""
    fixed = (DUE_IDENTITIES, DUE_PUSH_HOLDERS, DUE_RUNS, DUE_PROFILES, DUE_ATTESTATIONS)
    kinds = [due_patches(settled_since), *map(Due, fixed)]
    return sum(kind.count(rows, wall()) for kind in kinds)


@contextmanager
def as_problems() -> Generator[None]:
    """Whatever DuckDB raises in the block, as a StoreProblem."""
    try:
        yield
    except duckdb.Error as error:
        raise StoreProblem(f"the store cannot be asked just now: {error}") from error
