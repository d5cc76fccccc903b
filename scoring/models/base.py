"""The common parts of every estimator: matrix of named columns, standardising, labels, interface, pairs. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
CLIP = 5.0  # standard deviations: a more extreme value moves no score further
BLOCK = 8_192  # rows
SIGMAS = 1.959964  # of a normal distribution on either side of a 95 % interval


def wilson_interval(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's 95 % interval of each share, within [0, 1], of n >= 1 (E. B. Wilson, JASA 1927)."""
    spread = SIGMAS**2 / n
    middle = share + spread / 2
    half = SIGMAS * np.sqrt(share * (1 - share) / n + spread / (4 * n))
    return np.maximum((middle - half) / (1 + spread), 0.0), np.minimum((middle + half) / (1 + spread), 1.0)


class FitProblem(ValueError):
    """The reason, in one sentence, why a model cannot be fitted to data or cannot be used."""


@dataclass(frozen=True, slots=True)
class Design:
    """The columns of the matrix, in their order."""

    names: tuple[str, ...]

    def matrix(self, features: Mapping[str, Floats], rows: int | None = None) -> Floats:
        """Return (n, columns), each column contiguous, with NaN where a value is unknown or infinite.

        Raises FitProblem for a missing column, and for one of another length than `rows`.
        """
        missing = [name for name in self.names if name not in features]
        if missing:
            raise FitProblem(f"these columns are missing: {', '.join(missing)}")
        if not self.names:
            raise FitProblem("a model needs at least one column")
        lengths = {len(features[name]) for name in self.names} | ({rows} if rows is not None else set())
        if len(lengths) != 1:
            raise FitProblem("features and labels must have one length")
        values = np.empty((lengths.pop(), len(self.names)), order="F")
        for column, name in zip(values.T, self.names, strict=True):
            column[:] = features[name]
        np.copyto(values, np.nan, where=~np.isfinite(values))
        return values


@dataclass(frozen=True, slots=True)
class Scales:
    """Scales that make columns comparable: signed log, the median for unknown values, mean 0 and deviation 1.

    A flag is added for each column with unknown values.
    """

    median: Floats
    mean: Floats
    deviation: Floats
    flagged: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Floats, weights: Floats) -> Self:
        """Learn scales from rows (n, columns) with weights (n); a column without any value becomes 0."""
        scales = [_scale(column, weights) for column in values.T]
        median, mean, deviation, flagged = (np.array(side) for side in zip(*scales, strict=True))
        return cls(median, mean, deviation, flagged)

    def apply(self, values: Floats) -> Floats:
        """Return (n, columns + flags) within CLIP deviations, computed in blocks: a million rows fit into memory."""
        width = values.shape[1]
        scaled = np.empty((len(values), width + int(self.flagged.sum())), order="F")
        for begin in range(0, len(values), BLOCK):
            part = slice(begin, begin + BLOCK)
            unknown = np.isnan(values[part])
            filled = np.where(unknown, self.median, _signed_log(values[part]))
            scaled[part, :width] = np.clip((filled - self.mean) / self.deviation, -CLIP, CLIP)
            scaled[part, width:] = unknown[:, self.flagged]
        return scaled

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; a deviation of 0 stands for a column that never varied."""
        deviation = np.where(np.isinf(self.deviation), 0.0, self.deviation)
        columns = {"median": self.median, "mean": self.mean, "deviation": deviation, "flagged": self.flagged}
        return {name: column.tolist() for name, column in columns.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `as_dict` returned."""
        median, mean, deviation = (np.asarray(stored[name], np.float64) for name in ("median", "mean", "deviation"))
        return cls(median, mean, np.where(deviation > 0, deviation, np.inf), np.asarray(stored["flagged"], np.bool_))


def checked_labels(labels: Any, weights: Any) -> tuple[Labels, Floats]:
    """Check labels 0 and 1 and weights above 0 (1 each if None). Raises FitProblem where nothing can be learned."""
    array = np.asarray(labels)
    weight_array = np.ones(len(array)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(array):
        raise FitProblem("there is no history to learn from")
    if not np.isin(array, (0, 1)).all():
        raise FitProblem("labels must be 0 or 1")
    if len(weight_array) != len(array) or not (np.isfinite(weight_array).all() and (weight_array > 0).all()):
        raise FitProblem("every label needs a weight above 0")
    if len(np.unique(array)) < 2:
        outcome = "clean" if array[0] else "not clean"
        raise FitProblem(f"all {len(array):,} outcomes are the same ({outcome}): there is nothing to tell apart")
    return array.astype(np.int8), weight_array


def probabilities(odds: Floats) -> Floats:
    """Return (n, 2), the chances of not clean and clean, from log odds."""
    clean = np.exp(-np.logaddexp(0.0, -odds))
    return np.column_stack([1 - clean, clean])


def _scale(column: Floats, weights: Floats) -> tuple[float, float, float, bool]:
    """Return median, mean, deviation (infinite for a constant column), and whether some values are unknown."""
    unknown = np.isnan(column)
    values = _signed_log(column)
    median = 0.0 if unknown.all() else float(np.median(values[~unknown]))
    filled = np.where(unknown, median, values)
    mean = float(np.average(filled, weights=weights))
    deviation = float(np.sqrt(np.average((filled - mean) ** 2, weights=weights)))
    return median, mean, deviation if deviation > 1e-9 else np.inf, bool(unknown.any())


def _signed_log(values: Floats) -> Floats:
    return np.sign(values) * np.log1p(np.abs(values))


class Estimator(Protocol):
    """The interface of scikit-learn for P(clean); learned values end in `_`.

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
        """Learn; `weights` are above 0. Raises FitProblem, in one sentence, where nothing can be learned."""
        ...

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        """Return (n, 2), the chances of not clean and clean, before calibration."""
        ...

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """Return the log odds of clean, (n,)."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Return the fitted model as JSON values."""
        ...


class Paired(ABC):
    """Two estimators that are fitted to the same rows."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Estimator, Estimator]: ...

    @abstractmethod
    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        """Combine the log odds of both for each row."""

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
        return probabilities(self.decision_function(features))
