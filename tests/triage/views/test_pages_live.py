"""Pages over a world that the real worker loaded: what they say is what `scoring.queries.read` and the JSON say."""

import re
from html import unescape

import pytest
from django.test import Client
from pytest_django import Settings

from scoring.formatting import percent
from scoring.queries import read
from scoring.types import Lane
from tests.triage.site import Site

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client, site: Site, settings: Settings) -> Client:
    settings.PUBLIC_READ = True
    return client


def page_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def test_every_open_pull_request_is_in_the_queue_and_has_a_page(reader: Client, site: Site) -> None:
    with site.snapshot() as snapshot:
        found = read.queue(snapshot, read.QueueQuery())
    page = page_of(reader, "/")
    tiles = [int(figure.replace(",", "")) for figure in re.findall(r'<span class="figure">([\d,]+)</span>', page)]
    assert tiles == [sum(found.counts.values()), *(found.counts.get(lane, 0) for lane in Lane)]
    rows = [row for group in found.groups for row in group.rows]
    assert rows
    for row in rows[:20]:
        pull = page_of(reader, f"/pull/{row.uri}")
        assert unescape(pull).count(row.author.did) >= 1
        if row.verdict.estimate.probability is not None:
            assert percent(row.verdict.estimate.probability) in pull


def test_the_page_of_each_person_in_the_world_says_what_the_score_says(reader: Client, site: Site) -> None:
    for did in site.cast.values():
        with site.snapshot() as snapshot:
            found = read.contributor(snapshot, did)
        if found is None:
            assert reader.get(f"/c/{did}").status_code == 404
            continue
        page = page_of(reader, f"/c/{did}")
        probability = found.score.verdict.estimate.probability
        assert ("No score yet." if probability is None else percent(probability)) in page


def test_the_dashboard_and_the_leaderboard_count_what_the_snapshot_holds(reader: Client, site: Site) -> None:
    with site.snapshot() as snapshot:
        board = read.dashboard(snapshot)
        total = read.leaderboard(snapshot, "score", True, 1).total
    assert f"of {board.events:,} events kept" in page_of(reader, "/dashboard")
    for sort in ("score", "merged", "reverts", "hops"):
        assert f"{total:,} contributors" in page_of(reader, f"/leaderboard?sort={sort}&order=up")
