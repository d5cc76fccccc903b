"""The alarm on audited outcomes of the fast lane, valid at every moment. Pure.

A pull request of the fast lane that nobody checked does not count as clean because nobody complained: it does not count
at all. An audited one stands for 1 / odds of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from math import ceil, log, log1p

import numpy as np

AUDITS_LIMIT = 5_000  # simulated audits of a lane; a lane twice as bad as its budget of 1 % takes 604
MONTH_DAYS = 365.25 / 12
ANSWERS = 12_175  # audits a year, if 100 pull requests a day go through and 1 in 3 is audited


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """The rule by which outcomes shut the lane: a bet against the budget grows 1 / `delta` times.

    The bet is tuned to a rate of `times` the budget. The part `start` is placed at once and the rest in equal parts
    over `answers` outcomes, and as much over each `answers` after them, so that an old lane that turns bad is detected
    nearly as soon as a new one. A lane exactly at its budget is shut wrongly within n outcomes with a chance of at most
    `delta` times the part placed by then (docs/method.md). Raises ValueError for impossible values.
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
        """Return the share of the bet at stake per case, limited so that a clean one cannot end the bet."""
        worse = min(self.times * self.budget, (1 + self.budget) / 2)
        return (worse - self.budget) / (self.budget * (1 - self.budget))

    @property
    def part(self) -> float:
        """Return the part of the bet placed before each outcome."""
        return (1 - self.start) / self.answers


@dataclass(frozen=True, slots=True)
class Alarm:
    """The `value` of the bet, and the number (from 1) of the outcome that raised the alarm, or None.

    An alarm stays raised until a person or the next certificate opens the lane again.
    """

    value: float
    raised_at: int | None = None


def watch(bad: Iterable[bool], rule: AlarmRule, weights: Iterable[float] | None = None) -> Alarm:
    """Return the alarm after these outcomes, in the order in which they became known.

    Audits alone need no weights: each is a random draw, so its chance of being bad is that of the lane, at any odds.
    If audits are mixed with outcomes that everybody sees, `weights` are 1 / odds for an audit, else 1: a bet of so many
    times the stake stays fair. The bet never falls below 0.
    """
    value, raised_at, limit = rule.start, None, 1 / rule.delta
    for number, (outcome, weight) in enumerate(zip(bad, weights or repeat(1.0), strict=False), 1):
        value = (value + rule.part) * max(1 + weight * rule.stake * (float(outcome) - rule.budget), 0.0)
        if raised_at is None and value >= limit:
            raised_at = number
    return Alarm(value, raised_at)


def bad_to_shut(rule: AlarmRule, settled: int, bad: int) -> int:
    """Return how many bad outcomes in a row would raise the alarm next, after `bad` among `settled`; at least 1.

    The part placed later is left out: it can only bring the alarm forward.
    """
    gain = log1p(rule.stake * (1 - rule.budget))
    value = log(rule.start) + bad * gain + (settled - bad) * log1p(-rule.stake * rule.budget)
    return max(ceil((-log(rule.delta) - value) / gain - 1e-9), 1)


def audits_to_shut(rule: AlarmRule, rate: float, chance: float = 0.5) -> int | None:
    """Return the audits after which a lane with this rate is shut with this chance; None beyond AUDITS_LIMIT.

    `rate` is its share of bad cases. The result is exact for the part placed at the start; the rest can only bring the
    alarm forward. The alarm depends only on the number of bad ones among n audits, so the loop carries the chance of
    each such number from audit to audit.
    """
    log_loss, log_gain = log1p(-rule.stake * rule.budget), log1p(rule.stake * (1 - rule.budget))
    open_by_bad, shut = np.array([1.0]), 0.0
    for number in range(1, AUDITS_LIMIT + 1):
        by_bad = np.zeros(len(open_by_bad) + 1)
        by_bad[:-1] += open_by_bad * (1 - rate)
        by_bad[1:] += open_by_bad * rate
        # The fewest bad ones that raise the alarm; slightly less, since the bet is a product of floats.
        fewest_bad = max(ceil((-log(rule.delta * rule.start) - number * log_loss) / (log_gain - log_loss) - 1e-9), 0)
        shut += float(by_bad[fewest_bad:].sum())
        open_by_bad = by_bad[:fewest_bad]
        if shut >= chance:
            return number
    return None


def days_to_shut(
    budget: float, per_month: float, audit_share: float, delta: float = 0.05, times: float = 2.0
) -> float | None:
    """Return the days until half of all lanes `times` as bad as their budget are shut; None beyond AUDITS_LIMIT.

    `per_month` pull requests a month reach the lane, the share `audit_share` of them is audited, and answers come at
    once. Raises ValueError unless both are above 0.
    """
    if per_month <= 0 or audit_share <= 0:
        raise ValueError("without traffic or an audit nobody finds out how bad a lane is")
    audits = audits_to_shut(AlarmRule(budget, delta), min(times * budget, 1.0))
    return None if audits is None else audits * MONTH_DAYS / (per_month * audit_share)
