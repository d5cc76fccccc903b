"""Event streams of knots and spindles that the operator configured: one thread a host, which survives everything."""

import logging
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from random import SystemRandom

import duckdb
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from ingest.addresses import is_host
from ingest.net import Fetcher
from ingest.plain_words import FetchProblem, plain
from ingest.pushes import Envelope, begin, read_envelope, store_events
from ingest.store import Store
from ingest.unopened import StoreProblem

log = logging.getLogger(__name__)

FLUSH_EVENTS, FLUSH_BYTES, FLUSH_SECONDS = 500, 8_000_000, 1.0
LARGEST_EVENT = 8_000_000  # bytes: a push names every file that it changed
DIAL_SECONDS, PONG_SECONDS, GOODBYE_SECONDS = 5.0, 60.0, 1.0
LONGEST_WAIT_SECONDS = 60.0
_DICE = SystemRandom()  # the generator of the process is others' to seed
_URL = re.compile(
    r"(?P<scheme>wss?)://(?P<host>[a-z0-9.-]{1,253})(?::(?P<port>[1-9][0-9]{0,4}))?(?P<path>/[a-z0-9/._-]*)?"
)


class EventStream(threading.Thread):
    """Reads one host's events until stopped; `on_due` is called where they made look-ups due.

    `url` is wss://HOST (its path is /events unless given) and leads to public addresses only; ws:// is for loopback.
    Raises ValueError for any other.
    """

    def __init__(self, store: Store, fetcher: Fetcher, url: str, on_due: Callable[[], None]) -> None:
        parts = _URL.fullmatch(url.lower())
        if parts is None or (parts["scheme"] == "ws") != (parts["host"] == "127.0.0.1"):
            raise ValueError(f"{url!r} is not an event stream: name it as wss://HOST")
        super().__init__(name=f"events {parts['host']}", daemon=True)
        port = parts["port"]
        self.host = parts["host"] if port is None else f"{parts['host']}:{port}"
        self._address = (parts["host"], int(port or (443 if parts["scheme"] == "wss" else 80)))
        self._url = f"{parts['scheme']}://{self.host}{(parts['path'] or '').rstrip('/') or '/events'}"
        self._given, self._store, self._fetcher, self._on_due = url, store, fetcher, on_due
        self._stopping = threading.Event()
        self.unread = 0  # frames that were no event
        self.problem: str | None = None  # why it is not listening just now, in words

    def run(self) -> None:
        """Connect, read, reconnect; each failure waits longer, up to a minute, with jitter."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._listen()
            except (OSError, WebSocketException, ValueError) as error:
                self.problem = f"{self.host} is not answering ({plain(error)})"
            except FetchProblem as problem:
                self.problem = str(problem)
            except StoreProblem as problem:
                self.problem = str(problem)
            except (duckdb.Error, sqlite3.Error) as error:
                self.problem = f"the store cannot be written ({plain(error)}): free space on the drive, then wait"
            failures = failures + 1 if time.monotonic() - began < LONGEST_WAIT_SECONDS else 1
            if not self._stopping.is_set():
                log.warning("reading events again soon: %s", self.problem)
            self._stopping.wait(min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** min(failures, 10)) * _DICE.uniform(0.5, 1.0))

    def renewed(self) -> "EventStream":
        """A stream of the same host, not started yet, in place of one that ended."""
        return EventStream(self._store, self._fetcher, self._given, self._on_due)

    def interrupt(self) -> None:
        """End without waiting for the thread; what is in hand and not stored comes again."""
        self._stopping.set()

    def _listen(self) -> None:
        """Read until the peer ends. Raises OSError, WebSocketException, FetchProblem and the store's own errors."""
        cursor = begin(self._store, self.host)
        with connect(
            f"{self._url}?cursor={cursor}",
            sock=self._dial(),  # with a socket of its own no redirect is followed
            proxy=None,
            compression=None,
            max_size=LARGEST_EVENT,
            max_queue=4,
            open_timeout=DIAL_SECONDS,
            ping_timeout=PONG_SECONDS,
            close_timeout=GOODBYE_SECONDS,
        ) as opened:
            self.problem = None
            while not self._stopping.is_set():
                events = self._batch(opened)
                if events and store_events(self._store, self.host, events):
                    self._on_due()

    def _dial(self) -> socket.socket:
        """A connection to an address that was checked. Raises OSError or FetchProblem."""
        name, port = self._address
        if name == "127.0.0.1":
            return socket.create_connection((name, port), DIAL_SECONDS)
        if not is_host(name):
            raise FetchProblem(f"{name} is not a host name")
        return socket.create_connection((self._fetcher.addresses(name)[0], port), DIAL_SECONDS)

    def _batch(self, opened: ClientConnection) -> list[Envelope]:
        """What comes within a second, bounded in number and bytes; what came before the peer closed, too."""
        found: list[Envelope] = []
        size, ends = 0, time.monotonic() + FLUSH_SECONDS
        while len(found) < FLUSH_EVENTS and size < FLUSH_BYTES and (rest := ends - time.monotonic()) > 0:
            try:
                frame = opened.recv(timeout=rest)
            except TimeoutError:
                break
            except WebSocketException:
                if found:  # the next call raises it again
                    break
                raise
            size += len(frame)
            event = read_envelope(frame)
            self.unread += event is None
            found += [event] if event else []
        return found
