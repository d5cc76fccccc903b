"""Approving and taking it back in a real browser: with htmx, and by keyboard without any script."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.acting_site import NOON, ActingSite, acting_site
from tests.waiting import PATIENT_MS

ANA = "did:plc:" + "2" * 24


@pytest.fixture
def site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ActingSite]:
    """The open pull requests, all in the fast lane, behind a real server."""
    with acting_site(tmp_path, settings, monkeypatch) as acting:
        with acting.result.store.write() as txn:
            txn.execute("update current_decisions set lane = 'fast_lane', probability = .97, low = .9, cases = 40")
        acting.publish()
        yield acting


@pytest.fixture
def pages(site: ActingSite, live_server: LiveServer, browser: Browser) -> Iterator[tuple[Page, Page]]:
    """The queue with scripts and without."""
    cookie = site.maintainer(ANA, "ana.example").cookies["sessionid"].value
    with ExitStack() as opened:

        def open_page(scripts: bool) -> Page:
            size: ViewportSize = {"width": 1440, "height": 1080}
            context = opened.enter_context(browser.new_context(java_script_enabled=scripts, viewport=size))
            context.set_default_timeout(PATIENT_MS)
            context.clock.set_fixed_time(NOON)  # else the offer to undo goes after 10 s, also from under a slow test
            context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
            page = context.new_page()
            page.goto(live_server.url)
            return page

        yield open_page(scripts=True), open_page(scripts=False)


def test_approve_and_undo_with_and_without_scripts_and_a_stale_page_is_told(
    pages: tuple[Page, Page], site: ActingSite
) -> None:
    page, plain = pages
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.evaluate("window.stays = true")
    first, second = page.locator(".row").nth(0), page.locator(".row").nth(1)
    title = first.locator("h3 bdi").inner_text()
    first.get_by_role("button", name="Approve").click()
    expect(first).to_contain_text("Approved by you.")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("2")
    expect(second.locator(".row-link")).to_be_focused()
    assert page.evaluate("window.stays")
    expect(page.locator("#offers")).to_contain_text("It takes effect in 10 seconds.")
    expect(page.locator("#offers")).to_be_visible()
    expect(page.locator("#announce")).to_have_text("Done.")
    stale = plain.locator(".row", has_text=title)
    stale.get_by_role("button", name="Approve").focus()
    plain.keyboard.press("Enter")
    expect(plain.get_by_role("heading", level=1)).to_have_text("Nothing was done")
    expect(plain.locator(".row")).to_contain_text("Approved by you.")
    first.get_by_role("button", name="Undo").click()
    expect(first.get_by_role("button", name="Approve")).to_be_visible()
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("3")
    assert complaints == []
