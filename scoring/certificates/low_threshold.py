"""Chooses T_LOW, the highest threshold that sends at most a budget of clean work to people. Pure.

A pull request that scores lower, by somebody with a record, is sent to a person for that alone. At most the budget of
all clean work may score lower; thresholds are tested from strict to loose like the fast lane's
(`scoring.certificates.threshold`), with authors as clusters.

The other reading, that at most the budget of the sent work is clean, was certified in 0 of 63 months of real history at
budgets up to .4: even at the lowest scores two in five were clean (label_clean_fix, without push-holders).
"""

import numpy as np

from scoring.certificates.lane_counts import Lanes, ScoredCases, count_clean_below
from scoring.certificates.sample_size import Need
from scoring.certificates.threshold import (
    DEFAULT,
    Choice,
    Rule,
    bound_or_rate,
    bounds_of,
    choice_at,
    design_effects,
    few_people,
    window_weeks,
)
from scoring.thresholds import items_needed


def choose_low(cases: ScoredCases, budget: float, delta: float, rule: Rule = DEFAULT) -> Choice:
    """Choose the highest T_LOW below which at most a share `budget` of all clean cases scores, with confidence
    1 - `delta`; never above `rule.low_cap`, since a case above that is more likely clean than not.

    Raises ValueError as `items_needed` does.
    """
    fewest = items_needed(budget, delta)
    if not np.any(cases.weights * (1 - cases.bad) > 0):
        return Choice(None, "too_few", need=Need(fewest, 0))
    lanes = count_clean_below(cases, rule.low_cap, rule.seed)
    bounds = bounds_of(lanes, delta, rule)
    passed = np.logical_and.accumulate(bounds <= budget)
    chosen = np.flatnonzero(passed & _every_part_holds(cases, lanes, budget, rule))
    if not len(chosen):
        return _refusal(cases, lanes, bool(passed[0]), fewest, rule)
    row = int(chosen[-1])
    below = cases.scores < lanes.thresholds[row]
    return choice_at(lanes, bounds, row, float(cases.weights[below].sum() / cases.weights.sum()))


def _every_part_holds(cases: ScoredCases, lanes: Lanes, budget: float, rule: Rule) -> np.ndarray:
    """Return whether the budget holds in each part of the window; parts have equal numbers of clean cases."""
    effects, holds = design_effects(lanes), np.ones(len(lanes), dtype=bool)
    clean = cases.select(cases.bad < 1)
    by_time = np.argsort(clean.opened_at, kind="stable")
    for positions in np.array_split(by_time, rule.parts) if rule.parts > 1 else ():
        if len(positions):
            part = count_clean_below(clean.select(positions), rule.low_cap, rule.seed)
            effective = part.counts / effects
            holds &= bound_or_rate(part.rates, effective, rule.part_delta) <= budget
    return holds


def _refusal(cases: ScoredCases, lanes: Lanes, passed: bool, fewest: int, rule: Rule) -> Choice:
    """Return the reason why not even the lowest threshold passed, and the missing cases."""
    have = float(lanes.counts[0])
    if passed:
        return Choice(None, "a_part_is_above")
    if lanes.bad[0] > 0:
        return Choice(None, "above_budget", need=Need(fewest, int(have)))
    if few_people(lanes, rule)[0] and have >= fewest:
        authors_needed = max(rule.few_authors, fewest)
        return Choice(None, "too_few_authors", need=Need(authors_needed, int(lanes.authors[0]), authors=True))
    pace = have / window_weeks(cases)
    reached = fewest <= pace * rule.window_days / 7
    weeks = int(np.ceil((fewest - have) / pace)) if reached else None
    return Choice(None, "too_few", need=Need(fewest, int(have), weeks=weeks))
