"""A maintainer's first day in a real browser, in all four ways: code, link, password, repositories, progress, queue."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.axe import violations_in_both_themes
from tests.triage.morning.modes import NEVER, PHONE, Mode, complains, expect_no_sideways_scroll
from tests.triage.test_every_page_browser import FAULTS
from tests.triage.windows import Windows
from tests.triage.worlds.first_site import BEN, LANTERN, PDS, FirstSite, first_site
from triage.access.admission import make_code
from triage.access.sign_in import issue_link
from triage.models import Person

SAM, PASSWORD = "did:plc:" + "s" * 24, "seven lanterns at noon"


@pytest.fixture
def first(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FirstSite]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with first_site(tmp_path, settings, monkeypatch) as site:
        yield site


def looks_again(page: Page, mode: Mode) -> None:
    """Whoever has no scripts asks how far it is; for the others the page does so by itself."""
    if not mode.scripts:
        mode.press(page.get_by_role("link", name="Look again").first)


def works_until_the_queue_can_be_used(first: FirstSite, page: Page, mode: Mode) -> None:
    """One turn of the worker reads everything, but where the machine held it up, when the next one does."""
    usable = page.get_by_role("heading", name="The inbox is ready.")
    for _ in range(3):
        first.work()
        looks_again(page, mode)
        with suppress(AssertionError):
            expect(usable).to_be_visible(timeout=10_000)
            return
    expect(usable).to_be_visible()


@pytest.fixture
def page(mode: Mode, live_server: LiveServer, windows: Windows) -> Iterator[Page]:
    """Somebody who never was here; fails where a page complained."""
    with windows.lend(live_server.url, complains, NEVER) as opened:
        yield opened(**mode.options())


def begins_with_the_operators_code_and_sets_a_password(page: Page, mode: Mode) -> None:
    sam = Person.objects.create(did=SAM, handle="sam.example")
    page.goto("/sign-in")
    mode.press(page.get_by_role("link", name="begins here"))
    if mode.scripts:
        assert violations_in_both_themes(page) == []
    page.get_by_label("Code").fill(make_code(timezone.now()))
    mode.press(page.get_by_role("button", name="Continue to the sign-in"))
    expect(page.get_by_text("The code is right.")).to_be_visible()
    page.get_by_label("Your one-time link").fill(issue_link(sam))
    mode.press(page.get_by_role("button", name="Sign in with the link"))
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("Repeat password").fill(PASSWORD)
    mode.press(page.get_by_role("button", name="Set the password"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Watched repositories")
    expect(page.get_by_label("Handle or DID of the account")).to_have_value("sam.example")


def names_an_account_that_does_not_answer_and_asks_again(first: FirstSite, page: Page, mode: Mode) -> None:
    first.faults[PDS] = 502
    who = page.get_by_label("Handle or DID of the account")
    who.fill("ana.example.test")
    who.press("Enter")
    waits_for_the_worker(first, page, mode)
    expect(page.get_by_role("alert").filter(has_text="did not list its repositories")).to_be_visible()
    expect(who).to_have_value("ana.example.test")
    first.faults.clear()
    mode.press(page.get_by_role("button", name="List its repositories"))
    waits_for_the_worker(first, page, mode)


def waits_for_the_worker(first: FirstSite, page: Page, mode: Mode) -> None:
    """One turn of the worker answers what it was asked."""
    expect(page.get_by_text("Asking the worker.")).to_be_visible()
    first.work()
    looks_again(page, mode)


def chooses_a_repository_and_what_may_leave_this_machine(page: Page, mode: Mode) -> None:
    lantern = page.get_by_role("group", name="lantern")
    expect(lantern.get_by_text(BEN)).to_be_visible()
    if mode == Mode(PHONE, scripts=False):
        assert page.evaluate(FAULTS, PHONE) == [], "the longest form on a phone"
    lantern.get_by_label("Watch lantern").check()
    lantern.get_by_label("May its diffs go to Anthropic?").select_option("claude")
    mode.press(page.get_by_role("button", name="Watch and begin to read"))
    expect(page.get_by_role("heading", name="The time it takes is not known yet.")).to_be_visible()


def finds_the_queue_and_signs_out(page: Page, mode: Mode) -> None:
    mode.press(page.get_by_role("link", name="To the inbox"))
    expect(page.locator(".row", has_text="Trim the wick")).to_be_visible()
    if mode.is_phone:
        mode.press(page.locator(".places .menu summary"))
        page.get_by_role("button", name="Sign out").tap()  # a tap beside the menu would close it
    else:
        mode.press(page.get_by_role("button", name="Sign out"))


def signs_in_by_password_and_is_back_at_the_queue(page: Page, mode: Mode) -> None:
    page.get_by_label("Your handle or DID").fill("sam.example")
    page.get_by_label("Your password").fill(PASSWORD)
    mode.press(page.get_by_role("button", name="Sign in", exact=True))
    expect(page.locator(".row", has_text="Trim the wick")).to_be_visible()


def test_the_first_day(first: FirstSite, page: Page, mode: Mode) -> None:
    begins_with_the_operators_code_and_sets_a_password(page, mode)
    names_an_account_that_does_not_answer_and_asks_again(first, page, mode)
    chooses_a_repository_and_what_may_leave_this_machine(page, mode)
    works_until_the_queue_can_be_used(first, page, mode)
    watched = "select repo_key from repositories semi join watched_repositories using (repository_id)"
    assert first.value(watched) == LANTERN
    expect_no_sideways_scroll(page, mode)
    first.judge()
    finds_the_queue_and_signs_out(page, mode)
    signs_in_by_password_and_is_back_at_the_queue(page, mode)
