"""Shows where certificates lose the lane: `python -m tests.bench.bench_lane_ablation FILE`, as docs/history.md lists.

It plays what `train` certifies month by month on the projects of a half, with one restriction relaxed at a time, some
together and all together. Each row has how many of the settled pull requests it would have let through, how many of
those were bad, and the 95 % interval of their share, authors as clusters. The recipe promises nothing; the last two
rows take P(clean) with the change in place of the lower of two. People who may push are left out.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from scoring.certificates import threshold
from scoring.certificates.certificate import delta_of_attempt
from scoring.certificates.threshold import DEFAULT, Rule, careful_threshold, loosest
from scoring.training.backtest import SCOPES, Study
from scoring.training.metrics import interval, mean_of
from scoring.training.replays import BUDGETS, CAREFUL_FROM, CERTIFICATE_DELTA, DELTA, RECIPE
from tests.bench.lane_past import Mask, Month, months_of, print_rows

ANYBODY = replace(DEFAULT, few_authors=0, few_people=0)
ALL_IN_ONE = replace(ANYBODY, starts=(1,), parts=1)


@dataclass(frozen=True, slots=True)
class Way:
    """A rule of certificates: `clustered` divides cases by the design effect of their authors; `spends` delta over the
    monthly attempts, else each has all of it; `longer` looks at everything that was ever scored."""

    name: str
    rule: Rule = DEFAULT
    clustered: bool = True
    spends: bool = True
    longer: bool = False


WAYS = (
    Way("as certified"),
    Way("cases of one author as independent", clustered=False),
    Way("the window as one part", replace(DEFAULT, parts=1)),
    Way("one start", replace(DEFAULT, starts=(1,))),
    Way("every month the whole delta", spends=False),
    Way("no least number of authors", ANYBODY),
    Way("all of the past", longer=True),
    Way("all of the past, whole delta", spends=False, longer=True),
    Way("these two, any number of authors", ANYBODY, spends=False, longer=True),
    Way("these three in one part", replace(ANYBODY, parts=1), spends=False, longer=True),
    Way("all of these but the design effect", ALL_IN_ONE, spends=False, longer=True),
    Way("all of these", ALL_IN_ONE, clustered=False, spends=False, longer=True),
)


def certified(months: Sequence[Month], way: Way, budget: float) -> Iterator[float]:
    """The certified threshold of each month, inf where there is none; it lapses when the next model serves."""
    standing, quarter = np.inf, None
    for attempt, month in enumerate(months, 1):
        delta = delta_of_attempt(CERTIFICATE_DELTA, attempt) if way.spends else CERTIFICATE_DELTA
        with _effects(way):
            found = loosest(month.longer if way.longer else month.judged, budget, delta, way.rule)
        kept = standing if month.quarter == quarter else np.inf
        standing, quarter = (kept if found is None else found), month.quarter
        yield standing


def recipe(months: Sequence[Month], budget: float) -> Iterator[float]:
    """The threshold of the recipe in each month, inf where there is none."""
    choose = careful_threshold if budget <= CAREFUL_FROM else loosest
    for month in months:
        found = choose(month.judged, budget, DELTA, RECIPE)
        yield np.inf if found is None else found


def let_through(months: Sequence[Month], thresholds: Iterator[float], judged: Mask) -> np.ndarray:
    """The positions of the settled cases that these thresholds let through."""
    inside = [month.opened[month.told >= one] for month, one in zip(months, thresholds, strict=True)]
    found = np.concatenate(inside)
    return found[judged[found]]


def _effects(way: Way) -> AbstractContextManager[object]:
    return nullcontext() if way.clustered else patch.object(threshold, "design_effects", lambda lanes: 1.0)


def rows(study: Study, group: Mask, half: str) -> Iterator[str]:
    """A row of the table for each budget and way."""
    lower, change = (list(months_of(study, group, scopes)) for scopes in (SCOPES, ("change",)))
    for budget in BUDGETS:
        played = [(way.name, lower, certified(lower, way, budget)) for way in WAYS]
        played += [("the recipe", lower, recipe(lower, budget))]
        played += [("as certified, by the change", change, certified(change, WAYS[0], budget))]
        played += [("the recipe, by the change", change, recipe(change, budget))]
        for name, months, thresholds in played:
            yield f"{half:<9}{study.label:<17}{budget:<5.0%}{name:<38}{_told(study, group, months, thresholds)}"


def _told(study: Study, group: Mask, months: Sequence[Month], thresholds: Iterator[float]) -> str:
    inside = let_through(months, thresholds, study.judged)
    bad = (study.observed[inside] == 0).astype(np.float64)
    counted = f"{len(inside):>5} of {int((study.judged & group).sum()):,}"
    if not len(inside):
        return counted
    low, high = interval(mean_of(bad), study.past.cases.authors[inside], 1000, 0)
    return f"{counted}, {int(bad.sum()):>3} bad, {bad.mean():.1%} [{low:.1%}, {high:.1%}]"


if __name__ == "__main__":
    print_rows(Path(sys.argv[1]), rows)
