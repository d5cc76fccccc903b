"""Serve labels: `com.atproto.label.subscribeLabels` over WebSocket, `queryLabels` over HTTP, on one port.

Both are public and need no account. The table is the buffer: each subscriber has only a place in it, and is sent the
next labels once their socket has taken the last ones. So a slow one costs no memory, and is dropped when it takes
nothing for half a minute. Sources: atproto.com/specs/event-stream and /specs/label.

This file is the program of a process of its own (`ingest/labels/process.py`), without Django: strangers can slow down
this process, not the worker. It ends with the process that started it, because its standard input ends then.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
import resource
import socket
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import DATA_OPCODES, Frame
from websockets.http11 import Request, Response
from websockets.protocol import Event

from ingest.labels.keys import LabelKeyProblem
from ingest.labels.signing import as_json, error_frame, message_frame
from ingest.labels.table import LabelTable, SignedLabel

SUBSCRIBE, QUERY = "/xrpc/com.atproto.label.subscribeLabels", "/xrpc/com.atproto.label.queryLabels"
CONNECTIONS, CONNECTIONS_OF_ONE = 200, 20  # at once: of all, and of one address (IPv6: of one /64)
OPEN_SECONDS = 10.0  # for the head of a request
SLOW_SECONDS = 30.0  # after which somebody who takes nothing is dropped
POLL_SECONDS = 0.5
BUFFER_BYTES = 65_536  # of the kernel for each client, which would grow to 4 MB for one that does not read
PAGE = 100  # labels that are read at once for one subscriber
PATTERNS, SOURCES, LIMIT, USUAL_LIMIT = 20, 20, 250, 50  # of one query; the lexicon has the last two
LONGEST_PATTERN = 2_048
LARGEST_SEQ = 2**53 - 1
MEMORY_BYTES = 1 << 30  # address space, most of which is never touched
DAY = 86_400_000_000  # microseconds
WINDOW_DAYS = 30  # labels expire after as many days, and with them what takes them back
log = logging.getLogger("sunstead.labels")


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All that the process is told. `source` is the DID that labels; only `proxy` is believed about addresses."""

    host: str
    port: int
    database: str
    key: str
    source: str
    proxy: str = ""
    slow_seconds: float = SLOW_SECONDS


class BadRequest(ValueError):
    """The request cannot be answered; the message is a sentence for its sender."""


def now_us() -> int:
    return time.time_ns() // 1_000


class Places:
    """Counts the connections at once, of all and of each address."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._all = 0

    def enter(self) -> bool:
        if self._all >= CONNECTIONS:
            return False
        self._all += 1
        return True

    def leave(self) -> None:
        self._all -= 1

    def take(self, address: str) -> bool:
        if self._taken[address] >= CONNECTIONS_OF_ONE:
            return False
        self._taken[address] += 1
        return True

    def give_back(self, address: str) -> None:
        self._taken[address] -= 1
        if not self._taken[address]:
            del self._taken[address]


class Client(ServerConnection):
    """A connection that counts from its first byte on. Frames that a subscriber sends are ignored."""

    def __init__(self, places: Places, proxy: str, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places, self._proxy = places, proxy
        self._is_in, self._address = False, ""
        self.cursor: int | None = None  # from which they want labels; None: from now on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._is_in = self._places.enter()
        peer = transport.get_extra_info("peername")[0]
        if not self._is_in or (peer != self._proxy and not self._take(peer)):
            cast(asyncio.Transport, transport).abort()

    def take_place(self, request: Request) -> bool:
        """Count somebody behind the proxy; return False where their address has too many connections."""
        forwarded = request.headers.get_all("X-Forwarded-For") if not self._address else []
        names = [name.strip() for name in ",".join(forwarded).split(",")]
        return bool(self._address) or self._take(names[-1] or self._proxy)

    def _take(self, address: str) -> bool:
        key = _group(address)
        if not self._places.take(key):
            return False
        self._address = key
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_in:
            self._places.leave()
        if self._address:
            self._places.give_back(self._address)
        super().connection_lost(exc)

    def process_event(self, event: Event) -> None:
        if not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)


def _group(address: str) -> str:
    """Return the address under which somebody is counted: one person has a whole /64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))


@dataclass(frozen=True, slots=True)
class Query:
    """A query for labels, within its bounds."""

    patterns: tuple[str, ...]
    sources: tuple[str, ...]
    limit: int
    after: str  # the URI of the last label that was read


def parse_cursor(text: str) -> int:
    """Return a seq from a request. Raises BadRequest."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= LARGEST_SEQ):
        raise BadRequest("cursor must be a whole number that this service gave, or 0.")
    return int(text)


def parse_query(text: str) -> Query:
    """Read the parameters of a query. Raises BadRequest."""
    try:
        values = parse_qs(text, keep_blank_values=True, max_num_fields=PATTERNS + SOURCES + 10)
    except ValueError:
        raise BadRequest("There are too many parameters.") from None
    patterns, sources = values.get("uriPatterns", []), values.get("sources", [])
    if not 0 < len(patterns) <= PATTERNS or len(sources) > SOURCES:
        raise BadRequest(f"Name 1 to {PATTERNS} uriPatterns, and at most {SOURCES} sources.")
    if any(len(pattern) > LONGEST_PATTERN or "*" in pattern[:-1] or not pattern for pattern in patterns):
        raise BadRequest("Each of uriPatterns is a URI, or a prefix of one with * at its end.")
    limit = values.get("limit", [str(USUAL_LIMIT)])[-1]
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= LIMIT):
        raise BadRequest(f"limit must be a number from 1 to {LIMIT}.")
    after = values.get("cursor", [""])[-1]
    if after and not (after.startswith("at://") and len(after) <= LONGEST_PATTERN):
        raise BadRequest("cursor must be one that this service gave.")
    return Query(tuple(patterns), tuple(sources), int(limit), after)


class Labeler:
    """The server of one table, from `run` until its standard input ends."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._table = LabelTable(Path(config.database), config.source, Path(config.key))
        self._newest = self._table.newest()
        self._news = asyncio.Event()

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until `ended` is set. Raises OSError if the address cannot be listened on."""
        config, places = self._config, Places()
        async with serve(
            self._feed,
            config.host,
            config.port,
            process_request=self._answer,
            create_connection=cast(type[ServerConnection], partial(Client, places, config.proxy)),
            compression=None,
            open_timeout=OPEN_SECONDS,
            max_size=1_024,
            max_queue=1,
            server_header=None,
        ) as server:
            watching = asyncio.create_task(self._watch())
            await ended.wait()
            watching.cancel()
            # Without a close frame: the reference client ends after one, and comes back after a broken connection.
            for connection in server.connections:
                connection.transport.abort()

    async def _watch(self) -> None:
        """Wake the subscribers when there are new labels."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                newest = self._table.newest()
            except sqlite3.Error as problem:
                log.warning("labels cannot be read now: %s", problem)
                continue
            if newest != self._newest:
                self._newest = newest
                news, self._news = self._news, asyncio.Event()
                news.set()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a query or a bad request; None lets somebody subscribe."""
        path, _, parameters = request.path.partition("?")
        client = cast(Client, connection)
        if not client.take_place(request):
            return _refuse(HTTPStatus.TOO_MANY_REQUESTS, "RateLimitExceeded", "Your address has too many connections.")
        try:
            if path == SUBSCRIBE:
                client.cursor = _cursor_of(parameters)
                return None
            if path == QUERY:
                return _as_response(HTTPStatus.OK, self._find(parse_query(parameters)))
        except BadRequest as problem:
            return _refuse(HTTPStatus.BAD_REQUEST, "InvalidRequest", str(problem))
        except (sqlite3.Error, LabelKeyProblem) as problem:
            log.error("a query was not answered: %s", problem)
            return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", "Labels cannot be read now.")
        return _refuse(HTTPStatus.NOT_FOUND, "MethodNotImplemented", "This service has labels alone.")

    def _find(self, query: Query) -> Mapping[str, Any]:
        if query.sources and self._config.source not in query.sources:
            return {"labels": []}
        found = self._table.find(query.patterns, query.after, now_us(), query.limit)
        labels = [as_json(label.fields, label.signature) for label in found]
        return {"labels": labels} | ({"cursor": found[-1].fields["uri"]} if len(found) == query.limit else {})

    async def _feed(self, connection: ServerConnection) -> None:
        """Send one subscriber all labels after their cursor, and new ones until they leave."""
        try:
            cursor = await self._begin(connection, cast(Client, connection).cursor)
            while cursor is not None:
                news = self._news  # before the reading, so that nothing is written between both unseen
                labels = self._table.read_after(cursor, PAGE)
                for label in labels:
                    await self._send(connection, _label_frame(label))
                    cursor = label.seq
                if not labels:
                    await _either(news, connection)
        except ConnectionClosed:
            return
        except TimeoutError:
            connection.transport.abort()
        except (sqlite3.Error, LabelKeyProblem) as problem:
            log.error("a subscriber was sent away: %s", problem)
            connection.transport.abort()

    async def _begin(self, connection: ServerConnection, wanted: int | None) -> int | None:
        """Return the cursor from which to send, None where it was refused."""
        now = now_us()
        if wanted is None:
            return self._table.newest()
        # After a restored backup the table may not reach the cursor; what comes next gets the time as its seq.
        if wanted > max(self._table.newest(), now):
            await self._send(connection, error_frame("FutureCursor", "The cursor lies in the future."))
            await connection.close()
            return None
        if 0 < wanted < now - WINDOW_DAYS * DAY:
            text = f"What is older than {WINDOW_DAYS} days is not all here any more."
            await self._send(connection, message_frame("#info", {"name": "OutdatedCursor", "message": text}))
        return wanted

    async def _send(self, connection: ServerConnection, frame: bytes) -> None:
        async with asyncio.timeout(self._config.slow_seconds):
            await connection.send(frame)


def _cursor_of(parameters: str) -> int | None:
    """Return the cursor of a subscription, None where it has none. Raises BadRequest."""
    try:
        values = parse_qs(parameters, keep_blank_values=True, max_num_fields=10).get("cursor", [])
    except ValueError:
        raise BadRequest("There are too many parameters.") from None
    return parse_cursor(values[-1]) if values and values[-1] else None


def _label_frame(label: SignedLabel) -> bytes:
    return message_frame("#labels", {"seq": label.seq, "labels": [{**label.fields, "sig": label.signature}]})


async def _either(news: asyncio.Event, connection: ServerConnection) -> None:
    """Wait for news, or for the end of the connection, which the next sending tells."""
    waiting = asyncio.create_task(news.wait())
    closing = asyncio.create_task(connection.wait_closed())
    try:
        await asyncio.wait([waiting, closing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        closing.cancel()
    if closing.done() and not closing.cancelled():
        raise connection.protocol.close_exc


def _refuse(status: HTTPStatus, name: str, text: str) -> Response:
    return _as_response(status, {"error": name, "message": text})


def _as_response(status: HTTPStatus, body: Mapping[str, Any]) -> Response:
    data = json.dumps(body).encode()
    headers = Headers(
        {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            "Connection": "close",
            "Access-Control-Allow-Origin": "*",  # public, and no answer depends on who asks
            "X-Content-Type-Options": "nosniff",
        }
    )
    return Response(status.value, status.phrase, headers, data)


def _is_ours(record: logging.LogRecord) -> bool:
    """Keep what websockets logs about errors of this program, not the many about strangers' connections."""
    return str(record.msg) in ("process_request failed", "connection handler failed")


async def _serve_until_end(config: Config) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # nothing is ever sent: input means that the parent is gone
    await Labeler(config).run(ended)


def main(text: str) -> int:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("websockets.server").addFilter(_is_ours)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    config = msgspec.json.decode(text, type=Config)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve_until_end(config))
    except (OSError, sqlite3.Error) as problem:
        log.error("labels cannot be served at %s:%d: %s", config.host, config.port, problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
