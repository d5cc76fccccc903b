"""Opening the fast lane on an estimate in a real browser, from the queue's notice to closing it again."""

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from tests.triage.axe import violations
from tests.triage.conftest import OpenPage
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.watching_site import watching_site

SITE = watching_site


@pytest.fixture
def page(ben: Client, open_page: OpenPage) -> Page:
    """A window in which a maintainer is signed in."""
    return open_page(client=ben)


def test_a_lane_is_opened_from_the_queue_lets_through_and_is_closed_again(page: Page, site: ActingSite) -> None:
    page.goto("/")
    expect(page.locator(".banner").first).to_contain_text("is shut")
    expect(page.locator("#group-would_be_fast_lane")).to_have_text("Would be fast lane")
    page.locator(".banner").get_by_role("link", name="Keep watching").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Open the fast lane?")
    assert violations(page) == []
    page.get_by_role("button", name="Open the lane").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The fast lane is open, estimated")
    expect(page.locator("main")).to_contain_text("by ben.example")
    assert violations(page) == []
    site.work()
    page.goto("/")
    expect(page.locator("#group-fast_lane, #group-normal_queue").first).to_be_visible()
    page.goto("/lane")
    page.get_by_label("Why it closes").fill("It was a trial.")
    page.get_by_role("button", name="Close the lane", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Open the fast lane?")
