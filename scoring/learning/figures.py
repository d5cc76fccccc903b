"""The figures of one model on some cases, and of a lane over quarters, as plain values for JSON. Pure."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.learning.measures import (
    auc,
    auc_of,
    calibration_error,
    error_band,
    interval,
    log_losses,
    mean_of,
    squared_errors,
)
from scoring.threshold import upper_bound

Floats = NDArray[np.float64]
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
    """Whether so many false approvals come in fewer than CHANCE of lanes that keep the budget (exact binomial)."""
    # The lower bound of the rate is the upper bound of its complement, seen from the other side.
    return lane > 0 and 1 - float(upper_bound(np.array([lane - bad]), np.array([lane]), CHANCE)[0]) > budget


def number(value: float) -> float | None:
    """Six decimals, None for what is no number: JSON has none for it."""
    return round(float(value), 6) if math.isfinite(value) else None
