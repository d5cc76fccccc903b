"""Signing in through the site's own addresses at the real data server, and every way that signs nobody in."""

import logging
import re
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ingest.errors import FetchProblem, OAuthRefused
from ingest.oauth import flow
from tests.ingest.oauth.hostile_server import dripping
from tests.ingest.peer import Peer
from tests.peers.network import Account
from tests.triage.access.oauth.conftest import Site
from triage.access import throttle
from triage.access.oauth import attempts, client, sessions
from triage.access.oauth.client import AT_ONCE, Waiting, sign_in_place, web_sender
from triage.access.oauth.encryption import unseal
from triage.access.oauth.sessions import IN_BROWSER, SessionEnded, current_grant, revoke_ended
from triage.models import Maintainer, OAuthRequest, OAuthSession, Person
from triage.services.erasure import account_of
from triage.views import oauth
from trustsite.worker import handover

pytestmark = pytest.mark.django_db
Join = Callable[[str], Account]
NOT_BEGUN_HERE = "belongs to no sign-in that was begun in this browser"


def signed_in_as(browser: Client) -> str | None:
    """DID of the person whose browser this is."""
    key = browser.session.get("_auth_user_id")
    return str(Person.objects.get(pk=key).did) if key else None


def told(browser: Client, answer: object) -> str:
    """What the page says to which a refused callback leads."""
    assert getattr(answer, "status_code", 0) == 302, answer
    return browser.get(answer["Location"]).content.decode()  # ty: ignore[not-subscriptable]


def is_alive(grant: flow.Grant) -> bool:
    """Whether the data server still takes this session's refresh token; asking spends it."""
    client = sessions.bound_client(OAuthSession.objects.get().client_id, grant.kid)
    assert client is not None
    try:
        flow.refresh(web_sender(), configured.PLC_URL, client, grant)
    except OAuthRefused as problem:
        if not problem.ended:
            raise
        return False
    return True


def test_a_person_signs_in_by_handle_as_their_did_with_the_role_that_it_has(oauth_site: Site, join: Join) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    Maintainer.objects.create(person=Person.objects.create(did=ana.did), repo_key="", role="admin")
    shown = browser.get("/sign-in").content.decode()
    assert "Your handle" in shown
    assert "never sees your password" in shown
    page = browser.post("/oauth/start", {"handle": f" @{ana.handle.upper()} ", "next": "/tokens"})
    assert (page.status_code, "form-action 'self'" in page["Content-Security-Policy"]) == (200, True)
    assert "no-store" in page["Cache-Control"]
    cookie = page.cookies["oauth_browser"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["max-age"]) == (True, "Lax", "/", 600)
    assert ana.did in page.content.decode()
    answer = oauth_site.sign_in(browser, ana, next="/tokens")
    assert (answer.status_code, answer["Location"]) == (302, "/tokens")
    assert signed_in_as(browser) == ana.did
    assert browser.get("/people").status_code == 200, "an admin's page"
    assert Person.objects.get(did=ana.did).handle == ana.handle
    assert set(oauth_site.asked) == {"/oauth/client-metadata.json", "/oauth/jwks.json"}
    session = OAuthSession.objects.get()
    assert (session.scope, session.issuer, session.server) == ("atproto", *["https://pds.example.test"] * 2)
    assert session.client_id == f"{oauth_site.origin}/oauth/client-metadata.json"


@pytest.mark.parametrize(
    ("stored", "domain", "kept"),
    [("own", True, True), ("own", False, False), ("own", None, True), ("old", None, False)],
)
def test_a_handle_that_the_account_gave_up_is_forgotten_but_not_because_its_host_is_down(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch, stored: str, domain: bool | None, kept: bool
) -> None:
    def ask_domain(*_: object) -> bool:
        if domain is None:
            raise FetchProblem("the host is down", retry=True)
        return domain

    ana, browser = join("ana"), oauth_site.browser()
    handle = ana.handle if stored == "own" else "former.example.com"
    Person.objects.create(did=ana.did, handle=handle)
    monkeypatch.setattr(flow, "handle_is_verified", ask_domain)
    oauth_site.sign_in(browser, ana, handle=ana.did)
    assert signed_in_as(browser) == ana.did
    assert Person.objects.get().handle == (handle if kept else "")


def test_a_browser_on_the_same_machine_signs_in_without_a_public_address(
    oauth_site: Site, join: Join, settings: Settings
) -> None:
    settings.PUBLIC_ORIGIN = ""
    ben, browser = join("ben"), Client(headers={"host": "127.0.0.1:8000"})
    answer = oauth_site.sign_in(browser, ben)
    assert (answer["Location"], signed_in_as(browser)) == ("/", ben.did)
    assert OAuthSession.objects.get().key_id == ""
    assert OAuthSession.objects.get().client_id.startswith("http://localhost?redirect_uri=")
    by_name = Client(headers={"host": "localhost:8000"})
    assert 'href="http://127.0.0.1:8000/sign-in"' in by_name.get("/sign-in").content.decode()
    assert by_name.post("/oauth/start", {"handle": ben.handle}).status_code == 404


def test_who_says_no_is_led_back_and_signed_in_as_nobody(oauth_site: Site, join: Join) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    visit = oauth_site.visit(oauth_site.leave(browser, ana), ana)
    assert "You said no at your own server" in told(browser, browser.get("/oauth/callback", visit.reject()))
    assert signed_in_as(browser) is None
    assert not OAuthRequest.objects.exists()
    assert not Person.objects.exists()


def test_another_account_than_the_one_that_was_sent_signs_nobody_in(oauth_site: Site, join: Join) -> None:
    ana, ben, browser = join("ana"), join("ben"), oauth_site.browser()
    visit = oauth_site.visit(oauth_site.leave(browser, ana), ben)
    assert "another account than" in told(browser, browser.get("/oauth/callback", visit.consent()))
    assert signed_in_as(browser) is None
    assert not Person.objects.exists()


def test_an_answer_counts_once_and_only_in_the_browser_that_began(oauth_site: Site, join: Join) -> None:
    ana, browser, stranger = join("ana"), oauth_site.browser(), oauth_site.browser()
    oauth_site.leave(stranger, join("eve"))  # has a sign-in of its own, and so a cookie
    query = oauth_site.visit(oauth_site.leave(browser, ana), ana).consent()
    for other in (stranger, oauth_site.browser()):
        assert NOT_BEGUN_HERE in told(other, other.get("/oauth/callback", query))
        assert NOT_BEGUN_HERE in told(other, other.get("/oauth/callback", query | {"state": "made up"}))
    assert browser.get("/oauth/callback", query)["Location"] == "/"
    again = browser.get("/oauth/callback", query)
    assert again["Location"] == "/sign-in"
    assert signed_in_as(browser) == ana.did
    assert OAuthSession.objects.count() == 1
    sender = web_sender()
    grant = current_grant(OAuthSession.objects.get().id, sender)
    assert is_alive(grant), "a code that is sent twice would have ended the session there"


def test_a_cookie_that_a_neighbouring_host_planted_signs_nobody_in_as_somebody_else(
    oauth_site: Site, join: Join
) -> None:
    eve, attacker, victim = join("eve"), oauth_site.browser(), oauth_site.browser()
    query = oauth_site.visit(oauth_site.leave(attacker, eve), eve).consent()
    planted = {"cookie": f"oauth_browser={attacker.cookies['oauth_browser'].value}"}
    refused = victim.get("/oauth/callback", query, secure=True, headers=planted)
    assert (refused["Location"], "__Host-sessionid" in refused.cookies) == ("/sign-in", False)
    assert OAuthRequest.objects.exists(), "nothing was asked with it"


def test_a_person_has_as_many_sessions_as_people_have_browsers(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_LIVE", 1)
    ana, first, second = join("ana"), oauth_site.browser(), oauth_site.browser()
    for browser in (first, second):
        oauth_site.sign_in(browser, ana)
    assert (signed_in_as(first), signed_in_as(second)) == (None, ana.did)
    assert OAuthSession.objects.filter(ended_at=None).count() == 1


def test_an_erasure_waits_a_bounded_time_for_a_server_that_is_slow_on_purpose(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = join("ana")
    oauth_site.sign_in(oauth_site.browser(), ana)
    monkeypatch.setattr(sessions, "ERASED_SECONDS", 0.0)
    sender = web_sender()
    assert sessions.revoke_all_of(ana.did, sender) == 0
    monkeypatch.undo()
    assert sessions.revoke_all_of(ana.did, sender) == 1


def test_an_expired_attempt_is_not_finished(oauth_site: Site, join: Join) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    query = oauth_site.visit(oauth_site.leave(browser, ana), ana).consent()
    OAuthRequest.objects.update(expires_at=timezone.now())
    assert NOT_BEGUN_HERE in told(browser, browser.get("/oauth/callback", query))
    assert signed_in_as(browser) is None


def test_an_account_that_is_switched_off_here_is_not_let_in_and_its_grant_given_back(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, browser, given = join("ana"), oauth_site.browser(), list[bool]()
    Person.objects.create(did=ana.did, is_active=False)

    def give_back(grant: flow.Grant, client: flow.Client, sender: flow.DpopSender) -> None:
        attempts.give_back(grant, client, sender)
        with pytest.raises(OAuthRefused) as refused:
            flow.refresh(sender, configured.PLC_URL, client, grant)
        given.append(refused.value.ended)

    monkeypatch.setattr(oauth, "give_back", give_back)
    assert "switched off here" in told(browser, oauth_site.sign_in(browser, ana))
    assert (signed_in_as(browser), given) == (None, [True])
    assert not OAuthSession.objects.exists()


def test_an_account_that_is_deactivated_at_its_own_server_signs_nobody_in(oauth_site: Site, join: Join) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    visit = oauth_site.visit(oauth_site.leave(browser, ana), ana)
    ana.deactivate()
    assert "deactivated at its own server" in told(browser, browser.get("/oauth/callback", visit.consent()))
    assert (signed_in_as(browser), Person.objects.exists()) == (None, False)


def test_ending_a_session_signs_out_its_browser_and_tells_the_server(oauth_site: Site, join: Join) -> None:
    ana, here, there = join("ana"), oauth_site.browser(), oauth_site.browser()
    firefox = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"}
    for browser in (here, there):
        query = oauth_site.visit(oauth_site.leave(browser, ana), ana).consent()
        browser.get("/oauth/callback", query, headers=firefox)
    page = here.get("/signed-in").content.decode()
    assert (page.count("Firefox on Linux</th>"), page.count("Firefox on Linux (this one)")) == (1, 1)
    session = OAuthSession.objects.get(pk=there.session[IN_BROWSER])
    sender = web_sender()
    grant = current_grant(session.id, sender)
    assert here.post("/oauth/end", {"session": str(session.id)})["Location"] == "/signed-in"
    assert (signed_in_as(there), signed_in_as(here)) == (None, ana.did)
    with pytest.raises(SessionEnded):
        current_grant(session.id, sender)
    assert revoke_ended(sender, timezone.now()) == 1
    assert OAuthSession.objects.get().id != session.id
    assert not is_alive(grant)
    assert here.post("/oauth/end", {"session": here.session[IN_BROWSER]})["Location"] == "/sign-in"
    assert signed_in_as(here) is None


def test_nobody_ends_the_session_of_somebody_else(oauth_site: Site, join: Join) -> None:
    ana, eve = oauth_site.browser(), oauth_site.browser()
    oauth_site.sign_in(ana, join("ana"))
    eve.force_login(Person.objects.create(did="did:plc:" + "e" * 24))
    for session in (ana.session[IN_BROWSER], "made up", ""):
        assert eve.post("/oauth/end", {"session": session}).status_code == 404
    assert OAuthSession.objects.get().ended_at is None
    assert "None." in eve.get("/signed-in").content.decode()


def test_signing_out_or_in_again_ends_the_session_before(oauth_site: Site, join: Join) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    oauth_site.sign_in(browser, ana)
    first = browser.session[IN_BROWSER]
    oauth_site.sign_in(browser, ana)
    assert signed_in_as(browser) == ana.did
    assert OAuthSession.objects.get(pk=first).ended_at is not None
    browser.post("/sign-out")
    assert not OAuthSession.objects.filter(ended_at=None).exists()
    sender = web_sender()
    assert revoke_ended(sender, timezone.now()) == 2


def test_an_erased_person_leaves_no_session_here_or_at_their_server(oauth_site: Site, join: Join) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    oauth_site.sign_in(browser, ana)
    oauth_site.leave(browser, ana)
    (exported,) = (account_of(ana.did) or {})["oauth_sessions"]
    assert exported["scope"] == "atproto"
    session = OAuthSession.objects.get()
    sender = web_sender()
    grant = current_grant(session.id, sender)
    client = sessions.bound_client(session.client_id, session.key_id)
    assert client is not None
    handover._revoke_sessions(ana.did)
    with pytest.raises(OAuthRefused, match="sign in again"):
        flow.refresh(sender, configured.PLC_URL, client, grant)
    assert handover.accounts.forget_account(ana.did, ana.handle)
    assert not OAuthSession.objects.exists()
    assert not OAuthRequest.objects.exists()
    assert signed_in_as(browser) is None


def test_no_secret_of_a_sign_in_is_in_an_answer_a_log_or_in_plain_in_the_accounts(
    oauth_site: Site, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ana, browser = join("ana"), oauth_site.browser()
    address = oauth_site.leave(browser, ana)
    attempt = OAuthRequest.objects.get()
    secrets = unseal(attempt.id, attempt.sealed)
    query = oauth_site.visit(address, ana).consent()
    answers = [oauth_site.browser().get("/oauth/callback", query), browser.get("/oauth/callback", query)]
    answers += [browser.get("/oauth/callback", query), browser.get("/signed-in"), browser.get("/openapi.json")]
    answers += [browser.get("/oauth/jwks.json"), browser.get("/oauth/client-metadata.json")]
    session = OAuthSession.objects.get()
    secrets |= unseal(session.id, session.sealed) | {"code": query["code"], "state": query["state"]}
    secrets["site's key"] = re.findall(r'"d\\":\\"([^"\\]+)', configured.OAUTH_CLIENT_KEYS.read_text())[0]
    secrets["session's key"] = re.findall(r'"d":"([^"]+)', secrets.pop("key"))[0]
    public = {"issuer", "scope", "handle", "claimed_handle", "redirect_uri"}
    secret = {name: secrets[name] for name in secrets.keys() - public}
    assert secret.keys() >= {
        "verifier",
        "access_token",
        "refresh_token",
        "code",
        "state",
        "site's key",
        "session's key",
    }
    rows = repr([list(model.objects.values()) for model in (OAuthSession, OAuthRequest, Person)])
    out = [caplog.text, rows, *(repr(answer.headers) + answer.getvalue().decode() for answer in answers)]
    assert [(name, text[:200]) for name, value in secret.items() for text in out if value in text] == []


def test_what_is_stored_opens_only_with_the_key_and_for_its_own_row(
    oauth_site: Site, join: Join, settings: Settings
) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    oauth_site.sign_in(browser, ana)
    oauth_site.sign_in(oauth_site.browser(), ana)
    one, other = OAuthSession.objects.all()
    OAuthSession.objects.filter(pk=one.id).update(sealed=other.sealed)
    sender = web_sender()
    with pytest.raises(SessionEnded):
        current_grant(one.id, sender)
    assert current_grant(other.id, sender).did == ana.did
    settings.OAUTH_KEY = "6f" * 32
    with pytest.raises(SessionEnded):
        current_grant(other.id, sender)
    assert {str(row.ended_because) for row in OAuthSession.objects.all()} == {"secret"}


def test_a_sign_in_is_begun_by_a_form_of_this_site_alone_and_not_without_end(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, strict = join("ana"), oauth_site.browser(enforce_csrf_checks=True)
    assert strict.post("/oauth/start", {"handle": ana.handle}).status_code == 403
    assert strict.get("/oauth/start").status_code == 405
    asked = list[str]()
    monkeypatch.setattr(oauth.time, "time", lambda: 300.0 * 5_900_000 + 10)  # far from the end of a window
    monkeypatch.setattr(oauth, "begin_attempt", lambda name, *rest: asked.append(name) or refuse())
    answers = [oauth_site.browser().post("/oauth/start", {"handle": ana.handle}) for _ in range(21)]
    assert [answer.status_code for answer in answers] == [403] * 20 + [429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert len(asked) == 20, "the last one made the site ask nobody"
    monkeypatch.setattr(oauth, "WIDE_LIMIT", 5)
    many = [start_from(oauth_site, f"2001:db8:1:{number}::1", ana.handle) for number in range(6)]
    assert (many, len(asked)) == ([403] * 5 + [429], 25), "nor did the last one of many addresses"


def test_who_comes_while_as_many_as_may_wait_for_their_servers_is_told_to_try_again(
    oauth_site: Site, join: Join
) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    query = oauth_site.visit(oauth_site.leave(browser, ana), ana).consent()
    with ExitStack() as busy:
        for kind, number in product((Waiting.START, Waiting.RETURN), range(AT_ONCE)):
            busy.enter_context(sign_in_place(kind, f"203.0.{number}.0/24"))
        answer = browser.post("/oauth/start", {"handle": ana.handle})
        assert (answer.status_code, answer["Retry-After"]) == (503, "10")
        assert "Too many people are signing in" in told(browser, browser.get("/oauth/callback", query))
        made_up = browser.get("/oauth/callback", query | {"state": "made up"})
        assert NOT_BEGUN_HERE in told(browser, made_up), "this needs no place"
        with client.acting_place(1):
            pass
    with ExitStack() as busy:
        for number in range(AT_ONCE):
            busy.enter_context(sign_in_place(Waiting.START, f"203.0.{number}.0/24"))
        assert browser.get("/oauth/callback", query)["Location"] == "/", "starts take no place of a way back"


def start_from(site: Site, address: str, handle: str) -> int:
    return site.browser().post("/oauth/start", {"handle": handle}, REMOTE_ADDR=address).status_code


@pytest.mark.parametrize(
    ("address", "neighbour", "stranger"),
    [("2001:db8:1:7::7", "2001:db8:1:8::8", "2001:db8:2::1"), ("203.0.113.7", "203.0.113.8", "203.0.114.1")],
)
def test_slow_servers_of_one_network_leave_the_places_of_others(
    oauth_site: Site, join: Join, address: str, neighbour: str, stranger: str
) -> None:
    ana = join("ana")
    with sign_in_place(Waiting.START, throttle.network_of(address, is_wide=True)):
        assert [start_from(oauth_site, neighbour, ana.handle) for _ in range(AT_ONCE)] == [503] * AT_ONCE
        assert start_from(oauth_site, stranger, ana.handle) == 200
    assert start_from(oauth_site, neighbour, ana.handle) == 200


def test_networks_whose_servers_are_slow_leave_the_last_place_to_others(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, slow = join("ana"), "slow.sunstead.org"
    attackers = [f"203.0.{number}.9" for number in range(3)]
    monkeypatch.setattr(client, "WHOLE_SECONDS", 0.3)
    monkeypatch.setattr(client, "SLOW_SECONDS", 0.2)
    with Peer(lambda _: dripping(_)) as peer:
        oauth_site.network.lead(slow, peer.port)
        assert [start_from(oauth_site, address, slow) for address in attackers] == [403] * 3
    monkeypatch.setattr(client, "WHOLE_SECONDS", 20.0)
    with sign_in_place(Waiting.START, throttle.network_of(attackers[0], is_wide=True)):
        assert [start_from(oauth_site, address, ana.handle) for address in attackers] == [503] * 3
        assert start_from(oauth_site, "198.51.100.1", ana.handle) == 200
    assert start_from(oauth_site, attackers[1], ana.handle) == 200, "while others leave room they are served"


def test_a_start_and_a_way_back_end_in_time_however_many_servers_are_slow(
    oauth_site: Site, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, browser = join("ana"), oauth_site.browser()
    query = oauth_site.visit(oauth_site.leave(browser, ana), ana).consent()
    monkeypatch.setattr(client, "WHOLE_SECONDS", 0.0)
    answer = browser.post("/oauth/start", {"handle": ana.handle})
    assert (answer.status_code, "took too long to answer" in answer.content.decode()) == (403, True)
    assert "took too long to answer" in told(browser, browser.get("/oauth/callback", query))
    assert web_sender().fetcher.left_alone() == []


def refuse() -> None:
    raise OAuthRefused("this is refused")


@pytest.mark.parametrize("handle", ["", "no handle", "did:plc:made-up", "nobody.pds.example.test", "<script>.example"])
def test_what_leads_to_no_account_is_told_on_the_page_that_keeps_what_was_typed(oauth_site: Site, handle: str) -> None:
    answer = oauth_site.browser().post("/oauth/start", {"handle": handle, "next": "/tokens"})
    page = answer.content.decode()
    assert answer.status_code == 403
    assert 'role="alert"' in page
    assert 'name="next" value="/tokens"' in page
    assert "<script>." not in page
    assert not OAuthRequest.objects.exists()


def test_the_documents_of_the_site_are_public_and_only_where_it_has_a_public_address(
    oauth_site: Site, settings: Settings, tmp_path: Path
) -> None:
    for path in ("/oauth/client-metadata.json", "/oauth/jwks.json"):
        answer = oauth_site.browser().get(path)
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
        assert (answer["Cache-Control"], answer.cookies) == ("public, max-age=300", {})
        assert "Cookie" not in answer.get("Vary", "")
    assert oauth_site.browser().get("/oauth/client-metadata.json").json()["redirect_uris"] == [
        f"{oauth_site.origin}/oauth/callback"
    ]
    (key,) = oauth_site.browser().get("/oauth/jwks.json").json()["keys"]
    assert key.keys() == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    configured.OAUTH_CLIENT_KEYS.write_text("damaged")
    assert oauth_site.browser().get("/oauth/jwks.json").status_code == 503
    assert oauth_site.browser().post("/oauth/start", {"handle": "ana.example.test"}).status_code == 503
    settings.PUBLIC_ORIGIN = ""
    assert oauth_site.browser().get("/oauth/jwks.json").status_code == 404
    assert "Your handle</label>" not in oauth_site.browser().get("/sign-in").content.decode()
