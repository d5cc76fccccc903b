"""No certificate needs fewer outcomes than the theorem of docs/method.md says, and what a page says is never fewer."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.sample_size import Need, earliest_need, outcomes_needed
from scoring.certificates.threshold import CASES_LIMIT, _cases_for, choose_threshold
from scoring.thresholds import items_needed
from tests.conftest import Count

LONGEST = 40  # outcomes that a drawn test looks at
EDGES = st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 12)), min_size=1, max_size=LONGEST)


def play_exactly(edges: list[tuple[int, int]], rate: float) -> tuple[float, float]:
    """(chance to certify, mean number of outcomes) of a sequential test, without drawing anything.

    After outcome number i it certifies with at most `edges[i][0]` bad ones, and gives up from `edges[i][1]` on.
    """
    alive, certified, outcomes = np.zeros(len(edges) + 2), 0.0, 0.0
    alive[0] = 1.0
    for certify, give_up in edges:
        outcomes += alive.sum()
        alive = alive * (1 - rate) + np.roll(alive, 1) * rate
        counts = np.arange(len(alive))
        certified += alive[counts <= certify].sum()
        alive = np.where((counts <= certify) | (counts >= give_up), 0.0, alive)
    return float(certified), float(outcomes)


@given(EDGES, st.floats(0.0, 0.3), st.floats(0.01, 0.4))
def test_no_sequential_test_needs_fewer_outcomes(edges: list[tuple[int, int]], rate: float, more: float) -> None:
    budget = min(rate + more, 0.9)
    power, outcomes = play_exactly(edges, rate)
    delta, _ = play_exactly(edges, budget)
    if 0 < delta < 1:
        assert outcomes >= outcomes_needed(rate, budget, delta, min(power, 1.0)) - 1e-9


@pytest.mark.parametrize(("rate", "budget"), [(0.02, 0.05), (0.05, 0.10), (0.07, 0.10)])
def test_walds_own_test_needs_hardly_more(rate: float, budget: float, count: Count) -> None:
    draw, histories = np.random.default_rng(5), count(400, 4000)
    step = np.log([(1 - rate) / (1 - budget), rate / budget])
    value, outcomes, running = np.zeros(histories), np.zeros(histories), np.ones(histories, dtype=bool)
    while running.any():
        value[running] += step[(draw.random(int(running.sum())) < rate).astype(int)]
        outcomes[running] += 1
        running &= value < math.log(20)
    least = outcomes_needed(rate, budget, 0.05, 1.0)
    noise = 3 * outcomes.std() / math.sqrt(histories)
    assert least - noise <= outcomes.mean() <= 1.15 * least + noise


@given(st.floats(0.0, 0.19), st.floats(0.02, 0.2), st.floats(1e-5, 0.2), st.floats(1.0, 4.0))
def test_what_a_certificate_is_said_to_need_is_never_fewer(
    rate: float, budget: float, level: float, effect: float
) -> None:
    found = _cases_for(np.array([rate]), np.array([effect]), budget, level)[0]
    assert found >= min(outcomes_needed(rate, budget, level), CASES_LIMIT) - 1e-6
    assert items_needed(budget, level) >= outcomes_needed(0.0, budget, level)


@given(st.integers(0, 3), st.integers(20, 60), st.integers(0, 20))
def test_the_weeks_that_a_certificate_names_are_never_fewer(bad: int, size: int, seed: int) -> None:
    draw, weeks = np.random.default_rng(seed), 52.0
    opened = np.datetime64("2025-01-01") + np.sort(draw.integers(0, 364, size)).astype("m8[D]")
    opened[[0, -1]] = np.datetime64("2025-01-01"), np.datetime64("2025-12-31")
    outcomes = np.zeros(size)
    outcomes[draw.permutation(size)[:bad]] = 1
    need = choose_threshold(ScoredCases.of(np.full(size, 0.9), outcomes, np.arange(size), opened), 0.05, 0.05).need
    assert need is not None
    if need.weeks is not None:
        least = outcomes_needed((bad + 0.5) / (size + 1), 0.05, 0.05)
        assert need.weeks + weeks >= least / (size / weeks) - 1e-9


@given(st.integers(0, 4), st.integers(5, 200), st.floats(0.02, 0.2))
def test_the_need_of_the_page_is_that_of_the_theorem_or_more(bad: int, size: int, budget: float) -> None:
    need = earliest_need([(0.9, size, bad)], 52, 52, budget, 0.05, 3)
    least = outcomes_needed((bad + 0.5) / (size + 1), budget, 0.05)
    if need is None:
        assert least == math.inf or size >= max(least, items_needed(budget, 0.05 / 3))
    else:
        assert need.needed >= least
        assert need.needed >= items_needed(budget, 0.05 / 3)


def test_the_lane_that_comes_first_is_named_and_a_loose_one_is_not() -> None:
    lanes = [(0.95, 20.0, 0.0), (0.90, 120.0, 4.0), (0.60, 600.0, 58.0)]
    assert earliest_need(lanes, 260, 520, 0.10, 0.05, 3) == Need(39, 20, 0.95, 247)
    # A lane of 9.7 % bad takes 20,922 outcomes for a budget of 10 %, and no window holds them.
    need = earliest_need(lanes[2:], 260, 520, 0.10, 0.05, 3)
    assert need is not None
    assert (need.needed, need.weeks) == (20_922, None)


def test_the_numbers_of_the_method_page() -> None:
    assert outcomes_needed(0.05, 0.10, 0.05) == pytest.approx(49.7, abs=0.1)
    assert outcomes_needed(0.0, 0.05, 0.05, 1.0) == pytest.approx(58.4, abs=0.1)


def test_what_no_number_of_outcomes_certifies_is_infinite() -> None:
    assert outcomes_needed(0.10, 0.10, 0.05) == math.inf
    assert earliest_need([(0.9, 40.0, 8.0), (0.8, 0.0, 0.0)], 52, 52, 0.10, 0.05, 3) is None
    assert earliest_need([], 52, 52, 0.10, 0.05, 3) is None


def test_chance_alone_needs_no_outcome() -> None:
    assert outcomes_needed(0.02, 0.10, 0.05, 0.05) == 0


@pytest.mark.parametrize("wrong", [(-0.1, 0.1, 0.05), (0.1, 0.0, 0.05), (0.1, 0.2, 1.0), (0.1, 0.2, float("nan"))])
def test_shares_that_are_none_are_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must lie"):
        outcomes_needed(*wrong)
