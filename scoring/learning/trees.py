"""The number of trees, chosen once a year: stopping early in each quarter would double the time of a backtest."""

import numpy as np

from scoring.estimators import make_estimator
from scoring.learning.boosted import Boosted
from scoring.learning.cases import Directions
from scoring.learning.lowered import Lowered
from scoring.learning.paired import Estimator


class Yearly:
    """Makes boosted models for rolling origins: the first of a year stops early, the others have as many trees."""

    def __init__(self, directions: Directions, seed: int, alone: tuple[str, ...] = ()) -> None:
        self.directions = directions
        self.seed = seed
        self.alone = alone
        self._first: dict[np.datetime64, Estimator] = {}

    def make(self, as_of: np.datetime64) -> Estimator:
        """A model for an origin; origins come in the order of time, each fitted before the next is made."""
        year = as_of.astype("datetime64[Y]")
        rounds = trees_of(self._first[year]) if year in self._first else None
        model = make_estimator("lightgbm", self.directions, self.seed, self.alone, rounds)
        if year not in self._first:
            self._first[year] = model
        return model


def trees_of(model: Estimator) -> int | None:
    """How many trees a fitted model has; None for one that has none, or that could not be fitted."""
    whole = model.whole if isinstance(model, Lowered) else model
    return getattr(whole, "rounds_", None) if isinstance(whole, Boosted) else None
