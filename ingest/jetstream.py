"""The Jetstream listener: one supervised thread that turns a socket into logged events and survives everything.

Protocol: v1 `/subscribe`, facts/tangled.md §3.1. It resumes five seconds before its cursor (delivery is at least once
and the replay-to-live cut-over reorders), and the event ids drop what repeats.
"""

import asyncio
import logging
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

import duckdb
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, WebSocketException
from websockets.frames import CloseCode

from ingest.load import LARGEST_FRAME, load
from ingest.store import Store, StoreProblem

log = logging.getLogger(__name__)

REWIND_US = 5_000_000
FLUSH_ROWS, FLUSH_BYTES, FLUSH_SECONDS = 10_000, 32_000_000, 1.0
QUEUE_FRAMES, QUEUE_BYTES = 20_000, 64_000_000  # above either the socket is not read, and TCP holds the peer back
FRAME_GROWTH, LARGEST_FRAME_READ = 4, 16 * LARGEST_FRAME
PONG_SECONDS = 60.0  # while the socket is not read no pong is seen: a store that is slow for 20 s is no dead peer
LONGEST_WAIT_SECONDS = 30.0
GOODBYE_SECONDS = 1.0  # a peer in full flow answers a close late, and a stop has 10 s in all


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to listen to: the same stream on any of several hosts."""

    source: str
    urls: Sequence[str]
    collections: Sequence[str]


class Listener(threading.Thread):
    """Listens until stopped; `on_loaded` is called after every stored batch. ValueError without an address."""

    def __init__(self, store: Store, subscription: Subscription, on_loaded: Callable[[], None]) -> None:
        if not subscription.urls:
            raise ValueError("There is no address to listen to: give at least one, such as wss://host/subscribe.")
        super().__init__(name="jetstream", daemon=True)
        self._store = store
        self._subscription = subscription
        self._on_loaded = on_loaded
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = threading.Event()
        self._limit = LARGEST_FRAME
        self._pending = 0  # frames received and not stored yet
        self._received = time.monotonic()
        self.problem: str | None = None  # why it is not listening just now, in words
        self.ended_because: str | None = None  # the error that ended it unasked; a renewed one would listen again

    def run(self) -> None:
        """Connect, listen, reconnect; each failure waits longer, up to 30 s, with jitter."""
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._supervise())
        except BaseException as error:
            self.problem = self.ended_because = f"the listener ended by an error in the program ({_first(error)})"
            raise

    def renewed(self) -> "Listener":
        """A listener of the same stream, not started yet, in place of one that ended; it goes on at the cursor."""
        return Listener(self._store, self._subscription, self._on_loaded)

    def quiet_for(self) -> float:
        """Seconds since the last frame came in, 0 while any is in hand."""
        return 0.0 if self._pending else time.monotonic() - self._received

    def stop(self) -> None:
        """Store what is in hand and end; returns when the thread has ended."""
        self._stopping.set()
        if self._loop and self._task and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self.join()

    async def _supervise(self) -> None:
        self._task = asyncio.current_task()
        failures = 0
        try:
            while not self._stopping.is_set():
                url = self._subscription.urls[failures % len(self._subscription.urls)]
                began = asyncio.get_running_loop().time()
                try:
                    await self._listen(url)
                except* (OSError, WebSocketException) as group:
                    self.problem = f"{url} is not answering ({_first(group)})"
                except* (ValueError, ImportError) as group:  # no address; a SOCKS proxy, which needs another package
                    self.problem = f"{url} cannot be listened to ({_first(group)}): check it and the proxy settings"
                except* (duckdb.Error, sqlite3.Error, StoreProblem) as group:
                    self.problem = f"the store cannot be written ({_first(group)}): free space on the drive, then wait"
                failures = failures + 1 if asyncio.get_running_loop().time() - began < LONGEST_WAIT_SECONDS else 1
                log.warning("listening again soon: %s", self.problem)
                await asyncio.sleep(min(LONGEST_WAIT_SECONDS, 0.25 * 2**failures) * random.uniform(0.5, 1.0))  # noqa: S311
        except asyncio.CancelledError:
            return

    async def _listen(self, url: str) -> None:
        cursor = await asyncio.to_thread(self._store.bind, self._subscription.source)
        query = [("wantedCollections", name) for name in self._subscription.collections]
        # Without a cursor the server starts at the live tail; from 1 it starts at the oldest that it keeps (36 hours).
        query.append(("cursor", str(max(cursor - REWIND_US, 1))))
        async with connect(
            f"{url}?{urlencode(query)}",
            compression=None,
            max_size=self._limit,
            ping_timeout=PONG_SECONDS,
            close_timeout=GOODBYE_SECONDS,
        ) as socket:
            self.problem = None
            inbox = Inbox()
            self._pending = 0
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(socket, inbox))
                tasks.create_task(self._store_frames(inbox))
        raise ConnectionResetError("the peer closed the socket")

    async def _receive(self, socket: ClientConnection, inbox: "Inbox") -> None:
        """Move frames from the socket to the inbox until the socket ends."""
        try:
            async for frame in socket:
                self._pending += 1
                self._received = time.monotonic()
                await inbox.put(frame)
        except ConnectionClosedError as closed:
            if closed.sent and closed.sent.code == CloseCode.MESSAGE_TOO_BIG:
                # It would break every connection at this place: once read it becomes a dead letter, and the rest comes.
                self._limit = min(self._limit * FRAME_GROWTH, LARGEST_FRAME_READ)
            raise
        inbox.end()

    async def _store_frames(self, inbox: "Inbox") -> None:
        """Store batches until the socket has ended; what is in hand on stop, too."""
        batch: list[bytes | str] = []
        try:
            while not inbox.is_done:
                await inbox.wait()
                batch += inbox.take()
                await self._flush(batch)
        except asyncio.CancelledError:
            while batch := [*batch, *inbox.take()]:
                await self._flush(batch)
            raise

    async def _flush(self, batch: list[bytes | str]) -> None:
        if batch:
            await asyncio.shield(asyncio.to_thread(load, self._store, self._subscription.source, tuple(batch)))
            self._pending -= len(batch)
            batch.clear()
            self._on_loaded()


class Inbox:
    """Frames between the socket and the store, bounded in number and in bytes: anybody can write records of 1 MB."""

    def __init__(self) -> None:
        self._frames: deque[bytes | str] = deque()
        self._bytes = 0
        self._ended = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    @property
    def is_done(self) -> bool:
        """Whether nothing is here and nothing will come."""
        return self._ended and not self._frames

    async def put(self, frame: bytes | str) -> None:
        """Add a frame, once there is room."""
        while self._bytes >= QUEUE_BYTES or len(self._frames) >= QUEUE_FRAMES:
            self._emptied.clear()
            await self._emptied.wait()
        self._frames.append(frame)
        self._bytes += len(frame)
        self._filled.set()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._filled.set()

    async def wait(self) -> None:
        """Return when a batch is full, after a second at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                while not self._ended and self._bytes < FLUSH_BYTES and len(self._frames) < FLUSH_ROWS:
                    self._filled.clear()
                    await self._filled.wait()

    def take(self) -> list[bytes | str]:
        """The oldest frames that make one batch."""
        batch: list[bytes | str] = []
        size = 0
        while self._frames and size < FLUSH_BYTES and len(batch) < FLUSH_ROWS:
            batch.append(self._frames.popleft())
            size += len(batch[-1])
        self._bytes -= size
        self._emptied.set()
        return batch


def _first(error: BaseException) -> str:
    """The error, or the first of a group, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)[:200] or type(error).__name__
