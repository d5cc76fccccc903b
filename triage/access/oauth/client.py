"""This site as a client of people's authorization servers, and its own way out to them.

With PUBLIC_ORIGIN it is a confidential client that proves itself with a key; a browser on the same machine reaches
a site without one as a public client. Few sign-ins are under way at once, one of a network, and each ends after a fixed
time, so that slow servers of strangers cannot hold every thread. Ways out, ways back and acts have places of their own,
and whoever had to wait for a slow server leaves the last one to others for a while.
"""

import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from enum import StrEnum
from functools import cache as memoize
from urllib.parse import urlsplit

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from django.http.request import split_domain_port

from ingest.http.fetcher import Fetcher, end_within
from ingest.oauth.client import Client, make_loopback_client, make_site_client
from ingest.oauth.dpop import DpopSender
from ingest.oauth.scopes import every_scope
from triage.access.oauth.keys import find_key, key_in_use, read_keys
from triage.access.requests import is_local

AT_ONCE = 2  # of each kind of waiting, so 6 of the web process's 8 threads at most
SLOW_SECONDS = 5.0  # a start or a way back at the reference server takes under one
REMEMBERED_SECONDS = 300  # slowness
SECONDS = 8.0  # for one request to a stranger's server, while a person waits
WHOLE_SECONDS = 20.0  # for all requests of a start, or of a way back, together
_lock, _holders = threading.Lock(), set[tuple["Waiting", str]]()


class Waiting(StrEnum):
    """The kinds of waiting for people's servers: none of them takes the places of another."""

    START = "start"
    RETURN = "return"
    ACT = "act"


class TooBusy(Exception):
    """As many wait for people's servers already as are allowed, at all or of this network."""


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
    return make_loopback_client(urlsplit(origin).port or 80, _scope())


def _scope() -> str:
    """Return all that this site may ever ask for. A sign-in asks for nothing of it, an act for what it needs."""
    return every_scope(settings.LEXICON_AUTHORITY)


def site_client(now: datetime) -> Client:
    """Return the confidential client with the key that begins new sessions. Raises KeyProblem."""
    return make_site_client(settings.PUBLIC_ORIGIN, _scope(), key_in_use(read_keys(), now).load())


def bound_client(client_id: str, key_id: str, redirect_uri: str = "") -> Client | None:
    """Return the client to which a session or an attempt is bound; None if its key is gone. Raises KeyProblem."""
    key = find_key(key_id) if key_id else None
    return Client(client_id, redirect_uri, _scope(), key) if key or not key_id else None


@contextmanager
def sign_in_place(
    kind: Waiting, holder: str, seconds: float = SECONDS, whole: float | None = None
) -> Generator[DpopSender]:
    """Take one of the few places for what people's servers are asked while they wait. Raises TooBusy at once.

    Each holder has one of a kind: a wide network (`throttle.network_of`) or, for acts, a person. A network that was
    slow lately does not take the last one: else as many as there are places could keep everybody out. `seconds` bound
    one request, `whole` all of them (WHOLE_SECONDS).
    """
    slow = f"slow:{holder}"
    places = AT_ONCE - 1 if cache.get(slow) else AT_ONCE
    with _lock:
        if (kind, holder) in _holders or sum(taken is kind for taken, _ in _holders) >= places:
            raise TooBusy
        _holders.add((kind, holder))
    began = time.monotonic()
    try:
        with end_within(WHOLE_SECONDS if whole is None else whole):
            yield web_sender(seconds)
    finally:
        if kind is not Waiting.ACT and time.monotonic() - began >= SLOW_SECONDS:
            cache.set(slow, True, REMEMBERED_SECONDS)
        with _lock:
            _holders.remove((kind, holder))


def acting_place(person: object) -> AbstractContextManager[DpopSender]:
    """Take a place for acts in a signed-in person's name, one a person; a merge asks up to six servers in a row."""
    seconds = settings.FETCH_TIMEOUT_SECONDS
    return sign_in_place(Waiting.ACT, f"person:{person}", seconds, 6 * seconds)


def web_sender(seconds: float = SECONDS) -> DpopSender:
    """Return what sends this process's requests to people's servers."""
    return _make_sender(settings.STAND_IN_ORIGIN, min(seconds, settings.FETCH_TIMEOUT_SECONDS))


@memoize
def _make_sender(stand_in: str | None, seconds: float) -> DpopSender:
    return DpopSender(Fetcher(stand_in, seconds))
