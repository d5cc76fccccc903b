"""Where a model lies below the shrunk rate in log-loss: by quarter, repository, newcomers and outsiders. Pure."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.learning.cases import Cases
from scoring.learning.design import Floats
from scoring.learning.figures import number
from scoring.learning.measures import interval, log_losses, mean_of

FEWEST_CASES, FEWEST_AUTHORS = 30, 10  # below this an interval over authors says nothing: that of one has no width
Mask = NDArray[np.bool_]


def splits_of(
    cases: Cases,
    quarters: NDArray[np.datetime64],
    repositories: Mapping[int, str],
    newcomers: Mask,
    which: Mask,
) -> dict[str, Mask]:
    """The cases of `which` by quarter and by repository, those by newcomers and those by who may not push there."""
    opened = cases.opened_at
    found = {
        f"from {start.astype('datetime64[D]')}": which & (opened >= start) & (opened < end)
        for start, end in pairwise(quarters)
    }
    found |= {name: which & (cases.repositories == one) for one, name in sorted(repositories.items())}
    found |= {"newcomers": which & newcomers, "without push-holders": which & ~cases.push_holder}
    return {name: part for name, part in found.items() if part.any()}


def gains_by_split(
    told: Floats,
    plain: Floats,
    came: Floats,
    authors: NDArray[np.int64],
    splits: Mapping[str, Mask],
    draws: int,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """For each split n, authors, the gain in log-loss of `told` over `plain` with its author-clustered 95 % interval,
    and whether it is worse for sure: by an upper bound below 0 over enough cases of enough authors."""
    return {
        name: _gain(told[part], plain[part], came[part], authors[part], draws, seed) for name, part in splits.items()
    }


def _gain(
    told: Floats, plain: Floats, came: Floats, authors: NDArray[np.int64], draws: int, seed: int
) -> dict[str, Any]:
    gains, people = log_losses(plain, came) - log_losses(told, came), len(np.unique(authors))
    low, high = interval(mean_of(gains), authors, draws, seed)
    enough = len(gains) >= FEWEST_CASES and people >= FEWEST_AUTHORS
    return {
        "n": len(gains),
        "authors": people,
        "log_loss": number(gains.mean()),
        "log_loss_ci": [number(low), number(high)],
        "worse": bool(enough and high < 0),
    }
