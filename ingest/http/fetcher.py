"""Fetch from strangers' hosts through one guard, read TXT records, and send JSON to the operator's receiver.

Hosts, paths and answers come from strangers; each is checked before use. A request goes to a public address that was
checked and then pinned, over TLS that proves the name. It follows no redirect and ends after a fixed time and number of
bytes, however slowly or much the peer sends.

TXT records of names that strangers choose are read through the machine's own resolver, bounded in time and number.
The operator names the receiver of JSON: any address, which may be private, with its name proven by TLS. Its answer
still counts as a stranger's: it is bounded in time and bytes, and only the status and Retry-After are used.
"""

import logging
import re
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import dns.exception
import dns.resolver
import msgspec
import urllib3
from urllib3.response import BaseHTTPResponse

from ingest.errors import FetchProblem
from ingest.http.rate_limits import Manners, Shares, after_seconds, limit_seconds
from ingest.http.sockets import (
    HEADER_LIMIT,
    MOST,
    STEP_SECONDS,
    Address,
    AddressBook,
    Leash,
    LeashedTLS,
    Order,
    PinnedPool,
    Resolver,
    Route,
    StandInPool,
    is_fetchable,
    quoted,
    resolve_name,
    running,
    split_url,
)
from ingest.http.sockets import end_within as end_within
from ingest.http.sockets import is_host as is_host
from ingest.json_decoding import decode_json

TEXT_SECONDS = 3.0  # for the whole query, with every repetition
TEXTS = 50  # records of one name that are read
TEXT_LIMIT = 2_500  # characters of one record: "did=" and the longest DID

Texts = Callable[[str], list[str]]


def texts_of(name: str, resolver: dns.resolver.Resolver | None = None) -> list[str]:
    """Return the TXT records of a name, empty if it has none. Raises FetchProblem with `retry` if DNS gives no answer.

    A record's strings are joined, as a text of over 255 bytes needs several.
    """
    try:
        used_resolver = resolver or _system_resolver()
        answer = used_resolver.resolve(f"{name}.", "TXT", lifetime=TEXT_SECONDS, search=False, raise_on_no_answer=False)
    except (dns.resolver.NXDOMAIN, dns.resolver.YXDOMAIN):
        return []
    except (dns.exception.DNSException, OSError, ValueError) as error:
        raise FetchProblem(f"DNS gave no answer for the TXT record of {quoted(name)}", retry=True) from error
    records = [b"".join(record.strings) for record in list(answer.rrset or ())[:TEXTS]]
    return [record.decode("utf-8", "replace")[:TEXT_LIMIT] for record in records]


@cache
def _system_resolver() -> dns.resolver.Resolver:
    """Return the resolver that the machine is configured with. Raises DNSException if it has none."""
    return dns.resolver.Resolver()


USER_AGENT = "Sunstead (pull request triage for Tangled)"
DRAIN_LIMIT = 16 * 1024  # bytes of an error page read so that its connection can be used again
CHUNK = 64 * 1024
KEPT_HEADERS: tuple[str, ...] = ("Content-Type", "DPoP-Nonce", "WWW-Authenticate")  # of an exchange's answer
KEPT_LENGTH = 1_000  # characters of each
PIN_SECONDS = 300.0  # a checked address is used this long, then the name is looked up again
SITES = 64  # hosts with open connections

T = TypeVar("T")
Sent = bytes | Order | None

# urllib3 warns with the peer's headers at full length; the FetchProblem holds everything worth knowing.
logging.getLogger("urllib3").setLevel(logging.ERROR)


@dataclass(frozen=True)
class _Site:
    """The connections to a host, and the time at which its name is looked up again."""

    pool: urllib3.HTTPConnectionPool
    expires: float


@dataclass(frozen=True)
class _Target:
    host: str
    authority: str  # value of the Host header
    path: str


@dataclass(frozen=True)
class Exchanged:
    """An answer of 2xx or 4xx; header names are in lower case, and only those of KEPT_HEADERS are here."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)  # may hold tokens


@cache  # reading them takes 23 ms of CPU
def public_authorities() -> ssl.SSLContext:
    """Return the authorities for certificates that a fetcher uses by default."""
    return ssl.create_default_context()


class Fetcher:
    """Fetch from strangers' hosts over https. Safe to share between threads; close() ends running requests.

    `stand_in` is a loopback origin that answers for every host. `resolver` looks names up, `route` maps a checked
    address and port to the address of the socket, `context` holds the authorities for certificates. `texts` gives the
    TXT records of a name; with a stand-in there are none unless it is given.
    """

    def __init__(
        self,
        stand_in: str | None = None,
        timeout: float = 15.0,
        *,
        resolver: Resolver = resolve_name,
        route: Route | None = None,
        context: ssl.SSLContext | None = None,
        texts: Texts | None = None,
    ) -> None:
        self.stand_in, self.timeout = stand_in, timeout
        self._book = AddressBook(resolver, route)
        self._context = context or public_authorities()
        self._context.sslsocket_class = LeashedTLS
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._sites: OrderedDict[str, _Site] = OrderedDict()
        self.manners = Manners()
        self.shares = Shares()
        self._texts = texts or (texts_of if stand_in is None else lambda _: [])
        self._stand_in_site = _Site(_stand_in_pool(stand_in), float("inf")) if stand_in else None

    @property
    def closed(self) -> bool:
        """Return True if close() was called; every later request is refused."""
        return self._closed.is_set()

    def leash(self, seconds: float) -> Leash:
        """Return a leash for another running request: it ends with this fetcher too."""
        return Leash(seconds, self._closed)

    def left_alone(self) -> list[str]:
        """Return the hosts that get no requests for a while, since they timed out or asked for rest."""
        return sorted(self.manners.quiet())

    def close(self) -> None:
        """Refuse further requests, and end running ones within five seconds."""
        self._closed.set()
        with self._lock:
            sites = [*self._sites.values(), *([self._stand_in_site] if self._stand_in_site else [])]
            self._sites.clear()
        for site in sites:
            site.pool.close()

    def get(self, url: str, limit: int = 1_000_000, seconds: float | None = None, sent: Sent = None) -> bytes:
        """Return the body of a 200 answer, at most `limit` bytes after decompression. Raises FetchProblem.

        `seconds` bounds the whole request from name look-up to the last byte; the default is the fetcher's timeout.
        `sent` is JSON to post, which may be sent twice, or an order.
        """
        with self._leashed(url, limit, seconds) as (target, leash):
            return self._fetch_body(self._find_site(target, leash), target, limit, leash, sent)

    def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        limit: int = 1_000_000,
        seconds: float | None = None,
    ) -> Exchanged:
        """Send a request once and return its answer, also a refusal (4xx), which may have 16 kB. Raises FetchProblem.

        Any other answer is a problem: a redirect, a failure of the server, or 429. `seconds` is as for `get`.
        """
        with self._leashed(url, limit, seconds) as (target, leash):
            answer = self._urlopen(self._find_site(target, leash), method, target, leash, headers, body)
            try:
                is_refusal = 400 <= answer.status < 500 and answer.status != 429
                if not is_refusal and not 200 <= answer.status < 300:
                    raise self._explain_status(answer, target, None)
                kept = {name.lower(): answer.headers.get(name, "")[:KEPT_LENGTH] for name in KEPT_HEADERS}
                read = _read_body(answer, min(limit, DRAIN_LIMIT) if is_refusal else limit, leash, target.host)
                return Exchanged(answer.status, kept, read)
            finally:
                if not answer.closed:
                    answer.close()
                answer.release_conn()

    @contextmanager
    def _leashed(self, url: str, limit: int, seconds: float | None) -> Generator[tuple[_Target, Leash]]:
        """Hold the target's place and the leash of one request; explain what breaks. Raises FetchProblem."""
        target = self._parse_url(url)
        self._refuse_once_closed()
        leash = Leash(min(seconds or self.timeout, self.timeout), self._closed)
        token = running.set(leash)
        try:
            with self.manners.place(target.authority, leash):
                yield target, leash
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._explain(error, target, leash, limit) from None
        finally:
            running.reset(token)

    def get_json(
        self,
        url: str,
        shape: type[T],
        limit: int = 1_000_000,
        sent: Sent = None,
    ) -> T:
        """Return the JSON body as a type that msgspec knows; other fields are dropped. Raises FetchProblem."""
        body = self.get(url, limit, sent=sent)
        try:
            return decode_json(body, shape)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise FetchProblem(f"{self._parse_url(url).host} sent unusable JSON: {quoted(str(error))}") from None

    def texts(self, name: str) -> list[str]:
        """Return the TXT records of a host name, empty if it has none. Raises FetchProblem if DNS gives no answer."""
        self._refuse_once_closed()
        return self._texts(name)

    def rest(self, seconds: float) -> None:
        """Wait between two requests. Raises FetchProblem if the fetcher is closed during the wait."""
        self._closed.wait(seconds)
        self._refuse_once_closed()

    def _parse_url(self, url: str) -> _Target:
        """Return the parts of a URL. Raises FetchProblem unless it is plain https to a named host."""
        parts = split_url(url)
        if parts is None:
            raise FetchProblem(f"not an address that may be fetched: {quoted(url)}")
        host, port, path = parts["host"], parts["port"], parts["path"] or "/"
        authority = host if port in (None, "443") else f"{host}:{port}"
        if self.stand_in is not None and (parts["scheme"] == "https" or self.stand_in == f"http://{authority}"):
            return _Target(host, authority, path)
        if not is_fetchable(url):
            raise FetchProblem(f"only https to a named host at its usual port may be fetched: {quoted(url)}")
        return _Target(host, authority, path)

    def _find_site(self, target: _Target, leash: Leash) -> _Site:
        """Return the pinned connections of a host; if there are none, look up its name and check every address."""
        if self._stand_in_site is not None:
            return self._stand_in_site
        with self._lock:
            site = self._sites.get(target.host)
        if site is not None and site.expires > time.monotonic():
            return site
        new_site = self._open_site(target.host, leash)
        with self._lock:
            self._sites[target.host] = new_site
            self._sites.move_to_end(target.host)
            dropped = [self._sites.popitem(last=False)[1] for _ in range(len(self._sites) - SITES)]
        for old_site in [*dropped, *([site] if site else [])]:
            old_site.pool.close()
        return new_site

    def places(self, host: str) -> list[Address]:
        """Return the checked addresses to which a child that connects itself must be held. Raises FetchProblem."""
        self._refuse_once_closed()
        if not is_host(host):
            raise FetchProblem(f"only a named host may be fetched from: {quoted(host)}")
        return self._book.routes(host, min(self.timeout, STEP_SECONDS))

    def addresses(self, host: str, seconds: float = STEP_SECONDS) -> list[str]:
        """Return the addresses of a host, all of them public. Raises FetchProblem."""
        return self._book.addresses(host, seconds)

    def _open_site(self, host: str, leash: Leash) -> _Site:
        routes = self._book.routes(host, min(leash.left(), STEP_SECONDS))
        pool = PinnedPool(host, 443, maxsize=8, ssl_context=self._context, addresses=routes)
        return _Site(pool, time.monotonic() + PIN_SECONDS)

    def _fetch_body(self, site: _Site, target: _Target, limit: int, leash: Leash, sent: Sent) -> bytes:
        answer = self._send_request(site, target, leash, sent)
        limited = limit_seconds(answer.headers)
        if limited:
            self.manners.hush(target.authority, limited)
        try:
            if answer.status == 200:
                return _read_body(answer, limit, leash, target.host)
            try:
                _read_body(answer, DRAIN_LIMIT, leash, target.host)
            except (FetchProblem, urllib3.exceptions.HTTPError, OSError):
                answer.close()
            raise self._explain_status(answer, target, limited)
        finally:
            if not answer.closed:
                answer.close()
            answer.release_conn()

    def _send_request(self, site: _Site, target: _Target, leash: Leash, sent: Sent) -> BaseHTTPResponse:
        """Send the request; send it again if an open connection turned out to be closed before the first byte."""
        order = sent if isinstance(sent, Order) else Order(sent)
        method = "GET" if order.body is None else "POST"
        try:
            return self._urlopen(site, method, target, leash, order.headers, order.body)
        except urllib3.exceptions.ProtocolError:
            if leash.received or order.once:
                raise
            return self._urlopen(site, method, target, leash, order.headers, order.body)

    def _urlopen(
        self, site: _Site, method: str, target: _Target, leash: Leash, headers: Mapping[str, str], body: bytes | None
    ) -> BaseHTTPResponse:
        own = {"Host": target.authority, "User-Agent": USER_AGENT, "Accept-Encoding": "gzip", "Accept": "*/*"}
        options: dict[str, Any] = {"headers": own | dict(headers), "body": body}
        options |= {"retries": False, "redirect": False, "preload_content": False}
        return site.pool.urlopen(method, target.path, timeout=min(leash.left(), STEP_SECONDS), **options)

    def _explain_status(self, answer: BaseHTTPResponse, target: _Target, limited: float | None) -> FetchProblem:
        """Return the problem for a status other than 200."""
        status = answer.status
        if 300 <= status < 400:
            location = quoted(answer.headers.get("Location", "nowhere"))
            return FetchProblem(f"{target.host} answered {status}, a redirect to {location}", status=status)
        after = after_seconds(answer.headers.get("Retry-After"))
        after = limited if after is None else after
        if status in (429, 503):
            self.manners.hush(target.authority, after if after is not None else 5.0)
        retry = status in (408, 425, 429) or status >= 500 or (status == 403 and limited is not None)
        return FetchProblem(f"{target.host} answered {status}", status=status, retry=retry, after=after)

    def _explain(self, error: Exception, target: _Target, leash: Leash, limit: int) -> FetchProblem:
        """Return a problem below HTTP as a sentence of our own: the address may hold a secret."""
        if self.closed:
            return FetchProblem("the fetcher was closed", retry=True, closed=True)
        if leash.received > leash.budget:
            excess = (
                f"headers over {HEADER_LIMIT} bytes" if leash.budget == HEADER_LIMIT else f"more than {limit} bytes"
            )
            return FetchProblem(f"{target.host} sent {excess}", too_large=True)
        if _timed_out(error, leash) and not leash.is_shortened:
            self.manners.note_stall(target.authority)
        return _explain_broken(error, target.host, leash)

    def _refuse_once_closed(self) -> None:
        if self.closed:
            raise FetchProblem("the fetcher was closed", retry=True, closed=True)


def _timed_out(error: Exception, leash: Leash) -> bool:
    """Return True if the peer took too long; urllib3 also calls a connection that is refused in time a timeout."""
    if time.monotonic() >= leash.ends:
        return True
    is_refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    return not is_refused and isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError)


def _explain_broken(error: Exception, host: str, leash: Leash) -> FetchProblem:
    """Return the reason of a broken connection, in a sentence that names only the host."""
    if _timed_out(error, leash):
        return FetchProblem(f"{host} took too long to answer", retry=True)
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return FetchProblem(f"{host} could not be connected to", retry=True)
    if isinstance(error, urllib3.exceptions.SSLError):
        return FetchProblem(f"{host} has no valid certificate for its name")
    return FetchProblem(f"the connection to {host} broke ({type(error).__name__})", retry=True)


def _stand_in_pool(origin: str) -> StandInPool:
    parts = re.fullmatch(r"http://127\.0\.0\.1:([0-9]{1,5})", origin)
    if parts is None:
        raise ValueError(f"a stand-in is http://127.0.0.1:<port>, not {origin!r}")
    return StandInPool("127.0.0.1", int(parts[1]), maxsize=32)


def _read_body(answer: BaseHTTPResponse, limit: int, leash: Leash, host: str) -> bytes:
    """Return the decoded body; stop at the first byte over the limit."""
    leash.allow_body(limit)
    pieces, size = [], 0
    while piece := answer.read1(CHUNK, decode_content=True):
        size += len(piece)
        if size > limit:
            status = answer.status if answer.status >= 400 else None
            raise FetchProblem(f"{host} sent more than {limit} bytes", status=status, too_large=True)
        pieces.append(piece)
    return b"".join(pieces)


SECONDS = 10.0  # for one request, from the look-up of the name to the last byte
ANSWER_LIMIT = 16 * 1024  # bytes of an answer that are read, so that the receiver can finish writing it
_POST_URL = re.compile(
    r"(?:https://(?P<host>[A-Za-z0-9.-]{1,253})(?::(?P<port>[0-9]{1,5}))?|http://127\.0\.0\.1:(?P<local>[0-9]{1,5}))"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A receiver's answer: its status, and the seconds of rest that it asks for (at most 6 hours)."""

    status: int
    after: float | None

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300


class Receiver:
    """The receiver at `url`: https with any port and path, or http on 127.0.0.1. Raises ValueError for any other URL.

    `leash` makes the leash of one request. `resolver` looks names up, `context` holds the authorities for certificates.
    Every request has its own connection.
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
        parts = _POST_URL.fullmatch(url)
        if parts is None:
            raise ValueError("a receiver is https://host/path, or http://127.0.0.1:port/path")
        self.host, self._path = parts["host"] or "127.0.0.1", parts["path"] or "/"
        self._port = int(parts["local"] or parts["port"] or 443)
        self._is_tls = parts["local"] is None
        self._leash, self._seconds, self._context = leash, seconds, context
        self._book = AddressBook(resolver, None, public_only=False)

    def post(self, body: bytes, headers: Mapping[str, str]) -> Answered:
        """Send JSON once and return the answer, whatever it is. No redirect is followed. Raises FetchProblem."""
        leash = self._leash(self._seconds)
        token = running.set(leash)
        try:
            with self._pool(leash) as pool:
                return self._send(pool, body, headers, leash)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._explain(error, leash) from None
        finally:
            running.reset(token)

    def _pool(self, leash: Leash) -> urllib3.HTTPConnectionPool:
        if not self._is_tls:
            return StandInPool(self.host, self._port)
        addresses = self._book.addresses(self.host, min(leash.left(), STEP_SECONDS))
        context = self._context or public_authorities()
        context.sslsocket_class = LeashedTLS
        routes = [(address, self._port) for address in addresses[:MOST]]
        return PinnedPool(self.host, self._port, ssl_context=context, addresses=routes)

    def _send(
        self, pool: urllib3.HTTPConnectionPool, body: bytes, headers: Mapping[str, str], leash: Leash
    ) -> Answered:
        all_headers = {"User-Agent": USER_AGENT, "Content-Type": "application/json", "Connection": "close", **headers}
        answer = pool.urlopen(
            "POST",
            self._path,
            body=body,
            headers=all_headers,
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=min(leash.left(), STEP_SECONDS),
        )
        leash.allow_body(ANSWER_LIMIT)
        with suppress(urllib3.exceptions.HTTPError, OSError):  # only the status is needed, and it is known
            answer.read(ANSWER_LIMIT, decode_content=False)
        answer.close()
        return Answered(answer.status, after_seconds(answer.headers.get("Retry-After")))

    def _explain(self, error: Exception, leash: Leash) -> FetchProblem:
        """Return a problem below HTTP as a sentence of our own: the address may hold a secret, the host does not."""
        if leash.closed.is_set():
            return FetchProblem("this process is stopping", retry=True, closed=True)
        if leash.received > leash.budget:
            return FetchProblem(f"{self.host} sent endless headers", too_large=True)
        return _explain_broken(error, self.host, leash)
