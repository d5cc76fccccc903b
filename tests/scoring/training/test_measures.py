"""Measures of probabilities, on cases whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.training.metrics import (
    auc,
    auc_of,
    calibration_error,
    decompose,
    error_band,
    interval,
    log_losses,
    mean_of,
    reliability,
    squared_errors,
)

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


def test_nothing_to_measure_is_no_number() -> None:
    none = np.array([])
    assert np.isnan([auc(none, none), calibration_error(none, none), *error_band(none, 10, 1)]).all()
    assert np.isnan(interval(mean_of(none), none.astype(int), 10, 1)).all()
    assert reliability(none, none, 10, 1) == ()
    with pytest.raises(ValueError, match="no cases"):
        decompose(none, none)
