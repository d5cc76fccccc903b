"""The way out to a person's own server in a real browser: one field, an own page, and a link that leads there."""

from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from ingest.oauth.flow import Account
from ingest.oauth.metadata import AuthorizationServer
from tests.ingest.peer import Request, Start, response
from tests.ingest.stream.frames import ANA
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.test_every_page_browser import faults_of
from triage.access.oauth.attempts import Departure
from triage.access.oauth.sessions import FREE, IN_BROWSER
from triage.models import OAuthSession, Person
from triage.views import oauth

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small")]
HOST = "pds." + "a-long-name-of-a-server." * 4 + "example.test"


@pytest.fixture
def local(live_server: LiveServer, settings: Settings) -> str:
    """The site as a browser on its own machine reaches it."""
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
    return f"http://127.0.0.1:{urlsplit(live_server.url).port}"


def test_a_handle_leads_over_an_own_page_to_the_persons_server(
    open_page: OpenPage, local: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    visited: list[Request] = []

    def welcome(request: Request) -> bytes:
        visited.append(request)
        return response(b"<!doctype html><title>Their server</title>", Content_Type="text/html")

    server = AuthorizationServer(f"https://{HOST}", "", "", "", None)
    address = f"http://localhost:{start(welcome).port}/oauth/authorize?client_id=a&request_uri=urn%3Ab"
    departure = Departure(Account(ANA, "ana.example.test", f"https://{HOST}", server), address, "b" * 43)
    begun: list[Departure] = []
    monkeypatch.setattr(oauth, "begin_attempt", lambda *asked: begun.append(departure) or departure)
    page = open_page(390)
    assert faults_of(page, [f"{local}/sign-in", f"{local}/sign-in?next=/tokens"]) == {}
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.get_by_role("textbox")).to_have_count(1)
    page.get_by_text("With a password or a one-time link").click()
    expect(page.get_by_label("Your password")).to_be_visible()
    page.get_by_label("Your handle", exact=True).fill("ana.example.test")
    page.get_by_role("button", name="Continue").dblclick()
    expect(page.get_by_role("heading", level=1)).to_have_text("Go on to your server")
    assert len(begun) == 1, "the second click of a double click asks nobody again"
    assert violations_in_both_themes(page) == []
    for width in (320, 390, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    page.get_by_role("link", name=f"Continue to {HOST}").click()
    expect(page).to_have_title("Their server")
    came = visited[0]
    assert (came.path, came.headers["sec-fetch-mode"], came.headers["sec-fetch-dest"]) == (
        "/oauth/authorize?client_id=a&request_uri=urn%3Ab",
        "navigate",
        "document",
    )
    assert "referer" not in came.headers


def sessions_of(person: Person, count: int) -> list[OAuthSession]:
    """Sessions of somebody in so many browsers."""
    now = timezone.now()
    times = {"made_at": now, "last_used_at": now, "tokens_expire_at": now, "lease_until": FREE}
    place = {"person": person, "server": f"https://{HOST}", "sealed": b"", "browser": "Firefox on Linux"}
    return [OAuthSession.objects.create(**place, **times) for _ in range(count)]


def test_the_list_of_sessions_is_whole_and_ends_the_one_that_is_clicked(open_page: OpenPage, local: str) -> None:
    client, person = Client(), Person.objects.create(did=ANA)
    client.force_login(person)
    this, other = sessions_of(person, 2)
    session = client.session
    session[IN_BROWSER] = str(this.id)
    session.save()
    page: Page = open_page(390, client)
    assert faults_of(page, ["/signed-in"]) == {}
    row = page.get_by_role("row").filter(has_text="this one")
    expect(row).to_have_count(1)
    page.get_by_role("row").filter(has_text="Firefox").filter(has_not_text="this one").get_by_role("button").click()
    expect(page.get_by_role("status").first).to_have_text("The session was ended, and its browser is signed out.")
    assert OAuthSession.objects.get(pk=other.id).ended_at is not None
    row.get_by_role("button").click()
    page.wait_for_url("**/sign-in")
