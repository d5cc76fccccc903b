"""Others act meanwhile, in all four ways: a second person, a swapped round, rows that come, a server away."""

from playwright.sync_api import Locator, Page, expect

from tests.ingest.stream.frames import ANA, pull_uri
from tests.scoring.offered import offer
from tests.scoring.pipeline.offered_world import LATER, a_new_round, learn
from tests.scoring.small import OFFERED, settled
from tests.triage.morning.conftest import SECOND_ONE, Enter
from tests.triage.morning.modes import (
    Mode,
    expect_focus,
    expect_no_sideways_scroll,
    look_for_news,
    open_row,
    pane_of,
    row_of,
    titles,
)
from tests.triage.morning.site import CHORES, show
from tests.triage.worlds.acting_site import ActingSite
from triage.models import Action

CHORE = pull_uri(ANA, "chore03")


def test_what_others_did_meanwhile_is_told_and_nothing_is_approved_over_it(
    enter: Enter, site: ActingSite, mode: Mode
) -> None:
    page = enter(mode)
    collide_with_a_second_person(page, site, mode)
    page.goto("/")
    approve_while_the_round_is_swapped(page, site, mode)


def collide_with_a_second_person(page: Page, site: ActingSite, mode: Mode) -> None:
    """Ben looks at it, then approves it, on a page that is older than what is approved here."""
    did, name = SECOND_ONE
    ben, row = site.maintainer(did, f"{name}.example"), row_of(page, "Chore 03")
    assert ben.post("/act/look", {"uri": CHORE, "next": "/"}).status_code == 302
    come_back(page, mode)
    expect(row).to_contain_text("ben.example is looking.")
    expect(page.locator("#fresh")).to_be_hidden()
    pane = open_row(page, mode, "Chore 03")
    assert ben.post("/act", site.form(uri=CHORE, next="/")).status_code == 302
    mode.press(pane.get_by_role("button", name="Approve round 1"))
    expect(told(page, mode, "Chore 03")).to_contain_text("somebody acted on it before you")
    expect(row).to_contain_text("Approved by ben.example.")
    expect(row.get_by_role("button")).to_have_count(0)
    expect_no_sideways_scroll(page, mode)
    assert [str(action.person) for action in Action.objects.all()] == ["ben.example"]


def approve_while_the_round_is_swapped(page: Page, site: ActingSite, mode: Mode) -> None:
    """What is pressed was meant for a round that is not the newest any more; the second time it is."""
    row, pane = row_of(page, "Mend the lamp"), open_row(page, mode, "Mend the lamp")
    approve = pane.get_by_role("button", name="Approve round 1")
    expect(approve).to_be_visible()
    a_new_round(site.result)
    site.result.judge()
    show(site.result)
    if mode.scripts:
        look_for_news(page)
        expect(page.locator("#fresh")).to_contain_text("1 changed")
    mode.press(approve)
    expect(told(page, mode, "Mend the lamp")).to_contain_text("Not saved: it changed since you opened it.")
    expect_no_sideways_scroll(page, mode)
    assert not Action.objects.filter(pull_uri=OFFERED).exists()
    if not mode.scripts:
        pane = open_row(page, mode, "Mend the lamp")
    # a second tap at once is the second half of a double one, which nobody means
    pane.get_by_role("button", name="Approve round 2").press("Enter")
    expect(row).to_contain_text("Approved by you.")
    assert Action.objects.filter(pull_uri=OFFERED).count() == 1


def come_back(page: Page, mode: Mode) -> None:
    """Look at the queue again after a while: scripts bring what is new, else it is loaded again."""
    if mode.scripts:
        look_for_news(page)
    else:
        page.reload()


def told(page: Page, mode: Mode, title: str) -> Locator:
    """Where a refusal stands: in the pane where scripts run, else on a page of its own."""
    if mode.scripts:
        return pane_of(page, title).locator(".note")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing was done")
    return page.locator("main > .note")


def test_new_rows_announce_themselves_and_nothing_moves_also_after_the_server_was_away(
    enter: Enter, site: ActingSite
) -> None:
    page = enter()
    row_of(page, "Chore 05").locator(".row-link").focus()
    before = titles(page).all_inner_texts()
    frames = settled("open")
    frames.pull(ANA, "late", title="Came in late")
    learn(site.result, frames)
    offer(site.result, LATER, pull_uri(ANA, "late"), "blob:late")
    site.result.judge()
    show(site.result)
    look_for_news(page)
    expect(page.locator("#fresh")).to_contain_text("1 new")
    expect(page.locator("#announce")).to_have_text("1 new")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text(str(CHORES + 1))
    expect(titles(page)).to_have_text(before)
    expect_focus(page, "Chore 05")
    page.locator("#fresh").get_by_role("link", name="Show").click()
    expect(row_of(page, "Came in late")).to_be_visible()
    expect(page.locator("#fresh")).to_be_hidden()
    expect_focus(page, "Came in late")
    page.route("**/live", lambda route: route.fulfill(status=502, body=""))
    look_for_news(page)
    expect(page.locator("#freshness")).to_have_text("Not updated any more: load the page again")
    page.unroute("**/live")
    look_for_news(page)
    expect(page.locator("#freshness")).to_contain_text("Recording")
