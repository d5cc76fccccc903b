"""Measures the served model's order on every reading of its goal: `python -m tests.bench.bench_queue_readings HISTORY`.

HISTORY is Parquet: past pull requests as docs/history.md lists them. One line of JSON for each label, span of opening
and reading: how many of the bad ones stand in the first third, and how much of the first tenth is bad. Where the third
is taken within years, quarters or projects, those of all of them are counted together. `third_ci` is the 95 % interval
over authors. The bounds use true rates of the cases that they order, which nobody knew then. It takes ten minutes.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from scoring.models.base import Floats
from scoring.training.backtest import Mask, Study
from scoring.training.metrics import interval
from tests.bench.lane_past import read_studies

Groups = NDArray[np.int64]
FURTHEST = 30.0  # log odds


def shares(scores: Floats, bad: Mask, groups: Groups) -> dict[str, float]:
    """Return the share of the bad ones in the first third of each group, and that of bad ones in the first tenth."""
    in_third = in_tenth = tenth = 0
    for group in np.unique(groups):
        members = groups == group
        ordered = bad[members][np.argsort(scores[members], kind="stable")]
        in_third += int(ordered[: len(ordered) // 3].sum())
        in_tenth += int(ordered[: len(ordered) // 10].sum())
        tenth += len(ordered) // 10
    return {"third": round(in_third / bad.sum(), 4), "tenth_bad": round(in_tenth / tenth, 4)}


def third_interval(scores: Floats, bad: Mask, authors: NDArray[np.int64]) -> list[float]:
    """Return the 95 % interval of the share of the bad ones in the first third, drawn by author."""
    order = np.argsort(scores, kind="stable")

    def measure(weights: Floats) -> Floats:
        drawn = weights[:, order]
        first = np.cumsum(drawn, axis=1) <= drawn.sum(axis=1, keepdims=True) / 3
        return (drawn * first * bad[order]).sum(axis=1) / (drawn * bad[order]).sum(axis=1)

    return [round(edge, 4) for edge in interval(measure, authors, 1000, 0)]


def with_true_means(chances: Floats, bad: Mask, groups: Groups) -> Floats:
    """Shift the log odds within each group so that the mean chance becomes the true share of clean ones there."""
    odds = np.log(chances / (1 - chances))
    for group in np.unique(groups):
        members = groups == group
        edge = 0.5 / (members.sum() + 1)  # of a group that was all clean or all bad
        clean = float(np.clip(1 - bad[members].mean(), edge, 1 - edge))

        def too_high(shift: float, own: Floats = odds[members], clean: float = clean) -> float:
            return float((1 / (1 + np.exp(-own - shift))).mean()) - clean

        odds[members] += brentq(too_high, -FURTHEST, FURTHEST)
    return odds


def true_rates(bad: Mask, groups: Groups) -> Floats:
    _, numbers = np.unique(groups, return_inverse=True)
    return 1 - (np.bincount(numbers, bad) / np.bincount(numbers))[numbers]


def readings(study: Study, mask: Mask) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the figures of each reading and bound on these judged cases."""
    cases, served = study.past.cases, study.served("change")
    chances, odds, bad = served.predicted[mask], served.odds[mask], study.observed[mask] == 0
    everything = np.zeros(len(bad), dtype=np.int64)
    years = cases.opened_at[mask].astype("datetime64[Y]").astype(np.int64)
    quarters = np.searchsorted(study.clock.quarters, cases.opened_at[mask], side="right")
    _, repositories = np.unique(cases.repositories[mask], return_inverse=True)
    edges = third_interval(chances, bad, cases.authors[mask])
    yield "by chance", {**shares(chances, bad, everything), "third_ci": edges}
    yield "by score, before the quarter's map", shares(odds, bad, everything)
    yield "within each year", shares(chances, bad, years)
    yield "within each quarter", shares(chances, bad, quarters)
    yield "within each project", shares(chances, bad, repositories)
    both = repositories * len(study.clock.quarters) + quarters
    for words, groups in (("quarter", quarters), ("project", repositories), ("project and quarter", both)):
        yield f"bound: the true rate of each {words} alone", shares(true_rates(bad, groups), bad, everything)
        yield (
            f"bound: with the true mean of each {words}",
            shares(with_true_means(chances, bad, groups), bad, everything),
        )


def measure(history: Path) -> None:
    """Print the readings of everybody and of those who may not push, on all judged years and on the test's part."""
    material, studies = read_studies(history)
    for study in studies:
        scored = ~np.isnan(study.served("change").predicted)
        for span, opened in (("five years", study.judged), ("test", study.tested)):
            for words, group in (("everybody", scored), ("no push-holders", scored & ~material.cases.push_holder)):
                mask = opened & group
                about = {"label": study.label, "span": span, "group": words, "n": int(mask.sum())}
                for reading, figures in readings(study, mask):
                    print(json.dumps({**about, "reading": reading, **figures}), flush=True)


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
