"""Simulated histories with authors as clusters, of which the true rate under every threshold is known."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scoring.certificates.lane_counts import ScoredCases

Generator = np.random.Generator


class World:
    """Changes with log-odds of being bad of `base` + 1.5 x + what is their author's own, a normal of sd `of_author`.

    The score is P(clean | x), so it is calibrated over all authors and wrong for each of them. `drift` is by how much
    the log-odds rise from the beginning to the end of a history; what is true is so over all of it.
    """

    def __init__(self, of_author: float, base: float = -2.0, people: int = 200_000, drift: float = 0.0) -> None:
        self.base, self.of_author, self.drift = base, of_author, drift
        nodes, weights = np.polynomial.hermite_e.hermegauss(21)
        self._nodes, self._weights = nodes, weights / weights.sum()
        draw = np.random.default_rng(0)
        x, own = draw.normal(size=people), draw.normal(size=people) * of_author
        scores, bad = self.scores(x), expit(base + 1.5 * x + own + drift * (draw.random(people) - 0.5))
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

    def history(
        self, draw: Generator, cases: int, authors: int, skew: float = 1.0, burst: float = 0.0, days: int = 365
    ) -> ScoredCases:
        """Changes by so many authors, of whom some send far more than others; one sends `burst` of them in a month."""
        own, pace = draw.normal(size=authors) * self.of_author, draw.lognormal(0, skew, size=authors)
        who, x = draw.choice(authors, size=cases, p=pace / pace.sum()), draw.normal(size=cases)
        chance = draw.random(cases)
        seconds = np.sort(draw.integers(0, days * 86_400, cases))
        if burst:
            sent = draw.choice(cases, size=round(burst * cases), replace=False)
            who[sent] = draw.integers(authors)
            seconds[sent] = draw.integers(days - 30) * 86_400 + draw.integers(0, 30 * 86_400, len(sent))
        odds = self.base + 1.5 * x + own[who] + self.drift * (seconds / (days * 86_400) - 0.5)
        moments = np.datetime64("2025-01-01") + seconds.astype("m8[s]")
        return ScoredCases.of(self.scores(x), chance < expit(odds), who, moments)
