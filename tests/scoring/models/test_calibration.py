"""Maps from scores to probabilities: what they promise, on truths that are known."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.models.calibration import (
    EDGE,
    FITS,
    NAMES,
    CalibrationProblem,
    Name,
    Steps,
    choose,
    compare,
    fit_platt,
    from_dict,
    venn_abers,
)

scores = st.lists(st.floats(-8, 8), min_size=1, max_size=40)


def drawn(n: int, slope: float, offset: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    odds = draw.normal(0, 1.5, n)
    return odds, (draw.random(n) < 1 / (1 + np.exp(-(slope * odds + offset)))).astype(float)


@pytest.mark.parametrize("name", NAMES)
@given(given_scores=scores, data=st.data())
def test_no_map_changes_the_order_of_two_people_or_is_certain(
    name: Name, given_scores: list[float], data: st.DataObject
) -> None:
    came = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(given_scores), max_size=len(given_scores)))
    told = FITS[name](np.array(given_scores), np.array(came)).probability(np.linspace(-50, 50, 101))
    assert (np.diff(told) >= -1e-12).all()
    assert told.min() >= EDGE
    assert told.max() <= 1 - EDGE


@pytest.mark.parametrize("name", NAMES)
def test_each_map_finds_a_truth_that_it_can_express(name: Name) -> None:
    odds, came = drawn(20_000, 0.6, -0.4)
    told = FITS[name](odds, came).probability(np.array([-2.0, 0.0, 2.0]))
    assert told == pytest.approx(1 / (1 + np.exp(-(0.6 * np.array([-2.0, 0.0, 2.0]) - 0.4))), abs=0.04)


@pytest.mark.parametrize("name", NAMES)
def test_a_map_is_the_same_after_it_was_kept_as_text(name: Name) -> None:
    odds, came = drawn(300, 1.0, 0.0)
    fitted = FITS[name](odds, came)
    kept = from_dict(json.loads(json.dumps(fitted.as_dict())))
    assert np.array_equal(kept.probability(odds), fitted.probability(odds))


def test_a_case_of_weight_two_counts_like_two_cases() -> None:
    odds, came = drawn(60, 1.0, 0.0)
    twice = fit_platt(np.append(odds, odds[:20]), np.append(came, came[:20]))
    weighted = fit_platt(odds, came, np.append(np.full(20, 2.0), np.ones(40)))
    assert (weighted.slope, weighted.offset) == pytest.approx((twice.slope, twice.offset), abs=1e-4)


def test_outcomes_of_one_kind_give_a_flat_map_that_is_not_certain() -> None:
    told = fit_platt(np.array([-1.0, 0.0, 1.0]), np.ones(3)).probability(np.array([-5.0, 5.0]))
    assert told == pytest.approx([0.8, 0.8], abs=1e-3)


def test_scores_that_point_the_wrong_way_give_a_flat_map() -> None:
    odds, came = drawn(500, -1.0, 0.0)
    assert fit_platt(odds, came).slope == 0


@pytest.mark.parametrize(
    ("odds", "came", "weights", "words"),
    [
        ([], [], None, "no settled cases"),
        ([float("nan")], [1.0], None, "not a number"),
        ([0.0], [0.5], None, "0 or 1"),
        ([0.0], [1.0], [0.0], "above 0"),
        ([0.0, 1.0], [1.0], None, "one length"),
    ],
)
def test_what_cannot_be_calibrated_on_is_said_in_one_sentence(
    odds: list[float], came: list[float], weights: list[float] | None, words: str
) -> None:
    with pytest.raises(CalibrationProblem, match=words):
        fit_platt(np.array(odds), np.array(came), None if weights is None else np.array(weights))


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"name": "magic"},
        {"name": "platt", "slope": "x", "offset": 0},
        {"name": "platt", "slope": -1.0, "offset": 0.0},
        {"name": "platt", "slope": float("nan"), "offset": 0.0},
        {"name": "beta", "rise": 1.0, "fall": -1.0, "offset": 0.0},
        {"name": "isotonic", "scores": [0.0, 1.0], "values": [0.9, 0.1]},
        {"name": "isotonic", "scores": [], "values": []},
        {"name": "isotonic", "scores": [1.0, 0.0], "values": [0.1, 0.9]},
        {"name": "mixed", "platt": {"name": "platt", "slope": 1.0, "offset": 0.0}},
        {"name": "mixed", "platt": {"name": "isotonic", "scores": [0.0], "values": [0.1]}, "isotonic": {}},
    ],
)
def test_a_kept_map_that_does_not_rise_is_refused(kept: dict[str, object]) -> None:
    with pytest.raises(CalibrationProblem):
        from_dict(kept)


def test_few_cases_are_mapped_by_platt_alone() -> None:
    odds, came = drawn(120, 1.0, 0.0)
    assert list(compare(odds, came, np.arange(120))) == ["platt"]


def test_the_simplest_map_serves_unless_another_beats_it() -> None:
    odds, came = drawn(3000, 1.0, 0.2)
    fitted, losses = choose(odds, came, np.arange(3000))
    assert (fitted.name, set(losses)) == ("platt", set(NAMES))
    steps = (odds > 0).astype(float) * 0.9 + 0.05
    bent = (np.random.default_rng(2).random(3000) < steps).astype(float)
    assert choose(odds, bent, np.arange(3000))[0].name == "mixed"


@given(given_scores=st.lists(st.integers(-4, 4), min_size=1, max_size=12), data=st.data())
def test_the_interval_is_what_adding_the_case_either_way_gives(given_scores: list[int], data: st.DataObject) -> None:
    odds = np.array(given_scores, dtype=float)
    came = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(odds), max_size=len(odds))))
    at = np.array([-5.0, -0.5, 0.0, 1.0, 9.0])
    low, high = venn_abers(Steps.of(odds, came), at)
    for score, found in zip(at, zip(low, high, strict=True), strict=True):
        for label, value in zip((0.0, 1.0), found, strict=True):
            assert value == pytest.approx(_by_definition(np.append(odds, score), np.append(came, label), score))
    assert (low <= high).all()


def test_the_interval_narrows_with_the_number_of_cases() -> None:
    widths = []
    for n in (50, 2000):
        low, high = venn_abers(Steps.of(*drawn(n, 1.0, 0.0)), np.zeros(1))
        widths.append(float(high[0] - low[0]))
    assert widths[1] < widths[0] / 2


def _by_definition(odds: np.ndarray, came: np.ndarray, at: float) -> float:
    """The isotonic value by max-min over all ranges of distinct scores."""
    knots = np.unique(odds)
    place = int(np.searchsorted(knots, at))
    means = lambda low, high: came[(odds >= knots[low]) & (odds <= knots[high])].mean()  # noqa: E731
    return max(min(means(low, high) for high in range(place, len(knots))) for low in range(place + 1))
