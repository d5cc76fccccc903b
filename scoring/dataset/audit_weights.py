"""Reads the fast-laned pull requests, and the answers that people gave about those that the audit drew.

That nobody said anything of the others does not make them clean: they teach nothing and judge nothing. An answer stands
for as many as its odds say, 1 / odds, so that what is learned of the lane is not what happened to surface there
(measured: .029 too few bad ones of .051 by what surfaced, .003 by answers weighed so). Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases
from scoring.dataset.labels import Known


class Audited(NamedTuple):
    """A person's answer about a pull request that the audit drew, the odds of the draw, and when it was known."""

    odds: float
    bad: bool
    known_from: datetime


@dataclass(frozen=True, slots=True)
class Waved:
    """The pull requests that the fast lane let through, and those of them that were audited, by address."""

    audited: Mapping[str, Audited] = field(default_factory=dict)
    addresses: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.audited or self.addresses)

    def unheard(self, cases: Cases, as_of: np.datetime64 | None = None) -> NDArray[np.bool_]:
        """(n) which cases the lane let through without an answer, or without one by `as_of`."""
        return np.array([self._unheard(str(key), as_of) for key in cases.keys], dtype=np.bool_)

    def answered(self, cases: Cases, as_of: np.datetime64) -> Known:
        """The cases that were answered by then, each weighing 1 / odds."""
        found = [
            (place, one)
            for place, one in enumerate(self.audited.get(str(key)) for key in cases.keys)
            if one is not None and np.datetime64(one.known_from, "us") <= as_of
        ]
        return Known(
            np.array([place for place, _ in found], dtype=np.int64),
            np.array([not one.bad for _, one in found], dtype=np.int8),
            np.array([1 / one.odds for _, one in found], dtype=np.float64),
        )

    def hear(self, known: Known, cases: Cases, as_of: np.datetime64) -> Known:
        """Mined labels without those of what went unheard, and with the answers in the place of what they are about."""
        if not self:
            return known
        told = self.answered(cases, as_of)
        left = self.unheard(cases, as_of)
        left[told.positions] = True
        kept = ~left[known.positions]
        columns = [np.concatenate([mined[kept], answers]) for mined, answers in zip(known, told, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return Known(*(column[order] for column in columns))

    def _unheard(self, key: str, as_of: np.datetime64 | None) -> bool:
        answer = self.audited.get(key)
        if answer is not None and (as_of is None or np.datetime64(answer.known_from, "us") <= as_of):
            return False
        return key in self.addresses
