"""Measures probabilities: order, calibration, weak spots and intervals, with authors as clusters. NumPy and SciPy.

Everywhere `told` are probabilities of being clean in [0, 1] and `came` what came of the same n cases, 1 clean, 0 not.

Figures of one model on some cases, and of a lane over quarters, are plain values for JSON. Cases are also split by
quarter, repository, newcomers and outsiders, to find where a model lies below the shrunk rate in log-loss. Another
measure is how wide the intervals around P(clean) were that would have been shown (Venn-Abers, quarter by quarter). All
is pure.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.certificates.threshold import upper_bound
from scoring.dataset.cases import Cases
from scoring.models.base import Floats
from scoring.models.calibration import interval_of, pooled
from scoring.training.rolling_origin import Clock, Past, Scored, behind_at

BINS = 10
CHUNK = 4_000_000  # cells of a matrix of draws: 32 MB


@dataclass(frozen=True, slots=True)
class Bin:
    """Cases of like probability: their number, what was told and what came on average, and where that should lie.

    `low` and `high` hold what comes in 95 % of draws from the probabilities themselves (Broecker and Smith 2007).
    """

    n: int
    told: float
    came: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Brier score = miscalibration - discrimination + uncertainty (CORP: Dimitriadis, Gneiting, Jordan 2021)."""

    miscalibration: float
    discrimination: float
    uncertainty: float


def auc(told: Floats, came: Floats, weights: Floats | None = None) -> float:
    """Chance that a clean case has more than one that is not (ties count half); NaN where one of the two is missing."""
    weights = np.ones((1, len(told))) if weights is None else weights[None]
    return float(aucs(told, came, weights)[0])


def aucs(told: Floats, came: Floats, weights: Floats) -> Floats:
    """The same under each row of `weights` (draws, n)."""
    order = np.argsort(told, kind="stable")
    good = weights[:, order] * came[order]
    bad = weights[:, order] - good
    ends = np.flatnonzero(np.diff(told[order], append=np.inf))
    good_by, bad_by = (np.diff(np.cumsum(side, axis=1)[:, ends], axis=1, prepend=0.0) for side in (good, bad))
    below = np.cumsum(bad_by, axis=1) - bad_by / 2
    pairs = good_by.sum(axis=1) * bad_by.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pairs > 0, (good_by * below).sum(axis=1) / pairs, np.nan)


def squared_errors(told: Floats, came: Floats) -> Floats:
    """Of each case; their mean is the Brier score."""
    return (told - came) ** 2


def log_losses(told: Floats, came: Floats) -> Floats:
    """Of each case, finite also at 0 and 1 (1e-12 is the least probability that counts)."""
    told = np.clip(told, 1e-12, 1 - 1e-12)
    return -np.where(came == 1, np.log(told), np.log1p(-told))


def calibration_error(told: Floats, came: Floats) -> float:
    """ECE: mean distance of told and come over BINS bins of equal size, NaN for no cases."""
    return float(_errors(np.sort(told), came[np.argsort(told, kind="stable")][None])[0]) if len(told) else float("nan")


def error_band(told: Floats, draws: int, seed: int) -> tuple[float, float]:
    """Return where the ECE of perfectly calibrated probabilities lies in 95 % of draws: at n = 100 about .04 to .14."""
    if not len(told):
        return float("nan"), float("nan")
    told, generator = np.sort(told), np.random.default_rng(seed)
    each = max(1, CHUNK // len(told))
    sizes = [min(each, draws - start) for start in range(0, draws, each)]
    found = [_errors(told, (generator.random((size, len(told))) < told).astype(np.float64)) for size in sizes]
    low, high = np.quantile(np.concatenate(found), (0.025, 0.975))
    return float(low), float(high)


def reliability(told: Floats, came: Floats, draws: int, seed: int) -> tuple[Bin, ...]:
    """The reliability curve: bins of equal size, ascending, each with its consistency band."""
    order, generator = np.argsort(told, kind="stable"), np.random.default_rng(seed)
    bins = []
    for part in np.array_split(order, min(BINS, len(order))) if len(order) else []:
        drawn = (generator.random((draws, len(part))) < told[part]).mean(axis=1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        bins.append(Bin(len(part), float(told[part].mean()), float(came[part].mean()), float(low), float(high)))
    return tuple(bins)


def decompose(told: Floats, came: Floats) -> Decomposition:
    """CORP, with the best monotone recalibration (pool adjacent violators); ValueError for no cases."""
    if not len(told):
        raise ValueError("there are no cases to decompose")
    _, back = np.unique(told, return_inverse=True)
    counts = np.bincount(back).astype(np.float64)
    best = pooled(np.bincount(back, came) / counts, counts)[back]
    uncertainty = float(came.mean() * (1 - came.mean()))
    given, recalibrated = (float(squared_errors(one, came).mean()) for one in (told, best))
    return Decomposition(given - recalibrated, uncertainty - recalibrated, uncertainty)


def author_draws(authors: NDArray[np.int64], draws: int, seed: int) -> Floats:
    """Return how often each case is in each bootstrap sample of whole authors: (draws, n)."""
    people, back = np.unique(authors, return_inverse=True)
    generator = np.random.default_rng(seed)
    odds = np.full(len(people), 1 / max(len(people), 1))
    return generator.multinomial(len(people), odds, size=draws)[:, back].astype(np.float64)


def interval(
    measure: Callable[[Floats], Floats], authors: NDArray[np.int64], draws: int, seed: int, coverage: float = 0.95
) -> tuple[float, float]:
    """Author-clustered bootstrap interval of `measure`, which takes weights (m, n) and gives m values.

    NaN for no cases; a draw without a value (one class only) counts for nothing.
    """
    if not len(authors):
        return float("nan"), float("nan")
    each = max(1, CHUNK // len(authors))
    sizes = [(start, min(each, draws - start)) for start in range(0, draws, each)]
    values = np.concatenate([measure(author_draws(authors, size, seed + start)) for start, size in sizes])
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, ((1 - coverage) / 2, (1 + coverage) / 2))
    return float(low), float(high)


def mean_of(values: Floats) -> Callable[[Floats], Floats]:
    """The weighted mean of values of cases, as `interval` takes it; NaN for a draw of no weight."""

    def measure(weights: Floats) -> Floats:
        total = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, weights @ values / total, np.nan)

    return measure


def auc_of(told: Floats, came: Floats) -> Callable[[Floats], Floats]:
    """The AUC as `interval` takes it."""
    return lambda weights: aucs(told, came, weights)


def _errors(told: Floats, came: Floats) -> Floats:
    """ECE of each row of `came` (draws, n), for `told` in ascending order."""
    starts = np.array([part[0] for part in np.array_split(np.arange(len(told)), min(BINS, len(told)))])
    return np.abs(np.add.reduceat(came - told, starts, axis=1)).sum(axis=1) / len(told)


CHANCE = 0.05  # a quarter whose false approvals this unlikely under the budget is over it beyond chance


def figures_of(told: Floats, came: Floats, draws: int, seed: int, scores: Floats | None = None) -> dict[str, Any]:
    """n, auc, brier, log_loss, ece and ece_band of n judged cases; None for what is not defined there.

    The AUC is that of `scores`, as given at opening; without them that of `told`. The others are of `told`.
    """
    if not len(told):
        return {"n": 0, "auc": None, "brier": None, "log_loss": None, "ece": None, "ece_band": [None, None]}
    return {
        "n": len(told),
        "auc": number(auc(told if scores is None else scores, came)),
        "brier": number(squared_errors(told, came).mean()),
        "log_loss": number(log_losses(told, came).mean()),
        "ece": number(calibration_error(told, came)),
        "ece_band": [number(edge) for edge in error_band(told, draws, seed)],
    }


def intervals_of(told: Floats, came: Floats, authors: NDArray[np.int64], draws: int, seed: int) -> dict[str, Any]:
    """Author-clustered 95 % intervals of auc, brier and log_loss."""
    measures = {
        "auc": auc_of(told, came),
        "brier": mean_of(squared_errors(told, came)),
        "log_loss": mean_of(log_losses(told, came)),
    }
    return {
        name: [number(edge) for edge in interval(measure, authors, draws, seed)] for name, measure in measures.items()
    }


def gain_of(
    ours: tuple[Floats, Floats],
    plain: tuple[Floats, Floats],
    came: Floats,
    authors: NDArray[np.int64],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """By how much a model is better than the plain one on the same cases, paired, with author-clustered 95 % intervals.

    Both as (probabilities, scores as given); the AUC is that of the scores.
    """
    better, base = auc_of(ours[1], came), auc_of(plain[1], came)
    losses = log_losses(plain[0], came) - log_losses(ours[0], came)
    ordered = interval(lambda weights: better(weights) - base(weights), authors, draws, seed)
    lost = interval(mean_of(losses), authors, draws, seed)
    return {
        "auc": number(auc(ours[1], came) - auc(plain[1], came)),
        "auc_ci": [number(edge) for edge in ordered],
        "log_loss": number(losses.mean() if len(losses) else math.nan),
        "log_loss_ci": [number(edge) for edge in lost],
    }


def beyond_chance(bad: int, lane: int, budget: float) -> bool:
    """Return whether so many false approvals come in fewer than CHANCE of lanes that keep the budget (exact
    binomial).
    """
    # The lower bound of the rate is the upper bound of its complement, seen from the other side.
    return lane > 0 and 1 - float(upper_bound(np.array([lane - bad]), np.array([lane]), CHANCE)[0]) > budget


def number(value: float) -> float | None:
    """Six decimals, None for what is no number: JSON has none for it."""
    return round(float(value), 6) if math.isfinite(value) else None


FEWEST_CASES, FEWEST_AUTHORS = 30, 10  # below this an interval over authors says nothing: that of one has no width
Mask = NDArray[np.bool_]


def splits_of(
    cases: Cases,
    quarters: NDArray[np.datetime64],
    repositories: Mapping[int, str],
    newcomers: Mask,
    which: Mask,
) -> dict[str, Mask]:
    """The cases of `which` by quarter and by repository, those by newcomers and those by who may not push there."""
    opened = cases.opened_at
    found = {
        f"from {start.astype('datetime64[D]')}": which & (opened >= start) & (opened < end)
        for start, end in pairwise(quarters)
    }
    found |= {name: which & (cases.repositories == one) for one, name in sorted(repositories.items())}
    found |= {"newcomers": which & newcomers, "who cannot push": which & ~cases.push_holder}
    return {name: part for name, part in found.items() if part.any()}


def gains_by_split(
    told: Floats,
    plain: Floats,
    came: Floats,
    authors: NDArray[np.int64],
    splits: Mapping[str, Mask],
    draws: int,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """For each split n, authors, the gain in log-loss of `told` over `plain` with its author-clustered 95 % interval,
    and whether it is worse for sure: by an upper bound below 0 over enough cases of enough authors."""
    return {
        name: _gain(told[part], plain[part], came[part], authors[part], draws, seed) for name, part in splits.items()
    }


def _gain(
    told: Floats, plain: Floats, came: Floats, authors: NDArray[np.int64], draws: int, seed: int
) -> dict[str, Any]:
    gains, people = log_losses(plain, came) - log_losses(told, came), len(np.unique(authors))
    low, high = interval(mean_of(gains), authors, draws, seed)
    enough = len(gains) >= FEWEST_CASES and people >= FEWEST_AUTHORS
    return {
        "n": len(gains),
        "authors": people,
        "log_loss": number(gains.mean()),
        "log_loss_ci": [number(low), number(high)],
        "worse": bool(enough and high < 0),
    }


WIDE = 0.1


def widths_of(past: Past, scored: Scored, clock: Clock, tested: Mask, newcomers: Mask) -> dict[str, Any]:
    """n, mean width, and the share wider than WIDE, of the cases in `tested` (n); under 'newcomers' of both."""
    widths = interval_widths(past, scored, clock, tested)
    return {**_told(widths[tested]), "newcomers": _told(widths[tested & newcomers])}


def interval_widths(past: Past, scored: Scored, clock: Clock, which: Mask) -> Floats:
    """Of n cases the width in [0, 1] of the interval shown with P(clean) at opening; NaN outside `which` and judged.

    It rests on what was known when the quarter began, and holds P itself; with nothing known it is everything.
    """
    widths = np.full(len(which), np.nan)
    opened = past.cases.opened_at
    for start, end in pairwise(clock.quarters[clock.quarters >= clock.judged_from]):
        part = np.flatnonzero(which & (opened >= start) & (opened < end) & ~np.isnan(scored.odds))
        if len(part):
            low, high = interval_of(behind_at(past, scored.odds, start).grounds(), scored.odds[part], scored.told[part])
            widths[part] = high - low
    return widths


def _told(widths: Floats) -> dict[str, Any]:
    known = widths[~np.isnan(widths)]
    if not len(known):
        return {"n": 0, "mean": None, "wide_share": None}
    return {"n": len(known), "mean": number(known.mean()), "wide_share": number((known > WIDE).mean())}
