"""The data server's own page in a real browser: from a link of the site to its consent page, and back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from ingest.errors import OAuthRefused
from ingest.oauth.scopes import Act, act_scope, missing_scopes
from tests.ingest.oauth.site import OWN, Site
from tests.peers.consent import PASSWORD
from tests.peers.network import Account, RealNetwork
from tests.peers.tls_front import TlsFront
from tests.triage.conftest import ARGUMENTS
from tests.waiting import PATIENT_MS


@pytest.fixture(scope="module")
def person(real_network: RealNetwork) -> Account:
    return real_network.join(f"web{time.time_ns() % 1_000_000_000}")


@pytest.fixture(scope="module")
def page(chromium: str, real_network: RealNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder: Path = tmp_path_factory.mktemp("front")
    with TlsFront(real_network, folder) as front, sync_playwright() as playwright:
        expect.set_options(timeout=PATIENT_MS)
        browser = playwright.chromium.launch(executable_path=chromium, args=[*ARGUMENTS, *front.browser_arguments])
        opened = browser.new_page()
        opened.set_default_timeout(PATIENT_MS)
        yield opened
        browser.close()


def give_password(page: Page, site: Site, address: str) -> None:
    """Follow the site's link, and sign in on the server's page."""
    site.leads_to = address
    page.goto(site.client.client_id.partition("/oauth")[0])
    page.get_by_role("link", name="Leave").click()
    page.locator("input[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")


def test_a_person_consents_on_the_page_of_their_own_server_and_comes_back_signed_in(
    page: Page, site: Site, person: Account
) -> None:
    scope = act_scope(Act.MERGE, OWN)
    begun = site.begin(person, scope)
    give_password(page, site, begun.address)
    expect(page.get_by_text(site.client.client_id)).to_be_visible()
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_text("Welcome back")).to_be_visible()
    grant = site.redeem(begun, site.callbacks[-1])
    assert (grant.did, missing_scopes(grant.scope, scope)) == (person.did, [])


def test_a_person_who_denies_access_there_comes_back_without_a_session(page: Page, site: Site, person: Account) -> None:
    begun = site.begin(person, act_scope(Act.COMMENT, OWN))  # what was granted before is not asked again
    give_password(page, site, begun.address)
    page.get_by_role("button", name="Deny access").click()
    expect(page.get_by_text("Welcome back")).to_be_visible()
    with pytest.raises(OAuthRefused) as caught:
        site.redeem(begun, site.callbacks[-1])
    assert caught.value.declined
