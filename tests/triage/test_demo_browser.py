"""The served demo and a served replay in a real browser: shadow mode, the opened lane, the audit, what went wrong."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.trustsite import runs
from tests.trustsite.ports import free_port
from tests.waiting import PATIENT_MS
from trustsite.standins.recording import write_recording
from trustsite.world import World, build_world


@pytest.fixture(scope="module")
def world() -> World:
    """The network of the demo."""
    return build_world()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a demo that serves."""
    port, root = free_port(), tmp_path_factory.mktemp("served-demo")
    with runs.serving("demo", port=port, DATA_ROOT=root, BIND=f"127.0.0.1:{port}") as said:
        assert "sign in there as ana.example.test in one click" in said
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def replay(world: World, tmp_path: Path) -> Iterator[str]:
    """The address of a served replay of the same network, which nobody watched before."""
    port, folder = free_port(), tmp_path / "recording"
    write_recording(folder, world.recording)
    # At 5 % the small past of the network offers no lane.
    place = {"DATA_ROOT": tmp_path, "BIND": f"127.0.0.1:{port}", "FALSE_APPROVAL_BUDGET": "0.12"}
    with runs.serving("replay", folder, "--serve", port=port, **place):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def signed_in(browser: Browser, address: str, width: int) -> Generator[Page]:
    """A window in which the maintainer signed in by one click; the page that it ends on is not wider than it."""
    window = browser.new_context(viewport={"width": width, "height": 900}, base_url=address)
    window.set_default_timeout(PATIENT_MS)
    page = window.new_page()
    page.goto("/sign-in")
    page.get_by_role("button", name="Sign in as the demo maintainer").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_attached()
    yield page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()


@pytest.fixture(params=[1440, 390])
def page(demo: str, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The maintainer's window on the demo."""
    with signed_in(browser, demo, request.param) as page:
        yield page


def test_shadow_mode_shows_a_month_and_offers_the_lane_that_it_would_open(page: Page, world: World) -> None:
    page.goto(f"/settings/repository?repository={world.watched['tidepool']}")
    expect(page.locator("main")).to_contain_text("rounds would have been fast lane")
    page.get_by_text("Day by day").click()
    assert page.locator("table.timeline tbody tr").count() >= 5
    page.get_by_role("link", name="See what it would have done, and choose").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Open the fast lane?")
    rows = page.locator("main table", has_text="What happened")
    for happened in ("merged as sent", "changed", "closed", "still open"):
        expect(rows).to_contain_text(happened)
    expect(page.get_by_role("button", name="Open the lane")).to_be_visible()


def test_the_opened_lane_says_on_what_it_rests_and_who_opened_it(page: Page, world: World) -> None:
    page.goto(f"/lane?repository={world.watched['lantern']}")
    opened = page.locator("article", has_text="Open since")
    expect(opened).to_contain_text("by ana.example.test")
    expect(opened.get_by_role("table")).to_contain_text("merged as sent")
    expect(page.locator("main")).not_to_contain_text("set by hand")


def test_the_incident_keeps_what_the_approval_saw(page: Page, world: World) -> None:
    page.goto(f"/history/{world.pulls['went_wrong'][0]}")
    page.get_by_role("link", name="What was known then").click()
    known = page.locator("#known")
    expect(known).to_contain_text("ana.example.test")
    expect(known).to_contain_text("Fast lane")
    expect(known).not_to_contain_text("does not name the decision")


@pytest.mark.parametrize("page", [390], indirect=True)
def test_an_answer_to_the_audit_shows_the_rest(page: Page) -> None:
    page.goto("/?bucket=normal_queue")
    row = page.locator(".row", has=page.locator(".pill", has_text=re.compile(r"Audit\s*$"))).first
    page.goto(row.locator("a[href*='open=']").first.get_attribute("href") or "")
    form = page.locator("form[action='/audit']")
    form.get_by_label("Yes").check()
    form.get_by_label("Because").fill("Small, and its test fails without it.")
    form.get_by_role("button", name="Answer and show the rest").click()
    expect(page.locator("main")).to_contain_text("threshold estimated")
    expect(page.locator("main")).to_contain_text("Small, and its test fails without it.")


def test_a_person_closes_the_lane_and_opens_it_again(page: Page, world: World) -> None:
    page.goto(f"/lane?repository={world.watched['lantern']}")
    page.get_by_label("Why it closes").fill("we look into the change that went wrong")
    page.get_by_role("button", name="Close the lane", exact=True).click()
    page.goto(f"/lane?repository={world.watched['lantern']}")
    page.get_by_role("button", name="Open the lane").click()
    expect(page.locator("article", has_text="Open since")).to_contain_text("by ana.example.test")


def test_a_replays_maintainer_opens_a_lane_closes_it_and_opens_it_again(replay: str, browser: Browser) -> None:
    with signed_in(browser, replay, 1440) as page:
        page.goto("/lane")
        opened = page.locator("article", has_text="Open since")
        page.get_by_role("button", name="Open the lane").click()
        expect(opened).to_contain_text("by ana.example.test")
        opened.get_by_label("Why it closes").fill("a second look first")
        opened.get_by_role("button", name="Close the lane").click()
        page.goto("/lane")
        page.get_by_role("button", name="Open the lane").click()
        expect(opened).to_contain_text("by ana.example.test")
