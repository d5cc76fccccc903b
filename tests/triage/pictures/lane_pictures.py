"""Pictures of a lane's life on the served demo and a served replay; `make screenshots` takes them, no test does."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.triage.pictures.lane_life import (
    answer_audit_with_no,
    close_and_open_again,
    drawn_row,
    mark_what_went_through,
    open_on_present_figures,
    served_demo,
    served_replay,
    shadow_report,
    signed_in,
    wait_until_shut,
)
from tests.triage.pictures.pictures import LOOKS, faults_of, name_of
from trustsite.world import build_world

TARGET = os.environ.get("SCREENSHOTS", "")
Take = Callable[[str, str], None]
HREFS = "links => [...document.querySelectorAll(links)].map(one => one.getAttribute('href') ?? '')"


def pictures(stack: ExitStack, browser: Browser, address: str) -> tuple[Page, Take]:
    """Sign in once for each look; returns the first window, and what takes a page in all of them.

    A page that scrolls sideways or breaks a rule of axe fails in the end.
    """
    faults: dict[str, list[str]] = {}
    stack.callback(lambda: check(faults))
    windows = {look: stack.enter_context(signed_in(browser, address, width, scheme)) for look, width, scheme in LOOKS}

    def take(name: str, path: str) -> None:
        for look, page in windows.items():
            page.goto(path)
            page.screenshot(path=Path(TARGET) / f"{name}.{look}.png", full_page=True)
            if found := faults_of(page):
                faults[f"{name}.{look}"] = found

    return next(iter(windows.values())), take


def check(faults: dict[str, list[str]]) -> None:
    """Fail with what would not be shipped of any page."""
    assert faults == {}


def take_every_page(page: Page, take: Take, site: str) -> None:
    """Take each page that the frame, the lists and the first pull request of the inbox lead to."""
    page.goto("/")
    found = page.evaluate(HREFS, ".places a, .foot a, .list > .crumb a, .tile")
    opened = page.locator(".row-link").first.get_attribute("href") or ""
    page.goto(opened)
    found += [opened, *page.evaluate(HREFS, ".ways-out a, .byline a, .facts a, .change nav a")]
    for path in dict.fromkeys([*found, "/find", "/?q=nothing-like-it", "/nothing-is-here"]):
        if path.startswith("/"):
            take(f"{site}-{name_of(path)}", path)


def test_the_demo(browser: Browser, tmp_path: Path) -> None:
    world = build_world()
    watching, opened = (world.watched[name] for name in ("tidepool", "lantern"))
    lane = f"/lane?repository={opened}"
    with ExitStack() as stack:
        page, take = pictures(stack, browser, stack.enter_context(served_demo(tmp_path)))
        take("demo-queue", "/")
        take_every_page(page, take, "demo")
        take("demo-dashboard", "/dashboard")
        take("demo-shadow-report", f"/settings/repository?repository={watching}")
        take("demo-lane-watching", f"/lane?repository={watching}")
        take("demo-lane-open", lane)
        page.goto("/?bucket=normal_queue")
        take("demo-audit", drawn_row(page).locator("a[href*='open=']").first.get_attribute("href") or "")
        page.goto(f"/history/{world.pulls['went_wrong'][0]}")
        page.get_by_role("link", name="What was known then").click()
        take("demo-incident", page.url)
        mark_what_went_through(page, tmp_path)
        wait_until_shut(page, lane)
        take("demo-lane-shut", lane)
        page.goto(lane)
        open_on_present_figures(page)
        close_and_open_again(page, lane)
        take("demo-lane-reopened", lane)


def test_the_replay(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        page, take = pictures(stack, browser, stack.enter_context(served_replay(build_world(), tmp_path)))
        take("replay-queue", "/")
        take_every_page(page, take, "replay")
        take("replay-lane-watching", "/lane")
        take("replay-shadow-report", shadow_report(page))
        page.goto("/lane")
        open_on_present_figures(page)
        lane = page.url
        take("replay-lane-open", lane)
        for _ in range(5):
            answer_audit_with_no(page)
        take("replay-audit-answered", page.url)
        wait_until_shut(page, lane)
        take("replay-lane-shut", lane)
        page.goto(lane)
        open_on_present_figures(page)
        take("replay-lane-reopened", lane)
