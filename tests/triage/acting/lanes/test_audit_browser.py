"""The audit's question in a real browser: both answers can be read at every width."""

import re
from functools import partial
from itertools import product
from urllib.parse import quote

import pytest
from django.test import Client
from playwright.sync_api import Locator, Route, expect

from tests.conftest import looks
from tests.triage.conftest import OpenPage
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.lane_site import NEXT, lane_site
from triage.models import AuditAnswer

pytestmark = pytest.mark.django_db(transaction=True)
SITE = partial(lane_site, audited=True)  # every open pull request was drawn for the audit


def box(found: Locator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom edge."""
    edges = found.bounding_box()
    assert edges is not None
    return edges["x"], edges["y"], edges["x"] + edges["width"], edges["y"] + edges["height"]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])
def test_an_answer_in_the_inbox_is_announced_and_stays_in_the_inbox(
    site: ActingSite, ana: Client, open_page: OpenPage, scripts: bool
) -> None:
    page = open_page(client=ana, scripts=scripts)
    page.goto("/audits")
    page.locator(f"#audits-due + ul a[href$='{quote(NEXT, safe='')}']").click()
    title = page.locator("#pull-title").inner_text()
    page.get_by_label("Because").fill("small")
    if scripts:
        page.locator(".row-link:not([aria-current])").first.click()
        expect(page.locator("#pull-title")).not_to_have_text(title)
        page.go_back()
        expect(page.locator("#pull-title")).to_have_text(title)
        expect(page.get_by_label("Because")).to_have_value("small")
    page.get_by_label("Yes").check()
    page.get_by_role("button", name="Answer and show the rest").click()
    expect(page.get_by_role("heading", name="Why this lane")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    expect(page.locator("#pull-title")).to_have_text(title)
    if scripts:
        expect(page.locator("#announce")).to_have_text(re.compile(f"^Audit of .+ “{re.escape(title)}” answered\\.$"))
        expect(page.locator(".row-link:focus bdi")).to_have_text(title)
    assert AuditAnswer.objects.get().because == "small"


def test_selecting_what_waits_for_an_audit_says_why_not_also_once_its_pane_arrives(
    ana: Client, open_page: OpenPage
) -> None:
    page = open_page(client=ana)
    page.goto("/?bucket=normal_queue")
    expect(page.locator("#pull-title")).to_be_visible()
    held = list[Route]()
    page.route("**/?*open=*", lambda route: held.append(route))
    page.keyboard.press("j")
    page.keyboard.press("x")
    said = "Nothing changed. This is a random audit: answer its question first."
    expect(page.get_by_role("alert")).to_have_text(said)
    title = page.locator(".row-link:focus bdi").inner_text()
    for one in held:
        one.continue_()
    expect(page.locator("#pull-title")).to_have_text(title)
    expect(page.get_by_role("alert")).to_have_text(said)
    page.keyboard.press("k")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_yes_and_no_stand_side_by_side_and_whole(ana: Client, open_page: OpenPage) -> None:
    page = open_page(client=ana)
    widths = looks(1920, 1440, 768, 390, 320, small=(1440, 390, 320))
    for width, address in product(widths, (f"/pull/{NEXT}", f"/?open={NEXT}")):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(address)
        form = page.locator("form[action='/audit']")
        yes, no = (form.locator("label", has_text=word) for word in ("Yes", "No"))
        left, right = box(yes), box(no)
        assert 0 <= left[0] < left[2] <= right[0] < right[2] <= width
        assert (left[1], left[3]) == (right[1], right[3])
        for label in (yes, no):
            whole, knob = box(label), box(label.locator("input"))
            assert knob[2] - knob[0] < 30
            # A line of text beside its knob: words that stand letter below letter are higher than that.
            assert label.evaluate("one => one.getClientRects().length") == 1
            assert whole[3] - whole[1] < 48
            assert whole[2] - knob[2] > 15
            label.click()
            assert label.locator("input").is_checked()
