"""What every estimator does, and two of them told as one. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, Self

from scoring.learning.design import Floats, Labels, probabilities


class Estimator(Protocol):
    """Learns P(clean) in the manner of scikit-learn; learned values end in `_`.

    `features` are columns of one length n by name, NaN where a value is unknown; `labels` are 1 clean and 0 not.
    """

    @property
    def name(self) -> str: ...

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Learn; `weights` lie above 0. Raises FitProblem, in one sentence, where nothing can be learned."""
        ...

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        """(n, 2): not clean and clean, before calibration."""
        ...

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """log odds of clean, (n,)."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """The fitted model as JSON holds it."""
        ...


class Paired(ABC):
    """Two estimators that are fitted to the same rows."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Estimator, Estimator]: ...

    @abstractmethod
    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """log odds of each row, of what both say."""

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Fit both; arguments and errors as those of every estimator."""
        for model in self.parts:
            model.fit(features, labels, graph, as_of, weights)
        return self

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        """(n, 2): not clean and clean, before calibration."""
        return probabilities(self.decision_function(features))
