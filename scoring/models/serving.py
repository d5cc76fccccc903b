"""Applies the serving model to people and to open changes, for a scoring pass.

Where no model serves, the shrunk rate does (`scoring.models.registry`). Features are as of now, trust is that of the
table `trust`. For a change the lower of two probabilities counts: that of the change, and that of its author alone,
since authors can move the first by the choice of what to send.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ingest.store.transaction import Rows
from scoring.dataset.dataset import build_cases, only_around, read_cases
from scoring.dataset.features import NAMES, read_features
from scoring.dataset.past_trust import load_current_trust
from scoring.dataset.track_record import record_of_people
from scoring.models.calibration import interval_of
from scoring.models.contributions import contributions, largest
from scoring.models.counterfactual import find_ways
from scoring.models.registry import SHRUNK_RATE
from scoring.models.storage import ModelProblem, Shelf
from scoring.thresholds import Thresholds
from scoring.types import Estimate, Factor, Needed, Pair, Prediction

LABEL = "label_clean_fix"  # the label that the served P(clean) predicts
SHRUNK = "beta"  # the name of the shrunk rate among the models
MOST_FACTORS = 8
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
    """Return the version of the model that a judgement names."""
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
    columns, places = _read_columns(rows, sorted({*people, *changes.values()}), list(changes), now, window_days)
    version, by_person = version_of(served), _predict_scope(served.person, columns)
    change = None if served.change.model.name == SHRUNK else _predict_scope(served.change, columns)

    def of_change(uri: str, author: Pair) -> Prediction:
        estimates = (
            [by_person.at(places[author])] if change is None else [change.at(places[uri]), by_person.at(places[author])]
        )
        return Prediction(*min(estimates, key=_probability), version)

    predictions = {uri: of_change(uri, author) for uri, author in changes.items() if uri in places}
    targets = np.array(
        [
            _next_threshold(thresholds.get(changes[uri][1]), prediction.estimate.probability)
            for uri, prediction in predictions.items()
        ]
    )
    scope_places = {
        "change": [places[uri] for uri in predictions],
        "person": [places[changes[uri]] for uri in predictions],
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


def _read_columns(
    rows: Rows, people: Sequence[Pair], changes: Sequence[str], now: datetime, window_days: int
) -> tuple[dict[str, Any], dict[Pair | str, int]]:
    """Read every column that a model may weigh, and the place of each person and change in them."""
    with only_around(rows, people):
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
    return {**columns, **{name: column[order] for name, column in record.items()}}, places


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
        """Return the estimate and the largest factors of the row at this place."""
        estimate = Estimate(
            *(float(column[place]) for column in (self.probability, self.low, self.high)), self._cases(place)
        )
        largest_effects = largest(self.names, self.effects[place], MOST_FACTORS)
        return estimate, tuple(Factor(name, self._value(name, place), effect) for name, effect in largest_effects)

    def _cases(self, place: int) -> int:
        return int(self.similar[place])

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
    interval = interval_of(part.grounds, odds, probability)
    return _ScopePredictions(columns, shares.names, probability, *interval, similar, effects)


def _count_similar(settled: Any, probability: Any) -> Any:
    """Count the settled cases, ascending by P(clean), within SIMILAR of each probability."""
    return np.searchsorted(settled, probability + SIMILAR, "right") - np.searchsorted(
        settled, probability - SIMILAR, "left"
    )


def _probability(estimate: tuple[Estimate, tuple[Factor, ...]]) -> float:
    chance = estimate[0].probability
    return 1.0 if chance is None else chance
