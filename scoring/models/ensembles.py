"""Combines two models: by the lower of their P(clean), or by the mean of their log odds. Pure.

The lower one is for what a person moves alone: it may lower P(clean) and never raise it. The mean joins a line that is
sure of little and trees that see what it cannot. On real history it beat the logistic model for every label (log-loss
.009 to .011 lower), where trees alone did not for sure: the mean errs less than either, the more so the less their
errors have in common.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scoring.dataset.cases import Directions
from scoring.models.base import Estimator, Floats, Paired


class Lowered(Paired):
    """The lower log odds of a model without the columns that a person moves alone, and of one with them."""

    def __init__(self, without: Estimator, whole: Estimator) -> None:
        self.without = without
        self.whole = whole

    @property
    def name(self) -> str:
        """Return the name of its models."""
        return self.whole.name

    @property
    def parts(self) -> tuple[Estimator, Estimator]:
        """Both, in the order of their making."""
        return self.without, self.whole

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """log odds of each row."""
        return np.minimum(self.without.decision_function(features), self.whole.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        """Both models as JSON holds them."""
        return {"name": "lowered", "without": self.without.as_dict(), "whole": self.whole.as_dict()}


def without_alone(directions: Directions, alone: tuple[str, ...]) -> dict[str, int]:
    """The columns that somebody else moves. What only speaks against a person is none of them: it can be undone."""
    return {name: sign for name, sign in directions.items() if name not in alone}


class Blended(Paired):
    """Two estimators, each of which what a person moves alone may only lower: then it may only lower the mean too."""

    name = "blend"

    def __init__(self, line: Estimator, trees: Estimator) -> None:
        self.line = line
        self.trees = trees

    @property
    def parts(self) -> tuple[Estimator, Estimator]:
        """Both, the simpler first."""
        return self.line, self.trees

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """log odds of each row."""
        return mean_odds(self.line.decision_function(features), self.trees.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        """Both models as JSON holds them."""
        return {"name": self.name, "line": self.line.as_dict(), "trees": self.trees.as_dict()}


def mean_odds(line: Floats, trees: Floats) -> Floats:
    """Return what the blend of two models says where they said this."""
    return (line + trees) / 2


def without_alone_of(model: object) -> Estimator | None:
    """The same model without the columns that a person moves alone; None for one that was fitted in one piece."""
    if isinstance(model, Lowered):
        return model.without
    if isinstance(model, Blended):
        line, trees = without_alone_of(model.line), without_alone_of(model.trees)
        return Blended(line, trees) if line is not None and trees is not None else None
    return None
