"""Shares of a score add up to it, and the shrunk rate is the posterior that it is said to be."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.dataset.track_record import CLEAN, NOT_CLEAN
from scoring.models.base import Estimator, Floats
from scoring.models.calibration import Platt
from scoring.models.contributions import contributions, largest
from scoring.models.registry import NAMES, factors, make_estimator, shrunk_rate
from scoring.types import Evidence

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


PRIOR, STRENGTH = 0.55, 5.0
counts = st.integers(0, 5000)
priors = st.floats(0.01, 0.99)
strengths = st.floats(0.1, 100)


@given(counts, counts, priors, strengths)
def test_the_estimate_is_the_posterior_of_a_beta_prior(
    clean: int, not_clean: int, prior: float, strength: float
) -> None:
    from scipy.stats import beta  # 1.5 s, of which all processes but one are spared

    found = shrunk_rate(clean, not_clean, prior, strength)
    posterior = beta(prior * strength + clean, (1 - prior) * strength + not_clean)
    low, high, mean = *posterior.interval(0.95), posterior.mean()
    assert (found.low, found.high) == pytest.approx((min(low, mean), max(high, mean)), rel=1e-6, abs=1e-9)
    assert 0 <= found.low <= (found.probability or mean) <= found.high <= 1
    if clean + not_clean:
        assert found.probability == pytest.approx(posterior.mean())
    else:
        assert found.probability is None


def test_nobody_without_a_settled_contribution_has_a_probability() -> None:
    found = shrunk_rate(0, 0, PRIOR, STRENGTH)
    assert (found.probability, found.cases) == (None, 0)
    assert 0.1 < found.low < PRIOR < found.high < 0.95


def test_more_clean_cases_raise_the_rate_and_narrow_the_interval() -> None:
    few, many = shrunk_rate(4, 0, PRIOR, STRENGTH), shrunk_rate(40, 0, PRIOR, STRENGTH)
    assert few.probability is not None
    assert many.probability is not None
    assert few.probability < many.probability < 1
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("wrong", [(-1, 0, 0.5, 5.0), (1, 0, 0.0, 5.0), (1, 0, 1.0, 5.0), (1, 0, 0.5, 0.0)])
def test_numbers_that_make_no_distribution_are_refused(wrong: tuple[int, int, float, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        shrunk_rate(*wrong)


@given(counts, counts, priors, strengths)
def test_the_effects_add_up_to_what_separates_the_estimate_from_the_prior(
    clean: int, not_clean: int, prior: float, strength: float
) -> None:
    found = {factor.name: factor for factor in factors(Evidence(clean=clean, not_clean=not_clean), prior, strength)}
    probability = shrunk_rate(clean, not_clean, prior, strength).probability
    effects = [factor.effect for factor in found.values() if factor.effect is not None]
    assert sum(effects) == pytest.approx((prior if probability is None else probability) - prior, abs=1e-12)
    raised, lowered = found["clean"].effect, found["not_clean"].effect
    assert raised is not None
    assert lowered is not None
    assert raised >= 0 >= lowered


def test_trust_is_shown_among_the_factors_and_moves_nothing() -> None:
    base = Evidence(clean=3, not_clean=1)
    trusted = Evidence(
        clean=3, not_clean=1, structural_trust=0.9, eigentrust=0.1, distance=1, waiting=2, trusted_denouncers=3
    )
    shown = [(factor.name, factor.value, factor.effect) for factor in factors(trusted, PRIOR, STRENGTH)]
    assert shown[2:] == [
        ("structural_trust", 0.9, None),
        ("eigentrust", 0.1, None),
        ("distance", 1, None),
        ("waiting", 2, None),
        ("trusted_denouncers", 3, None),
    ]
    assert factors(trusted, PRIOR, STRENGTH)[:2] == factors(base, PRIOR, STRENGTH)[:2]


def test_the_larger_effect_comes_first_and_without_cases_both_are_nothing() -> None:
    assert next(factor.name for factor in factors(Evidence(clean=1, not_clean=9), PRIOR, STRENGTH)) == "not_clean"
    assert [factor.effect for factor in factors(Evidence(), PRIOR, STRENGTH)][:2] == [0.0, 0.0]
