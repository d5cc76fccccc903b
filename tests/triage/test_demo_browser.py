"""The served demo and a served replay in a real browser: shadow mode, the opened lane, the audit, what went wrong."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.triage.pictures.lane_life import (
    answer_audit_with_no,
    check_head,
    close_and_open_again,
    mark_what_went_through,
    open_on_present_figures,
    served_demo,
    served_replay,
    shadow_report,
    signed_in,
    wait_until_shut,
)
from trustsite.world import World, build_world


def test_the_demo_tells_its_story_until_marks_shut_the_lane_and_a_person_opens_and_closes_it(
    browser: Browser, tmp_path: Path, prove: bool
) -> None:
    world = build_world()
    with served_demo(tmp_path) as address:
        with signed_in(browser, address, 1440) as page:
            shadow_mode_shows_a_month_and_advises_to_keep_watching(page, world)
            the_opened_lane_says_on_what_it_rests_and_who_opened_it(page, world)
            the_incident_keeps_what_the_approval_saw(page, world)
            every_page_counts_alike_what_the_lane_let_through_and_what_went_wrong(page, world)
            a_flagged_change_is_read_first_and_its_approval_is_no_main_button(page, world)
            an_approval_of_a_swapped_patch_leads_to_what_changed_since(page, world)
            page.set_viewport_size({"width": 1344, "height": 900})
            no_row_cuts_the_words_that_decided_its_place(page)
        with signed_in(browser, address, 390) as page:
            if prove:
                the_opened_lane_says_on_what_it_rests_and_who_opened_it(page, world)
                a_flagged_change_is_read_first_and_its_approval_is_no_main_button(page, world)
            no_row_cuts_the_words_that_decided_its_place(page)
        with signed_in(browser, address, 1440) as page:
            lane = f"/lane?repository={world.watched['lantern']}"
            mark_what_went_through(page, tmp_path)
            wait_until_shut(page, lane)
            expect(page.locator("main")).to_contain_text("5 of 5 pull requests that it let through turned out bad")
            open_on_present_figures(page)
            close_and_open_again(page, lane)


def shadow_mode_shows_a_month_and_advises_to_keep_watching(page: Page, world: World) -> None:
    page.goto(f"/settings/repository?repository={world.watched['tidepool']}")
    expect(page.locator("main")).to_contain_text("rounds would have been fast lane")
    page.get_by_text("Day by day").click()
    assert page.locator("table.timeline tbody tr").count() >= 5
    expect(page.get_by_role("link", name="See what it would have done, and choose")).to_have_count(0)
    page.goto(f"/lane?repository={world.watched['tidepool']}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Open the fast lane?")
    expect(page.locator("main")).to_contain_text("Our advice: keep watching. Of 13 settled here 3 would be wrong")
    rows = page.locator("main table", has_text="What happened")
    for happened in ("merged as sent", "changed", "closed", "still open"):
        expect(rows).to_contain_text(happened)
    expect(page.get_by_role("button", name="Open the lane")).to_be_visible()


def the_opened_lane_says_on_what_it_rests_and_who_opened_it(page: Page, world: World) -> None:
    page.goto(f"/lane?repository={world.watched['lantern']}")
    opened = page.locator("article", has_text="Open since")
    expect(opened).to_contain_text("by ana.example.test")
    expect(opened.get_by_role("table")).to_contain_text("merged as sent")
    expect(page.locator("main")).not_to_contain_text("set by hand")
    check_head(page)


def the_incident_keeps_what_the_approval_saw(page: Page, world: World) -> None:
    page.goto(f"/history/{world.pulls['went_wrong'][0]}")
    page.get_by_role("link", name="What was known then").click()
    known = page.locator("#known")
    expect(known).to_contain_text("ana.example.test")
    expect(known).to_contain_text("Fast lane")
    expect(known).not_to_contain_text("does not name its decision")


def every_page_counts_alike_what_the_lane_let_through_and_what_went_wrong(page: Page, world: World) -> None:
    main, lotte = page.locator("main"), world.cast["lotte"]
    page.goto(f"/history/{world.pulls['went_wrong'][0]}")
    page.get_by_role("link", name="What was known then").click()
    told = re.search(
        r"Since (.+) this lane let through (\d+) pull requests: 1 settled, 1 turned out bad\. That is too few to "
        r"judge against the limit of ([\d.]+ %)",
        page.locator("#budget").inner_text(),
    )
    assert told is not None
    since, count, budget = told.groups()
    page.goto("/dashboard")
    known = "1 settled and 3 audited so far, 1 of them bad: too few to judge."
    expect(main).to_contain_text(known)
    expect(main.locator(".answer", has_text="1 settled")).not_to_contain_text("%")
    shuts = re.compile(r"lantern is open: too few have settled to shut it\. It shuts if the next \d are bad too\.")
    expect(main).to_contain_text(shuts)
    page.goto("/")
    expect(page.locator(".group-head.fast")).to_contain_text(f"let through {count} of")
    expect(page.locator(".group-head.fast")).to_contain_text(f"1 turned out bad, {int(count) - 1} not settled")
    page.goto(f"/lane?repository={world.watched['lantern']}")
    opened = page.locator("article", has_text=f"Open since {since}")
    expect(opened).to_contain_text(re.compile(rf"{count} let through:.* 1 turned out bad"))
    expect(main).to_contain_text(known)
    expect(opened).to_contain_text(f"\N{EN DASH}{budget}")
    page.goto(f"/c/{lotte}?record=bad")
    expect(page.locator("#record tbody tr")).to_contain_text(
        "marked reverted by ana.example.test; Git shows no revert yet"
    )
    page.goto("/leaderboard?sort=reverts")
    expect(page.locator("tr", has_text="lotte.example.test").locator("[data-label=Reverts]")).to_have_text("1")


def no_row_cuts_the_words_that_decided_its_place(page: Page) -> None:
    for lane in ("", "?bucket=would_be_fast_lane"):
        page.goto(f"/{lane}")
        shown = page.locator(".row-link strong").evaluate_all(
            "all => all.map(one => [one.textContent, one.scrollWidth <= one.clientWidth || !one.clientWidth,"
            " one.getBoundingClientRect().right <= one.closest('a').getBoundingClientRect().right + 1,"
            " one.getBoundingClientRect().bottom <= one.closest('a').getBoundingClientRect().bottom + 1])"
        )
        assert len(shown) > 5
        assert [words for words, *fits in shown if not all(fits)] == []


def a_flagged_change_is_read_first_and_its_approval_is_no_main_button(page: Page, world: World) -> None:
    page.goto(f"/pull/{world.pulls['swapped'][0]}")
    pane = page.locator("#open")
    expect(pane.locator(".actions > details > summary.primary")).to_have_text(re.compile("Request changes"))
    expect(pane.get_by_role("button", name=re.compile("^Approve round"))).to_have_count(0)
    expect(pane.locator(".what-side .finding").first).to_contain_text("Prompt injection")
    expect(pane.get_by_text("(addressed)")).to_have_count(0)
    boxes = [pane.locator(side).bounding_box() for side in (".what-side", ".who-side")]
    if boxes[0] and boxes[1]:  # on a phone who sent it is another tab
        assert boxes[0]["x"] < boxes[1]["x"]
    anyway = pane.locator("details.say", has=page.locator("summary", has_text="Approve anyway"))
    anyway.locator("summary").evaluate("summary => summary.parentElement.open = true")
    expect(anyway.locator("textarea")).to_have_attribute("required", "")


def an_approval_of_a_swapped_patch_leads_to_what_changed_since(page: Page, world: World) -> None:
    page.goto(f"/history/{world.pulls['swapped'][0]}")
    expect(page.locator("main")).to_contain_text("approved an earlier patch of round 1. The approval is void")
    page.get_by_role("link", name="See what changed since").click()
    since = page.locator(".crumb .menu a", has_text="Changes since Round 1, earlier patch")
    expect(since).to_have_attribute("aria-current", "true")
    expect(page.locator("main")).to_contain_text("differ between the two rounds")


@pytest.mark.repeats("the story of the demo above, tests/triage/acting/lanes/test_estimated_lane.py")
def test_on_a_replay_answers_to_the_audit_shut_the_lane_and_a_person_opens_and_closes_it(
    browser: Browser, tmp_path: Path
) -> None:
    with served_replay(build_world(), tmp_path) as address, signed_in(browser, address, 1440) as page:
        page.goto("/lane")
        watched = page.locator("article", has_text="What it would have done in the last 30 days")
        expect(watched.get_by_role("table")).to_contain_text("still open")
        page.goto(shadow_report(page))
        expect(page.locator("main")).to_contain_text("would have been fast lane")
        page.goto("/lane")
        open_on_present_figures(page)
        expect(page.locator("article", has_text="Open since")).to_contain_text("by ana.example.test")
        lane = page.url  # names the repository
        for _ in range(5):
            answer_audit_with_no(page)
        wait_until_shut(page, lane)
        expect(page.locator("main")).to_contain_text("5 of 5 audited pull requests were bad")
        open_on_present_figures(page)
        close_and_open_again(page, lane)
