"""Of two models the lower: what a person moves alone may lower P(clean) and never raise it (DESIGN.md §1.9). Pure."""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from scoring.learning.design import Directions, Floats, Labels, probabilities


class Model(Protocol):
    """An estimator, as scoring.estimators describes it."""

    @property
    def name(self) -> str: ...

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self: ...

    def decision_function(self, features: Mapping[str, Floats]) -> Floats: ...

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats: ...

    def as_dict(self) -> dict[str, Any]: ...


class Lowered:
    """The lower log odds of a model without the columns that a person moves alone, and of one with them."""

    def __init__(self, without: Model, whole: Model) -> None:
        self.without = without
        self.whole = whole

    @property
    def name(self) -> str:
        """That of its models."""
        return self.whole.name

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Fit both; arguments and errors as those of every estimator."""
        for model in (self.without, self.whole):
            model.fit(features, labels, graph, as_of, weights)
        return self

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """log odds of each row."""
        return np.minimum(self.without.decision_function(features), self.whole.decision_function(features))

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        """(n, 2): not clean and clean, before calibration."""
        return probabilities(self.decision_function(features))

    def as_dict(self) -> dict[str, Any]:
        """Both models as JSON holds them."""
        return {"name": "lowered", "without": self.without.as_dict(), "whole": self.whole.as_dict()}


def without_alone(directions: Directions, alone: tuple[str, ...]) -> dict[str, int]:
    """The columns that somebody else moves. What only speaks against a person is none of them: it can be undone."""
    return {name: sign for name, sign in directions.items() if name not in alone}
