"""The curve of what the fast lane would have let through, and the offer that rests on it."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as draw_from
from scipy.special import bdtr, bdtrc

from scoring.certificates import lane_curve
from scoring.certificates.lane_counts import LaneCurve, LanePoint, Offer, ScoredCases
from scoring.certificates.lane_curve import (
    FILE,
    borrowed_curve,
    curve_of,
    group_of,
    interval_of,
    offer_of,
    present_offer,
    read_curve,
    starter_curve,
)
from scoring.certificates.threshold_queries import StoredGroup, StoredTable, Table, table_of, write_table
from scoring.config.policy import Policy
from scoring.models.serving import LABEL
from scoring.models.storage import save_model, serve
from tests.pipeline import Result
from tests.scoring.models.test_serving import made_up_model
from tests.scoring.pipeline.offered_world import offered_world
from tests.scoring.small import OFFERED

NOW = datetime(2026, 6, 1)
DAY = timedelta(days=1)
BUDGET = 0.05
ESTIMATED = '[{"code":"threshold_estimated","params":{}}]'  # a decision in shadow mode with it was not let through
STARTER = LaneCurve("starter", 100.0, 365.0, (LanePoint(0.9, 40.0, 1.0, 20, 0.001, 0.13),))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path / "store") as result:
        with result.store.write() as txn:
            for table in ("labels", "push_holders", "shadow_rounds", "audits"):
                txn.execute(f"delete from {table}")
            txn.execute("update scores set lane = 'normal_queue'")
        yield result


def settle(world: Result, author: int, opened: datetime, clean: bool, known_from: datetime | None = None) -> str:
    """Add a settled pull request of this person, clean or not; returns its at-uri."""
    with world.store.write() as txn:
        count = txn.value("select count(*) from pull_requests")
        uri = f"at://did:plc:past/sh/{count}"
        txn.execute(
            "insert into pull_requests by name select * replace ($uri as pull_uri, $author as author_id, "
            "$opened as seen_at) from pull_requests where pull_uri = $like",
            {"uri": uri, "author": author, "opened": opened, "like": OFFERED},
        )
        number = txn.value("select repository_id from pull_requests where pull_uri = ?", [uri])
        label = {"pull_uri": uri, "author_id": author, "repository_id": number, "clean": clean}
        txn.append("labels", [label | {"known_from": known_from or opened + DAY}])
    return uri


def past(world: Result, people: Sequence[tuple[int, str]]) -> list[str]:
    """Add each person's pull requests in order, each known before the next: `+` clean, `-` not."""
    return [
        settle(world, author, NOW - (300 - 3 * place) * DAY, word == "+")
        for author, words in people
        for place, word in enumerate(words)
    ]


def curve(world: Result, models: Path | None = None) -> LaneCurve | None:
    with world.store.read() as rows:
        return read_curve(rows, models, 0.53, 5.0, NOW)


def at(found: LaneCurve | None, threshold: float) -> LanePoint:
    """The lane from this threshold upwards."""
    assert found is not None
    return next(one for one in reversed(found.points) if one.threshold >= threshold)


def test_each_pull_request_has_the_score_of_its_opening_and_a_first_one_has_none(world: Result) -> None:
    past(world, [(901, "+++"), (902, "--")])
    found = curve(world)
    assert found is not None
    assert found.cases == 5
    # 901's second follows one clean one, (.53 * 5 + 1) / 6; the third two of them; 902's second a bad one.
    assert [(one.threshold, one.let_through, one.bad) for one in found.points] == [
        (0.66, 1.0, 0.0),
        (0.6, 2.0, 0.0),
        (0.44, 3.0, 1.0),
    ]


def test_what_was_not_known_before_the_opening_is_in_no_record(world: Result) -> None:
    settle(world, 901, NOW - 100 * DAY, True, known_from=NOW - 10 * DAY)
    settle(world, 901, NOW - 50 * DAY, True)
    assert curve(world) is None, "nothing of theirs was settled when the second one came"


def test_whoever_may_push_is_in_no_count(world: Result) -> None:
    past(world, [(901, "+++"), (902, "++")])
    with world.store.write() as txn:
        number = txn.value("select any_value(repository_id) from labels")
        txn.execute("insert into push_holders values (?, 901, 'collaborator', 'knot', null, null)", [number])
    found = curve(world)
    assert found is not None
    assert (found.cases, [one.let_through for one in found.points]) == (2.0, [1.0])
    assert found.everybody is not None
    assert (found.everybody.cases, found.everybody.at(0.6)) == (5.0, (3.0, 0.0)), (
        "beside it, 901's second and third too"
    )


def test_newcomers_are_counted_apart_and_none_of_them_goes_through_by_a_record(world: Result) -> None:
    past(world, [(901, "+++"), (902, "-+"), (903, "+")])
    found = curve(world)
    assert found is not None
    assert found.newcomers is not None
    assert (found.newcomers.cases, found.newcomers.at(0.0)) == (3.0, (0.0, 0.0))


@given(
    scores=draw_from.lists(draw_from.floats(0, 1) | draw_from.just(float("nan")), max_size=40),
    threshold=draw_from.integers(0, 100),
)
def test_a_group_counts_whoever_reaches_the_threshold(scores: list[float], threshold: int) -> None:
    bad = [float(place % 3 == 0) for place in range(len(scores))]
    found = group_of(np.array(scores), np.array(bad), np.full(len(scores), 2.0))
    reached = [spoiled for score, spoiled in zip(scores, bad, strict=True) if score >= threshold / 100 - 1e-9]
    assert found.cases == 2.0 * len(scores)
    assert found.at(threshold / 100) == (2.0 * len(reached), 2.0 * sum(reached))


def test_what_was_imported_of_an_author_is_in_their_record(world: Result) -> None:
    settle(world, 901, NOW - 20 * DAY, True)
    assert curve(world) is None
    with world.store.write() as txn:
        opened = NOW - 400 * DAY
        row = {"source": "file", "repository": "old", "repository_id": -7, "author_id": 901, "opened_at": opened}
        row |= {"observed_until": NOW - 300 * DAY, "state": "merged", "merged_at": opened + DAY, "checks_known": False}
        row |= {"as_sent": -1, "push_holder": False, "is_bot": False, "usable": True}
        row |= {"additions": 1, "deletions": 1, "files_touched": 1}
        late = {"merged_at": NOW - 301 * DAY}  # its window was still open when watching ended
        txn.append("imported_pulls", [row | {"number": 1}, row | {"number": 2} | late])
    assert at(curve(world), 0.6).let_through == 1.0


def test_what_is_older_than_a_year_or_not_known_yet_is_left_out_and_stays_in_the_record(world: Result) -> None:
    settle(world, 901, NOW - 500 * DAY, True)
    settle(world, 901, NOW - 20 * DAY, False)
    settle(world, 901, NOW - 10 * DAY, True, known_from=NOW + DAY)
    found = curve(world)
    assert found is not None
    assert (found.cases, found.points[0].threshold, found.points[0].bad) == (1.0, 0.6, 1.0)


def decided(world: Result, uri: str, reasons: str = "[]") -> None:
    """Add a decision that this pull request was fast lane, with these reasons."""
    with world.store.write() as txn:
        txn.execute(
            "insert into scores by name select * replace ($uri as pull_uri, 'fast_lane' as lane, 'made' || $uri as "
            "score_id, 0 as round, 'p' as patch_id, $at as as_of, $reasons as reasons) "
            "from scores where pull_uri is not null limit 1",
            {"uri": uri, "at": NOW - 200 * DAY, "reasons": reasons},
        )


def audited(world: Result, uri: str, would_merge: bool, odds: float) -> None:
    """Add the only answer of the audit about this pull request."""
    with world.store.write() as txn:
        txn.execute(
            "insert into audits values ($uri, $uri, 1, '', 0, '', $odds, $at, $would, 'read', null, $at, $at, null)",
            {"uri": uri, "odds": odds, "at": NOW - 100 * DAY, "would": would_merge},
        )


@pytest.fixture
def waved(world: Result) -> str:
    """The newest of three clean pull requests; each test decides what the lane did with it."""
    return past(world, [(901, "+++")])[-1]


def test_what_the_open_lane_let_through_unheard_says_nothing(world: Result, waved: str) -> None:
    decided(world, waved)
    found = curve(world)
    assert found is not None
    assert (found.cases, found.points[-1].let_through) == (2.0, 1.0)


def test_what_was_only_said_to_be_fast_lane_in_shadow_mode_counts(world: Result, waved: str) -> None:
    decided(world, waved, ESTIMATED)
    found = curve(world)
    assert found is not None
    assert found.cases == 3.0


def test_an_answer_of_the_audit_stands_for_as_many_as_its_odds_say(world: Result, waved: str) -> None:
    decided(world, waved)
    audited(world, waved, would_merge=False, odds=0.25)
    found = curve(world)
    assert found is not None
    assert (found.cases, found.points[0].let_through, found.points[0].bad) == (6.0, 4.0, 4.0)


def test_with_a_model_that_serves_its_table_is_the_curve(world: Result, tmp_path: Path) -> None:
    past(world, [(901, "+++")])
    models = tmp_path / "models"
    name = save_model(models, made_up_model(1), "")
    serve(models, LABEL, name)
    assert curve(world, models) is None, "it has no table yet, and its scores are not the shrunk rate's"
    kept = StoredTable(
        form="sunstead-lanes/1",
        model=name,
        label=LABEL,
        window=(NOW - 365 * DAY, NOW),
        thresholds=(0.955, 0.5),
        sizes=(40.0, 80.0),
        bad=(1.0, 20.0),
        authors=(20.0, 30.0),
        effective=(40.0, 60.0),
        newcomers=StoredGroup(9.0, (7.0,) * 101, (1.0,) * 101),
    )
    write_table(models, kept)
    found = curve(world, models)
    assert found is not None
    assert (found.source, found.cases, found.model) == ("own", 80.0, name)
    offer = offer_of(found, 0.05)
    assert offer is not None
    assert offer.model == name, "an opening names whose scores were counted"
    assert found.newcomers is not None
    assert (found.newcomers.cases, found.newcomers.at(0.95)) == (9.0, (7.0, 1.0))
    assert found.everybody is None, "nobody counted it, so no page tells it"
    assert [(one.threshold, one.let_through, one.authors) for one in found.points] == [
        (0.95, 40.0, 20),
        (0.5, 80.0, 30),
    ]
    assert borrowed_curve(models) is None, "thresholds of the starter are in the scores of the shrunk rate"


@given(size=draw_from.integers(2, 400), part=draw_from.floats(0, 1))
def test_each_end_of_the_interval_is_missed_once_in_forty(size: int, part: float) -> None:
    bad = int(size * part)
    low, high = (float(end[0]) for end in interval_of(np.array([float(bad)]), np.array([float(size)])))
    assert low <= bad / size <= high
    if bad < size:
        assert bdtr(bad, size, high) == pytest.approx(0.025, abs=1e-6)
    if bad:
        assert bdtrc(bad - 1, size, low) == pytest.approx(0.025, abs=1e-6)


def judged(authors: Sequence[int], bad: Sequence[float]) -> Table:
    """Cases that all scored .9, each of one of these people."""
    return table_of(ScoredCases.of([0.9] * len(bad), bad, authors, [np.datetime64("2026-01-01")] * len(bad)))


def test_without_a_bad_one_each_author_counts_once() -> None:
    many, one = (curve_of(judged(authors, [0.0] * 40), "own", 40, 365) for authors in (range(40), [7] * 40))
    assert many is not None
    assert one is not None
    assert many.points[0].bad_high == pytest.approx(1 - 0.025 ** (1 / 20)), "40 stand for 20"
    assert one.points[0].bad_high == pytest.approx(1 - 0.025**2), (
        "forty pull requests of one person say little of others"
    )
    assert many.points[0].bad_low == one.points[0].bad_low == 0


def test_the_bad_ones_of_one_author_widen_the_interval() -> None:
    bad = [1.0] * 10 + [0.0] * 90
    spread = curve_of(judged(range(100), bad), "own", 100, 365)
    together = curve_of(judged([0] * 10 + list(range(1, 91)), bad), "own", 100, 365)
    assert spread is not None
    assert together is not None
    assert together.points[0].bad_high > spread.points[0].bad_high + 0.05


def points(*told: tuple[float, float, float, float]) -> LaneCurve:
    return LaneCurve("own", 100.0, 365.0, tuple(LanePoint(at, n, bad, 20, 0.0, high) for at, n, bad, high in told))


def test_the_loosest_threshold_within_the_budget_is_offered_with_its_interval() -> None:
    found = offer_of(points((0.9, 20, 0, 0.17), (0.8, 40, 2, 0.17), (0.7, 60, 9, 0.26)), BUDGET)
    assert found == Offer(0.8, "own", 100.0, 40, 2, 0.0, 0.17)
    assert found.share == 0.4


def test_nothing_is_offered_above_the_budget_or_where_the_interval_says_nothing() -> None:
    assert offer_of(points((0.9, 20, 2, 0.3)), BUDGET) is None
    assert offer_of(points((0.9, 3, 0, 0.71)), BUDGET) is None


def offered(world: Result) -> Offer | None:
    with world.store.read() as rows:
        return present_offer(rows, replace(Policy(), models=None), BUDGET, NOW)


def test_the_starters_past_speaks_until_thirty_of_ones_own_are_settled(
    world: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_curve, "starter_curve", lambda: STARTER)
    past(world, [(901 + one, "++") for one in range(14)])
    lent = offered(world)
    assert lent is not None
    assert (lent.source, lent.threshold, lent.bad_high) == ("starter", 0.9, 0.13)
    past(world, [(950 + one, "++") for one in range(10)])
    own = offered(world)
    assert own is not None
    assert (own.source, own.threshold, own.cases, own.let_through, own.bad) == ("own", 0.6, 48.0, 24.0, 0.0)


def test_where_ones_own_past_offers_nothing_the_starters_is_not_taken(
    world: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_curve, "starter_curve", lambda: STARTER)
    past(world, [(901 + one, "+-") for one in range(15)])
    assert offered(world) is None


def test_the_starters_curve_is_small_and_says_where_it_comes_from() -> None:
    found = starter_curve()
    assert found is not None
    assert found.source == "starter"
    assert len(found.points) <= 200
    assert FILE.stat().st_size < 16_000
    told = json.loads(FILE.read_bytes())
    assert (told["provenance"]["projects"], told["provenance"]["rows"]) == (11, found.cases)
    sizes = [one.let_through for one in found.points]
    assert sizes == sorted(sizes)
    assert found.everybody is not None
    assert found.newcomers is not None
    assert found.everybody.cases > found.cases > found.newcomers.cases
    assert all(found.everybody.at(one.threshold)[0] >= one.let_through for one in found.points)


@pytest.mark.parametrize("data", [b"", b"{", b'{"format": 2}', b'{"format": 1, "cases": 1, "days": 1, "points": []}'])
def test_a_damaged_curve_of_the_starter_is_none_and_the_log_says_so(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "curve.json"
    path.write_bytes(data)
    monkeypatch.setattr(lane_curve, "FILE", path)
    with caplog.at_level(logging.WARNING, "scoring.certificates.lane_curve"):
        assert starter_curve() is None
    assert "cannot be read" in caplog.text
