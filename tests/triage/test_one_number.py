"""A chance is told by one number everywhere: the mark, the sentences, the feed, `why`, the API and every page."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from scoring.explain import sentences as explain
from scoring.explain.spoken import calibrated
from scoring.formatting import percent, percent_interval
from scoring.queries.past_decisions import Replayed, why_lines
from scoring.types import Estimate, Evidence, Lane, Reason, Verdict
from tests.triage.acting_site import ActingSite
from tests.triage.drawn_rows import ANA, MARA, drawn_rows, pull_request
from tests.triage.every_page import lane_pages, something_of_everything
from tests.triage.lane_site import lane_site
from tests.triage.pages_world import DrawnWorld, draw, sign_in
from tests.triage.site import Site
from tests.triage.test_wording import clumsy
from triage.api.pull_schemas import pull_out
from triage.presenters.feed import _pull as entry_of
from triage.presenters.pills import pill
from triage.presenters.rows import judgement
from triage.presenters.text import interval_sentence
from triage.services.actions import summary

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
        pull_request(1, ANA, "title", 1, 7), verdict=verdict, sentence=explain.explain(verdict, Evidence(not_clean=7))
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
        assert words.startswith(f"{whole} % chance of merging without a fix")


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
def test_no_page_of_a_simulated_network_has_a_bare_chance(settings: Settings, client: Client, site: Site) -> None:
    settings.STREAM_CLOCK = settings.PUBLIC_READ = True
    sign_in(client, "admin")
    people = [f"/c/{did}" for did in site.cast.values()]
    pages = ["/", "/dashboard", "/leaderboard", "/lane", "/vouches", "/redteam", "/backtest", *people]
    answers = {page: client.get(page) for page in pages}
    texts = {page: answer.content.decode() for page, answer in answers.items() if answer.status_code == 200}
    assert len(texts) > 10
    assert {page: found for page, text in texts.items() if (found := bare_chances(text))} == {}
    assert {page: found for page, text in texts.items() if (found := clumsy(read_text(text)))} == {}
