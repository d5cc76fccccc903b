"""A chance is told by one number, with its interval, everywhere: marks, sentences, feed, `why`, JSON and pages."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from inspect import getmembers, isclass
from pathlib import Path

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pytest_django import Settings

from scoring.explain.decided import explain
from scoring.explain.spoken import calibrated
from scoring.formatting import percent, percent_interval
from scoring.queries import read
from scoring.queries.past_decisions import Replayed, why_lines
from scoring.types import Estimate, Evidence, Lane, Reason, Verdict
from tests.sources import PROJECT
from tests.triage.every_page import lane_pages, something_of_everything
from tests.triage.presenters.test_page_words import clumsy
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.drawn_rows import ANA, MARA, drawn_rows, judged, pull_request
from tests.triage.worlds.lane_site import lane_site
from tests.triage.worlds.pages_world import DrawnWorld, draw, sign_in
from tests.triage.worlds.site import Site
from triage.api import schemas
from triage.api.pulls import pull_out
from triage.presenters.queue.pills import pill, row_pill
from triage.presenters.queue.rows import judgement
from triage.presenters.text import interval_sentence
from triage.services.actions import summary
from triage.views.inbox.feed import _pull as entry_of

WHY = {
    "pull_uri": "at://one",
    "as_of": datetime(2026, 3, 12),
    "score_id": 1,
    "record_cid": "bafy",
    "round": 0,
    "patch_id": None,
    "content_risk": None,
    "model_version": "beta-1",
    "trust_measure": "first_passage",
    "data_version": 1,
    "inputs": None,
}
# A decimal below 1 that stands alone: neither an amount of money, a version, a length nor part of a larger figure.
BARE = re.compile(r"(?<![\w.$/:])(?:0|1)?\.\d{2,4}(?![\w.%/]|(?:\d| %))")
# What is measured from 0 to 1 and is no chance; it is named close before its figure.
NO_CHANCE = re.compile(r"[Tt]rust|could reach|EigenTrust|AUC|Brier|Log-loss|ECE|odds|weight")
NEAR = 90  # characters


@st.composite
def estimates(draw_from: st.DrawFn) -> Estimate:
    low, middle, high = sorted(draw_from(st.tuples(*[st.floats(0, 1)] * 3)))
    return Estimate(middle, low, high, draw_from(st.integers(1, 5_000)))


def verdict_of(estimate: Estimate) -> Verdict:
    """A verdict each of whose reasons tells the chance."""
    told = {"probability": estimate.probability, "t_low": 1.0, "t_high": 1.0}
    reasons = (Reason("low_probability", told), Reason("below_fast_lane", told))
    return Verdict(Lane.NEEDS_HUMAN, estimate, reasons, ())


@given(estimates())
def test_mark_sentence_feed_why_and_api_say_the_same_percent_and_its_interval_holds_it(estimate: Estimate) -> None:
    verdict = verdict_of(estimate)
    row = replace(
        pull_request(1, ANA, "title", 1, 7), verdict=verdict, sentence=explain(verdict, Evidence(not_clean=7))
    )
    mark = pill(verdict)
    below, above = map(int, mark.interval.split("\N{EN DASH}"))
    whole = int(mark.number.removesuffix(" %"))
    assert below <= whole <= above
    with_interval = [
        f"{mark.number} ({mark.interval})",
        interval_sentence(estimate).replace("of changes like theirs stay clean (95 % interval ", "("),
        *(one.text for one in pull_out(row, exact=True).reasons),
        *judgement(verdict, (), False).reasons,
        *[line.replace(",", ")") for line in why_lines(Replayed(WHY, verdict, None, same_rules=True))[3:4]],
    ]
    for words in with_interval:
        assert f"{whole} % ({below}\N{EN DASH}{above}" in words
    spoken = calibrated(estimate)
    assert f"About {whole} percent" in spoken
    assert f"between {below} and {above} percent" in spoken
    assert summary([row]).lowest == mark.number
    for words in (row.sentence, entry_of(row).said, pull_out(row, exact=False).explanation):
        assert words.startswith(f"Chance {whole} %: ")


def read_text(page: str) -> str:
    """What is read of a page, by ear too, without code and without what one types."""
    page = re.sub(r"(?s)<(pre|code|textarea|script|style)\b.*?</\1>", " ", page)
    labels = " ".join(re.findall(r'\b(?:aria-label|title|alt)="([^"]*)"', page))
    page = re.sub(r'data-label="([^"]*)">', r">\1 ", page)
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", f"{page} {labels}").split()))


def bare_chances(page: str) -> list[str]:
    """Every decimal of a page that may be a chance, with what stands before it; and the old word for one."""
    text = read_text(page)
    found = [text[max(0, one.start() - NEAR) : one.end()] for one in BARE.finditer(text)]
    return [one for one in found if not NO_CHANCE.search(one)] + ["P(clean)"] * ("P(clean)" in text)


def test_the_reader_of_pages_finds_a_bare_chance_and_knows_what_is_none() -> None:
    assert bare_chances("<b>.73</b>")
    assert bare_chances("<p>stays clean <b>0.97</b> 0.90\N{EN DASH}0.90</p>")
    assert bare_chances("<p>P(clean)</p>")
    assert not bare_chances("<p>Structural trust is 0.38; $0.0123, 12.05 %, .1\N{EN DASH}9.9 %, version 3.11, 2.05</p>")


@pytest.fixture
def acted(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, client: Client
) -> Iterator[tuple[ActingSite, Client]]:
    with lane_site(tmp_path, settings, monkeypatch) as site:
        yield site, something_of_everything(site)


@pytest.mark.django_db
def test_no_page_of_a_site_where_something_of_everything_happened_has_a_bare_chance(
    acted: tuple[ActingSite, Client],
) -> None:
    site, admin = acted
    pages = lane_pages(site, admin)
    assert len(pages) > 25
    texts = {page: admin.get(page).content.decode() for page in pages}
    assert {page: found for page, text in texts.items() if (found := bare_chances(text))} == {}
    assert {page: found for page, text in texts.items() if (found := clumsy(read_text(text)))} == {}


@pytest.mark.django_db
def test_no_page_of_the_drawn_world_has_a_bare_chance(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, client: Client
) -> None:
    settings.PUBLIC_READ = settings.STREAM_CLOCK = True
    draw(monkeypatch, DrawnWorld())
    sign_in(client, "maintainer")
    rows = [f"/pull/{row.uri}" for row in drawn_rows()]
    pages = ["/", *rows, "/leaderboard", "/dashboard", f"/c/{MARA.did}", "/settled", "/about"]
    texts = {page: client.get(page).content.decode() for page in pages}
    assert {page: found for page, text in texts.items() if (found := bare_chances(text))} == {}
    chances = {row.verdict.estimate for row in drawn_rows() if row.verdict.estimate.probability is not None}
    for told in chances:
        assert f"{percent(told.probability or 0)} 95 % interval {percent_interval(told.low, told.high)}" in read_text(
            texts["/"]
        )


@pytest.mark.django_db
def test_each_page_of_a_simulated_network_says_what_the_score_says_and_has_no_bare_chance(
    settings: Settings, client: Client, site: Site
) -> None:
    settings.STREAM_CLOCK = settings.PUBLIC_READ = True
    sign_in(client, "admin")
    people = [f"/c/{did}" for did in site.cast.values()]
    pages = ["/", "/dashboard", "/leaderboard", "/lane", "/vouches", "/redteam", "/backtest", *people]
    answers = {page: client.get(page) for page in pages}
    texts = {page: answer.content.decode() for page, answer in answers.items() if answer.status_code == 200}
    assert len(texts) > 10
    assert {page: found for page, text in texts.items() if (found := bare_chances(text))} == {}
    assert {page: found for page, text in texts.items() if (found := clumsy(read_text(text)))} == {}
    with site.snapshot() as snapshot:
        known = {f"/c/{did}": read.contributor(snapshot, did) for did in site.cast.values()}
        drawn = [subject for subject, _ in read.due_audits(snapshot)]
    hidden = {f"/c/{one.author.did}" for one in drawn}  # from a maintainer, until the audit is answered
    for page, one in known.items():
        if one is None:
            assert answers[page].status_code == 404
        else:
            chance = one.score.verdict.estimate.probability
            said = "No score yet." if chance is None else percent(chance)
            assert ("Hidden until the audit of" if page in hidden else said) in texts[page], page
    refused = {page for page, one in known.items() if one and one.record.results.get("unmerged")} - hidden
    assert refused
    assert {page for page in known if "Settled includes what was not merged." in texts.get(page, "")} == refused


HERE = "did:plc:corecorecorecorecorecore"
NEAR_INTERVAL = 200  # characters between a probability and its interval: a row names it first and ends with the mark
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


@pytest.mark.parametrize(
    ("own", "code", "kind"),
    [
        (True, "low_probability", "review"),
        (False, "low_probability", "flag"),
        (True, "high_flag", "flag"),
    ],
)
def test_a_push_holder_s_own_is_flagged_for_what_was_found_and_not_for_its_chance(
    own: bool, code: str, kind: str
) -> None:
    verdict = replace(told(Lane.NEEDS_HUMAN), reasons=(Reason(code, {}),))
    assert row_pill(replace(pull_request(1, ANA, "title", 2, 1), verdict=verdict, own=own)).kind == kind


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
        "_score.html",
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
    assert any("Where everybody starts 55 %" in text for text in pages.values())
    for page, text in pages.items():
        places = [found.start() for found in re.finditer(rf"(?<![\d.]){re.escape(number)}", text)]
        assert places or page == "/dashboard", page
        assert ("Where everybody starts 55 %" in text) == (f"Stays clean = {number}" in text), page
        assert all(interval in text[max(0, place - NEAR_INTERVAL) : place + NEAR_INTERVAL] for place in places), page
    history = pages[f"/c/{MARA.did}"]
    assert len(re.findall("60 % [(]?40\N{EN DASH}80", history)) >= 5, "in the curve's words and each row of it"
