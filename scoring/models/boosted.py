"""Boosted trees (LightGBM): small, monotone where the direction is certain, stopped early on the latest slice."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from scoring.dataset.cases import Directions
from scoring.models.base import Design, FitProblem, Floats, Labels, checked_labels, probabilities

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
        """Return the log odds of each row. Raises FitProblem for a missing column."""
        values = Design(self.names_).matrix(features)
        return np.asarray(self.booster_.predict(values, raw_score=True, num_threads=1), dtype=np.float64)

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        """Return (n, 2), the chances of not clean and clean, before calibration."""
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
