"""An impatient hand: double clicks, Back, two tabs, no network, no session. Nothing is lost or glossed over."""

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.triage.morning.conftest import Enter
from tests.triage.morning.modes import DESK, Mode, expect_focus, open_row, press_keys, row_of
from tests.triage.worlds.acting_site import ActingSite
from tests.waiting import wait_for
from triage.models import Action

NOTE = "Ask ana about the lamp."
by_scripts = pytest.mark.parametrize("mode", [Mode(DESK, True), Mode(DESK, False)], ids=str, indirect=True)


@by_scripts
def test_the_second_click_of_a_slow_double_click_takes_nothing_back_and_approves_nothing(
    enter: Enter, mode: Mode, site: ActingSite
) -> None:
    page = enter(mode)
    row, pane = row_of(page, "Chore 03"), open_row(page, mode, "Chore 03")
    double_click(page, pane.get_by_role("button", name="Approve round 1"), row.get_by_text("Approved by you."))
    page.reload()
    expect(page.locator(".row", has_text="Approved by you.")).to_have_count(1)
    site.after(2)
    undo = row.get_by_role("button", name="Undo")
    double_click(page, undo, row.get_by_text("Chore 03"))
    if mode.scripts:
        page.reload()
    expect(row).not_to_contain_text("Approved")
    assert [action.undone_at is None for action in Action.objects.all()] == [False]


def test_what_was_undone_is_said_where_the_offer_was(enter: Enter) -> None:
    page = enter()
    open_row(page, Mode(), "Chore 03")
    press_keys(page, "a")
    toast = page.locator("#offers")
    expect(toast).to_contain_text("Undo")
    press_keys(page, "u")
    expect(toast).to_have_text("Undone.")
    expect(row_of(page, "Chore 03")).not_to_contain_text("Approved")


def test_a_quick_double_click_without_scripts_acts_once(enter: Enter) -> None:
    page = enter(Mode(scripts=False))
    open_row(page, Mode(scripts=False), "Chore 03").get_by_role("button", name="Approve round 1").dblclick()
    expect(row_of(page, "Chore 03")).to_contain_text("Approved by you.")
    expect(page.locator("body")).not_to_contain_text("Somebody acted")
    assert Action.objects.count() == 1


@by_scripts
def test_back_and_a_second_tab_are_told_what_stands(enter: Enter, mode: Mode) -> None:
    page = enter(mode)
    second = page.context.new_page()
    second.goto("/?bucket=fast_lane")
    page.goto("/?bucket=fast_lane")
    row = row_of(page, "Chore 03")
    open_row(second, mode, "Chore 03")
    open_row(page, mode, "Chore 03").get_by_role("button", name="Approve round 1").click()
    expect(row).to_contain_text("Approved by you.")
    page.goto("/dashboard")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    if mode.scripts:
        expect(row).to_contain_text("Approved by you.")
    second.get_by_role("button", name="Approve round 1").click()
    expect(second.locator(".note")).to_contain_text("you acted on it already")
    expect(row_of(second, "Chore 03")).to_contain_text("Approved by you.")
    assert Action.objects.count() == 1


def test_without_a_network_nothing_is_done_and_the_key_is_pressed_again_on_the_same_row(enter: Enter) -> None:
    page = enter()
    row, pane = row_of(page, "Chore 03"), open_row(page, Mode(), "Chore 03")
    page.context.set_offline(True)
    press_keys(page, "a")
    expect(page.get_by_role("alert")).to_have_text(
        "The server cannot be reached or could not answer. What you see is unchanged. Try again: nothing is done twice."
    )
    expect(pane.get_by_role("button", name="Approve round 1")).to_be_visible()
    expect(row).not_to_contain_text("Approved")
    expect_focus(page, "Chore 03")
    page.context.set_offline(False)
    press_keys(page, "a")
    expect(row).to_contain_text("Approved by you.")
    expect(page.get_by_role("alert")).to_be_hidden()
    assert Action.objects.count() == 1


def test_a_first_change_that_does_not_come_says_so_and_holds_back_no_key(enter: Enter) -> None:
    page = enter()
    page.route("**open=**", lambda route: route.abort("internetdisconnected"))
    page.goto("/")
    expect(page.locator("#open")).to_contain_text("The server cannot be reached or could not answer.")
    page.unroute("**open=**")
    press_keys(page, "c j c")
    expect(page.locator("#open .say[open] textarea")).to_be_focused()


def test_an_undo_that_is_pressed_before_a_verdict_fails_takes_back_nothing_older(enter: Enter) -> None:
    page, held = enter(), list[Route]()
    open_row(page, Mode(), "Chore 03")
    press_keys(page, "a")
    expect(row_of(page, "Chore 03")).to_contain_text("Approved by you.")
    open_row(page, Mode(), "Chore 04")
    page.route("**/act", lambda route: held.append(route))
    press_keys(page, "a")
    wait_for(lambda: page.wait_for_timeout(20) or held, what="the verdict")
    press_keys(page, "u")
    held[0].fulfill(status=403, body="")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(row_of(page, "Chore 03")).to_contain_text("Approved by you.")
    press_keys(page, "u")
    expect(row_of(page, "Chore 03")).not_to_contain_text("Approved")
    assert Action.objects.get().undone_at is not None


def test_what_the_page_sends_by_itself_does_not_take_a_failure_off_the_screen(enter: Enter) -> None:
    page, held = enter(), list[Route]()
    page.route("**/look", lambda route: held.append(route))
    with page.expect_request("**/look"):
        open_row(page, Mode(), "Chore 03")
    page.route("**/act", lambda route: route.fulfill(status=403, body=""))
    press_keys(page, "a")
    expect(page.get_by_role("alert")).to_be_visible()
    with page.expect_response("**/look"):
        held[0].fulfill(status=204)
    page.evaluate("new Promise((done) => setTimeout(done))")
    expect(page.get_by_role("alert")).to_be_visible()


@by_scripts
def test_whoever_was_signed_out_meanwhile_is_told_and_keeps_what_they_wrote(enter: Enter, mode: Mode) -> None:
    page = enter(mode)
    write_a_note(page)
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Add note").click()
    expect(page.get_by_text("Nothing changed: you are signed out.")).to_be_visible()
    expect(page.get_by_label("What you wrote, which was not kept")).to_have_value(NOTE)
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert not Action.objects.exists()


@by_scripts
def test_a_form_without_its_cookie_is_refused_in_words_and_what_was_written_stays(enter: Enter, mode: Mode) -> None:
    page = enter(mode)
    write_a_note(page)
    page.context.clear_cookies()
    page.get_by_role("button", name="Add note").click()
    if mode.scripts:
        expect(page.get_by_role("alert")).to_contain_text("Not saved, nothing changed: this page is too old.")
        expect(page.get_by_label("Note for the other maintainers")).to_have_value(NOTE)
    else:
        expect(page.get_by_role("heading", level=1)).to_have_text("Not saved")
        expect(page.get_by_label("What you wrote, which was not kept")).to_have_value(NOTE)
    assert not Action.objects.exists()


def test_an_approval_without_a_session_leads_to_the_sign_in(enter: Enter, mode: Mode) -> None:
    page = enter(mode)
    pane = open_row(page, mode, "Chore 03")
    page.context.clear_cookies(name="sessionid")
    mode.press(pane.get_by_role("button", name="Approve round 1"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert not Action.objects.exists()


def double_click(page: Page, button: Locator, then: Locator) -> None:
    """As slowly as a hand does: the answer to the first click is there before the second one comes."""
    place = button.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + 5, place["y"] + 5)
    expect(then).to_be_visible()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)


def write_a_note(page: Page) -> None:
    """Open a row and type."""
    page.goto(page.evaluate("document.querySelectorAll('.row-link')[3].href"))
    page.get_by_text("Add note", exact=True).first.click()
    page.get_by_label("Note for the other maintainers").fill(NOTE)
