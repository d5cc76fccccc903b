"""Pages in a real browser: without scripts, with htmx, back and forth, on a phone, under a strict policy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.conftest import OpenPage
from tests.triage.worlds.drawn_rows import MARA, drawn_rows
from tests.triage.worlds.pages_world import DrawnWorld, draw, reader
from tests.waiting import wait_for

Open = Callable[..., Page]


@pytest.fixture
def drawn_site(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> str:
    settings.PUBLIC_READ = True
    settings.STREAM_CLOCK = True
    draw(monkeypatch, DrawnWorld())
    return live_server.url


@pytest.fixture
def open_page(drawn_site: str, open_page: OpenPage) -> Open:
    """`open_page(path, width, scheme, scripts)` on that site, for somebody who may read everything."""

    def opened(path: str, width: int = 1440, **options: Any) -> Page:
        page = open_page(width, reader(), height=1080, **options)
        page.goto(path)
        return page

    return opened


def titles(page: Page) -> Locator:
    return page.locator(".row h3 bdi")


def expect_whole(page: Page) -> None:
    expect(page.locator("header.bar")).to_have_count(1)
    expect(page.locator("h1")).to_have_count(1)


def test_everything_is_reached_without_scripts(open_page: Open, drawn_site: str) -> None:
    page = open_page("/", scripts=False)
    expect(page.locator("#open noscript")).to_be_visible()
    page.locator("#tile-fast_lane").click()
    expect(titles(page)).to_have_text(["Fix flaky knot test"])
    page.get_by_role("searchbox").fill("nothing like it")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("bucket=fast_lane"))
    expect(page.get_by_text("No open pull request matches")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("link", name="Cache repository listing").click()
    expect(page.get_by_role("heading", name="Why this lane")).to_be_visible()
    page.locator("#open").get_by_role("link", name="mara.example").first.click()
    expect(page).to_have_url(f"{drawn_site}/c/{MARA.did}")
    page.get_by_role("link", name="Leaderboard").click()
    page.get_by_role("link", name="Merged").click()
    expect(page).to_have_url(f"{drawn_site}/leaderboard?sort=merged")
    expect(page.locator("#theme")).to_be_hidden()


def test_a_filter_swaps_the_list_and_its_url_alone_restores_the_view(open_page: Open, drawn_site: str) -> None:
    page = open_page("/")
    page.evaluate("window.stays = true")
    page.get_by_role("searchbox").press_sequentially("cache", delay=20)
    page.wait_for_url("**/?q=cache")
    expect(titles(page)).to_have_text(["Cache repository listing"])
    expect(page.locator("#filter-text")).to_be_focused()
    assert page.evaluate("window.stays")
    expect(page.locator("#pull-title")).to_have_text("Cache repository listing")
    page.locator(".list .menu summary").click()
    page.get_by_label("Order").select_option("newest")
    page.wait_for_url("**/?q=cache&sort=newest")
    page.keyboard.press("Escape")
    page.locator("#tile-fast_lane").click()
    page.wait_for_url("**/?bucket=fast_lane&q=cache&sort=newest")
    expect(page.locator("#tile-fast_lane")).to_have_attribute("aria-current", "true")
    expect(page.locator("#announce")).to_have_text("Nothing matches.")
    expect(titles(page)).to_have_count(0)
    expect(page.locator("#open")).to_have_text("Nothing in this list waits for you.")
    fresh = open_page(page.url.removeprefix(drawn_site))
    expect(fresh.locator("#tile-fast_lane")).to_have_attribute("aria-current", "true")
    expect(titles(fresh)).to_have_count(0)
    expect(fresh.get_by_role("searchbox")).to_have_value("cache")


def test_the_pane_follows_a_filter_by_key_and_a_phone_asks_for_no_pane(open_page: Open) -> None:
    page, asked = open_page("/"), list[str]()
    expect(page.locator("#pull-title")).to_have_text(titles(page).first.inner_text())
    assert page.evaluate("document.activeElement === document.body"), "a page that opens moves no focus"
    page.keyboard.press("4")
    expect(page.locator("#pull-title")).to_have_text("Fix flaky knot test")
    expect(page.locator(".row-link[aria-current]")).to_have_count(1)
    phone = open_page("/?bucket=fast_lane", width=390)
    phone.on("request", lambda request: asked.append(request.url))
    phone.locator("#tile-all").click()
    expect(titles(phone)).not_to_have_count(1)
    assert not [one for one in asked if "open=" in one]
    phone.locator(".row-link").first.click()
    expect(phone.locator("#pull-title")).to_be_visible()
    phone.wait_for_timeout(300)  # longer than a pane takes that asks now that it is in view
    expect(phone.locator("#pull-title")).to_be_visible()
    assert len([one for one in asked if "open=" in one]) == 1


def test_mark_focus_and_pane_are_on_one_row_after_back_and_after_the_keys_of_lanes(open_page: Open) -> None:
    page = open_page("/")
    page.set_viewport_size({"width": 1440, "height": 400})  # the list is higher than the screen
    first, third = (titles(page).nth(place).inner_text() for place in (0, 2))
    expect(page.locator("#pull-title")).to_have_text(first, use_inner_text=True)
    page.locator(".row-link").nth(0).click()
    expect_in_hand(page, first)
    page.locator(".row-link").nth(2).click()
    expect_in_hand(page, third)
    page.go_back()
    expect_in_hand(page, first)
    page.go_forward()
    expect_in_hand(page, third)
    page.locator(".row-link").last.click()
    expect(page.locator(".row-link").last).to_have_attribute("aria-current", "true")
    for key in "131":
        page.keyboard.press(key)
        expect(page.locator(f".tile[data-key='{key}']")).to_have_attribute("aria-current", "true")
        expect_in_hand(page, titles(page).first.inner_text())
        expect(page.get_by_role("searchbox")).to_be_in_viewport()
        expect(page.locator(".group-head").first).to_be_in_viewport()


def expect_in_hand(page: Page, title: str) -> None:
    """Wait until this pull request alone is marked in the list, has the focus and is open."""
    expect(page.locator("#pull-title")).to_have_text(title, use_inner_text=True)
    expect(page.locator(".row-link[aria-current] bdi")).to_have_text([title], use_inner_text=True)
    expect(page.locator(".row-link:focus bdi")).to_have_text([title], use_inner_text=True)


def test_escape_in_the_search_clears_field_list_and_url_and_leads_to_the_first_row(
    open_page: Open, drawn_site: str
) -> None:
    page = open_page("/?sort=newest")
    search, every_title = page.get_by_role("searchbox"), titles(page).all_inner_texts()
    for keys in ("on", "off"):
        page.evaluate("keys => (document.documentElement.dataset.keys = keys)", keys)
        search.press_sequentially("cache", delay=20)
        page.wait_for_url("**/?q=cache&sort=newest")
        search.press("Escape")
        page.wait_for_url("**/?sort=newest")
        expect(search).to_have_value("")
        expect(titles(page)).to_have_text(every_title)
        expect_in_hand(page, every_title[0])
        search.fill("nothing like it")
        page.wait_for_url("**/?q=nothing+like+it&sort=newest")
        expect(titles(page)).to_have_count(0)
        search.press("Escape")
        expect_in_hand(page, every_title[0])


def test_a_swap_copies_no_inline_style_of_what_it_replaces(open_page: Open) -> None:
    """Resizing a field by hand leaves such a style, and the policy forbids to set it anew; the fixture would say so."""
    page = open_page("/")
    touch = "part => { part.style.width = '1px'; part.style.width = '' }"
    for part in ("#results", "#tiles", "#tile-fast_lane", ".row >> nth=0"):
        page.locator(part).evaluate(touch)
        assert page.locator(part).get_attribute("style") == ""
    page.locator(".row-link").first.click()
    expect(page.locator("#open .pull")).to_be_visible()
    page.locator("#tile-fast_lane").click()
    expect(page.locator("#tile-fast_lane")).to_have_attribute("aria-current", "true")
    expect(page.locator("main [style]")).to_have_count(0)


def test_back_shows_the_whole_page_before_a_filter_and_the_filtered_one_and_never_a_fragment(open_page: Open) -> None:
    page = open_page("/")
    before = titles(page).all_inner_texts()
    page.locator("#tile-fast_lane").click()
    page.wait_for_url("**/?bucket=fast_lane")
    page.wait_for_load_state("networkidle")  # the pane asks for itself
    page.go_back()
    expect(page.locator("#tile-all")).to_have_attribute("aria-current", "true")
    page.wait_for_load_state("networkidle")
    expect_whole(page)
    expect(titles(page)).to_have_text(before, use_inner_text=True)
    expect(page.locator("#tile-all")).to_have_attribute("aria-current", "true")
    page.locator("#tile-fast_lane").click()
    page.wait_for_url("**/?bucket=fast_lane")
    page.get_by_role("link", name="Dashboard").click()
    page.wait_for_url("**/dashboard")
    page.go_back()
    page.wait_for_url("**/?bucket=fast_lane")
    expect_whole(page)
    expect(titles(page)).to_have_text(["Fix flaky knot test"])
    page.reload()
    expect_whole(page)


def test_a_row_opens_by_keyboard_keeps_the_focus_and_stays_in_the_url(open_page: Open) -> None:
    page = open_page("/")
    link = page.get_by_role("link", name="Cache repository listing")
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/?open=at*")
    expect(page.get_by_role("heading", name="Cache repository listing", exact=True)).to_be_visible()
    expect(link).to_be_focused()
    expect(link).to_have_attribute("aria-current", "true")
    expect(page.locator(".row-link[aria-current]")).to_have_count(1)


def test_a_clicked_row_stays_where_it_is_when_another_one_was_open(open_page: Open) -> None:
    page = open_page(f"/?open={quote(drawn_rows()[2].uri)}")
    link = page.get_by_role("link", name="Cache repository listing")
    link.scroll_into_view_if_needed()
    before = height_of(link)
    link.click()
    expect(page.locator(".row:has([aria-current])")).to_contain_text("Cache repository listing")
    wait_for(lambda: height_of(link) == pytest.approx(before, abs=2), what="the row under the pointer")


def height_of(shown: Locator) -> float:
    """Where its upper edge is on the screen."""
    box = shown.bounding_box()
    assert box is not None
    return box["y"]


def test_the_theme_is_chosen_by_a_button_and_remembered(open_page: Open) -> None:
    page = open_page("/")
    button = page.get_by_role("button", name="Theme")
    expect(button).to_have_text("Theme: system")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(19, 19, 18)"


def test_what_is_wrong_with_ingest_is_read_by_keyboard_and_fits_on_the_screen(
    open_page: Open, settings: Settings, tmp_path: Path
) -> None:
    settings.STREAM_CLOCK = False
    settings.STATUS_PATH = tmp_path / "status.json"
    page = open_page("/")
    pill, told = page.locator("#freshness a"), page.locator("#freshness-details")
    for width in (1440, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("/")
        expect(pill).to_have_text("Worker has not started yet")
        expect(told).to_be_hidden()
        pill.focus()
        expect(told, "a phone shows it on the dashboard, where the pill leads").to_be_visible(visible=width > 640)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        pill.click()
        page.wait_for_url("**/dashboard#ingest")
        expect(page.locator("#ingest")).to_contain_text("so nothing comes in")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
