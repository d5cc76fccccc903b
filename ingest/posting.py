"""Sending JSON to the one receiver that whoever runs this site named: any address, its name proven by TLS, on a leash.

Unlike what ingest/net.py fetches, the address is the operator's own and may be private. What comes back is a stranger's
all the same: it is bounded in time and bytes, and of it only the status and Retry-After are looked at.
"""

import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import urllib3

from ingest.addresses import MOST, AddressBook, Resolver, resolve_name
from ingest.manners import after_seconds
from ingest.net import USER_AGENT, public_authorities
from ingest.plain_words import FetchProblem
from ingest.wire import STEP_SECONDS, Leash, LeashedTLS, PinnedPool, StandInPool, running

SECONDS = 10.0  # for one request, from the look-up of the name to the last byte
ANSWER_LIMIT = 16 * 1024  # bytes of an answer that are read, so that the receiver can finish writing it
_URL = re.compile(
    r"(?:https://(?P<host>[A-Za-z0-9.-]{1,253})(?::(?P<port>[0-9]{1,5}))?|http://127\.0\.0\.1:(?P<local>[0-9]{1,5}))"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a receiver answered: its status, and the seconds that it asks to be left alone (at most 6 hours)."""

    status: int
    after: float | None

    @property
    def is_taken(self) -> bool:
        """Whether it took what was sent: any status from 200 to 299."""
        return 200 <= self.status < 300


class Receiver:
    """The receiver at `url`: https with any port and path, or http on 127.0.0.1; ValueError for anything else.

    `leash` makes the leash of one request. `resolver` looks names up, `context` holds the authorities that certificates
    are checked against. Every request has a connection of its own.
    """

    def __init__(
        self,
        url: str,
        leash: Callable[[float], Leash],
        *,
        resolver: Resolver = resolve_name,
        context: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        parts = _URL.fullmatch(url)
        if parts is None:
            raise ValueError("a receiver is https://host/path, or http://127.0.0.1:port/path")
        self.host, self._path = parts["host"] or "127.0.0.1", parts["path"] or "/"
        self._port = int(parts["local"] or parts["port"] or 443)
        self._is_tls = parts["local"] is None
        self._leash, self._seconds, self._context = leash, seconds, context
        self._book = AddressBook(resolver, None, public_only=False)

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answered:
        """Send JSON once; what was answered, whatever it is. No redirect is followed. Raises FetchProblem."""
        leash = self._leash(self._seconds)
        token = running.set(leash)
        try:
            with self._pool(leash) as pool:
                return self._send(pool, body, headers, leash)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._explained(error, leash) from None
        finally:
            running.reset(token)

    def _pool(self, leash: Leash) -> urllib3.HTTPConnectionPool:
        if not self._is_tls:
            return StandInPool(self.host, self._port)
        found = self._book.addresses(self.host, min(leash.left(), STEP_SECONDS))
        context = self._context or public_authorities()
        context.sslsocket_class = LeashedTLS
        routes = [(address, self._port) for address in found[:MOST]]
        return PinnedPool(self.host, self._port, ssl_context=context, addresses=routes)

    def _send(
        self, pool: urllib3.HTTPConnectionPool, body: bytes, headers: Mapping[str, str], leash: Leash
    ) -> Answered:
        told = {"User-Agent": USER_AGENT, "Content-Type": "application/json", "Connection": "close", **headers}
        answer = pool.urlopen(
            "POST",
            self._path,
            body=body,
            headers=told,
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=min(leash.left(), STEP_SECONDS),
        )
        leash.allow_body(ANSWER_LIMIT)
        with suppress(urllib3.exceptions.HTTPError, OSError):  # the status is known, and nothing else is wanted
            answer.read(ANSWER_LIMIT, decode_content=False)
        answer.close()
        return Answered(answer.status, after_seconds(answer.headers.get("Retry-After")))

    def _explained(self, error: Exception, leash: Leash) -> FetchProblem:
        """What went wrong below HTTP, as a sentence of our own: the address may hold a secret, the host does not."""
        if leash.closed.is_set():
            return FetchProblem("this process is stopping", retry=True, closed=True)
        if leash.received > leash.budget:
            return FetchProblem(f"{self.host} sent endless headers", too_large=True)
        if time.monotonic() < leash.ends and isinstance(error, urllib3.exceptions.NewConnectionError):
            return FetchProblem(f"{self.host} could not be connected to", retry=True)  # to urllib3 a timeout as well
        if time.monotonic() >= leash.ends or isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
            return FetchProblem(f"{self.host} took too long to answer", retry=True)
        if isinstance(error, urllib3.exceptions.SSLError):
            return FetchProblem(f"{self.host} has no valid certificate for its name")
        return FetchProblem(f"the connection to {self.host} broke ({type(error).__name__})", retry=True)
