"""The alarm on bad outcomes of a lane, and the number of outcomes that any certificate needs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.in_force import Alarm, AlarmRule, audits_to_shut, bad_to_shut, days_to_shut, watch
from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.sample_size import Need, earliest_need, outcomes_needed
from scoring.certificates.threshold import CASES_LIMIT, _cases_for, choose_threshold
from scoring.thresholds import items_needed
from tests.conftest import Count

RULE = AlarmRule(0.05, 0.05)


def _days_to_alarm(rate: float, a_day: int, odds: float, lanes: int, days: int, rule: AlarmRule = RULE) -> list[float]:
    """The day of the alarm in each of so many lanes; inf where there was none."""
    draw, found = np.random.default_rng(11), []
    for _ in range(lanes):
        audited = draw.binomial(a_day, odds, size=days)
        raised_at = watch(draw.random(int(audited.sum())) < rate, rule).raised_at
        found.append(float(np.searchsorted(np.cumsum(audited), raised_at)) + 1 if raised_at else float("inf"))
    return found


def test_a_lane_at_its_budget_is_shut_wrongly_in_at_most_delta_of_the_years(count: Count) -> None:
    lanes = count(60, 2000)
    wrong = np.mean(np.isfinite(_days_to_alarm(0.05, 100, 0.10, lanes, 365)))
    assert wrong <= (0.05 if lanes == 2000 else 0.15)  # 60 lanes at .04: more than 9 once in 5,000 runs


def test_a_lane_at_12_percent_is_shut_in_10_days(count: Count) -> None:
    assert np.median(_days_to_alarm(0.12, 100, 0.10, count(60, 2000), 120)) <= 10


ESTIMATED = (0.05, 0.10, 0.15, 0.20, 0.25)  # budgets with which a maintainer opens a lane on an estimate


@pytest.mark.parametrize("budget", ESTIMATED)
def test_an_estimated_lane_that_turned_twice_as_bad_is_shut_within_a_week(budget: float, count: Count) -> None:
    found = np.median(_days_to_alarm(2 * budget, 100, 1 / 3, count(60, 2000), 60, AlarmRule(budget, 0.05)))
    assert found <= 7
    told = days_to_shut(budget, 100 * 30.4375, 1 / 3)
    assert told is not None
    assert found - 1.5 <= told <= found + 0.5, "a day is counted whole, and what is told is not"


@pytest.mark.parametrize("budget", ESTIMATED)
def test_an_estimated_lane_at_its_budget_is_shut_wrongly_in_at_most_5_of_100_years(budget: float, count: Count) -> None:
    lanes = count(60, 2000)
    for a_day, odds in ((100, 1 / 3), (1, 18 * 12 / 365.25 / 3)):
        found = _days_to_alarm(budget, a_day, odds, lanes, 365, AlarmRule(budget, 0.05))
        wrong = float(np.mean(np.isfinite(found)))
        assert wrong <= (0.05 if lanes == 2000 else 0.15)  # 60 lanes at .04: more than 9 once in 5,000 runs


@given(st.floats(0.01, 0.9), st.lists(st.booleans(), max_size=30))
def test_so_many_bad_ones_in_a_row_as_said_shut_an_open_lane_and_one_fewer_does_not(
    budget: float, past: list[bool]
) -> None:
    rule = AlarmRule(budget, 0.05, start=1.0)  # nothing is placed later, so that the count is exact
    needed = bad_to_shut(rule, len(past), sum(past))
    if watch(past, rule).raised_at is None:
        assert watch([*past, *[True] * needed], rule).raised_at == len(past) + needed
        assert watch([*past, *[True] * (needed - 1)], rule).raised_at is None


@given(st.floats(0.01, 0.9), st.floats(0.01, 0.5), st.integers(1, 9))
def test_at_its_budget_the_bet_is_worth_on_average_what_was_placed(budget: float, delta: float, outcomes: int) -> None:
    # Over every run of outcomes with its chance: that mean is what Ville's inequality needs, and a floor broke it.
    rule = AlarmRule(budget, delta)
    runs = [[bool(number >> place & 1) for place in range(outcomes)] for number in range(2**outcomes)]
    mean = sum(watch(run, rule).value * budget ** sum(run) * (1 - budget) ** (outcomes - sum(run)) for run in runs)
    assert mean == pytest.approx(rule.start + outcomes * rule.part)


@pytest.mark.parametrize(("budget", "days"), [(0.10, 7), (0.15, 5), (0.20, 4), (0.25, 3), (0.05, 14)])
def test_an_estimated_lane_that_turned_bad_after_a_good_year_is_found_out(
    budget: float, days: int, count: Count
) -> None:
    lanes, draw, rule, found = count(60, 2000), np.random.default_rng(29), AlarmRule(budget, 0.05), []
    for _ in range(lanes):
        good, bad = draw.random(2_000) < budget / 2, draw.random(2_000) < 2 * budget
        raised_at = watch([*good.tolist(), *bad.tolist()], rule).raised_at
        found += [] if raised_at and raised_at <= 2_000 else [(raised_at or 9_999) - 2_000]
    assert np.median(found) / (100 / 3) <= days


@pytest.mark.parametrize(("budget", "weeks"), [(0.05, 93), (0.10, 44), (0.15, 27), (0.20, 19), (0.25, 14)])
def test_at_18_a_month_it_takes_months_which_is_told_where_it_is_opened(budget: float, weeks: int) -> None:
    told = days_to_shut(budget, 18, 1 / 3)
    assert told is not None
    assert -(-told // 7) == weeks


@pytest.mark.parametrize("budget", ESTIMATED)
def test_what_is_told_is_the_median_of_simulated_lanes(budget: float, count: Count) -> None:
    rule, lanes, draw = AlarmRule(budget, 0.05), count(400, 4000), np.random.default_rng(23)
    told = audits_to_shut(rule, 2 * budget)
    assert told is not None
    raised = [watch((draw.random(2_000) < 2 * budget).tolist(), rule).raised_at or 9_999 for _ in range(lanes)]
    error = 3 * 0.5 / lanes**0.5
    assert np.mean(np.array(raised) <= told) >= 0.5 - error
    assert np.mean(np.array(raised) < told) <= 0.5 + error


def test_what_is_never_found_out_is_said_so() -> None:
    assert audits_to_shut(RULE, 0.0) is None
    assert audits_to_shut(RULE, 1.0) == 5, "as many bad ones in a row shut a new lane"
    late, median = audits_to_shut(RULE, 0.10, chance=0.95), audits_to_shut(RULE, 0.10)
    assert late is not None
    assert median is not None
    assert late > 2 * median
    for traffic, share in ((0, 0.3), (18, 0)):
        with pytest.raises(ValueError, match="nobody finds out"):
            days_to_shut(0.10, traffic, share)


def test_a_lane_that_was_good_for_years_is_found_out_as_soon() -> None:
    good, bad = [False] * 5000, [True] * 40
    fresh, old = watch(bad, RULE), watch(good + bad, RULE)
    assert fresh.raised_at == 5
    assert old.raised_at is not None
    assert old.raised_at - 5000 <= 17


def test_an_alarm_stays_raised() -> None:
    assert watch([True] * 5 + [False] * 500, RULE).raised_at == 5


def test_nothing_audited_raises_nothing() -> None:
    assert watch([], RULE) == Alarm(RULE.start)


@given(st.lists(st.booleans(), max_size=200), st.floats(0.01, 0.9), st.floats(0.01, 0.5))
def test_one_more_bad_answer_never_lowers_the_bet(answers: list[bool], budget: float, delta: float) -> None:
    rule = AlarmRule(budget, delta)
    assert watch([*answers, True], rule).value >= watch(answers, rule).value
    assert watch(answers, rule).value >= 0


@pytest.mark.parametrize(
    "wrong",
    [
        (0.0, 0.05),
        (0.05, 1.0),
        (0.05, 0.05, 1.0),
        (0.05, 0.05, 2.0, 0.0),
        (0.05, 0.05, 2.0, 1.1),
        (0.05, 0.05, 2, 1, 0),
    ],
)
def test_a_bet_that_cannot_be_made_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="must"):
        AlarmRule(*wrong)


def test_what_stands_for_ten_moves_the_bet_ten_times_as_far_and_never_below_nothing() -> None:
    once, often, placed = watch([False], RULE), watch([False], RULE, [10.0]), RULE.start + RULE.part
    assert placed - often.value == pytest.approx(10 * (placed - once.value))
    assert watch([False] * 9, RULE, [20.0] * 9).value == 0
    assert watch([True], RULE, [1.0]) == watch([True], RULE)


def test_a_sample_of_what_is_not_seen_otherwise_keeps_the_bet_fair(count: Count) -> None:
    # Of all clean work 5 % is sent to a person; half of it passes a lane of which a fifth is audited and counts five.
    lanes, draw, wrong = count(100, 2000), np.random.default_rng(3), {"weighed": 0, "left out": 0}
    for _ in range(lanes):
        passes = draw.random(1000) < 0.5
        sent = ~passes & (draw.random(1000) < 0.1)
        counted = ~passes | (draw.random(1000) < 0.2)
        weights = np.where(passes, 5.0, 1.0)[counted].tolist()
        wrong["weighed"] += watch(sent[counted].tolist(), RULE, weights).raised_at is not None
        wrong["left out"] += watch(sent[~passes].tolist(), RULE).raised_at is not None
    assert wrong["weighed"] <= 0.1 * lanes
    assert wrong["left out"] > 0.9 * lanes, "without the lane's own the same work looks sent twice as often"


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
