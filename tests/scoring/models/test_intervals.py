"""The interval around P(clean): of the number that it stands with, and as often right as it says."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.models.calibration import GROUPS, CalibrationCases, Steps, fit_platt, interval_of, venn_abers
from tests.conftest import count

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
