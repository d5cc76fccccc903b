"""This site as a client of people's authorization servers, and its own way out to them.

With PUBLIC_ORIGIN it is a confidential client that proves itself with a key; a browser on the same machine reaches
a site without one as a public client. Few sign-ins are under way at once, one of a network, and each ends after a fixed
time, so that slow servers of strangers cannot hold every thread.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port

from ingest.http.fetcher import Fetcher
from ingest.http.sockets import end_within
from ingest.oauth.client import Client, make_loopback_client, make_site_client
from ingest.oauth.dpop import DpopSender
from triage.access.oauth.keys import find_key, key_in_use, read_keys
from triage.access.requests import is_local

SCOPE = "atproto"  # who the person is: no right to read or write anything
AT_ONCE = 3  # of the web process's 8 threads
SECONDS = 8.0  # for one request to a stranger's server, while a person waits
WHOLE_SECONDS = 20.0  # for all requests of a start, or of a way back, together
_lock, _holders = threading.Lock(), set[str]()


class TooBusy(Exception):
    """As many sign-ins as are allowed wait for people's servers already, at all or of this network."""


def sign_in_origin(request: HttpRequest) -> str:
    """Return the origin at which this browser's person can sign in with their account; "" for none.

    Servers send a browser back to PUBLIC_ORIGIN, or on this machine to 127.0.0.1: nowhere else is its cookie sent.
    Never in a demo or a replay, whose people are made up.
    """
    _, port = split_domain_port(request.get_host())
    is_public = request.get_host() == settings.PUBLIC_ORIGIN.removeprefix("https://")
    if is_public or settings.STAGED or not is_local(request):
        return settings.PUBLIC_ORIGIN
    return f"http://127.0.0.1:{port}" if port else "http://127.0.0.1"


def is_here(origin: str, request: HttpRequest) -> bool:
    """Return True if the browser came by this origin."""
    return origin.partition("://")[2] == request.get_host()


def client_for(request: HttpRequest, now: datetime) -> Client | None:
    """Return the client as which this browser's person can sign in; None if they cannot here. Raises KeyProblem."""
    origin = sign_in_origin(request)
    if not is_here(origin, request):
        return None
    if origin == settings.PUBLIC_ORIGIN:
        return site_client(now)
    return make_loopback_client(urlsplit(origin).port or 80, SCOPE)


def site_client(now: datetime) -> Client:
    """Return the confidential client with the key that begins new sessions. Raises KeyProblem."""
    return make_site_client(settings.PUBLIC_ORIGIN, SCOPE, key_in_use(read_keys(), now).load())


def bound_client(client_id: str, key_id: str, redirect_uri: str = "") -> Client | None:
    """Return the client to which a session or an attempt is bound; None if its key is gone. Raises KeyProblem."""
    key = find_key(key_id) if key_id else None
    return Client(client_id, redirect_uri, SCOPE, key) if key or not key_id else None


@contextmanager
def sign_in_place(network: str) -> Generator[DpopSender]:
    """Take one of the few places for people who are not signed in yet. Raises TooBusy at once if there is none.

    Each network has one (`throttle.network_of`), for WHOLE_SECONDS at most.
    """
    with _lock:
        if network in _holders or len(_holders) >= AT_ONCE:
            raise TooBusy
        _holders.add(network)
    try:
        with end_within(WHOLE_SECONDS):
            yield web_sender()
    finally:
        with _lock:
            _holders.remove(network)


def web_sender() -> DpopSender:
    """Return what sends this process's requests to people's servers."""
    return _make_sender(settings.STAND_IN_ORIGIN, min(SECONDS, settings.FETCH_TIMEOUT_SECONDS))


@cache
def _make_sender(stand_in: str | None, seconds: float) -> DpopSender:
    return DpopSender(Fetcher(stand_in, seconds))
