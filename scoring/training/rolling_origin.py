"""Rolling origin: scores each case by a model that was fitted to the facts known before its quarter began.

A map from score to probability is refitted each quarter too, on the scores at opening in the twelve months before,
without the last 30 days: in the newest days nearly all known cases are merges.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.labels import FastLaned, WeightedLabels, known_by, outcomes, settled
from scoring.models.base import Estimator, FitProblem, Floats
from scoring.models.calibration import CalibrationCases, Calibrator, Name, Platt, choose
from scoring.models.estimators import ShrunkRate, mean_odds

DAY = np.timedelta64(1, "D")
LOOK_BACK = 365 * DAY
WAIT = 30 * DAY
YEARS = 5  # years before that of the newest settled case on which models are compared
FEWEST = 50  # weight of the cases for fitting a map; with less the score is used as it is
Make = Callable[[np.datetime64], Estimator]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Clock:
    """The moments of refitting models and maps (`quarters`) and of choosing thresholds (`months`), ascending.

    Both end with the last scored moment. Judging begins at `judged_from`: earlier cases only serve the first maps.
    """

    quarters: NDArray[np.datetime64]
    months: NDArray[np.datetime64]
    judged_from: np.datetime64

    @classmethod
    def of(cls, first: np.datetime64, last: np.datetime64) -> "Clock":
        """Build a clock that judges from the quarter of `first`; scores begin five quarters earlier."""
        judged = _quarter(first)
        quarters = np.arange(judged - np.timedelta64(15, "M"), _quarter(last) + 4, np.timedelta64(3, "M"))
        months = np.arange(judged, last.astype("datetime64[M]") + 2, np.timedelta64(1, "M"))
        return cls(quarters.astype("datetime64[us]"), months.astype("datetime64[us]"), judged.astype("datetime64[us]"))


@dataclass(slots=True)
class Scored:
    """The log odds of n cases at opening and the shown probabilities (`predicted`); NaN for cases without a score.

    `said` holds a sentence for each origin where nothing could be learned and the shrunk rate served instead; `newest`
    is the model of the last origin that scored any; `maps` caches the maps by moment, since the budgets of a backtest
    ask 20 times for each and a choice takes 16 fits.
    """

    odds: Floats
    predicted: Floats
    said: list[str] = field(default_factory=list)
    newest: Estimator | None = None
    maps: dict[np.datetime64, tuple[Calibrator, dict[Name, float]]] = field(default_factory=dict)


class Past:
    """The labels of one definition as known at each moment; cached, since moments are asked for many times."""

    def __init__(self, cases: Cases, label: LabelName, lane: FastLaned | None = None) -> None:
        self.cases = cases
        self.label = label
        self.lane = lane or FastLaned()
        self._known: dict[np.datetime64, WeightedLabels] = {}

    def at(self, moment: np.datetime64) -> WeightedLabels:
        """Return survival-weighted labels of cases opened before the moment, with the answers of the audit."""
        if moment not in self._known:
            self._known[moment] = self.lane.apply_answers(known_by(self.cases, self.label, moment), self.cases, moment)
        return self._known[moment]

    def observed(self) -> NDArray[np.int8]:
        """Return the outcome of each case: 1 clean, 0 not, -1 unknown or let through unaudited."""
        clean = outcomes(self.cases, self.label).clean
        if self.lane:
            clean[self.lane.unanswered(self.cases)] = -1
            audited = self.lane.answered(self.cases, self.cases.observed_until.max())
            clean[audited.positions] = audited.target
        return clean

    def judged(self, first: np.datetime64) -> NDArray[np.bool_]:
        """Return the mask of cases to compare models on: settled, with a known outcome, opened from `first` on."""
        return settled(self.cases) & (self.observed() >= 0) & (self.cases.opened_at >= first)

    def window(self, moment: np.datetime64) -> WeightedLabels:
        """Return the labels for choosing a map or threshold at the moment."""
        return labels_between(self.cases, self.at(moment), moment - LOOK_BACK, moment - WAIT)


def first_judged(cases: Cases, otherwise: np.datetime64) -> np.datetime64:
    """Return the year YEARS before that of the newest settled case, or of `otherwise` without one."""
    settled_openings = cases.opened_at[settled(cases)]
    last = settled_openings[-1] if len(settled_openings) else otherwise
    return (last.astype("datetime64[Y]") - YEARS).astype("datetime64[us]")


def labels_between(cases: Cases, labels: WeightedLabels, start: np.datetime64, end: np.datetime64) -> WeightedLabels:
    """Return the labels of cases opened from `start` until before `end`."""
    opened = cases.opened_at[labels.positions]
    is_inside = (opened >= start) & (opened < end)
    return WeightedLabels(labels.positions[is_inside], labels.target[is_inside], labels.weight[is_inside])


def score_quarters(past: Past, features: Mapping[str, Floats], make: Make, clock: Clock, tell: Tell) -> Scored:
    """Fit at each quarter on known labels and score the cases opened in it; call `tell` for each quarter."""
    cases = past.cases
    scored = Scored(np.full(len(cases), np.nan), np.full(len(cases), np.nan))
    for start, end in zip(clock.quarters[:-1], clock.quarters[1:], strict=True):
        opened = _positions_opened(cases, start, end)
        if opened.stop > opened.start:
            model = fit_as_of(past.at(start), features, make(start), start, scored.said)
            scored.odds[opened] = model.decision_function(_select_rows(features, opened))
            scored.newest = model
        tell(str(start.astype("datetime64[D]")))
    return scored


def fit_as_of(
    labels: WeightedLabels, features: Mapping[str, Floats], model: Estimator, as_of: np.datetime64, said: list[str]
) -> Estimator:
    """Fit the model to known labels; if nothing can be learned, the shrunk rate, with the reason in `said`."""
    rows = _select_rows(features, labels.positions)
    try:
        return model.fit(rows, labels.target, as_of=as_of, weights=labels.weight)
    except FitProblem as problem:
        said.append(f"{as_of.astype('datetime64[D]')}: {problem}; the shrunk rate served")
        return ShrunkRate().fit(rows, labels.target, weights=labels.weight)


def calibrate_quarters(past: Past, scored: Scored, clock: Clock) -> None:
    """Fill `predicted` in the judged quarters by the map chosen in the window before each."""
    starts = clock.quarters[clock.quarters >= clock.judged_from]
    for start, end in pairwise(starts):
        opened = _positions_opened(past.cases, start, end)
        odds, (serves, _) = scored.odds[opened], map_at(past, scored, start)
        scored.predicted[opened] = np.where(np.isnan(odds), np.nan, serves.probability(np.nan_to_num(odds)))


def blend(past: Past, clock: Clock, line: Scored, trees: Scored) -> Scored:
    """Return the scores of the blend of two models, with its own maps."""
    odds = mean_odds(line.odds, trees.odds)
    blended = Scored(odds, np.full(len(odds), np.nan), list(dict.fromkeys([*line.said, *trees.said])))
    calibrate_quarters(past, blended, clock)
    return blended


def serving_since(clock: Clock, moment: np.datetime64) -> np.datetime64:
    """Return the beginning of the quarter of a moment, whose map serves then."""
    return clock.quarters[np.searchsorted(clock.quarters, moment, side="right") - 1]


def map_at(past: Past, scored: Scored, moment: np.datetime64) -> tuple[Calibrator, dict[Name, float]]:
    """Return the map from log odds to P(clean) that serves from a moment on, and the losses of the choice.

    With too little weight of cases the score is used as it is.
    """
    if moment not in scored.maps:
        labels = past.window(moment)
        has_score = ~np.isnan(scored.odds[labels.positions])
        positions, target, weight = (column[has_score] for column in labels)
        authors = past.cases.authors[positions]
        enough = weight.sum() >= FEWEST
        chosen = choose(scored.odds[positions], target, authors, weight) if enough else (Platt(1.0, 0.0), {})
        scored.maps[moment] = chosen
    return scored.maps[moment]


def behind_at(past: Past, odds: Floats, moment: np.datetime64) -> CalibrationCases:
    """Return the cases behind the map of a moment, for the intervals shown from then on.

    They keep the weights of the map: among cases settled for certain too many are clean, since a merge is known at once
    (in a real history .73 instead of .65; the pairs of nine rows in ten were above P).
    """
    labels = past.window(moment)
    has_score = ~np.isnan(odds[labels.positions])
    positions, target, weight = (column[has_score] for column in labels)
    return CalibrationCases.of(odds[positions], target, weight, past.cases.authors[positions])


def judged_quarters(cases: Cases, mask: NDArray[np.bool_], clock: Clock) -> Sequence[NDArray[np.int64]]:
    """Return the positions of a mask in each judged quarter."""
    starts = clock.quarters[clock.quarters >= clock.judged_from]
    quarter_numbers = np.searchsorted(starts, cases.opened_at, side="right")
    return [np.flatnonzero(mask & (quarter_numbers == number)) for number in range(1, len(starts) + 1)]


def _quarter(moment: np.datetime64) -> np.datetime64:
    months = moment.astype("datetime64[M]").astype(np.int64)
    return np.datetime64(int(months - months % 3), "M")


def _positions_opened(cases: Cases, start: np.datetime64, end: np.datetime64) -> slice:
    first, last = np.searchsorted(cases.opened_at, [start, end])
    return slice(int(first), int(last))


def _select_rows(features: Mapping[str, Floats], selection: slice | NDArray[np.int64]) -> dict[str, Floats]:
    return {name: column[selection] for name, column in features.items()}
