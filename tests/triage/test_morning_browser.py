"""A maintainer's morning in a real browser: read, act by key, undo, collide, go on while the worker is away."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.ingest.stream import ANA, pull_uri
from tests.scoring.offered import offer
from tests.scoring.offered_world import LATER, a_new_round, learn
from tests.scoring.small import OFFERED, settled
from tests.triage.acting_site import ActingSite
from tests.triage.morning_site import CHORES, morning_site, show
from tests.waiting import PATIENT_MS
from triage.access import issue_link
from triage.models import Action, Person

MAINTAINER, SECOND_ONE = ("did:plc:" + letter * 24 for letter in "23")
Enter = Callable[..., Page]


@pytest.fixture
def site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ActingSite]:
    """One of them flagged and all others in the fast lane, behind a real server."""
    with morning_site(tmp_path, settings, monkeypatch) as acting:
        yield acting


@pytest.fixture
def enter(site: ActingSite, live_server: LiveServer, browser: Browser) -> Iterator[Enter]:
    """`enter(did, name, width, scripts)`: the queue in somebody's own browser; fails if a page logged an error."""
    complaints: list[str] = []
    with ExitStack() as held:

        def entered(did: str = MAINTAINER, name: str = "ana", width: int = 1440, scripts: bool = True) -> Page:
            context: BrowserContext = held.enter_context(
                browser.new_context(
                    java_script_enabled=scripts, viewport={"width": width, "height": 900}, base_url=live_server.url
                )
            )
            context.set_default_timeout(PATIENT_MS)
            context.add_init_script("window.setInterval = () => 0")  # a test says itself when to look for news
            cookie = site.maintainer(did, f"{name}.example").cookies["sessionid"].value
            context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
            page = context.new_page()
            page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto("/")
            return page

        yield entered
    assert [told for told in complaints if "409" not in told and "502" not in told] == []


def row_of(page: Page, title: str) -> Locator:
    """The row of one pull request."""
    return page.locator(".row", has=page.get_by_text(title, exact=True))


def focused(page: Page) -> str:
    """The title on which the focus is."""
    return str(page.evaluate("document.activeElement.closest('.row')?.querySelector('h3 bdi').innerText ?? ''"))


def press(page: Page, keys: str) -> None:
    """One key after the other."""
    for key in keys.split():
        page.keyboard.press(key)


def look_for_news(page: Page) -> None:
    """What happens when somebody comes back to the tab, and else every 15 s."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_the_morning_of_who_works_by_keyboard(enter: Enter) -> None:
    page = enter()
    page.evaluate("window.stays = true")
    press(page, "3")
    page.wait_for_url("**/?bucket=normal_queue")
    press(page, "4")
    page.wait_for_url("**/?bucket=fast_lane")
    press(page, "/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("chore ak?")
    expect(page.get_by_role("searchbox")).to_have_value("chore ak?")
    page.wait_for_url("**q=chore+ak**")
    assert not page.locator("#keys").is_visible(), "keys are silent while somebody types"
    page.get_by_role("searchbox").fill("chore")
    expect(page.locator(".row")).to_have_count(CHORES - 1)
    press(page, "Escape j")
    titles = page.locator(".row h3 bdi").all_inner_texts()
    assert focused(page) == titles[0]
    with page.expect_response("**/act/look"):  # the server of the tests has one connection for all its threads
        press(page, "j j k o")
    expect(row_of(page, titles[1]).get_by_text("Who: structural trust")).to_be_visible()
    expect(row_of(page, titles[1]).get_by_text("What: content review")).to_be_visible()
    assert "open=" in page.url
    press(page, "Escape")
    expect(page.locator(".panel")).to_have_count(0)
    press(page, "a")
    assert focused(page) == titles[2], "whoever acts goes on at once"
    expect(row_of(page, titles[1])).to_contain_text("Approved by you.")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text(str(CHORES - 1))
    expect(page.locator("#offers")).to_contain_text("Approved.")
    press(page, "u")
    expect(row_of(page, titles[1]).get_by_role("button", name="Approve")).to_be_visible()
    expect(page.locator("#offers")).to_be_hidden()
    assert focused(page) == titles[1], "an undo leads back"
    press(page, "x j x")
    assert page.locator(".pick:checked").count() == 2
    assert page.evaluate("window.stays"), "no page was loaded anew"
    press(page, "g d")
    page.wait_for_url("**/dashboard")
    press(page, "g l")
    page.wait_for_url("**/leaderboard")
    press(page, "g q")
    page.wait_for_url(lambda url: url.endswith("/"))


def test_keys_are_listed_held_ones_act_once_and_all_can_be_switched_off_for_good(enter: Enter) -> None:
    page = enter()
    page.locator(".row-link").nth(1).focus()
    for _ in range(5):
        page.keyboard.down("a")
    page.keyboard.up("a")
    expect(page.locator(".row", has_text="Approved by you.")).to_have_count(1)
    assert page.locator(".tile").first.evaluate("one => getComputedStyle(one, '::after').content") != "none"
    press(page, "?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.get_by_label("Keys of one letter work").uncheck()
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.reload()
    page.locator(".row-link").first.focus()
    press(page, "j a 4 ?")
    assert focused(page) == page.locator(".row h3 bdi").first.inner_text()
    assert Action.objects.count() == 1
    assert not page.get_by_role("dialog").is_visible()
    assert page.locator(".tile").first.evaluate("one => getComputedStyle(one, '::after').content") == "none"
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Keys of one letter work").check()
    press(page, "Escape 4")
    page.wait_for_url("**/?bucket=fast_lane")


def test_two_people_never_collide(enter: Enter) -> None:
    page, other = enter(), enter(SECOND_ONE, "ben")
    with page.expect_response("**/act/look"):
        page.get_by_role("link", name="Chore 03", exact=True).click()
    expect(row_of(page, "Chore 03").get_by_text("Who: structural trust")).to_be_visible()
    look_for_news(other)
    expect(row_of(other, "Chore 03")).to_contain_text("ana.example is looking.")
    expect(other.locator("#fresh")).to_be_hidden()
    row_of(page, "Chore 03").get_by_role("button", name="Approve Chore 03").click()
    expect(row_of(page, "Chore 03")).to_contain_text("Approved by you.")
    other.get_by_role("link", name="Chore 03", exact=True).focus()
    press(other, "a")
    expect(row_of(other, "Chore 03").locator(".note")).to_contain_text("Somebody acted on it since you looked at it")
    expect(row_of(other, "Chore 03")).to_contain_text("Approved by ana.example.")
    assert Action.objects.count() == 1


def test_a_round_that_is_swapped_under_an_approval_is_told_and_not_approved(enter: Enter, site: ActingSite) -> None:
    page = enter()
    row = row_of(page, "Mend the lamp")
    a_new_round(site.result)
    site.result.judge()
    show(site)
    look_for_news(page)
    expect(page.locator("#fresh")).to_contain_text("1 changed")
    row.locator(".row-link").focus()
    press(page, "a")
    expect(row.locator(".note")).to_contain_text("It changed since you looked at it, so nothing was done.")
    assert not Action.objects.exists()
    row.locator(".row-link").focus()
    press(page, "a")
    expect(row).to_contain_text("Approved by you.")
    assert Action.objects.get().pull_uri == OFFERED


def test_new_rows_announce_themselves_and_nothing_moves(enter: Enter, site: ActingSite) -> None:
    page = enter()
    page.get_by_role("link", name="Chore 05", exact=True).focus()
    before = page.locator(".row h3 bdi").all_inner_texts()
    frames = settled("open")
    frames.pull(ANA, "late", title="Came in late")
    learn(site.result, frames)
    offer(site.result, LATER, pull_uri(ANA, "late"), "blob:late")
    site.result.judge()
    show(site)
    look_for_news(page)
    expect(page.locator("#fresh")).to_contain_text("1 new")
    expect(page.locator("#announce")).to_have_text("1 new")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text(str(CHORES + 1))
    assert page.locator(".row h3 bdi").all_inner_texts() == before
    assert focused(page) == "Chore 05"
    page.locator("#fresh").get_by_role("link", name="Show").click()
    expect(row_of(page, "Came in late")).to_be_visible()
    expect(page.locator("#fresh")).to_be_hidden()
    assert focused(page) == "Came in late"


def test_work_goes_on_while_the_worker_and_then_the_server_are_away(
    enter: Enter, site: ActingSite, settings: Settings
) -> None:
    page = enter()
    settings.STREAM_CLOCK, settings.STATUS_PATH = False, site.result.folder / "status.json"
    look_for_news(page)
    expect(page.locator("#freshness")).to_contain_text("Worker not running")
    page.get_by_role("link", name="Chore 07", exact=True).focus()
    press(page, "a")
    expect(row_of(page, "Chore 07")).to_contain_text("Approved by you.")
    settings.STREAM_CLOCK = True
    site.after(11)
    assert site.work() == 1
    show(site)
    assert site.approvals() == ["in force"]
    page.route("**/live", lambda route: route.fulfill(status=502, body=""))
    look_for_news(page)
    expect(page.locator("#freshness")).to_have_text("Not updated any more: load the page again")
    page.unroute("**/live")
    look_for_news(page)
    expect(page.locator("#freshness")).to_contain_text("Recording")
    page.reload()
    expect(page.get_by_role("region", name="Approved, not merged yet")).to_contain_text("Chore 07")


@pytest.mark.parametrize(("width", "scripts"), [(1440, False), (390, True), (390, False)])
def test_the_same_morning_by_mouse_and_thumb(enter: Enter, site: ActingSite, width: int, scripts: bool) -> None:
    page = enter(width=width, scripts=scripts)
    page.get_by_role("link", name="Fast lane").click()
    page.wait_for_url("**/?bucket=fast_lane")
    with page.expect_response("**/act/look" if scripts else "**/?bucket=*"):
        page.get_by_role("link", name="Chore 04", exact=True).click()
    expect(page.get_by_text("What: content review")).to_be_visible()
    page.get_by_role("button", name="Approve Chore 04").click()
    expect(row_of(page, "Chore 04")).to_contain_text("Approved by you.")
    page.get_by_role("button", name="Undo").first.click()
    expect(page.get_by_role("button", name="Approve Chore 04")).to_be_visible()
    page.locator(".pick").evaluate_all("boxes => boxes.slice(0, 12).forEach(box => box.click())")
    page.get_by_role("button", name="Approve the selected").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 12 pull requests of the fast lane")
    page.get_by_role("button", name="Approve 12").click()
    expect(page.locator("#offers")).to_contain_text("Approved 12 pull requests.")
    page.locator("#offers").get_by_role("button", name="Undo").click()
    expect(page.locator(".pick")).to_have_count(CHORES)
    site.after(11)
    assert site.work() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_link_signs_in_and_the_address_of_a_view_restores_it(
    site: ActingSite, live_server: LiveServer, browser: Browser
) -> None:
    site.maintainer(MAINTAINER, "ana.example")
    link = issue_link(Person.objects.get(did=MAINTAINER), now=site.now)
    with browser.new_page(base_url=live_server.url, java_script_enabled=False) as page:
        page.set_default_timeout(PATIENT_MS)
        page.goto(f"/sign-in/{link}")
        page.get_by_role("main").get_by_role("button", name="Sign in").click()
        expect(page.locator("header")).to_contain_text("ana.example")
        page.goto(f"/?bucket=fast_lane&q=chore&open={quote(pull_uri(ANA, 'chore02'))}")
        expect(row_of(page, "Chore 02").get_by_text("Who: structural trust")).to_be_visible()
        page.get_by_role("link", name="Dashboard").click()
        page.wait_for_url("**/dashboard")
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("Pull requests waiting on you")
        expect(row_of(page, "Chore 02").get_by_text("Who: structural trust")).to_be_visible()
