"""The worker is killed while four people read: each page says so, decisions are kept, and all goes on by itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page, expect

from tests.triage.morning.modes import MODES, OFTEN, Mode, complains, expect_no_sideways_scroll, open_row, row_of
from tests.triage.morning.real_site import EARLY, LATE, RealSite, real_site
from tests.triage.windows import Windows
from tests.waiting import wait_for

HEARD = re.compile("Live|Late")  # four windows on a busy machine take longer than the minute in which a frame is live


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RealSite]:
    """Web and worker as processes, neither of which knows of this one."""
    with real_site(tmp_path) as made:
        yield made


@pytest.fixture
def pages(site: RealSite, windows: Windows) -> Iterator[dict[Mode, Page]]:
    """The queue in all four ways, of one person who signed in by the link of `add_maintainer`."""
    with windows.lend(site.address, complains, OFTEN) as opened:
        first = opened()
        wait_for(lambda: answers(first, site.link), what="the web process")
        first.get_by_role("main").get_by_role("button", name="Sign in").click()
        expect(first.get_by_role("heading", name="Password")).to_be_visible()
        cookies = {cookie["name"]: cookie["value"] for cookie in first.context.cookies()}
        yield {mode: opened(cookie=cookies["sessionid"], **mode.options()) for mode in MODES}


def test_work_goes_on_when_the_worker_dies_and_comes_back(site: RealSite, pages: dict[Mode, Page]) -> None:
    for mode, page in pages.items():
        page.goto("/")
        bring(page, mode, page.locator("#freshness", has_text=HEARD))
    wait_for(lambda: pages[Mode()].reload() and row_of(pages[Mode()], EARLY).count(), what="the first pull request")
    site.kill_worker()
    for number, (mode, page) in enumerate(pages.items(), 1):
        bring(page, mode, page.locator("#freshness", has_text="Worker not running"))
        page.goto("/")
        approve(page, mode, f"Chore 0{number}")
        expect_no_sideways_scroll(page, mode)
    (undone, page), last = list(pages.items())[-1], f"Chore 0{len(pages)}"
    site.pass_time(2)
    undone.press(row_of(page, last).get_by_role("button", name="Undo"))
    expect(row_of(page, last)).not_to_contain_text("Approved by you.")
    page.goto("/")  # the undo opened its change again, which on a phone fills the screen
    undone.press(page.locator("#freshness a"))
    expect(page.get_by_role("main")).to_contain_text("nothing new comes in. The operator starts it")
    page.go_back()
    site.release(None)
    site.pass_time(11)
    site.start_worker()
    for mode, page in pages.items():
        bring(page, mode, page.locator("#freshness", has_text=HEARD))
        if mode.scripts:
            expect(page.locator("#fresh")).to_contain_text("1 new")
            mode.press(page.locator("#fresh").get_by_role("link", name="Show"))
        bring(page, mode, row_of(page, LATE))
    page = pages[Mode()]
    waiting = page.get_by_role("region", name="Approved, not merged yet").locator("li")
    kept = [f"Chore 0{number}" for number in range(1, len(pages))]
    wait_for(lambda: page.reload() and waiting.count() == len(kept), what="what was approved meanwhile")
    expect(waiting).to_contain_text(kept)


def answers(page: Page, address: str) -> bool:
    """Whether somebody serves it by now."""
    try:
        return page.goto(address) is not None
    except PlaywrightError:
        return False


def bring(page: Page, mode: Mode, wanted: Locator) -> None:
    """Wait for it: a page with scripts looks by itself, one without is loaded again."""
    if not mode.scripts:
        wait_for(lambda: page.reload() and wanted.count(), what=str(wanted))
    expect(wanted).to_be_visible()


def approve(page: Page, mode: Mode, title: str) -> None:
    """From the pane; whatever its lane is by now, somebody read it."""
    row, pane = row_of(page, title), open_row(page, mode, title)
    mode.press(pane.get_by_role("button", name="Approve round 1"))
    expect(row).to_contain_text("Approved by you.")
    expect(page.locator("#offers")).to_contain_text(
        re.compile(r"Approved .+\. It takes effect once the worker runs again\.")
    )
    if mode.is_phone:
        mode.press(page.locator("#open .back"))
        expect(row).to_be_visible()
