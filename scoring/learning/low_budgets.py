"""Whom a certified T_LOW would really have sent to a person, month by month, with only what was known then."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.learning.budgets import CERTIFICATE_DELTA, scores_then
from scoring.learning.certificate import delta_of
from scoring.learning.figures import number
from scoring.learning.rolling import Clock, Past, Scored, serving_since
from scoring.low_threshold import choose_low


def told_low(
    past: Past,
    scored: Sequence[Scored],
    came: NDArray[np.int8],
    group: NDArray[np.bool_],
    judged: NDArray[np.bool_],
    clock: Clock,
    budget: float,
) -> dict[str, Any]:
    """What became of the cases of `group` that scored below T_LOW, counted where `judged`; shares in [0, 1].

    T_LOW is certified anew each month as `train` does; a refused attempt leaves the one before in force for as long as
    the same model serves. `clean_sent` is the share of all clean ones that was sent, which the budget is of; `months`
    counts those that began with a T_LOW in force.
    """
    flagged, months = _flagged(past, scored, group, clock, budget)
    of, inside, clean = judged & group, flagged & judged, came == 1
    return {
        "n": int(of.sum()),
        "months": months,
        "sent": int(inside.sum()),
        "clean_sent": number((inside & clean).sum() / max((of & clean).sum(), 1)),
        "bad_sent": number((inside & ~clean).sum() / max((of & ~clean).sum(), 1)),
    }


def _flagged(
    past: Past, scored: Sequence[Scored], group: NDArray[np.bool_], clock: Clock, budget: float
) -> tuple[NDArray[np.bool_], int]:
    cases, told = past.cases, np.min([one.told for one in scored], axis=0)
    flagged, standing, serving, months = np.zeros(len(group), dtype=bool), None, None, 0
    for attempt, (start, end) in enumerate(zip(clock.months[:-1], clock.months[1:], strict=True), 1):
        since = serving_since(clock, start)
        judged = scores_then(past, scored, group, start, since)
        found = choose_low(judged, budget, delta_of(CERTIFICATE_DELTA, attempt)).threshold
        standing = found if found is not None else standing if since == serving else None
        serving, months = since, months + (standing is not None)
        opened = group & (cases.opened_at >= start) & (cases.opened_at < end)
        flagged[opened] = told[opened] < (-np.inf if standing is None else standing)
    return flagged, months
