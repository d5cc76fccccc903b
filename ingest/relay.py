"""A socket that is read by a process of its own, which hands on what comes in chunks, as columns where it can.

Receiving and decoding take 8 µs of the interpreter an event, storing 6, and in one process they take turns at it, also
with a scoring pass; apart, they have a core each. The pipe between them is the back-pressure: while nobody reads it
nothing is taken off the socket, and TCP holds the peer back.

This file is also that process's program. It opens no store, starts in .4 s and takes 80 MB. It ends with the process
that started it, however that one ends, since its standard input ends then.

Pipe: a letter, two numbers (unsigned, 32 bits, little-endian), the sizes of frames, bytes. F: so many frames, of so
many bytes in all; C: commits, as an Arrow record batch of `ingest.batch.SCHEMA`; O: the connection stands; E: it ended,
and the bytes say why as JSON of `kind` and `text`.
"""

import asyncio
import contextlib
import fcntl
import gc
import json
import os
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator
from importlib.abc import MetaPathFinder
from pathlib import Path
from struct import Struct
from typing import Self

import pyarrow as pa
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosedError,
    ConnectionClosedOK,
    InvalidStatus,
    WebSocketException,
)
from websockets.frames import CloseCode

from ingest.batch import SCHEMA, Events, read_commits

CHUNK_FRAMES, CHUNK_BYTES, CHUNK_SECONDS = 512, 500_000, 0.005
PIPE_BYTES = 1 << 20  # what a Linux pipe may hold without privileges
PONG_SECONDS = 60.0  # while the socket is not read no pong is seen: a store that is slow for 20 s is no dead peer
FRAMES, COLUMNS, OPEN, END = b"F", b"C", b"O", b"E"
SIZE_TYPE = "I"
_HEADER = Struct("<cII")
PROJECT = Path(__file__).resolve().parents[1]


class CursorTooOld(ConnectionRefusedError):
    """A v2 server no longer keeps what comes after the number it was asked for."""


class FrameTooLarge(ConnectionResetError):
    """The next frame is larger than the limit of this connection."""


class Straight(connect):
    """A connection to the host that the operator named and to no other: a redirect is a refusal.

    websockets would follow ten of them to wherever they lead, also to addresses inside the operator's own network.
    """

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class Relay:
    """The frames of one connection in chunks: `async with Relay(...) as relay: async for chunk in relay`.

    A chunk is commits as columns where `reads` and all of its frames are such, else a list of bytes.

    Entering waits until the connection stands. Raises CursorTooOld, FrameTooLarge, another OSError where the peer does
    not answer or the connection broke, ValueError where the address cannot be asked at all. It ends where the peer
    closes the connection in good order. Leaving ends the process.
    """

    def __init__(self, address: str, largest_frame: int, reads: bool = True) -> None:
        self._command = [sys.executable, "-m", "ingest.relay", address, str(largest_frame), str(int(reads))]

    async def __aenter__(self) -> Self:
        # A session of its own: Ctrl-C is for the process that started it.
        self._process = subprocess.Popen(
            self._command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            self._reader = asyncio.StreamReader(limit=PIPE_BYTES)
            self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(self._reader), self._process.stdout
            )
            await self._next()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    async def __aiter__(self) -> AsyncIterator[list[bytes] | Events]:
        while (frames := await self._next()) is not None:
            yield frames

    def _end(self) -> None:
        self._process.kill()
        if hasattr(self, "_transport"):
            self._transport.close()
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    async def _next(self) -> list[bytes] | Events | None:
        """The next frames, none once the connection stands; None where it ended in good order."""
        try:
            letter, count, size = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            sizes = array(SIZE_TYPE, await self._reader.readexactly(count * array(SIZE_TYPE).itemsize))
            data = await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the process that reads the socket ended") from None
        if letter == END:
            return _raise(**json.loads(data))
        if letter == COLUMNS:
            return Events(pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(data), SCHEMA)]))
        return _split(data, sizes)


def _raise(kind: str, text: str) -> None:
    errors = {"address": ValueError, "old": CursorTooOld, "large": FrameTooLarge, "lost": ConnectionResetError}
    if kind != "closed":
        raise errors[kind](text)


def _split(data: bytes, sizes: array) -> list[bytes]:
    frames, begin = [], 0
    for size in sizes:
        frames.append(data[begin : begin + size])
        begin += size
    return frames


class _Chunks:
    """Frames on their way into the pipe: handed on when there are many, and soon after the first of a few."""

    def __init__(self, pipe: asyncio.StreamWriter, reads: bool) -> None:
        self._pipe = pipe
        self._reads = reads
        self._frames: list[bytes] = []
        self._bytes = 0
        self._loop = asyncio.get_running_loop()

    def put(self, frame: bytes) -> bool:
        """Add a frame; whether that filled a chunk, which is to be drained."""
        if not self._frames:
            self._loop.call_later(CHUNK_SECONDS, self.flush)
        self._frames.append(frame)
        self._bytes += len(frame)
        if len(self._frames) >= CHUNK_FRAMES or self._bytes >= CHUNK_BYTES:
            self.flush()
            return True
        return False

    async def drain(self) -> None:
        """Return once everything lies in the pipe."""
        await self._pipe.drain()

    def flush(self) -> None:
        """Hand on what is here."""
        frames, self._frames, self._bytes = self._frames, [], 0
        events = read_commits(frames) if frames and self._reads else None
        if events is not None:
            self.write(COLUMNS, memoryview(events.table.to_batches()[0].serialize()))
        elif frames:
            self.write(FRAMES, b"".join(frames), array(SIZE_TYPE, map(len, frames)))

    def write(self, letter: bytes, data: bytes | memoryview = b"", sizes: array | tuple[()] = ()) -> None:
        """Hand on one message."""
        self._pipe.write(b"".join((_HEADER.pack(letter, len(sizes), len(data)), bytes(sizes), data)))


async def _relay(address: str, largest_frame: int, reads: bool) -> None:
    """Hand on everything that comes from the address, and how it ended."""
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), os._exit, 0)  # nothing is ever sent: who started us is gone
    with contextlib.suppress(OSError):  # a smaller pipe only makes more turns
        fcntl.fcntl(sys.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    transport.set_write_buffer_limits(high=0)  # the pipe is the buffer: drained is what lies in it
    pipe = asyncio.StreamWriter(transport, protocol, None, loop)
    chunks = _Chunks(pipe, reads)
    kind, text = await _how_it_ended(address, largest_frame, chunks)
    chunks.flush()
    chunks.write(END, json.dumps({"kind": kind, "text": text[:300]}).encode())
    await pipe.drain()


async def _how_it_ended(address: str, largest_frame: int, chunks: _Chunks) -> tuple[str, str]:
    try:
        async with Straight(
            address, compression=None, max_size=largest_frame, ping_timeout=PONG_SECONDS, close_timeout=1.0
        ) as socket:
            chunks.write(OPEN)
            await _receive(socket, chunks)
    except ConnectionClosedOK as closed:
        return "closed", str(closed)
    except InvalidStatus as refused:
        return ("old" if _is_cursor_too_old(refused) else "lost"), str(refused)
    except (OSError, WebSocketException) as error:
        return ("large" if _is_too_large(error) else "lost"), str(error) or type(error).__name__
    except (ValueError, ImportError) as error:  # no address; a SOCKS proxy, which needs another package
        return "address", str(error)
    return "closed", ""


async def _receive(socket: ClientConnection, chunks: _Chunks) -> None:
    while True:
        # As bytes: whether they are UTF-8 is for the reader, who makes a dead letter of what is not.
        if chunks.put(await socket.recv(decode=False)):
            await chunks.drain()


def _is_cursor_too_old(refused: InvalidStatus) -> bool:
    return refused.response.status_code == 400 and b"CursorTooOld" in bytes(refused.response.body or b"")[:4096]


def _is_too_large(error: Exception) -> bool:
    if not isinstance(error, ConnectionClosedError) or error.sent is None:
        return False
    return error.sent.code == CloseCode.MESSAGE_TOO_BIG


class _WithoutPandas(MetaPathFinder):
    """Where pyarrow finds pandas it loads it with the first list, for 1 s and 50 MB, and has no use for it here."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas())
    gc.freeze()  # what is loaded stays: it need not be looked through with every 70,000 frames
    asyncio.run(_relay(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"))
