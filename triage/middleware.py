"""One snapshot for a whole request."""

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

_making = threading.Lock()
_opened = threading.local()  # file: which the database was when this thread last looked
ONE_PACKET = 1_400  # bytes: to pack less costs time and brings nothing sooner
LEADERBOARD = "/leaderboard"
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
HEALTH = "/health"  # which says itself that nothing can be read
log = logging.getLogger(__name__)


@cache
def _reader(folder: Path) -> SnapshotReader:
    reader = SnapshotReader(folder)
    atexit.register(reader.close)  # else DuckDB's binding complains at exit of what was left open
    return reader


def snapshot_reader() -> SnapshotReader:
    """This process's reader, made at the first request that needs it (a second one would attach each file twice)."""
    with _making:
        return _reader(settings.SNAPSHOT_DIR)


def is_known_database() -> bool:
    """Return whether the accounts' file is the one that this thread uses, so that the drive is there and nothing
    was restored.

    One look at the drive a request: each lets other threads in, which with 8 at once takes longer than the look itself.
    """
    return _database_file() == getattr(_opened, "file", None) is not None


def leave_replaced_database() -> None:
    """Close this thread's connection where another file lies there since, as after a restore: it would read the old."""
    lies_there = _database_file()
    if lies_there is None:
        return  # not made yet
    if getattr(_opened, "file", lies_there) != lies_there:
        if connection.in_atomic_block:
            return  # it is left once its transaction has ended
        connection.close()
    _opened.file = lies_there


def _database_file() -> tuple[int, int] | None:
    """Return which file the accounts are in: its device and number; None where there is none."""
    try:
        found = Path(connection.settings_dict["NAME"]).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class CompressMiddleware(GZipMiddleware):
    """Sends whole answers packed, save what no cache may keep: what shows a link or a token once is marked so.

    The length of a packed page that holds a secret beside what a visitor sends tells the secret's letters (BREACH).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_small = isinstance(response, HttpResponse) and len(response.content) < ONE_PACKET
        if is_small or response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
            return response
        return super().process_response(request, response)


class StaticMiddleware(WhiteNoiseMiddleware):
    """Serves files of ours: their addresses change with their bytes, so a browser need not ask for one again."""

    def add_cache_headers(self, headers: Headers, path: str, url: str) -> None:
        """Write how long a file may be kept, and a tag that is the same whether it is sent packed or not."""
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
        headers["ETag"] = f'W/"{url}"'


class PolicyMiddleware(CSPMiddleware):
    """django-csp for answers without a policy of their own: it makes the one of pages twice, wanted or not."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if HEADER in response else super().process_response(request, response)


class PrivateMiddleware:
    """Has no cache keep, or give to somebody else, what may show a person's name or a token of their forms.

    Every answer but a file of ours depends on who asks; one that says itself how it may be kept keeps its word.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if "Cache-Control" not in response:
            mark_private(response)
        else:
            patch_vary_headers(response, ("Cookie",))
        return response


class OperationCorsMiddleware(CorsMiddleware):
    """django-cors-headers for operations alone: the address of the leaderboard is a page's too, which no script reads.

    What a browser asks beforehand does not say in what form the answer is wanted.
    """

    def is_enabled(self, request: HttpRequest) -> bool:
        """Return whether another site's script may be given this answer, if its origin is configured."""
        if not super().is_enabled(request):
            return False
        if request.path_info != LEADERBOARD or request.method == "OPTIONS":
            return True
        return prefers_json(request)


class DriveMiddleware:
    """Answers 503 in words while the drive is gone, where SQLite would make an empty database, or takes no bytes."""

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
        """The 503 for what the accounts' file could not take: its transaction is undone."""
        if isinstance(problem, sqlite3.DatabaseError):  # not Django's, so it is of the queue's file
            log.error("the queue cannot be used: %s", problem)
            return _unavailable(QUEUELESS)
        if not isinstance(problem, OperationalError):
            return None
        log.error("the accounts cannot be written: %s", problem)
        request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))  # as before the view
        return _unavailable(UNWRITABLE)


class KeptSessionMiddleware(SessionMiddleware):
    """Answers 503 in words where a session could not be written after the view, whose own work may be done by then."""

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
    """Marks every cookie Secure where the request came over TLS: to this process or, by its word, to the trusted proxy.

    SECURE_COOKIES marks them whatever this process was told.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.is_secure():  # the server takes X-Forwarded-Proto from nobody but TRUSTED_PROXY
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response


class NotAllowedMiddleware:
    """Says 405 of an operation as every other problem is said; a page's has no words, since no page leads there."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code != 405 or not request.resolver_match or not request.resolver_match.namespace:
            return response
        allowed = response["Allow"]
        return problem_response(ApiProblem(405, f"This address takes {allowed}.", {"Allow": allowed}))


class _Held:
    """A streamed body that holds what it reads from until the server closes the response, sent, cut or never begun."""

    def __init__(self, body: Iterable[bytes], held: ExitStack) -> None:
        self._body = body
        self.close = held.close  # Django calls it; unlike a generator's, it also runs where nothing was ever read

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)


def _is_program(request: HttpRequest) -> bool:
    """Return whether a token came, so that no page is opened.

    A browser sends the password of a proxy in the same header.
    """
    return request.headers.get("Authorization", "").lower().startswith("bearer ")


def leave_damaged(request: HttpRequest, problem: Exception) -> bool:
    """Return whether the snapshot of this request turned out damaged; then another one serves from the next on."""
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
        with ExitStack() as held:
            request.snapshot = held.enter_context(reader.pin())
            if request.snapshot is None and request.path_info != HEALTH and reader.is_unreadable:
                return _unavailable(UNREADABLE)
            if not _is_program(request):
                told_of(request.snapshot)
            response = self.get_response(request)
            if isinstance(response, StreamingHttpResponse):
                response.streaming_content = _Held(response.streaming_content, held.pop_all())
            return response

    def process_exception(self, request: Request, problem: Exception) -> HttpResponseBase | None:
        """The 503 for a snapshot that turned out to be damaged: the next request is answered from one before it."""
        return _unavailable(UNREADABLE) if leave_damaged(request, problem) else None
