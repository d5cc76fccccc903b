"""Shares add up to the score to the last digits, whatever the model."""

from random import Random

import numpy as np
import pytest

from scoring.dataset.track_record import CLEAN, NOT_CLEAN
from scoring.models.base import Estimator, Floats
from scoring.models.calibration import Platt
from scoring.models.contributions import contributions, largest
from scoring.models.registry import NAMES, make_estimator

DIRECTIONS = {CLEAN: 1, NOT_CLEAN: -1, "trust": 1, "size": 0}


def people(rows: int = 300) -> dict[str, Floats]:
    """Rows of which every seventh is of unknown size."""
    draw = np.random.default_rng(7)
    columns = {name: draw.poisson(4, rows).astype(float) for name in (CLEAN, NOT_CLEAN)}
    columns |= {"trust": draw.random(rows), "size": draw.lognormal(3, 1, rows)}
    columns["size"][::7] = np.nan
    return columns


@pytest.fixture(scope="module", params=NAMES)
def fitted(request: pytest.FixtureRequest) -> Estimator:
    """Each estimator, fitted on people whose clean rate follows their record and trust."""
    columns, draw = people(), np.random.default_rng(11)
    odds = 0.5 * (columns[CLEAN] - columns[NOT_CLEAN]) + columns["trust"] - 0.02 * np.nan_to_num(columns["size"])
    labels = (draw.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(np.int8)
    return make_estimator(request.param, DIRECTIONS).fit(columns, labels)


def test_the_shares_add_up_to_the_score(fitted: Estimator) -> None:
    found = contributions(fitted, people())
    assert np.allclose(found.scores, fitted.decision_function(people()), rtol=0, atol=1e-9)


def test_in_probability_they_add_up_to_p(fitted: Estimator) -> None:
    calibrator = Platt(0.7, -0.2)
    start, effects = contributions(fitted, people()).in_probability(calibrator)
    told = calibrator.probability(fitted.decision_function(people()))
    assert np.allclose(start + effects.sum(axis=1), told, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:LightGBM binary classifier")
def test_the_shares_of_trees_are_those_of_shap() -> None:
    import shap

    columns = people()
    labels = (np.nan_to_num(columns["size"]) < 20).astype(np.int8)
    fitted = make_estimator("lightgbm", DIRECTIONS).fit(columns, labels)
    values = np.column_stack([columns[name] for name in DIRECTIONS])
    told = shap.TreeExplainer(fitted.booster_).shap_values(values)  # ty: ignore[missing-attribute]
    assert np.abs(contributions(fitted, columns).shares - np.asarray(told)).max() < 1e-9


def test_the_largest_shares_come_first_and_those_of_nothing_are_left_out() -> None:
    names, effects = ["a", "b", "c", "d"], np.array([0.1, -0.3, 0.0, 0.1])
    Random(3).shuffle(names)
    found = largest(names, effects, 3)
    assert [abs(effect) for _, effect in found] == [0.3, 0.1, 0.1]
    assert largest(names, np.zeros(4), 3) == []
