"""The audit's alarm, on simulated lanes whose true rate is known."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates.in_force import Alarm, AlarmRule, audits_to_shut, bad_to_shut, days_to_shut, watch
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
