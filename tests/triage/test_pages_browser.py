"""Pages in a real browser: without scripts, with htmx, back and forth, on a phone, under a strict policy."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.pages_world import MARA, DrawnWorld, draw, drawn_rows
from tests.waiting import PATIENT_MS

OPENED = drawn_rows()[1].uri
HOSTILE_ONE = drawn_rows()[5].uri
PATHS = [
    "/",
    f"/?open={quote(OPENED)}",
    f"/pull/{HOSTILE_ONE}",
    "/leaderboard",
    "/dashboard",
    f"/c/{MARA.did}",
    "/sign-in",
]
# The height and text of what is shown, in one question instead of two for each.
SIZES = """
boxes => boxes.filter(box => box.getClientRects().length)
  .map(box => [box.getBoundingClientRect().height, box.innerText])
"""
Open = Callable[..., Page]


@pytest.fixture
def drawn_site(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> str:
    settings.PUBLIC_READ = True
    settings.STREAM_CLOCK = True
    draw(monkeypatch, DrawnWorld())
    return live_server.url


@pytest.fixture
def open_page(browser: Browser, drawn_site: str) -> Iterator[Open]:
    """`open_page(path, width, scheme, scripts)`; the test fails if any page logged an error or broke the policy."""
    complaints: list[str] = []
    pages: list[Page] = []

    def opened(path: str, width: int = 1440, scheme: Literal["light", "dark"] = "light", scripts: bool = True) -> Page:
        page = browser.new_page(
            viewport={"width": width, "height": 1080}, color_scheme=scheme, java_script_enabled=scripts
        )
        page.set_default_timeout(PATIENT_MS)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(drawn_site + path)
        return page

    yield opened
    for page in pages:
        page.close()
    assert complaints == []


def titles(page: Page) -> list[str]:
    return page.locator(".row h3 bdi").all_inner_texts()


def is_whole(page: Page) -> bool:
    return page.locator("header.bar").count() == 1 and page.locator("h1").count() == 1


def test_everything_is_reached_without_scripts(open_page: Open, drawn_site: str) -> None:
    page = open_page("/", scripts=False)
    page.get_by_role("link", name="Fast lane").click()
    assert titles(page) == ["Fix flaky knot test"]
    page.get_by_role("searchbox").fill("nothing like it")
    page.get_by_role("button", name="Filter").click()
    assert "bucket=fast_lane" in page.url
    assert page.get_by_text("No open pull request matches").is_visible()
    page.get_by_role("link", name="Show all").click()
    page.get_by_role("link", name="Cache repository listing", exact=True).click()
    assert page.get_by_text("Who: structural trust").is_visible()
    page.get_by_role("link", name="All about mara.example").click()
    assert page.url == f"{drawn_site}/c/{MARA.did}"
    page.get_by_role("link", name="Leaderboard").click()
    page.get_by_role("link", name="Merged").click()
    assert page.url.endswith("/leaderboard?sort=merged")
    assert not page.locator("#theme").is_visible()


def test_a_filter_swaps_the_list_and_its_url_alone_restores_the_view(open_page: Open, drawn_site: str) -> None:
    page = open_page("/")
    page.evaluate("window.stays = true")
    page.get_by_role("searchbox").press_sequentially("cache", delay=20)
    page.wait_for_url("**/?q=cache")
    assert titles(page) == ["Cache repository listing"]
    assert page.evaluate("window.stays && document.activeElement.id") == "filter-text"
    page.get_by_label("Order").select_option("newest")
    page.wait_for_url("**/?q=cache&sort=newest")
    page.locator("#tile-fast_lane").click()
    page.wait_for_url("**/?bucket=fast_lane&q=cache&sort=newest")
    assert page.locator("#tile-fast_lane").get_attribute("aria-current") == "true"
    assert page.locator("#announce").inner_text() == "Nothing matches."
    fresh = open_page(page.url.removeprefix(drawn_site))
    assert titles(fresh) == titles(page)
    assert fresh.get_by_role("searchbox").input_value() == "cache"


def test_back_after_a_filter_shows_the_whole_page_before_it(open_page: Open, drawn_site: str) -> None:
    page = open_page("/")
    before = titles(page)
    page.locator("#tile-fast_lane").click()
    page.wait_for_url("**/?bucket=fast_lane")
    page.go_back()
    expect(page.locator("#tile-all")).to_have_attribute("aria-current", "true")
    assert is_whole(page)
    assert titles(page) == before
    assert page.locator("#tile-all").get_attribute("aria-current") == "true"


def test_back_from_another_page_shows_the_filtered_page_and_not_its_fragment(open_page: Open, drawn_site: str) -> None:
    page = open_page("/")
    page.locator("#tile-fast_lane").click()
    page.wait_for_url("**/?bucket=fast_lane")
    page.get_by_role("link", name="Dashboard").click()
    page.wait_for_url("**/dashboard")
    page.go_back()
    page.wait_for_url("**/?bucket=fast_lane")
    assert is_whole(page)
    assert titles(page) == ["Fix flaky knot test"]
    page.reload()
    assert is_whole(page)


def test_a_row_opens_by_keyboard_keeps_the_focus_and_stays_in_the_url(open_page: Open) -> None:
    page = open_page("/")
    link = page.get_by_role("link", name="Cache repository listing", exact=True)
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/?open=at*")
    assert page.get_by_text("Who: structural trust").is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keyboard.press("Enter")
    expect(page.locator(".panel")).to_have_count(0)
    assert page.url.endswith("/")


def test_a_clicked_row_stays_where_it_is_when_another_above_it_closes(open_page: Open) -> None:
    page = open_page(f"/?open={quote(drawn_rows()[2].uri)}")
    link = page.get_by_role("link", name="Cache repository listing", exact=True)
    link.scroll_into_view_if_needed()
    before = link.bounding_box()
    link.click()
    expect(page.locator(".row-open")).to_contain_text("Cache repository listing")
    after = link.bounding_box()
    assert before is not None
    assert after is not None
    assert after["y"] == pytest.approx(before["y"], abs=2)


def test_a_lost_server_says_so_and_leaves_the_list_alone(browser: Browser, drawn_site: str) -> None:
    with browser.new_page() as page:
        page.goto(drawn_site)
        before = titles(page)
        page.route("**/?bucket=*", lambda route: abort(route))
        page.locator("#tile-fast_lane").click()
        page.get_by_role("alert").get_by_text("cannot be reached").wait_for()
        assert titles(page) == before


def abort(route: Route) -> None:
    route.abort()


@pytest.mark.parametrize("width", [500, 360])
def test_no_page_scrolls_sideways_on_a_phone_and_targets_are_large(
    open_page: Open, drawn_site: str, width: int
) -> None:
    page = open_page("/", width)
    for path in PATHS:
        page.goto(drawn_site + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        for height, text in page.locator(".button, .tile:is(a), .bar a, select, input:visible").evaluate_all(SIZES):
            assert height >= 44, (path, text)


def test_a_row_is_56_pixels_high_and_11_fit_on_a_desktop_screen(open_page: Open) -> None:
    page = open_page("/")
    tops = page.evaluate("[...document.querySelectorAll('.row')].map(row => row.getBoundingClientRect().bottom)")
    heights = page.evaluate("[...document.querySelectorAll('.row + .row')].map(row => row.offsetHeight)")
    assert set(heights) == {56}
    assert sum(bottom <= 1080 for bottom in tops) >= 11


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_keeps_the_policy_in_both_themes(open_page: Open, drawn_site: str, scheme: str) -> None:
    page = open_page("/", scheme=scheme)
    for path in PATHS:
        page.goto(drawn_site + path)
    canvas = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert canvas == ("rgb(251, 251, 250)" if scheme == "light" else "rgb(20, 20, 19)")


def test_hostile_titles_run_nothing(open_page: Open) -> None:
    page = open_page("/")
    page.on("dialog", lambda dialog: pytest.fail(f"a title opened a dialog: {dialog.message}"))
    assert "<script>alert(1)</script>" in titles(page)
    assert page.locator("main script, main img").count() == 0


def test_the_theme_is_chosen_by_a_button_and_remembered(open_page: Open) -> None:
    page = open_page("/")
    button = page.get_by_role("button", name="Theme")
    assert button.inner_text() == "Theme: system"
    button.click()
    button.click()
    assert button.inner_text() == "Theme: dark"
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 20, 19)"


def test_the_page_can_be_walked_with_the_tab_key_and_focus_is_seen(open_page: Open) -> None:
    page = open_page("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the content"
    seen = set()
    for _ in range(15):
        page.keyboard.press("Tab")
        outline = "e => [e, getComputedStyle(e), getComputedStyle(e, '::after')]"
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.innerText"))
        assert page.evaluate(
            f"({outline})(document.activeElement).slice(1).some(style => style.outlineStyle !== 'none')"
        )
    assert {"tile-all", "filter-text", "filter-repository", "filter-sort"} <= seen


@pytest.mark.parametrize("width", [1440, 360])
def test_what_is_wrong_with_ingest_is_read_by_keyboard_and_fits_on_the_screen(
    open_page: Open, settings: Settings, tmp_path: Path, width: int
) -> None:
    settings.STREAM_CLOCK = False
    settings.STATUS_PATH = tmp_path / "status.json"
    page = open_page("/", width)
    pill = page.locator("#freshness a")
    assert pill.inner_text() == "Worker not running"
    told = page.locator("#freshness-details")
    assert not told.is_visible()
    pill.focus()
    assert told.is_visible() == (width > 640), "a phone shows it on the dashboard, where the pill leads"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pill.click()
    page.wait_for_url("**/dashboard#ingest")
    assert "nothing new comes in" in page.locator("#ingest").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
