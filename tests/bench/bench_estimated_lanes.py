"""Measures how soon an estimated lane shuts itself: `python -m tests.bench.bench_estimated_lanes [LANES]`.

It prints one line of JSON for each budget, from so many simulated lanes (2,000): the median days until the audit of 1
in 3 shuts a lane twice as bad as its budget at 100 a day, from the first day and after 2,000 good answers (half of it);
in how many of 100 years it wrongly shuts one exactly at its budget, at 100 a day and at 18 a month; the weeks that
the first takes at 18 a month (exact, `scoring.certificates.in_force`); and the days that any method takes at least that
is so seldom wrong, for a turn at the worst moment (docs/method.md). Each answer comes at once.
"""

import json
import sys

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from scoring.certificates.in_force import ANSWERS, MONTH_DAYS, AlarmRule, days_to_shut

BUDGETS = (0.05, 0.10, 0.15, 0.20, 0.25)
SHARE, A_DAY, A_MONTH, DELTA = 1 / 3, 100, 18, 0.05


def audits_until_shut(budget: float, rate: float, audits: int, lanes: int, good: int = 0) -> NDArray[np.float64]:
    """Return after how many audits each lane with this rate is shut; inf where `audits` do not shut it.

    Before them come `good` ones at half the budget; a lane that those shut is left out.
    """
    rule, draw = AlarmRule(budget, DELTA), np.random.default_rng(5)
    won, lost = 1 + rule.stake * (1 - budget), 1 - rule.stake * budget
    bet, found = np.full(lanes, rule.start), np.full(lanes, np.inf)
    for number in range(1 - good, audits + 1):
        bad = draw.random(lanes) < (budget / 2 if number < 1 else rate)
        bet = (bet + rule.part) * np.where(bad, won, lost)
        found[(bet >= 1 / DELTA - 1e-9) & np.isinf(found)] = number
    return found[found > 0]


def fewest_answers(budget: float, delta: float = DELTA, answers: int = ANSWERS) -> int:
    """Return the fewest answers in which any method shuts half of the lanes that turn twice as bad at its worst moment.

    The method is one that shuts a lane at its budget within `answers` with a chance of at most `delta`.
    """
    size = 1
    while _power(size, budget, delta * size / answers) < 0.5 - delta:
        size += 1
    return size


def _power(size: int, budget: float, level: float) -> float:
    """Return the power of the best test of `size` outcomes at this level: `budget` bad against twice as many."""
    bad = binom.isf(level, size, budget)
    share = (level - binom.sf(bad, size, budget)) / binom.pmf(bad, size, budget)
    return float(binom.sf(bad, size, 2 * budget) + share * binom.pmf(bad, size, 2 * budget))


def measure(budget: float, lanes: int) -> dict[str, float]:
    """The figures of one budget."""
    a_year = {"at_100_a_day": A_DAY * SHARE * 365.25, "at_18_a_month": A_MONTH * SHARE * 12}
    new = audits_until_shut(budget, 2 * budget, 2_000, lanes)
    turned = audits_until_shut(budget, 2 * budget, 2_000, lanes, good=2_000)
    told = days_to_shut(budget, A_MONTH, SHARE, DELTA)
    wrong = {
        f"wrong_in_100_years_{name}": 100 * float(np.isfinite(audits_until_shut(budget, budget, int(a), lanes)).mean())
        for name, a in a_year.items()
    }
    return {
        "budget": budget,
        "median_days_at_100_a_day": round(float(np.median(new)) / (A_DAY * SHARE), 2),
        "median_days_after_good_ones": round(float(np.median(turned)) / (A_DAY * SHARE), 2),
        "told_days_at_100_a_day": round(days_to_shut(budget, A_DAY * MONTH_DAYS, SHARE, DELTA) or float("inf"), 2),
        "told_weeks_at_18_a_month": round((told or float("inf")) / 7, 1),
        "days_of_any_method": round(fewest_answers(budget) / (A_DAY * SHARE), 1),
        **{name: round(value, 1) for name, value in wrong.items()},
    }


if __name__ == "__main__":
    for each in BUDGETS:
        print(json.dumps(measure(each, int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)))
