"""Sixty hostile texts in every field that the network writes: each is shown as text, and nothing else happens."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from playwright.sync_api import Page
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from scoring.formatting import visible
from tests.ingest.stream.frames import MARA
from tests.triage.conftest import OpenPage
from tests.triage.every_page import BEN, Known, pages_of
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.hostile import HOSTILE, PEOPLE, PULLS, REPOSITORIES, hostile_site
from triage.models import Maintainer

# What a person cannot see, or what turns round what they see.
HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
NARROW, WIDE = 390, 1440
# What none of our pages holds, whatever its texts say; scripts of ours have an address.
FOREIGN = """() => {
  const foreign = 'iframe, object, embed, base, math, img, meta[http-equiv], script:not([src]), style, [onerror], '
    + '[onload], [onclick], [onfocus], [autofocus], a[href^="javascript:" i], a[href^="data:" i], [style], '
    + '[href*="evil.example" i]:not([href*="?"]), [src*="evil.example" i], [action*="evil.example" i]';
  return [...document.querySelectorAll(foreign)].map(one => one.outerHTML.slice(0, 200));
}"""


@pytest.fixture
def site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ActingSite]:
    with hostile_site(tmp_path, settings, monkeypatch) as made:
        yield made


@pytest.fixture
def admin(site: ActingSite) -> Client:
    """An admin of the site, and what people wrote into its forms."""
    ben = site.maintainer(BEN, "ben.example", "")
    Maintainer.objects.filter(person__did=BEN).update(role="admin")
    for number, text in enumerate(HOSTILE):
        answer = ben.post(f"/c/{PEOPLE[number]}/objection", {"text": text, "pull": PULLS[number]})
        assert answer.status_code in (200, 302), (text[:50], answer.status_code)
        closed = ben.post("/lane/close", {"repo_key": REPOSITORIES[number], "because": text[:500]})
        assert closed.status_code == 302
    return ben


def shown(text: str) -> str:
    """A text as a reader of the page sees it: what is hidden spelled out, spaces as HTML collapses them."""
    return " ".join(visible(text).split())


def text_of(page: Page) -> str:
    return " ".join(page.evaluate("document.body.textContent").split())


def test_every_hostile_text_is_shown_as_text_and_nothing_else_happens(
    site: ActingSite, admin: Client, open_page: OpenPage
) -> None:
    page = open_page(NARROW, admin)
    paths = [*pages_of(Known(PULLS[0], PULLS[0], MARA, REPOSITORIES[0]), admin), "/?bucket=normal_queue&page=2"]
    said = {}
    for path in paths:
        page.set_viewport_size({"width": NARROW, "height": 800})
        page.goto(path)
        said[path] = text_of(page)
        assert HIDDEN.findall(said[path]) == [], path
        assert page.evaluate(FOREIGN) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, path
        page.set_viewport_size({"width": WIDE, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDE, path
    titles = said["/?bucket=normal_queue"] + said["/?bucket=normal_queue&page=2"]
    places = {"a title": titles, "a flag": said[f"/pull/{PULLS[0]}"], "a reason of a vouch": said[f"/c/{MARA}"]}
    places |= {"a handle": said[f"/c/{MARA}"], "a repository": said["/"], "an objection": said["/objections"]}
    for place, told in places.items():
        assert [text[:60] for text in HOSTILE if shown(text) not in told] == [], place
