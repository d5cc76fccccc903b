"""The Jetstream listener: one supervised thread that turns a socket into logged events and survives everything.

Protocols: ingest/dialects.py. It resumes five seconds before its cursor (delivery is at least once, and v1 reorders
where replay turns live), five minutes more at another server, or at the number that a v2 server gave its newest frame;
the event ids drop what repeats.
"""

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

import duckdb

from ingest import dialects
from ingest.batch import Batch, Events, joined, read_batch
from ingest.clock import to_microseconds
from ingest.dialects import Told
from ingest.early import AHEAD, REWIND_US, ClockProblem, Divided, EarlyFrames
from ingest.frames import LARGEST_FRAME
from ingest.gaps import Gap, find_gap, first_time, record_gap, reset_future_cursor
from ingest.hosts import Hosts
from ingest.inbox import Chunk, Inbox
from ingest.load import store_batch
from ingest.plain_words import plain
from ingest.relay import CursorTooOld, FrameTooLarge, Relay
from ingest.room import require_room
from ingest.store import Store
from ingest.unopened import StoreProblem

log = logging.getLogger(__name__)

# What was handled of one server may stand later in another's stream: each gives an event the time at which it saw it.
OTHER_SERVER_US = REWIND_US + AHEAD // timedelta(microseconds=1)
# What a server is asked for where nothing was handled before: the oldest it keeps (36 hours). Live from 10^15, since
# a v2 server takes what is below for a number of its own; a recording may be older than that (2001).
OLDEST_LIVE_US, OLDEST_RECORDED_US = 1_000_000_000_000_000, 1
FRAME_GROWTH, LARGEST_FRAME_READ = 4, 16 * LARGEST_FRAME
STORE_WAIT_SECONDS = 30.0  # between two tries of a store that cannot be written
CLOCK_SECONDS = 60.0  # a slow clock is told of for so long after it was last noticed: hosts are tried every 30 s


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to listen to: the same stream on any of several hosts.

    `quiet_seconds` is the longest silence that the stream ever has: after it a host is left for the next one, and a
    first frame that is later than this beside what was asked for is a gap. None for a recording, which is sparse and
    ends: in one nothing is a gap, silence is no fault, and no frame is ahead of its clock.
    """

    source: str
    urls: Sequence[str]
    collections: Sequence[str]
    quiet_seconds: float | None = None

    @property
    def is_live(self) -> bool:
        """Return whether the present of this stream is the wall clock's."""
        return self.quiet_seconds is not None


class Listener(threading.Thread):
    """Listens until stopped; `on_loaded` is called after every stored batch. ValueError without an address.

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
        self._is_first = True  # whether a gap may lie before what this connection brings next
        self._store_failures = 0
        self._url = ""
        self._is_same = False  # whether the place to go on at is one that frames of this server have reached
        self._heard_us = 0  # the wall clock when the newest chunk came in
        self._kept: tuple[str, int | None] | None = None  # the server and the number of its own that the store holds
        self._began_late = False  # whether the server said itself that it keeps less
        self._early = EarlyFrames()
        self._slow_clock = (float("-inf"), 0)  # when frames last showed that the clock is slow, and by how many minutes
        self._resume_us = 0  # up to where neighbours confirm the frames handled: a server goes on there
        self.cursor_us = 0  # time_us of the newest frame handled, 0 before anything is known of it
        self.problem: str | None = None  # why nothing comes in just now, in words
        self.ended_because: str | None = None  # the error that ended it unasked; a renewed one would listen again

    @property
    def store_failed(self) -> bool:
        """Whether `problem` is about the store and not about a host."""
        return self._store_failures > 0

    @property
    def clock_behind_minutes(self) -> int:
        """By how many minutes this machine's clock seems to be slow, as all events are dated ahead of it; else 0."""
        noticed, minutes = self._slow_clock
        return minutes if time.monotonic() - noticed < CLOCK_SECONDS else 0

    def run(self) -> None:
        """Connect, listen, reconnect; each failure of a host waits longer, with jitter, up to 30 s where all fail."""
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._supervise())
        except BaseException as error:
            self.problem = self.ended_because = f"the listener ended by an error in the program ({_first(error)})"
            raise

    def renewed(self) -> "Listener":
        """A listener of the same stream, not started yet, in place of one that ended; it goes on at the cursor."""
        return Listener(self._store, self._subscription, self._on_loaded, self._on_gap)

    def quiet_for(self) -> float:
        """Seconds since the last frame came in, 0 while any is in hand."""
        return 0.0 if self._pending else time.monotonic() - self._heard

    def stop(self) -> None:
        """Store what is in hand and end; returns when the thread has ended."""
        self.interrupt()
        self.join()

    def interrupt(self) -> None:
        """Have it store what is in hand and end; returns at once."""
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
                if await self._has_failed_to_store(url):
                    await asyncio.sleep(min(STORE_WAIT_SECONDS, 0.25 * 2.0**self._store_failures))
                    continue
                url, seconds = hosts.after(url, time.monotonic() - began, time.monotonic())
                log.warning("listening again in %.1f s: %s", seconds, self.problem)
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            return

    async def _has_failed_to_store(self, url: str) -> bool:
        """Listen until it fails, and put down why; whether that was the store, of which no host is to blame."""
        told, about_store = self.problem, False
        try:
            await self._listen(url)
        except* OSError as group:
            told = f"{url} is not answering ({_first(group)})"
        except* ValueError as group:
            told = f"{url} cannot be listened to ({_first(group)}): check it and the proxy settings"
        except* ClockProblem as group:
            told = f"{url} {_first(group)}"
        except* StoreProblem as group:
            told, about_store = _first(group), True
        except* (duckdb.Error, sqlite3.Error) as group:
            told = f"the store cannot be written ({_first(group)}): free space on the drive, then wait"
            about_store = True
        self._store_failures = min(self._store_failures + 1, 16) if about_store else 0
        self.problem = told
        if about_store:
            log.warning("%s", told)
        return about_store

    async def _listen(self, url: str) -> None:
        source = self._subscription.source
        await asyncio.to_thread(self._begin)
        seq = await asyncio.to_thread(dialects.last_seq, self._store, source, url) if dialects.is_v2(url) else None
        self._is_same = await asyncio.to_thread(dialects.is_same_server, self._store, source, url)
        self._url, self._began_late = url, False
        try:
            await self._follow(url, seq if seq is not None else self._asked_us())
        except CursorTooOld:
            if seq is None:
                raise
            self._began_late = True
            await self._follow(url, self._asked_us())

    def _begin(self) -> None:
        """Read the cursor to go on at; one that lies in the future is reset first."""
        source = self._subscription.source
        self.cursor_us = self._store.bind(source)
        gap = reset_future_cursor(self._store, source) if self._subscription.is_live else None
        if gap is not None:
            self._on_gap(gap)
            self.cursor_us = gap.to_us
        with self._store.read() as rows:
            sql = "select coalesce(resume_us, cursor_us) from ingest_state where source = ?"
            self._resume_us = rows.value(sql, [source])

    def _asked_us(self) -> int:
        """The time to start at; without one the server would start at the live tail.

        Never ahead of now: what a server whose clock is a few minutes slow sends next would be passed over.
        """
        if not self._subscription.is_live:
            oldest = OLDEST_LIVE_US if dialects.is_v2(self._url) else OLDEST_RECORDED_US
            return max(self._resume_us - REWIND_US, oldest)
        rewind = REWIND_US if self._is_same else OTHER_SERVER_US
        return max(min(self._resume_us, self._now_us()) - rewind, OLDEST_LIVE_US)

    def _now_us(self) -> int:
        return to_microseconds(self._store.wall())

    async def _follow(self, url: str, cursor: int) -> None:
        """Take in what the server sends from there on, until it ends."""
        address = dialects.address(url, self._subscription.collections, cursor)
        async with Relay(address, self._limit, reads=not dialects.is_v2(url)) as relay:
            inbox = Inbox()
            self._pending, self._heard = 0, time.monotonic()
            # A server that is asked for a number of its own says so where it keeps less.
            self._is_first = cursor > dialects.LARGEST_SEQ or not dialects.is_v2(url)
            self._early = EarlyFrames()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._store_frames(inbox))
                watch = tasks.create_task(self._notice_silence())
                tasks.create_task(self._receive(relay, inbox)).add_done_callback(lambda _: watch.cancel())
        raise ConnectionResetError("the peer closed the socket")

    async def _notice_silence(self) -> None:
        """Raise ConnectionResetError once nothing came for too long: a peer that is half dead still answers pings."""
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
            # It would break every connection at this place: once read it becomes a dead letter, and the rest comes.
            self._limit = min(self._limit * FRAME_GROWTH, LARGEST_FRAME_READ)
            raise
        inbox.end()

    async def _store_frames(self, inbox: Inbox) -> None:
        """Store batches until the socket has ended; what is in hand on stop, too."""
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
            ended = await asyncio.shield(asyncio.to_thread(self._write, tuple(chunks), self._heard_us))
            self._pending -= sum(map(len, chunks))
            self._heard = time.monotonic()  # while the store was slow nothing was read, which is no silence of the peer
            chunks.clear()
            self.problem, self._store_failures = None, 0
            self._on_loaded()
            if ended is not None:
                raise ended

    def _write(self, chunks: Sequence[Chunk], heard_us: int) -> Exception | None:
        """Store frames that came in by `heard_us`.

        Returns the error that ends the connection where the server says one or this machine's clock is slow. The gap
        before them comes first, so that no kill is between a gap and what is behind it.
        """
        require_room(self._store.path)
        for told, batch in self._batches(chunks):
            if told.began_late:
                self._began_late = self._is_first = True
            divided = self._divide(batch, heard_us)
            if self._is_first:
                self._note_gap(divided.batch)
            source, until_us = self._subscription.source, divided.until_us
            stored = store_batch(self._store, source, divided.batch, divided.early, until_us)
            self.cursor_us, self._resume_us = stored.cursor_us, stored.resume_us
            self._is_same |= until_us >= self._resume_us
            if divided.ends:  # the number stands for frames that are not stored: go on by the time
                self._keep_seq(None)
                return ClockProblem("sends only events that are dated ahead of this machine's clock: set it by NTP")
            self._keep_seq(told.seq)
            if told.error is not None:
                return ConnectionResetError(told.error)
        return None

    def _divide(self, batch: Batch, heard_us: int) -> Divided:
        """The batch without the frames of a live stream that are dated ahead."""
        if not self._subscription.is_live:
            return Divided(batch)
        divided = self._early.divide(batch, heard_us)
        if self._early.behind_us:
            if not self.clock_behind_minutes:
                log.warning("this machine's clock seems slow: the newest events are dated ahead of it; set it by NTP")
            self._slow_clock = time.monotonic(), self._early.behind_us // 60_000_000
        return divided

    def _batches(self, chunks: Sequence[Chunk]) -> Iterator[tuple[Told, Batch]]:
        """The chunks in their order, those of one kind together, each with what a v2 server says about itself."""
        for is_read, group in groupby(chunks, key=lambda chunk: isinstance(chunk, Events)):
            if is_read:
                yield Told([]), Batch((), joined([chunk for chunk in group if isinstance(chunk, Events)]))
            else:
                raws = [raw for chunk in group if not isinstance(chunk, Events) for raw in chunk]
                told = dialects.read_v2(raws) if dialects.is_v2(self._url) else Told([*raws])
                yield told, read_batch(told.frames)

    def _note_gap(self, batch: Batch) -> None:
        first_us, quiet = first_time(batch), self._subscription.quiet_seconds
        if quiet is None or first_us is None:
            return
        gap = find_gap(self._subscription.source, self._resume_us, first_us, 0.0 if self._began_late else quiet)
        if gap is not None and record_gap(self._store, gap):
            self._on_gap(gap)
        self._is_first = False

    def _keep_seq(self, seq: int | None) -> None:
        """After the frames, never before: a number that is behind them repeats some, one ahead would lose them."""
        is_kept = seq is not None or (self._is_same and self._subscription.is_live)
        place = self._url if is_kept else "", seq
        if place != self._kept:
            dialects.keep_seq(self._store, self._subscription.source, *place)
            self._kept = place


def _first(error: BaseException) -> str:
    """The error, or the first of a group, in plain words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return plain(error)
