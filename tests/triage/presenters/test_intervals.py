"""No probability of somebody is shown without its interval: pages, templates and JSON."""

import html
import re
from dataclasses import replace
from inspect import getmembers, isclass

import pytest
from django.test import Client
from pydantic import BaseModel
from pytest_django import Settings

from scoring.formatting import percent, percent_interval
from scoring.types import Estimate, Lane, Reason, Verdict
from tests.sources import PROJECT
from tests.triage.drawn_rows import ANA, MARA, judged, pull_request
from tests.triage.pages_world import DrawnWorld, draw, sign_in
from triage.api import schemas
from triage.presenters.pills import pill, row_pill
from triage.services.actions import summary

HERE = "did:plc:corecorecorecorecorecore"
NEAR = 200  # characters between a probability and its interval: a row names it first and ends with the mark
# What a template may print a probability by.
PRINTED = re.compile(r"\{\{ *[\w.]*(?:probability *\||\.probability\b|pill\.number|summary\.lowest)")
TEMPLATES = sorted((PROJECT / "templates").rglob("*.html"))


def told(lane: Lane = Lane.NORMAL_QUEUE) -> Verdict:
    return Verdict(lane, Estimate(0.6137, 0.2161, 0.8802, 900), (Reason("is_seed", {}),), ())


@pytest.mark.parametrize("lane", list(Lane))
@pytest.mark.parametrize("shadow", [False, True])
def test_a_pill_with_a_number_has_its_interval(lane: Lane, shadow: bool) -> None:
    found = pill(told(lane), shadow)
    assert (found.number, found.interval) == ("61 %", "21\N{EN DASH}89")


def test_a_pill_without_a_number_has_no_interval() -> None:
    assert pill(replace(told(), estimate=Estimate(None, 0.2, 0.9, 0))).interval == ""


def test_what_the_audit_keeps_sealed_has_neither_number_nor_interval() -> None:
    row = replace(pull_request(1, ANA, "title", 2, 1), is_sealed=True)
    assert (row_pill(row).number, row_pill(row).interval) == ("", "")


def test_the_lowest_of_several_to_approve_is_told_with_its_interval() -> None:
    low, high = pull_request(1, ANA, "title", 2, 1), pull_request(2, ANA, "title", 120, 0)
    estimate = low.verdict.estimate
    assert percent_interval(estimate.low, estimate.high) == summary((high, low)).interval


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_template_that_prints_a_probability_prints_its_interval_beside_it(template: object) -> None:
    """What is new and prints one has to say the interval in the same line, or is found here."""
    for line in (PROJECT / "templates" / str(template)).read_text().splitlines():
        if PRINTED.search(line):
            assert "interval" in line, line


def test_the_reader_of_templates_knows_the_places_that_print_one() -> None:
    found = {path.name for path in TEMPLATES if PRINTED.search(path.read_text())}
    assert found == {
        "_chance.html",
        "_pill.html",
        "incident.html",
        "bulk.html",
        "_lane_rows.html",
        "contributor.html",
        "contributor_data.html",
    }


def test_every_shape_of_json_that_has_a_probability_of_somebody_has_its_interval() -> None:
    shapes = [shape for _, shape in getmembers(schemas, isclass) if issubclass(shape, BaseModel)]
    told = [shape for shape in shapes if "calibrated_prob" in shape.model_fields]
    assert len(told) >= 3
    assert all(shape.model_fields["interval"].is_required() for shape in told)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch, settings: Settings, client: Client) -> dict[str, str]:
    """The text of every page that shows people, where everybody is a newcomer with three clean ones of four."""
    settings.PUBLIC_READ = settings.STREAM_CLOCK = True
    rows = tuple(pull_request(number, MARA, "Cache the listing", 3, 1) for number in range(3))
    draw(monkeypatch, DrawnWorld(rows=rows))
    sign_in(client, "maintainer", HERE)
    found = ["/", f"/?open={rows[0].uri}", f"/pull/{rows[0].uri}", "/leaderboard", f"/c/{MARA.did}", "/dashboard"]
    return {page: _text(client.get(page).content.decode()) for page in found}


def _text(page: str) -> str:
    """What is read, by ear too."""
    labels = " ".join(re.findall(r'aria-label="([^"]*)"', page))
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", page + labels).split()))


@pytest.mark.django_db
def test_no_page_shows_a_newcomers_probability_without_its_interval_near(pages: dict[str, str]) -> None:
    estimate = judged(3, 1, ())[0].estimate
    assert estimate.probability is not None
    number, interval = percent(estimate.probability), percent_interval(estimate.low, estimate.high)
    for page, text in pages.items():
        places = [found.start() for found in re.finditer(rf"(?<![\d.]){re.escape(number)}", text)]
        assert places or page == "/dashboard", page
        assert all(interval in text[max(0, place - NEAR) : place + NEAR] for place in places), page
    history = pages[f"/c/{MARA.did}"]
    assert len(re.findall("60 % [(]?40\N{EN DASH}80", history)) >= 5, "in the curve's words and each row of it"
