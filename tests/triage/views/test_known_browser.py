"""What is known of somebody, who says so and how it is proven: one small table that fits a phone, in both themes."""

import re

import pytest
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings

from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.every_page import BEN
from tests.triage.worlds.site import Site
from triage.models import Maintainer, Person

pytestmark = pytest.mark.django_db
WIDEST = "document.documentElement.scrollWidth"


@pytest.fixture
def page(site: Site, open_page: OpenPage, settings: Settings) -> Page:
    """A window of an admin on the simulated network, whose people declare and prove what is theirs elsewhere."""
    settings.STREAM_CLOCK = True
    admin = Client()
    person = Person.objects.create(did=BEN, handle="ben.example")
    Maintainer.objects.create(person=person, role="admin")
    admin.force_login(person)
    return open_page(1440, admin)


def test_each_fact_says_who_proves_it_and_leads_to_the_evidence(page: Page, site: Site) -> None:
    page.goto(f"/c/{site.cast['mara']}")
    known = page.locator("#known")
    expect(known.locator("tbody").first.locator("tr")).to_have_text(
        [
            "Handle mara.example.testProven by its domain",
            "GitHub marakeytrace.dev saw gist.example.test",
        ]
    )
    known.locator("summary").first.click()
    expect(known.locator("details tbody tr")).to_have_text(
        [
            "mara.example.testLinks back: mara.example.test",
            re.compile("Account since [A-Z][a-z]+ 20..Told by the directory"),
            re.compile("Records of 3 servicesTold by .*example.test"),
            "elsewhere.example.test/@maraClaimed, not used",
        ]
    )
    links = known.locator("table").get_by_role("link").all()
    assert len(links) == 3
    for link in links:
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
        assert (link.get_attribute("href") or "").startswith("https://")


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("noor", "npm noorkeytrace.dev saw npm.example.test"),
        ("sami", "Fediverse @sami@social.example.testkeytrace.dev saw social.example.test"),
    ],
)
def test_others_of_the_demo_show_their_proven_accounts_too(page: Page, site: Site, name: str, fact: str) -> None:
    page.goto(f"/c/{site.cast[name]}")
    expect(page.locator("#known tbody tr").nth(1)).to_have_text(fact)


def test_it_fits_a_phone_and_breaks_no_rule_in_either_theme(page: Page, site: Site) -> None:
    page.goto(f"/c/{site.cast['mara']}")
    page.locator("#known summary").first.click()
    for width in (320, 390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(WIDEST) <= width
    assert violations_in_both_themes(page) == []
