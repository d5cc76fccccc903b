"""An author's settled record as it stood when each case was opened. Pure NumPy."""

import numpy as np
from numpy.typing import NDArray

from scoring.labels import outcomes
from scoring.learning.cases import Cases, LabelName, Times
from scoring.learning.simple import CLEAN, NOT_CLEAN

Floats = NDArray[np.float64]


def settled_record(cases: Cases, label: LabelName) -> dict[str, Floats]:
    """How many earlier cases of the same author were known to be clean, and not, at each opening: two columns.

    What is known at the moment of opening itself does not count: only what was seen before it.
    """
    found = outcomes(cases, label)
    return {
        CLEAN: _known_before(cases, found.known_from, found.clean == 1),
        NOT_CLEAN: _known_before(cases, found.known_from, found.clean == 0),
    }


def _known_before(cases: Cases, known_from: Times, which: NDArray[np.bool_]) -> Floats:
    """For each case, how many of `which` by its author were known before it was opened."""
    authors = np.concatenate([cases.authors, cases.authors[which]])
    times = np.concatenate([cases.opened_at, known_from[which]])
    # At one moment the opening comes first: what is known only then does not count.
    told = np.concatenate([np.zeros(len(cases), dtype=np.int64), np.ones(np.count_nonzero(which), dtype=np.int64)])
    order = np.lexsort((told, times, authors))
    running = np.cumsum(told[order])
    starts = np.diff(authors[order], prepend=authors[order][:1] - 1) != 0
    before = (running - told[order])[starts][np.cumsum(starts) - 1]
    counts = np.empty(len(order))
    counts[order] = running - before
    return counts[: len(cases)]
