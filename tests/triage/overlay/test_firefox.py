"""The same sources in Firefox: set up through its settings, a hat on a pull request and on a list, and its popup."""

import json
import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import missing
from tests.ingest.peer import Start
from tests.triage.overlay.firefox import HOST, Firefox, running
from tests.triage.overlay.forge import ORIGIN, Forge, list_page, pull_page
from tests.triage.overlay.instance import answering
from tests.triage.overlay.world import FAST, FLAGGED, HOME
from tests.waiting import wait_for

TOKEN = f"sunstead_{'k' * 43}"
OWN = f"moz-extension://{HOST}"
TYPED = "fields => Object.entries(fields).forEach(([id, value]) => { document.getElementById(id).value = value; })"
SAID = "document.getElementById('said').textContent"
HATS = "document.querySelectorAll('sunstead-hat').length"
LANE = "root => getComputedStyle(root.querySelector('.lane')).borderTopLeftRadius"


@pytest.fixture(scope="module")
def firefox(forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        missing("REQUIRE_FIREFOX", "no Firefox on the PATH (firefox-esr, firefox)")
    with running(program, tmp_path_factory.mktemp("firefox"), forge) as made:
        yield made


def test_firefox_runs_the_same_extension(firefox: Firefox, forge: Forge, start: Start) -> None:
    peer = start(answering())
    forge.pages[HOME.path(FAST.number)] = pull_page(HOME, FAST)
    forge.pages[HOME.path()] = list_page(HOME, (FAST, FLAGGED))
    firefox.open(f"{ORIGIN}{HOME.path(FAST.number)}")
    firefox.open(f"{OWN}/options.html")
    firefox.run(f"({TYPED})({json.dumps({'address': peer.origin, 'token': TOKEN})})")
    firefox.click("button")
    wait_for(lambda: str(firefox.run(SAID)).startswith(("Saved. Sunstead", "Saved, but", "Nothing")), what="an answer")
    assert firefox.run(SAID) == "Saved. Sunstead answers: 1 watched repository."
    assert firefox.run("document.getElementById('token').value") == ""
    for path in (HOME.path(FAST.number), HOME.path()):
        firefox.open(f"{ORIGIN}{path}")
        wait_for(lambda: firefox.run(HATS) == 1, what=f"a hat on {path}")
        assert firefox.run_within("sunstead-hat", LANE) == "4px", "it has its style in spite of the page's policy"
    assert firefox.run("document.querySelector('sunstead-hat').shadowRoot") is None
    asked = [(one.path, one.headers.get("authorization"), one.headers.get("origin", "")) for one in peer.requests]
    assert {path for path, *_ in asked} == {"/inbox", "/pulls"}
    assert {bearer for _, bearer, _ in asked} == {f"Bearer {TOKEN}"}
    assert TOKEN not in "".join(forge.heard)
    firefox.open(f"{OWN}/popup.html")
    wait_for(lambda: "Waits longest" in firefox.run("document.body.innerText"), what="the popup")
