"""The addresses of strangers' hosts: looked up within a bounded time, every one of them checked to be public."""

import re
import socket
import threading
from collections.abc import Callable, Sequence

from ingest.plain_words import FetchProblem
from ingest.wire import Address, is_public, quoted

LOOKUPS = threading.BoundedSemaphore(32)  # a resolver thread cannot be stopped, so their number is bounded
MOST = 4  # addresses of one host that are dialled

Resolver = Callable[[str], Sequence[str]]
Route = Callable[[str, int], Address]


def resolve_name(host: str) -> list[str]:
    """The addresses of a host, from the system's resolver. Raises OSError."""
    found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class AddressBook:
    """Looks hosts up with `resolver`; `route` says where the socket for a checked address and port goes.

    Without `public_only` any address will do: for a host that whoever runs this site named, not a stranger.
    """

    def __init__(self, resolver: Resolver, route: Route | None, public_only: bool = True) -> None:
        self._resolver, self._route = resolver, route or (lambda address, port: (address, port))
        self._public_only = public_only

    def routes(self, host: str, seconds: float) -> list[Address]:
        """Where to connect for a host over TLS. Raises FetchProblem."""
        return [self._route(address, 443) for address in self.addresses(host, seconds)[:MOST]]

    def addresses(self, host: str, seconds: float) -> list[str]:
        """The addresses of a host, every one of them public unless any will do. Raises FetchProblem."""
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
            again = isinstance(answers[0], socket.gaierror) and answers[0].errno == socket.EAI_AGAIN
            raise FetchProblem(f"{host} has no address that can be looked up", retry=again)
        return answers[0]


_HOST = re.compile(r"(?=.{4,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_host(name: str) -> bool:
    """Whether a text is a lower-case DNS name of at least two labels, and no address in any spelling."""
    return _HOST.fullmatch(name) is not None
