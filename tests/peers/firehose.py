"""From the data server's own firehose to Jetstream v1: CBOR frames with CAR blocks in, one JSON text a record out.

Wire formats: com.atproto.sync.subscribeRepos, and facts on `/subscribe`: `time_us` is when the frame was first seen.
"""

import asyncio
import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import libipld
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.waiting import LONG_SECONDS

Frame = dict[str, Any]


class Shim:
    """Follows firehoses and serves what they carried as `/subscribe` on 127.0.0.1, from the first frame on."""

    def __init__(self, firehose: str) -> None:
        self._first = firehose
        self.frames: list[Frame] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="firehose shim", daemon=True)
        self._ready = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        """The address to subscribe to."""
        return f"ws://127.0.0.1:{self.port}/subscribe"

    def start(self) -> Self:
        """Returns once clients can connect."""
        self._thread.start()
        assert self._ready.wait(LONG_SECONDS), "the shim did not start"
        return self

    def follow(self, firehose: str) -> None:
        """Follow one more."""
        asyncio.run_coroutine_threadsafe(self._begin(firehose), self._loop).result(LONG_SECONDS)

    def wait_for(self, did: str, count: int, seconds: float = LONG_SECONDS) -> None:
        """Return when so many commits of this account came by."""
        ends = time.monotonic() + seconds
        while sum(frame["did"] == did and frame["kind"] == "commit" for frame in list(self.frames)) < count:
            assert time.monotonic() < ends, f"the firehose brought fewer than {count} commits of {did}"
            time.sleep(0.02)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop, self._news = asyncio.Event(), asyncio.Condition()
        async with serve(self._play, "127.0.0.1", 0, compression=None, close_timeout=1) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._followers: list[asyncio.Task[None]] = []
            await self._begin(self._first)
            self._ready.set()
            await self._stop.wait()
            async with self._news:
                self._news.notify_all()
            for follower in self._followers:
                follower.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                    await follower

    async def _begin(self, firehose: str) -> None:
        self._followers.append(asyncio.create_task(self._follow(firehose)))

    async def _follow(self, firehose: str) -> None:
        async with connect(firehose, compression=None, max_size=None) as socket:
            async for message in socket:
                assert isinstance(message, bytes)
                frames = list(jetstream_frames(message, self._next_time()))
                async with self._news:
                    self.frames += frames
                    self._news.notify_all()

    def _next_time(self) -> int:
        newest = self.frames[-1]["time_us"] if self.frames else 0
        return max(time.time_ns() // 1000, newest + 1)

    async def _play(self, connection: ServerConnection) -> None:
        query = parse_qs(urlsplit(connection.request.path if connection.request else "").query)
        cursor = int(query.get("cursor", [str(time.time_ns() // 1000)])[0])
        position = 0
        with contextlib.suppress(ConnectionClosed):
            while not self._stop.is_set():
                for frame in self.frames[position:]:
                    if frame["time_us"] >= cursor:
                        await connection.send(json.dumps(frame))
                position = len(self.frames)
                async with self._news:
                    await self._news.wait_for(lambda sent=position: len(self.frames) > sent or self._stop.is_set())


def jetstream_frames(message: bytes, time_us: int) -> Iterator[Frame]:
    """What one firehose message becomes: a frame a record, `time_us` counted up from the one given."""
    header, body = libipld.decode_dag_cbor_multi(message)
    kind = header.get("t")
    if kind == "#commit":
        _, blocks = libipld.decode_car(body["blocks"])
        known = {libipld.encode_cid(cid) if isinstance(cid, bytes) else cid: block for cid, block in blocks.items()}
        for place, operation in enumerate(body["ops"]):
            yield _commit(body, operation, known, time_us + place)
    elif kind == "#identity":
        part = {name: body[name] for name in ("did", "handle", "seq", "time") if name in body}
        yield {"did": body["did"], "time_us": time_us, "kind": "identity", "identity": part}
    elif kind == "#account":
        part = {name: body[name] for name in ("active", "did", "seq", "time", "status") if name in body}
        yield {"did": body["did"], "time_us": time_us, "kind": "account", "account": part}


def _commit(body: Frame, operation: Frame, blocks: dict[str, Any], time_us: int) -> Frame:
    collection, rkey = operation["path"].split("/", 1)
    commit: Frame = {"rev": body["rev"], "operation": operation["action"], "collection": collection, "rkey": rkey}
    if operation["action"] != "delete":
        cid = cid_text(operation["cid"])
        commit |= {"record": as_json(blocks[cid]), "cid": cid}
    return {"did": body["repo"], "time_us": time_us, "kind": "commit", "commit": commit}


def cid_text(cid: object) -> str:
    """A CID as text, whichever way the decoder gives it."""
    return libipld.encode_cid(cid) if isinstance(cid, bytes) else str(cid)


def as_json(value: object) -> object:
    """A record's data model as JSON: links and bytes become objects (`$link`, `$bytes`)."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        if value[:1] == b"\x01" and len(value) == 36:  # a CIDv1 of SHA-256, as libipld gives links
            return {"$link": libipld.encode_cid(value)}
        return {"$bytes": base64.b64encode(value).decode().rstrip("=")}
    return value
