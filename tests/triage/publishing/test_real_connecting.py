"""An admin connects the account as which the site publishes, by a grant of its two collections and of nothing else."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.oauth.scopes import DEFINITION, Act, act_scope, missing_scopes, service_scope
from tests.ingest.stream.frames import REPO
from tests.peers.network import Account
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.publishing_site import ASSESSMENT, OWN, lane, records_of
from triage.access.oauth.client import web_sender
from triage.access.oauth.sessions import end_unused
from triage.models import Change, Maintainer, OAuthSession, Person, ServiceAccount
from triage.services.publishing.publisher import Publisher
from triage.services.publishing.records import note_lanes

pytestmark = pytest.mark.django_db
ADMIN = "did:plc:" + "4" * 24
Join = Callable[[str], Account]


@pytest.fixture
def admin(oauth_site: Site, site: ActingSite) -> Client:
    """The browser of an admin of the site."""
    person = Person.objects.create(did=ADMIN)
    Maintainer.objects.create(person=person, repo_key="", role="admin")
    browser = oauth_site.browser()
    browser.force_login(person)
    return browser


def leave(browser: Client, name: str, **fields: str) -> str:
    """Type the account; returns the address that the page's link leads to."""
    page = browser.post("/publishing/connect", {"handle": name, "next": "/publishing", **fields}).content.decode()
    found = re.search(r'href="([^"]+)">Continue to', page)
    assert found, page
    assert "write, change and delete what this site publishes in it" in page
    return unescape(found[1])


def connect(oauth: Site, browser: Client, account: Account, scope: str | None = None, **fields: str) -> Any:
    """The whole way; returns the page that it ends on."""
    visit = oauth.visit(leave(browser, account.handle, **fields), account)
    answer = browser.get("/oauth/callback", visit.consent(scope))
    assert answer["Location"] == "/publishing"
    return browser.get("/publishing").content.decode()


def tell(site: ActingSite, publisher: Publisher, *numbers: int) -> None:
    note_lanes([lane(number) for number in numbers], "decided", site.now)
    publisher.send_waiting()


def test_by_a_grant_of_exactly_its_collections_the_site_publishes(
    oauth_site: Site, site: ActingSite, admin: Client, join: Join
) -> None:
    account = join("service")
    assert "No account is connected, so nothing is published." in admin.get("/publishing").content.decode()
    page = connect(oauth_site, admin, account)
    assert "by a grant of its collections" in page
    session = OAuthSession.objects.get()
    assert not missing_scopes(session.scope, service_scope(OWN))
    for more in (service_scope(OWN, with_schemas=True), act_scope(Act.COMMENT, OWN), act_scope(Act.MERGE, OWN)):
        assert missing_scopes(session.scope, more)
    assert admin.get("/publishing").wsgi_request.user.did == ADMIN, "the admin stays who they are"
    assert not Maintainer.objects.filter(person__did=account.did).exists()
    publisher = Publisher(web_sender(), lambda: site.now)
    tell(site, publisher, 1, 2)
    assert len(records_of(oauth_site.network, account.did, ASSESSMENT)) == 2
    assert end_unused(site.now) == 0, "no browser holds it, and it stays"
    assert 'Public assessments</th><td class="number">2</td>' in admin.get("/publishing").content.decode()
    assert Change.objects.get(what="publishing.connected").person.did == ADMIN
    assert connect(oauth_site, admin, account, schemas="yes")
    assert not missing_scopes(OAuthSession.objects.get(ended_at=None).scope, service_scope(OWN, with_schemas=True))
    assert OAuthSession.objects.exclude(ended_at=None).count() == 1, "the one before is revoked"
    admin.post("/publishing/take-back")
    tell(site, publisher, 1, 2)
    assert records_of(oauth_site.network, account.did, ASSESSMENT) == {}
    assert "Everything is being taken back." in admin.get("/publishing").content.decode()


def test_the_label_is_asked_for_only_where_the_experiment_is_on_and_its_refusal_holds_up_nothing_else(
    oauth_site: Site, site: ActingSite, admin: Client, join: Join, settings: Settings
) -> None:
    account, with_label = join("service"), service_scope(OWN, with_label=True)
    assert DEFINITION not in connect(oauth_site, admin, account)
    assert missing_scopes(OAuthSession.objects.get().scope, with_label) == [f"repo:{DEFINITION}"]
    publisher = Publisher(web_sender(), lambda: site.now)
    settings.LANE_LABEL = True
    tell(site, publisher, 1)
    assert len(records_of(oauth_site.network, account.did, ASSESSMENT)) == 1
    page = admin.get("/publishing").content.decode()
    for words in ("The definition of the label is not published yet.", f"repo:{DEFINITION}", "sunstead-lane</span>"):
        assert words in page
    page = connect(oauth_site, admin, account, scope=service_scope(OWN))
    assert f"Not connected: the account does not allow its collections (repo:{DEFINITION})" in page
    connect(oauth_site, admin, account)
    assert missing_scopes(OAuthSession.objects.get(ended_at=None).scope, with_label) == []
    tell(site, publisher, 1)
    assert list(records_of(oauth_site.network, account.did, DEFINITION)) == ["sunstead-lane"]
    assert f"at://{account.did}/{DEFINITION}/sunstead-lane</code>" in admin.get("/publishing").content.decode()


def test_a_grant_that_ends_stops_it_with_one_sentence_and_nothing_is_lost(
    oauth_site: Site, site: ActingSite, admin: Client, join: Join
) -> None:
    account = join("service")
    connect(oauth_site, admin, account)
    publisher = Publisher(web_sender(), lambda: site.now)
    tell(site, publisher, 1)
    OAuthSession.objects.update(ended_at=site.now, ended_because="server")
    tell(site, publisher, 1, 2)
    words = "The grant of the service account has ended, or the account moved. Connect it again; nothing is lost."
    assert words in admin.get("/publishing").content.decode()
    connect(oauth_site, admin, account)
    tell(site, publisher, 1, 2)
    assert len(records_of(oauth_site.network, account.did, ASSESSMENT)) == 2
    assert ServiceAccount.objects.get().problem == ""


def test_a_part_of_the_grant_a_no_and_somebody_else_connect_nothing(
    oauth_site: Site, site: ActingSite, admin: Client, join: Join
) -> None:
    account = join("service")
    page = connect(oauth_site, admin, account, scope=f"atproto repo:{ASSESSMENT}")
    assert f"Not connected: the account does not allow its collections (repo:{OWN}.service)" in page
    visit = oauth_site.visit(leave(admin, account.handle), account)
    assert admin.get("/oauth/callback", visit.reject())["Location"] == "/publishing"
    assert "Not connected: you said no at your own server" in admin.get("/publishing").content.decode()
    visit = oauth_site.visit(leave(admin, account.handle), account)
    Maintainer.objects.filter(person__did=ADMIN).update(role="viewer")
    assert admin.get("/oauth/callback", visit.consent())["Location"] == "/sign-in"
    assert not ServiceAccount.objects.exists()
    assert not OAuthSession.objects.exists()
    maintainer = site.maintainer("did:plc:" + "5" * 24, "eve.example", REPO)
    for address in ("/publishing/connect", "/publishing/take-back"):
        assert (
            maintainer.post(address, {"handle": account.handle}, headers={"host": oauth_site.host}).status_code == 403
        )
