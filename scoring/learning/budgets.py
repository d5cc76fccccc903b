"""What a lane with a budget would really have done, month by month, with only what was known then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.learning.design import Floats
from scoring.learning.figures import beyond_chance, number
from scoring.learning.measures import interval
from scoring.learning.rolling import Clock, Past, Scored, judged_quarters, map_at, serving_since
from scoring.threshold import Rule, choose_threshold, plug_in_threshold

DELTA = 0.5  # at .9 a budget of 5 % is no better kept and the lane is open in 8 quarters of 21
BUDGETS = (0.05, 0.1)
# Authors count by the design effect alone. Asking for 30 of them from the first step on, as a certificate does, left
# lanes of 5 % instead of 25 % on real history (merges, budget 10 %) that were not cleaner: 10 % bad instead of 6 %.
RECIPE = Rule(few_authors=0, few_people=0)
PLUG_IN_FROM = 0.05  # at this budget and below, the plug-in aimed at half of it is what is left


@dataclass(frozen=True, slots=True)
class Lane:
    """Which cases would have been in the fast lane: by the chosen threshold and by the plug-in one."""

    certified: NDArray[np.bool_]
    plug_in: NDArray[np.bool_]


def play(past: Past, scored: Sequence[Scored], group: NDArray[np.bool_], clock: Clock, budget: float) -> Lane:
    """The lane of `group` when its threshold is chosen anew each month on the window before, of `group` alone.

    Of several scores the lowest probability counts, as in the gate.
    """
    certified, plug_in = np.zeros(len(group), dtype=bool), np.zeros(len(group), dtype=bool)
    cases, told = past.cases, np.min([one.told for one in scored], axis=0)
    for start, end in zip(clock.months[:-1], clock.months[1:], strict=True):
        opened = group & (cases.opened_at >= start) & (cases.opened_at < end) & ~np.isnan(told)
        if not opened.any():
            continue
        strict, loose = _thresholds(past, scored, group, start, serving_since(clock, start), budget)
        certified[opened] = told[opened] >= (np.inf if strict is None else strict)
        plug_in[opened] = told[opened] >= (np.inf if loose is None else loose)
    return Lane(certified, plug_in)


def _thresholds(
    past: Past,
    scored: Sequence[Scored],
    group: NDArray[np.bool_],
    moment: np.datetime64,
    since: np.datetime64,
    budget: float,
) -> tuple[float | None, float | None]:
    known = past.window(moment)
    given = ~np.isnan(np.sum([one.odds[known.positions] for one in scored], axis=0))
    used = group[known.positions] & given
    positions, bad, weights = known.positions[used], 1.0 - known.target[used], known.weight[used]
    if not len(positions):
        return None, None
    scores = np.min([map_at(past, one.odds, since)(one.odds[positions]) for one in scored], axis=0)
    opened = past.cases.opened_at[positions]
    chosen = choose_threshold(
        scores, bad, past.cases.authors[positions], opened, weights, budget, DELTA, RECIPE
    ).threshold
    plain = plug_in_threshold(scores, bad, weights, budget)
    if budget <= PLUG_IN_FROM:
        chosen = plug_in_threshold(scores, bad, weights, budget / 2)
    return chosen, plain


def told_budget(
    past: Past,
    lane: Lane,
    came: NDArray[np.int8],
    group: NDArray[np.bool_],
    clock: Clock,
    budget: float,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """What really came of the lane over all judged quarters: counts, shares in [0, 1], author-clustered interval."""
    inside, loose = lane.certified & group, lane.plug_in & group
    bad = came == 0
    authors = past.cases.authors[inside]
    over = [
        beyond_chance(int(bad[part].sum()), len(part), budget) for part in judged_quarters(past.cases, inside, clock)
    ]
    quarters = [part for part in judged_quarters(past.cases, group, clock) if len(part)]
    rate = bad[inside].mean() if inside.any() else np.nan
    edges = interval(_rate_of(bad[inside]), authors, draws, seed)
    return {
        "n": int(group.sum()),
        "lane": int(inside.sum()),
        "authors": len(np.unique(authors)),
        "lane_share": number(inside.sum() / max(group.sum(), 1)),
        "false_approvals": int(bad[inside].sum()),
        "rate": number(rate),
        "rate_ci": [number(edge) for edge in edges],
        "plug_in_rate": number(bad[loose].mean()) if loose.any() else None,
        "quarters_over": number(sum(over) / max(len(quarters), 1)),
    }


def _rate_of(bad: NDArray[np.bool_]) -> Any:
    def measure(weights: Floats) -> Floats:
        total = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, weights @ bad.astype(np.float64) / total, np.nan)

    return measure
