"""The page on which anybody checks an assessment that a site of Sunstead published, without an account or a script.

Only a form that was sent makes this site ask strangers' servers; a link fills the form in. Few checks run at once, and
one network gets few in five minutes.
"""

import threading
import time
from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ingest.http.fetcher import end_within
from scoring.pipeline.lane_thresholds import CERTIFICATES
from triage.access import throttle
from triage.access.oauth.client import web_sender
from triage.access.requests import Request
from triage.services.publishing.verifying import Verification, Verifier

LONGEST = 3_000  # characters of an at-uri
LIMIT = 10  # checks of one network in throttle.WINDOW_SECONDS
AT_ONCE = 2  # of the web process's 8 threads
WHOLE_SECONDS = 20.0  # for all that one check asks of others
CERTIFICATE_BYTES = 4_000_000  # some 40,000 cases; a longer one is for the command
BUSY_SECONDS = 5
_places = threading.BoundedSemaphore(AT_ONCE)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def verify(request: Request) -> HttpResponse:
    """Show the form; once it is sent, what the assessment at its address claims and what of it is proven."""
    uri = (request.POST if request.method == "POST" else request.GET).get("uri", "").strip()[:LONGEST]
    if request.method != "POST" or not uri:
        return _answer(request, uri)
    if wait := _seconds_to_wait(request):
        return _answer(request, uri, wait=wait)
    if not _places.acquire(blocking=False):
        return _answer(request, uri, wait=BUSY_SECONDS)
    try:
        with end_within(WHOLE_SECONDS):
            return _answer(request, uri, _verifier().verify(uri))
    finally:
        _places.release()


def _answer(request: Request, uri: str, found: Verification | None = None, wait: int = 0) -> HttpResponse:
    shown = {"uri": uri, "found": found, "wait": wait}
    response = render(request, "about/verify.html", shown, status=429 if wait else 200)
    response["X-Robots-Tag"] = "noindex"
    if wait:
        response["Retry-After"] = str(wait)
    return response


def _seconds_to_wait(request: Request) -> int:
    """Count one check of this network; 0, or the seconds until it may check again."""
    network, now = throttle.network_of(request.META.get("REMOTE_ADDR", "")), time.time()
    checks = throttle.count("verify", network, throttle.WINDOW_SECONDS, now)
    return throttle.seconds_left(throttle.WINDOW_SECONDS, now) if checks > LIMIT else 0


def _verifier() -> Verifier:
    return Verifier(
        web_sender().fetcher,
        settings.PLC_URL,
        settings.MODEL_DIR / CERTIFICATES,
        datetime.now(UTC).replace(tzinfo=None),
        CERTIFICATE_BYTES,
        frozenset(settings.PEERS),
    )
