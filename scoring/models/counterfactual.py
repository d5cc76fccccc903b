"""Searches the model for changes that would bring a pull request's P(clean) to the next lane. Pure.

A way is something that others would have to do: more merges that stay clean, more trust, a denounce taken back. What a
person moves alone is no way, since it cannot open a lane.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.track_record import CLEAN, lately_rate
from scoring.models.base import Floats
from scoring.types import Needed

MOST_MERGES = 40  # nobody is told of more: it would be no way but a wish
TRUST_STEP = 0.05
# As features.sql shrinks them: so many pull requests of the repository's usual kind count beside somebody's own.
USUAL_MERGES, USUAL_PATCHED = 2, 4
Columns = Mapping[str, Floats]
Part = tuple[Callable[[Columns], Floats], Columns]  # P(clean) of rows, and the rows
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lever:
    """One thing that others can do.

    `tries` gives the amounts to be tried for the value of `column` now, the nearest first; `move` the columns of n rows
    after each has its amount (n).
    """

    name: str
    column: str
    tries: Callable[[float], Floats]
    move: Callable[[Columns, Floats], Columns]


def what_would_do(parts: Sequence[Part], targets: Floats, levers: Sequence[Lever] = ()) -> list[tuple[Needed, ...]]:
    """For each of n rows what alone, all else as it is, would bring P(clean) from below its target (n) to it.

    P is the lowest that any of the `parts` says, each a model with its columns of n rows; amounts are told of the last
    one's. The least amount that does, of each of `levers` (LEVERS without any); () where none does, and where the
    target is reached already or NaN. A lever whose column is unknown moves nothing.
    """
    ways: list[tuple[Needed, ...]] = [()] * len(targets)
    wanted = np.flatnonzero(~np.isnan(targets))
    if not len(wanted):
        return ways
    now = parts[-1][1]
    tries = [_Tries.of(lever, now[lever.column], wanted) for lever in levers or LEVERS]
    ends = np.cumsum([len(wanted), *(len(one.rows) for one in tries)])
    said = iter(np.split(_lowest(parts, wanted, tries), ends[:-1]))
    below = np.zeros(len(targets), dtype=bool)
    below[wanted] = next(said) < targets[wanted]
    for one, told in zip(tries, said, strict=True):
        does = np.flatnonzero((told >= targets[one.rows]) & below[one.rows])
        for row, place in zip(*np.unique(one.rows[does], return_index=True), strict=True):
            needed = Needed(one.lever.name, float(now[one.lever.column][row]), float(one.amounts[does[place]]))
            ways[row] = (*ways[row], needed)
    return ways


@dataclass(frozen=True, slots=True)
class _Tries:
    """The rows to try, each with an amount of a lever, those of one row together and the nearest first."""

    lever: Lever
    rows: Rows
    amounts: Floats

    @classmethod
    def of(cls, lever: Lever, now: Floats, wanted: Rows) -> "_Tries":
        tried = [lever.tries(value) for value in now[wanted]]
        rows = np.repeat(wanted, [len(amounts) for amounts in tried])
        return cls(lever, rows, np.concatenate(tried))

    def moved(self, columns: Columns) -> Columns:
        """The columns of every try."""
        return self.lever.move({name: column[self.rows] for name, column in columns.items()}, self.amounts)


def _lowest(parts: Sequence[Part], wanted: Rows, tries: Sequence[_Tries]) -> Floats:
    """P(clean) of the rows `wanted` as they are and then of every try, asked at once."""
    said = []
    for says, columns in parts:
        moved = [{name: column[wanted] for name, column in columns.items()}, *(one.moved(columns) for one in tries)]
        said.append(says({name: np.concatenate([one[name] for one in moved]) for name in columns}))
    return np.min(said, axis=0)


def _more_merges(columns: Columns, more: Floats) -> Columns:
    """So many more pull requests of theirs in this repository that were merged as sent and stayed clean."""
    merges, here = columns["merged_pr_count"], columns["merged_here"]
    asked = here + columns["refused_here"] + USUAL_MERGES
    kept = 1 - columns["close_without_merge_ratio"]  # the share that was merged, of all that settled
    moved = {name: columns[name] + more for name in ("merged_pr_count", "merged_here", CLEAN)}
    moved["merge_rate_here"] = (columns["merge_rate_here"] * asked + more) / (asked + more)
    with np.errstate(divide="ignore", invalid="ignore"):  # without a merge before there is no rate to carry on
        settled = np.where(kept > 0, merges / kept, columns["refused_here"])
        moved["close_without_merge_ratio"] = 1 - (merges + more) / (np.nan_to_num(settled) + more)
        moved["revert_rate"] = np.nan_to_num(columns["revert_rate"]) * merges / (merges + more)
    for name in ("patched_rate_here", "fix_rate_here"):
        moved[name] = columns[name] * (here + USUAL_PATCHED) / (here + USUAL_PATCHED + more)
    for where in ("", "_here"):
        lately = moved[f"lately_clean{where}"] = columns[f"lately_clean{where}"] + more
        moved[f"lately_rate{where}"] = lately_rate(
            lately, columns[f"lately_not_clean{where}"], columns[f"waiting_long{where}"]
        )
    return {**columns, **moved}


def _more_trust(columns: Columns, trust: Floats) -> Columns:
    return {**columns, "structural_trust": trust}


def _fewer_denounces(columns: Columns, left: Floats) -> Columns:
    return {**columns, "denounce_count": left}


def _numbers(value: float) -> Floats:
    return np.arange(1.0, MOST_MERGES + 1) if np.isfinite(value) else np.empty(0)


def _higher_trust(value: float) -> Floats:
    """Steps of TRUST_STEP above the trust now."""
    steps = np.arange(1, round(1 / TRUST_STEP) + 1) * TRUST_STEP
    return np.minimum(steps[steps > value], 1.0)


def _none_left(value: float) -> Floats:
    return np.zeros(1 if value > 0 else 0)


LEVERS = (
    Lever("clean_here", "merged_here", _numbers, _more_merges),
    Lever("structural_trust", "structural_trust", _higher_trust, _more_trust),
    Lever("denounce_count", "denounce_count", _none_left, _fewer_denounces),
)
