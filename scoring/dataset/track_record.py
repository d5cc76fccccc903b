"""An author's record as it stood when each case was opened, under the label that is learned. Pure NumPy.

These columns need the label, and so stand beside those of features.sql, which are the same for every label.
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
FADE_DAYS = 180.0  # half of what was settled so long ago still counts
WAIT_DAYS = 30.0  # what waits so long is half refused: of real merges nine in ten came sooner
PRIOR, STRENGTH = 0.7, 3.0  # of the faded rate

RECORD = (
    Feature(CLEAN, "their earlier pull requests that turned out clean", "pull requests", 1, "push-holder"),
    Feature(NOT_CLEAN, "their earlier pull requests that turned out not clean", "pull requests", -1, "push-holder"),
    Feature("waiting_long", "their pull requests that have waited long, everywhere", "pull requests", -1, "self"),
    Feature("waiting_long_here", "their pull requests that have waited long here", "pull requests", -1, "self"),
    Feature("lately_clean", "their lately clean pull requests, everywhere", "pull requests", 1, "push-holder"),
    Feature("lately_clean_here", "their lately clean pull requests here", "pull requests", 1, "push-holder"),
    Feature("lately_not_clean", "their lately not clean pull requests, everywhere", "pull requests", 0, "self"),
    Feature("lately_not_clean_here", "their lately not clean pull requests here", "pull requests", 0, "self"),
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
    """A column of length n for each of RECORD. Only what was known before the moment of opening counts.

    What waits counts as 1 - 2^(-days / WAIT_DAYS), what is settled as 2^(-days / FADE_DAYS).
    """
    found = outcomes(cases, label)
    good, bad = found.clean == 1, found.clean == 0
    columns = {
        CLEAN: _sums(cases, cases.authors, good, found.known_from, np.inf),
        NOT_CLEAN: _sums(cases, cases.authors, bad, found.known_from, np.inf),
    }
    _, pairs = np.unique(np.stack([cases.authors, cases.repositories]), axis=1, return_inverse=True)
    for where, groups in (("", cases.authors), ("_here", np.ravel(pairs))):
        clean = _sums(cases, groups, good, found.known_from, FADE_DAYS)
        other = _sums(cases, groups, bad, found.known_from, FADE_DAYS)
        waits = _waiting(cases, groups)
        columns |= {f"waiting_long{where}": waits, f"lately_clean{where}": clean, f"lately_not_clean{where}": other}
        columns[f"lately_rate{where}"] = lately_rate(clean, other, waits)
    return columns


def with_record(record: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Of which cases something that the author had sent before was settled by then, from `settled_record`."""
    return record[CLEAN] + record[NOT_CLEAN] > 0


def lately_rate(clean: Floats, other: Floats, waits: Floats) -> Floats:
    """The faded clean rate of what counts as `clean`, `other` and waiting, each (n), shrunk towards PRIOR."""
    return (clean + PRIOR * STRENGTH) / (clean + other + waits + STRENGTH)


def record_of_people(
    cases: Cases, label: LabelName, people: Sequence[tuple[int, int]], now: datetime
) -> dict[str, Floats]:
    """A column for each of RECORD of all cases, and behind them of people (author, repository) as of now.

    Nobody's case may have been opened later than now.
    """
    authors, repositories = (np.array([one[side] for one in people], dtype=np.int64) for side in (0, 1))
    return settled_record(cases.and_people(authors, repositories, np.datetime64(now, "us")), label)


def _waiting(cases: Cases, groups: NDArray[np.int64]) -> Floats:
    """Return how much of a group's earlier cases waits: their number, less what is new about them."""
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
    which: NDArray[np.bool_],
    known_from: Times,
    half_life: float,
    values: Floats | None = None,
) -> Floats:
    """For each case the sum of `values` (1 each) of `which` of its group known before its opening, halved every
    `half_life` days since."""
    added = np.ones(len(cases)) if values is None else values
    group = np.concatenate([groups, groups[which]])
    times = np.concatenate([cases.opened_at, known_from[which]])
    worth = np.concatenate([np.zeros(len(cases)), added[which]])
    # At one moment the opening comes first: what is known only then does not count.
    order = np.lexsort((np.arange(len(times)) >= len(cases), times, group))
    sums = np.empty(len(times))
    sums[order] = _scan(group[order], times[order], worth[order], half_life)
    return sums[: len(cases)]


def _scan(group: NDArray[np.int64], times: Times, worth: Floats, half_life: float) -> Floats:
    """The fading sum before each event, groups together and in the order of time; one step for all groups at once."""
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
        left = _still(sizes, step, left)
        now = starts[:left] + step
        if step:
            state[:left] *= 0.5 ** ((days[now] - days[now - 1]) / half_life)
        before[now] = state[:left]
        state[:left] += worth[now]
    return before


def _still(sizes: NDArray[np.int64], step: int, left: int) -> int:
    """Return how many of the groups, which descend in size, have more than `step` events."""
    while sizes[left - 1] <= step:
        left -= 1
    return left
