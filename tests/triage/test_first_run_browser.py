"""A maintainer's first day in a real browser: link, password, repositories, progress, queue; also without scripts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.first_site import BEN, LANTERN, PDS, FirstSite, first_site
from tests.triage.test_every_page_browser import FAULTS
from tests.waiting import PATIENT_MS
from triage.access import issue_link
from triage.models import Maintainer, Person

SAM, PASSWORD = "did:plc:" + "s" * 24, "seven lanterns at noon"


@pytest.fixture
def first(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FirstSite]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with first_site(tmp_path, settings, monkeypatch) as site:
        yield site


@pytest.fixture(params=[True, False], ids=["scripts", "no scripts"])
def page(request: pytest.FixtureRequest, browser: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A desktop with scripts, a phone without; the test fails if a page logged an error or broke the policy."""
    scripts: bool = request.param
    complaints: list[str] = []
    size = {"width": 1440, "height": 1000} if scripts else {"width": 390, "height": 800}
    with browser.new_context(viewport=size, java_script_enabled=scripts, base_url=live_server.url) as context:  # ty: ignore[invalid-argument-type]
        context.set_default_timeout(PATIENT_MS)
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        yield shown
    assert complaints == []


def moved_on(page: Page, scripts: bool) -> None:
    """Whoever has no scripts looks again; for the others the page does so by itself."""
    if not scripts:
        page.get_by_role("link", name="Look again").first.click()


def test_the_first_day(first: FirstSite, page: Page) -> None:
    scripts = page.viewport_size is not None and page.viewport_size["width"] > 400
    sam = Person.objects.create(did=SAM, handle="sam.example")
    Maintainer.objects.create(person=sam, repo_key="")

    page.goto(f"/sign-in/{issue_link(sam)}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same again").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What is watched here")

    first.faults[PDS] = 502
    who = page.get_by_label("Handle or DID of the account")
    who.fill("ana.example.test")
    who.press("Enter")
    expect(page.get_by_text("The worker is asked.")).to_be_visible()
    first.work()
    moved_on(page, scripts)
    expect(page.get_by_role("alert").filter(has_text="did not list its repositories")).to_be_visible()
    expect(who).to_have_value("ana.example.test")
    first.faults.clear()
    page.get_by_role("button", name="List its repositories").click()
    expect(page.get_by_text("The worker is asked.")).to_be_visible()
    first.work()
    moved_on(page, scripts)

    lantern = page.get_by_role("group", name="lantern")
    expect(lantern.get_by_text(BEN)).to_be_visible()
    assert scripts or page.evaluate(FAULTS, 390) == [], "the longest form on a phone"
    lantern.get_by_label("Watch lantern").check()
    lantern.get_by_label("May its diffs go to Anthropic?").select_option("claude")
    page.get_by_role("button", name="Watch and begin to read").click()
    expect(page.get_by_role("heading", name="How long it takes is not known yet")).to_be_visible()
    first.work()
    moved_on(page, scripts)
    expect(page.get_by_role("heading", name="The queue can be used.")).to_be_visible()
    assert (
        first.value("select repo_key from repositories semi join watched_repositories using (repository_id)") == LANTERN
    )

    first.judge()
    page.get_by_role("link", name="To the queue").click()
    expect(page.get_by_role("link", name="Trim the wick", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.goto("/sign-in")
    page.get_by_label("Your handle or DID").fill("sam.example")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("link", name="Trim the wick", exact=True)).to_be_visible()
