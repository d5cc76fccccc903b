"""Snoozing, the weekly question and the search of settled ones in a real browser, with and without scripts."""

import re
from itertools import product

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from tests.conftest import looks
from tests.ingest.stream.frames import ANA as SENDER
from tests.ingest.stream.frames import MARA, pull_uri
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.lane_site import NEXT, lane_site
from triage.models import Action, Snooze

pytestmark = pytest.mark.django_db(transaction=True)
SITE = lane_site  # three fast-laned pull requests, and two that were merged 20 days before the present
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])


def titles(page: Page) -> list[str]:
    return page.locator(".row h3 bdi").all_inner_texts()


def open_more(page: Page) -> None:
    """What stands behind "Filters, lists" in the head of the list."""
    page.locator(".list .menu summary").click()


def open_snooze(page: Page) -> None:
    page.goto(f"/pull/{NEXT}")
    page.get_by_text("Snooze", exact=True).first.click()


@pytest.mark.parametrize("scripts", looks(True, False, small=(True,)), ids=str)
def test_a_row_is_snoozed_counted_and_shown_again(
    site: ActingSite, ana: Client, ben: Client, open_page: OpenPage, scripts: bool
) -> None:
    page = open_page(client=ana, scripts=scripts)
    open_snooze(page)
    page.get_by_role("button", name="A week").click()
    open_more(page)
    expect(page.get_by_role("link", name="1 snoozed")).to_be_visible()
    assert "Mend the gate" not in titles(page)
    other = open_page(client=ben, scripts=scripts)
    other.goto("/")
    assert "Mend the gate" not in titles(other)
    open_more(other)
    other.get_by_role("link", name="1 snoozed").click()
    expect(other.get_by_text("Snoozed until 27 Nov 2026 by ana.example")).to_be_visible()
    other.get_by_role("button", name="Show now: Mend the gate").click()
    expect(other.get_by_text("Nothing is snoozed. Snooze a row in the inbox with the key z.")).to_be_visible()
    other.goto("/")
    assert "Mend the gate" in titles(other)
    open_more(other)
    expect(other.get_by_role("link", name="Decided")).to_be_visible()
    expect(other.get_by_role("link", name="snoozed")).to_have_count(0)


def test_after_a_snooze_by_key_the_next_row_is_open_and_u_undoes_the_newest_act_first_unless_it_is_too_late(
    site: ActingSite, ana: Client, open_page: OpenPage
) -> None:
    page = open_page(client=ana)
    page.clock.set_fixed_time(site.now)
    page.goto("/")
    page.evaluate("window.stays = true")
    first, following = titles(page)[:2]
    expect(page.locator("#pull-title")).to_have_text(first)
    page.keyboard.press("z")
    page.get_by_role("button", name="A week").click()
    expect(page.locator("#pull-title")).to_have_text(following)
    expect(page.locator(".row-link:focus bdi")).to_have_text(following)
    assert first not in titles(page)
    expect(page.locator("#tile-all .figure")).to_have_text(str(len(titles(page))))
    expect(page.locator("#offers")).to_contain_text(re.compile(rf"Snoozed lantern .+ “{re.escape(first)}” until"))
    site.after(1)
    page.keyboard.press("a")
    expect(page.locator(".offer")).to_contain_text(re.compile(r"Approved .*1 more can be undone\."))
    expect(page.locator("[data-key=u]")).to_have_count(1)
    page.keyboard.press("u")
    expect(page.locator("#announce")).to_have_text("Undone.")
    expect(page.locator("#pull-title")).to_have_text(following)
    expect(page.locator(".row-link:focus bdi")).to_have_text(following)
    assert Action.objects.get().undone_at is not None
    assert Snooze.objects.count() == 1
    page.evaluate("document.querySelector('#announce').textContent = ''")
    page.keyboard.press("u")
    expect(page.locator("#announce")).to_have_text("Undone.")
    expect(page.locator("#pull-title")).to_have_text(first)
    expect(page.locator(".row-link:focus bdi")).to_have_text(first)
    expect(page.locator(".row-link[aria-current] bdi")).to_have_text(first)
    expect(page.locator("#offers")).to_have_text("Undone.")
    assert not Snooze.objects.exists()
    page.keyboard.press("z")
    page.get_by_role("button", name="A week").click()
    expect(page.locator("#offers")).to_contain_text("Snoozed")
    site.after(11)
    page.keyboard.press("u")
    too_late = "The 10 seconds are over. Show it again from the list of snoozed rows."
    expect(page.locator("#open .note"), "beside the list").to_have_text(too_late)
    expect(page.locator("#announce")).to_have_text(too_late)
    expect(page.locator("#pull-title")).to_have_text(first)
    expect(page.locator("#offers")).to_be_hidden()
    assert Snooze.objects.count() == 1
    assert page.evaluate("window.stays")


@SCRIPTS
def test_a_snooze_is_undone_from_the_toast(site: ActingSite, ana: Client, open_page: OpenPage, scripts: bool) -> None:
    page = open_page(client=ana, scripts=scripts)
    page.clock.set_fixed_time(site.now)  # else the offer goes after 10 s, also from under a slow test
    open_snooze(page)
    page.get_by_role("button", name="Until it changes").click()
    offer = page.locator("#offers")
    expect(offer).to_contain_text("“Mend the gate” until it changes.")
    expect(offer).not_to_contain_text("takes effect")
    if scripts:
        expect(page.locator("#pull-title")).to_be_visible()  # an undo ends the request for the first row
    offer.get_by_role("button", name="Undo").click()
    expect(page.locator(".row", has_text="Mend the gate")).to_be_visible()
    open_more(page)
    expect(page.get_by_role("link", name="Decided")).to_be_visible()
    expect(page.get_by_role("link", name="snoozed")).to_have_count(0)
    assert "Mend the gate" in titles(page)
    assert not Snooze.objects.exists()


def test_a_day_is_chosen_and_enter_in_its_field_means_that_day(
    site: ActingSite, ana: Client, open_page: OpenPage
) -> None:
    page = open_page(client=ana)
    open_snooze(page)
    page.get_by_label("Until a day").fill("2026-12-24")
    page.get_by_label("Until a day").press("Enter")
    open_more(page)
    expect(page.get_by_role("link", name="1 snoozed")).to_be_visible()
    assert str(Snooze.objects.get().until) == "2026-12-24 00:00:00+00:00"


@SCRIPTS
def test_one_click_says_that_all_turned_out_fine(
    site: ActingSite, ana: Client, open_page: OpenPage, scripts: bool
) -> None:
    page = open_page(client=ana, scripts=scripts)
    page.goto("/")
    expect(page.get_by_role("heading", name="2 merges have had their 14 days: all fine?")).to_be_visible()
    page.locator(".question summary").click()
    page.locator(".question").get_by_role("link", name="Not fine").first.click()
    expect(page.locator("#outcome")).to_be_visible()
    page.go_back()
    if not page.locator(".question details[open]").count():
        page.locator(".question summary").click()
    page.get_by_role("button", name="All 2 are fine").click()
    expect(page.get_by_role("heading", name="all fine?")).to_have_count(0)
    if scripts:
        expect(page.locator("#announce")).to_have_text("Outcome of 2 pull requests saved.")
        expect(page.locator(".row-link").first).to_be_focused()
    expect(page.locator("#offers")).to_contain_text("2 pull requests")
    assert set(Action.objects.values_list("pull_uri", "outcome")) == {
        (pull_uri(MARA, "offered"), "clean"),
        (pull_uri(SENDER, "first"), "clean"),
    }
    page.locator(".offer").get_by_role("button", name="Undo").click()
    expect(page.locator(".question summary")).to_have_text("2 merges have had their 14 days: all fine?")
    assert not Action.objects.filter(undone_at=None).exists()


@pytest.mark.parametrize(("width", "scripts"), looks(*product((1440, 390, 320), (True, False)), small=((320, False),)))
def test_a_settled_one_is_found_and_nothing_scrolls_sideways(
    site: ActingSite, ana: Client, open_page: OpenPage, scripts: bool, width: int
) -> None:
    page = open_page(width, ana, scripts=scripts)
    page.goto("/")
    open_more(page)
    page.get_by_role("navigation", name="Lists").get_by_role("link", name="Decided").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("searchbox").fill(MARA)
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("tbody th a").click()
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()


def test_the_lists_with_something_on_them_keep_wcag(
    site: ActingSite, ana: Client, ben: Client, open_page: OpenPage
) -> None:
    ana.post("/act", site.form(uri=NEXT))
    site.after(11)
    site.work()
    ana.post("/act", site.form("outcome", NEXT, 1, outcome="reverted"))
    rest = pull_uri(SENDER, "other")
    ana.post("/act", site.form("note", rest, note="Ask her first."))
    page = open_page(client=ben)
    lists = "/", "/settled", "/incidents", "/audits", f"/pull/{rest}"
    # With the same on them tests/triage/test_every_page_browser.py has axe read the lists, their snoozing closed.
    for address in looks(*lists, small=(lists[0], lists[-1])):
        page.goto(address)
        for summary in page.locator("details.snooze summary").all():
            summary.click()
        assert violations_in_both_themes(page) == [], address
    ben.post("/snooze", {**site.form(uri=rest, version=1), "until": "week"})
    for address in looks("/snoozed", f"/pull/{rest}", "/", small=("/snoozed",)):
        page.goto(address)
        assert violations_in_both_themes(page) == [], address
