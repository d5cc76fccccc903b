"""Applies the serving model to people and to open changes, for a scoring pass.

Where no model serves, the shrunk rate does (`scoring.models.registry`). Features are as of now, those of a change, and
of the author of one that has gone quiet, as of its opening; trust is that of the table `trust`. For a change the lower
of two probabilities counts: that of the change, and that of its author alone, since authors can move the first by the
choice of what to send.

For a change below the next lane it also searches for changes of the features that would bring P(clean) there. Only
changes that others have to make count: more merges that stay clean, more trust, a withdrawn denounce. A feature that a
person moves alone cannot open a lane.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest.store.transaction import Rows
from scoring.dataset.cases import Cases
from scoring.dataset.dataset import NAMES, build_cases, load_current_trust, only_around, read_cases, read_features
from scoring.dataset.track_record import CLEAN, lately_rate, record_of_people
from scoring.models.base import Floats, wilson_interval
from scoring.models.calibration import interval_of
from scoring.models.contributions import contributions, largest
from scoring.models.registry import SHRUNK_RATE
from scoring.models.storage import ModelProblem, Shelf
from scoring.thresholds import Thresholds
from scoring.types import MOST_FACTORS, Estimate, Factor, Needed, Pair, Prediction

MOST_MERGES = 40  # a larger number is not shown: it would be out of reach
TRUST_STEP = 0.05
# As in features.sql: so many usual pull requests of the repository are added to a person's own.
USUAL_MERGES, USUAL_PATCHED = 2, 4
Columns = Mapping[str, Floats]
Part = tuple[Callable[[Columns], Floats], Columns]  # P(clean) of rows, and the rows
RowNumbers = NDArray[np.int64]


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


def find_ways(parts: Sequence[Part], targets: Floats) -> list[tuple[Needed, ...]]:
    """Return for each of n rows the single changes that would bring P(clean) from below its target (n) to it.

    P is the lowest of the `parts`, each a model with its columns of n rows; values are those of the last part. For each
    of LEVERS the least sufficient amount is returned; () where no lever suffices, and where the
    target is NaN or already reached. A lever on an unknown column moves nothing.
    """
    ways: list[tuple[Needed, ...]] = [()] * len(targets)
    asked_rows = np.flatnonzero(~np.isnan(targets))
    if not len(asked_rows):
        return ways
    now = parts[-1][1]
    tries = [_Tries.of(lever, now[lever.column], asked_rows) for lever in LEVERS]
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
    rows: RowNumbers
    amounts: Floats

    @classmethod
    def of(cls, lever: Lever, now: Floats, asked_rows: RowNumbers) -> "_Tries":
        tried = [lever.tries(value) for value in now[asked_rows]]
        rows = np.repeat(asked_rows, [len(amounts) for amounts in tried])
        return cls(lever, rows, np.concatenate(tried))

    def moved(self, columns: Columns) -> Columns:
        return self.lever.move({name: column[self.rows] for name, column in columns.items()}, self.amounts)


def _lowest(parts: Sequence[Part], asked_rows: RowNumbers, tries: Sequence[_Tries]) -> Floats:
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


LABEL = "label_clean_fix"  # the label that the served P(clean) predicts
SHRUNK = "beta"  # the name of the shrunk rate among the models
SIMILAR = 0.05  # P(clean) of similar cases differs by at most this
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of one model in one pass. `model` is its version; the shrunk rate serves for all others."""

    model: str = SHRUNK_RATE
    people: Mapping[Pair, Prediction] = field(default_factory=dict)
    changes: Mapping[str, Prediction] = field(default_factory=dict)


class ServingModel:
    """The serving model of a folder, read again when the pointer changes; an unusable model is logged once."""

    def __init__(self, folder: Path) -> None:
        self._shelf = Shelf(folder)
        self._logged = ""

    def model(self) -> Any:
        """Return the model (`storage.ServedModel`), None where the shrunk rate serves."""
        try:
            served, problem = self._shelf.model(LABEL), ""
        except ModelProblem as refused:
            served, problem = None, str(refused)
        if problem and problem != self._logged:
            logger.warning("The shrunk rate serves: %s.", problem)
        self._logged = problem
        return served


def version_of(served: Any) -> str:
    return SHRUNK_RATE if served is None else f"{LABEL}-{served.name[:12]}"


def predict(
    rows: Rows,
    served: Any,
    people: Collection[Pair],
    changes: Mapping[str, Pair],
    thresholds: Mapping[int, Thresholds],
    now: datetime,
    window_days: int,
) -> Predictions:
    """Predict P(clean) of these people, and of these open changes with their authors and repositories.

    `thresholds` by repository tell the next lane that a change could come into.
    """
    if served is None or served.person.model.name == SHRUNK:
        return Predictions()  # the gate computes the shrunk rate from the record
    if not people and not changes:
        return Predictions(version_of(served))  # LightGBM divides by the number of rows
    asked = sorted({*people, *changes.values()})
    columns, places, cases = read_columns(rows, asked, list(changes), now, window_days)
    # What lay quiet for long counts as refused itself: as of now it would lower its own author, so its opening counts.
    quiet = {str(key) for key in cases.keys[cases.refused_at <= np.datetime64(now)]}
    places_of_authors = {uri: places[uri if uri in quiet else author] for uri, author in changes.items()}
    version, by_person = version_of(served), _predict_scope(served.person, columns)
    change = None if served.change.model.name == SHRUNK else _predict_scope(served.change, columns)

    def of_change(uri: str) -> Prediction:
        of_author = by_person.at(places_of_authors[uri])
        estimates = [of_author] if change is None else [change.at(places[uri]), of_author]
        return Prediction(*min(estimates, key=_probability), version)

    predictions = {uri: of_change(uri) for uri in changes if uri in places}
    targets = np.array(
        [
            _next_threshold(thresholds.get(changes[uri][1]), prediction.estimate.probability)
            for uri, prediction in predictions.items()
        ]
    )
    scope_places = {
        "change": [places[uri] for uri in predictions],
        "person": [places_of_authors[uri] for uri in predictions],
    }
    ways = _ways(served, columns, scope_places, targets)
    return Predictions(
        version,
        {pair: Prediction(*by_person.at(places[pair]), version) for pair in people},
        {
            uri: replace(prediction, ways=needed)
            for (uri, prediction), needed in zip(predictions.items(), ways, strict=True)
        },
    )


def _next_threshold(thresholds: Thresholds | None, probability: float | None) -> float:
    """Return the P(clean) at which a change comes into the next lane; NaN where there is none."""
    if thresholds is None or probability is None:
        return np.nan
    high = thresholds.t_high
    return next((mark for mark in (thresholds.t_low, high) if mark is not None and probability < mark), np.nan)


def _ways(
    served: Any, columns: Mapping[str, Any], scope_places: Mapping[str, Sequence[int]], targets: Any
) -> list[tuple[Needed, ...]]:
    """Return the changes of features that would bring each change to its target.

    `scope_places` are the places of the changes in the columns, by scope.
    """
    parts = [(served.change, scope_places["change"]), (served.person, scope_places["person"])]
    used = parts[1:] if served.change.model.name == SHRUNK else parts
    return find_ways(
        [(part.probability, {name: column[places] for name, column in columns.items()}) for part, places in used],
        targets,
    )


def read_columns(
    rows: Rows,
    people: Sequence[Pair],
    changes: Sequence[str],
    now: datetime,
    window_days: int,
    heard: Collection[Pair] = (),
) -> tuple[dict[str, Any], dict[Pair | str, int], Cases]:
    """Read every column that a model may weigh, the place of each person and change in them, and the cases around.

    The cases are those of these people, of the people who are `heard` beside them, and of their repositories.
    """
    with only_around(rows, [*people, *heard]):
        build_cases(rows, now, window_days)
        load_current_trust(rows)
        columns, places = read_features(rows, people, changes, now)
        cases = read_cases(rows)
    at_site = [place for subject, place in places.items() if not isinstance(subject, str) and subject[1] == 0]
    for name in NAMES:
        if name.startswith("repository_"):  # the site is not a repository, so nothing is usual there
            columns[name][at_site] = np.nan
    theirs = cases.select(np.isin(cases.authors, [author for author, _ in people]))
    record = record_of_people(theirs, LABEL, people, now)
    row_of: dict[Pair | str, int] = {str(key): place for place, key in enumerate(theirs.keys)}
    row_of |= {pair: len(theirs) + place for place, pair in enumerate(people)}
    order = np.array([row_of[subject] for subject in places], dtype=np.int64)
    return {**columns, **{name: column[order] for name, column in record.items()}}, places, cases


@dataclass(frozen=True, slots=True)
class _ScopePredictions:
    """Predictions of one scope for all rows, as columns of one length."""

    columns: Mapping[str, Any]
    names: tuple[str, ...]
    probability: Any
    low: Any
    high: Any
    similar: Any
    effects: Any

    def at(self, place: int) -> tuple[Estimate, tuple[Factor, ...]]:
        estimate = Estimate(
            *(float(column[place]) for column in (self.probability, self.low, self.high)), int(self.similar[place])
        )
        largest_effects = largest(self.names, self.effects[place], MOST_FACTORS)
        return estimate, tuple(Factor(name, self._value(name, place), effect) for name, effect in largest_effects)

    def _value(self, name: str, place: int) -> float | int | None:
        value = float(self.columns[name][place])
        if not np.isfinite(value):
            return None
        return int(value) if value.is_integer() else value


def _predict_scope(part: Any, columns: Mapping[str, Any]) -> _ScopePredictions:
    shares = contributions(part.model, columns)
    odds = shares.scores  # the trees are walked once
    probability = part.calibration.probability(odds)
    similar = _count_similar(part.settled, probability)
    effects = shares.in_probability(part.calibration)[1]
    interval = _widen(*interval_of(part.grounds, odds, probability), probability, similar)
    return _ScopePredictions(columns, shares.names, probability, *interval, similar, effects)


def _widen(low: Floats, high: Floats, probability: Floats, similar: Any) -> tuple[Floats, Floats]:
    """Return intervals at least as wide as those of a share seen on so many similar cases: Wilson's, 95 %.

    Beyond the ends of what was seen the intervals of `interval_of` are narrow: one of 0 to .19 stood on one case.
    """
    seen_low, seen_high = wilson_interval(probability, np.maximum(similar, 1))
    return np.minimum(low, seen_low), np.maximum(high, seen_high)


def _count_similar(settled: Any, probability: Any) -> Any:
    """Count the settled cases, ascending by P(clean), within SIMILAR of each probability."""
    return np.searchsorted(settled, probability + SIMILAR, "right") - np.searchsorted(
        settled, probability - SIMILAR, "left"
    )


def _probability(estimate: tuple[Estimate, tuple[Factor, ...]]) -> float:
    chance = estimate[0].probability
    return 1.0 if chance is None else chance
