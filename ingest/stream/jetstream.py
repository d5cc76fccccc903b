"""Listen to a Jetstream: one supervised thread turns a socket into logged events and survives every failure.

Protocols: ingest/stream/frames.py. It resumes five seconds before its cursor (delivery is at least once, and v1
reorders where replay turns live), five minutes more at another server, or at the number that a v2 server gave its
newest frame; the event ids remove repeats.

The choice of the next host and the wait before it are pure: the clock and the random numbers are passed in. Backoff
starts at 0.25 s and doubles with each failure of that host (the forge's own client does so up to 30 s). A host that
fails rests longer than one that works, so that it is not asked first each time the other ends a connection.

Between the socket and the store stands a queue of frames: while it is full the socket is not read, and TCP slows the
peer down.
"""

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from random import SystemRandom

import duckdb

from ingest.clock import to_microseconds
from ingest.errors import StoreProblem, plain
from ingest.files import require_room
from ingest.store.database import Store
from ingest.stream import frames
from ingest.stream.batch import Batch, Events, joined, read_batch
from ingest.stream.early import (
    AHEAD,
    REWIND_US,
    ClockProblem,
    Divided,
    EarlyFrames,
    Gap,
    find_gap,
    first_time,
    record_gap,
    reset_future_cursor,
)
from ingest.stream.frames import LARGEST_FRAME, Told
from ingest.stream.load import store_batch
from ingest.stream.socket_process import CursorTooOld, FrameTooLarge, Relay

FIRST_WAIT_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 30.0  # if every host fails, one is asked at least this often
LONGEST_REST_SECONDS = 300.0  # of one host, while another serves
HEALTHY_SECONDS = 30.0  # a connection of this length clears its host's earlier failures
_DICE = SystemRandom()  # other code may seed the generator of the process


@dataclass(slots=True)
class _Host:
    url: str
    failures: int = 0
    rests_until: float = 0.0
    asked: int = 0  # number of the last turn in which it was asked


class Hosts:
    """The hosts of one stream in turn: of the rested hosts, the one that was asked longest ago comes next.

    `jitter` gives a number in [0.5, 1], so that a server that restarts does not meet all its clients at once.
    """

    def __init__(self, urls: Sequence[str], jitter: Callable[[], float] = lambda: _DICE.uniform(0.5, 1.0)) -> None:
        self._hosts = [_Host(url) for url in dict.fromkeys(urls)]
        self._jitter = jitter
        self._turn = 0

    def first(self) -> str:
        """Return the host to begin with; there is no wait, since nothing has failed yet."""
        return self._ask(self._hosts[0])

    def after(self, url: str, lasted: float, now: float) -> tuple[str, float]:
        """Return the next host and the wait in seconds, after `url` failed at `now` and lasted `lasted` seconds."""
        ended_host = next(host for host in self._hosts if host.url == url)
        ended_host.failures = 0 if lasted >= HEALTHY_SECONDS else ended_host.failures + 1
        ended_host.rests_until = now + self._rest(ended_host.failures)
        earliest = now + FIRST_WAIT_SECONDS * self._jitter()
        chosen = min(self._hosts, key=lambda host: (max(host.rests_until, earliest), host.asked))
        return self._ask(chosen), min(max(chosen.rests_until, earliest) - now, LONGEST_WAIT_SECONDS)

    def _ask(self, host: _Host) -> str:
        self._turn += 1
        host.asked = self._turn
        return host.url

    def _rest(self, failures: int) -> float:
        # 2 ** 1024 overflows a float: a host may fail for weeks.
        return min(LONGEST_REST_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(failures, 32)) * self._jitter()


FLUSH_ROWS, FLUSH_BYTES, FLUSH_SECONDS = 10_000, 32_000_000, 1.0
QUIET_SECONDS = 0.1  # after the last frame of a burst waiting for more gains nothing
QUEUE_FRAMES, QUEUE_BYTES = 10_000, 32_000_000  # one batch while another is being stored
Chunk = list[bytes] | Events  # frames, or commits that were already read


def bytes_of(chunk: Chunk) -> int:
    return chunk.table.nbytes if isinstance(chunk, Events) else sum(map(len, chunk))


class Inbox:
    """Chunks between the socket and the store, bounded in frames and in bytes: anybody can write records of 1 MB."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._rows, self._bytes = 0, 0
        self._ended = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    @property
    def is_done(self) -> bool:
        return self._ended and not self._chunks

    def put(self, chunk: Chunk) -> bool:
        """Add a chunk; return True if there is room for more, else the caller must await `room` first."""
        self._chunks.append(chunk)
        self._rows += len(chunk)
        self._bytes += bytes_of(chunk)
        if self._is_full():
            self._filled.set()
        return self._has_room()

    def _is_full(self) -> bool:
        return self._rows >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES

    def _has_room(self) -> bool:
        return self._rows < QUEUE_FRAMES and self._bytes < QUEUE_BYTES

    async def room(self) -> None:
        """Return once there is room for a chunk."""
        while not self._has_room():
            self._emptied.clear()
            await self._emptied.wait()

    def end(self) -> None:
        self._ended = True
        self._filled.set()

    async def wait(self) -> None:
        """Return when a batch is full, no more frames of a burst come, or a second has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                rows = -1
                while not self._ended and not self._is_full() and not 0 < rows == self._rows:
                    rows = self._rows
                    self._filled.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._filled.wait(), QUIET_SECONDS)

    def take(self) -> list[Chunk]:
        chunks, rows, size = [], 0, 0
        while self._chunks and rows < FLUSH_ROWS and size < FLUSH_BYTES:
            chunk = self._chunks.popleft()
            rows, size = rows + len(chunk), size + bytes_of(chunk)
            chunks.append(chunk)
        self._rows, self._bytes = self._rows - rows, self._bytes - size
        self._emptied.set()
        return chunks


log = logging.getLogger(__name__)

# An event may come later in another server's stream: each server gives an event the time at which it saw it.
OTHER_SERVER_US = REWIND_US + AHEAD // timedelta(microseconds=1)
# Where a stream starts if nothing was handled before: at the oldest frame (36 hours). Live streams start from 10^15,
# since a v2 server takes a smaller value for a number of its own; a recording may be older than that (2001).
OLDEST_LIVE_US, OLDEST_RECORDED_US = 1_000_000_000_000_000, 1
FRAME_GROWTH, LARGEST_FRAME_READ = 4, 16 * LARGEST_FRAME
STORE_WAIT_SECONDS = 30.0  # between two tries of a store that cannot be written
CLOCK_SECONDS = 60.0  # a slow clock is reported this long after it was last noticed: hosts are tried every 30 s


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription: one stream on any of several hosts.

    `quiet_seconds` is the longest silence that the stream ever has: after it the next host is tried, and a first frame
    that is later than this after the requested time is a gap. None for a recording, which is sparse and ends: it has no
    gaps, silence is not a fault, and no frame is ahead of its clock.
    """

    source: str
    urls: Sequence[str]
    collections: Sequence[str]
    quiet_seconds: float | None = None

    @property
    def is_live(self) -> bool:
        """Return True if the present of this stream is the wall clock's."""
        return self.quiet_seconds is not None


class Listener(threading.Thread):
    """Listen until stopped; `on_loaded` is called after every stored batch. Raises ValueError without an address.

    `on_gap` is called after a gap was recorded and before anything behind it is stored, from a thread of its own.
    """

    def __init__(
        self,
        store: Store,
        subscription: Subscription,
        on_loaded: Callable[[], None],
        on_gap: Callable[[Gap], None] = lambda gap: None,
    ) -> None:
        if not subscription.urls:
            raise ValueError("There is no address to listen to: give at least one, such as wss://host/subscribe.")
        super().__init__(name="jetstream", daemon=True)
        self._store = store
        self._subscription = subscription
        self._on_loaded = on_loaded
        self._on_gap = on_gap
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = threading.Event()
        self._limit = LARGEST_FRAME
        self._pending = 0  # frames received and not stored yet
        self._heard = time.monotonic()
        self._is_first = True  # True if a gap may lie before the next frames of this connection
        self._store_failures = 0
        self._url = ""
        self._is_same = False  # True if frames of this server have reached the place to continue at
        self._heard_us = 0  # the wall clock when the newest chunk came in
        self._kept: tuple[str, int | None] | None = None  # the server and its own number in the store
        self._began_late = False  # True if the server said that it holds less than it was asked for
        self._early = EarlyFrames()
        self._slow_clock = (float("-inf"), 0)  # when frames last showed that the clock is slow, and by how many minutes
        self._resume_us = (
            0  # the time up to which neighbouring frames confirm the handled ones: a server continues there
        )
        self.cursor_us = 0  # time_us of the newest frame handled, 0 before it is known
        self.problem: str | None = None  # the reason why nothing comes in now, in words
        self.ended_because: str | None = None  # the error that ended it; a renewed listener would listen again

    @property
    def store_failed(self) -> bool:
        """Return True if `problem` is about the store and not about a host."""
        return self._store_failures > 0

    @property
    def clock_behind_minutes(self) -> int:
        """Return the minutes by which this machine's clock seems slow, as all events are ahead of it; else 0."""
        noticed, minutes = self._slow_clock
        return minutes if time.monotonic() - noticed < CLOCK_SECONDS else 0

    def run(self) -> None:
        """Connect, listen, reconnect; wait longer after each failure of a host, with jitter, up to 30 s if all fail."""
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._supervise())
        except BaseException as error:
            self.problem = self.ended_because = f"the listener ended by an error in the program ({_first_error(error)})"
            raise

    def renewed(self) -> "Listener":
        """Return a new listener, not started yet, in place of one that ended; it continues at the cursor."""
        return Listener(self._store, self._subscription, self._on_loaded, self._on_gap)

    def quiet_for(self) -> float:
        """Return the seconds since the last frame came in, 0 while any is waiting to be stored."""
        return 0.0 if self._pending else time.monotonic() - self._heard

    def stop(self) -> None:
        """Store the received frames and end; return when the thread has ended."""
        self.interrupt()
        self.join()

    def interrupt(self) -> None:
        """Make it store the received frames and end; return at once."""
        if self._stopping.is_set():  # a second cancellation would undo the storing
            return
        self._stopping.set()
        if self._loop and self._task and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _supervise(self) -> None:
        self._task = asyncio.current_task()
        hosts = Hosts(self._subscription.urls)
        url = hosts.first()
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                if await self._listen_until_failure(url):
                    await asyncio.sleep(min(STORE_WAIT_SECONDS, 0.25 * 2.0**self._store_failures))
                    continue
                url, seconds = hosts.after(url, time.monotonic() - began, time.monotonic())
                log.warning("listening again in %.1f s: %s", seconds, self.problem)
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            return

    async def _listen_until_failure(self, url: str) -> bool:
        """Listen until it fails, and note the reason; return True if the store failed and not a host."""
        problem, about_store = self.problem, False
        try:
            await self._listen(url)
        except* OSError as group:
            problem = f"{url} is not answering ({_first_error(group)})"
        except* ValueError as group:
            problem = f"{url} cannot be listened to ({_first_error(group)}): check it and the proxy settings"
        except* ClockProblem as group:
            problem = f"{url} {_first_error(group)}"
        except* StoreProblem as group:
            problem, about_store = _first_error(group), True
        except* (duckdb.Error, sqlite3.Error) as group:
            problem = f"the store cannot be written ({_first_error(group)}): free space on the drive, then wait"
            about_store = True
        self._store_failures = min(self._store_failures + 1, 16) if about_store else 0
        self.problem = problem
        if about_store:
            log.warning("%s", problem)
        return about_store

    async def _listen(self, url: str) -> None:
        source = self._subscription.source
        await asyncio.to_thread(self._read_cursor)
        seq = await asyncio.to_thread(frames.last_seq, self._store, source, url) if frames.is_v2(url) else None
        self._is_same = await asyncio.to_thread(frames.is_same_server, self._store, source, url)
        self._url, self._began_late = url, False
        try:
            await self._follow(url, seq if seq is not None else self._start_time_us())
        except CursorTooOld:
            if seq is None:
                raise
            self._began_late = True
            await self._follow(url, self._start_time_us())

    def _read_cursor(self) -> None:
        """Read the cursor to continue at; reset it first if it lies in the future."""
        source = self._subscription.source
        self.cursor_us = self._store.bind(source)
        gap = reset_future_cursor(self._store, source) if self._subscription.is_live else None
        if gap is not None:
            self._on_gap(gap)
            self.cursor_us = gap.to_us
        with self._store.read() as reader:
            sql = "select coalesce(resume_us, cursor_us) from ingest_state where source = ?"
            self._resume_us = reader.value(sql, [source])

    def _start_time_us(self) -> int:
        """Return the time to start at; without one the server would start at the live tail.

        It is never ahead of now: otherwise the next events of a server whose clock is a few minutes slow would be
        skipped.
        """
        if not self._subscription.is_live:
            oldest = OLDEST_LIVE_US if frames.is_v2(self._url) else OLDEST_RECORDED_US
            return max(self._resume_us - REWIND_US, oldest)
        rewind = REWIND_US if self._is_same else OTHER_SERVER_US
        return max(min(self._resume_us, self._now_us()) - rewind, OLDEST_LIVE_US)

    def _now_us(self) -> int:
        return to_microseconds(self._store.wall())

    async def _follow(self, url: str, cursor: int) -> None:
        address = frames.address(url, self._subscription.collections, cursor)
        async with Relay(address, self._limit, reads=not frames.is_v2(url)) as relay:
            inbox = Inbox()
            self._pending, self._heard = 0, time.monotonic()
            # A server that is asked for its own number says so itself if it holds less.
            self._is_first = cursor > frames.LARGEST_SEQ or not frames.is_v2(url)
            self._early = EarlyFrames()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._store_frames(inbox))
                watch = tasks.create_task(self._notice_silence())
                tasks.create_task(self._receive(relay, inbox)).add_done_callback(lambda _: watch.cancel())
        raise ConnectionResetError("the peer closed the socket")

    async def _notice_silence(self) -> None:
        """Raise ConnectionResetError after too long a silence: a peer that is half dead still answers pings."""
        longest = self._subscription.quiet_seconds
        while longest is not None:
            if self.quiet_for() > longest:
                raise ConnectionResetError(f"it has sent nothing for {longest:.0f} s")
            await asyncio.sleep(longest / 10)

    async def _receive(self, relay: Relay, inbox: Inbox) -> None:
        """Move frames from the socket to the inbox until the socket ends."""
        try:
            async for chunk in relay:
                self._pending += len(chunk)
                self._heard, self._heard_us = time.monotonic(), self._now_us()
                if not inbox.put(chunk):
                    await inbox.room()
        except FrameTooLarge:
            # This frame would break every connection here. With a larger limit it becomes a dead letter, and the rest
            # comes.
            self._limit = min(self._limit * FRAME_GROWTH, LARGEST_FRAME_READ)
            raise
        inbox.end()

    async def _store_frames(self, inbox: Inbox) -> None:
        """Store batches until the socket has ended; on stop, also store the received frames."""
        batch: list[Chunk] = []
        try:
            while not inbox.is_done:
                await inbox.wait()
                batch += inbox.take()
                await self._flush(batch)
        except asyncio.CancelledError:
            while batch := [*batch, *inbox.take()]:
                await self._flush(batch)
            raise

    async def _flush(self, chunks: list[Chunk]) -> None:
        if chunks:
            failure = await asyncio.shield(asyncio.to_thread(self._write, tuple(chunks), self._heard_us))
            self._pending -= sum(map(len, chunks))
            self._heard = time.monotonic()  # nothing was read while the store was slow: this is not the peer's silence
            chunks.clear()
            self.problem, self._store_failures = None, 0
            self._on_loaded()
            if failure is not None:
                raise failure

    def _write(self, chunks: Sequence[Chunk], heard_us: int) -> Exception | None:
        """Store frames that came in by `heard_us`.

        Returns the error that ends the connection if the server reports one or this machine's clock is slow. The gap
        before the frames is stored first, so that a kill cannot come between a gap and the frames behind it.
        """
        require_room(self._store.path)
        for notices, batch in self._group_chunks(chunks):
            if notices.began_late:
                self._began_late = self._is_first = True
            divided = self._split_early(batch, heard_us)
            if self._is_first:
                self._record_gap_before(divided.batch)
            source, until_us = self._subscription.source, divided.until_us
            stored = store_batch(self._store, source, divided.batch, divided.early, until_us)
            self.cursor_us, self._resume_us = stored.cursor_us, stored.resume_us
            self._is_same |= until_us >= self._resume_us
            if divided.ends:  # the number stands for frames that are not stored: go on by the time
                self._keep_seq(None)
                return ClockProblem("sends only events that are dated ahead of this machine's clock: set it by NTP")
            self._keep_seq(notices.seq)
            if notices.error is not None:
                return ConnectionResetError(notices.error)
        return None

    def _split_early(self, batch: Batch, heard_us: int) -> Divided:
        """Return the batch without the frames of a live stream that are dated ahead."""
        if not self._subscription.is_live:
            return Divided(batch)
        divided = self._early.divide(batch, heard_us)
        if self._early.behind_us:
            if not self.clock_behind_minutes:
                log.warning("this machine's clock seems slow: the newest events are dated ahead of it; set it by NTP")
            self._slow_clock = time.monotonic(), self._early.behind_us // 60_000_000
        return divided

    def _group_chunks(self, chunks: Sequence[Chunk]) -> Iterator[tuple[Told, Batch]]:
        """Yield the chunks in order, joined by kind, each with the notices of a v2 server."""
        for is_read, group in groupby(chunks, key=lambda chunk: isinstance(chunk, Events)):
            if is_read:
                yield Told([]), Batch((), joined([chunk for chunk in group if isinstance(chunk, Events)]))
            else:
                raws = [raw for chunk in group if not isinstance(chunk, Events) for raw in chunk]
                notices = frames.read_v2(raws) if frames.is_v2(self._url) else Told([*raws])
                yield notices, read_batch(notices.frames)

    def _record_gap_before(self, batch: Batch) -> None:
        first_us, quiet = first_time(batch), self._subscription.quiet_seconds
        if quiet is None or first_us is None:
            return
        gap = find_gap(self._subscription.source, self._resume_us, first_us, 0.0 if self._began_late else quiet)
        if gap is not None and record_gap(self._store, gap):
            self._on_gap(gap)
        self._is_first = False

    def _keep_seq(self, seq: int | None) -> None:
        """Store the server's number after its frames: an older number repeats some, a newer one would lose them."""
        is_kept = seq is not None or (self._is_same and self._subscription.is_live)
        server_and_seq = self._url if is_kept else "", seq
        if server_and_seq != self._kept:
            frames.keep_seq(self._store, self._subscription.source, *server_and_seq)
            self._kept = server_and_seq


def _first_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return plain(error)
