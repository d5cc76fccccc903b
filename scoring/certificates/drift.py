"""The alarm on the audited outcomes of the fast lane, which may be checked at any moment. Pure.

A fast-laned pull request that nobody checked is not clean because nobody complained: it does not count at all, and
one that was audited stands for 1 / odds of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from math import ceil, log, log1p

import numpy as np

MOST = 5_000  # audits for which a lane is followed; a budget of 1 % that is broken twofold takes 604
MONTH_DAYS = 365.25 / 12
ANSWERS = 12_175  # of the audit in a year, where 100 a day go through and 1 in 3 is audited


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """The rule by which audited outcomes shut the lane: a bet against the budget has grown 1 / `delta` times.

    The bet is tuned to a rate of `times` the budget. `start` of it is placed at once and the rest in equal parts over
    `answers` outcomes, and as much after them, so that a lane that was good for long is found out nearly as soon as one
    that is new. After n outcomes a lane exactly at its budget was shut wrongly with a chance of at most `delta` times
    the part that was placed by then (docs/method.md). Raises ValueError for values that no bet can be made with.
    """

    budget: float
    delta: float
    times: float = 2.0
    start: float = 0.8
    answers: int = ANSWERS

    def __post_init__(self) -> None:
        if not (0 < self.budget < 1 and 0 < self.delta < 1):
            raise ValueError("budget and delta must lie between 0 and 1")
        if not (self.times > 1 and 0 < self.start <= 1 and self.answers > 0):
            raise ValueError("times must be above 1, start in (0, 1] and answers above 0")

    @property
    def stake(self) -> float:
        """Return how much of the bet a case moves, capped where a clean one would end it."""
        worse = min(self.times * self.budget, (1 + self.budget) / 2)
        return (worse - self.budget) / (self.budget * (1 - self.budget))

    @property
    def part(self) -> float:
        """Return how much is placed before each outcome."""
        return (1 - self.start) / self.answers


@dataclass(frozen=True, slots=True)
class Alarm:
    """The bet after some outcomes: its `value`, and the number of the outcome (from 1) that raised the alarm, or None.

    An alarm stays raised: a person opens the lane again, or the next certificate does.
    """

    value: float
    raised_at: int | None = None


def watch(bad: Iterable[bool], rule: AlarmRule, weights: Iterable[float] | None = None) -> Alarm:
    """The alarm after these outcomes in the order in which they became known.

    Answers of the audit alone need no weights: each is drawn by chance, so its odds of being bad are those of the lane,
    whatever the odds of the draw. Where they stand among outcomes that everybody sees, `weights` are 1 / odds, else 1:
    a bet of so many times the stake stays fair. What it would lose beyond everything is not asked of it.
    """
    value, raised_at, limit = rule.start, None, 1 / rule.delta
    for number, (outcome, weight) in enumerate(zip(bad, weights or repeat(1.0), strict=False), 1):
        value = (value + rule.part) * max(1 + weight * rule.stake * (float(outcome) - rule.budget), 0.0)
        if raised_at is None and value >= limit:
            raised_at = number
    return Alarm(value, raised_at)


def audits_to_shut(rule: AlarmRule, rate: float, chance: float = 0.5) -> int | None:
    """Return after how many answered audits a lane with this rate is shut with this chance; None: not within MOST.

    `rate` is its share of bad ones. Exact for what is placed at the start; the rest can only bring the alarm forward.
    After n audits that depends only on how many were bad, so the chance of each such number is carried from
    audit to audit.
    """
    log_loss, log_gain = log1p(-rule.stake * rule.budget), log1p(rule.stake * (1 - rule.budget))
    open_by_bad, shut = np.array([1.0]), 0.0
    for number in range(1, MOST + 1):
        by_bad = np.zeros(len(open_by_bad) + 1)
        by_bad[:-1] += open_by_bad * (1 - rate)
        by_bad[1:] += open_by_bad * rate
        # The fewest bad ones among so many that raise the alarm; slightly less, since the bet is a product of floats.
        fewest_bad = max(ceil((-log(rule.delta * rule.start) - number * log_loss) / (log_gain - log_loss) - 1e-9), 0)
        shut += float(by_bad[fewest_bad:].sum())
        open_by_bad = by_bad[:fewest_bad]
        if shut >= chance:
            return number
    return None


def days_to_shut(
    budget: float, per_month: float, audit_share: float, delta: float = 0.05, times: float = 2.0
) -> float | None:
    """Return the days until the audit shuts half of all lanes `times` as bad as their budget; None: not within MOST.

    `per_month` pull requests are let through or drawn in a month, and `audit_share` of them are audited. Each answer is
    taken to come at once. Raises ValueError unless both are above 0.
    """
    if per_month <= 0 or audit_share <= 0:
        raise ValueError("without traffic or an audit nobody finds out how bad a lane is")
    audits = audits_to_shut(AlarmRule(budget, delta), min(times * budget, 1.0))
    return None if audits is None else audits * MONTH_DAYS / (per_month * audit_share)
