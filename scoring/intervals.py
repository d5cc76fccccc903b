"""How sure a P(clean) is: a 95 % interval from Venn-Abers pairs of groups of people, each calibrated by itself. Pure.

One pair of all cases is two calibrations and no interval: it held the true probability in 10 to 34 of 100 draws, and
together with Platt's P in 42 to 55. Of GROUPS groups that share no author all err to one side once in eight times where
each errs to both sides alike, and each gives a pair: from the lowest p0 to the highest p1 held it in 94 to 100
(100 to 3,000 cases, authors as clusters of very unequal size, true maps that are no Platt map).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoring.calibration import Steps, venn_abers

Floats = NDArray[np.float64]
GROUPS = 4


class Behind(NamedTuple):
    """The cases behind a map, columns of one length: log odds as given at opening, 1 for clean and 0 for not, what each
    weighs, and the group of its author in [0, GROUPS). A case that is not settled is two rows whose weights sum to 1.
    """

    odds: Floats
    came: Floats
    weights: Floats
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, odds: Floats, came: NDArray[Any], weights: Floats, authors: NDArray[np.int64]) -> "Behind":
        """Authors dealt to the groups from the most rows to the fewest, so that no group has all who send much."""
        _, of_author, counts = np.unique(authors, return_inverse=True, return_counts=True)
        dealt = np.empty(len(counts), dtype=np.int64)
        dealt[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) % GROUPS
        return cls(odds, np.asarray(came, dtype=np.float64), weights, dealt[of_author])

    @property
    def is_settled(self) -> NDArray[np.bool_]:
        """Which rows are cases whose outcome is certain."""
        return self.weights >= 1

    def grounds(self) -> list[Steps]:
        """The cases of each group by score, which every interval around their map rests on; none without all groups."""
        own = [self.groups == group for group in range(GROUPS)]
        if not all(one.any() for one in own):
            return []
        return [Steps.of(self.odds[one], self.came[one], self.weights[one]) for one in own]


def interval_of(grounds: Sequence[Steps], odds: Floats, told: Floats) -> tuple[Floats, Floats]:
    """(low, high) around each probability `told` of a score `odds`; everything, 0 to 1, where a group has no case.

    `grounds` as `Behind.grounds` gives them.
    """
    if not grounds:
        return np.zeros(len(told)), np.ones(len(told))
    pairs = [venn_abers(steps, odds) for steps in grounds]
    return np.min([told, *(low for low, _ in pairs)], axis=0), np.max([told, *(high for _, high in pairs)], axis=0)
