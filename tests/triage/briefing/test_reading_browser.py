"""The page of the briefing in a browser: read aloud by a voice of the device and by no other, and whole without one."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from tests.ingest.stream.frames import REPO
from tests.triage.axe import violations_in_both_themes
from tests.triage.conftest import OpenPage
from tests.triage.worlds.acting_site import maintainer

pytestmark = pytest.mark.django_db(transaction=True)
BEN = "did:plc:" + "3" * 24
# A speech engine whose sentences end when the test says so; its voices come late, as in real browsers.
ENGINE = """(voices) => {
  const made = new EventTarget(), heard = [];
  let now = null, known = [];
  const end = (name) => { const one = now; now = null; one?.[`on${name}`]?.({}); };
  Object.assign(made, {
    heard, getVoices: () => known,
    speak: (words) => { now = words; heard.push([words.voice.name, words.text]); },
    cancel: () => end('error'), finish: () => end('end'),
    arrive: () => { known = voices; made.dispatchEvent(new Event('voiceschanged')); },
  });
  Object.defineProperty(made, 'speaking', {get: () => now !== null});
  Object.defineProperty(window, 'speechSynthesis', {value: made});
  window.SpeechSynthesisUtterance = function (text) { this.text = text; };
}"""
FAR = {"name": "far", "lang": "en-US", "localService": False, "default": True}
FOREIGN = {"name": "foreign", "lang": "fr-FR", "localService": True, "default": False}
NEAR = {"name": "near", "lang": "en-GB", "localService": True, "default": False}


def opened(open_page: OpenPage, voices: list[dict[str, Any]] | None, **options: Any) -> tuple[Page, list[str]]:
    """The page with these voices, None for the browser's own; and the hosts that it asked."""
    page, hosts = open_page(client=signed_in(), **options), list[str]()
    page.on("request", lambda request: hosts.append(urlsplit(request.url).netloc))
    if voices is not None:
        page.add_init_script(f"({ENGINE})({voices!r})".replace("True", "true").replace("False", "false"))
    page.goto("/briefing")
    if voices is not None:
        page.evaluate("speechSynthesis.arrive()")
    return page, hosts


def signed_in() -> Client:
    return maintainer(BEN, REPO, handle="ben.example")


def heard(page: Page) -> list[list[str]]:
    return page.evaluate("speechSynthesis.heard")


def current(page: Page) -> list[int]:
    """The numbers of the sentences that are marked."""
    return page.evaluate(
        "[...document.querySelectorAll('#briefing li')].flatMap((one, at) => one.ariaCurrent === 'true' ? [at] : [])"
    )


def test_it_is_read_sentence_by_sentence_by_a_voice_of_the_device_and_stops_by_key(
    small: Path, open_page: OpenPage
) -> None:
    page, hosts = opened(open_page, [FAR, FOREIGN, NEAR])
    expect(page.locator("#no-voice")).to_be_hidden()
    texts = page.locator("#briefing .said").all_inner_texts()
    assert heard(page) == [], "nothing is read before somebody asks for it"
    page.get_by_role("button", name="Read to me").click()
    assert (heard(page), current(page)) == ([["near", texts[0]]], [0])
    page.evaluate("speechSynthesis.finish()")
    assert (heard(page)[1], current(page)) == (["near", texts[1]], [1])
    page.keyboard.press("p")
    assert (page.evaluate("speechSynthesis.speaking"), current(page)) == (False, [1])
    expect(page.locator("#pause")).to_have_text("Go on")
    page.keyboard.press("p")
    assert (heard(page)[2], current(page)) == (["near", texts[1]], [1]), "it begins that sentence again"
    page.keyboard.press("Escape")
    assert (page.evaluate("speechSynthesis.speaking"), current(page)) == (False, [])
    page.keyboard.press("r")
    for _ in texts:
        page.evaluate("speechSynthesis.finish()")
    assert [text for _, text in heard(page)[3:]] == texts, "from the first to the last"
    assert (page.evaluate("speechSynthesis.speaking"), current(page)) == (False, [])
    page.keyboard.press("r")
    page.keyboard.press("s")
    assert page.evaluate("speechSynthesis.speaking") is False
    assert {name for name, _ in heard(page)} == {"near"}
    assert set(hosts) == {urlsplit(page.url).netloc}
    page.keyboard.press("r")
    assert violations_in_both_themes(page) == []


@pytest.mark.parametrize("voices", [None, [], [FAR, FOREIGN]], ids=["headless", "none", "only far and foreign ones"])
def test_without_a_voice_of_the_device_it_says_so_in_one_sentence_and_the_text_stays(
    small: Path, open_page: OpenPage, voices: list[dict[str, Any]] | None
) -> None:
    page, hosts = opened(open_page, voices)
    said = page.locator("#no-voice")
    expect(said).to_be_visible()
    assert said.inner_text().count(".") == 1
    expect(page.get_by_role("button", name="Read to me")).to_be_hidden()
    expect(page.locator("#briefing .said").first).to_contain_text("In the inbox: ")
    page.keyboard.press("r")
    assert set(hosts) == {urlsplit(page.url).netloc}


def test_it_reads_well_without_scripts(small: Path, open_page: OpenPage) -> None:
    page, _ = opened(open_page, None, scripts=False)
    expect(page.locator("#briefing .said").first).to_contain_text("In the inbox: ")
    expect(page.locator("#player")).to_be_hidden()
    expect(page.locator("#no-voice")).to_be_hidden()
