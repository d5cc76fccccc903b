"""Nothing jumps: tiles, rows and pills have the same boxes while a page waits, fails, or shows what is out of date."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.conftest import OpenPage
from tests.triage.drawn_rows import ANA, drawn_rows, pull_request
from tests.triage.pages_world import DrawnWorld, draw

pytestmark = pytest.mark.django_db(transaction=True)
MEASURED = ".tile, .filters > *, .group-head, .row-line, .row-line > *"
BOXES = """elements => elements.map(element => {
  const { x, y, width, height } = element.getBoundingClientRect();
  return [element.className.baseVal ?? element.className, x, width, height, y].map(
    value => typeof value === "number" ? Math.round(value) : value.replace(/ ?htmx-\\w+/g, ""));
})"""


@pytest.fixture
def world(live_server: LiveServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> DrawnWorld:
    settings.PUBLIC_READ = settings.STREAM_CLOCK = True
    drawn = DrawnWorld(rows=drawn_rows()[:5])
    draw(monkeypatch, drawn)
    return drawn


def boxes(page: Page) -> list[list[Any]]:
    """Class, left edge, width, height and top of what the eye rests on."""
    found = page.locator(MEASURED).evaluate_all(BOXES)
    assert len(found) > 25
    return found


def shapes(found: list[list[Any]]) -> list[list[Any]]:
    """Class, left edge, width and height; no height of a heading, whose ages are longer words three hours later."""
    return [box[:3] if "group-head" in box[0] else box[:4] for box in found]


def opened(open_page: OpenPage, width: int, path: str = "/") -> Page:
    page = open_page(width)
    page.goto(path)
    expect(page.locator(".row")).to_have_count(5)
    return page


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_while_the_server_is_asked(world: DrawnWorld, open_page: OpenPage, width: int) -> None:
    page = opened(open_page, width)
    before = boxes(page)
    page.evaluate("() => { XMLHttpRequest.prototype.send = () => {} }")
    page.locator("#tile-fast_lane").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#tile-fast_lane.htmx-request")).to_be_attached()
    assert boxes(page) == before


def test_nothing_moves_where_the_server_cannot_be_reached(
    world: DrawnWorld, browser: Browser, live_server: LiveServer
) -> None:
    def logs_errors(width: int) -> Page:
        return browser.new_page(viewport={"width": width, "height": 900}, base_url=live_server.url)

    page = opened(logs_errors, 1440)
    before = boxes(page)
    page.evaluate("() => { XMLHttpRequest.prototype.send = function () { this.onerror(new ProgressEvent('error')) } }")
    page.locator("#tile-fast_lane").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert boxes(page) == before
    page.close()


@pytest.mark.parametrize("width", [1440, 390])
def test_what_is_out_of_date_says_so_above_and_keeps_its_boxes(
    world: DrawnWorld,
    open_page: OpenPage,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    width: int,
) -> None:
    before = boxes(opened(open_page, width))
    settings.STREAM_CLOCK, settings.STATUS_PATH = False, tmp_path / "none.json"
    world.newest = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=3)
    draw(monkeypatch, world)
    page = opened(open_page, width)
    expect(page.locator(".banner").filter(has_text="may be out of date")).to_be_visible()
    assert shapes(boxes(page)) == shapes(before)


def test_eleven_rows_are_seen_at_once_on_a_usual_screen(world: DrawnWorld, open_page: OpenPage) -> None:
    world.rows = tuple(pull_request(number, ANA, f"Fix number {number}", 90 + number, 0) for number in range(1, 20))
    page = open_page(1440)
    page.set_viewport_size({"width": 1440, "height": 1080})
    page.goto("/")
    rows = page.locator(".row")
    expect(rows).to_have_count(19)
    for place in (0, 10):
        expect(rows.nth(place)).to_be_in_viewport(ratio=1)
    tops = [box["y"] for row in rows.all()[1:4] if (box := row.bounding_box())]
    assert [round(after - before) for before, after in pairwise(tops)] == [56, 56]
