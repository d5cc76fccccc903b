"""How far a contributor can raise their own probability by what they move alone (DESIGN.md §1.9). Pure."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scoring.learning.design import Floats

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)  # quantiles of what others have
ROUNDS = 2


def largest_lift(
    probability: Callable[[Mapping[str, Floats]], Floats],
    features: Mapping[str, Floats],
    alone: Sequence[str],
    without: Floats | None = None,
) -> float:
    """The most that any of n rows gains when its `alone` columns take the best of values seen, or become unknown.

    One column after the other, ROUNDS times: each row keeps whatever raises it. 0 where nobody gains. `without` is
    what each has where those columns are not used at all: a model that they only lower gives nobody more than that.
    """
    moved = dict(features)
    best = probability(moved)
    start = best if without is None else np.maximum(best, without)
    for _ in range(ROUNDS):
        for name in (name for name in alone if name in features):
            for value in _levels(features[name]):
                tried = {**moved, name: np.full(len(start), value)}
                told = probability(tried)
                better = told > best + 1e-12
                moved = {**moved, name: np.where(better, value, moved[name])}
                best = np.maximum(best, told)
    return float((best - start).max(initial=0.0))


def _levels(column: Floats) -> list[float]:
    seen = column[np.isfinite(column)]
    return [*(np.unique(np.quantile(seen, LEVELS)).tolist() if len(seen) else []), float("nan")]
