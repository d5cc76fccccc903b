"""`manage.py web`: run the web process, one process with threads behind waitress."""

import errno
import gc
import resource
import signal
import socket
import tempfile
from types import FrameType
from typing import Any

import waitress
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.urls import get_resolver
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import BaseWSGIServer

from trustsite.command_line import never_walk_again

AMBIGUOUS = "Content-Length and Transfer-Encoding together leave open where the request ends"


class StrictParser(HTTPRequestParser):
    """waitress' parser, which takes a body only if its length is given in one way (RFC 9112, 6.1 and 6.3).

    waitress goes by Transfer-Encoding if both are there; a proxy that goes by Content-Length would take the rest of the
    body for the next visitor's request, or the other way round.
    """

    def parse_header(self, header_plus: bytes) -> None:
        """Parse like waitress. Raises ParsingError (400, connection closed) for an unclear length."""
        super().parse_header(header_plus)
        # waitress removes the header when it uses it, which it does only for HTTP/1.1.
        has_encoding = self.chunked or "TRANSFER_ENCODING" in self.headers
        if has_encoding and ("CONTENT_LENGTH" in self.headers or self.version != "1.1"):
            raise ParsingError(AMBIGUOUS)


class StrictChannel(HTTPChannel):
    """A connection with strict parsing of its requests."""

    parser_class = StrictParser


def read_strictly(channels: dict[int, Any]) -> None:
    """Make every server among `channels` (its sockets by file number) parse its requests strictly."""
    for server in channels.values():
        if isinstance(server, BaseWSGIServer):
            server.channel_class = StrictChannel


PROXY_HEADERS = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
# A request pins one snapshot and answers in milliseconds; 8 threads keep a slow page from blocking the API.
THREADS = 8
# A silent connection costs a file and 3 kB; with waitress' default limit of 100, 100 of them would shut everybody out.
CONNECTIONS = 4_000
FILES_BESIDE = 200  # databases, snapshots, logs
# A smaller answer is sent once it is whole, by the thread that waits for sockets: a separate send for the head, as in
# waitress, lets all other threads in, which with 8 at once took a quarter of the time of an empty operation.
SENT_AT_ONCE = 18_000  # bytes
# A connection that sends nothing, or takes nothing of its answer, is closed after this. waitress checks every 30 s.
SILENT_SECONDS = 60
LARGEST_BODY = 2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE  # up to twice too large: refused in our own words


class Command(BaseCommand):
    """Serve pages and JSON on BIND until SIGTERM or Ctrl-C."""

    help = "Serve the pages and the JSON API on BIND (default 127.0.0.1:8000) until stopped."

    def handle(self, *args: object, **options: object) -> None:
        """Migrate the web tables, then serve. Raises CommandError if BIND cannot be listened on."""
        server = listen(settings.BIND)  # before the tables: a second start by mistake changes nothing
        call_command("migrate", verbosity=0, interactive=False)
        signal.signal(signal.SIGTERM, _stop)
        self.stderr.write(f"Serving on http://{settings.BIND}")
        server.run()


def listen(bind: str, channels: dict[int, Any] | None = None) -> Any:
    """Return the waitress server that holds `bind` (host:port), for `.run()`. Raises CommandError if it cannot listen.

    Its sockets by file number are stored in `channels`, for callers that run the loop themselves.
    """
    from trustsite.wsgi import application

    channels = {} if channels is None else channels
    try:
        server = waitress.create_server(
            application, map=channels, listen=bind, threads=THREADS, ident=None, **_limits(), **_proxy_settings()
        )
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise CommandError(
                f"BIND={bind} is in use by another program: stop that one, or set BIND to another port.", returncode=2
            ) from problem
        raise CommandError(
            f"BIND={bind} cannot be listened on ({problem.strerror}): set BIND to an address of this machine.",
            returncode=2,
        ) from problem
    except ValueError as problem:
        raise CommandError(
            f"BIND={bind} is not an address and port such as 127.0.0.1:8000: set BIND.", returncode=2
        ) from problem
    read_strictly(channels)
    server.adj.send_bytes = SENT_AT_ONCE
    server.adj.socket_options = [*server.adj.socket_options, *_timeout_options()]
    _freeze_loaded()
    return server


def _freeze_loaded() -> None:
    """Load pages and API and exclude them from garbage collection, which stopped requests for 85 to 111 ms."""
    get_resolver().url_patterns  # noqa: B018 - imports what they name
    gc.collect()
    never_walk_again()


def _timeout_options() -> list[tuple[int, int, int]]:
    """Return the socket option that ends a connection whose visitor takes nothing; waitress never does."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):  # only Linux has it
        return []
    return [(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1_000 * SILENT_SECONDS)]


def _limits() -> dict[str, Any]:
    """Return limits that keep slow, many and large visitors from affecting the others.

    Large requests and answers wait in nameless files on the drive, since the rest of the machine may be read-only.
    """
    folder = settings.ROOT / "cache" / "web"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tempfile.tempdir = str(folder)
    return {
        "connection_limit": min(CONNECTIONS, _raise_file_limit(CONNECTIONS + FILES_BESIDE) - FILES_BESIDE),
        "channel_timeout": SILENT_SECONDS,
        "asyncore_use_poll": True,  # select() ends at the file number 1,023
        "max_request_body_size": LARGEST_BODY,
        "log_socket_errors": False,  # a visitor's broken line is not our error; a traceback for each would fill the log
    }


def _raise_file_limit(wanted: int) -> int:
    """Return how many files this process may have open, after asking for the wanted number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > wanted:
        hard = max(wanted, soft)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return max(hard, soft)


def _proxy_settings() -> dict[str, Any]:
    """Return the settings with which only TRUSTED_PROXY is believed about a visitor's address."""
    trusted = {"trusted_proxy": settings.TRUSTED_PROXY, "trusted_proxy_headers": PROXY_HEADERS}
    return {"clear_untrusted_proxy_headers": True} | (trusted if settings.TRUSTED_PROXY else {})


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
