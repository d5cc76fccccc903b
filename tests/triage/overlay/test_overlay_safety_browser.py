"""The overlay asks, tells, runs and believes no more than it says, in real Chromium."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from scoring.formatting import visible
from tests.ingest.peer import Answer, Peer, Request, Start, response
from tests.triage.axe import SIGHT, violations
from tests.triage.overlay.browser import OVERLAY, TAG, Overlay, hat_markup, hats, wait_for_hats
from tests.triage.overlay.conftest import Asked, Connect
from tests.triage.overlay.forge import ORIGIN, Home, frame, list_page, panel, profile_page, pull_page
from tests.triage.overlay.instance import BADGE, Answering, answering, inbox, judged, told
from tests.triage.overlay.world import (
    DONE,
    ELSEWHERE,
    FAST,
    FLAGGED,
    GARDEN,
    HANDLES,
    HOME,
    LANTERN,
    MALLORY,
    MARA,
    NEW,
    OWNER,
    UNNUMBERED,
)
from tests.triage.worlds.hostile import HOSTILE
from tests.waiting import wait_for
from triage.models import Person

pytestmark = pytest.mark.django_db(transaction=True)
ConnectTo = Callable[[Answering], Peer]
TOKEN = f"sunstead_{'k' * 43}"
PATH = HOME.path(FAST.number)
UNWATCHED = Home(OWNER, GARDEN)
TAGS = re.compile(r"<([a-z][a-z0-9-]*)", re.IGNORECASE)
# What a person cannot see, or what turns round what they see.
HIDDEN = re.compile("[\x00-\x08\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


@pytest.fixture(autouse=True)
def pull_of_fast(overlay: Overlay) -> None:
    overlay.forge.pages[PATH] = pull_page(HOME, FAST)


@pytest.fixture
def connect_to(overlay: Overlay, start: Start) -> ConnectTo:
    """`connect_to(answer)`: the extension is set up with a server that answers so; returns the server."""

    def connect(answer: Answering) -> Peer:
        peer = start(answer)
        overlay.connect(peer.origin, TOKEN)
        return peer

    return connect


def plain(page: Page) -> str:
    """The page without what the extension added."""
    return page.evaluate(
        "tag => { const copy = document.documentElement.cloneNode(true);"
        " for (const one of copy.querySelectorAll(tag)) one.remove(); return copy.outerHTML; }",
        TAG,
    )


AS_SENT = """fetch(location).then(answer => answer.text())
  .then(text => new DOMParser().parseFromString(text, 'text/html').documentElement.outerHTML)"""


def here_says(overlay: Overlay, page: Page, words: str) -> None:
    """The popup says this of the page."""
    with overlay.popup(page) as popup:
        expect(popup.locator("#here")).to_contain_text(words)


def test_nothing_is_asked_on_other_pages_and_about_repositories_that_are_not_watched(
    overlay: Overlay, connected: Connect, asked: Asked
) -> None:
    connected()
    pages = overlay.forge.pages
    with overlay.opened(PATH) as page:
        wait_for_hats(page)  # what is watched is known from now on
    pages[UNWATCHED.path(3)] = pull_page(UNWATCHED, ELSEWHERE)
    pages[UNWATCHED.path()] = list_page(UNWATCHED, (ELSEWHERE,))
    pages["/stranger.example.com/lantern/pulls/12"] = pull_page(Home("stranger.example.com", LANTERN), FAST)
    others = ("/", "/login", f"/{OWNER}", f"/{OWNER}/{LANTERN}", f"/{OWNER}/{LANTERN}/issues/12", f"{HOME.path()}/new")
    pages.update(dict.fromkeys(others, frame(f"<h1>Lantern <span>#12</span></h1>{panel(FAST.uri)}")))
    asked.clear()
    unwatched = (UNWATCHED.path(3), UNWATCHED.path(), "/stranger.example.com/lantern/pulls/12")
    with overlay.opened("/") as page:
        for path in (*unwatched, *others):
            page.goto(f"{ORIGIN}{path}")
            assert hats(page) == []
        pages[HOME.path(FLAGGED.number)] = pull_page(HOME, FLAGGED)
        page.goto(f"{ORIGIN}{HOME.path(FLAGGED.number)}")
        wait_for_hats(page)
        assert asked == ["POST /pulls"], "this one alone"
        for path, words in ((unwatched[0], "not watched"), (others[-1], "Nothing to say")):
            page.goto(f"{ORIGIN}{path}")
            here_says(overlay, page, words)
            assert hats(page) == []


def slowly(ended: threading.Event) -> Iterator[bytes]:
    """An answer that begins and goes on only once the test has ended."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    ended.wait()


REFUSALS = (
    (401, "does not take the token any more"),
    (403, "may not read this"),
    (404, "does not know this address"),
    (429, "The next one goes out in 40 s."),
    (503, "The next request goes out in 40 s."),
    (500, "answered with the error 500"),
)


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_a_refusal_leaves_the_page_as_it_was_with_one_quiet_line(
    overlay: Overlay, connect_to: ConnectTo, status: int, words: str
) -> None:
    peer = connect_to(answering(pulls=told({"status": status}, status, Retry_After="40")))
    with overlay.opened(PATH) as page:
        (line,) = wait_for_hats(page)
        assert words in line
        assert plain(page) == page.evaluate(AS_SENT)
        here_says(overlay, page, words)
        page.reload()
        assert wait_for_hats(page) == [line]
    sent = [one.path for one in peer.requests]
    assert sent.count("/pulls") == 1, "after a failure it is asked no more for a while"


def test_a_worker_that_ended_meanwhile_still_waits_as_long_as_it_was_told(
    overlay: Overlay, connect_to: ConnectTo
) -> None:
    peer = connect_to(answering(pulls=told({"status": 503}, 503, Retry_After="300")))
    with overlay.opened(PATH) as page:
        (line,) = wait_for_hats(page)
        assert "The next request goes out in 300 s." in line
        sent = len(peer.requests)
        overlay.stop_worker()
        page.reload()
        assert wait_for_hats(page) == [line]
    assert len(peer.requests) == sent


@pytest.mark.parametrize(
    ("code", "words"),
    [("unknown_contributor", "knows nobody of this name"), ("not_found", "does not know this address")],
)
def test_an_address_that_an_instance_does_not_have_is_told_from_a_person_whom_it_does_not_know(
    overlay: Overlay, connect_to: ConnectTo, code: str, words: str
) -> None:
    connect_to(answering(score=told({"status": 404, "code": code}, 404)))
    overlay.forge.pages[f"/{HANDLES[MARA]}"] = profile_page(HANDLES[MARA], MARA)
    with overlay.opened(f"/{HANDLES[MARA]}") as page:
        here_says(overlay, page, words)
        assert len(hats(page)) == (0 if code == "unknown_contributor" else 2)


COUNT = """path => {
  window.drawn = 0;
  const count = node => { drawn += node.nodeName === 'SUNSTEAD-HAT'; };
  new MutationObserver(all => all.forEach(one => one.addedNodes.forEach(count)))
    .observe(document, {childList: true, subtree: true});
  history.pushState(null, '', path);
}"""


def test_an_answer_that_comes_when_the_page_is_another_one_is_not_shown(
    overlay: Overlay, connect_to: ConnectTo
) -> None:
    asked, released, answer = threading.Event(), threading.Event(), answering()

    def slow(request: Request) -> Answer:
        if request.path == "/pulls":
            asked.set()
            released.wait()
        return answer(request)

    connect_to(slow)
    title = "Mend the gate <span>#13</span>"
    overlay.forge.pages[PATH] = pull_page(HOME, replace(FAST, title=title))
    with overlay.opened(PATH) as page:
        wait_for(asked.is_set, what="a question")
        page.evaluate(COUNT, HOME.path(FLAGGED.number))
        released.set()
        assert wait_for_hats(page) == ["Sunstead shows nothing: this page names another pull request than its address."]
        assert page.evaluate("drawn") == 1, "not even for a moment"


ENCODED = """async did => {
  const { person } = await import('./instance.js');
  const { personOf } = await import('./answers.js');
  await person(did, 'a/b');
  const told = {did, badge: {kind: 'person', word: '', chance: '', interval: ''}, explanation: ''};
  return personOf(told, [], 'https://sunstead.example').view.link.href;
}"""


def test_the_did_of_a_page_stays_one_part_of_an_address(overlay: Overlay, connect_to: ConnectTo) -> None:
    peer, did = connect_to(answering()), "did:web:x%2F..%2F..%2Fqueue"
    with overlay.opened(f"{overlay.own}/options.html") as page:
        link = page.evaluate(ENCODED, did)
    named = quote(did, safe="")
    assert {one.path for one in peer.requests} == {f"/{what}/{named}?repo=a%2Fb" for what in ("score", "trust")}
    assert link == f"https://sunstead.example/c/{named}"


@pytest.mark.parametrize("did", [MARA, "did:web:x.example%3A3000"])
def test_the_site_reads_a_did_whose_every_sign_is_encoded(client: Client, seed: Person, did: str) -> None:
    client.force_login(seed)
    for what in ("score", "trust", "c"):
        plain, encoded = (client.get(f"/{what}/{name}") for name in (did, quote(did, safe="")))
        assert plain.status_code == encoded.status_code == (200 if did == MARA else 404)
        assert what == "c" or did in encoded.content.decode()


def test_what_is_not_open_there_leaves_the_page_silent_and_the_popup_says_why(
    overlay: Overlay, connect_to: ConnectTo
) -> None:
    connect_to(answering(known={}))
    overlay.forge.pages[HOME.path()] = list_page(HOME, (FAST, DONE))
    for path in (PATH, HOME.path()):
        with overlay.opened(path) as page:
            here_says(overlay, page, "Not open on your Sunstead")
            assert hats(page) == []


def test_a_dead_and_a_slow_instance_leave_the_page_as_it_was(overlay: Overlay, connect_to: ConnectTo) -> None:
    ended = threading.Event()
    connect_to(answering(pulls=slowly(ended)))
    with overlay.opened(PATH) as page:
        assert wait_for_hats(page) == ["Sunstead did not answer within 5 s."]
    ended.set()
    overlay.connect("http://127.0.0.1:9", TOKEN)
    with overlay.opened(PATH) as page:
        here_says(overlay, page, "Sunstead cannot be reached.")
        assert hats(page) == [], "nobody knows whether it is watched"


ADDRESS = f"{ORIGIN}{PATH}"


def found_both(pull: object) -> list[dict[str, object]]:
    """What is told of both addresses of one pull request."""
    return [{"asked": one, "pull_request": pull} for one in (ADDRESS, FAST.uri)]


STRANGE_MARK = judged(FAST, badge={**BADGE, "kind": 'x" onclick="alert(1)'})
ODD = {
    "no JSON": response(b"<html>", 200, Content_Type="text/html"),
    "another shape": told({"found": "all"}),
    "too few": told({"found": [], "snapshot": 1}),
    "another's answer": told({"found": [{"asked": "at://other", "pull_request": None}] * 2}),
    "an unknown mark": told({"found": found_both(STRANGE_MARK)}),
    "too long": told({"found": found_both(judged(FAST)), "more": " " * 3_000_000}),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_answer_that_nobody_should_send_is_a_line_and_nothing_else(
    overlay: Overlay, connect_to: ConnectTo, kind: str
) -> None:
    connect_to(answering(pulls=ODD[kind]))
    with overlay.opened(PATH) as page:
        (line,) = wait_for_hats(page)
        assert "was not understood" in line or "cannot be reached" in line


DRAW = """async texts => {
  const { pullOf } = await import('./answers.js');
  await import('./hat.js');
  const judged = JSON.parse(texts.judged);
  for (const text of texts.all) {
    const badge = {kind: 'flag', word: text, chance: text, interval: text};
    const finding = {name: text, severity: 'high', file: text, line: 3, removed: false};
    const all = {...judged, title: text, label: text, decided: text, explanation: text, badge, finding};
    document.body.append(hat.draw(pullOf(all, 'https://sunstead.example').view));
  }
}"""


def test_it_goes_nowhere_that_its_instance_sends_it(overlay: Overlay, connect_to: ConnectTo, start: Start) -> None:
    other = start(answering())
    connect_to(answering(pulls=response(b"", 307, Location=f"{other.origin}/pulls")))
    with overlay.opened(PATH) as page:
        assert wait_for_hats(page) == ["Sunstead cannot be reached."]
    assert other.requests == []


def test_hostile_words_in_answers_stay_text(overlay: Overlay, connect_to: ConnectTo) -> None:
    with overlay.opened(f"{overlay.own}/options.html") as page:
        page.evaluate(DRAW, {"all": HOSTILE, "judged": json.dumps(judged(FAST))})
        for text, words, markup in zip(HOSTILE, hats(page), hat_markup(page), strict=True):
            assert set(TAGS.findall(markup)) <= {"div", "span", "svg", "path", "b", "bdi", "code", "a"}, text
            assert " ".join(visible(text).split())[:20] in words
            assert HIDDEN.findall(words) == []
            assert len(words) < 500
    title = "</bdi><img src=x onerror=alert(1)>\u202e"
    connect_to(answering(inbox=told(inbox(oldest=judged(FAST, title=title)))))
    overlay.forge.pages[PATH] = pull_page(HOME, replace(FAST, title=escape(title)))
    with overlay.opened(PATH) as page:
        wait_for_hats(page)
        with overlay.popup(page) as popup:
            expect(popup.locator("#inbox")).to_contain_text(f"lantern #12: {visible(title)}")
            expect(popup.locator("img")).to_have_count(0)


def test_a_page_cannot_borrow_the_judgement_of_another_pull_request(overlay: Overlay, connected: Connect) -> None:
    connected()
    pages = overlay.forge.pages
    # In their descriptions, above the forge's own panel: of one whose number is known, and of one whose is not.
    for pull, other in ((FLAGGED, FAST), (NEW, UNNUMBERED)):
        pages[HOME.path(pull.number)] = pull_page(HOME, replace(pull, body=panel(other.uri)))
    pages[HOME.path(99)] = pull_page(HOME, replace(FAST, number=99))
    pages[f"/{HANDLES[MALLORY]}"] = profile_page(HANDLES[MALLORY], MARA)
    for path, words in (
        (HOME.path(FLAGGED.number), "names another pull request than its address"),
        (HOME.path(NEW.number), "names another pull request than its address"),
        (HOME.path(99), "names another pull request than its address"),
        (f"/{HANDLES[MALLORY]}", "names another person than its address"),
    ):
        with overlay.opened(path) as page:
            wait_for(lambda: hats(page), what="a line")
            assert {*hats(page)} == {f"Sunstead shows nothing: this page {words}."}


def worlds(overlay: Overlay, page: Page, expression: str) -> dict[str, Any]:
    """What an expression gives in the page's own world and in that of the extension's script in it."""
    session = page.context.new_cdp_session(page)
    contexts: list[Any] = []
    session.on("Runtime.executionContextCreated", lambda told: contexts.append(told["context"]))
    session.send("Runtime.enable")
    found = {}
    for context in contexts:
        asked = {"expression": expression, "contextId": context["id"], "awaitPromise": True, "returnByValue": True}
        kind = "page" if context["auxData"]["isDefault"] else "script"
        if kind == "page" or context["origin"].startswith(overlay.own):
            found[kind] = session.send("Runtime.evaluate", asked)["result"].get("value")
    session.detach()
    return found


EVERYTHING = """(() => {
  const seen = new Set(), texts = [];
  const walk = (value, depth) => {
    if (typeof value === 'string') texts.push(value);
    if (value === null || !['object', 'function'].includes(typeof value) || seen.has(value) || depth > 4) return;
    seen.add(value);
    for (const key of Reflect.ownKeys(value)) {
      try { walk(value[key], depth + 1); } catch {}
    }
  };
  walk(globalThis, 0);
  return texts.join(' ') + document.documentElement.outerHTML + JSON.stringify([{...localStorage}, document.cookie]);
})()"""
STORED = "chrome.storage.local.get().then(JSON.stringify, problem => `refused: ${problem.message}`)"


def test_the_token_is_nowhere_but_in_the_worker(overlay: Overlay, connected: Connect, asked: Asked) -> None:
    secret = connected()
    overlay.forge.heard.clear()
    with overlay.opened(PATH) as page:
        wait_for_hats(page)
        found = worlds(overlay, page, EVERYTHING)
        assert found.keys() == {"page", "script"}
        assert all(secret not in text and secret[9:30] not in text for text in found.values())
        assert "refused" in worlds(overlay, page, STORED)["script"]
        assert worlds(overlay, page, "typeof chrome.storage")["page"] in (None, "undefined")
        session = page.context.new_cdp_session(page)
        tree = json.dumps(session.send("DOM.getDocument", {"depth": -1, "pierce": True}))
        assert secret not in tree
        with overlay.popup(page) as popup:
            wait_for_hats(popup)
            assert secret not in json.dumps(_tree(popup))
    with overlay.opened(f"{overlay.own}/options.html") as page:
        expect(page.locator("#token")).to_have_value("")
        assert secret not in json.dumps(_tree(page))
    assert secret not in "".join(overlay.forge.heard)
    assert overlay.forge.heard
    assert "POST /pulls" in asked, "it was used meanwhile"


def _tree(page: Page) -> Any:
    session = page.context.new_cdp_session(page)
    try:
        return session.send("DOM.getDocument", {"depth": -1, "pierce": True})
    finally:
        session.detach()


def test_neither_a_page_nor_the_script_in_it_gets_more_than_a_hat(overlay: Overlay, connected: Connect) -> None:
    connected()
    with overlay.opened(PATH) as page:
        wait_for_hats(page)
        assert page.evaluate("document.querySelector('sunstead-hat').shadowRoot") is None
        assert page.evaluate("document.body.innerText").count("Fast lane") == 0
        for message in ("{ask: 'inbox'}", "{ask: 'settings'}", "{}", "'x'", "{ask: 'toString'}"):
            expression = f"chrome.runtime.sendMessage({message}).then(JSON.stringify, () => 'no answer')"
            assert worlds(overlay, page, expression)["script"] in (None, "no answer"), message
        for question in (
            {"ask": "pull", "path": "/a.b/c/pulls/1", "uri": "javascript:alert(1)"},
            {"ask": "pull", "path": f"{PATH}/../../../x", "uri": FAST.uri},
            {"ask": "list", "path": HOME.path(), "numbers": list(range(1, 200))},
            {"ask": "list", "path": HOME.path(), "numbers": ["../../x"]},
            {"ask": "person", "path": f"/{OWNER}", "did": "did:plc:x/../../queue"},
        ):
            expression = f"chrome.runtime.sendMessage({json.dumps(question)}).then(JSON.stringify)"
            assert worlds(overlay, page, expression)["script"] == "{}", question


def test_no_page_makes_it_ask_without_end(overlay: Overlay, connect_to: ConnectTo) -> None:
    peer = connect_to(answering(known={}))
    with overlay.opened(f"{overlay.own}/options.html") as page:
        refused = page.evaluate(FLOOD, [f"{FAST.uri}{number}" for number in range(150)])
    assert (refused, len(peer.requests)) == (30, 120)


STYLE = re.compile(r"const STYLE = `([^`]*)`")
CARD = """<!doctype html><html lang="en"><title>Hats</title><style>main { background: light-dark(#fff, #1f2937) }
:root { color-scheme: light dark }</style><main><h1>Hats</h1></main>"""
FLOOD = """async uris => {
  const { pulls } = await import('./instance.js');
  return (await Promise.allSettled(uris.map(uri => pulls([uri])))).filter(one => one.status === 'rejected').length;
}"""
SHADOWED = """markup => {
  for (const one of markup) {
    const host = document.createElement('div');
    document.querySelector('main').append(host);
    host.attachShadow({mode: 'open'}).innerHTML = one;
  }
}"""


def test_axe_finds_nothing_in_hats_popup_and_settings(overlay: Overlay, connected: Connect) -> None:
    connected()
    pages, handle = overlay.forge.pages, HANDLES[MARA]
    pages[HOME.path(FLAGGED.number)] = pull_page(HOME, FLAGGED)
    pages[f"/{handle}"] = profile_page(handle, MARA)
    pages[HOME.path()] = list_page(HOME, (FAST, FLAGGED))
    (style,) = STYLE.findall((OVERLAY / "hat.js").read_text())
    found: list[str] = []
    for path, count in ((PATH, 1), (HOME.path(FLAGGED.number), 1), (f"/{handle}", 2), (HOME.path(), 2)):
        with overlay.opened(path) as page:
            wait_for_hats(page, count)
            found += [f"<style>{style}</style>{one}" for one in hat_markup(page)]
    with overlay.opened("about:blank") as page:
        page.set_content(CARD)
        page.evaluate(SHADOWED, found)
        check(page)
    with overlay.opened(PATH) as page, overlay.popup(page) as popup:
        wait_for_hats(popup)
        expect(popup.locator("#inbox table")).to_have_count(1)
        check(popup)
    with overlay.opened(f"{overlay.own}/options.html") as page:
        check(page)


def check(page: Page) -> None:
    """Nothing breaks a rule of axe, in light and in dark."""
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, *SIGHT) == []
