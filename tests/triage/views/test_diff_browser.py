"""The change in a real browser: one click from its row, findings that lead to their lines, a phone, no scripts."""

import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from ingest.store.snapshots import publish
from tests.conftest import looks
from tests.scoring.diff.patches import one_line
from tests.scoring.offered import offer
from tests.scoring.pipeline.offered_world import BLOBS, a_new_round, offered_world
from tests.scoring.small import OFFERED
from tests.triage.conftest import OpenPage
from tests.triage.worlds.acting_site import ActingSite, copied_site

BEN = "did:plc:" + "3" * 24
TOKEN = "key = 'ghp_Zk3vQ9xT7bLw2Rn8Yc5Hd1Jm6Pf4Gs0AuEoI'  # " + "long " * 50
LONG = "value = compute('" + "long " * 80 + "')"
MANY = "diff --git a/many.py b/many.py\n--- a/many.py\n+++ b/many.py\n@@ -0,0 +1,120 @@\n" + f"+{LONG}\n" * 120
CHANGE = MANY + one_line("src/login.py", TOKEN) + one_line("gpj.\u202eexe", "<script>alert(1)</script>")
Open = Callable[..., Page]


@cache
def made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="changed-"))
    with offered_world(folder) as result:
        a_new_round(result)
        offer(result, CHANGE, OFFERED, f"blob:{BLOBS[1]}")
        result.judge()
        result.review()
        publish(result.store, folder / "snapshots")
    return folder


@pytest.fixture
def site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ActingSite]:
    with copied_site(made(), None, tmp_path, settings, monkeypatch, public=False) as copied:
        yield copied


@pytest.fixture
def open_page(site: ActingSite, open_page: OpenPage) -> Open:
    """`open_page(path, width, scripts)` as a maintainer."""
    ben = site.maintainer(BEN, "ben.example")

    def opened(path: str, width: int = 1440, scripts: bool = True) -> Page:
        page = open_page(width, ben, scripts=scripts)
        page.goto(path)
        return page

    return opened


def test_a_finding_of_a_row_leads_to_its_line_in_the_change(open_page: Open) -> None:
    for scripts in (True, False):
        page = open_page(f"/?open={quote(OFFERED)}", scripts=scripts)
        page.locator("#open .chip", has_text="src/login.py:1").first.click()
        page.wait_for_url(re.compile(r"\?open=.*#at-"))
        told = page.locator(".told:target")
        expect(told).to_be_in_viewport()
        expect(told.locator("xpath=preceding-sibling::tr[1]")).to_contain_text("ghp_")
        told.get_by_role("link", name="Ask for a change").first.click()
        draft = page.get_by_label("Changes you ask for")
        expect(draft).to_have_value(re.compile(r"^src/login\.py:1: Secret in the code\. "))
        expect(draft).to_be_focused()
        expect(page.get_by_label("Comment", exact=True)).to_be_hidden()


def test_the_change_opens_beside_the_list_and_keys_lead_to_its_findings_and_files(open_page: Open) -> None:
    page = open_page("/")
    part = page.locator("#open .what-side")
    expect(part.locator("details.kept")).to_have_count(3)
    expect(page.locator("h1")).to_have_count(1)
    found = part.locator(".finding").filter(visible=True)
    expect(found.first).to_be_visible()
    found.evaluate_all("all => all.forEach((one, at) => (one.className = at ? 'finding flag' : 'finding'))")
    page.keyboard.press("n")
    expect(found.nth(1), "before the low one above it").to_be_focused()
    for _ in range(found.count() - 1):
        page.keyboard.press("n")
    expect(found.first, "the low one comes last").to_be_focused()
    page.keyboard.press("p")
    expect(found.last).to_be_focused()
    page.keyboard.press("]")
    expect(part.locator(".kept > summary").first).to_be_focused()
    expect(page.locator("main script")).to_have_count(0)


def test_rounds_are_compared_without_scripts(open_page: Open) -> None:
    page = open_page(f"/?open={quote(OFFERED)}", scripts=False)
    menu = page.locator(".pull-head .menu")
    menu.locator("summary").click()
    expect(menu.get_by_role("link")).to_have_text(["Round 1", "Round 2, latest", "Changes since Round 1"])
    menu.get_by_role("link", name="Changes since Round 1").click()
    expect(page.get_by_text("between the two rounds")).to_be_visible()
    expect(page.locator("main")).to_contain_text("gpj.⟨U+202E⟩exe")


OFF_CENTRE = """one => {
  const words = document.createRange();
  words.selectNodeContents(one.lastChild);
  const middle = (at) => at.getBoundingClientRect().top + at.getBoundingClientRect().height / 2;
  return Math.abs(middle(words) - middle(one));
}"""


def test_the_head_of_the_pane_is_low_and_the_diff_begins_on_the_first_screen(open_page: Open) -> None:
    page = open_page(f"/?open={quote(OFFERED)}")
    page.locator("#pull-title + p").evaluate(
        "one => one.insertAdjacentHTML('afterend', '<p><b>Assigned to you.</b></p>')"
    )
    crumb = page.locator(".pull-head .crumb")
    tops = crumb.locator("> :not(.back)").evaluate_all("all => all.map(one => one.getBoundingClientRect().bottom)")
    assert max(tops) - min(tops) < 24, "one line"
    page.locator(".pull-head .menu summary").click()
    shown = page.locator(".pull-head .menu div").bounding_box()
    assert shown
    assert shown["x"] > 472
    page.keyboard.press("Escape")
    expect(page.locator(".pull-head .menu div")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    head, lines = page.locator(".pull-head").bounding_box(), page.locator(".code tr").nth(1).bounding_box()
    assert head
    assert lines
    assert head["height"] < 260
    assert lines["y"] < 740, "above the buttons"
    rounds = page.locator(".pull-head .menu summary")
    assert rounds.evaluate(OFF_CENTRE) < 3, "the arrow stands beside its words"
    rounds.click()
    expect(page.get_by_role("link", name="Changes since Round 1")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_finding_reads_as_one_sentence_without_a_gap_behind_its_severity(open_page: Open) -> None:
    """The width of a file's name leaked into the notes under it: "High                : a security problem"."""
    page = open_page(f"/diff/{OFFERED}")
    for name in page.locator(".kept .finding strong").all():
        assert name.evaluate("strong => getComputedStyle(strong).minWidth") in ("auto", "0px")
    assert page.locator(".kept .finding strong").count() > 0
    expect(page.locator(".kept > summary strong").first).to_have_css("min-width", "224px")
    expect(page.locator(".finding", has_text="(secrets")).to_have_count(0)
    expect(page.locator(".told .finding[title^=secrets]").first).to_contain_text("Low: Secret in the code.")


def test_without_scripts_a_finding_is_called_a_false_alarm_and_that_is_taken_back(open_page: Open) -> None:
    page = open_page(f"/diff/{OFFERED}", scripts=False)
    first = page.locator(".told .dismissal").filter(has=page.get_by_text("Not a problem")).first
    first.locator("summary").click()
    first.get_by_label("Why is it not a problem?").fill("A made-up key of a test.")
    first.get_by_role("button", name="Mark as false alarm").click()
    expect(page.locator(".told .dismissal").first).to_contain_text("says ben.example: A made-up key of a test.")
    expect(page).to_have_url(f"/diff/{OFFERED}")
    page.locator(".told .dismissal").first.get_by_role("button", name="Take back").click()
    expect(page.locator(".told .dismissal").first).not_to_contain_text("A made-up key")


@pytest.mark.parametrize("width", looks(390, 360, small=(360,)))
def test_long_lines_wrap_on_a_phone_and_the_page_does_not_scroll(open_page: Open, width: int) -> None:
    page = open_page(f"/diff/{OFFERED}", width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".code").first.evaluate("box => box.scrollWidth <= box.clientWidth")
    told = page.locator(".told .finding").first.bounding_box()
    assert told is not None
    assert told["x"] + told["width"] <= width, "a finding is read without scrolling"
    link = page.locator(".told").get_by_role("link", name="Ask for a change").first.bounding_box()
    assert link is not None
    assert link["height"] >= 44
    page.goto(f"/?open={quote(OFFERED)}")
    expect(page.locator(".code")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    lines = page.locator(".code").first.bounding_box()
    assert lines is not None
    assert lines["y"] < 700, "the change begins above the fold"


@pytest.mark.parametrize("width", [390, 1440])
def test_long_lines_wrap_inside_their_box_with_a_finding_and_without(open_page: Open, width: int) -> None:
    page = open_page(f"/diff/{OFFERED}", width)
    for name in ("many.py", "src/login.py"):
        box = page.get_by_role("region", name=f"Lines of {name}")
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), name
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = page.locator("tr:has(+ .told) > td:last-child", has_text="ghp_").first.bounding_box()
    assert found is not None
    assert found["height"] > 40, "it wraps"
