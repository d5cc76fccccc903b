"""Counts the outcomes that a certificate takes: `python -m tests.bench.bench_lane_outcomes FILE`, see docs/history.md.

It applies the theorem of docs/method.md to two lanes, with their rate over all judged years, taken half a case worse
than it was: the one that any method could certify first at the pace of that history, and the first of those that let
through at least half of what the largest lane within the budget does. Both are picked with hindsight, so the counts are
too low. People who may push are left out.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scoring.certificates.lane_counts import Lanes, ScoredCases, count_lanes
from scoring.certificates.sample_size import outcomes_needed
from scoring.certificates.threshold import window_weeks
from scoring.training.backtest import SCOPES, Study
from scoring.training.replays import BUDGETS, CERTIFICATE_DELTA
from tests.bench.lane_past import Mask, print_rows

FEWEST = 10  # pull requests that a lane needs for its rate to mean anything


def rows(study: Study, group: Mask, half: str) -> Iterator[str]:
    """A row for each budget."""
    cases, told = study.past.cases, np.min([study.served(scope).predicted for scope in SCOPES], axis=0)
    which = study.judged & group & ~np.isnan(told)
    bad = (study.observed[which] == 0).astype(np.float64)
    judged = ScoredCases.of(told[which], bad, cases.authors[which], cases.opened_at[which])
    lanes, weeks = count_lanes(judged), window_weeks(judged)
    for budget in BUDGETS:
        within = lanes.sizes[lanes.rates <= budget]
        best = float(within.max()) if len(within) else 0.0
        first = _first(lanes, weeks, budget, FEWEST)
        half_of_best = _first(lanes, weeks, budget, max(best / 2, FEWEST)) if best else "no lane within the budget"
        yield (
            f"{half:<8} {study.label:<16}{budget:>4.0%}: at most {best:,.0f} of {len(judged):,} in {weeks:.0f} weeks; "
            f"first: {first}; with half of these: {half_of_best}"
        )


def _first(lanes: Lanes, weeks: float, budget: float, least: float) -> str:
    """Name the lane of at least so many pull requests that could be certified first."""
    found = []
    for size, bad in zip(lanes.sizes.tolist(), lanes.bad.tolist(), strict=True):
        rate = (bad + 0.5) / (size + 1)
        outcomes = outcomes_needed(rate, budget, CERTIFICATE_DELTA)
        if size >= least and math.isfinite(outcomes):
            found.append((outcomes / size * weeks, outcomes, size, rate))
    if not found:
        return "never"
    took, outcomes, size, rate = min(found)
    return f"{math.ceil(outcomes):,} outcomes, {math.ceil(took):,} weeks (a lane of {size:.0f}, {rate:.1%} bad)"


if __name__ == "__main__":
    print_rows(Path(sys.argv[1]), rows)
