"""Frames between the socket and the store: the socket is not read while it is full, and TCP holds the peer back."""

import asyncio
from collections import deque
from contextlib import suppress

from ingest.batch import Events

FLUSH_ROWS, FLUSH_BYTES, FLUSH_SECONDS = 10_000, 32_000_000, 1.0
QUIET_SECONDS = 0.1  # after the last frame of a burst nothing is gained by waiting for more
QUEUE_FRAMES, QUEUE_BYTES = 10_000, 32_000_000  # one batch: another is being stored
Chunk = list[bytes] | Events  # frames, or commits that were read already


def bytes_of(chunk: Chunk) -> int:
    """About how much memory it takes."""
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
        """Whether nothing is here and nothing will come."""
        return self._ended and not self._chunks

    def put(self, chunk: Chunk) -> bool:
        """Add a chunk; returns whether there is room for more, else wait for `room` first."""
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
        """No more will come."""
        self._ended = True
        self._filled.set()

    async def wait(self) -> None:
        """Return when a batch is full or nothing more comes of it, after a second at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                rows = -1
                while not self._ended and not self._is_full() and not 0 < rows == self._rows:
                    rows = self._rows
                    self._filled.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._filled.wait(), QUIET_SECONDS)

    def take(self) -> list[Chunk]:
        """The oldest chunks that make one batch."""
        taken, rows, size = [], 0, 0
        while self._chunks and rows < FLUSH_ROWS and size < FLUSH_BYTES:
            chunk = self._chunks.popleft()
            rows, size = rows + len(chunk), size + bytes_of(chunk)
            taken.append(chunk)
        self._rows, self._bytes = self._rows - rows, self._bytes - size
        self._emptied.set()
        return taken
