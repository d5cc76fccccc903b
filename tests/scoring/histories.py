"""Simulated histories with authors as clusters, of which the true rate under every threshold is known."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scoring.learning.lanes import Judged

Generator = np.random.Generator


class World:
    """Changes with log-odds of being bad of `base` + 1.5 x + what is their author's own, a normal of sd `of_author`.

    The score is P(clean | x), so it is calibrated over all authors and wrong for each of them.
    """

    def __init__(self, of_author: float, base: float = -2.0, people: int = 200_000) -> None:
        self.base, self.of_author = base, of_author
        nodes, weights = np.polynomial.hermite_e.hermegauss(21)
        self._nodes, self._weights = nodes, weights / weights.sum()
        draw = np.random.default_rng(0)
        x, own = draw.normal(size=people), draw.normal(size=people) * of_author
        scores, bad = self.scores(x), expit(base + 1.5 * x + own)
        order = np.argsort(-scores)
        self._scores, self._rates = scores[order], np.cumsum(bad[order]) / np.arange(1, people + 1)

    def scores(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(clean) of changes."""
        return 1 - expit(self.base + 1.5 * x[:, None] + self.of_author * self._nodes) @ self._weights

    def lane(self, threshold: float) -> tuple[float, float]:
        """The true rate of bad ones among all that score so high, and their share."""
        inside = int(np.searchsorted(-self._scores, -threshold, side="right"))
        return float(self._rates[max(inside - 1, 0)]), inside / len(self._scores)

    def clean_below(self, threshold: float) -> float:
        """The true share of all clean ones that scores lower."""
        rate, share = self.lane(threshold)
        return 1 - share * (1 - rate) / (1 - float(self._rates[-1])) if share else 1.0

    def best_share(self, budget: float) -> float:
        """The largest share that any lane within the budget has."""
        within = np.flatnonzero(self._rates <= budget)
        return (within[-1] + 1) / len(self._scores) if len(within) else 0.0

    def history(self, draw: Generator, cases: int, authors: int, skew: float = 1.0) -> Judged:
        """A year of changes by so many authors, of whom some send far more than others."""
        own, pace = draw.normal(size=authors) * self.of_author, draw.lognormal(0, skew, size=authors)
        who, x = draw.choice(authors, size=cases, p=pace / pace.sum()), draw.normal(size=cases)
        bad = draw.random(cases) < expit(self.base + 1.5 * x + own[who])
        seconds = np.sort(draw.integers(0, 365 * 86_400, cases)).astype("m8[s]")
        return Judged.of(self.scores(x), bad, who, np.datetime64("2025-01-01") + seconds)
