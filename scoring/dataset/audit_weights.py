"""Weighs the answers of the audit, and leaves out fast-laned pull requests without an answer. Pure.

A fast-laned pull request without an answer is not known to be clean, so it is neither learned from nor judged by. An
answer weighs 1 / odds. Outcomes that surfaced by themselves showed .029 too few bad ones of .051, weighed answers .003.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases
from scoring.dataset.labels import WeightedLabels


class AuditAnswer(NamedTuple):
    """A person's answer about a pull request that the audit drew, the odds of the draw, and when it was known."""

    odds: float
    bad: bool
    known_from: datetime


@dataclass(frozen=True, slots=True)
class FastLaned:
    """The pull requests that the fast lane let through, and those of them that were audited, by address."""

    audited: Mapping[str, AuditAnswer] = field(default_factory=dict)
    addresses: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.audited or self.addresses)

    def unanswered(self, cases: Cases, as_of: np.datetime64 | None = None) -> NDArray[np.bool_]:
        """Return a mask of the cases that the lane let through without an answer, or without one by `as_of`."""
        return np.array([self._is_unanswered(str(key), as_of) for key in cases.keys], dtype=np.bool_)

    def answered(self, cases: Cases, as_of: np.datetime64) -> WeightedLabels:
        """Return labels of the cases that were answered by then, each with the weight 1 / odds."""
        answers = [
            (place, answer)
            for place, answer in enumerate(self.audited.get(str(key)) for key in cases.keys)
            if answer is not None and np.datetime64(answer.known_from, "us") <= as_of
        ]
        return WeightedLabels(
            np.array([place for place, _ in answers], dtype=np.int64),
            np.array([not answer.bad for _, answer in answers], dtype=np.int8),
            np.array([1 / answer.odds for _, answer in answers], dtype=np.float64),
        )

    def apply_answers(self, labels: WeightedLabels, cases: Cases, as_of: np.datetime64) -> WeightedLabels:
        """Drop the mined labels of fast-laned cases, and add the answers."""
        if not self:
            return labels
        of_answers = self.answered(cases, as_of)
        dropped = self.unanswered(cases, as_of)
        dropped[of_answers.positions] = True
        remaining = ~dropped[labels.positions]
        columns = [
            np.concatenate([mined[remaining], answers]) for mined, answers in zip(labels, of_answers, strict=True)
        ]
        order = np.argsort(columns[0], kind="stable")
        return WeightedLabels(*(column[order] for column in columns))

    def _is_unanswered(self, key: str, as_of: np.datetime64 | None) -> bool:
        answer = self.audited.get(key)
        if answer is not None and (as_of is None or np.datetime64(answer.known_from, "us") <= as_of):
            return False
        return key in self.addresses
