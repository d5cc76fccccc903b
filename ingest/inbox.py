"""Frames between the socket and the store: the socket is not read while it is full, and TCP holds the peer back."""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, islice

FLUSH_ROWS, FLUSH_BYTES, FLUSH_SECONDS = 10_000, 32_000_000, 1.0
QUEUE_FRAMES, QUEUE_BYTES = 10_000, 32_000_000  # one batch: another is being read, and one stored


class Inbox:
    """Frames between the socket and the store, bounded in number and in bytes: anybody can write records of 1 MB."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._ended = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    @property
    def is_done(self) -> bool:
        """Whether nothing is here and nothing will come."""
        return self._ended and not self._frames

    def put(self, frames: Sequence[bytes]) -> bool:
        """Add frames; returns whether there is room for more, else wait for `room` first."""
        self._frames.extend(frames)
        self._bytes += sum(map(len, frames))
        rows = len(self._frames)
        if rows >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES:
            self._filled.set()
        return self._has_room()

    def _has_room(self) -> bool:
        return len(self._frames) < QUEUE_FRAMES and self._bytes < QUEUE_BYTES

    async def room(self) -> None:
        """Return once there is room for a frame."""
        while not self._has_room():
            self._emptied.clear()
            await self._emptied.wait()

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

    def take(self) -> list[bytes]:
        """The oldest frames that make one batch."""
        sizes = list(accumulate(map(len, islice(self._frames, FLUSH_ROWS)), initial=0))
        rows = min(bisect_left(sizes, FLUSH_BYTES), len(sizes) - 1)
        batch = [self._frames.popleft() for _ in range(rows)]
        self._bytes -= sizes[rows]
        self._emptied.set()
        return batch
