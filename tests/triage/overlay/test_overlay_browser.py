"""The overlay on the forge's pages, in real Chromium with the extension as it is shipped, before a real site."""

import re
from collections.abc import Sequence

import pytest
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.conftest import looks
from tests.triage.overlay.browser import Overlay, hat_markup, hats, wait_for_hats
from tests.triage.overlay.conftest import Asked, Connect
from tests.triage.overlay.forge import FORMS, Form, Home, frame, list_page, panel, profile_page, pull_page
from tests.triage.overlay.world import (
    DONE,
    FAST,
    FLAGGED,
    HANDLES,
    HOME,
    LANTERN,
    MARA,
    NEW,
    OWNER,
    UNNUMBERED,
)

pytestmark = pytest.mark.django_db(transaction=True)
SIGNED_IN = Home(OWNER, LANTERN, signed_in=True)
LOOKS: Sequence[tuple[Home, Form]] = looks(
    *((home, form) for home in (HOME, SIGNED_IN) for form in FORMS),
    small=((HOME, "rounds"), (SIGNED_IN, "versions")),
)
CHANCE = "stays clean 60 % (23\N{EN DASH}92)"
FAST_HAT = f"Fast lane {CHANCE} · 1 of 1 merged here, no findings · Approve on Sunstead"
FLAGGED_HAT = "Flagged No trust path yet · Prompt injection in src/app.py:41 · Open on Sunstead"


def lists(overlay: Overlay, home: Home = HOME) -> str:
    """The page of the list, with two pull requests stacked below the last; its path."""
    overlay.forge.pages[home.path()] = list_page(home, (FAST, UNNUMBERED, DONE), (FLAGGED, NEW))
    return home.path()


def pulls(overlay: Overlay, home: Home = HOME) -> None:
    """The pages of its pull requests."""
    for pull in (FAST, FLAGGED, NEW, UNNUMBERED, DONE):
        overlay.forge.pages[home.path(pull.number)] = pull_page(home, pull)


def test_a_pull_request_shows_lane_chance_reason_worst_finding_and_the_way_to_its_judgement(
    overlay: Overlay, connected: Connect, asked: Asked, live_server: LiveServer
) -> None:
    connected()
    for home, form in LOOKS:
        for pull, words in ((FAST, FAST_HAT), (FLAGGED, FLAGGED_HAT)):
            path = home.path(pull.number)
            overlay.forge.pages[path] = pull_page(home, pull, form)
            with overlay.opened(path) as page:
                assert wait_for_hats(page) == [words]
                expect(page.locator("h1 + sunstead-hat")).to_have_count(1)
                (markup,) = hat_markup(page)
                (address,) = re.findall(r'href="([^"]*)"', markup)
                assert address.endswith(f"/pull/{pull.uri}")
                assert 'target="_blank" rel="noopener noreferrer"' in markup
    assert set(asked) == {"GET /inbox", "POST /pulls"} | {one for one in asked if one.startswith("GET /score/")}


def test_one_whose_number_nobody_read_yet_is_known_by_the_at_uri_of_its_page(
    overlay: Overlay, connected: Connect
) -> None:
    connected()
    pulls(overlay)
    with overlay.opened(HOME.path(UNNUMBERED.number)) as page:
        assert wait_for_hats(page)[0].startswith("Fast lane stays clean 60 %")


def test_a_list_has_a_small_hat_on_each_row_for_one_request(overlay: Overlay, connected: Connect, asked: Asked) -> None:
    connected()
    pulls(overlay)
    with overlay.opened(lists(overlay)) as page:
        assert wait_for_hats(page, 3) == ["Fast lane stays clean 60 %", "Flagged", "No score yet"]
        for number in (FAST.number, FLAGGED.number, NEW.number):
            row = page.locator(f'a[href="{HOME.path(number)}"]')
            expect(row.locator("sunstead-hat")).to_have_count(1)
        assert asked.count("POST /pulls") == 1
        page.locator(f'a[href="{HOME.path(FAST.number)}"]').first.click()  # the hat is part of the row's own link
        expect(page).to_have_url(re.compile(rf"{HOME.path(FAST.number)}$"))


def test_a_profile_has_the_chance_and_the_path_of_trust(overlay: Overlay, connected: Connect, asked: Asked) -> None:
    connected()
    handle = HANDLES[MARA]
    overlay.forge.pages[f"/{handle}"] = profile_page(handle, MARA, signed_in=True)
    with overlay.opened(f"/{handle}") as page:
        told = wait_for_hats(page, 2)
        assert told[0] == told[1]
        assert told[0].startswith("Stays clean 60 % (23\N{EN DASH}92) · ")
        assert told[0].endswith(f" · trust path {OWNER} → {handle} · Open on Sunstead")
        assert asked.count(f"GET /trust/{MARA}") == 1


def test_it_follows_swaps_by_htmx_the_history_and_a_page_that_comes_late(
    overlay: Overlay, connected: Connect, asked: Asked
) -> None:
    connected()
    pulls(overlay)
    lists(overlay)
    overlay.forge.pages[f"/{OWNER}/{LANTERN}"] = frame(f'<a href="{HOME.path()}" hx-boost="true">pulls</a>')
    with overlay.opened(f"/{OWNER}/{LANTERN}") as page:
        page.evaluate("window.stays = true")
        page.click("text=pulls")
        wait_for_hats(page, 3)
        page.click("text=overview")
        expect(page.locator("sunstead-hat")).to_have_count(0)
        page.go_back()
        wait_for_hats(page, 3)
        page.evaluate(SWAP, HOME.path(FLAGGED.number))
        assert wait_for_hats(page) == [FLAGGED_HAT]
        page.evaluate(SWAP, HOME.path(FAST.number))
        page.wait_for_function("() => document.title && document.querySelector('h1').textContent.includes('#12')")
        assert wait_for_hats(page) == [FAST_HAT]
        assert page.evaluate("window.stays"), "it was swapped, not loaded"
        print(f"hat after a swap: {measured(page):.0f} ms")  # noqa: T201 - docs/measurements.md
    overlay.forge.pages[HOME.path(NEW.number)] = pull_page(HOME, NEW, named="")
    with overlay.opened(HOME.path(NEW.number)) as page:
        page.evaluate("part => document.querySelector('.side').insertAdjacentHTML('beforeend', part)", panel(NEW.uri))
        assert wait_for_hats(page)[0].startswith("No score yet")


SWAP = "path => htmx.ajax('GET', path, {target: 'body'}).then(() => history.pushState(null, '', path))"
TIMED = """async ([path, away]) => {
  await htmx.ajax('GET', away, {target: 'body'});
  history.pushState(null, '', away);
  await new Promise(done => setTimeout(done, 500));
  await htmx.ajax('GET', path, {target: 'body'});
  history.pushState(null, '', path);
  const began = performance.now();
  while (!document.querySelector('sunstead-hat')) await new Promise(done => requestAnimationFrame(done));
  return performance.now() - began;
}"""


def measured(page: Page) -> float:
    """Milliseconds from a swap until its hat stands, of one that was not asked about before."""
    return page.evaluate(TIMED, [HOME.path(NEW.number), f"/{OWNER}/{LANTERN}"])


def test_the_popup_says_the_same_and_the_inbox_in_brief(overlay: Overlay, connected: Connect) -> None:
    connected()
    pulls(overlay)
    lists(overlay)
    with overlay.opened(HOME.path(FLAGGED.number)) as page:
        wait_for_hats(page)
        with overlay.popup(page) as popup:
            assert wait_for_hats(popup) == [FLAGGED_HAT]
            told = popup.locator("#inbox")
            expect(told).to_contain_text("0 new pull requests within 24 hours.")
            expect(told).to_contain_text(re.compile(r"Waits longest, \d+ days: lantern #13: Tidy the settings"))
            counts = dict(zip(told.locator("th").all_inner_texts(), told.locator("td").all_inner_texts(), strict=True))
            assert counts == {"Flagged": "1", "Needs review": "1", "Fast lane": "2", "Would be fast lane": "0"}
    with overlay.opened(HOME.path()) as page:
        wait_for_hats(page, 3)
        with overlay.popup(page) as popup:
            expect(popup.locator("#here")).to_have_text("3 pull requests of this list judged.")
    overlay.forge.pages[HOME.path(NEW.number)] = frame("<h1>A page of another shape</h1>")
    overlay.forge.pages["/about"] = frame("<h1>About</h1>")
    for path, words in ((HOME.path(NEW.number), "was not understood"), ("/about", "Nothing to say")):
        with overlay.opened(path) as page, overlay.popup(page) as popup:
            expect(popup.locator("#here")).to_contain_text(words)
            assert hats(page) == []


def test_a_token_for_one_repository_is_enough(overlay: Overlay, connected: Connect) -> None:
    connected("did:plc:" + "r" * 24)
    pulls(overlay)
    with overlay.opened(HOME.path(FAST.number)) as page:
        assert wait_for_hats(page) == [FAST_HAT]
    handle = HANDLES[MARA]
    overlay.forge.pages[f"/{handle}"] = profile_page(handle, MARA)
    with overlay.opened(f"/{handle}") as page:
        assert wait_for_hats(page, 2)[0].startswith("Stays clean 60 %")


def test_the_settings_take_an_address_and_a_token_and_never_show_the_token_again(
    overlay: Overlay, connected: Connect, asked: Asked
) -> None:
    secret = connected()
    with overlay.opened(f"{overlay.own}/options.html") as page:
        said, address, token = page.locator("#said"), page.locator("#address"), page.locator("#token")
        expect(token).to_have_attribute("placeholder", re.compile("A token is saved"))
        site = address.input_value()
        for typed, key, words in (
            ("https://sunstead.example", "", "a token goes to the address for which it was typed"),
            ("http://sunstead.example", "", "the address begins with https://"),
            ("javascript:alert(1)", "", "the address begins with https://"),
            ("https://user:word@sunstead.example", "", "the address begins with https://"),
            (site, "Bearer x", "a token begins with sunstead_"),
            ("http://127.0.0.1:1", "", "a token goes to the address for which it was typed"),
        ):
            address.fill(typed)
            token.fill(key)
            page.click("button")
            expect(said).to_contain_text(words)
        reach = {"origins": ["https://sunstead.example/*"]}
        assert page.evaluate("reach => chrome.permissions.contains(reach)", reach) is False
        address.fill(f"{site}/anything?at#all")
        token.fill(secret)
        page.uncheck("[value=person]")
        page.click("button")
        expect(said).to_have_text("Saved. Sunstead answers: 1 watched repository.")
        assert (address.input_value(), token.input_value()) == (site, "")
        assert page.evaluate("chrome.storage.local.get('pages')") == {"pages": ["pull", "list"]}
    handle = HANDLES[MARA]
    overlay.forge.pages[f"/{handle}"] = profile_page(handle, MARA)
    before = len(asked)
    with overlay.opened(f"/{handle}") as page, overlay.popup(page) as popup:
        expect(popup.locator("#here")).to_contain_text("Switched off")
        assert hats(page) == []
    assert [one for one in asked[before:] if "/score/" in one or "/trust/" in one] == []
