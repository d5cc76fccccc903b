"""The estimators of P(clean): the shrunk rate, logistic regression, boosted trees, and pairs of these. Pure.

The rate, shrunk towards the prior, and the penalised logistic regression are always fitted. Boosted trees (LightGBM)
are small, monotone where the direction is certain, and stopped early on the latest slice.

A pair takes the lower of two P(clean), or the mean of their log odds. The lower one lets columns that a person moves
alone lower P(clean), but never raise it. The mean joins a logistic model with trees, which see what a line cannot. On
real history it beat the logistic model for every label (log-loss .009 to .011 lower), which trees alone did not do with
certainty: the less the errors of two models have in common, the less their mean errs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scoring.dataset.cases import Directions
from scoring.dataset.track_record import CLEAN, NOT_CLEAN
from scoring.models.base import (
    Design,
    Estimator,
    FitProblem,
    Floats,
    Labels,
    Paired,
    Scales,
    checked_labels,
    probabilities,
)

STRENGTH = 5.0  # cases that the prior is worth
STEPS, HALVINGS = 50, 20
BLOCK = 4_096  # rows of 90 columns: 3 MB
TOLERANCE = 1e-10  # of the summed log-loss
RIDGE = 1e-9  # keeps the curvature regular where all rows of the intercept are certain


class ShrunkRate:
    """P = (prior * strength + clean) / (strength + clean + not clean) of the author's own record.

    Learned: `prior_`, the clean rate of the rows. It serves even where no other model can be learned, without any rows
    from a prior of 1/2.
    """

    name = "beta"

    def __init__(self, clean: str = CLEAN, not_clean: str = NOT_CLEAN, strength: float = STRENGTH) -> None:
        self.clean = clean
        self.not_clean = not_clean
        self.strength = strength

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Learn the prior from labels 0 and 1; one class only, or no rows, raises nothing."""
        shares = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=np.float64)
        self.prior_ = float((shares @ np.asarray(labels, dtype=np.float64) + 1) / (shares.sum() + 2))
        return self

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        """Return (n, 2), the chances of not clean and clean; an unknown count is 0."""
        counts = np.nan_to_num(Design((self.clean, self.not_clean)).matrix(features)).clip(0.0)
        clean = (self.prior_ * self.strength + counts[:, 0]) / (self.strength + counts.sum(axis=1))
        return np.column_stack([1 - clean, clean])

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        probability = self.predict_proba(features)
        return np.log(probability[:, 1] / probability[:, 0])

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "clean": self.clean,
            "not_clean": self.not_clean,
            "strength": self.strength,
            "prior": self.prior_,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        model = cls(str(stored["clean"]), str(stored["not_clean"]), float(stored["strength"]))
        model.prior_ = float(stored["prior"])
        if not (0 < model.prior_ < 1 and model.strength > 0):
            raise FitProblem("the kept prior is not a rate")
        return model


class Logistic:
    """log odds = columns @ coefficients + intercept, on columns made comparable, with a quadratic penalty.

    A column with a certain direction never gets a coefficient of the other sign. Learned: `names_`, `scales_`,
    `coefficients_`, `intercept_`. `penalty` is the weight of the squared coefficients against the summed log-loss.
    """

    name = "logistic"

    def __init__(self, directions: Directions, penalty: float = 25.0) -> None:
        self.directions = directions
        self.penalty = penalty

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Learn from columns of length n (NaN: unknown), labels 0 and 1, weights above 0; the optimum is unique.

        `graph` and `as_of` are for estimators that read the vouch graph. Raises FitProblem, in one sentence, for no
        rows, one class only, a missing column and wrong labels.
        """
        labels, weights = checked_labels(labels, weights)
        self.names_ = tuple(self.directions)
        values = Design(self.names_).matrix(features, len(labels))
        self.scales_ = Scales.of(values, weights)
        optimum = _minimise(self.scales_.apply(values), labels, weights, self.penalty, self._signs())
        self.coefficients_, self.intercept_ = optimum[:-1], float(optimum[-1])
        return self

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        values = Design(self.names_).matrix(features)
        return self.scales_.apply(values) @ self.coefficients_ + self.intercept_

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        return probabilities(self.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "directions": list(self.directions.items()),  # a list: sorted keys would change the order of columns
            "penalty": self.penalty,
            "scales": self.scales_.as_dict(),
            "coefficients": self.coefficients_.tolist(),
            "intercept": self.intercept_,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `as_dict` returned. Raises FitProblem where the coefficients do not fit the columns."""
        model = cls({str(name): int(value) for name, value in stored["directions"]}, float(stored["penalty"]))
        model.names_, model.scales_ = tuple(model.directions), Scales.from_dict(stored["scales"])
        model.coefficients_ = np.asarray(stored["coefficients"], dtype=np.float64)
        model.intercept_ = float(stored["intercept"])
        expected = len(model.names_) + int(model.scales_.flagged.sum())
        if len(model.scales_.mean) != len(model.names_) or len(model.coefficients_) != expected:
            raise FitProblem("the kept coefficients do not fit the columns")
        if not (np.isfinite(model.coefficients_).all() and np.isfinite(model.intercept_)):
            raise FitProblem("a kept coefficient is not a number")
        return model

    def _signs(self) -> Floats:
        """Return the sign that each coefficient and the intercept must have, 0 for either."""
        free = np.zeros(int(self.scales_.flagged.sum()) + 1)
        return np.append(np.array([self.directions[name] for name in self.names_], dtype=np.float64), free)


@dataclass(frozen=True, slots=True)
class _Loss:
    """Weighted log-loss with a quadratic penalty, of `columns` and an intercept after them, summed block by block.

    Whole matrices took a quarter more CPU for 200,000 rows, and two more copies in memory.
    """

    columns: Floats
    labels: Labels
    weights: Floats
    penalties: Floats  # twice the penalty of each coefficient; 0 for the intercept

    def at(self, point: Floats) -> float:
        total = 0.0
        for rows, labels, weights in self._blocks():
            raised = rows @ point
            total += float(weights @ (np.logaddexp(0.0, raised) - labels * raised))
        return total + float(self.penalties @ point**2) / 2

    def derivatives(self, point: Floats) -> tuple[Floats, Floats]:
        slope, curvature = self.penalties * point, np.diag(self.penalties + RIDGE)
        for rows, labels, weights in self._blocks():
            probability = np.exp(-np.logaddexp(0.0, -(rows @ point)))
            slope += rows.T @ (weights * (probability - labels))
            scaled = rows * np.sqrt(weights * probability * (1 - probability))[:, None]
            curvature += scaled.T @ scaled
        return slope, curvature

    def _blocks(self) -> Iterator[tuple[Floats, Labels, Floats]]:
        for begin in range(0, len(self.columns), BLOCK):
            part = slice(begin, begin + BLOCK)
            rows = self.columns[part]
            yield np.column_stack([rows, np.ones(len(rows))]), self.labels[part], self.weights[part]


def _minimise(columns: Floats, labels: Labels, weights: Floats, penalty: float, signs: Floats) -> Floats:
    """Return coefficients, then the intercept (without a penalty), by Newton's method on the free ones.

    10,000 rows of 80 columns take .16 s of CPU, half as much as L-BFGS-B to the same optimum.
    """
    loss = _Loss(columns, labels, weights, np.append(np.full(columns.shape[1], 2 * penalty), 0.0))
    point = np.zeros(columns.shape[1] + 1)
    value = loss.at(point)
    for _ in range(STEPS):
        slope, curvature = loss.derivatives(point)
        free = (signs == 0) | (point != 0) | (signs * slope < 0)
        step = np.zeros(len(point))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        ahead, lower = _search(point, step, signs, loss.at, value)
        if value - lower <= TOLERANCE * max(value, 1.0):
            return ahead
        point, value = ahead, lower
    return point


def _search(
    point: Floats, step: Floats, signs: Floats, loss: Callable[[Floats], float], value: float
) -> tuple[Floats, float]:
    """Halve the step, within the signs, until the loss falls; return that point, else the start."""
    for halvings in range(HALVINGS):
        ahead = point - step / 2**halvings
        ahead[signs * ahead < 0] = 0.0
        lower = loss(ahead)
        if lower < value:
            return ahead, lower
    return point, value


LATEST = 0.2  # the share of the latest rows on which the number of trees is chosen
PATIENCE = 20  # trees without a gain on these rows
# The latest labels are mostly estimates of unsettled cases: stopping by them alone cost .01 of AUC on real history.
FEWEST, MOST = 400, 600
FEWEST_ROWS = 200  # with fewer no rows are left to stop on


class Boosted:
    """log odds of clean as a sum of trees. Learned values: `names_`, `rounds_`, `booster_`.

    `rounds` fixes the number of trees; without it the latest 20 % of the rows choose it, and all rows are then fitted
    with that many. `seed` draws rows and columns; the same seed gives the same trees on any number of cores.
    """

    name = "lightgbm"

    def __init__(
        self, directions: Directions, leaves: int = 7, rate: float = 0.1, rounds: int | None = None, seed: int = 0
    ) -> None:
        self.directions = directions
        self.leaves = leaves
        self.rate = rate
        self.rounds = rounds
        self.seed = seed

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Learn from rows in the order of time; arguments and errors as those of every estimator (`Logistic.fit`)."""
        import lightgbm

        labels, weights = checked_labels(labels, weights)
        self.names_ = tuple(self.directions)
        values = Design(self.names_).matrix(features, len(labels))
        self.rounds_ = self.rounds or self._rounds(values, labels, weights)
        self.booster_ = lightgbm.train(self._parameters(len(labels)), _dataset(values, labels, weights), self.rounds_)
        return self

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        values = Design(self.names_).matrix(features)
        return np.asarray(self.booster_.predict(values, raw_score=True, num_threads=1), dtype=np.float64)

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        return probabilities(self.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        """Return the model as JSON values; the trees in LightGBM's own text."""
        return {
            "name": self.name,
            "directions": list(self.directions.items()),  # a list: sorted keys would change the order of columns
            "rounds": self.rounds_,
            "seed": self.seed,
            "trees": self.booster_.model_to_string(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `as_dict` returned. Raises FitProblem for text that LightGBM cannot read."""
        import lightgbm

        model = cls(
            {str(name): int(value) for name, value in stored["directions"]},
            rounds=int(stored["rounds"]),
            seed=int(stored["seed"]),
        )
        model.names_, model.rounds_ = tuple(model.directions), int(stored["rounds"])
        try:
            model.booster_ = lightgbm.Booster(model_str=_check_trees(str(stored["trees"])))
        except lightgbm.basic.LightGBMError as problem:
            raise FitProblem("the kept trees cannot be read") from problem
        if model.booster_.feature_name() != _columns(model.names_):
            raise FitProblem("the kept trees have other features than the model")
        return model

    def _rounds(self, values: Floats, labels: Labels, weights: Floats) -> int:
        import lightgbm

        cut = int(len(labels) * (1 - LATEST))
        if len(labels) < FEWEST_ROWS or len(np.unique(labels[:cut])) < 2:
            return PATIENCE  # a few, on so few rows
        earlier = _dataset(values[:cut], labels[:cut], weights[:cut])
        latest = _dataset(values[cut:], labels[cut:], weights[cut:], earlier)
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        booster = lightgbm.train(self._parameters(cut), earlier, MOST, valid_sets=[latest], callbacks=[stop])
        return max(booster.best_iteration, FEWEST)

    def _parameters(self, rows: int) -> dict[str, Any]:
        return {
            "objective": "binary",
            "metric": "binary_logloss",
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "max_bin": 63,
            "extra_trees": True,  # cuts drawn at random: .004 of AUC on real history, .008 of log-loss
            "min_data_in_leaf": max(10, rows // 150),
            "lambda_l2": 5.0,
            "feature_fraction": 0.8,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "monotone_constraints": [self.directions[name] for name in self.names_],
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,  # two threads on two busy cores took five times as long as one
            "verbose": -1,
        }


def _dataset(values: Floats, labels: Labels, weights: Floats, reference: Any = None) -> Any:
    import lightgbm

    names = _columns(tuple(map(str, range(values.shape[1]))))
    return lightgbm.Dataset(
        values, labels, weight=weights, reference=reference, feature_name=names, params={"verbose": -1, "max_bin": 63}
    )


def _columns(names: Sequence[str]) -> list[str]:
    """Name columns by their place, since LightGBM's text allows no JSON characters in names."""
    return [f"c{place}" for place in range(len(names))]


def _check_trees(trees: str) -> str:
    """Refuse a cut text, since some of these make LightGBM end the process."""
    if not trees.startswith("tree\n") or "\nend of trees\n" not in trees:
        raise FitProblem("the kept trees are cut")
    return trees


class Lowered(Paired):
    """Takes the lower log odds of a model without the columns that a person moves alone, and of one with them."""

    def __init__(self, without: Estimator, whole: Estimator) -> None:
        self.without = without
        self.whole = whole

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def parts(self) -> tuple[Estimator, Estimator]:
        """Return both models, the one without those columns first."""
        return self.without, self.whole

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        return np.minimum(self.without.decision_function(features), self.whole.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        return {"name": "lowered", "without": self.without.as_dict(), "whole": self.whole.as_dict()}


def without_alone(directions: Directions, alone: tuple[str, ...]) -> dict[str, int]:
    return {name: sign for name, sign in directions.items() if name not in alone}


class Blended(Paired):
    """Takes the mean log odds of two estimators; columns that may only lower both may only lower the mean."""

    name = "blend"

    def __init__(self, line: Estimator, trees: Estimator) -> None:
        self.line = line
        self.trees = trees

    @property
    def parts(self) -> tuple[Estimator, Estimator]:
        return self.line, self.trees

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        return mean_odds(self.line.decision_function(features), self.trees.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "line": self.line.as_dict(), "trees": self.trees.as_dict()}


def mean_odds(line: Floats, trees: Floats) -> Floats:
    return (line + trees) / 2


def without_alone_of(model: object) -> Estimator | None:
    """Return the part without the columns that a person moves alone; None for a model that has no such part."""
    if isinstance(model, Lowered):
        return model.without
    if isinstance(model, Blended):
        line, trees = without_alone_of(model.line), without_alone_of(model.trees)
        return Blended(line, trees) if line is not None and trees is not None else None
    return None
