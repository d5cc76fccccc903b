"""A maintainer's morning in a real browser, in all four ways: read, filter, expand, see the change, act, undo, bulk."""

import re
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.ingest.stream.frames import ANA, pull_uri
from tests.triage.morning.conftest import MAINTAINER, SECOND_ONE, Enter
from tests.triage.morning.modes import (
    Mode,
    expect_focus,
    expect_no_sideways_scroll,
    open_row,
    pane_of,
    press_keys,
    row_of,
    titles,
)
from tests.triage.morning.site import CHORES
from tests.triage.windows import Windows
from tests.triage.worlds.acting_site import ActingSite
from triage.access.sign_in import issue_link
from triage.models import Action, Person

BULK = 12


def test_the_morning_of_who_works_alone(enter: Enter, site: ActingSite, mode: Mode) -> None:
    page = enter(mode)
    expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    expect(page.locator(".row")).to_have_count(CHORES + 1)
    expect_no_sideways_scroll(page, mode)
    filter_the_fast_lane(page, mode)
    read_one_and_its_change(page, mode)
    approve_and_undo(page, mode, site)
    approve_many(page, mode)
    if mode.is_phone:
        site.after(2)
        mode.press(page.locator("#offers").get_by_role("button", name="Undo"))
        expect(page.locator(".pick")).to_have_count(CHORES - 1)
    site.after(11)
    assert site.work() == (0 if mode.is_phone else BULK), "what was undone in time never takes effect"
    page.goto("/")
    expect(page.get_by_role("region", name="Approved, not merged yet").locator("li")).to_have_count(
        0 if mode.is_phone else BULK
    )
    expect_no_sideways_scroll(page, mode)


def filter_the_fast_lane(page: Page, mode: Mode) -> None:
    """One bucket, and of it what has the words; all of it stands in the address."""
    if mode.has_keys:
        press_keys(page, "4 /")
        page.keyboard.type("chore")
    else:
        mode.press(page.locator("#tile-fast_lane"))
        expect(page).to_have_url("/?bucket=fast_lane")
        page.get_by_role("searchbox").fill("chore")
    if not mode.scripts:
        mode.press(page.get_by_role("button", name="Filter"))
    expect(page.locator(".row")).to_have_count(CHORES - 1)
    expect(page).to_have_url(re.compile(r"/\?(bucket=fast_lane&q=chore|q=chore&.*bucket=fast_lane)"))


def read_one_and_its_change(page: Page, mode: Mode) -> None:
    """The change, who sent it and what was checked, beside the list or, on a phone, in its place."""
    row, pane = row_of(page, "Chore 04"), pane_of(page, "Chore 04")
    if mode.has_keys:
        row.locator(".row-link").focus()
    with page.expect_response("**/act/look" if mode.scripts else "**/?bucket=*"):  # the tests' server has one database
        act_by(page, mode, "o", row.locator(".row-link"))
    expect(pane.get_by_role("region", name="Lines of chore04.py")).to_contain_text("print(2)")
    if mode.is_phone:
        mode.press(pane.get_by_role("link", name="Checks"))
    expect(pane.get_by_role("heading", name="Why this lane")).to_be_visible()
    expect(pane.get_by_role("heading", name="Checks")).to_be_visible()
    expect(page).to_have_url(re.compile(r"open=at.*chore04"))
    expect(row).to_be_visible(visible=not mode.is_phone)
    expect_no_sideways_scroll(page, mode)


def approve_and_undo(page: Page, mode: Mode, site: ActingSite) -> None:
    """Nothing says so before the server did; then it can be taken back."""
    row, shown = row_of(page, "Chore 04"), titles(page).all_text_contents()
    after = shown[shown.index("Chore 04") + 1] if mode.scripts else "Chore 04"
    act_by(page, mode, "a", pane_of(page, "Chore 04").get_by_role("button", name="Approve round 1"))
    expect(row).to_contain_text("Approved by you.")
    expect(pane_of(page, after)).to_be_visible()
    if mode.is_phone:
        mode.press(page.locator("#open .back"))
    expect(page.locator("#tile-fast_lane .figure")).to_have_text(str(CHORES - 2))
    expect(page.locator("#offers")).to_contain_text(re.compile(r"Approved .+\. It takes effect in 10 seconds\."))
    expect_no_sideways_scroll(page, mode)
    site.after(2)
    act_by(page, mode, "u", row.get_by_role("button", name="Undo"))
    expect(row).not_to_contain_text("Approved")
    expect(page.locator("#offers")).to_be_hidden()
    expect(page.locator("#tile-fast_lane .figure")).to_have_text(str(CHORES - 1))


def approve_many(page: Page, mode: Mode) -> None:
    """Twelve of the fast lane, after a page that says what that means."""
    if mode.is_phone and not mode.scripts:  # the undo opened its change again
        mode.press(page.locator("#open .back"))
    if mode.has_keys:
        page.locator(".row-link").first.focus()
        press_keys(page, "x j " * BULK)
    else:
        for number in range(BULK):
            page.locator(".pick").nth(number).check()
    expect(page.locator(".pick:checked")).to_have_count(BULK)
    mode.press(page.get_by_role("button", name="Approve several…"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 12 pull requests in the fast lane")
    expect(page.get_by_role("main")).to_contain_text("May need a fix")
    expect_no_sideways_scroll(page, mode)
    mode.press(page.get_by_role("button", name="Approve 12"))
    expect(page.locator("#offers")).to_contain_text("Approved 12 pull requests.")
    expect(page.locator(".row", has_text="Approved by you.")).to_have_count(BULK)


def act_by(page: Page, mode: Mode, key: str, button: Locator) -> None:
    """By its key where there are keys, which act on the row that has the focus; else the button itself."""
    if mode.has_keys:
        press_keys(page, key)
    else:
        mode.press(button)


def test_keys_lead_through_rows_filters_and_pages_and_are_silent_while_somebody_types(enter: Enter) -> None:
    page = enter()
    page.evaluate("window.stays = true")
    press_keys(page, "3")
    expect(page).to_have_url("/?bucket=normal_queue")
    press_keys(page, "4")
    expect(page).to_have_url("/?bucket=fast_lane")
    press_keys(page, "/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("chore ak?")
    expect(page.get_by_role("searchbox")).to_have_value("chore ak?")
    expect(page).to_have_url("/?bucket=fast_lane&q=chore+ak%3F")
    expect(page.locator("#keys")).to_be_hidden()
    page.get_by_role("searchbox").fill("chore")
    expect(page.locator(".row")).to_have_count(CHORES - 1)
    shown = titles(page).all_inner_texts()
    page.locator(".row-link").first.focus()  # Esc would clear the filter
    expect_focus(page, shown[0])
    press_keys(page, "j j k")
    expect_focus(page, shown[1])
    press_keys(page, "x j x")
    expect(page.locator(".pick:checked")).to_have_count(2)
    assert page.evaluate("window.stays"), "no page was loaded anew"
    press_keys(page, "g d")
    expect(page).to_have_url("/dashboard")
    press_keys(page, "g l")
    expect(page).to_have_url("/lane")
    press_keys(page, "g p")
    expect(page).to_have_url("/leaderboard")
    press_keys(page, "g q")
    expect(page).to_have_url("/")
    expect(page.locator("#pull-title")).to_be_visible()
    press_keys(page, "g p")
    expect(page).to_have_url("/leaderboard")


def test_keys_are_listed_held_ones_act_once_and_all_can_be_switched_off_for_good(enter: Enter) -> None:
    page = enter()
    expect(page.locator("#pull-title")).to_be_visible()
    page.locator(".row-link").nth(1).focus()
    press_keys(page, "a")  # opens it: the pane shows another, which nobody means
    expect(page.locator("#pull-title")).to_have_text(titles(page).nth(1).inner_text())
    expect(page.locator(".row", has_text="Approved by you.")).to_have_count(0)
    for _ in range(5):
        page.keyboard.down("a")
    page.keyboard.up("a")
    expect(page.locator(".row", has_text="Approved by you.")).to_have_count(1)
    expect(page.locator(".actions .button[data-key]").first).not_to_have_css("content", "none", pseudo="after")
    press_keys(page, "?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.get_by_label("Single-key shortcuts: on").uncheck()
    press_keys(page, "Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.reload()
    page.locator(".row-link").first.focus()
    press_keys(page, "j a 4 ?")
    expect(page.locator(".row-link").first).to_be_focused()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator(".row", has_text="Approved by you.")).to_have_count(1)
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Single-key shortcuts: on").check()
    press_keys(page, "Escape 4")
    expect(page).to_have_url("/?bucket=fast_lane")
    assert Action.objects.count() == 1


def test_from_the_open_page_to_a_refusal_that_covers_no_code_and_is_sent_without_a_mouse(enter: Enter) -> None:
    page = enter()
    flagged = page.locator("#pull-title").inner_text()
    press_keys(page, "r")
    field, actions = page.locator("#say-request_changes"), page.locator(".actions")
    expect(field).to_be_focused()
    body, bar, form = (one.bounding_box() for one in (page.locator(".pull-body"), actions, field))
    assert body
    assert bar
    assert form
    assert body["y"] + body["height"] <= bar["y"] + 1, "the code ends where the action bar begins"
    assert form["y"] >= bar["y"], "and the form stands in the bar"
    page.keyboard.type("Split it, jk?")
    expect(field).to_have_value("Split it, jk?")
    page.keyboard.press("Control+Enter")
    row = row_of(page, flagged)
    expect(row).to_contain_text("Waiting on author.")
    expect(page.locator("#pull-title")).not_to_have_text(flagged)
    row.locator(".row-link").click()
    expect(page.locator("#pull-title")).to_have_text(flagged)
    expect(page.locator(".pull-head")).to_contain_text("Changes requested by you.")
    expect(actions.locator(".primary").filter(visible=True)).to_have_count(0)
    assert [one.note for one in Action.objects.all()] == ["Split it, jk?"]


def test_what_was_typed_stays_by_pull_request_and_verb_and_an_undo_gives_it_back(enter: Enter) -> None:
    page = enter()
    flagged, field = page.locator("#pull-title").inner_text(), page.locator("#say-request_changes")
    press_keys(page, "r")
    expect(field).to_be_focused()
    page.keyboard.type("Split it")
    press_keys(page, "Escape c")
    expect(page.locator("#say-comment")).to_be_focused()
    expect(page.locator("#say-comment")).to_have_value("")
    press_keys(page, "Escape j")
    expect(page.locator("#pull-title")).not_to_have_text(flagged)
    expect(page.locator("#say-comment")).to_have_value("")
    press_keys(page, "k")
    expect(page.locator("#pull-title")).to_have_text(flagged)
    press_keys(page, "r")
    expect(field).to_have_value("Split it")
    expect(field).to_be_focused()
    page.keyboard.type(", please.")
    page.keyboard.press("Control+Enter")
    row = row_of(page, flagged)
    expect(row).to_contain_text("Waiting on author.")
    press_keys(page, "u")
    expect(page.locator("#pull-title")).to_have_text(flagged)
    expect(field).to_be_visible()
    expect(field).to_have_value("Split it, please.")
    expect_focus(page, flagged)
    press_keys(page, "r")
    expect(field).to_be_focused()  # the box is open again, and its key does not shut it
    press_keys(page, "Escape j")
    expect(page.locator("#pull-title")).not_to_have_text(flagged)
    press_keys(page, "k")
    expect(page.locator("#pull-title")).to_have_text(flagged)
    expect(field).to_have_value("Split it, please.")
    press_keys(page, "r")
    expect(field).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(row).to_contain_text("Waiting on author.")
    row.locator(".row-link").click()
    expect(page.locator("#pull-title")).to_have_text(flagged)
    expect(field).to_have_value("")
    assert [one.undone_at is None for one in Action.objects.order_by("pk")] == [False, True]
    title, assigned = page.locator("#pull-title"), page.locator(".offer", has_text="Assigned")
    for _ in range(2):
        at = title.inner_text()
        press_keys(page, "j")
        expect(title).not_to_have_text(at)
        press_keys(page, "m")
        expect(assigned).to_contain_text(title.inner_text())
    expect(assigned).to_have_count(1)
    expect(assigned).to_contain_text(re.compile(r"[12] more can be undone\."))
    press_keys(page, "u u")
    expect(assigned).to_have_count(0)
    assert not Action.objects.filter(kind="pull_for_review", undone_at=None), "one undo waits for the other"


def test_what_was_typed_is_for_nobody_else_who_signs_in_here(enter: Enter, site: ActingSite) -> None:
    page = enter()
    expect(page.locator("#pull-title")).to_be_visible()
    press_keys(page, "r")
    expect(page.locator("#say-request_changes")).to_be_focused()
    page.keyboard.type("Between us")
    did, name = SECOND_ONE
    cookie = site.maintainer(did, f"{name}.example").cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": page.url}])
    page.reload()
    expect(page.locator("#pull-title")).to_be_visible()
    press_keys(page, "r")
    expect(page.locator("#say-request_changes")).to_be_focused()
    expect(page.locator("#say-request_changes")).to_have_value("")


def test_without_scripts_an_undo_gives_back_what_was_written_where_it_was_written(
    enter: Enter, site: ActingSite
) -> None:
    page = enter(Mode(scripts=False))
    open_row(page, Mode(scripts=False), "Chore 03")
    for address in (page.url, f"/pull/{pull_uri(ANA, 'chore03')}"):
        page.goto(address)
        page.locator(".say > summary", has_text="Comment").click()
        page.get_by_label("Comment", exact=True).fill("Can a test\nhold it?")
        page.get_by_role("button", name="Comment").click()
        page.locator("#offers").get_by_role("button", name="Undo").click()
        expect(page.get_by_label("Comment", exact=True)).to_have_value("Can a test\nhold it?")
        site.after(2)
    assert not Action.objects.filter(undone_at=None)


def test_a_key_without_its_button_says_why_and_escape_closes_what_a_key_opened(enter: Enter) -> None:
    page = enter(path="/?bucket=fast_lane")
    title = page.locator("#pull-title").inner_text()
    press_keys(page, "z")
    expect(page.get_by_role("button", name="Tomorrow")).to_be_focused()
    press_keys(page, "Escape")
    expect(page.locator(".say[open]")).to_have_count(0)
    expect(page).to_have_url("/?bucket=fast_lane")
    press_keys(page, "a")
    row = row_of(page, title)
    expect(row).to_contain_text("Approved by you.")
    row.locator(".row-link").click()
    expect(page.locator("#pull-title")).to_have_text(title)
    for key in "aAx":
        press_keys(page, key)
        expect(page.get_by_role("alert")).to_have_text("Nothing changed. Approved by you already.")
    press_keys(page, "j")
    expect(page.get_by_role("alert")).to_be_hidden()
    press_keys(page, "x")
    expect(page.locator(".pick:checked")).to_have_count(1)
    press_keys(page, "x 1")
    expect(page.locator("#group-needs_human")).to_be_visible()
    page.locator(".row-link").first.focus()
    press_keys(page, "x")
    expect(page.get_by_role("alert")).to_have_text("Only fast-lane rows can be selected, and none whose CI failed.")
    expect(page).to_have_url("/")
    press_keys(page, "4")
    expect(page.locator("#group-needs_human")).to_have_count(0)
    expect(page.locator(".pick:checked")).to_have_count(0)
    press_keys(page, "b")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Approve {CHORES - 1} pull requests")


def test_a_link_signs_in_and_the_address_of_a_view_restores_it(
    site: ActingSite, live_server: LiveServer, windows: Windows
) -> None:
    did, name = MAINTAINER
    site.maintainer(did, f"{name}.example")
    link = issue_link(Person.objects.get(did=did), now=site.now)
    with windows.lend(live_server.url) as opened:
        page = opened(scripts=False)
        page.goto(f"/sign-in/{link}")
        page.get_by_role("main").get_by_role("button", name="Sign in").click()
        expect(page.locator("header")).to_contain_text("ana.example")
        page.goto(f"/?bucket=fast_lane&q=chore&open={quote(pull_uri(ANA, 'chore02'))}")
        expect(pane_of(page, "Chore 02")).to_be_visible()
        page.get_by_role("link", name="Dashboard").click()
        expect(page).to_have_url("/dashboard")
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
        expect(pane_of(page, "Chore 02")).to_be_visible()
