"""Headers of every answer: the policy, no framing, who may know where one came from, and cookies."""

import re
from pathlib import Path

import pytest
from django.test import Client, RequestFactory
from pytest_django import Settings

from tests.sources import PROJECT
from tests.triage.worlds.drawn_rows import MARA
from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in
from triage.access.sign_in import safe_next

pytestmark = pytest.mark.django_db
TEMPLATES = sorted((PROJECT / "templates").rglob("*.html"))
# What `'self'` in the policy would refuse, or run: inline scripts and styles, handlers, addresses that are scripts.
INLINE = re.compile(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son[a-z]+=|javascript:|hx-on|hx-vals=.js:", re.IGNORECASE)
ELSEWHERE = [
    "https://evil.example",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "http:evil.example",
    "javascript:alert(1)",
    "data:text/html,hello",
    "evil.example",
    "https:/evil.example",
    "\x00//evil.example",
]


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    settings.STREAM_CLOCK = True
    draw(monkeypatch, DrawnWorld())


@pytest.mark.parametrize("path", ["/", "/dashboard", f"/c/{MARA.did}", "/sign-in", "/nothing-here"])
def test_every_answer_forbids_foreign_code_frames_and_telling_others_where_one_was(client: Client, path: str) -> None:
    sign_in(client)
    answer = client.get(path)
    policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
    allowed = {source for sources in policy.values() for source in sources.split()}
    assert allowed == {"'self'", "'none'"}
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_what_the_policy_would_refuse(template: Path) -> None:
    assert INLINE.findall(template.read_text()) == []


@pytest.mark.parametrize("over_tls", [True, False])
def test_cookies_are_for_this_site_alone_and_secure_where_the_request_was(client: Client, over_tls: bool) -> None:
    sign_in(client)
    client.cookies.clear()
    answer = client.get("/sign-in", secure=over_tls)
    (cookie,) = answer.cookies.values()
    assert cookie.key == ("__Host-csrftoken" if over_tls else "csrftoken")
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (True, "Lax", "/", "")
    assert bool(cookie["secure"]) is over_tls


def test_over_tls_a_cookie_that_another_host_or_a_plain_page_may_have_planted_is_not_read(client: Client) -> None:
    sign_in(client)
    session = client.cookies["sessionid"].value
    client.cookies.clear()
    for name, status in (("sessionid", 302), ("__Host-sessionid", 200), ("__Secure-sessionid", 302)):
        answer = client.get("/sign-in/password", secure=True, headers={"cookie": f"{name}={session}"})
        assert answer.status_code == status, name
    assert client.get("/sign-in/password", headers={"cookie": f"__Host-sessionid={session}"}).status_code == 302


def test_where_cookies_are_always_secure_they_have_the_prefix_without_a_word_of_the_proxy(
    client: Client, settings: Settings
) -> None:
    settings.SECURE_COOKIES = True
    answer = client.get("/sign-in")
    assert [(name, bool(cookie["secure"])) for name, cookie in answer.cookies.items()] == [("__Host-csrftoken", True)]
    strict = Client(enforce_csrf_checks=True)
    strict.get("/sign-in")
    token = strict.cookies["__Host-csrftoken"].value
    body = {"csrfmiddlewaretoken": token, "name": "nobody.example", "password": "a wrong one"}
    answer = strict.post("/sign-in", body)
    assert (answer.status_code, "Wrong handle or password" in answer.content.decode()) == (403, True)
    planted = Client(enforce_csrf_checks=True, headers={"cookie": f"csrftoken={token}"})
    assert "Wrong handle or password" not in planted.post("/sign-in", body).content.decode()


@pytest.mark.parametrize("where", ELSEWHERE)
def test_nobody_is_sent_elsewhere_by_next_or_by_the_page_they_came_from(
    client: Client, rf: RequestFactory, where: str
) -> None:
    assert safe_next(rf.post("/sign-in", {"next": where})) == "/"
    sign_in(client)
    referred = {"referer": "https://evil.example/", "hx-current-url": "https://evil.example/sign-in"}
    answer = client.get("/sign-in", {"next": where}, headers=referred)
    assert answer["Location"] == "/"


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example", "//evil.example/%2e%2e"])
def test_whoever_has_to_sign_in_comes_back_to_this_site(client: Client, path: str) -> None:
    answer = client.get(path)
    target = answer.get("Location", "/")
    assert target.startswith("/")
    assert not target.startswith("//")


def test_a_fragment_sends_its_page_to_sign_in_and_never_to_another_site(client: Client) -> None:
    asked = {"hx-request": "true", "hx-current-url": "https://evil.example/steal"}
    assert client.get("/", headers=asked)["HX-Redirect"] == "/sign-in?next=%2F"
