"""Read a socket in a process of its own, which passes frames on in chunks, as columns where it can.

Receiving and decoding take 8 µs of the interpreter an event, storing 6. In one process they would take turns, also with
a scoring pass; in two processes they have a core each. The pipe between them is the back-pressure: while nobody reads
it, nothing is taken off the socket, and TCP slows the peer down.

This file is also that process's program. It opens no store, starts in .4 s and takes 80 MB. It ends with the process
that started it, because its standard input ends then.

Pipe: a letter, two numbers (unsigned, 32 bits, little-endian), the sizes of frames, bytes. F: the number of frames and
their bytes in all; C: commits, as an Arrow record batch of `ingest.stream.batch.SCHEMA`; O: the connection stands; E:
it ended, and the bytes hold the reason as JSON of `kind` and `text`.
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
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib.abc import MetaPathFinder
from pathlib import Path
from struct import Struct
from typing import Any, Self, cast

import pyarrow as pa
from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.exceptions import (
    ConnectionClosedError,
    ConnectionClosedOK,
    InvalidStatus,
    WebSocketException,
)
from websockets.frames import DATA_OPCODES, CloseCode, Frame
from websockets.protocol import Event

from ingest.errors import plain
from ingest.stream.batch import SCHEMA, Events, read_commits


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def leave_pandas_out() -> None:
    """Make pyarrow look for pandas now and find none; later imports of pandas by other code still work.

    pyarrow looks once, at the first list that it gets, and loads pandas if it is installed: .4 s of CPU and 50 MB.
    After this `to_pandas` of pyarrow fails in this process, which does not need it.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


CHUNK_FRAMES, CHUNK_BYTES, CHUNK_SECONDS = 512, 500_000, 0.005
PIPE_BYTES = 1 << 20  # largest size of a Linux pipe without privileges
PONG_SECONDS = 60.0  # pongs are missed while the socket is not read: a slow store (20 s) does not mean a dead peer
FRAMES, COLUMNS, OPEN, END = b"F", b"C", b"O", b"E"
SIZE_TYPE = "I"
_HEADER = Struct("<cII")
PROJECT = Path(__file__).resolve().parents[2]


class CursorTooOld(ConnectionRefusedError):
    """A v2 server no longer holds the events after the requested number."""


class FrameTooLarge(ConnectionResetError):
    """The next frame is larger than the limit of this connection."""


class Straight(connect):
    """A connection only to the host that the operator named: a redirect counts as a refusal.

    websockets would follow ten redirects to any address, also inside the operator's own network.
    """

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class Relay:
    """The frames of one connection in chunks: `async with Relay(...) as relay: async for chunk in relay`.

    A chunk is a set of columns if `reads` is set and all of its frames are commits, else a list of bytes.

    Entering waits until the connection stands. Raises CursorTooOld, FrameTooLarge, another OSError if the peer does not
    answer or the connection broke, ValueError if the address is invalid. It ends when the peer closes the connection in
    good order. Leaving ends the process.
    """

    def __init__(self, address: str, largest_frame: int, reads: bool = True) -> None:
        self._command = [
            sys.executable,
            "-m",
            "ingest.stream.socket_process",
            address,
            str(largest_frame),
            str(int(reads)),
        ]

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
            await self._read_next()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    async def __aiter__(self) -> AsyncIterator[list[bytes] | Events]:
        while (frames := await self._read_next()) is not None:
            yield frames

    def _end(self) -> None:
        self._process.kill()
        if hasattr(self, "_transport"):
            self._transport.close()
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    async def _read_next(self) -> list[bytes] | Events | None:
        """Return the next frames, an empty list once the connection stands, or None if it ended in good order."""
        try:
            letter, count, size = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            sizes = array(SIZE_TYPE, await self._reader.readexactly(count * array(SIZE_TYPE).itemsize))
            data = await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the process that reads the socket ended") from None
        if letter == END:
            return _raise_end(**json.loads(data))
        if letter == COLUMNS:
            return Events(pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(data), SCHEMA)]))
        frames, begin = [], 0
        for size in sizes:
            frames.append(data[begin : begin + size])
            begin += size
        return frames


def _raise_end(kind: str, text: str) -> None:
    errors = {"address": ValueError, "old": CursorTooOld, "large": FrameTooLarge, "lost": ConnectionResetError}
    if kind != "closed":
        raise errors[kind](text)


class Messages(ClientConnection):
    """A connection that passes on each message at once; the library's queue and turns would cost 1.3 µs."""

    def __init__(self, deliver: Callable[[bytes], None], protocol: ClientProtocol, **options: Any) -> None:
        super().__init__(protocol, **options)
        self._deliver = deliver
        self._fragments = bytearray()  # start of a message in fragments; the protocol bounds the message

    def process_event(self, event: Event) -> None:
        if not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
        elif event.fin and not self._fragments:
            self._deliver(cast(bytes, event.data))  # a bytearray, which is read like bytes
        else:
            self._fragments += event.data
            if event.fin:
                message, self._fragments = self._fragments, bytearray()
                self._deliver(bytes(message))


class _Pipe(asyncio.BaseProtocol):
    """Frames on their way to the parent: passed on at once if there are many, else soon after the first.

    While something waits before the full pipe the socket is not read. Nothing is written before `open`: the first
    frames may come with the answer to the handshake.
    """

    def __init__(self, reads: bool) -> None:
        self._reads = reads
        self._frames: list[bytes] = []
        self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._source: asyncio.Transport | None = None
        self._drained = asyncio.Event()
        self._drained.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.set_write_buffer_limits(high=0)  # the pipe is the buffer: bytes in it count as drained

    def pause_writing(self) -> None:
        self._drained.clear()
        if self._source:
            self._source.pause_reading()

    def resume_writing(self) -> None:
        self._drained.set()
        if self._source:
            self._source.resume_reading()

    def open(self, source: asyncio.Transport) -> None:
        self._source = source
        self._write(OPEN)
        self._flush()

    async def end(self, kind: str, text: str) -> None:
        """Pass on the remaining frames and the reason of the end; return once all of it lies in the pipe."""
        self._flush()
        self._source = None
        self._write(END, json.dumps({"kind": kind, "text": text[:300]}).encode())
        await self._drained.wait()

    def put(self, frame: bytes) -> None:
        if not self._frames:
            self._loop.call_later(CHUNK_SECONDS, self._flush)
        self._frames.append(frame)
        self._bytes += len(frame)
        if len(self._frames) >= CHUNK_FRAMES or self._bytes >= CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._source is None or not self._frames:
            return
        frames, self._frames, self._bytes = self._frames, [], 0
        for begin in range(0, len(frames), CHUNK_FRAMES):
            self._hand_on(frames[begin : begin + CHUNK_FRAMES])

    def _hand_on(self, frames: list[bytes]) -> None:
        events = read_commits(frames) if self._reads else None
        if events is not None:
            self._write(COLUMNS, memoryview(events.table.to_batches()[0].serialize()))
        else:
            self._write(FRAMES, b"".join(frames), array(SIZE_TYPE, map(len, frames)))

    def _write(self, letter: bytes, data: bytes | memoryview = b"", sizes: array | tuple[()] = ()) -> None:
        self._transport.write(b"".join((_HEADER.pack(letter, len(sizes), len(data)), bytes(sizes), data)))


async def _relay(address: str, largest_frame: int, reads: bool) -> None:
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), os._exit, 0)  # nothing is ever sent, so input means that the parent is gone
    with contextlib.suppress(OSError):  # a smaller pipe only makes more turns
        fcntl.fcntl(sys.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    _, pipe = await loop.connect_write_pipe(lambda: _Pipe(reads), sys.stdout)
    await pipe.end(*await _relay_until_end(address, largest_frame, pipe))


async def _relay_until_end(address: str, largest_frame: int, pipe: _Pipe) -> tuple[str, str]:
    connection = cast(type[ClientConnection], partial(Messages, pipe.put))
    try:
        async with Straight(
            address,
            compression=None,
            create_connection=connection,
            max_size=largest_frame,
            ping_timeout=PONG_SECONDS,
            close_timeout=1.0,
        ) as socket:
            pipe.open(socket.transport)
            await socket.recv()  # returns no message; it ends with the connection
    except ConnectionClosedOK as closed:
        return "closed", str(closed)
    except InvalidStatus as refused:
        return ("old" if _is_cursor_too_old(refused) else "lost"), str(refused)
    except (OSError, WebSocketException) as error:
        return ("large" if _is_too_large(error) else "lost"), plain(error)
    except (ValueError, ImportError) as error:  # an invalid address; a SOCKS proxy, which needs another package
        return "address", str(error)
    return "closed", ""


def _is_cursor_too_old(refused: InvalidStatus) -> bool:
    return refused.response.status_code == 400 and b"CursorTooOld" in bytes(refused.response.body or b"")[:4096]


def _is_too_large(error: Exception) -> bool:
    if not isinstance(error, ConnectionClosedError) or error.sent is None:
        return False
    return error.sent.code == CloseCode.MESSAGE_TOO_BIG


if __name__ == "__main__":
    leave_pandas_out()
    gc.freeze()  # loaded modules stay: the collector need not scan them with every 70,000 frames
    asyncio.run(_relay(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"))
    os._exit(0)  # what is frozen is not taken down: DuckDB's binding would tell of it as leaked
