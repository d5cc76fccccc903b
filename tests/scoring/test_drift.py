"""The audit's alarm, on simulated lanes whose true rate is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.drift import Alarm, AlarmRule, watch
from tests.conftest import Count

RULE = AlarmRule(0.05, 0.05)


def _days_to_alarm(rate: float, a_day: int, odds: float, lanes: int, days: int) -> list[float]:
    """The day of the alarm in each of so many lanes; inf where there was none."""
    draw, found = np.random.default_rng(11), []
    for _ in range(lanes):
        audited = draw.binomial(a_day, odds, size=days)
        raised_at = watch(draw.random(int(audited.sum())) < rate, RULE).raised_at
        found.append(float(np.searchsorted(np.cumsum(audited), raised_at)) + 1 if raised_at else float("inf"))
    return found


def test_a_lane_at_its_budget_is_shut_wrongly_in_at_most_delta_of_the_years(count: Count) -> None:
    lanes = count(60, 2000)
    wrong = np.mean(np.isfinite(_days_to_alarm(0.05, 100, 0.10, lanes, 365)))
    assert wrong <= (0.05 if lanes == 2000 else 0.15)  # 60 lanes at .04: more than 9 once in 5,000 runs


def test_a_lane_at_12_percent_is_shut_in_10_days(count: Count) -> None:
    assert np.median(_days_to_alarm(0.12, 100, 0.10, count(60, 2000), 120)) <= 10


def test_a_lane_that_was_good_for_years_is_found_out_as_soon() -> None:
    good, bad = [False] * 5000, [True] * 40
    fresh, old = watch(bad, RULE), watch(good + bad, RULE)
    assert fresh.raised_at == 5
    assert old.raised_at is not None
    assert old.raised_at - 5000 <= 15


def test_an_alarm_stays_raised() -> None:
    assert watch([True] * 5 + [False] * 500, RULE).raised_at == 5


def test_nothing_audited_raises_nothing() -> None:
    assert watch([], RULE) == Alarm()


@given(st.lists(st.booleans(), max_size=200), st.floats(0.01, 0.9), st.floats(0.01, 0.5))
def test_one_more_bad_answer_never_lowers_the_bet(answers: list[bool], budget: float, delta: float) -> None:
    rule = AlarmRule(budget, delta)
    assert watch([*answers, True], rule).value >= watch(answers, rule).value
    assert watch(answers, rule).value >= rule.floor


@pytest.mark.parametrize(
    "wrong", [(0.0, 0.05, 2.0, 1e-3), (0.05, 1.0, 2.0, 1e-3), (0.05, 0.05, 1.0, 1e-3), (0.05, 0.05, 2.0, 0.0)]
)
def test_a_bet_that_cannot_be_made_is_refused(wrong: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        AlarmRule(*wrong)


def test_what_stands_for_twenty_moves_the_bet_twenty_times_as_far_and_never_below_the_floor() -> None:
    once, often = watch([False], RULE), watch([False], RULE, [10.0])
    assert 1 - often.value == pytest.approx(10 * (1 - once.value))
    assert watch([False] * 9, RULE, [20.0] * 9).value == RULE.floor
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
