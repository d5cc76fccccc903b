"""Exact thresholds and what is still needed: on every page and in every answer for maintainers, for nobody else."""

from dataclasses import replace

import pytest
from django.test import Client
from pytest_django import Settings

from scoring.thresholds import Thresholds
from tests.triage.worlds import drawn_rows
from tests.triage.worlds.drawn_rows import MARA
from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in

pytestmark = pytest.mark.django_db
HERE, ELSEWHERE = "did:plc:corecorecorecorecorecore", "did:plc:otherotherotherotherothe"
MARKS = ("0.3137", "0.8713", "0.2039", "0.6171")
NOTICE = "The fast lane is shut: 1,234 more are needed."


@pytest.fixture(name="pages")
def pages_fixture(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[str]:
    """Every page and answer that could name a threshold, over a world of thresholds that occur nowhere else."""
    settings.PUBLIC_READ = True
    settings.STREAM_CLOCK = True
    marks = Thresholds(t_low=0.3137, t_high=0.8713, r_low=0.2039, r_high=0.6171)
    monkeypatch.setattr(drawn_rows, "THRESHOLDS", marks)
    world = DrawnWorld(rows=drawn_rows.drawn_rows(), t_high=0.8713, t_low=0.3137, notice=NOTICE)
    draw(monkeypatch, world)
    uris = [row.uri for row in world.rows]
    single = [address for uri in uris for address in (f"/pull/{uri}", f"/?open={uri}")]
    return [*single, "/", "/dashboard", "/leaderboard", "/sign-in", f"/c/{MARA.did}", f"/trust/{MARA.did}", "/metrics"]


def named(client: Client, pages: list[str]) -> set[str]:
    """What of the marks the pages name, in whatever form they are asked for."""
    shown = ""
    for page in pages:
        shown += client.get(page).content.decode()
    shown += client.get("/leaderboard", headers={"Accept": "application/json"}).content.decode()
    lines = client.get("/ops/metrics").content.decode().splitlines()
    # Seconds that this process measured of itself hold any four digits by chance.
    shown += "".join(line for line in lines if not line.startswith(("sunstead_http_request_duration", "process_")))
    marks = {mark for mark in (*MARKS, "1,234") if mark in shown}
    return marks | ({"counterfactual"} if "What would change the lane" in shown else set())


@pytest.mark.parametrize("role", [None, "", "viewer"])
def test_who_maintains_nothing_reads_no_threshold_anywhere(client: Client, pages: list[str], role: str | None) -> None:
    if role is not None:
        sign_in(client, role, HERE)
    assert named(client, pages) == set()


def test_a_maintainer_reads_them_with_what_would_change_the_lane(client: Client, pages: list[str]) -> None:
    sign_in(client, "maintainer", HERE)
    assert named(client, pages) >= {"0.3137", "0.8713", "1,234", "counterfactual"}


def test_a_maintainer_of_another_repository_is_told_nothing_exact_of_this_ones_rows(
    client: Client, pages: list[str]
) -> None:
    sign_in(client, "maintainer", ELSEWHERE)
    rows = [page for page in pages if "at://" in page]
    assert not named_in_panels(client, rows)


def named_in_panels(client: Client, pages: list[str]) -> set[str]:
    shown = "".join(client.get(page).content.decode() for page in pages)
    return {mark for mark in (*MARKS, "What would change the lane") if mark in shown}


def test_where_a_repositorys_own_budget_shuts_the_lane_no_row_says_that_it_starts_somewhere(
    client: Client, pages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = replace(drawn_rows.drawn_rows()[1], lane_start=None)
    draw(monkeypatch, DrawnWorld(rows=(row,), t_high=0.8713, t_low=0.3137))
    sign_in(client, "maintainer", HERE)
    page = client.get(f"/pull/{row.uri}").content.decode()
    assert "The fast lane is shut under this repository's own budget." in page
    assert "The fast lane starts at" not in page


def test_a_row_leaves_the_state_of_the_lane_to_its_reasons_which_are_those_of_its_repository(
    client: Client, pages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = drawn_rows.drawn_rows()[1]
    draw(monkeypatch, DrawnWorld(rows=(row,), t_high=None, t_low=0.3137))
    sign_in(client, "maintainer", HERE)
    side = client.get(f"/pull/{row.uri}").content.decode().split("Why this lane", 1)[1].split("</section>", 1)[0]
    assert "The fast lane is shut." not in side
    assert "31.37 %" not in side, "where flagged begins is told only where the chance decided, in the reason"
    (flagged,) = (row for row in drawn_rows.drawn_rows()[:5] if row.verdict.lane == "needs_human")
    draw(monkeypatch, DrawnWorld(rows=(flagged,), t_high=None, t_low=0.3137))
    page = client.get(f"/pull/{flagged.uri}").content.decode()
    assert page.count("below 31.37 %") == 1
