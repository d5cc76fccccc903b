"""Rolling origin: each case is scored by a model that knew only what was known before its quarter began.

A map from score to probability is refitted each quarter too, on the scores as they were given at opening in the twelve
months before, ending 30 days ago: in the newest days nearly everything that is known was merged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.audit_weights import FastLaned
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.labels import WeightedLabels, known_by, outcomes, settled
from scoring.models.base import Estimator, FitProblem, Floats
from scoring.models.calibration import CalibrationCases, Calibrator, Name, Platt, choose
from scoring.models.ensembles import mean_odds
from scoring.models.linear import ShrunkRate

DAY = np.timedelta64(1, "D")
LOOK_BACK = 365 * DAY
WAIT = 30 * DAY
YEARS = 5  # before the year of the newest settled case: what models are compared on
FEWEST = 50  # cases of weight that a map is fitted to; with fewer the score stands as it is
Make = Callable[[np.datetime64], Estimator]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Clock:
    """The moments of refitting models and maps (`quarters`) and of choosing thresholds (`months`), ascending.

    Both end with the last moment that is scored. `judged_from` is where judging begins: what is before it only feeds
    the first maps."""

    quarters: NDArray[np.datetime64]
    months: NDArray[np.datetime64]
    judged_from: np.datetime64

    @classmethod
    def of(cls, first: np.datetime64, last: np.datetime64) -> "Clock":
        """Judging from the quarter of `first`; scores begin five quarters earlier, since the first map needs them."""
        judged = _quarter(first)
        quarters = np.arange(judged - np.timedelta64(15, "M"), _quarter(last) + 4, np.timedelta64(3, "M"))
        months = np.arange(judged, last.astype("datetime64[M]") + 2, np.timedelta64(1, "M"))
        return cls(quarters.astype("datetime64[us]"), months.astype("datetime64[us]"), judged.astype("datetime64[us]"))


@dataclass(slots=True)
class Scored:
    """Of n cases: log odds as given at opening, and the probability as shown; NaN outside what was scored.

    `said` holds a sentence for each origin at which nothing could be learned and the shrunk rate served instead;
    `newest` is the model of the last origin that scored any; `maps` are those of the moments that were asked for, since
    the budgets of a backtest ask 20 times for each and a choice takes 16 fits.
    """

    odds: Floats
    told: Floats
    said: list[str] = field(default_factory=list)
    newest: Estimator | None = None
    maps: dict[np.datetime64, tuple[Calibrator, dict[Name, float]]] = field(default_factory=dict)


class Past:
    """The labels of one definition as they were known at each moment; the same moments are asked for many times."""

    def __init__(self, cases: Cases, label: LabelName, lane: FastLaned | None = None) -> None:
        self.cases = cases
        self.label = label
        self.lane = lane or FastLaned()
        self._known: dict[np.datetime64, WeightedLabels] = {}

    def at(self, moment: np.datetime64) -> WeightedLabels:
        """Survival-weighted labels of what was opened before the moment, and the answers of the audit."""
        if moment not in self._known:
            self._known[moment] = self.lane.apply_answers(known_by(self.cases, self.label, moment), self.cases, moment)
        return self._known[moment]

    def came(self) -> NDArray[np.int8]:
        """Return what became of each case in the end: 1 clean, 0 not, -1 unknown, as of what the lane let through
        unheard.
        """
        found = outcomes(self.cases, self.label).clean
        if self.lane:
            found[self.lane.unanswered(self.cases)] = -1
            told = self.lane.answered(self.cases, self.cases.observed_until.max())
            found[told.positions] = told.target
        return found

    def judged(self, first: np.datetime64) -> NDArray[np.bool_]:
        """Return which cases models are compared on: settled, opened from `first` on, and it is known what became
        of them.
        """
        return settled(self.cases) & (self.came() >= 0) & (self.cases.opened_at >= first)

    def window(self, moment: np.datetime64) -> WeightedLabels:
        """Those of them that a map or threshold chosen at the moment rests on."""
        return within(self.cases, self.at(moment), moment - LOOK_BACK, moment - WAIT)


def first_judged(cases: Cases, otherwise: np.datetime64) -> np.datetime64:
    """The year YEARS before that of the newest settled case, or of `otherwise` where none is settled."""
    ripe = cases.opened_at[settled(cases)]
    last = ripe[-1] if len(ripe) else otherwise
    return (last.astype("datetime64[Y]") - YEARS).astype("datetime64[us]")


def within(cases: Cases, known: WeightedLabels, start: np.datetime64, end: np.datetime64) -> WeightedLabels:
    """The rows of cases opened from `start` until before `end`."""
    opened = cases.opened_at[known.positions]
    kept = (opened >= start) & (opened < end)
    return WeightedLabels(known.positions[kept], known.target[kept], known.weight[kept])


def score_quarters(past: Past, features: Mapping[str, Floats], make: Make, clock: Clock, tell: Tell) -> Scored:
    """Fit at each quarter on what was known, score what was opened in it; `tell` hears of each quarter."""
    cases = past.cases
    scored = Scored(np.full(len(cases), np.nan), np.full(len(cases), np.nan))
    for start, end in zip(clock.quarters[:-1], clock.quarters[1:], strict=True):
        opened = _opened(cases, start, end)
        if opened.stop > opened.start:
            model = fit_as_of(past.at(start), features, make(start), start, scored.said)
            scored.odds[opened] = model.decision_function(_rows(features, opened))
            scored.newest = model
        tell(str(start.astype("datetime64[D]")))
    return scored


def fit_as_of(
    known: WeightedLabels, features: Mapping[str, Floats], model: Estimator, as_of: np.datetime64, said: list[str]
) -> Estimator:
    """The model fitted to known labels; the shrunk rate where nothing can be learned, and `said` gets the reason."""
    rows = _rows(features, known.positions)
    try:
        return model.fit(rows, known.target, as_of=as_of, weights=known.weight)
    except FitProblem as problem:
        said.append(f"{as_of.astype('datetime64[D]')}: {problem}; the shrunk rate served")
        return ShrunkRate().fit(rows, known.target, weights=known.weight)


def calibrate_quarters(past: Past, scored: Scored, clock: Clock) -> None:
    """Fill `told` in the judged quarters with the map that was chosen in the window before each."""
    starts = clock.quarters[clock.quarters >= clock.judged_from]
    for start, end in pairwise(starts):
        opened = _opened(past.cases, start, end)
        odds, (serves, _) = scored.odds[opened], map_at(past, scored, start)
        scored.told[opened] = np.where(np.isnan(odds), np.nan, serves.probability(np.nan_to_num(odds)))


def blend(past: Past, clock: Clock, line: Scored, trees: Scored) -> Scored:
    """Return what the blend of two models would have said, with maps of its own."""
    odds = mean_odds(line.odds, trees.odds)
    found = Scored(odds, np.full(len(odds), np.nan), list(dict.fromkeys([*line.said, *trees.said])))
    calibrate_quarters(past, found, clock)
    return found


def serving_since(clock: Clock, moment: np.datetime64) -> np.datetime64:
    """The quarter that a moment lies in: the map of its beginning serves."""
    return clock.quarters[np.searchsorted(clock.quarters, moment, side="right") - 1]


def map_at(past: Past, scored: Scored, moment: np.datetime64) -> tuple[Calibrator, dict[Name, float]]:
    """Return the map from log odds to P(clean) that serves from a moment on, and the losses that it was chosen by.

    With cases of little weight the score stands as it is, and nothing is chosen.
    """
    if moment not in scored.maps:
        known = past.window(moment)
        given = ~np.isnan(scored.odds[known.positions])
        positions, target, weight = (column[given] for column in known)
        authors = past.cases.authors[positions]
        enough = weight.sum() >= FEWEST
        chosen = choose(scored.odds[positions], target, authors, weight) if enough else (Platt(1.0, 0.0), {})
        scored.maps[moment] = chosen
    return scored.maps[moment]


def behind_at(past: Past, odds: Floats, moment: np.datetime64) -> CalibrationCases:
    """The cases that the map of a moment rests on, for the intervals that are shown from then on.

    With the weights of the map: of those settled for certain alone too many are clean, since a merge is known at once
    (of a real history .73 where .65 were; the pairs of nine rows in ten lay above P).
    """
    known = past.window(moment)
    given = ~np.isnan(odds[known.positions])
    positions, target, weight = (column[given] for column in known)
    return CalibrationCases.of(odds[positions], target, weight, past.cases.authors[positions])


def judged_quarters(cases: Cases, which: NDArray[np.bool_], clock: Clock) -> Sequence[NDArray[np.int64]]:
    """The positions of `which` in each judged quarter."""
    starts = clock.quarters[clock.quarters >= clock.judged_from]
    place = np.searchsorted(starts, cases.opened_at, side="right")
    return [np.flatnonzero(which & (place == one)) for one in range(1, len(starts) + 1)]


def _quarter(moment: np.datetime64) -> np.datetime64:
    months = moment.astype("datetime64[M]").astype(np.int64)
    return np.datetime64(int(months - months % 3), "M")


def _opened(cases: Cases, start: np.datetime64, end: np.datetime64) -> slice:
    first, last = np.searchsorted(cases.opened_at, [start, end])
    return slice(int(first), int(last))


def _rows(features: Mapping[str, Floats], which: slice | NDArray[np.int64]) -> dict[str, Floats]:
    return {name: column[which] for name, column in features.items()}
