"""One snapshot for a whole request."""

import atexit
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django_htmx.middleware import HtmxDetails

from ingest.snapshot import Snapshot, SnapshotReader
from triage.models import Person

_making = Lock()


class Request(HttpRequest):
    """What views are given; an annotation, never made."""

    user: Person | AnonymousUser
    session: SessionBase
    htmx: HtmxDetails
    snapshot: Snapshot | None  # None: nothing was published yet
    page_state: str  # what `triage.page_state` found, once it was asked
    roles: Any  # triage.permissions.Roles of whoever reads, once `triage.access.viewing` asked for them


@cache
def _reader(folder: Path) -> SnapshotReader:
    reader = SnapshotReader(folder)
    atexit.register(reader.close)  # else DuckDB's binding complains at exit of what was left open
    return reader


def snapshot_reader() -> SnapshotReader:
    """This process's reader, made at the first request that needs it (a second one would attach each file twice)."""
    with _making:
        return _reader(settings.SNAPSHOT_DIR)


class SecureCookiesMiddleware:
    """Marks every cookie Secure where the request came over TLS: to this process or, by its word, to the trusted proxy.

    SECURE_COOKIES marks them whatever this process was told.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The response, whose cookies go where they came from."""
        response = self.get_response(request)
        if request.is_secure():  # the server takes X-Forwarded-Proto from nobody but TRUSTED_PROXY
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response


class _Held:
    """A streamed body that holds what it reads from until the server closes the response, sent, cut or never begun."""

    def __init__(self, body: Iterable[bytes], held: ExitStack) -> None:
        self._body = body
        self.close = held.close  # Django calls it; unlike a generator's, it also runs where nothing was ever read

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)


class SnapshotMiddleware:
    """Pins one snapshot as `request.snapshot` and releases it once the response is rendered or streamed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponseBase:
        """The response to `request`, all of it read from one snapshot."""
        if request.path_info.startswith(settings.STATIC_URL):
            request.snapshot = None
            return self.get_response(request)
        with ExitStack() as held:
            request.snapshot = held.enter_context(snapshot_reader().pin())
            response = self.get_response(request)
            if isinstance(response, StreamingHttpResponse):
                response.streaming_content = _Held(response.streaming_content, held.pop_all())
            return response
