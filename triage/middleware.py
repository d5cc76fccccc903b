"""Middleware of the site: one snapshot for a whole request, and answers while the drive or a file is unusable."""

import atexit
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from wsgiref.headers import Headers

from corsheaders.middleware import CorsMiddleware
from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware

from ingest.store.snapshots import SnapshotReader, is_damage, told_of
from triage.access.problems import ApiProblem, mark_private, prefers_json, problem_response
from triage.access.requests import Request, SessionStore

_reader_lock = threading.Lock()
_opened = threading.local()  # `file`: the database file when this thread last checked
ONE_PACKET = 1_400  # bytes: compressing less costs time and arrives no sooner
SHARED = ("/leaderboard", "/briefing")  # addresses of a page and of an operation
GONE = "The drive of this site is gone. Nothing is lost. The site continues when the drive is mounted again.\n"
UNWRITABLE = (
    "Not done: nothing can be written to this site's drive just now. Nothing is lost, and reading still works. Try "
    "again in a while. For the operator: `manage.py doctor` says what is wrong.\n"
)
UNKEPT = (
    "Nothing can be written to this site's drive just now. What you asked may be done, but your session could not be "
    "saved. Check before you try again. For the operator: `manage.py doctor` says what is wrong.\n"
)
UNREADABLE = (
    "This site cannot read its data just now. Nothing is lost. Try again in a while. For the operator: "
    "`manage.py doctor` says what is wrong.\n"
)
QUEUELESS = (
    "Not done: the queue to the worker cannot be used just now. Try again in a while. For the operator: "
    "`manage.py doctor` says what is wrong.\n"
)
PREFIX = "__Host-"  # of cookies: browsers demand Secure, the path / and no domain
HEALTH = "/health"  # it reports by itself that nothing can be read
log = logging.getLogger(__name__)


@cache
def _reader(folder: Path) -> SnapshotReader:
    reader = SnapshotReader(folder)
    atexit.register(reader.close)  # otherwise DuckDB's binding complains at exit about open files
    return reader


def snapshot_reader() -> SnapshotReader:
    """Return this process's reader, created for the first request (a second one would attach each file twice)."""
    with _reader_lock:
        return _reader(settings.SNAPSHOT_DIR)


def is_known_database() -> bool:
    """Return whether the accounts' file is the one that this thread uses: not gone with its drive, not restored.

    One look at the drive per request: each lets other threads run, which with 8 at once takes longer than the look
    itself.
    """
    return _database_file() == getattr(_opened, "file", None) is not None


def leave_replaced_database() -> None:
    """Close this thread's connection where the file was replaced, as after a restore: it would read the old one."""
    present_file = _database_file()
    if present_file is None:
        return  # not created yet
    if getattr(_opened, "file", present_file) != present_file:
        if connection.in_atomic_block:
            return  # closed once its transaction has ended
        connection.close()
    _opened.file = present_file


def _database_file() -> tuple[int, int] | None:
    """Return the identity of the accounts' file: its device and number; None where there is none."""
    try:
        status = Path(connection.settings_dict["NAME"]).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class CompressMiddleware(GZipMiddleware):
    """Compresses whole answers except those that no cache may store: pages that show a link or a token once.

    The length of a compressed page with a secret and a visitor's input reveals the secret (BREACH).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_small = isinstance(response, HttpResponse) and len(response.content) < ONE_PACKET
        if is_small or response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
            return response
        return super().process_response(request, response)


class StaticMiddleware(WhiteNoiseMiddleware):
    """Serves static files: their addresses change with their bytes, so a browser need not ask for one again."""

    def add_cache_headers(self, headers: Headers, path: str, url: str) -> None:
        """Write how long a file may be cached, and a tag that is equal for compressed and plain answers."""
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
        headers["ETag"] = f'W/"{url}"'


class PolicyMiddleware(CSPMiddleware):
    """django-csp for answers without their own policy: it builds the pages' policy twice, wanted or not."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if HEADER in response else super().process_response(request, response)


class PrivateMiddleware:
    """Keeps shared caches from storing pages that may show a person's name or a form token.

    Every answer but a static file and one that is marked public depends on the viewer; an answer with its own
    Cache-Control keeps it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if "Cache-Control" not in response:
            mark_private(response)
        elif "public" not in response["Cache-Control"]:
            patch_vary_headers(response, ("Cookie",))
        return response


class OperationCorsMiddleware(CorsMiddleware):
    """django-cors-headers for API operations alone: some addresses are also those of pages, which no script may read.

    A browser's preflight request does not say which form of the answer it wants.
    """

    def is_enabled(self, request: HttpRequest) -> bool:
        """Return whether another site's script may read this answer, if its origin is configured."""
        if not super().is_enabled(request):
            return False
        if request.path_info not in SHARED or request.method == "OPTIONS":
            return True
        return prefers_json(request)


class DriveMiddleware:
    """Answers 503 in words while the drive is gone or cannot be written.

    On a missing drive SQLite would create an empty database.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_known_database():
            return self.get_response(request)
        if settings.MARK_PATH is None or settings.MARK_PATH.exists():
            leave_replaced_database()
            return self.get_response(request)
        return _unavailable(GONE)

    def process_exception(self, request: Request, problem: Exception) -> HttpResponseBase | None:
        """Return the 503 for a failed write of the accounts' file: its transaction is rolled back."""
        if isinstance(problem, sqlite3.DatabaseError):  # not Django's exception, so it is about the queue's file
            log.error("the queue cannot be used: %s", problem)
            return _unavailable(QUEUELESS)
        if not isinstance(problem, OperationalError):
            return None
        log.error("the accounts cannot be written: %s", problem)
        request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))  # as before the view
        return _unavailable(UNWRITABLE)


class KeptSessionMiddleware(SessionMiddleware):
    """Answers 503 in words where a session could not be written after the view, whose own work may already be done."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        try:
            return super().process_response(request, response)
        except OperationalError as problem:
            log.error("a session cannot be written: %s", problem)
            return _unavailable(UNWRITABLE if request.method in ("GET", "HEAD") else UNKEPT)


def _unavailable(sentences: str) -> HttpResponse:
    response = HttpResponse(sentences, status=503, content_type="text/plain; charset=utf-8")
    response["Retry-After"] = "10"
    response["Cache-Control"] = "no-store"
    return response


class SecureCookiesMiddleware:
    """Makes every cookie Secure and gives it the prefix `__Host-` over TLS, directly or through the trusted proxy.

    SECURE_COOKIES does in any case. Browsers take such a cookie from this very host over https alone: neither another
    name of the domain nor a page over http can plant one, and what came without the prefix is not read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # The server accepts X-Forwarded-Proto only from TRUSTED_PROXY.
        if not (request.is_secure() or settings.SECURE_COOKIES):
            return self.get_response(request)
        received = request.COOKIES
        request.COOKIES = {
            name.removeprefix(PREFIX): value for name, value in received.items() if name.startswith(PREFIX)
        }
        response = self.get_response(request)
        for name, cookie in list(response.cookies.items()):
            del response.cookies[name]
            cookie.set(f"{PREFIX}{name}", cookie.value, cookie.coded_value)
            cookie["secure"] = True
            response.cookies[cookie.key] = cookie
        return response


class NotAllowedMiddleware:
    """Answers 405 for an operation as problem details; for a page it has no words, since no page leads there."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code != 405 or not request.resolver_match or not request.resolver_match.namespace:
            return response
        allowed = response["Allow"]
        return problem_response(ApiProblem(405, f"This address takes {allowed}.", {"Allow": allowed}))


class _PinnedBody:
    """A streamed body that keeps its snapshot open until the server closes the response, sent or not."""

    def __init__(self, body: Iterable[bytes], exit_stack: ExitStack) -> None:
        self._body = body
        self.close = exit_stack.close  # Django calls it; unlike a generator's, it also runs where nothing was read

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)


def _is_program(request: HttpRequest) -> bool:
    """Return whether the request has a bearer token, so that no page is opened.

    A browser sends a proxy's password in that header too.
    """
    return request.headers.get("Authorization", "").lower().startswith("bearer ")


def leave_damaged(request: HttpRequest, problem: Exception) -> bool:
    """Return whether the request's snapshot turned out to be damaged.

    Another one then serves from the next request on.
    """
    snapshot = getattr(request, "snapshot", None)
    if snapshot is None or not is_damage(problem):
        return False
    log.error("snapshot %s cannot be read: %s", snapshot.number, problem)
    snapshot_reader().leave(snapshot.number)
    return True


class SnapshotMiddleware:
    """Pins one snapshot as `request.snapshot` and releases it once the response is rendered or streamed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponseBase:
        if request.path_info.startswith(settings.STATIC_URL):
            request.snapshot = None
            return self.get_response(request)
        reader = snapshot_reader()
        with ExitStack() as exit_stack:
            request.snapshot = exit_stack.enter_context(reader.pin())
            if request.snapshot is None and request.path_info != HEALTH and reader.is_unreadable:
                return _unavailable(UNREADABLE)
            if not _is_program(request):
                told_of(request.snapshot)
            response = self.get_response(request)
            if isinstance(response, StreamingHttpResponse):
                response.streaming_content = _PinnedBody(response.streaming_content, exit_stack.pop_all())
            return response

    def process_exception(self, request: Request, problem: Exception) -> HttpResponseBase | None:
        """Return the 503 for a damaged snapshot: the next request is answered from an earlier one."""
        return _unavailable(UNREADABLE) if leave_damaged(request, problem) else None
