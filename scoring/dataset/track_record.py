"""The author's record at the opening of each case, under the label that is learned. Pure NumPy.

These columns depend on the label; those of features.sql do not.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases, LabelName, Times
from scoring.dataset.catalogue import Feature
from scoring.dataset.labels import outcomes

CLEAN, NOT_CLEAN = "clean_before", "not_clean_before"  # the author's settled record under the label that is learned
Floats = NDArray[np.float64]
DAY = np.timedelta64(1, "D")
FADE_DAYS = 180.0  # a case that was settled so long ago counts half
WAIT_DAYS = 30.0  # a case that waits so long counts as half refused: nine of ten real merges came sooner
PRIOR, STRENGTH = 0.7, 3.0  # of the faded rate

RECORD = (
    Feature(CLEAN, "their earlier pull requests that turned out clean", "pull requests", 1, "push-holder"),
    Feature(
        NOT_CLEAN,
        "their earlier pull requests that were refused, left for 180 days, reverted or fixed",
        "pull requests",
        -1,
        "push-holder",
    ),
    Feature("waiting_long", "their pull requests that have waited long, everywhere", "pull requests", -1, "self"),
    Feature("waiting_long_here", "their pull requests that have waited long here", "pull requests", -1, "self"),
    Feature("lately_clean", "theirs that lately stayed clean, everywhere", "pull requests", 1, "push-holder"),
    Feature("lately_clean_here", "theirs that lately stayed clean here", "pull requests", 1, "push-holder"),
    Feature("lately_not_clean", "theirs that lately went wrong, everywhere", "pull requests", 0, "self"),
    Feature("lately_not_clean_here", "theirs that lately went wrong here", "pull requests", 0, "self"),
    Feature(
        "lately_rate", "the share of their lately settled or long waiting ones that was clean", "0 to 1", 0, "self"
    ),
    Feature(
        "lately_rate_here",
        "the share of their lately settled or long waiting ones here that was clean",
        "0 to 1",
        0,
        "self",
    ),
)


def settled_record(cases: Cases, label: LabelName) -> dict[str, Floats]:
    """Return a column of length n for each of RECORD, from facts known before the opening.

    A waiting case counts as 1 - 2^(-days / WAIT_DAYS), a settled one as 2^(-days / FADE_DAYS).
    """
    known = outcomes(cases, label)
    good, bad = known.clean == 1, known.clean == 0
    columns = {
        CLEAN: _sums(cases, cases.authors, good, known.known_from, np.inf),
        NOT_CLEAN: _sums(cases, cases.authors, bad, known.known_from, np.inf),
    }
    _, pairs = np.unique(np.stack([cases.authors, cases.repositories]), axis=1, return_inverse=True)
    for where, groups in (("", cases.authors), ("_here", np.ravel(pairs))):
        clean = _sums(cases, groups, good, known.known_from, FADE_DAYS)
        not_clean = _sums(cases, groups, bad, known.known_from, FADE_DAYS)
        waiting = _waiting(cases, groups)
        columns |= {
            f"waiting_long{where}": waiting,
            f"lately_clean{where}": clean,
            f"lately_not_clean{where}": not_clean,
        }
        columns[f"lately_rate{where}"] = lately_rate(clean, not_clean, waiting)
    return columns


def with_record(record: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Return a mask of the cases whose author had a settled case before, from `settled_record`."""
    return record[CLEAN] + record[NOT_CLEAN] > 0


def with_bad_record(record: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Return a mask of those whose record is at least half not clean: whom a low chance flags in the gate."""
    return (record[NOT_CLEAN] > 0) & (record[NOT_CLEAN] >= record[CLEAN])


def lately_rate(clean: Floats, not_clean: Floats, waiting: Floats) -> Floats:
    """Return the faded clean rate of `clean`, `not_clean` and `waiting` counts, each (n), shrunk towards PRIOR."""
    return (clean + PRIOR * STRENGTH) / (clean + not_clean + waiting + STRENGTH)


def record_of_people(
    cases: Cases, label: LabelName, people: Sequence[tuple[int, int]], now: datetime
) -> dict[str, Floats]:
    """Return a column for each of RECORD of all cases, and after them of people (author, repository) as of now.

    No case may be opened later than now.
    """
    authors, repositories = (np.array([pair[side] for pair in people], dtype=np.int64) for side in (0, 1))
    return settled_record(cases.and_people(authors, repositories, np.datetime64(now, "us")), label)


def _waiting(cases: Cases, groups: NDArray[np.int64]) -> Floats:
    """Return how many of a group's earlier cases wait: their number, less the share that is still fresh."""
    ended = np.fmin(cases.merged_at, cases.refused_at)
    out = ~np.isnat(ended)
    everything = np.ones(len(cases), dtype=bool)
    number = _sums(cases, groups, everything, cases.opened_at, np.inf) - _sums(cases, groups, out, ended, np.inf)
    left = 0.5 ** ((ended - cases.opened_at) / DAY / WAIT_DAYS)
    fresh = _sums(cases, groups, everything, cases.opened_at, WAIT_DAYS)
    fresh -= _sums(cases, groups, out, ended, WAIT_DAYS, left)
    return np.maximum(number - fresh, 0.0)


def _sums(
    cases: Cases,
    groups: NDArray[np.int64],
    counted: NDArray[np.bool_],
    known_from: Times,
    half_life: float,
    values: Floats | None = None,
) -> Floats:
    """Return for each case the sum of `values` (1 each) of the `counted` cases of its group known before its opening.

    A value is halved every `half_life` days.
    """
    added = np.ones(len(cases)) if values is None else values
    group = np.concatenate([groups, groups[counted]])
    times = np.concatenate([cases.opened_at, known_from[counted]])
    worth = np.concatenate([np.zeros(len(cases)), added[counted]])
    # At the same moment the opening comes first: a fact known only then does not count.
    order = np.lexsort((np.arange(len(times)) >= len(cases), times, group))
    sums = np.empty(len(times))
    sums[order] = _fading_sums(group[order], times[order], worth[order], half_life)
    return sums[: len(cases)]


def _fading_sums(group: NDArray[np.int64], times: Times, worth: Floats, half_life: float) -> Floats:
    """Return the fading sum before each event, in the order of groups and time; all groups advance one step at once."""
    if not len(group):
        return np.zeros(0)
    days = (times - times.min()) / DAY
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    sizes = np.diff(starts, append=len(group))
    order = np.argsort(-sizes, kind="stable")
    starts, sizes = starts[order], sizes[order]
    before, state = np.zeros(len(group)), np.zeros(len(starts))
    left = len(starts)
    for step in range(int(sizes[0])):
        left = _count_active(sizes, step, left)
        now = starts[:left] + step
        if step:
            state[:left] *= 0.5 ** ((days[now] - days[now - 1]) / half_life)
        before[now] = state[:left]
        state[:left] += worth[now]
    return before


def _count_active(sizes: NDArray[np.int64], step: int, left: int) -> int:
    """Count the groups with more than `step` events; they are sorted by size, the largest first."""
    while sizes[left - 1] <= step:
        left -= 1
    return left
