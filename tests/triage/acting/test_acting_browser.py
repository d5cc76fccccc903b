"""Approving and taking it back in a real browser: with htmx, and by keyboard without any script."""

import re
from urllib.parse import quote

import pytest
from django.test import Client
from playwright.sync_api import Locator, Page, Route, expect
from pytest_django import Settings

from ingest.oauth.scopes import Act, act_scope
from tests.conftest import looks
from tests.ingest.stream.frames import MARA, REPO
from tests.scoring.small import OFFERED
from tests.triage.acting.test_bulk import ALL
from tests.triage.axe import violations
from tests.triage.conftest import OpenPage
from tests.triage.worlds.acting_site import ANA, BEN, NOON, ActingSite, fast_site
from tests.triage.worlds.labelling import define_label, give_push, tell_lanes
from tests.waiting import wait_for
from triage.access.oauth.sessions import IN_BROWSER
from triage.access.tokens import make_link
from triage.models import Action, OAuthSession, OwnRecord, Person

SITE = fast_site  # the open pull requests, all in the fast lane


def with_account(client: Client, scope: str) -> None:
    """Let this browser's person be signed in with their account, and have granted this."""
    person = Person.objects.get(did=ANA)
    told = {"person": person, "scope": scope, "issuer": "https://pds.example.org", "server": "https://pds.example.org"}
    times = dict.fromkeys(("tokens_expire_at", "lease_until", "made_at", "last_used_at"), NOON)
    row = OAuthSession.objects.create(client_id="x", browser="Chrome", sealed=b"", **told, **times)
    session = client.session
    session[IN_BROWSER] = str(row.pk)
    session.save()


def test_a_comment_is_sent_undone_and_where_it_is_not_allowed_leads_to_the_page_that_says_so(
    site: ActingSite, open_page: OpenPage, settings: Settings
) -> None:
    ana = site.maintainer(ANA, "ana.example")
    with_account(ana, act_scope(Act.COMMENT, "org.sunstead"))
    page = open_page(client=ana)
    page.clock.set_fixed_time(NOON)
    page.goto("/?open=" + quote(OFFERED, safe=""))
    page.keyboard.press("c")
    expect(page.locator("details.say[open]")).to_contain_text("into your repository at pds.example.org, as ana.example")
    page.locator("#say-comment").fill("Why so long?")
    page.get_by_role("button", name="Comment on Tangled").click()
    expect(page.locator("#part-comments")).to_contain_text("is being sent to Tangled")
    page.get_by_role("button", name="Undo").first.click()
    expect(page.locator("#part-comments")).not_to_contain_text("is being sent to Tangled")
    assert OwnRecord.objects.get().state == "withdrawn"
    page.keyboard.press("d")
    page.locator("#say-close").fill("Nobody needs it.")
    page.get_by_role("button", name="Close on Tangled").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Allow it at your server")
    expect(page.get_by_role("main")).to_contain_text("repo:sh.tangled.repo.pull.status?action=create")
    page.get_by_role("link", name="Back").click()
    send = page.locator("#part-comments").get_by_role("button", name="Send to Tangled")
    expect(send).to_be_visible()
    settings.LANE_LABEL = True
    define_label()
    tell_lanes(site)
    give_push(site, ANA)
    page.reload()
    page.get_by_text("Label…").click()
    expect(page.locator("details.say[open]")).to_contain_text(
        "needs a human as a label (sh.tangled.label.op) into your"
    )
    page.get_by_role("button", name="Label", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("repo:sh.tangled.label.op?action=create")


def approve(page: Page) -> Locator:
    """The button in the pane."""
    return page.locator("#open").get_by_role("button", name="Approve round 1")


def test_approve_and_undo_with_and_without_scripts_and_a_stale_page_is_told(
    site: ActingSite, open_page: OpenPage
) -> None:
    ana = site.maintainer(ANA, "ana.example")
    page, plain = open_page(client=ana), open_page(client=ana, scripts=False)
    page.clock.set_fixed_time(NOON)  # else the offer to undo goes after 10 s, also from under a slow test
    page.goto("/")
    plain.goto("/")
    page.evaluate("window.stays = true")
    first, second = page.locator(".row").nth(0), page.locator(".row").nth(1)
    title = first.locator("h3 bdi").inner_text()
    following = second.locator("h3 bdi").inner_text()
    plain.locator(".row-link").first.click()
    approve(page).click()
    expect(first).to_contain_text("Approved by you.")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("2")
    expect(page.locator("#pull-title")).to_have_text(following)
    expect(second.locator(".row-link")).to_have_attribute("aria-current", "true")
    assert page.evaluate("window.stays")
    expect(page.locator("#offers")).to_contain_text("It takes effect in 10 seconds.")
    expect(page.locator("#offers")).to_be_visible()
    expect(page.locator("#count-fast_lane")).to_have_text("2")
    expect(page.locator("#announce")).to_have_text(re.compile(rf"^Approved lantern · \w{{5}} “{re.escape(title)}”\.$"))
    expect(page.locator("#offers")).to_contain_text(page.locator("#announce").inner_text())
    expect(plain.locator("#pull-title")).to_have_text(title)
    approve(plain).focus()
    plain.keyboard.press("Enter")
    expect(plain.get_by_role("heading", level=1)).to_have_text("Nothing was done")
    expect(plain.locator(".row")).to_contain_text("Approved by you.")
    first.get_by_role("button", name="Undo").click()
    expect(first).not_to_contain_text("Approved")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("3")
    expect(page.locator("#count-fast_lane")).to_have_text("3")
    expect(page.locator("#announce")).to_have_text("Undone.")
    expect(page.locator("#pull-title")).to_have_text(title)
    expect(first.locator(".row-link")).to_be_focused()
    expect(page.locator(".row-link[aria-current] bdi")).to_have_text(title)
    page.keyboard.press("j")
    expect(page.locator("#pull-title")).to_have_text(following)
    page.keyboard.press("a")
    expect(second).to_contain_text("Approved by you.")
    expect(page.locator(".row").nth(2).locator(".row-link")).to_be_focused()
    page.keyboard.press("x")
    page.keyboard.press("u")
    expect(second).not_to_contain_text("Approved")
    expect(page.locator(".row").nth(2).locator(".pick")).to_be_checked()
    expect(page.locator(".pick:checked")).to_have_count(1)
    expect(second.locator(".row-link")).to_be_focused()
    expect(page.locator("#pull-title")).to_have_text(following)
    page.keyboard.press("m")
    expect(page.locator("#open").get_by_role("button", name="Unassign")).to_be_visible()
    page.keyboard.press("u")
    expect(page.locator("#open").get_by_role("button", name="Assign to me")).to_be_visible()


def approve_first(page: Page) -> None:
    """Approve the first row by its key, and wait until the second one is open."""
    second = page.locator(".row h3 bdi").nth(1).inner_text()
    expect(approve(page)).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator(".offer")).to_contain_text("Approved")
    expect(page.locator("#pull-title")).to_have_text(second)


@pytest.mark.parametrize("has_approved", [False, True], ids=["alone", "after-another"])
def test_an_undo_that_is_pressed_before_the_answer_takes_back_this_verdict_and_no_older_one(
    site: ActingSite, open_page: OpenPage, has_approved: bool
) -> None:
    page = open_page(client=site.maintainer(ANA, "ana.example"))
    page.clock.set_fixed_time(site.now)
    page.goto("/")
    if has_approved:
        approve_first(page)
    expect(approve(page)).to_be_visible()
    held: list[Route] = []
    page.route(re.compile(r"/act$"), lambda route: held.append(route))
    page.keyboard.press("a")
    wait_for(lambda: page.wait_for_timeout(20) or held, what="the verdict")
    page.keyboard.press("u")
    page.keyboard.press("a")  # a slip
    page.wait_for_timeout(100)
    held[0].continue_()
    expect(page.locator("#announce")).to_have_text("Undone.")
    kept = [action.undone_at is None for action in Action.objects.order_by("pk")]
    assert kept == [*([True] if has_approved else []), False]
    assert len(held) == 1


@pytest.mark.parametrize("keys", looks("c", "jc", small=("jc",)))
def test_letters_of_a_comment_that_are_typed_before_its_box_is_there_are_no_keys(
    site: ActingSite, open_page: OpenPage, keys: str
) -> None:
    page = open_page(client=site.maintainer(ANA, "ana.example"))
    page.goto("/")
    row = page.locator(".row").first
    expect(approve(page)).to_be_visible()
    page.keyboard.press("a")
    expect(row).to_contain_text("Approved by you.")
    row.locator(".row-link").focus()
    looked: list[Route] = []
    page.route(re.compile("look"), lambda route: looked.append(route))
    page.keyboard.press("u")
    expect(row).not_to_contain_text("Approved")
    page.locator(".row").nth(2 - len(keys)).locator(".row-link").focus()  # the pane shows the first one
    held: list[Route] = []
    page.route(re.compile("open="), lambda route: held.append(route))
    for key in keys:
        page.keyboard.press(key)
    while len(held) < len(keys):
        page.wait_for_timeout(20)
    for early in looked:  # what else was asked before ends first
        early.continue_()
    page.wait_for_timeout(100)
    page.keyboard.type("a A d")
    held[-1].continue_()
    page.unroute(re.compile("look"))
    page.unroute(re.compile("open="))
    box = page.locator("#open .say[open] textarea")
    expect(box).to_be_focused()
    page.keyboard.type("Can a test")
    expect(box).to_have_value("Can a test")
    assert Action.objects.get().undone_at is not None


def test_without_scripts_an_undo_works_at_once_and_its_second_click_is_told_where_it_is_seen(
    site: ActingSite, open_page: OpenPage
) -> None:
    page = open_page(client=site.maintainer(ANA, "ana.example"), scripts=False)
    page.goto("/")
    expect(page.locator(".row-link[aria-current]")).to_have_count(0)
    expect(page.locator("#open")).to_have_text("Choose a pull request.", use_inner_text=True)
    row = page.locator(".row").first
    row.locator(".row-link").click()
    approve(page).click()
    row.get_by_role("button", name="Undo").click()
    expect(row.locator(".row-link")).to_be_focused()
    assert Action.objects.get().undone_at is not None
    approve(page).click()
    expect(page.locator(".banner", has_text="Looked like a double click")).to_be_in_viewport()
    site.after(2)
    approve(page).click()
    page.locator("#offers").get_by_role("button", name="Undo").click()
    expect(approve(page)).to_be_visible()
    assert not Action.objects.filter(undone_at=None)


def test_a_key_that_comes_before_the_first_change_is_kept_until_it_is_there(
    site: ActingSite, open_page: OpenPage
) -> None:
    page, held = open_page(client=site.maintainer(ANA, "ana.example")), list[Route]()
    page.route(re.compile("open="), lambda route: held.append(route))
    page.goto("/")
    while not held:
        page.wait_for_timeout(20)
    expect(page.locator("#open")).to_have_text("Opening the first change…")
    page.keyboard.press("c")
    page.keyboard.press("a")
    held[0].continue_()
    expect(page.locator("#open .say[open] textarea")).to_be_focused()
    expect(page.locator(".row-link[aria-current]")).to_have_count(1)
    assert not Action.objects.exists(), "the first key alone is kept"


@pytest.mark.parametrize("keys", looks("c", "]c", "ac", small=("ac",)))
def test_of_the_keys_before_the_first_change_the_last_one_acts_also_before_the_page_asked_for_it(
    site: ActingSite, open_page: OpenPage, keys: str
) -> None:
    page = open_page(client=site.maintainer(ANA, "ana.example"))
    page.goto("/", wait_until="domcontentloaded")
    for key in keys:
        page.keyboard.press(key)
    expect(page.locator("#open .say[open] textarea")).to_be_focused()
    assert not Action.objects.exists()


def test_keys_pressed_while_another_change_is_on_its_way_act_on_that_one_and_approve_nothing_unseen(
    site: ActingSite, open_page: OpenPage
) -> None:
    page, held = open_page(client=site.maintainer(ANA, "ana.example")), list[Route]()
    page.goto("/")
    expect(approve(page)).to_be_visible()
    second = page.locator(".row").nth(1)
    title = second.locator("h3 bdi").inner_text()
    page.route(re.compile("open="), lambda route: held.append(route))
    page.locator(".row-link").first.focus()
    for key in ("j", "a", "]"):
        page.keyboard.press(key)
    while len(held) < 2:  # `a` asks for the marked row anew
        page.wait_for_timeout(20)
    held[-1].continue_()
    expect(page.locator("#pull-title")).to_have_text(title)
    expect(page.locator("#open .kept > summary").first).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("a")
    while len(held) < 4:
        page.wait_for_timeout(20)
    held[-1].continue_()
    expect(page.get_by_role("alert")).to_have_text(re.compile("press the key again to approve it"))
    assert not Action.objects.exists()
    page.unroute(re.compile("open="))
    page.keyboard.press("a")
    expect(page.locator(".row").first).to_contain_text("Approved by you.")


FILLED = """all => all.filter((one) => one.checkVisibility()
  && !["rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"].includes(getComputedStyle(one).backgroundColor))
  .map((one) => one.innerText)"""


def test_an_open_form_has_one_filled_button_and_a_way_out_with_and_without_scripts(
    site: ActingSite, open_page: OpenPage
) -> None:
    ana = site.maintainer(ANA, "ana.example")
    for scripts in (True, False):
        page = open_page(client=ana, scripts=scripts)
        page.goto("/?open=" + quote(OFFERED, safe=""))
        names = page.locator("summary:visible, button:visible").all_inner_texts()
        assert sum(name.strip().startswith("More") for name in names) == 1
        page.locator(".say > summary", has_text="Ask to close").click()
        form = page.locator(".say[open]")
        assert page.locator(".actions .button").evaluate_all(FILLED) == ["Ask to close (not sent to Tangled)"]
        expect(form).to_contain_text("It stays open on Tangled.")
        form.get_by_role("link", name="Cancel").click()
        expect(page.locator(".say[open]")).to_have_count(0)
        expect(page.locator("#pull-title")).to_have_text("Mend the lamp")
        assert len(page.locator(".actions .button").evaluate_all(FILLED)) == 1
    assert not Action.objects.exists()


def test_after_its_ten_seconds_the_undo_leaves_the_row_and_the_toast_and_the_focus_stays_on_the_row(
    site: ActingSite, open_page: OpenPage
) -> None:
    page = open_page(client=site.maintainer(ANA, "ana.example"))
    page.clock.install(time=NOON)
    page.goto("/")
    row = page.locator(".row").first
    approve(page).click()
    undo = row.get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    undo.focus()
    page.clock.fast_forward("00:11")
    expect(undo).to_have_count(0)
    expect(page.locator("#offers")).to_be_hidden()
    expect(row).to_contain_text("Approved by you.")
    expect(row.locator(".row-link")).to_be_focused()
    page.reload()
    expect(page.locator("#count-fast_lane")).to_have_text("2")
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("2")


def test_of_a_filtered_queue_the_counts_follow_an_approval_within_the_filter(
    site: ActingSite, open_page: OpenPage
) -> None:
    page = open_page(client=site.maintainer(ANA, "ana.example"))
    page.goto("/?q=Oil+the+hinges")
    expect(page.locator("#tile-all .figure")).to_have_text("1")
    site.maintainer(BEN, "ben.example").post("/act", site.form())
    page.reload()
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("1")
    approve(page).click()
    expect(page.locator("#tile-fast_lane .figure")).to_have_text("0")
    expect(page.locator("#count-fast_lane")).to_have_text("0")


ON_TOP = """all => all.every(one => {
  const { x, y, width, height } = one.getBoundingClientRect();
  return one.contains(document.elementFromPoint(x + width / 2, y + 4))
    && one.contains(document.elementFromPoint(x + width / 2, y + height - 4));
})"""


@pytest.mark.parametrize("width", looks(1440, 768, 390, small=(1440, 390)))
def test_the_offer_to_undo_and_an_error_cover_neither_what_comes_next_nor_each_other(
    site: ActingSite, open_page: OpenPage, width: int
) -> None:
    site.run_ci(dict.fromkeys(ALL, "passed"))
    page = open_page(width, site.maintainer(ANA, "ana.example"))
    page.clock.set_fixed_time(NOON)
    page.goto(f"/?open={quote(OFFERED)}")
    page.get_by_role("button", name="Approve & merge…").click()
    expect(page.locator("#offers")).to_contain_text("Approved")
    commands = page.locator(".say[open] code")
    expect(commands.first).to_be_in_viewport(ratio=1)
    assert commands.evaluate_all(ON_TOP)
    if width == 390:
        page.get_by_role("button", name="Actions").click()
    page.locator(".say > summary", has_text="Snooze").click()
    choices = page.locator(".say[open] > div .button")
    expect(choices.first).to_be_focused()
    assert choices.evaluate_all(ON_TOP)
    page.keyboard.press("a")
    expect(page.get_by_role("alert")).to_have_text("Nothing changed. Approved by you already.")
    assert page.locator(".toast:visible, .say[open] > div .button").evaluate_all(ON_TOP)


def test_what_was_asked_is_copied_for_its_author_by_one_click_and_without_scripts_it_unfolds(
    site: ActingSite, open_page: OpenPage
) -> None:
    ana = site.maintainer(ANA, "ana.example")
    page, plain = open_page(client=ana), open_page(client=ana, scripts=False)
    page.clock.set_fixed_time(NOON)  # else the toast goes
    page.goto("/?open=" + quote(OFFERED, safe=""))
    page.keyboard.press("r")
    page.locator("#say-request_changes").fill("Test it, please.")
    page.keyboard.press("Control+Enter")
    copy = page.locator("#offers").get_by_text("Copy for the author")
    copy.click()
    expect(page.locator("#offers summary")).to_have_text("Copied")
    expect(page.locator("#told-toast")).to_be_hidden()
    expect(page.locator("#offers summary")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.press("Control+V")
    expect(page.locator("#filter-text")).to_have_value(re.compile(r"Changes requested on lantern.*Test it, please\."))
    plain.goto(f"/pull/{OFFERED}")
    told = plain.locator("#for-author")
    expect(told).to_be_hidden()
    plain.locator(".pull-head").get_by_text("Copy for the author").click()
    expect(told).to_have_value(re.compile("Test it, please"))
    assert violations(page) == []


@pytest.mark.parametrize("scripts", [True, False])
def test_an_author_answers_by_a_private_link_in_a_real_browser(
    site: ActingSite, open_page: OpenPage, scripts: bool
) -> None:
    ana = site.maintainer(ANA, "ana.example")
    ana.post("/act", site.form("request_changes", note="Test it, please."))
    site.after(11)
    token = make_link(Person.objects.get(did=ANA), MARA, REPO, OFFERED, site.now)
    page = open_page(390, scripts=scripts)
    page.goto(f"/c/{MARA}/decision/{token}")
    expect(page.get_by_role("heading", level=2).first).to_contain_text("asked you for changes")
    assert not scripts or violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("Your answer").fill("It is tested.")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("main")).to_contain_text("Your answer is saved.")
    expect(page.get_by_label("Your answer")).to_have_count(0)
    assert Action.objects.get(kind="answer").note == "It is tested."
