"""Searches for changes of the features that would bring a pull request's P(clean) to the next lane. Pure.

Only changes that others have to make count: more merges that stay clean, more trust, a withdrawn denounce. A feature
that a person moves alone cannot open a lane.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.track_record import CLEAN, lately_rate
from scoring.models.base import Floats
from scoring.types import Needed

MOST_MERGES = 40  # a larger number is not shown: it would be out of reach
TRUST_STEP = 0.05
# As in features.sql: so many usual pull requests of the repository are added to a person's own.
USUAL_MERGES, USUAL_PATCHED = 2, 4
Columns = Mapping[str, Floats]
Part = tuple[Callable[[Columns], Floats], Columns]  # P(clean) of rows, and the rows
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lever:
    """One change that others can make.

    `tries` returns the amounts to try for the present value of `column`, the nearest first; `move` returns the columns
    of n rows after the change by their amounts (n).
    """

    name: str
    column: str
    tries: Callable[[float], Floats]
    move: Callable[[Columns, Floats], Columns]


def find_ways(parts: Sequence[Part], targets: Floats, levers: Sequence[Lever] = ()) -> list[tuple[Needed, ...]]:
    """Return for each of n rows the single changes that would bring P(clean) from below its target (n) to it.

    P is the lowest of the `parts`, each a model with its columns of n rows; values are those of the last part. For each
    of `levers` (LEVERS by default) the least sufficient amount is returned; () where no lever suffices, and where the
    target is NaN or already reached. A lever on an unknown column moves nothing.
    """
    ways: list[tuple[Needed, ...]] = [()] * len(targets)
    asked_rows = np.flatnonzero(~np.isnan(targets))
    if not len(asked_rows):
        return ways
    now = parts[-1][1]
    tries = [_Tries.of(lever, now[lever.column], asked_rows) for lever in levers or LEVERS]
    ends = np.cumsum([len(asked_rows), *(len(tried.rows) for tried in tries)])
    probabilities = iter(np.split(_lowest(parts, asked_rows, tries), ends[:-1]))
    below = np.zeros(len(targets), dtype=bool)
    below[asked_rows] = next(probabilities) < targets[asked_rows]
    for tried, reached in zip(tries, probabilities, strict=True):
        enough = np.flatnonzero((reached >= targets[tried.rows]) & below[tried.rows])
        for row, place in zip(*np.unique(tried.rows[enough], return_index=True), strict=True):
            needed = Needed(tried.lever.name, float(now[tried.lever.column][row]), float(tried.amounts[enough[place]]))
            ways[row] = (*ways[row], needed)
    return ways


@dataclass(frozen=True, slots=True)
class _Tries:
    """The rows to try, each with an amount of a lever; tries of one row stand together, the nearest first."""

    lever: Lever
    rows: Rows
    amounts: Floats

    @classmethod
    def of(cls, lever: Lever, now: Floats, asked_rows: Rows) -> "_Tries":
        tried = [lever.tries(value) for value in now[asked_rows]]
        rows = np.repeat(asked_rows, [len(amounts) for amounts in tried])
        return cls(lever, rows, np.concatenate(tried))

    def moved(self, columns: Columns) -> Columns:
        """Return the columns of every try."""
        return self.lever.move({name: column[self.rows] for name, column in columns.items()}, self.amounts)


def _lowest(parts: Sequence[Part], asked_rows: Rows, tries: Sequence[_Tries]) -> Floats:
    """Return P(clean) of the rows as they are and then of every try, in one call of each model."""
    probabilities = []
    for predict, columns in parts:
        moved = [
            {name: column[asked_rows] for name, column in columns.items()},
            *(moved_rows.moved(columns) for moved_rows in tries),
        ]
        probabilities.append(
            predict({name: np.concatenate([moved_rows[name] for moved_rows in moved]) for name in columns})
        )
    return np.min(probabilities, axis=0)


def _more_merges(columns: Columns, more: Floats) -> Columns:
    """Add merged pull requests in this repository that were merged as sent and stayed clean."""
    merges, here = columns["merged_pr_count"], columns["merged_here"]
    weight_here = here + columns["refused_here"] + USUAL_MERGES
    merged_share = 1 - columns["close_without_merge_ratio"]  # of all settled pull requests
    moved = {name: columns[name] + more for name in ("merged_pr_count", "merged_here", CLEAN)}
    moved["merge_rate_here"] = (columns["merge_rate_here"] * weight_here + more) / (weight_here + more)
    with np.errstate(divide="ignore", invalid="ignore"):  # without an earlier merge there is no rate to continue
        settled = np.where(merged_share > 0, merges / merged_share, columns["refused_here"])
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


def _numbers_to_try(value: float) -> Floats:
    return np.arange(1.0, MOST_MERGES + 1) if np.isfinite(value) else np.empty(0)


def _trust_to_try(value: float) -> Floats:
    """Return steps of TRUST_STEP above the present trust."""
    steps = np.arange(1, round(1 / TRUST_STEP) + 1) * TRUST_STEP
    return np.minimum(steps[steps > value], 1.0)


def _denounces_to_try(value: float) -> Floats:
    return np.zeros(1 if value > 0 else 0)


LEVERS = (
    Lever("clean_here", "merged_here", _numbers_to_try, _more_merges),
    Lever("structural_trust", "structural_trust", _trust_to_try, _more_trust),
    Lever("denounce_count", "denounce_count", _denounces_to_try, _fewer_denounces),
)
