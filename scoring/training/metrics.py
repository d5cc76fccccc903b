"""Measures probabilities: order, calibration, weak spots and intervals, with authors as clusters. NumPy and SciPy.

`predicted` are probabilities of being clean in [0, 1], `observed` the outcomes of the same n cases, 1 clean, 0 not.

Figures of a model and of a lane are plain values for JSON. Splits by quarter, repository, newcomers and outsiders show
where a model is worse than the shrunk rate in log-loss. Another measure is the width of the intervals that would have
been shown around P(clean) (Venn-Abers, quarter by quarter). Pure.
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
    """Cases of similar probability: their number, the mean probability `told` and the observed share `came`.

    `low` and `high` contain the share in 95 % of draws from the probabilities themselves (Broecker and Smith 2007).
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


def auc(predicted: Floats, observed: Floats, weights: Floats | None = None) -> float:
    """Return the chance that a clean case scores above another one (ties count half); NaN without both kinds."""
    weights = np.ones((1, len(predicted))) if weights is None else weights[None]
    return float(aucs(predicted, observed, weights)[0])


def aucs(predicted: Floats, observed: Floats, weights: Floats) -> Floats:
    """Return the AUC under each row of `weights` (draws, n)."""
    order = np.argsort(predicted, kind="stable")
    good = weights[:, order] * observed[order]
    bad = weights[:, order] - good
    last_ties = np.flatnonzero(np.diff(predicted[order], append=np.inf))
    good_by, bad_by = (np.diff(np.cumsum(side, axis=1)[:, last_ties], axis=1, prepend=0.0) for side in (good, bad))
    below = np.cumsum(bad_by, axis=1) - bad_by / 2
    pairs = good_by.sum(axis=1) * bad_by.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pairs > 0, (good_by * below).sum(axis=1) / pairs, np.nan)


def squared_errors(predicted: Floats, observed: Floats) -> Floats:
    """Return the squared error of each case; their mean is the Brier score."""
    return (predicted - observed) ** 2


def log_losses(predicted: Floats, observed: Floats) -> Floats:
    """Return the log-loss of each case, finite also at 0 and 1 (probabilities are clipped at 1e-12)."""
    predicted = np.clip(predicted, 1e-12, 1 - 1e-12)
    return -np.where(observed == 1, np.log(predicted), np.log1p(-predicted))


def calibration_error(predicted: Floats, observed: Floats) -> float:
    """Return the ECE, the mean distance of predicted and observed shares over BINS bins of equal size."""
    return (
        float(_calibration_errors(np.sort(predicted), observed[np.argsort(predicted, kind="stable")][None])[0])
        if len(predicted)
        else float("nan")
    )


def error_band(predicted: Floats, draws: int, seed: int) -> tuple[float, float]:
    """Return the 95 % band of the ECE of perfectly calibrated probabilities: at n = 100 about .04 to .14."""
    if not len(predicted):
        return float("nan"), float("nan")
    predicted, generator = np.sort(predicted), np.random.default_rng(seed)
    draws_at_once = max(1, CHUNK // len(predicted))
    sizes = [min(draws_at_once, draws - start) for start in range(0, draws, draws_at_once)]
    errors = [
        _calibration_errors(predicted, (generator.random((size, len(predicted))) < predicted).astype(np.float64))
        for size in sizes
    ]
    low, high = np.quantile(np.concatenate(errors), (0.025, 0.975))
    return float(low), float(high)


def reliability(predicted: Floats, observed: Floats, draws: int, seed: int) -> tuple[Bin, ...]:
    """Return the reliability curve: bins of equal size, ascending, each with its consistency band.

    The bands hold together: calibrated probabilities lie within all of them in 95 of 100 draws (Sidak). With 95 % for
    each alone, one of ten bins would lie outside in 40 of 100.
    """
    order, generator = np.argsort(predicted, kind="stable"), np.random.default_rng(seed)
    parts = np.array_split(order, min(BINS, len(order))) if len(order) else []
    tail = (1.0 - 0.95 ** (1.0 / max(len(parts), 1))) / 2.0
    bins = []
    for positions in parts:
        drawn_rates = (generator.random((draws, len(positions))) < predicted[positions]).mean(axis=1)
        low, high = np.quantile(drawn_rates, (tail, 1.0 - tail))
        bins.append(
            Bin(
                len(positions),
                float(predicted[positions].mean()),
                float(observed[positions].mean()),
                float(low),
                float(high),
            )
        )
    return tuple(bins)


def decompose(predicted: Floats, observed: Floats) -> Decomposition:
    """Return the CORP decomposition by the best monotone recalibration (PAV). Raises ValueError without cases."""
    if not len(predicted):
        raise ValueError("there are no cases to decompose")
    _, groups = np.unique(predicted, return_inverse=True)
    counts = np.bincount(groups).astype(np.float64)
    recalibrated = pooled(np.bincount(groups, observed) / counts, counts)[groups]
    uncertainty = float(observed.mean() * (1 - observed.mean()))
    score, best_score = (float(squared_errors(column, observed).mean()) for column in (predicted, recalibrated))
    return Decomposition(score - best_score, uncertainty - best_score, uncertainty)


def author_draws(authors: NDArray[np.int64], draws: int, seed: int) -> Floats:
    """Return the count of each case in each bootstrap sample of whole authors: (draws, n)."""
    people, author_numbers = np.unique(authors, return_inverse=True)
    generator = np.random.default_rng(seed)
    odds = np.full(len(people), 1 / max(len(people), 1))
    return generator.multinomial(len(people), odds, size=draws)[:, author_numbers].astype(np.float64)


def interval(
    measure: Callable[[Floats], Floats], authors: NDArray[np.int64], draws: int, seed: int
) -> tuple[float, float]:
    """Return the author-clustered 95 % bootstrap interval of `measure`, a function from weights (m, n) to m values.

    NaN without cases; a draw without a value (one class only) does not count.
    """
    if not len(authors):
        return float("nan"), float("nan")
    draws_at_once = max(1, CHUNK // len(authors))
    sizes = [(start, min(draws_at_once, draws - start)) for start in range(0, draws, draws_at_once)]
    values = np.concatenate([measure(author_draws(authors, size, seed + start)) for start, size in sizes])
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def mean_of(values: Floats) -> Callable[[Floats], Floats]:
    """Return the weighted mean of values as a measure for `interval`; NaN for a draw without weight."""

    def measure(weights: Floats) -> Floats:
        total = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, weights @ values / total, np.nan)

    return measure


def auc_of(predicted: Floats, observed: Floats) -> Callable[[Floats], Floats]:
    return lambda weights: aucs(predicted, observed, weights)


def _calibration_errors(predicted: Floats, observed: Floats) -> Floats:
    """Return the ECE of each row of `observed` (draws, n), for `predicted` in ascending order."""
    starts = np.array(
        [positions[0] for positions in np.array_split(np.arange(len(predicted)), min(BINS, len(predicted)))]
    )
    return np.abs(np.add.reduceat(observed - predicted, starts, axis=1)).sum(axis=1) / len(predicted)


CHANCE = 0.05  # a quarter with false approvals less likely than this under the budget is over it


def figures_of(
    predicted: Floats, observed: Floats, draws: int, seed: int, scores: Floats | None = None
) -> dict[str, Any]:
    """Return n, auc, brier, log_loss, ece and ece_band of n judged cases; None for undefined ones.

    The AUC is that of `scores` at opening, without them that of `predicted`, like the other figures.
    """
    if not len(predicted):
        return {"n": 0, "auc": None, "brier": None, "log_loss": None, "ece": None, "ece_band": [None, None]}
    return {
        "n": len(predicted),
        "auc": number(auc(predicted if scores is None else scores, observed)),
        "brier": number(squared_errors(predicted, observed).mean()),
        "log_loss": number(log_losses(predicted, observed).mean()),
        "ece": number(calibration_error(predicted, observed)),
        "ece_band": [number(edge) for edge in error_band(predicted, draws, seed)],
    }


def intervals_of(
    predicted: Floats, observed: Floats, authors: NDArray[np.int64], draws: int, seed: int
) -> dict[str, Any]:
    """Return author-clustered 95 % intervals of auc, brier and log_loss."""
    measures = {
        "auc": auc_of(predicted, observed),
        "brier": mean_of(squared_errors(predicted, observed)),
        "log_loss": mean_of(log_losses(predicted, observed)),
    }
    return {
        name: [number(edge) for edge in interval(measure, authors, draws, seed)] for name, measure in measures.items()
    }


def gain_of(
    ours: tuple[Floats, Floats],
    plain: tuple[Floats, Floats],
    observed: Floats,
    authors: NDArray[np.int64],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """Return the paired gain of a model over the plain one, with author-clustered 95 % intervals.

    Both are (probabilities, scores at opening); the AUC is that of the scores.
    """
    our_auc, plain_auc = auc_of(ours[1], observed), auc_of(plain[1], observed)
    losses = log_losses(plain[0], observed) - log_losses(ours[0], observed)
    auc_interval = interval(lambda weights: our_auc(weights) - plain_auc(weights), authors, draws, seed)
    loss_interval = interval(mean_of(losses), authors, draws, seed)
    return {
        "auc": number(auc(ours[1], observed) - auc(plain[1], observed)),
        "auc_ci": [number(edge) for edge in auc_interval],
        "log_loss": number(losses.mean() if len(losses) else math.nan),
        "log_loss_ci": [number(edge) for edge in loss_interval],
    }


def beyond_chance(bad: int, lane: int, budget: float) -> bool:
    """Return whether fewer than CHANCE of the lanes that keep the budget have so many bad ones (exact binomial)."""
    # 1 - the upper bound of the complement is the lower bound of the rate.
    return lane > 0 and 1 - float(upper_bound(np.array([lane - bad]), np.array([lane]), CHANCE)[0]) > budget


def number(value: float) -> float | None:
    """Round to six decimals; None for NaN and infinities, which JSON lacks."""
    return round(float(value), 6) if math.isfinite(value) else None


FEWEST_CASES, FEWEST_AUTHORS = 30, 10  # below this an interval over authors is useless: with one author it has no width
Mask = NDArray[np.bool_]


def splits_of(
    cases: Cases,
    quarters: NDArray[np.datetime64],
    repositories: Mapping[int, str],
    newcomers: Mask,
    mask: Mask,
) -> dict[str, Mask]:
    """Return masks of the cases by quarter, by repository, by newcomers and by people who cannot push."""
    opened = cases.opened_at
    splits = {
        f"from {start.astype('datetime64[D]')}": mask & (opened >= start) & (opened < end)
        for start, end in pairwise(quarters)
    }
    splits |= {name: mask & (cases.repositories == repository) for repository, name in sorted(repositories.items())}
    splits |= {"newcomers": mask & newcomers, "who cannot push": mask & ~cases.push_holder}
    return {name: split for name, split in splits.items() if split.any()}


def gains_by_split(
    predicted: Floats,
    plain: Floats,
    observed: Floats,
    authors: NDArray[np.int64],
    splits: Mapping[str, Mask],
    draws: int,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Return for each split n, authors, and the gain in log-loss of `predicted` over `plain` with its 95 % interval.

    `worse`: the upper bound is below 0 over enough cases of enough authors.
    """
    return {
        name: _gain(predicted[split], plain[split], observed[split], authors[split], draws, seed)
        for name, split in splits.items()
    }


def _gain(
    predicted: Floats, plain: Floats, observed: Floats, authors: NDArray[np.int64], draws: int, seed: int
) -> dict[str, Any]:
    gains, people = log_losses(plain, observed) - log_losses(predicted, observed), len(np.unique(authors))
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
    """Return n, mean width and the share wider than WIDE of the tested cases, and of the newcomers among them."""
    widths = interval_widths(past, scored, clock, tested)
    return {**_width_figures(widths[tested]), "newcomers": _width_figures(widths[tested & newcomers])}


def interval_widths(past: Past, scored: Scored, clock: Clock, mask: Mask) -> Floats:
    """Return the width in [0, 1] of the interval shown with P(clean) at opening; NaN outside `mask` and judged cases.

    It uses facts known when the quarter began, and contains P itself; without facts it is [0, 1].
    """
    widths = np.full(len(mask), np.nan)
    opened = past.cases.opened_at
    for start, end in pairwise(clock.quarters[clock.quarters >= clock.judged_from]):
        positions = np.flatnonzero(mask & (opened >= start) & (opened < end) & ~np.isnan(scored.odds))
        if len(positions):
            low, high = interval_of(
                behind_at(past, scored.odds, start).grounds(), scored.odds[positions], scored.predicted[positions]
            )
            widths[positions] = high - low
    return widths


def _width_figures(widths: Floats) -> dict[str, Any]:
    known_widths = widths[~np.isnan(widths)]
    if not len(known_widths):
        return {"n": 0, "mean": None, "wide_share": None}
    return {
        "n": len(known_widths),
        "mean": number(known_widths.mean()),
        "wide_share": number((known_widths > WIDE).mean()),
    }
