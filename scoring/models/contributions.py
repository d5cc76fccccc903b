"""Splits a model's score into shares that add up to it exactly. Pure.

A linear model's share of a column is its coefficient times the standardised value, with what its being unknown counts;
of trees they are the exact Shapley values that LightGBM computes itself (TreeSHAP, Lundberg and others 2020); of their
blend the mean of both; of the shrunk rate the Shapley values of its two counts. All in log odds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.models.base import Design, Floats
from scoring.models.boosted import Boosted
from scoring.models.calibration import Calibrator
from scoring.models.ensembles import Blended, Lowered, mean_odds
from scoring.models.linear import Logistic, ShrunkRate

Columns = Mapping[str, Floats]
SAME = 1e-9  # log odds closer than this are one score


@dataclass(frozen=True, slots=True)
class Contributions:
    """Shares of n scores: `base` (n), in log odds where nothing is known, `shares` (n, columns) beside `names`."""

    names: tuple[str, ...]
    base: Floats
    shares: Floats

    @property
    def scores(self) -> Floats:
        """The n scores themselves, which shares and base add up to: the model's own within 1e-9."""
        return self.base + self.shares.sum(axis=1)

    def share_of(self, name: str) -> Floats:
        """The shares of one column (n), 0 for one that is not among them."""
        return self.shares[:, self.names.index(name)] if name in self.names else np.zeros(len(self.base))

    def in_probability(self, calibrator: Calibrator) -> tuple[Floats, Floats]:
        """P(clean) of the base (n), and the shares (n, columns) of what lies between it and P(clean) of the score.

        Each keeps its part of the sum in log odds, so that they add up in probability too.
        """
        total = self.shares.sum(axis=1)
        start = calibrator.probability(self.base)
        apart = np.abs(total) > SAME
        step = np.where(apart, total, 1e-4)
        slope = (calibrator.probability(self.base + step) - start) / step
        return start, self.shares * slope[:, None]


def contributions(estimator: object, features: Columns) -> Contributions:
    """The shares of each row's score. Raises FitProblem where a column is missing."""
    for kind, shares_of in SHARES.items():
        if isinstance(estimator, kind):
            return shares_of(estimator, features)
    raise TypeError(f"{type(estimator).__name__} says nothing of its shares")


def _linear(estimator: Logistic, features: Columns) -> Contributions:
    values = Design(estimator.names_).matrix(features)
    parts = estimator.scales_.apply(values) * estimator.coefficients_
    shares = parts[:, : len(estimator.names_)].copy()
    shares[:, estimator.scales_.flagged] += parts[:, len(estimator.names_) :]
    return Contributions(estimator.names_, np.full(len(values), estimator.intercept_), shares)


def _trees(estimator: Boosted, features: Columns) -> Contributions:
    values = Design(estimator.names_).matrix(features)
    found = np.asarray(estimator.booster_.predict(values, pred_contrib=True, num_threads=1), dtype=np.float64)
    return Contributions(estimator.names_, found[:, -1], found[:, :-1])


def _rate(estimator: ShrunkRate, features: Columns) -> Contributions:
    """Of two counts each weighs the mean of what it moves alone and what it moves beside the other."""
    nothing = np.zeros(len(features[estimator.clean]))

    def odds(*known: str) -> Floats:
        names = (estimator.clean, estimator.not_clean)
        return estimator.decision_function({name: features[name] if name in known else nothing for name in names})

    base, both = odds(), odds(estimator.clean, estimator.not_clean)
    clean, not_clean = odds(estimator.clean), odds(estimator.not_clean)
    shares = np.column_stack([(clean - base + both - not_clean) / 2, (not_clean - base + both - clean) / 2])
    return Contributions((estimator.clean, estimator.not_clean), base, shares)


def _lower(estimator: Lowered, features: Columns) -> Contributions:
    """Those of whichever of the two models says less."""
    without, whole = contributions(estimator.without, features), contributions(estimator.whole, features)
    names = tuple(dict.fromkeys((*whole.names, *without.names)))
    shares = [np.column_stack([one.share_of(name) for name in names]) for one in (without, whole)]
    is_without = without.scores <= whole.scores
    base = np.where(is_without, without.base, whole.base)
    return Contributions(names, base, np.where(is_without[:, None], *shares))


def _mean(estimator: Blended, features: Columns) -> Contributions:
    """Half of what each of the two says."""
    line, trees = contributions(estimator.line, features), contributions(estimator.trees, features)
    names = tuple(dict.fromkeys((*line.names, *trees.names)))
    shares = [np.column_stack([one.share_of(name) for name in names]) for one in (line, trees)]
    return Contributions(names, mean_odds(line.base, trees.base), mean_odds(*shares))


SHARES: Mapping[type, Callable[..., Contributions]] = {
    Logistic: _linear,
    Boosted: _trees,
    ShrunkRate: _rate,
    Lowered: _lower,
    Blended: _mean,
}


def largest(names: Sequence[str], effects: Floats, most: int) -> list[tuple[str, float]]:
    """The columns of the largest effects (columns,), whatever their sign; none that moves nothing."""
    order = sorted(range(len(names)), key=lambda place: (-abs(effects[place]), names[place]))
    return [(names[place], float(effects[place])) for place in order[:most] if abs(effects[place]) > SAME]
