"""Of two models the lower: what a person moves alone may lower P(clean) and never raise it (DESIGN.md §1.9). Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scoring.learning.cases import Directions
from scoring.learning.design import Floats
from scoring.learning.paired import Estimator, Paired


class Lowered(Paired):
    """The lower log odds of a model without the columns that a person moves alone, and of one with them."""

    def __init__(self, without: Estimator, whole: Estimator) -> None:
        self.without = without
        self.whole = whole

    @property
    def name(self) -> str:
        """That of its models."""
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
