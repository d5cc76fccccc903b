"""How wide the intervals around P(clean) were that would have been shown: Venn-Abers, quarter by quarter. Pure."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.intervals import interval_of
from scoring.learning.design import Floats
from scoring.learning.figures import number
from scoring.learning.rolling import Clock, Past, Scored, behind_at

WIDE = 0.1
Mask = NDArray[np.bool_]


def widths_of(past: Past, scored: Scored, clock: Clock, tested: Mask, newcomers: Mask) -> dict[str, Any]:
    """n, mean width, and the share wider than WIDE, of the cases in `tested` (n); under 'newcomers' of both."""
    widths = interval_widths(past, scored, clock, tested)
    return {**_told(widths[tested]), "newcomers": _told(widths[tested & newcomers])}


def interval_widths(past: Past, scored: Scored, clock: Clock, which: Mask) -> Floats:
    """Of n cases the width in [0, 1] of the interval shown with P(clean) at opening; NaN outside `which` and judged.

    It rests on what was known when the quarter began, and holds P itself; with nothing known it is everything.
    """
    widths = np.full(len(which), np.nan)
    opened = past.cases.opened_at
    for start, end in pairwise(clock.quarters[clock.quarters >= clock.judged_from]):
        part = np.flatnonzero(which & (opened >= start) & (opened < end) & ~np.isnan(scored.odds))
        if len(part):
            low, high = interval_of(behind_at(past, scored.odds, start).grounds(), scored.odds[part], scored.told[part])
            widths[part] = high - low
    return widths


def _told(widths: Floats) -> dict[str, Any]:
    known = widths[~np.isnan(widths)]
    if not len(known):
        return {"n": 0, "mean": None, "wide_share": None}
    return {"n": len(known), "mean": number(known.mean()), "wide_share": number((known > WIDE).mean())}
