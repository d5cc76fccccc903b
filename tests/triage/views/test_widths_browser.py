"""Each width in a real browser, and nothing jumps while a page waits, fails or shows what is out of date."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from scoring.queries.queue import LANE_KEYS
from tests.conftest import looks
from tests.triage.conftest import OpenPage
from tests.triage.every_page import something_of_everything
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.drawn_rows import ANA, drawn_rows, pull_request
from tests.triage.worlds.lane_site import MORE
from tests.triage.worlds.pages_world import DrawnWorld, draw
from triage.charts import reports

OPEN = f"/?open={quote(MORE)}"
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
FOCUSED = "document.activeElement !== document.body && document.activeElement.checkVisibility()"


@pytest.fixture
def admin(shown_site: ActingSite) -> Client:
    return something_of_everything(shown_site)


@SCRIPTS
def test_a_phone_shows_one_part_of_a_pull_request_at_a_time_and_two_buttons_with_the_rest_behind_more(
    admin: Client, shown_site: ActingSite, open_page: OpenPage, scripts: bool
) -> None:
    shown_site.run_ci({MORE: "failed"})
    page = open_page(390, admin, scripts=scripts)
    page.goto(OPEN)
    expect(page.locator(".pull-head .ci-failed"), "CI is whole beside the way back").to_be_in_viewport(ratio=1)
    change, parts = page.locator("#part-change"), page.get_by_role("navigation", name="Parts")
    expect(change).to_be_visible()
    for name in ("Who", "Checks", "Comments"):
        parts.get_by_role("link", name=name).press("Enter")
        part = page.locator(f"#part-{name.lower()}")
        expect(part).to_be_in_viewport()
        expect(part, "the focus is in the part that was asked for").to_be_focused()
        expect(parts.get_by_role("link", name=name)).to_be_in_viewport()
        expect(page.locator(".part").filter(visible=True)).to_have_count(1)
    parts.get_by_role("link", name="Change").click()
    expect(change).to_be_visible()
    expect(page.locator(".part").filter(visible=True)).to_have_count(1)
    page.set_viewport_size({"width": 1344, "height": 900})
    expect(parts).to_be_hidden()
    expect(page.locator(".part").filter(visible=True)).to_have_count(4)
    expect(page.get_by_text("They are not sent to Tangled.")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(OPEN)
    bar, rest = page.locator(".actions"), page.locator("#more-acts")
    more = bar.get_by_role("button", name="Actions")
    expect(bar.locator(".button").filter(visible=True)).to_have_count(3)
    expect(bar.get_by_text("Snooze").first).to_be_hidden()
    more.press("Enter")
    expect(rest.get_by_text("Snooze").first).to_be_in_viewport()
    rest.locator("summary", has_text="Close").click()
    expect(rest.locator("#say-close")).to_be_in_viewport()
    page.set_viewport_size({"width": 1344, "height": 900})
    expect(more).to_be_hidden()
    expect(rest.get_by_text("Snooze").first).to_be_visible()


def test_on_a_phone_escape_and_back_lead_to_the_row_and_the_focus_is_never_lost(
    admin: Client, open_page: OpenPage
) -> None:
    page = open_page(390, admin)
    page.goto(OPEN)
    more = page.locator(".actions").get_by_role("button", name="Actions")
    more.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("#more-acts")).to_be_hidden()
    expect(more).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".row-link:focus")).to_contain_text("Paint the fence")
    page.goto("/")
    page.locator(".row-link").first.press("Enter")
    expect(page.locator("#pull-title")).to_be_focused()
    for part in ("who", "checks", "comments", "change"):
        page.locator(f".parts [href='#part-{part}']").press("Enter")
        expect(page.locator(f"#part-{part}")).to_be_focused()
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED), part
    page.go_back()
    expect(page.locator(".list"), "whatever parts of it were read").to_be_visible()
    expect(page).to_have_url("/")
    page.go_forward()
    expect(page.locator("#pull-title")).to_be_visible()
    page.locator(".back").press("Enter")
    expect(page.locator(".row-link:focus")).to_have_count(1)


# Text that a box or an edge of the window cuts; hidden words, code and pictures are not looked at.
CUT = """() => [...document.querySelectorAll("body *")].filter((one) => {
  if (!one.checkVisibility() || one.closest(".unseen, .skip, svg, select, textarea, .code")) return false;
  const range = document.createRange();
  return [...one.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim()).some((node) => {
    range.selectNodeContents(node);
    return [...range.getClientRects()].some((place) => {
      if (place.width > 1 && place.right > innerWidth + 1) return true;
      for (let box = one; box !== document.body; box = box.parentElement) {
        const { overflowX, display } = getComputedStyle(box), edge = box.getBoundingClientRect();
        if (overflowX !== "visible" && display !== "contents" && place.width > 1
          && (place.right > edge.right + 1 || place.bottom > edge.bottom + 3)) return true;
      }
      return false;
    });
  });
}).map((one) => one.textContent.trim())"""


@pytest.mark.parametrize("width", looks(390, 320, small=(320,)))
def test_on_a_phone_no_text_is_cut_and_links_in_a_text_do_not_push_its_lines_apart(
    admin: Client, shown_site: ActingSite, open_page: OpenPage, width: int
) -> None:
    shown_site.run_ci({MORE: "failed"})
    page = open_page(width, admin)
    for path in ("/", OPEN, "/settled", "/snoozed", "/quiet", "/sign-in"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(CUT) == [], path
    page.goto("/snoozed")
    heights = page.locator(".lines p a:not(.button)").evaluate_all("all => all.map((one) => one.offsetHeight)")
    assert all(height < 44 for height in heights)


def test_below_1088_list_and_pane_are_two_pages_and_above_they_stand_beside_each_other_in_low_heads(
    admin: Client, open_page: OpenPage
) -> None:
    page = open_page(client=admin)
    listed, pane = page.locator(".list"), page.locator(".pull")
    for width in (390, 768, 1087):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("/")
        expect(listed).to_be_visible()
        expect(pane).to_be_hidden()
        page.goto(OPEN)
        expect(listed).to_be_hidden()
        expect(pane).to_be_visible()
    for width, wide, beside in ((1088, 408, False), (1343, 408, False), (1344, 472, True), (1760, 600, True)):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.querySelector('.list').offsetWidth") == wide
        change, who, checks = (page.locator(f"#part-{name}").bounding_box() for name in ("change", "who", "checks"))
        assert change
        assert who
        assert checks
        assert (who["x"] >= change["x"] + change["width"], who["y"] == checks["y"]) == (beside, not beside), width
    page.goto("/")
    for width in (320, 390, 1087, 1344):
        page.set_viewport_size({"width": width, "height": 900})
        tops = page.locator("#tiles .tile").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        assert len(set(tops)) == 1 < len(tops), "the lanes stand in one line"
    page.goto(OPEN)
    for width in (1344, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        search, tiles = (page.locator(one).bounding_box() for one in ("#filter-text", "#tiles"))
        assert search
        assert tiles
        assert tiles["y"] + tiles["height"] - search["y"] <= 85
        buttons = page.locator(".actions :is(.button, .plain):visible").evaluate_all(
            "all => all.map(one => Math.round(one.getBoundingClientRect().top / 8))"
        )
        assert len(buttons) > 5
        assert max(buttons) - min(buttons) <= 1, "all actions stand on one line"


def test_wide_screens_open_the_first_row_that_nobody_decided_and_tell_nobody(
    admin: Client, open_page: OpenPage
) -> None:
    page, asked = open_page(1088, admin), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    title = page.locator(".row h3 bdi").first.text_content() or "no row"
    expect(page.locator("#pull-title")).to_have_text(title)
    expect(page.locator("#pull-title")).to_be_visible()
    expect(page.locator(".row-link[aria-current]")).to_have_count(1)
    expect(page).to_have_url("/")
    assert not any(one.endswith("/act/look") for one in asked)


# Of each row: whether what decided is in view, how many facts up to its age or CI are out of sight, cut numbers, and
# whether a part of the title is in view beside a reason that leaves room for it.
FACTS = """() => [...document.querySelectorAll('.row-text')].map(text => {
  const inside = (one, box) => one.right <= box.right + 1 && one.bottom <= box.bottom + 1 && one.width > 0;
  const [title, facts] = [text.querySelector('h3'), text.querySelector('p')].map(one => one.getBoundingClientRect());
  return [[...text.querySelector('strong').getClientRects()].every(one => inside(one, title)),
    [...text.querySelectorAll('p > :not(:last-child)')].map(one => one.getBoundingClientRect())
      .filter(one => !inside(one, facts)).length,
    [...text.querySelectorAll('p > span.mono')].filter(one => one.scrollWidth > one.clientWidth).length,
    text.querySelector('strong').textContent.length > 30 ||
      inside(text.querySelector('h3 bdi').getClientRects()[0], title)];
})"""
# The widest that a line has to hold besides: a state, an age and each answer of CI.
FULL = """(text, ci) => {
  const state = `<b>answered</b><span>11 min</span><span class="ci">${ci}</span>`;
  text.querySelectorAll('p > b, p > span:not(.mono, :last-child)').forEach(one => one.remove());
  text.querySelector('p > .mono + .mono').insertAdjacentHTML('afterend', state);
  text.querySelector('p > :last-child').innerHTML = '<b>looking</b> <span>+1,240</span> <span>12 comments</span>';
  const line = text.querySelector('p').getBoundingClientRect();
  const whole = (one) => one.scrollWidth <= one.clientWidth && one.getBoundingClientRect().right <= line.right + 1;
  const fixed = [...text.querySelectorAll('p > b, p > span:not(:last-child, .unseen)')];
  const rest = [...text.querySelectorAll('p > :last-child > *')].map(one => one.getBoundingClientRect());
  const shown = rest.filter(one => one.top < line.bottom);
  return [fixed.length, fixed.every(whole),
    shown.every(one => one.right <= line.right + 1 && one.bottom <= line.bottom + 1),
    text.querySelector('p > bdi').offsetWidth];
}"""


def test_titles_are_whole_on_a_tablet_and_every_row_drops_from_the_end_what_does_not_fit(
    admin: Client, open_page: OpenPage
) -> None:
    page = open_page(768, admin)
    page.goto("/")
    cut = page.locator(".row-text h3").evaluate_all(
        "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    )
    assert cut == 0
    for width in (1440, 1344, 1200, 1088, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("/")
        page.locator(".row-text p > bdi:first-child").first.evaluate(
            "one => one.textContent = 'a-very-long-name'.repeat(9)"
        )
        page.locator(".row-text strong").last.evaluate(
            "one => one.textContent = 'Needs a person: scanner broke 12 times 123'"
        )
        shown = page.evaluate(FACTS)
        assert len(shown) > 1
        assert shown == [[True, 0, 0, True]] * len(shown), width
        row = page.locator(".row-text").first
        for ci in ("✓ CI", "✕ CI", "… CI", "no CI"):
            facts, all_whole, rest_whole, author = row.evaluate(FULL, ci)
            assert (facts, all_whole, rest_whole) == (4, True, True), (width, ci)
            assert author > 24, "the repository's name goes before the author's"
    page.goto(f"{OPEN}#part-who")
    page.locator(".byline bdi").evaluate("one => one.textContent = 'a-very-long-name-that-nobody-breaks.'.repeat(4)")
    for width in (1344, 768, 320):
        page.set_viewport_size({"width": width, "height": 900})
        avatar, name = (page.locator(f".byline > {part}").bounding_box() for part in (".avatar", "a"))
        assert avatar
        assert name
        assert name["x"] >= avatar["x"] + avatar["width"], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


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


def show_five(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/")
    expect(page.locator(".row")).to_have_count(5)


def test_the_head_of_a_group_is_one_line_with_its_ages_beside_the_narrow_list(
    world: DrawnWorld, monkeypatch: pytest.MonkeyPatch, open_page: OpenPage
) -> None:
    monkeypatch.setattr(reports, "like_these", lambda lane: dict.fromkeys(LANE_KEYS, "of 71 in the backtest 5 " * 4))
    page = open_page()
    show_five(page, 1366)
    heads = page.locator(".group-head")
    for head in heads.all():
        assert (head.bounding_box() or {})["height"] < 46, head.inner_text()
    review = page.locator(".group-head.review")
    expect(review.locator("summary")).to_contain_text("oldest ")
    expect(review).not_to_contain_text("every third")
    expect(review.locator("details p")).to_be_hidden()
    review.locator("summary").click()
    expect(review.locator("details p").first).to_be_visible()


def test_nothing_moves_while_the_server_is_asked(world: DrawnWorld, open_page: OpenPage) -> None:
    page = open_page()
    for width in (1440, 390):
        show_five(page, width)
        before = boxes(page)
        page.evaluate("() => { XMLHttpRequest.prototype.send = () => {} }")
        page.locator("#tile-fast_lane").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#tile-fast_lane.htmx-request")).to_be_attached()
        assert boxes(page) == before


def test_nothing_moves_where_the_server_cannot_be_reached(
    world: DrawnWorld, browser: Browser, live_server: LiveServer
) -> None:
    page = browser.new_page(base_url=live_server.url)  # whose errors are no complaints
    show_five(page, 1440)
    before = boxes(page)
    # Before htmx took it the tile is a plain link.
    page.wait_for_function("'htmx-internal-data' in document.getElementById('tile-fast_lane')")
    page.evaluate("() => { XMLHttpRequest.prototype.send = function () { this.onerror(new ProgressEvent('error')) } }")
    page.locator("#tile-fast_lane").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert boxes(page) == before
    page.close()


def test_what_is_out_of_date_says_so_above_and_keeps_its_boxes(
    world: DrawnWorld,
    open_page: OpenPage,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    page, before = open_page(), {}
    for width in (1440, 390):
        show_five(page, width)
        before[width] = shapes(boxes(page))
    settings.STREAM_CLOCK, settings.STATUS_PATH = False, tmp_path / "none.json"
    world.newest = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=3)
    draw(monkeypatch, world)
    page = open_page()  # one that kept nothing of the page before
    for width in before:
        show_five(page, width)
        expect(page.locator(".banner").filter(has_text="may be out of date")).to_be_visible()
        assert shapes(boxes(page)) == before[width]


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
