"""Every page of a maintainer and of a contributor on the smallest phone: whole, named, in order, within the policy."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from scoring.told_settings import switch_shadow
from tests.ingest.stream import MARA, REPO
from tests.triage.acting_site import ActingSite
from tests.triage.lane_site import MORE, NEXT, lane_site
from tests.waiting import PATIENT_MS
from triage.contributor_links import make_link
from triage.models import Action, Maintainer, Person

BEN, WIDTH = "did:plc:" + "3" * 24, 360
# What would not be shipped: sideways scroll, headings that skip a level, fields without a label, ids that stand twice,
# and buttons and fields that a thumb misses. A link within a sentence is as high as its line.
FAULTS = """width => {
  const faults = [], shown = selector => [...document.querySelectorAll(selector)].filter(one => one.checkVisibility());
  if (document.documentElement.scrollWidth > width) faults.push('scrolls sideways');
  if (document.querySelectorAll('h1').length !== 1) faults.push('not one h1');
  let last = 0;
  for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    if (+heading.tagName[1] > last + 1) faults.push(`${heading.tagName} after H${last}: ${heading.innerText}`);
    last = +heading.tagName[1];
  }
  const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`twice: ${id}`);
  for (const field of document.querySelectorAll('input:not([type=hidden]), select, textarea'))
    if (!field.labels.length && !field.ariaLabel) faults.push(`no label: ${field.name}`);
  for (const one of shown('button, .button, .bar a, summary, select, textarea, input:not([type=radio], [type=hidden])'))
    if (one.getBoundingClientRect().height < 43.9) faults.push(`low: ${one.innerText || one.name}`);
  return faults;
}"""


@pytest.fixture
def site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ActingSite]:
    """Three fast-laned pull requests of a repository that is out of shadow mode, behind a real server."""
    with lane_site(tmp_path, settings, monkeypatch) as made:
        switch_shadow(made.result.store, REPO, False, made.now)
        made.work()
        yield made


@pytest.fixture
def page(site: ActingSite, live_server: LiveServer, browser: Browser) -> Iterator[Page]:
    """A phone on which an admin of the site is signed in; the test fails if any page logged an error."""
    cookie = site.maintainer(BEN, "ben.example").cookies["sessionid"].value
    Maintainer.objects.create(person=Person.objects.get(did=BEN), role="admin")
    complaints: list[str] = []
    with browser.new_context(viewport={"width": WIDTH, "height": 800}, base_url=live_server.url) as context:
        context.set_default_timeout(PATIENT_MS)
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        yield shown
    assert complaints == []


def something_of_everything(site: ActingSite) -> tuple[str, ...]:
    """An approval that was marked bad, a closed lane, an objection; the addresses that come of it."""
    ben = site.maintainer(BEN, "ben.example")
    ben.post("/act", site.form(uri=NEXT))
    site.after(11)
    site.work()
    ben.post("/act", site.form(kind="outcome", uri=NEXT, version=1, outcome="reverted", note="It broke the build."))
    ben.post("/lane/close", {"repo_key": REPO, "author": MARA, "because": "it let a bad one in"})
    ben.post(f"/c/{MARA}/objection", {"text": "I did not send the second round.", "pull": MORE})
    person = Person.objects.get(did=BEN)
    tokens = [make_link(person, MARA, REPO, uri, site.now) for uri in ("", MORE)]
    mark = Action.objects.get(kind="outcome")
    return f"/incident/{mark.key}", f"/c/{MARA}/data/{tokens[0]}", f"/c/{MARA}/decision/{tokens[1]}"


def test_every_page_is_whole_on_the_smallest_phone(page: Page, site: ActingSite) -> None:
    paths = ["/", f"/?open={quote(MORE)}", f"/pull/{MORE}", f"/history/{NEXT}", "/lane", "/settings", "/sign-in"]
    paths += [f"/settings/repository?repository={quote(REPO)}", "/people", "/changes", "/objections", "/dashboard"]
    paths += [f"/c/{MARA}", f"/c/{MARA}/rights", f"/c/{MARA}/data", "/leaderboard", *something_of_everything(site)]
    found = {}
    for path in paths:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        if faults := page.evaluate(FAULTS, WIDTH):
            found[path] = faults
    assert found == {}


def test_a_maintainer_finds_every_page_of_theirs_from_the_frame_by_keyboard(page: Page) -> None:
    page.goto("/")
    page.get_by_text("Manage").focus()
    page.keyboard.press("Enter")
    places = page.locator(".menu a").all_inner_texts()
    assert places == ["Settings", "Closed lanes", "Objections", "Changes", "People"]
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert not page.locator(".menu a").first.is_visible()
    assert page.evaluate("document.activeElement.innerText") == "Manage", "the focus is where it was"
    page.keyboard.press("Enter")
    page.mouse.click(2, 700)
    assert not page.locator(".menu a").first.is_visible(), "a click beside it closes it too"
    page.get_by_text("Manage").press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/settings")
    assert page.locator(".menu [aria-current]").text_content() == "Settings"
