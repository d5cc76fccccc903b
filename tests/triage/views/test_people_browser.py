"""The contributor page, the dashboard and the leaderboard of a whole simulated network, in a real browser."""

import re

import pytest
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings

from tests.conftest import looks
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.every_page import BEN
from tests.triage.worlds.site import Site
from triage.models import Maintainer, Person

pytestmark = pytest.mark.django_db
BOTTOM = "Math.max(...[...document.querySelectorAll('main .card')].map(card => card.getBoundingClientRect().bottom))"
WIDEST = "document.documentElement.scrollWidth"
LINES = "cells => cells.map(cell => Math.round(cell.getBoundingClientRect().height / 19))"
LANE = "Review"


@pytest.fixture
def page(site: Site, open_page: OpenPage, settings: Settings) -> Page:
    """A window of an admin on the simulated network, whose people declare and prove what is theirs elsewhere."""
    settings.STREAM_CLOCK = True
    admin = Client()
    person = Person.objects.create(did=BEN, handle="ben.example")
    Maintainer.objects.create(person=person, role="admin")
    admin.force_login(person)
    return open_page(1440, admin)


def expect_fit_at_every_width(page: Page) -> None:
    """Fail where the page that is shown is wider than a window, or breaks a rule of axe with all of it unfolded."""
    for width in (320, 390, 768, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(WIDEST) <= width
    page.evaluate("for (const one of document.querySelectorAll('main details')) one.open = true")
    assert violations_in_both_themes(page) == []


def test_a_contributor_fits_on_one_screen_with_everything_that_the_page_answers(page: Page, site: Site) -> None:
    page.goto(f"/c/{site.cast['mara']}")
    assert page.evaluate(BOTTOM) <= 900
    expect(page.locator("main h2")).to_have_text(
        [
            "Will their next change stay clean?",
            re.compile("Why trust them: 3 independent paths"),
            re.compile("Record"),
            "What would change it",
            "What is known of them",
            "Their data and their say",
        ]
    )
    expect(page.locator(".chance .pill")).to_contain_text(LANE)
    expect(page.locator(".paths li")).to_have_count(3)
    expect(page.locator(".who-head")).to_contain_text("51 pull requests since December 2024: 2 open, 44 clean")
    expect(page.locator("svg.chart")).to_have_count(1)
    expect(page.locator("#record tbody tr")).to_have_count(7)
    page.get_by_role("link", name="Open 2").click()
    expect(page.locator("#record tbody tr")).to_have_count(2)
    expect(page.get_by_role("link", name="Open 2")).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="All 51").click()
    expect(page.locator("#record tbody tr")).to_have_count(51)
    page.goto(f"/c/{site.cast['mara']}")
    expect_fit_at_every_width(page)


def test_a_ring_of_fakes_is_folded_away_and_its_vouches_are_said_to_weigh_nothing(page: Page, site: Site) -> None:
    page.goto(f"/c/{site.cast['mallory']}")
    card = page.locator(".card", has_text="Why trust them")
    expect(card).to_contain_text("11 vouches weigh nothing: no path from the seeds.")
    expect(card.get_by_text("great work").first).to_be_hidden()
    card.get_by_text("Show all 12 vouches").click()
    expect(card.get_by_text("nothing: no path to the seeds")).to_have_count(11)
    expect_fit_at_every_width(page)


def test_on_the_leaderboard_equal_numbers_share_a_rank_and_nobody_without_one_has_any(page: Page, site: Site) -> None:
    page.goto("/leaderboard")
    rows = page.locator(".board tbody tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].innerText, row.cells[2].innerText.match(/\\d+ %/)?.[0] ?? ''])"
    )
    ranks: dict[str, set[str]] = {}
    for rank, number in rows:
        ranks.setdefault(number, set()).add(rank)
    assert ranks.pop("") == {"not ranked"}
    ranks = {number: shared - {"not ranked"} for number, shared in ranks.items()}
    ranks = {number: shared for number, shared in ranks.items() if shared}
    assert all(len(shared) == 1 for shared in ranks.values()), ranks
    assert len({rank for shared in ranks.values() for rank in shared}) == len(ranks)
    row = page.locator("tr", has=page.locator(f"a[href='/c/{site.cast['mara']}']"))
    expect(row, "a rank is of a person, a lane of a change").not_to_contain_text(LANE)
    page.set_viewport_size({"width": 768, "height": 900})
    names = page.locator(".board tbody th a bdi").evaluate_all(LINES)
    assert set(names) == {1}, "on a tablet they stay on one line"
    expect_fit_at_every_width(page)


def test_the_dashboard_answers_its_questions_in_their_order_and_the_backlog_is_what_the_queue_counts(
    page: Page, site: Site
) -> None:
    page.goto("/")
    count = page.locator("#tile-all .figure").inner_text()
    page.goto("/dashboard")
    expect(page.locator("main h2").nth(0)).to_have_text("Is the backlog shrinking?")
    expect(page.locator(".answer + p").nth(0)).to_contain_text(f"{count} are open")
    expect(page.locator("main h2").nth(1)).to_have_text("How long do people wait?")
    expect(page.locator("main h2").nth(4)).to_have_text("Is anything broken?")
    expect(page.get_by_text("Across: month of the answer. Up: days until half of the answered had it.")).to_be_visible()
    page.locator("p", has_text="Longest waiting first-timer").get_by_role("link").click()
    expect(page.locator("h1")).to_be_visible()
    page.goto("/dashboard")
    expect_fit_at_every_width(page)


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


SAMI = ("sami", "Fediverse @sami@social.example.testkeytrace.dev saw social.example.test")


@pytest.mark.parametrize(
    ("name", "fact"),
    looks(("noor", "npm noorkeytrace.dev saw npm.example.test"), SAMI, small=(SAMI,)),
)
def test_others_of_the_demo_show_their_proven_accounts_too(page: Page, site: Site, name: str, fact: str) -> None:
    page.goto(f"/c/{site.cast[name]}")
    expect(page.locator("#known tbody tr").nth(1)).to_have_text(fact)
