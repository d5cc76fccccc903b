"""Splits a model's score into shares that add up to it exactly. Pure.

The share of a column in a linear model is its coefficient times the standardised value, plus the share of its flag for
unknown values; in trees the exact Shapley value that LightGBM computes (TreeSHAP, Lundberg and others 2020); in a blend
the mean of both; in the shrunk rate the Shapley values of its two counts. All are in log odds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.models.base import Design, Floats
from scoring.models.calibration import Calibrator
from scoring.models.estimators import Blended, Boosted, Logistic, Lowered, ShrunkRate, mean_odds

Columns = Mapping[str, Floats]
SAME = 1e-9  # log odds closer than this are one score


@dataclass(frozen=True, slots=True)
class Contributions:
    """Shares of n scores in log odds: `base` (n) without any knowledge, and `shares` (n, columns) by `names`."""

    names: tuple[str, ...]
    base: Floats
    shares: Floats

    @property
    def scores(self) -> Floats:
        """Return the n scores, base plus shares; equal to the model's within 1e-9."""
        return self.base + self.shares.sum(axis=1)

    def share_of(self, name: str) -> Floats:
        return self.shares[:, self.names.index(name)] if name in self.names else np.zeros(len(self.base))

    def in_probability(self, calibrator: Calibrator) -> tuple[Floats, Floats]:
        """Return P(clean) of the base (n), and shares (n, columns) that add up to P(clean) of the score.

        Each share keeps its part of the sum in log odds.
        """
        total = self.shares.sum(axis=1)
        start = calibrator.probability(self.base)
        apart = np.abs(total) > SAME
        step = np.where(apart, total, 1e-4)
        slope = (calibrator.probability(self.base + step) - start) / step
        return start, self.shares * slope[:, None]


def contributions(estimator: object, features: Columns) -> Contributions:
    """Compute the shares of each row's score. Raises FitProblem for a missing column."""
    for kind, shares_of in SHARES.items():
        if isinstance(estimator, kind):
            return shares_of(estimator, features)
    raise TypeError(f"{type(estimator).__name__} says nothing of its shares")


def _of_logistic(estimator: Logistic, features: Columns) -> Contributions:
    values = Design(estimator.names_).matrix(features)
    parts = estimator.scales_.apply(values) * estimator.coefficients_
    shares = parts[:, : len(estimator.names_)].copy()
    shares[:, estimator.scales_.flagged] += parts[:, len(estimator.names_) :]
    return Contributions(estimator.names_, np.full(len(values), estimator.intercept_), shares)


def _of_boosted(estimator: Boosted, features: Columns) -> Contributions:
    values = Design(estimator.names_).matrix(features)
    values_and_base = np.asarray(estimator.booster_.predict(values, pred_contrib=True, num_threads=1), dtype=np.float64)
    return Contributions(estimator.names_, values_and_base[:, -1], values_and_base[:, :-1])


def _of_shrunk_rate(estimator: ShrunkRate, features: Columns) -> Contributions:
    """Give each of two counts the mean of its effect alone and its effect beside the other."""
    nothing = np.zeros(len(features[estimator.clean]))

    def odds(*known: str) -> Floats:
        names = (estimator.clean, estimator.not_clean)
        return estimator.decision_function({name: features[name] if name in known else nothing for name in names})

    base, both = odds(), odds(estimator.clean, estimator.not_clean)
    clean, not_clean = odds(estimator.clean), odds(estimator.not_clean)
    shares = np.column_stack([(clean - base + both - not_clean) / 2, (not_clean - base + both - clean) / 2])
    return Contributions((estimator.clean, estimator.not_clean), base, shares)


def _of_lowered(estimator: Lowered, features: Columns) -> Contributions:
    without, whole = contributions(estimator.without, features), contributions(estimator.whole, features)
    names = tuple(dict.fromkeys((*whole.names, *without.names)))
    shares = [np.column_stack([part.share_of(name) for name in names]) for part in (without, whole)]
    is_without = without.scores <= whole.scores
    base = np.where(is_without, without.base, whole.base)
    return Contributions(names, base, np.where(is_without[:, None], *shares))


def _of_blended(estimator: Blended, features: Columns) -> Contributions:
    line, trees = contributions(estimator.line, features), contributions(estimator.trees, features)
    names = tuple(dict.fromkeys((*line.names, *trees.names)))
    shares = [np.column_stack([part.share_of(name) for name in names]) for part in (line, trees)]
    return Contributions(names, mean_odds(line.base, trees.base), mean_odds(*shares))


SHARES: Mapping[type, Callable[..., Contributions]] = {
    Logistic: _of_logistic,
    Boosted: _of_boosted,
    ShrunkRate: _of_shrunk_rate,
    Lowered: _of_lowered,
    Blended: _of_blended,
}


def largest(names: Sequence[str], effects: Floats, most: int) -> list[tuple[str, float]]:
    """Return the columns with the largest effects (columns,) of either sign, without those of no effect."""
    order = sorted(range(len(names)), key=lambda place: (-abs(effects[place]), names[place]))
    return [(names[place], float(effects[place])) for place in order[:most] if abs(effects[place]) > SAME]
