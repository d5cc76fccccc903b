"""The Jetstream listener: one supervised thread that turns a socket into logged events and survives everything.

Protocol: v1 `/subscribe`, facts/tangled.md §3.1. It resumes five seconds before its cursor (delivery is at least once and
the replay-to-live cut-over reorders), and the event ids drop what repeats.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import duckdb
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from ingest.load import load
from ingest.store import Store, StoreProblem

log = logging.getLogger(__name__)

REWIND_US = 5_000_000
FLUSH_ROWS = 10_000
FLUSH_SECONDS = 1.0
QUEUE_FRAMES = 20_000  # above this the socket is not read, and TCP holds the peer back
FRAME_LIMIT = 16 * 1024 * 1024
LONGEST_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to listen to: the same stream on any of several hosts."""

    source: str
    urls: Sequence[str]
    collections: Sequence[str]


class Listener(threading.Thread):
    """Listens until stopped; `on_loaded` is called after every stored batch."""

    def __init__(self, store: Store, subscription: Subscription, on_loaded: Callable[[], None]) -> None:
        super().__init__(name="jetstream", daemon=True)
        self._store = store
        self._subscription = subscription
        self._on_loaded = on_loaded
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = threading.Event()
        self._pending = 0  # frames received and not stored yet
        self._received = time.monotonic()
        self.problem: str | None = None  # why it is not listening just now, in words

    def run(self) -> None:
        """Connect, listen, reconnect; each failure waits longer, up to 30 s, with jitter."""
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._supervise())

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
                except* (duckdb.Error, StoreProblem) as group:
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
        async with connect(f"{url}?{urlencode(query)}", compression=None, max_size=FRAME_LIMIT, max_queue=64) as socket:
            self.problem = None
            frames: asyncio.Queue[bytes | str | None] = asyncio.Queue(QUEUE_FRAMES)
            self._pending = 0
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(socket, frames))
                tasks.create_task(self._store_frames(frames))
        raise ConnectionResetError("the peer closed the socket")

    async def _receive(self, socket: ClientConnection, frames: asyncio.Queue[bytes | str | None]) -> None:
        """Move frames from the socket to the queue; None marks the end."""
        async for frame in socket:
            self._pending += 1
            self._received = time.monotonic()
            await frames.put(frame)
        await frames.put(None)

    async def _store_frames(self, frames: asyncio.Queue[bytes | str | None]) -> None:
        """Store batches of up to 10,000 frames or one second, until the socket has ended; the last one on stop, too."""
        batch: list[bytes | str] = []
        ended = False
        try:
            while not ended:
                ended = await _gather(frames, batch)
                await self._flush(batch)
        except asyncio.CancelledError:
            while not frames.empty():
                frame = frames.get_nowait()
                batch += [frame] if frame is not None else []
            await self._flush(batch)
            raise

    async def _flush(self, batch: list[bytes | str]) -> None:
        if batch:
            await asyncio.shield(asyncio.to_thread(load, self._store, self._subscription.source, tuple(batch)))
            self._pending -= len(batch)
            batch.clear()
            self._on_loaded()


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    """The first of the failures in words."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)[:200] or type(error).__name__


async def _gather(frames: asyncio.Queue[bytes | str | None], batch: list[bytes | str]) -> bool:
    """Fill the batch; returns whether the socket has ended."""
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            while len(batch) < FLUSH_ROWS:
                frame = await frames.get()
                if frame is None:
                    return True
                batch.append(frame)
    except TimeoutError:
        pass
    return False
