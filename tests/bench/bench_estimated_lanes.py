"""Measures how soon an estimated lane shuts itself: `python -m tests.bench.bench_estimated_lanes [LANES]`.

It prints one line of JSON for each budget, from so many simulated lanes (2,000): the median days until the audit of 1
in 3 shuts a lane twice as bad as its budget at 100 a day; in how many of 100 years it wrongly shuts one exactly at its
budget, at 100 a day and at 18 a month; and the weeks that the first takes at 18 a month (exact, `scoring.drift`). Each
answer comes at once.
"""

import json
import sys

import numpy as np
from numpy.typing import NDArray

from scoring.drift import MONTH_DAYS, AlarmRule, days_to_shut

BUDGETS = (0.05, 0.10, 0.15, 0.20, 0.25)
SHARE, A_DAY, A_MONTH, DELTA = 1 / 3, 100, 18, 0.05


def audits_until_shut(budget: float, rate: float, audits: int, lanes: int) -> NDArray[np.float64]:
    """Return after how many audits each lane with this rate is shut; inf where `audits` do not shut it."""
    rule, draw = AlarmRule(budget, DELTA), np.random.default_rng(5)
    won, lost = np.log1p(rule.stake * (1 - budget)), np.log1p(-rule.stake * budget)
    bet, found = np.zeros(lanes), np.full(lanes, np.inf)
    for number in range(1, audits + 1):
        bet = np.maximum(bet + np.where(draw.random(lanes) < rate, won, lost), np.log(rule.floor))
        found[(bet >= -np.log(DELTA) - 1e-12) & np.isinf(found)] = number
    return found


def measure(budget: float, lanes: int) -> dict[str, float]:
    """The figures of one budget."""
    a_year = {"at_100_a_day": A_DAY * SHARE * 365.25, "at_18_a_month": A_MONTH * SHARE * 12}
    turned = audits_until_shut(budget, 2 * budget, 2_000, lanes)
    told = days_to_shut(budget, A_MONTH, SHARE, DELTA)
    wrong = {
        f"wrong_in_100_years_{name}": 100 * float(np.isfinite(audits_until_shut(budget, budget, int(a), lanes)).mean())
        for name, a in a_year.items()
    }
    return {
        "budget": budget,
        "median_days_at_100_a_day": round(float(np.median(turned)) / (A_DAY * SHARE), 2),
        "told_days_at_100_a_day": round(days_to_shut(budget, A_DAY * MONTH_DAYS, SHARE, DELTA) or float("inf"), 2),
        "told_weeks_at_18_a_month": round((told or float("inf")) / 7, 1),
        **{name: round(value, 1) for name, value in wrong.items()},
    }


if __name__ == "__main__":
    for each in BUDGETS:
        print(json.dumps(measure(each, int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)))
