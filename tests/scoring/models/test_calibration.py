"""Maps from scores to P(clean) keep the order and are never certain; intervals hold the truth as often as they say."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.models.calibration import (
    EDGE,
    FITS,
    GROUPS,
    NAMES,
    CalibrationCases,
    CalibrationProblem,
    Name,
    Steps,
    choose,
    compare,
    fit_platt,
    from_dict,
    interval_of,
    venn_abers,
)
from tests.conftest import count

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


AT = np.linspace(-1.5, 3.5, 41)
Truth = Callable[[np.ndarray], np.ndarray]


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def straight(odds: np.ndarray) -> np.ndarray:
    return odds


def bent(odds: np.ndarray) -> np.ndarray:
    """A truth that no Platt map can tell."""
    return np.where(odds > 0.5, 0.25 + 0.5 * odds, 1.3 * odds)


class Drawn:
    """Cases of a few who send much and many who send little, each with a bent of their own."""

    def __init__(self, draw: np.random.Generator, n: int, truth: Truth = straight, spread: float = 0.7) -> None:
        people = max(n // 8, 5)
        self.odds = draw.normal(0.7, 1.2, n)
        self.authors = (draw.pareto(1.2, n) * people / 10).astype(int) % people
        bents = draw.normal(0, spread, people)
        self.came = (draw.random(n) < sigmoid(truth(self.odds) + bents[self.authors])).astype(float)
        many = draw.normal(0, spread, 4000)
        self.truth = sigmoid(truth(AT)[:, None] + many).mean(axis=1)


@pytest.mark.parametrize("truth", [straight, bent])
@pytest.mark.parametrize("n", [200, 1000])
def test_the_true_probability_lies_in_the_interval_as_often_as_it_says(n: int, truth: Truth) -> None:
    draw, held, pair_held, widths = np.random.default_rng(7), [], [], []
    for _ in range(count(12, 200)):
        one = Drawn(draw, n, truth)
        told = fit_platt(one.odds, one.came).probability(AT)
        low, high = interval_of(CalibrationCases.of(one.odds, one.came, np.ones(n), one.authors).grounds(), AT, told)
        held.append(((low <= one.truth) & (one.truth <= high)).mean())
        p0, p1 = venn_abers(Steps.of(one.odds, one.came), AT)
        pair_held.append(((p0 <= one.truth) & (one.truth <= p1)).mean())
        widths.append((high - low).mean())
    assert np.mean(held) >= 0.93
    assert np.mean(pair_held) < 0.5, "one pair is no interval"
    assert np.mean(widths) < {200: 0.55, 1000: 0.3}[n]


def test_bad_news_that_comes_late_does_not_lift_the_interval_above_the_number() -> None:
    draw = np.random.default_rng(3)
    one = Drawn(draw, 2000, spread=0.0)
    # Of what is not clean two in three are not known yet; what waits is clean with the chance that its like turned out.
    waits = (one.came == 0) & (draw.random(2000) < 0.67)
    waits |= (one.came == 1) & (draw.random(2000) < 0.1)
    chance = float(one.came[waits].mean())
    odds = np.concatenate([one.odds[~waits], np.repeat(one.odds[waits], 2)])
    came = np.concatenate([one.came[~waits], np.tile([1.0, 0.0], int(waits.sum()))])
    weights = np.concatenate([np.ones(int((~waits).sum())), np.tile([chance, 1 - chance], int(waits.sum()))])
    authors = np.concatenate([one.authors[~waits], np.repeat(one.authors[waits], 2)])
    told = fit_platt(odds, came, weights).probability(AT)
    behind = CalibrationCases.of(odds, came, weights, authors)
    low, high = interval_of(behind.grounds(), AT, told)
    assert ((low < told - 0.005) & (told + 0.005 < high)).mean() > 0.8
    sure = behind.is_settled
    p0, _ = venn_abers(Steps.of(odds[sure], came[sure]), AT)
    assert (p0 > told).mean() > 0.8, "the settled ones alone are too good"


rows = st.lists(
    st.tuples(st.floats(-6, 6), st.sampled_from([0.0, 1.0]), st.floats(0.01, 4), st.integers(0, 9)),
    min_size=1,
    max_size=30,
)


@given(rows, st.floats(-40, 40), st.floats(0, 1))
def test_the_interval_holds_its_number_and_lies_between_none_and_all(
    given_rows: list[tuple[float, float, float, int]], at: float, told: float
) -> None:
    odds, came, weights, authors = (np.array(column) for column in zip(*given_rows, strict=True))
    low, high = interval_of(
        CalibrationCases.of(odds, came, weights, authors).grounds(), np.array([at]), np.array([told])
    )
    assert 0 <= low[0] <= told <= high[0] <= 1


def test_without_people_enough_for_every_group_nothing_is_sure() -> None:
    odds, told = np.linspace(-2, 2, 30), np.array([0.6])
    few = CalibrationCases.of(odds, (odds > 0).astype(float), np.ones(30), np.arange(30) % (GROUPS - 1))
    assert interval_of(few.grounds(), np.zeros(1), told) == (0.0, 1.0)
    none = CalibrationCases.of(*(np.zeros(0) for _ in range(3)), np.zeros(0, dtype=int))
    assert interval_of(none.grounds(), np.zeros(1), told) == (0.0, 1.0)


def test_an_author_is_in_one_group_and_those_who_send_most_are_in_different_ones() -> None:
    authors = np.repeat(np.arange(10), [50, 40, 30, 20, 5, 4, 3, 2, 1, 1])
    ones = np.ones(len(authors))
    groups = CalibrationCases.of(ones, ones, ones, authors).groups
    assert all(len(set(groups[authors == author])) == 1 for author in range(10))
    assert {int(groups[authors == author][0]) for author in range(GROUPS)} == set(range(GROUPS))
