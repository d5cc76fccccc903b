"""A data server that attacks this site through the pages of signing in: nobody comes in, and nothing of it is run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from tests.ingest.oauth.hostile_server import (
    DID,
    DOCUMENTS,
    IDENTITY,
    ORIGIN,
    OTHER,
    PUSH,
    RESOURCE,
    REVOKE,
    SERVER,
    TOKEN,
    Twist,
    as_json,
    changed,
)
from tests.ingest.peer import Answer, Peer, Request
from triage.access.oauth import client
from triage.models import Maintainer, OAuthRequest, OAuthSession, Person

pytestmark = pytest.mark.django_db
HOST = "triage.sunstead.org"
LINK = re.compile(r'<a class="button primary" href="([^"]*)">')
SESSION = "/xrpc/com.atproto.server.getSession"
MARKUP = '<img src=x onerror=alert(1)>"'


class Hostile:
    """Answers for every host as an honest server does but for `twists`, by path; notes what it was asked."""

    def __init__(self) -> None:
        self.twists: dict[str, Twist] = {}
        self.asked: list[str] = []

    def answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        self.asked.append(path)
        if path in self.twists:
            return self.twists[path](request)
        if path == f"/{DID}/log/audit":
            return as_json(IDENTITY)
        if path == SESSION:
            return as_json({"did": DID, "active": True})
        status, document = DOCUMENTS[path]
        return as_json(document, status)


@pytest.fixture
def hostile(settings: Settings, tmp_path: Path) -> Iterator[Hostile]:
    settings.PUBLIC_ORIGIN, settings.ALLOWED_HOSTS = f"https://{HOST}", [HOST]
    settings.OAUTH_CLIENT_KEYS, settings.OAUTH_KEY = tmp_path / "keys" / "oauth_client.json", "5e" * 32
    settings.PUBLIC_READ = False
    Maintainer.objects.create(person=Person.objects.create(did=OTHER), repo_key="", role="admin")
    hostile = Hostile()
    cache.clear()
    with Peer(hostile.answer) as peer:
        settings.STAND_IN_ORIGIN = peer.origin
        yield hostile
    client.web_sender().fetcher.close()
    client._make_sender.cache_clear()
    cache.clear()


def browser() -> Client:
    return Client(headers={"host": HOST})


def leave(visitor: Client, **fields: str) -> Any:
    return visitor.post("/oauth/start", {"handle": DID, **fields})


def state_of(hostile: Hostile, visitor: Client, **fields: str) -> str:
    """Begin a sign-in; the state that the server was told."""
    told = list[str]()
    honest = hostile.twists.get(PUSH, changed(PUSH))

    def note(request: Request) -> Answer:
        told.append(parse_qs(request.body.decode())["state"][0])
        return honest(request)

    hostile.twists[PUSH] = note
    assert leave(visitor, **fields).status_code == 200
    return told[0]


def come_back(visitor: Client, state: str, **query: str) -> Any:
    return visitor.get("/oauth/callback", {"state": state, "iss": ORIGIN, "code": "code-1", **query})


def assert_nobody_is_in(visitor: Client) -> None:
    assert "_auth_user_id" not in visitor.session
    assert not OAuthSession.objects.exists()
    assert client._holders == set(), "the place is free again"


def test_without_a_twist_it_signs_its_person_in_as_nobody(hostile: Hostile) -> None:
    visitor = browser()
    answer = come_back(visitor, state_of(hostile, visitor, next="/me"))
    assert answer["Location"] == "/me"
    assert str(Person.objects.get(pk=visitor.session["_auth_user_id"]).did) == DID
    assert not Maintainer.objects.filter(person__did=DID).exists()


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        (SERVER, {"authorization_endpoint": "javascript:alert(1)"}),
        (SERVER, {"authorization_endpoint": f'{ORIGIN}/a"onclick="alert(1)'}),
        (SERVER, {"authorization_endpoint": "http://pds.example.test/authorize"}),
        (SERVER, {"authorization_endpoint": f"{ORIGIN}@evil.example/authorize"}),
        (SERVER, {"token_endpoint": "https://127.0.0.1/token"}),
        (SERVER, {"token_endpoint": "https://[::1]/token"}),
        (SERVER, {"pushed_authorization_request_endpoint": "https://10.0.0.7:8001/ops/metrics"}),
        (SERVER, {"issuer": MARKUP}),
        (RESOURCE, {"authorization_servers": ["https://169.254.169.254"]}),
        (RESOURCE, {"authorization_servers": [f"{ORIGIN}/{MARKUP}"]}),
        (PUSH, {"request_uri": MARKUP}),
        (PUSH, {"request_uri": "urn:x\r\nSet-Cookie: sessionid=planted"}),
    ],
)
def test_what_it_names_leads_nobody_and_this_site_nowhere_else(
    hostile: Hostile, place: str, fields: dict[str, Any]
) -> None:
    hostile.twists[place] = changed(place, **fields)
    visitor = browser()
    answer = leave(visitor)
    page = answer.content.decode()
    assert (answer.status_code, LINK.search(page), "<img" in page) == (403, None, False)
    assert "sessionid" not in answer.cookies
    assert set(hostile.asked) <= {f"/{DID}/log/audit", RESOURCE, SERVER, PUSH}
    assert not OAuthRequest.objects.exists()
    assert_nobody_is_in(visitor)


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        (TOKEN, {"sub": OTHER}),
        (TOKEN, {"sub": f"{DID} {OTHER}"}),
        (TOKEN, {"token_type": "Bearer"}),
        (TOKEN, {"scope": "repo:*"}),
        (TOKEN, {"access_token": "a\r\nX-Injected: 1"}),
        (TOKEN, {"scope": "atproto " * 2_000}),
        (SERVER, {"issuer": "https://elsewhere.example.test"}),
    ],
)
def test_an_account_of_its_own_comes_in_as_no_admin(hostile: Hostile, place: str, fields: dict[str, Any]) -> None:
    visitor = browser()
    state = state_of(hostile, visitor)
    hostile.twists[place] = changed(place, **fields)
    assert come_back(visitor, state)["Location"] == "/sign-in"
    assert "alert" in visitor.get("/sign-in").content.decode()
    assert not Person.objects.filter(did=DID).exists()
    assert_nobody_is_in(visitor)


@pytest.mark.parametrize("session", [{"did": OTHER, "active": True}, {"did": DID, "active": False}, {}])
def test_a_session_of_another_account_or_of_none_is_given_back(hostile: Hostile, session: dict[str, Any]) -> None:
    visitor = browser()
    state = state_of(hostile, visitor)
    hostile.twists[SESSION] = lambda _: as_json(session)
    assert come_back(visitor, state)["Location"] == "/sign-in"
    assert hostile.asked[-1] == REVOKE
    assert_nobody_is_in(visitor)


@pytest.mark.parametrize(
    "query",
    [
        {"iss": "https://elsewhere.example.test"},
        {"error": "access_denied"},
        {"error": MARKUP},
        {"error": "x\r\nLocation: https://evil.example/"},
        {"code": ""},
        {"code": "c" * 2_001},
    ],
)
def test_an_answer_that_somebody_made_up_asks_for_no_token_and_is_shown_as_text(
    hostile: Hostile, query: dict[str, str]
) -> None:
    visitor = browser()
    answer = come_back(visitor, state_of(hostile, visitor), **query)
    assert answer["Location"] == "/sign-in"
    assert "<img" not in visitor.get("/sign-in").content.decode()
    assert TOKEN not in hostile.asked
    assert not OAuthRequest.objects.exists(), "it is not tried again"
    assert_nobody_is_in(visitor)


@pytest.mark.parametrize(
    "where",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example", "javascript:alert(1)", "me"],
)
def test_nobody_is_sent_elsewhere_by_next_after_the_way_back(hostile: Hostile, where: str) -> None:
    visitor = browser()
    assert come_back(visitor, state_of(hostile, visitor, next=where))["Location"] == "/"


def test_next_adds_no_header(hostile: Hostile) -> None:
    visitor = browser()
    answer = come_back(visitor, state_of(hostile, visitor, next="/me\r\nSet-Cookie: sessionid=planted"))
    assert urlsplit(answer["Location"]).netloc == ""
    assert "\r" not in answer["Location"]
    assert answer.cookies["sessionid"].value != "planted"


@pytest.mark.parametrize("host", ["evil.example", f"{HOST}.evil.example", f"{HOST}@evil.example", "127.0.0.1:8000"])
def test_by_another_name_this_site_begins_no_sign_in(hostile: Hostile, host: str) -> None:
    answer = Client(headers={"host": host}).post("/oauth/start", {"handle": DID})
    assert answer.status_code in (400, 404)
    assert PUSH not in hostile.asked
    forwarded = {"host": HOST, "x-forwarded-host": "evil.example"}
    answers = [
        Client(headers=headers).get("/oauth/client-metadata.json").json() for headers in (forwarded, {"host": HOST})
    ]
    assert answers[0] == answers[1]
