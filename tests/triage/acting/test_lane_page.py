"""The page of the fast lane: what it would let through, one choice, what came of it, and what the queue says of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.triage.acting_site import ActingSite
from tests.triage.watching_site import watching_site

pytestmark = pytest.mark.django_db
BEN, VIEWER = "did:plc:" + "3" * 24, "did:plc:" + "5" * 24


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with watching_site(tmp_path, settings, monkeypatch) as made:
        yield made


@pytest.fixture
def ben(site: ActingSite) -> Client:
    return site.maintainer(BEN, "ben.example")


def text(client: Client, path: str = "/lane") -> str:
    """The words of a page, without its tags."""
    answer = client.get(path)
    assert answer.status_code == 200
    return words_of(answer.content.decode())


def words_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).replace("&#x27;", "'")


def form(client: Client) -> dict[str, str]:
    """What the form of the choice holds."""
    page = client.get("/lane").content.decode()
    inside = page.partition('action="/lane/estimate"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(repository|offer)" value="([^"]+)"', inside))


def opened(client: Client) -> None:
    answer = client.post("/lane/estimate", form(client) | {"choice": "open"})
    assert answer.status_code == 302


def test_a_lane_that_watches_is_told_with_its_figures_and_one_choice(ben: Client) -> None:
    page = text(ben)
    assert "Open the fast lane?" in page
    assert "Estimated, shut" in page
    assert "About 6 in 10: 42 of 74 settled pull requests of this site's last year. 2 of the 42 were bad." in page
    assert "Open at 0.60: about 6 in 10 let through, 0 to 17 of 100 of them bad, not certified." in page
    assert "Open the lane Keep watching" in page
