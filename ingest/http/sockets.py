"""Sockets below the fetcher: they connect only to public addresses and are bounded in time and bytes.

The names of strangers' hosts are looked up within a bounded time, and every address is checked to be public.
"""

import ipaddress
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from ingest.errors import NO_NAME, FetchProblem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEADER_LIMIT = 64 * 1024  # bytes of status line and headers; real peers send under 4 kB
STEP_SECONDS = 5.0  # longest wait in a single call that nothing can wake: name look-up, connect, handshake
SLICE_SECONDS = 0.5  # longest wait for bytes before checking if the fetcher was closed

Address = tuple[str, int]

# Python 3.11.7's is_global calls these global: the protocol assignments and the dead 6to4 relays.
_REFUSED_4 = [ipaddress.IPv4Network(name) for name in ("192.0.0.0/24", "192.88.99.0/24")]
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_REFUSED_6 = [ipaddress.IPv6Network(name) for name in ("2001::/23", "2001:db8::/32", "3fff::/20")]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Return True if an IP address is on the public internet, also an IPv4 address inside an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        refused = parsed.is_multicast or parsed.is_reserved or any(parsed in network for network in _REFUSED_4)
        return parsed.is_global and not refused
    if parsed.scope_id is not None:
        return False
    inner = parsed.ipv4_mapped or parsed.sixtofour
    if inner is None and parsed in _NAT64:
        inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    if inner is not None:
        return is_public(str(inner))
    return parsed in _GLOBAL_6 and parsed.is_global and not any(parsed in network for network in _REFUSED_6)


@dataclass(frozen=True)
class Order:
    """The parts of a request: JSON, which makes it a POST, a token for this host, and `once` to never resend it.

    `agent` names the sender in its own way, for hosts that ask for somebody to write to.

    A query may be sent again after a broken connection; a request that changes something may not.
    """

    body: bytes | None = None
    bearer: str = ""
    once: bool = False
    agent: str = ""

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.bearer}"} if self.bearer else {}
        headers |= {"User-Agent": self.agent} if self.agent else {}
        return headers if self.body is None else headers | {"Content-Type": "application/json"}


def quoted(text: str, longest: int = 100) -> str:
    """Return a stranger's text for a sentence: printable ASCII, at most `longest` characters."""
    shown = text[: longest + 1].encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else "?" for letter in shown)[:longest]


_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)  # monotonic, of several requests together


@contextmanager
def end_within(seconds: float) -> Generator[None]:
    """End every request that is made inside, in this thread, after so many seconds from now for all of them."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


class LeashEnd(OSError):
    """Raised inside a read to end a request whose time or bytes are used up."""


class Leash:
    """The limits of one request: time until a deadline, bytes on the wire, and the fetcher being open.

    `is_shortened`: the requests before it left less time than its own, so its end says nothing of its peer.
    """

    def __init__(self, seconds: float, closed: threading.Event) -> None:
        own_end = time.monotonic() + seconds
        self.ends, self.is_shortened = min(own_end, _deadline.get()), _deadline.get() < own_end
        self.budget, self.received, self.closed = HEADER_LIMIT, 0, closed

    def left(self) -> float:
        """Return the seconds that remain. Raises LeashEnd when none do."""
        seconds_left = self.ends - time.monotonic()
        if seconds_left <= 0 or self.closed.is_set():
            raise LeashEnd
        return seconds_left

    def spend(self, count: int) -> None:
        """Count bytes read. Raises LeashEnd beyond the budget."""
        self.received += count
        if self.received > self.budget:
            raise LeashEnd

    def allow_body(self, limit: int) -> None:
        """Allow a body of `limit` bytes. The budget is twice that, since chunk marks and bad compression add to it."""
        self.budget = self.received + 2 * limit + HEADER_LIMIT


running: ContextVar[Leash] = ContextVar("running")


class LeashedSocket(socket.socket):
    """A socket with every read under the leash of the running request, so that dripping bytes gain no time."""

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int | None = None, flags: int = 0) -> int:
        leash = running.get()
        while True:
            self.settimeout(min(leash.left(), SLICE_SECONDS))
            try:
                count = super().recv_into(buffer, nbytes or 0, flags)
            except TimeoutError:
                continue
            leash.spend(count)
            return count


class LeashedTLS(LeashedSocket, ssl.SSLSocket):
    """A leashed socket over TLS; the order of the bases puts the leash before SSLSocket's own read."""


def _dial(addresses: Sequence[Address]) -> socket.socket:
    """Return a connection to the first of the addresses that answers. Raises OSError."""
    problem: OSError = OSError("no address")
    for address in addresses:
        opened = LeashedSocket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            opened.settimeout(min(running.get().left(), STEP_SECONDS))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.connect(address)
            return opened
        except OSError as error:
            opened.close()
            problem = error
    raise problem


def _connect(connection: HTTPConnection, addresses: Sequence[Address]) -> socket.socket:
    try:
        return _dial(addresses)
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, "no answer") from error
    except OSError as error:
        raise NewConnectionError(connection, "refused") from error


class _StandInConnection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, [(self.host, int(self.port))])


class _PinnedConnection(HTTPSConnection):
    """A TLS connection that goes to checked addresses only and asks the certificate for the host's name."""

    def __init__(self, *args: Any, addresses: Sequence[Address] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.addresses = addresses

    def _new_conn(self) -> socket.socket:
        return _connect(self, self.addresses)


class StandInPool(urllib3.HTTPConnectionPool):
    ConnectionCls = cast(Any, _StandInConnection)


class PinnedPool(urllib3.HTTPSConnectionPool):
    """Reused connections to one host at the `addresses` that were checked for it."""

    ConnectionCls = cast(Any, _PinnedConnection)


LOOKUPS = threading.BoundedSemaphore(32)  # a resolver thread cannot be stopped, so their number is bounded
MOST = 4  # addresses of one host that are dialled

Resolver = Callable[[str], Sequence[str]]
Route = Callable[[str, int], Address]


def resolve_name(host: str) -> list[str]:
    """Return the addresses of a host from the system's resolver. Raises OSError."""
    entries = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class AddressBook:
    """Look hosts up with `resolver`; `route` maps a checked address and port to the address of the socket.

    Without `public_only` any address is allowed: for a host that the operator of this site named, not a stranger.
    """

    def __init__(self, resolver: Resolver, route: Route | None, public_only: bool = True) -> None:
        self._resolver, self._route = resolver, route or (lambda address, port: (address, port))
        self._public_only = public_only

    def routes(self, host: str, seconds: float) -> list[Address]:
        """Return the addresses to connect to for a host over TLS. Raises FetchProblem."""
        return [self._route(address, 443) for address in self.addresses(host, seconds)[:MOST]]

    def addresses(self, host: str, seconds: float) -> list[str]:
        """Return the addresses of a host, all of them public unless any are allowed. Raises FetchProblem."""
        addresses = self._look_up(host, seconds)
        if not addresses:
            raise FetchProblem(f"{host} has no address", retry=True)
        refused = [address for address in addresses if self._public_only and not is_public(address)]
        if refused:
            raise FetchProblem(f"{host} points to {quoted(refused[0], 45)}, which is not a public address")
        return list(addresses)

    def _look_up(self, host: str, seconds: float) -> Sequence[str]:
        """Ask the resolver in a thread of its own, since its wait cannot be bounded from outside."""
        if not LOOKUPS.acquire(blocking=False):
            raise FetchProblem(f"too many name look-ups hang; {host} was not looked up", retry=True)
        answers: list[Sequence[str] | Exception] = []
        done = threading.Event()

        def ask() -> None:
            try:
                answers.append(self._resolver(host))
            except (OSError, ValueError) as error:
                answers.append(error)
            finally:
                LOOKUPS.release()
                done.set()

        threading.Thread(target=ask, name="look-up", daemon=True).start()
        if not done.wait(seconds) or not answers:
            raise FetchProblem(f"looking up {host} took longer than {seconds:.0f} s", retry=True)
        if isinstance(answers[0], Exception):
            if isinstance(answers[0], socket.gaierror):
                raise FetchProblem(f"{NO_NAME}: {host}", retry=answers[0].errno == socket.EAI_AGAIN)
            raise FetchProblem(f"{host} has no address that can be looked up")
        return answers[0]


_HOST = re.compile(r"(?=.{4,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_host(name: str) -> bool:
    """Return True if a text is a lower-case DNS name of at least two labels; an IP address in any spelling is not."""
    return _HOST.fullmatch(name) is not None


LONGEST_URL = 2_048  # characters
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
)


def split_url(url: str) -> re.Match[str] | None:
    """Return scheme, host, port and path of an address by name; None for one that no request of ours has."""
    return _URL.fullmatch(url) if len(url) <= LONGEST_URL else None


def is_fetchable(url: str) -> bool:
    """Return whether an address may be fetched, as far as it tells: https to a named host at its usual port.

    Where the name leads is checked when it is fetched.
    """
    parts = split_url(url)
    return (
        parts is not None and parts["scheme"] == "https" and parts["port"] in (None, "443") and is_host(parts["host"])
    )
