"""Chooses the thresholds of the gate: T_HIGH of the fast lane, and T_LOW, below which a person looks. Pure.

T_HIGH is the loosest threshold that keeps a budget of false approvals. Thresholds are tested from strict to loose
until the upper bound of the rate first exceeds the budget (fixed-sequence testing with Clopper-Pearson bounds: with a
chance of at most delta any accepted bound is below the true rate). Plain counts break a budget of 5 % in more than
half of all histories. One author's cases are not independent: the number of cases is divided by the design effect.

T_LOW is the highest threshold that sends at most a budget of clean work to people. A pull request that scores lower,
by somebody with a record, is sent to a person for that alone. The other reading, that at most the budget of the sent
work is clean, was certified in 0 of 63 months of real history at budgets up to .4: even at the lowest scores two in
five were clean (label_clean_fix, without push-holders).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scoring.certificates.lane_counts import Floats, Lanes, ScoredCases, count_clean_below, count_lanes, count_parts
from scoring.certificates.sample_size import Need, soonest_need
from scoring.thresholds import items_needed

WEEK = np.timedelta64(7, "D")
CASES_LIMIT = 2**20  # cases that a need may name
ChoiceReason = Literal["certified", "too_few", "above_budget", "too_few_authors", "a_part_is_above"]


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that chooses a threshold; the defaults are the measured ones.

    Testing begins at each of `starts` times the fewest cases that could certify, and the starts share delta: one start
    at the fewest finds nothing in 16 % of histories of 1,000. With fewer than `few_authors` in the lane, or authors so
    unequal that their effective number is below `few_people` (Kish), one case of each must keep the budget too: the
    design effect of so few is itself noise (9 % broken for a stated 5 %). Each of `parts` equal parts of the window
    must keep the budget by its bound at `part_delta`, without a delta by its counted rate. `seed` draws the one case of
    each author. Cases count for `window_days` at most, also for the pace. T_LOW is never above `low_cap`.
    """

    starts: tuple[int, ...] = (1, 2, 4)
    few_authors: int = 30
    few_people: int = 10
    parts: int = 3
    part_delta: float | None = 0.5
    seed: int = 0
    window_days: int = 365
    low_cap: float = 0.5


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen threshold with its figures, or None and `why`.

    The lane is every case scored `threshold` or higher. `n` and `k` are the weights of all and of the bad ones in it,
    `authors` counts its people, `effective` is its effective number of independent cases, `bound` is the upper bound of
    the rate of bad ones, `share` the lane's share of all weight. Without a threshold these are 0, `bound` 1, and `need`
    says what is missing. For T_LOW `n` counts all clean ones and `k` those below it.
    """

    threshold: float | None
    why: ChoiceReason
    n: float = 0.0
    k: float = 0.0
    authors: int = 0
    effective: float = 0.0
    bound: float = 1.0
    share: float = 0.0
    need: Need | None = None

    @property
    def rate(self) -> float | None:
        return self.k / self.n if self.n else None


DEFAULT = Rule()


def plug_in_threshold(scores: Any, bad: Any, weights: Any, budget: float) -> float | None:
    """Return the loosest threshold with a counted rate within `budget`, None without one.

    It breaks its budget more often than not.
    """
    scores = np.asarray(scores, dtype=np.float64)
    lanes = count_lanes(ScoredCases.of(scores, bad, np.arange(len(scores)), np.zeros(len(scores), "M8[us]"), weights))
    within = np.flatnonzero(lanes.rates <= budget)
    return float(lanes.thresholds[within[-1]]) if len(within) else None


def careful_threshold(cases: ScoredCases, budget: float, delta: float, rule: Rule = DEFAULT) -> float | None:
    """Return the loosest threshold with a counted rate within half of `budget`, and its bound at `delta` and every part
    within all of it; None without one.

    It serves budgets too small for `choose_threshold`: on real history it kept 5 %, and the plug-in rate aimed at half
    of the budget alone did not (label_clean_fix 5.02 %, label_clean 5.41 %).
    """
    if not len(cases):
        return None
    lanes = count_lanes(cases, rule.seed)
    holds = (lanes.rates <= budget / 2) & (bounds_of(lanes, delta, rule) <= budget)
    within = np.flatnonzero(holds & _every_part_holds(cases, lanes, budget, rule))
    return float(lanes.thresholds[within[-1]]) if len(within) else None


def upper_bound(bad: Floats, sizes: Floats, delta: float) -> Floats:
    """Return the one-sided Clopper-Pearson bound of a rate at confidence 1 - delta; 1 without a clean case.

    Counts need not be whole.
    """
    from scipy.special import betaincinv  # .25 s of CPU, which a worker without a model does not need

    bad, sizes = np.broadcast_arrays(np.asarray(bad, np.float64), np.asarray(sizes, np.float64))
    clean = sizes - bad
    has_clean = clean > 1e-9
    bound = np.ones(bad.shape)
    bound[has_clean] = betaincinv(bad[has_clean] + 1, clean[has_clean], 1 - delta)
    return bound


def choose_threshold(cases: ScoredCases, budget: float, delta: float, rule: Rule = DEFAULT) -> Choice:
    """Choose the loosest threshold with a rate of bad ones within `budget`, at confidence 1 - `delta`.

    Raises ValueError as `items_needed` does.
    """
    fewest = items_needed(budget, delta / len(rule.starts))
    if not len(cases):
        return Choice(None, "too_few", need=Need(fewest, 0))
    lanes = count_lanes(cases, rule.seed)
    bounds, passed, steady = _test_lanes(cases, lanes, budget, delta, rule)
    chosen = np.flatnonzero(passed & steady)
    if len(chosen):
        row = int(chosen[-1])
        return choice_at(lanes, bounds, row, float(lanes.sizes[row] / lanes.sizes[-1]))
    if passed.any():
        return Choice(None, "a_part_is_above")
    return _refusal(cases, lanes, budget, delta / len(rule.starts), rule)


def loosest(cases: ScoredCases, budget: float, delta: float, rule: Rule = DEFAULT) -> float | None:
    """Return only the threshold of `choose_threshold`, without the need, which takes most of its time."""
    if not len(cases):
        return None
    lanes = count_lanes(cases, rule.seed)
    _, passed, steady = _test_lanes(cases, lanes, budget, delta, rule)
    chosen = np.flatnonzero(passed & steady)
    return float(lanes.thresholds[chosen[-1]]) if len(chosen) else None


def _test_lanes(
    cases: ScoredCases, lanes: Lanes, budget: float, delta: float, rule: Rule
) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Return each lane's bound, whether some test sequence reached it, and whether every part holds."""
    bounds = bounds_of(lanes, delta / len(rule.starts), rule)
    fewest = items_needed(budget, delta / len(rule.starts))
    return (
        bounds,
        _reached_by_tests(lanes, bounds <= budget, fewest, rule),
        _every_part_holds(cases, lanes, budget, rule),
    )


def choice_at(lanes: Lanes, bounds: Floats, row: int, share: float) -> Choice:
    return Choice(
        float(lanes.thresholds[row]),
        "certified",
        float(lanes.sizes[row]),
        float(lanes.bad[row]),
        int(lanes.authors[row]),
        float(effective_counts(lanes)[row]),
        float(bounds[row]),
        share,
    )


def design_effects(lanes: Lanes) -> Floats:
    """Return the ratio of the variance with authors as clusters to that of independent cases; at least 1."""
    alone = lanes.rates * (1 - lanes.rates) / lanes.counts
    return np.maximum(np.divide(lanes.spread, alone, out=np.ones(len(lanes)), where=alone > 1e-12), 1.0)


def effective_counts(lanes: Lanes) -> Floats:
    """Return each lane's effective number of independent cases, with authors as clusters."""
    return lanes.counts / design_effects(lanes)


def bounds_of(lanes: Lanes, level: float, rule: Rule) -> Floats:
    """Return the bound of each lane; with few authors the higher of it and the bound of one case an author."""
    effective = effective_counts(lanes)
    clustered = upper_bound(lanes.rates * effective, effective, level)
    one_each = upper_bound(lanes.picked_bad, lanes.authors.astype(np.float64), level)
    return np.where(few_people(lanes, rule), np.maximum(clustered, one_each), clustered)


def few_people(lanes: Lanes, rule: Rule) -> np.ndarray:
    """Return which lanes have so few authors, or so unequal ones, that their design effect is noise."""
    return (lanes.authors < rule.few_authors) | (lanes.people < rule.few_people)


def _reached_by_tests(lanes: Lanes, holds: np.ndarray, fewest: int, rule: Rule) -> np.ndarray:
    """Return which lanes some sequence reached without an earlier failure.

    It begins at lanes with enough authors, since few people have the best scores; no outcome influences that.
    """
    passed = np.zeros(len(lanes), dtype=bool)
    enough = ~few_people(lanes, rule)
    for times in rule.starts:
        large = lanes.counts >= times * fewest - 1e-9
        begin = np.flatnonzero(large & enough if np.any(large & enough) else large)
        start = int(begin[0]) if len(begin) else len(lanes)
        failed = np.flatnonzero(~holds[start:])
        passed[start : start + int(failed[0]) if len(failed) else len(lanes)] = True
    return passed


def _every_part_holds(cases: ScoredCases, lanes: Lanes, budget: float, rule: Rule) -> np.ndarray:
    """Return whether the budget holds in each part of the window; parts have equal numbers of cases."""
    effects, holds = design_effects(lanes), np.ones(len(lanes), dtype=bool)
    for part in count_parts(cases, lanes, rule.parts) if rule.parts > 1 else ():
        holds &= bound_or_rate(part.rates, part.counts / effects, rule.part_delta) <= budget
    return holds


def bound_or_rate(rates: Floats, effective: Floats, delta: float | None) -> Floats:
    """Return the upper bound of rates of so many effective cases; without a delta the rates themselves."""
    return rates if delta is None else upper_bound(rates * effective, effective, delta)


def _refusal(cases: ScoredCases, lanes: Lanes, budget: float, level: float, rule: Rule) -> Choice:
    fewest, effective = items_needed(budget, level), effective_counts(lanes)
    enough = lanes.counts >= fewest - 1e-9
    holds = few_people(lanes, rule) & (upper_bound(lanes.rates * effective, effective, level) <= budget)
    if np.any(enough & holds):
        return Choice(
            None, "too_few_authors", need=_authors_needed(lanes, int(np.flatnonzero(enough & holds)[-1]), rule)
        )
    need = _cases_needed(lanes, window_weeks(cases), budget, level, rule)
    return Choice(None, "above_budget" if enough.any() and need.threshold is None else "too_few", need=need)


def _authors_needed(lanes: Lanes, row: int, rule: Rule) -> Need:
    threshold, authors = float(lanes.thresholds[row]), int(lanes.authors[row])
    if authors < rule.few_authors:
        return Need(rule.few_authors, authors, threshold, authors=True)
    return Need(rule.few_people, int(lanes.people[row]), threshold, authors=True)


def _cases_needed(lanes: Lanes, weeks: float, budget: float, level: float, rule: Rule) -> Need:
    """Return the need that is met soonest, each rate taken half a case worse than it was."""
    # 200 thresholds are enough to find one.
    rows = np.unique(np.linspace(0, len(lanes) - 1, 200).astype(int))
    rates = (lanes.bad[rows] + 0.5) / (lanes.sizes[rows] + 1)
    needed = _cases_for(rates, design_effects(lanes)[rows], budget, level)
    # A lane that would hold but was not reached is tested again at the next start.
    needed = np.where(needed <= lanes.counts[rows], _next_start(lanes.counts[rows], budget, level, rule), needed)
    need = soonest_need(
        needed.tolist(), lanes.counts[rows].tolist(), lanes.thresholds[rows].tolist(), weeks, rule.window_days / 7
    )
    return need or Need(items_needed(budget, level), int(lanes.counts.max()))


def _next_start(counts: Floats, budget: float, level: float, rule: Rule) -> Floats:
    """Return the number of cases above `counts` at which the next test begins; inf without one."""
    starts = np.array([*sorted(times * items_needed(budget, level) for times in rule.starts), np.inf])
    return starts[np.searchsorted(starts[:-1], counts, side="right")]


def window_weeks(cases: ScoredCases) -> float:
    """Return the length of the window in weeks, at least 1."""
    return max(float((cases.opened_at.max() - cases.opened_at.min()) / WEEK), 1.0)


def _cases_for(rates: Floats, effects: Floats, budget: float, level: float) -> Floats:
    """Return the fewest cases with each rate's bound within the budget; inf beyond CASES_LIMIT."""
    low, high = np.zeros(len(rates)), np.full(len(rates), float(CASES_LIMIT))
    for _ in range(CASES_LIMIT.bit_length()):
        middle = np.ceil((low + high) / 2)
        enough = upper_bound(rates * middle / effects, middle / effects, level) <= budget
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    reached = upper_bound(rates * high / effects, high / effects, level) <= budget
    return np.where(reached, high, np.inf)


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
    chosen = np.flatnonzero(passed & _every_low_part_holds(cases, lanes, budget, rule))
    if not len(chosen):
        return _low_refusal(cases, lanes, bool(passed[0]), fewest, rule)
    row = int(chosen[-1])
    below = cases.scores < lanes.thresholds[row]
    return choice_at(lanes, bounds, row, float(cases.weights[below].sum() / cases.weights.sum()))


def _every_low_part_holds(cases: ScoredCases, lanes: Lanes, budget: float, rule: Rule) -> np.ndarray:
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


def _low_refusal(cases: ScoredCases, lanes: Lanes, passed: bool, fewest: int, rule: Rule) -> Choice:
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
