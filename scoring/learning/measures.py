"""How good probabilities are: order, calibration, and how sure that is with authors as clusters. Pure NumPy and SciPy.

Everywhere `told` are probabilities of being clean in [0, 1] and `came` what came of the same n cases, 1 clean, 0 not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.calibration import pooled

Floats = NDArray[np.float64]
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
    """Where the ECE of perfectly calibrated probabilities lies in 95 % of draws: at n = 100 about .04 to .14."""
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
    """How often each case is in each bootstrap sample of whole authors: (draws, n)."""
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
