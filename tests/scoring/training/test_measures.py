"""Measures of probabilities, gains by split of the cases, and the rule that promotes a model."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.dataset.labels import outcomes
from scoring.training.metrics import (
    auc,
    auc_of,
    calibration_error,
    decompose,
    error_band,
    gains_by_split,
    interval,
    log_losses,
    mean_of,
    reliability,
    splits_of,
    squared_errors,
)
from scoring.training.promotion import Candidate, decide
from scoring.training.report import _lines_below_rate
from tests.scoring.dataset.people import made_up

pairs = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]), st.booleans()), min_size=2, max_size=30)


@given(pairs)
def test_the_auc_counts_pairs_and_half_of_the_ties(cases: list[tuple[float, bool]]) -> None:
    told, came = np.array([one for one, _ in cases]), np.array([float(good) for _, good in cases])
    wins = [1.0 if good > bad else 0.5 if good == bad else 0.0 for good in told[came == 1] for bad in told[came == 0]]
    found = auc(told, came)
    assert np.isnan(found) if not wins else found == pytest.approx(np.mean(wins))


def test_a_weight_of_two_counts_like_two_cases() -> None:
    told, came = np.array([0.2, 0.4, 0.4, 0.8]), np.array([0.0, 1.0, 0.0, 1.0])
    twice = auc(np.append(told, 0.4), np.append(came, 1.0))
    assert auc(told, came, np.array([1.0, 2.0, 1.0, 1.0])) == pytest.approx(twice)


def test_calibrated_probabilities_lie_inside_the_band_and_shifted_ones_outside() -> None:
    draw = np.random.default_rng(3)
    told = draw.beta(3, 2, 3000)
    came = (draw.random(3000) < told).astype(float)
    low, high = error_band(told, 300, 1)
    assert 0 < low < calibration_error(told, came) < high
    assert 0.02 < high < 0.035
    shifted = np.clip(told + 0.06, 0, 1)
    assert calibration_error(shifted, came) > error_band(shifted, 300, 1)[1]


@given(pairs)
def test_the_parts_of_the_brier_score_add_up_and_none_is_negative(cases: list[tuple[float, bool]]) -> None:
    told, came = np.array([one for one, _ in cases]), np.array([float(good) for _, good in cases])
    parts = decompose(told, came)
    whole = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert whole == pytest.approx(squared_errors(told, came).mean())
    assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= -1e-12


def test_the_log_loss_of_a_certain_error_is_finite() -> None:
    assert np.isfinite(log_losses(np.array([0.0, 1.0]), np.array([1.0, 0.0]))).all()


def test_cases_of_few_authors_give_a_wider_interval_than_as_many_independent_ones() -> None:
    draw = np.random.default_rng(4)
    values = np.repeat(draw.random(20), 50)
    clustered = interval(mean_of(values), np.repeat(np.arange(20), 50), 400, 1)
    alone = interval(mean_of(values), np.arange(1000), 400, 1)
    assert clustered[1] - clustered[0] > 3 * (alone[1] - alone[0])


def test_the_same_seed_gives_the_same_interval() -> None:
    told, came, authors = np.arange(40) / 40.0, (np.arange(40) % 2).astype(np.float64), np.arange(40) % 7
    assert interval(auc_of(told, came), authors, 50, 5) == interval(auc_of(told, came), authors, 50, 5)
    assert interval(auc_of(told, came), authors, 50, 5) != interval(auc_of(told, came), authors, 50, 6)


def test_the_curve_has_every_case_in_one_bin() -> None:
    told = np.linspace(0.05, 0.95, 103)
    bins = reliability(told, (told > 0.5).astype(float), 50, 1)
    assert (len(bins), sum(one.n for one in bins)) == (10, 103)
    assert all(0 <= one.low <= one.high <= 1 for one in bins)


def test_honest_scores_stay_within_all_bands_at_once_nineteen_times_in_twenty() -> None:
    told, generator = np.linspace(0.05, 0.95, 2_000), np.random.default_rng(7)
    leaves = 0
    for seed in range(200):
        came = (generator.random(len(told)) < told).astype(float)
        leaves += any(not one.low <= one.came <= one.high for one in reliability(told, came, 1_000, seed))
    assert leaves <= 20, "with 95 % for each bin alone it would be about 80"


def test_nothing_to_measure_is_no_number() -> None:
    none = np.array([])
    assert np.isnan([auc(none, none), calibration_error(none, none), *error_band(none, 10, 1)]).all()
    assert np.isnan(interval(mean_of(none), none.astype(int), 10, 1)).all()
    assert reliability(none, none, 10, 1) == ()
    with pytest.raises(ValueError, match="no cases"):
        decompose(none, none)


CASES = made_up()
CAME = (outcomes(CASES, "label_merge").clean == 1).astype(float)
EVERY = np.ones(len(CASES), dtype=bool)
QUARTERS = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[us]")


def test_each_quarter_and_repository_newcomers_and_outsiders_are_splits() -> None:
    found = splits_of(CASES, QUARTERS, {-1: "one", -2: "two", -9: "none of it"}, ~EVERY, EVERY)
    assert list(found) == ["from 2020-01-01", "from 2021-01-01", "two", "one", "who cannot push"]
    assert not (found["one"] & found["two"]).any()
    assert not CASES.push_holder[found["who cannot push"]].any()


@pytest.mark.parametrize(("told", "worse"), [(0.9, True), (0.7, False)])
def test_a_model_that_is_too_sure_is_worse_for_sure_than_the_rate(told: float, worse: bool) -> None:
    rate = np.full(len(CASES), CAME.mean())
    sure = np.where(CAME == 1, 1 - told, told) if worse else np.where(CAME == 1, told, 1 - told)
    found = gains_by_split(sure, rate, CAME, CASES.authors, {"all": EVERY}, 50, 0)["all"]
    assert found["worse"] is worse
    assert (found["log_loss"] < 0) is worse
    assert len(list(_lines_below_rate({"all": found}))) == worse


def test_of_few_cases_and_authors_nothing_is_sure() -> None:
    sure, rate = np.where(CAME == 1, 0.1, 0.9), np.full(len(CASES), 0.5)
    one = CASES.authors == CASES.authors[0]
    few = np.cumsum(EVERY) <= 29
    found = gains_by_split(sure, rate, CAME, CASES.authors, {"one author": one, "few": few}, 50, 0)
    assert [split["worse"] for split in found.values()] == [False, False]


DRAW = np.random.default_rng(1)
AUTHORS = DRAW.integers(0, 150, 1500)
ODDS = DRAW.normal(0.5, 1.5, 150)[AUTHORS]
OBSERVED = (DRAW.random(1500) < 1 / (1 + np.exp(-ODDS))).astype(float)
FLAT = np.full(1500, OBSERVED.mean())
TRUE = 1 / (1 + np.exp(-ODDS))
NEARLY = 1 / (1 + np.exp(-(ODDS + DRAW.normal(0, 0.05, 1500))))


def test_a_better_model_takes_the_place_of_a_simpler_one() -> None:
    found = decide([Candidate("simple", FLAT), Candidate("complex", TRUE)], OBSERVED, AUTHORS, 200)
    assert (found.serves, found.trials[1].promoted) == ("complex", True)
    assert found.trials[1].gain_low is not None
    assert found.trials[1].gain_low > 0


def test_an_equally_good_one_does_not() -> None:
    found = decide([Candidate("simple", TRUE), Candidate("complex", NEARLY)], OBSERVED, AUTHORS, 200)
    assert (found.serves, found.trials[1].why) == ("simple", "It does not beat simple for sure.")


def test_each_is_tried_against_what_serves_by_then() -> None:
    tried = [Candidate("a", FLAT), Candidate("b", TRUE), Candidate("c", NEARLY)]
    assert [trial.promoted for trial in decide(tried, OBSERVED, AUTHORS, 200).trials] == [True, True, False]


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        (Candidate("complex", TRUE, seeds=(0.70, 0.75, 0.72)), "from seed to seed"),
        (Candidate("complex", TRUE, self_lift=0.03), "lift their own chance by 3.0 %"),
    ],
)
def test_a_better_model_that_is_unstable_or_can_be_lifted_does_not_serve(worse: Candidate, words: str) -> None:
    found = decide([Candidate("simple", FLAT), worse], OBSERVED, AUTHORS, 200)
    assert found.serves == "simple"
    assert words in found.trials[1].why


def test_too_few_cases_or_authors_promote_nothing() -> None:
    few = [Candidate("simple", FLAT[:100]), Candidate("complex", TRUE[:100])]
    assert "too few" in decide(few, OBSERVED[:100], AUTHORS[:100], 50).trials[1].why
    one = decide([Candidate("simple", FLAT), Candidate("complex", TRUE)], OBSERVED, np.zeros(1500, dtype=int), 50)
    assert "1 authors are too few" in one.trials[1].why


def test_a_decision_about_nothing_is_json_all_the_same() -> None:
    none = np.array([])
    found = decide([Candidate("simple", none), Candidate("complex", none)], none, none.astype(int), 50)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["serves"] == "simple"
    with pytest.raises(ValueError, match="no model"):
        decide([], none, none.astype(int))
