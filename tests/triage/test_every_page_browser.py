"""Every page, found from its address: whole at every width, without a violation of axe, walked by Tab."""

from urllib.parse import quote

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from tests.conftest import count, looks
from tests.triage.axe import violations, violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.every_page import BEN, lane_pages, signed_out_pages, something_of_everything
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.lane_site import MORE
from triage.models import Action, Person

WIDTH, DESKTOP = 360, 1440
WIDTHS = looks(320, 390, 768, 1088, 1344, small=(320, 768))
PHONE = 768  # below it
# The reference of the API has 60 sections of two kinds, which axe reads in 8 s of 35: `make test` has it read twelve.
FEWER = "most => [...document.querySelectorAll('section.card')].slice(most).forEach(one => one.remove())"
SECTIONS = count(12, 1000)
REPORTS = ("Vouches worth making", "Attack simulations", "Backtest")
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
  const fields = 'select, textarea, input:not([type=radio], [type=hidden], label *), label:has(input)';
  for (const one of shown(`button, .button, a.tile, .bar a, summary, ${fields}`))
    if (one.getBoundingClientRect().height < 43.9) faults.push(`low: ${one.innerText || one.name}`);
  return faults;
}"""


# What a page does at one width: whether it scrolls sideways, where its places are, and how high its header is: nothing
# of its line stands below the rest.
SHOWN = """() => {
  const places = document.querySelector('.places'), box = places.getBoundingClientRect();
  return [document.documentElement.scrollWidth > innerWidth,
    places.checkVisibility() && Math.abs(box.bottom - innerHeight) < 1, !!document.querySelector('.asked .actions'),
    document.querySelector('.bar').getBoundingClientRect().height];
}"""


@pytest.fixture
def page(shown_site: ActingSite, open_page: OpenPage) -> Page:
    """A phone on which an admin of the site is signed in."""
    return open_page(WIDTH, something_of_everything(shown_site))


def test_every_page_is_whole_at_every_width_and_breaks_no_rule_of_axe_in_either_theme(
    page: Page, shown_site: ActingSite, open_page: OpenPage
) -> None:
    admin = Client()
    admin.force_login(Person.objects.get(did=BEN))
    found = faults_of(page, lane_pages(shown_site, admin), one_line=True)
    found |= faults_of(open_page(WIDTH), signed_out_pages(shown_site))
    assert found == {}


def faults_of(page: Page, paths: list[str], one_line: bool = False) -> dict[str, list[str]]:
    """What would not be shipped of each page."""
    found = {}
    for path in paths:
        page.set_viewport_size({"width": WIDTH, "height": 800})
        answer = page.goto(path)
        assert answer is not None
        assert answer.status < 500, path
        faults = page.evaluate(FAULTS, WIDTH)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            sideways, at_bottom, acts, height = page.evaluate(SHOWN)
            faults += [f"scrolls sideways at {width}"] if sideways else []
            faults += [f"its bar is elsewhere at {width}"] if at_bottom != (width < PHONE and not acts) else []
            faults += [f"two lines at its top at {width}"] if one_line and height > 49 else []
        page.set_viewport_size({"width": DESKTOP, "height": 900})
        faults += page.evaluate(FAULTS.replace("43.9", "0"), DESKTOP)
        page.evaluate(FEWER, SECTIONS)
        if faults := [*faults, *violations_in_both_themes(page)]:
            found[path] = faults
    return found


# Everything that acts and is shown has to be met by Tab, and to show that it is. Of radio buttons one is, and the name
# beside a new password is for the browser's own list.
MET = """() => {
  window.met = new Map();
  document.addEventListener('focusin', ({target}) => met.set(target, [getComputedStyle(target),
    getComputedStyle(target, '::after')].some(style => style.outlineStyle !== 'none' && style.outlineWidth !== '0px')));
}"""
MISSED = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
  .filter(one => one.checkVisibility() && !one.matches('[type=radio], :disabled, .unseen[autocomplete=username]'))
  .filter(one => met.get(one) !== true)
  .map(one => `${met.has(one) ? 'without a ring' : 'not met'}: ${one.outerHTML.slice(0, 120)}`)"""
COUNT = "document.querySelectorAll('a[href], button, input, select, textarea, summary').length"


def test_every_action_is_met_by_tab_and_shows_its_focus(page: Page, shown_site: ActingSite, prove: bool) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    admin = Client()
    admin.force_login(Person.objects.get(did=BEN))
    some = [f"/?open={quote(MORE)}", "/incidents", f"/incident/{Action.objects.get(kind='outcome').key}"]
    missed = {}
    for path in lane_pages(shown_site, admin) if prove else some:
        page.goto(path)
        page.evaluate(MET)
        for _ in range(page.evaluate(COUNT) + 2):
            page.keyboard.press("Tab")
        if found := page.evaluate(MISSED):
            missed[path] = found
    assert missed == {}


def test_axe_is_heard(browser: Browser) -> None:
    with browser.new_page() as page:
        page.set_content("<!doctype html><html lang=en><title>A page</title><main><h1 style='color: #ddd'>Faint</h1>")
        assert [one.partition(":")[0] for one in violations(page)] == ["color-contrast"]


def test_a_maintainer_finds_every_page_of_theirs_from_the_frame_by_keyboard(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.locator(".places .menu summary").focus()
    page.keyboard.press("Enter")
    places = page.locator(".places .menu a")
    lists = ("Briefing", "Incidents", "Audits", "Decided", "Snoozed")
    expect(places).to_have_text(
        [
            "Leaderboard",
            "Settings",
            *lists,
            "Objections",
            "Changes",
            *REPORTS,
            "Set up",
            "Yours",
            "Notifications",
            "Tokens",
            "People",
            "Publishing",
        ]
    )
    expect(places.first).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(places.first).to_be_hidden()
    expect(page.locator(".places .menu summary"), "the focus is where it was").to_be_focused()
    page.keyboard.press("Enter")
    expect(places.first).to_be_visible()
    page.mouse.click(2, 700)
    expect(places.first, "a click beside it closes it too").to_be_hidden()
    page.locator(".places .menu summary").press("Enter")
    page.keyboard.press("Tab")
    expect(places.first).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/settings")
    expect(page.locator(".places .menu [aria-current]")).to_have_text("Settings")
    for key, path in {"i": "/", "d": "/dashboard", "l": "/lane", "p": "/leaderboard", "s": "/settings"}.items():
        page.locator("body").press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"**{path}")
