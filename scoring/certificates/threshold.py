"""The threshold of the fast lane: the loosest one that keeps a budget of false approvals. Pure.

That of the other side, below which a person looks, is in `scoring.certificates.low_threshold`.

Thresholds are tried from strict to loose until the upper bound of the rate first leaves the budget (fixed-sequence
testing with Clopper-Pearson bounds: none that was tried is below its true rate with a chance of more than delta). Plain
counts break a budget of 5 % in more than half of all histories. Cases of one author are no
independent ones: their number is divided by the design effect.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scoring.certificates.lane_counts import Floats, Judged, Lanes, lanes_of, parts_of
from scoring.certificates.sample_size import Need, soonest
from scoring.thresholds import items_needed

WEEK = np.timedelta64(7, "D")
MOST = 2**20  # cases that a need may name
Why = Literal["certified", "too_few", "above_budget", "too_few_authors", "a_part_is_above"]


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that chooses a threshold; the defaults are the measured ones.

    Testing begins at each of `starts` times the fewest cases that could certify, and delta is shared among them: a
    start at the fewest alone finds nothing in 16 % of histories of 1,000. With fewer than `few_authors` in the lane, or
    authors so unequal that they stand for fewer than `few_people` (Kish), one case of each must keep the budget too:
    the design effect of so few is itself noise (9 % broken for a stated 5 %). Each of `parts` equal parts of the window
    must keep the budget by its bound at `part_delta`, and without one by its counted rate. `seed` draws the one case of
    each author. Cases are looked at for `window_days` at most, which the pace is reckoned with. T_LOW is never above
    `low_cap`.
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
    """The chosen threshold with what shows it, or None and `why`.

    The lane is every case scored `threshold` or higher. `n` and `k` are the weights of all and of the bad ones in it,
    `authors` counts its people, `effective` is for how many independent cases it stands, `bound` is the upper bound of
    the rate of bad ones, `share` the lane's share of all weight. Where nothing was chosen these are 0, `bound` 1, and
    `need` says what is missing. Of T_LOW `n` are all clean ones and `k` those of them below it.
    """

    threshold: float | None
    why: Why
    n: float = 0.0
    k: float = 0.0
    authors: int = 0
    effective: float = 0.0
    bound: float = 1.0
    share: float = 0.0
    need: Need | None = None

    @property
    def rate(self) -> float | None:
        """The share of bad ones in the lane, None where there is no lane."""
        return self.k / self.n if self.n else None


DEFAULT = Rule()


def plug_in_threshold(scores: Any, bad: Any, weights: Any, budget: float) -> float | None:
    """The loosest threshold at which the rate that was counted is within `budget`, None where there is none.

    It breaks its budget more often than not.
    """
    scores = np.asarray(scores, dtype=np.float64)
    lanes = lanes_of(Judged.of(scores, bad, np.arange(len(scores)), np.zeros(len(scores), "M8[us]"), weights))
    within = np.flatnonzero(lanes.rates <= budget)
    return float(lanes.thresholds[within[-1]]) if len(within) else None


def careful_threshold(judged: Judged, budget: float, delta: float, rule: Rule = DEFAULT) -> float | None:
    """The loosest threshold whose counted rate is within half of `budget`, its bound at `delta` and every part within
    all of it; None where there is none.

    Where a budget is too small for `choose_threshold` to find anything: on real history it kept 5 % where the
    plug-in rate aimed at half of it alone did not (label_clean_fix 5.02 %, label_clean 5.41 %).
    """
    if not len(judged):
        return None
    lanes = lanes_of(judged, rule.seed)
    holds = (lanes.rates <= budget / 2) & (bounds_of(lanes, delta, rule) <= budget)
    within = np.flatnonzero(holds & _every_part_holds(judged, lanes, budget, rule))
    return float(lanes.thresholds[within[-1]]) if len(within) else None


def upper_bound(bad: Floats, sizes: Floats, delta: float) -> Floats:
    """The one-sided Clopper-Pearson bound of a rate at confidence 1 - delta; counts need not be whole.

    1 where there is no clean one.
    """
    from scipy.special import betaincinv  # a quarter of a second of CPU, of which a worker without a model is spared

    bad, sizes = np.broadcast_arrays(np.asarray(bad, np.float64), np.asarray(sizes, np.float64))
    clean = sizes - bad
    has_clean = clean > 1e-9
    bound = np.ones(bad.shape)
    bound[has_clean] = betaincinv(bad[has_clean] + 1, clean[has_clean], 1 - delta)
    return bound


def choose_threshold(judged: Judged, budget: float, delta: float, rule: Rule = DEFAULT) -> Choice:
    """The loosest threshold of the fast lane whose rate of bad ones is within `budget`, wrong with a chance of `delta`.

    Raises ValueError as `items_needed` does.
    """
    fewest = items_needed(budget, delta / len(rule.starts))
    if not len(judged):
        return Choice(None, "too_few", need=Need(fewest, 0))
    lanes = lanes_of(judged, rule.seed)
    bounds, passed, steady = _test_lanes(judged, lanes, budget, delta, rule)
    chosen = np.flatnonzero(passed & steady)
    if len(chosen):
        return _choice(lanes, bounds, int(chosen[-1]))
    if passed.any():
        return Choice(None, "a_part_is_above")
    return _refusal(judged, lanes, budget, delta / len(rule.starts), rule)


def loosest(judged: Judged, budget: float, delta: float, rule: Rule = DEFAULT) -> float | None:
    """The threshold of `choose_threshold` alone; what is missing where there is none takes most of its time."""
    if not len(judged):
        return None
    lanes = lanes_of(judged, rule.seed)
    _, passed, steady = _test_lanes(judged, lanes, budget, delta, rule)
    chosen = np.flatnonzero(passed & steady)
    return float(lanes.thresholds[chosen[-1]]) if len(chosen) else None


def _test_lanes(
    judged: Judged, lanes: Lanes, budget: float, delta: float, rule: Rule
) -> tuple[Floats, np.ndarray, np.ndarray]:
    """The bound of each lane, whether some sequence reached it without a failure, and whether every part holds."""
    bounds = bounds_of(lanes, delta / len(rule.starts), rule)
    fewest = items_needed(budget, delta / len(rule.starts))
    return (
        bounds,
        _reached_by_tests(lanes, bounds <= budget, fewest, rule),
        _every_part_holds(judged, lanes, budget, rule),
    )


def _choice(lanes: Lanes, bounds: Floats, row: int) -> Choice:
    return Choice(
        float(lanes.thresholds[row]),
        "certified",
        float(lanes.sizes[row]),
        float(lanes.bad[row]),
        int(lanes.authors[row]),
        float(effective_counts(lanes)[row]),
        float(bounds[row]),
        float(lanes.sizes[row] / lanes.sizes[-1]),
    )


def design_effects(lanes: Lanes) -> Floats:
    """By how much the variance with authors as clusters exceeds that of as many independent cases; at least 1."""
    alone = lanes.rates * (1 - lanes.rates) / lanes.counts
    return np.maximum(np.divide(lanes.spread, alone, out=np.ones(len(lanes)), where=alone > 1e-12), 1.0)


def effective_counts(lanes: Lanes) -> Floats:
    """For how many independent cases each lane stands, with authors as clusters."""
    return lanes.counts / design_effects(lanes)


def bounds_of(lanes: Lanes, level: float, rule: Rule) -> Floats:
    """The bound of each lane; of few authors the worse of this one and that of one case an author."""
    effective = effective_counts(lanes)
    clustered = upper_bound(lanes.rates * effective, effective, level)
    one_each = upper_bound(lanes.picked_bad, lanes.authors.astype(np.float64), level)
    return np.where(few_people(lanes, rule), np.maximum(clustered, one_each), clustered)


def few_people(lanes: Lanes, rule: Rule) -> np.ndarray:
    """Return which lanes have so few authors, or so unequal ones, that their design effect is noise."""
    return (lanes.authors < rule.few_authors) | (lanes.people < rule.few_people)


def _reached_by_tests(lanes: Lanes, holds: np.ndarray, fewest: int, rule: Rule) -> np.ndarray:
    """Return which lanes some sequence reached without a failure before.

    It begins where there are authors enough, which no outcome has a part in: the best scores are those of few people.
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


def _every_part_holds(judged: Judged, lanes: Lanes, budget: float, rule: Rule) -> np.ndarray:
    """Return whether each part of the window, the same number of cases in each, keeps the budget by itself."""
    effects, holds = design_effects(lanes), np.ones(len(lanes), dtype=bool)
    for part in parts_of(judged, lanes, rule.parts) if rule.parts > 1 else ():
        holds &= rate_told(part.rates, part.counts / effects, rule.part_delta) <= budget
    return holds


def rate_told(rates: Floats, effective: Floats, delta: float | None) -> Floats:
    """The upper bound of counted rates of so many independent cases; without a delta the rates themselves."""
    return rates if delta is None else upper_bound(rates * effective, effective, delta)


def _refusal(judged: Judged, lanes: Lanes, budget: float, level: float, rule: Rule) -> Choice:
    """Return why no lane passed, and what is missing."""
    fewest, effective = items_needed(budget, level), effective_counts(lanes)
    enough = lanes.counts >= fewest - 1e-9
    holds = few_people(lanes, rule) & (upper_bound(lanes.rates * effective, effective, level) <= budget)
    if np.any(enough & holds):
        return Choice(
            None, "too_few_authors", need=_authors_needed(lanes, int(np.flatnonzero(enough & holds)[-1]), rule)
        )
    need = _cases_needed(lanes, weeks_of(judged), budget, level, rule)
    return Choice(None, "above_budget" if enough.any() and need.threshold is None else "too_few", need=need)


def _authors_needed(lanes: Lanes, row: int, rule: Rule) -> Need:
    """More of them, or some who send as much as the others."""
    threshold, authors = float(lanes.thresholds[row]), int(lanes.authors[row])
    if authors < rule.few_authors:
        return Need(rule.few_authors, authors, threshold, authors=True)
    return Need(rule.few_people, int(lanes.people[row]), threshold, authors=True)


def _cases_needed(lanes: Lanes, weeks: float, budget: float, level: float, rule: Rule) -> Need:
    """Return where enough cases come soonest, each rate being half a case worse than it was."""
    # Some 200 thresholds are enough to name one.
    rows = np.unique(np.linspace(0, len(lanes) - 1, 200).astype(int))
    rates = (lanes.bad[rows] + 0.5) / (lanes.sizes[rows] + 1)
    needed = _cases_for(rates, design_effects(lanes)[rows], budget, level)
    # A lane that would hold and was never reached is tried at the next start.
    needed = np.where(needed <= lanes.counts[rows], _next_start(lanes.counts[rows], budget, level, rule), needed)
    need = soonest(
        needed.tolist(), lanes.counts[rows].tolist(), lanes.thresholds[rows].tolist(), weeks, rule.window_days / 7
    )
    return need or Need(items_needed(budget, level), int(lanes.counts.max()))


def _next_start(counts: Floats, budget: float, level: float, rule: Rule) -> Floats:
    """The fewest cases above `counts` at which testing begins; inf where there is no such start."""
    starts = np.array([*sorted(times * items_needed(budget, level) for times in rule.starts), np.inf])
    return starts[np.searchsorted(starts[:-1], counts, side="right")]


def weeks_of(judged: Judged) -> float:
    """Return how long the window is, at least one week."""
    return max(float((judged.opened_at.max() - judged.opened_at.min()) / WEEK), 1.0)


def _cases_for(rates: Floats, effects: Floats, budget: float, level: float) -> Floats:
    """The fewest cases at which each rate would be within the budget by its bound; inf beyond MOST."""
    low, high = np.zeros(len(rates)), np.full(len(rates), float(MOST))
    for _ in range(MOST.bit_length()):
        middle = np.ceil((low + high) / 2)
        enough = upper_bound(rates * middle / effects, middle / effects, level) <= budget
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    reached = upper_bound(rates * high / effects, high / effects, level) <= budget
    return np.where(reached, high, np.inf)
