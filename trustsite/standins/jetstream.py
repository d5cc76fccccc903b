"""A loopback Jetstream: it serves a recording over the v1 WebSocket `/subscribe`, in stages if a demonstration needs
them.
"""

import asyncio
import re
import struct
import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.protocol import OPEN

from trustsite.standins.recording import Recording

SEGMENT = r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
COLLECTION = re.compile(rf"{SEGMENT}(\.{SEGMENT})+(\.\*)?")
DID = re.compile(r"did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]")
COLLECTIONS_LIMIT, DIDS_LIMIT = 100, 10_000  # limits of the real server
BATCH = 256  # frames a write: at 700 bytes each about the size of one socket buffer
TEXT, BINARY = 0x81, 0x82


class SubscriptionProblem(ValueError):
    """The real server refuses this subscription with 400; the message is its body."""


@dataclass(frozen=True)
class Subscription:
    """One client's subscription; None means everything, a cursor of None the live tail."""

    cursor: int | None
    collections: frozenset[str] | None  # names that occur in the recording and are wanted
    dids: frozenset[str] | None

    def wants(self, collection: str | None, did: str | None) -> bool:
        """Return True if a frame goes out: identity and account events (no collection) pass unless DIDs are named."""
        if self.collections is not None and collection is not None and collection not in self.collections:
            return False
        return self.dids is None or did is None or did in self.dids


def read_subscription(path: str, known_collections: frozenset[str]) -> Subscription:
    """Return the subscription in a path; `known` are the recording's collections. Raises SubscriptionProblem."""
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if "compress" in query and query["compress"][0] == "true":
        raise SubscriptionProblem("this stand-in sends plain text: leave compress out")
    return Subscription(
        cursor=_read_cursor(query),
        collections=_read_collections(query, known_collections),
        dids=_read_dids(query),
    )


class Jetstream:
    """Serve `recording` on 127.0.0.1 from its own thread until it is closed; any number of clients.

    Only the first `hold_after` frames go out until `release` lets more go; None sends all. As on the real server a
    cursor is inclusive, a too old one starts at the oldest frame, and none means the live tail: only frames that are
    released later.
    """

    path = "/subscribe"

    def __init__(self, recording: Recording, hold_after: int | None = None, ping_interval: float = 20.0) -> None:
        self._recording = recording
        self._known = frozenset(name for name in set(recording.collections) if name is not None)
        self._released = self._clamp(hold_after)
        self._ping_interval = ping_interval
        self._loop = asyncio.new_event_loop()
        self._changed: asyncio.Future[None] = self._loop.create_future()
        self._ready = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="stand-in jetstream", daemon=True)
        self._server: Server
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{self.path}"

    @property
    def released(self) -> int:
        return self._released

    @property
    def connections(self) -> int:
        return len(self._server.connections)

    def start(self) -> Self:
        """Listen on a free port; return once clients can connect."""
        self._thread.start()
        self._ready.wait()
        if self._failure:
            raise self._failure
        return self

    def release(self, until: int | None) -> None:
        """Let the first `until` frames go out, all of them for None; a released frame cannot be taken back."""
        self._released = max(self._released, self._clamp(until))
        self._loop.call_soon_threadsafe(self._announce)

    def drop_connections(self) -> None:
        """Cut every open connection without a closing handshake, like a failing network."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _clamp(self, until: int | None) -> int:
        count = len(self._recording.frames)
        return count if until is None else max(0, min(until, count))

    def _run(self) -> None:
        # A runner also ends connections that a client began while the server was closing.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        try:
            server = await serve(
                self._play,
                "127.0.0.1",
                0,
                process_request=self._admit,
                compression=None,
                ping_interval=self._ping_interval,
                ping_timeout=None,
                close_timeout=1,
            )
        except OSError as problem:
            self._failure = problem
            self._ready.set()
            return
        async with server:
            self._server = server
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop.wait()
            self._abort_all()

    def _announce(self) -> None:
        waiting, self._changed = self._changed, self._loop.create_future()
        waiting.set_result(None)

    def _abort_all(self) -> None:
        for connection in list(self._server.connections):
            connection.transport.abort()

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if urlsplit(request.path).path != self.path:
            return connection.respond(HTTPStatus.NOT_FOUND, "404 page not found\n")
        try:
            self._read(request.path)
        except SubscriptionProblem as problem:
            return self._refuse(connection, problem)
        return None

    def _read(self, path: str) -> Subscription:
        return read_subscription(path, self._known)

    def _refuse(self, connection: ServerConnection, problem: SubscriptionProblem) -> Response:
        return connection.respond(HTTPStatus.BAD_REQUEST, f"{problem}\n")

    async def _play(self, connection: ServerConnection) -> None:
        request = connection.request
        subscription = self._read(request.path if request else "")
        position = self._start(subscription.cursor)
        await self._greet(connection, subscription)
        closed = asyncio.ensure_future(connection.wait_closed())
        while connection.state is OPEN:
            changed = self._changed
            position = await self._send(connection, subscription, position)
            if position >= self._released:
                await asyncio.wait({closed, changed}, return_when=asyncio.FIRST_COMPLETED)

    async def _greet(self, connection: ServerConnection, subscription: Subscription) -> None:
        """Send messages before the first event: none in v1."""

    def _start(self, cursor: int | None) -> int:
        if cursor is None:
            return self._released
        # A cursor in the future is the live tail too.
        return min(bisect_left(self._recording.times, cursor), self._released)

    async def _send(self, connection: ServerConnection, subscription: Subscription, position: int) -> int:
        """Send the released frames from `position` on, at the pace of the client; return the new position."""
        while position < self._released and connection.state is OPEN:
            end = min(position + BATCH, self._released)
            wire = self._wire(subscription, position, end)
            if wire:
                # One write for many frames: connection.send() for each reaches less than half the rate.
                connection.transport.write(wire)
                await connection.drain()
            await asyncio.sleep(
                0
            )  # drain() does not yield while the buffer has room, but pings and other clients need a turn
            position = end
        return position

    def _wire(self, subscription: Subscription, begin: int, end: int) -> bytes:
        frames = self._recording.frames[begin:end]
        if subscription.collections is None and subscription.dids is None:
            return b"".join(map(encode_frame, frames))
        heads = zip(frames, self._recording.collections[begin:end], self._recording.dids[begin:end], strict=True)
        return b"".join(encode_frame(frame) for frame, collection, did in heads if subscription.wants(collection, did))


def encode_frame(payload: bytes) -> bytes:
    """Return `payload` as one unmasked WebSocket text frame; binary if it is not UTF-8, which a text frame must be."""
    kind = TEXT
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError:
            kind = BINARY
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", kind, size) + payload
    if size < 65_536:
        return struct.pack("!BBH", kind, 126, size) + payload
    return struct.pack("!BBQ", kind, 127, size) + payload


def _read_cursor(query: Mapping[str, list[str]]) -> int | None:
    text = query.get("cursor", [""])[0]
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,19}", text):
        raise SubscriptionProblem(f"invalid cursor: {text}")
    return int(text)


def _read_collections(query: Mapping[str, list[str]], known_collections: frozenset[str]) -> frozenset[str] | None:
    wanted = {name for name in query.get("wantedCollections", []) if name}
    if not wanted:
        return None
    if len(wanted) > COLLECTIONS_LIMIT:
        raise SubscriptionProblem(f"too many wanted collections: {len(wanted)}")
    for name in wanted:
        if not COLLECTION.fullmatch(name):
            raise SubscriptionProblem(f"invalid collection: {name}")
    prefixes = tuple(name[:-1] for name in wanted if name.endswith(".*"))
    return frozenset(name for name in known_collections if name in wanted or name.startswith(prefixes))


def _read_dids(query: Mapping[str, list[str]]) -> frozenset[str] | None:
    wanted = {did for did in query.get("wantedDids", []) if did}
    if len(wanted) > DIDS_LIMIT:
        raise SubscriptionProblem(f"too many wanted DIDs: {len(wanted)}")
    for did in wanted:
        if not DID.fullmatch(did):
            raise SubscriptionProblem(f"invalid DID: {did}")
    return frozenset(wanted) or None
