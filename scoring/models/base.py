"""The common parts of every estimator: the matrix of named columns, standardised, its labels, its interface. Pure.

Two estimators can be told as one.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int8]
CLIP = 5.0  # standard deviations: one absurd value moves no score further
BLOCK = 8_192  # rows


class FitProblem(ValueError):
    """The reason, in one sentence, why nothing can be learned from data or why a model cannot be used."""


@dataclass(frozen=True, slots=True)
class Design:
    """The columns of the matrix, in their order."""

    names: tuple[str, ...]

    def matrix(self, features: Mapping[str, Floats], rows: int | None = None) -> Floats:
        """(n, columns), each column in one piece, with NaN where a value is unknown or infinite.

        Raises FitProblem for a column that is missing, and for one of another length than `rows`.
        """
        missing = [name for name in self.names if name not in features]
        if missing:
            raise FitProblem(f"these columns are missing: {', '.join(missing)}")
        if not self.names:
            raise FitProblem("a model needs at least one column")
        lengths = {len(features[name]) for name in self.names} | ({rows} if rows is not None else set())
        if len(lengths) != 1:
            raise FitProblem("features and labels must have one length")
        found = np.empty((lengths.pop(), len(self.names)), order="F")
        for column, name in zip(found.T, self.names, strict=True):
            column[:] = features[name]
        np.copyto(found, np.nan, where=~np.isfinite(found))
        return found


@dataclass(frozen=True, slots=True)
class Scales:
    """Columns made comparable: signed log, the median where a value is unknown, mean 0 and deviation 1, then a flag
    for each column of which some were unknown."""

    median: Floats
    mean: Floats
    deviation: Floats
    flagged: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Floats, weights: Floats) -> Self:
        """Learned from rows (n, columns) with weights (n); a column without any value is 0 throughout."""
        found = [_scale(column, weights) for column in values.T]
        median, mean, deviation, flagged = (np.array(side) for side in zip(*found, strict=True))
        return cls(median, mean, deviation, flagged)

    def apply(self, values: Floats) -> Floats:
        """(n, columns + flags) within CLIP standard deviations, a block at a time: a million rows fit into memory."""
        width = values.shape[1]
        found = np.empty((len(values), width + int(self.flagged.sum())), order="F")
        for begin in range(0, len(values), BLOCK):
            part = slice(begin, begin + BLOCK)
            unknown = np.isnan(values[part])
            filled = np.where(unknown, self.median, _squeezed(values[part]))
            found[part, :width] = np.clip((filled - self.mean) / self.deviation, -CLIP, CLIP)
            found[part, width:] = unknown[:, self.flagged]
        return found

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it; a deviation of 0 stands for a column that never moved."""
        deviation = np.where(np.isinf(self.deviation), 0.0, self.deviation)
        columns = {"median": self.median, "mean": self.mean, "deviation": deviation, "flagged": self.flagged}
        return {name: column.tolist() for name, column in columns.items()}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """As `as_dict` gave it."""
        median, mean, deviation = (np.asarray(kept[name], np.float64) for name in ("median", "mean", "deviation"))
        return cls(median, mean, np.where(deviation > 0, deviation, np.inf), np.asarray(kept["flagged"], np.bool_))


def checked_labels(labels: Any, weights: Any) -> tuple[Labels, Floats]:
    """Labels 0 and 1 with weights above 0 (1 each without any). Raises FitProblem where nothing can be learned."""
    found = np.asarray(labels)
    shares = np.ones(len(found)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(found):
        raise FitProblem("there is no history to learn from")
    if not np.isin(found, (0, 1)).all():
        raise FitProblem("labels must be 0 or 1")
    if len(shares) != len(found) or not (np.isfinite(shares).all() and (shares > 0).all()):
        raise FitProblem("every label needs a weight above 0")
    if len(np.unique(found)) < 2:
        what = "clean" if found[0] else "not clean"
        raise FitProblem(f"all {len(found):,} outcomes are the same ({what}): there is nothing to tell apart")
    return found.astype(np.int8), shares


def probabilities(odds: Floats) -> Floats:
    """(n, 2): not clean and clean, from log odds."""
    clean = np.exp(-np.logaddexp(0.0, -odds))
    return np.column_stack([1 - clean, clean])


def _scale(column: Floats, weights: Floats) -> tuple[float, float, float, bool]:
    """Median, mean and deviation (infinite for a column that never moves), and whether some of it is unknown."""
    unknown = np.isnan(column)
    values = _squeezed(column)
    median = 0.0 if unknown.all() else float(np.median(values[~unknown]))
    filled = np.where(unknown, median, values)
    mean = float(np.average(filled, weights=weights))
    deviation = float(np.sqrt(np.average((filled - mean) ** 2, weights=weights)))
    return median, mean, deviation if deviation > 1e-9 else np.inf, bool(unknown.any())


def _squeezed(values: Floats) -> Floats:
    return np.sign(values) * np.log1p(np.abs(values))


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
