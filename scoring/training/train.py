"""Trains the model that serves a label now, fitted to all that is known, with its map, figures and card.

The result is plain values. The validation slice is what was opened in the five years that a backtest judges too, and is
settled: of one year a real history had 576 cases, on which no two models can be told apart. Models are scored on it as
they would have been then, quarter by quarter. The map rests on the last twelve months of those scores.

It also measures how far a contributor can raise their own probability by what they move alone. That part is pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.dataset import Material
from scoring.dataset.labels import settled
from scoring.dataset.track_record import settled_record
from scoring.models.base import Estimator, FitProblem, Floats
from scoring.models.calibration import CalibrationCases, Calibrator
from scoring.models.ensembles import without_alone_of
from scoring.models.registry import NAMES, make_estimator
from scoring.training.backtest import FITTED, SCOPES, maker
from scoring.training.metrics import auc, figures_of, gain_of, reliability
from scoring.training.promotion import Candidate, Decision, decide
from scoring.training.rolling_origin import (
    Clock,
    Past,
    Scored,
    behind_at,
    blend,
    calibrate_quarters,
    first_judged,
    fit_as_of,
    map_at,
    score_quarters,
)

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)  # quantiles of what others have
ROUNDS = 2


def largest_lift(
    probability: Callable[[Mapping[str, Floats]], Floats],
    features: Mapping[str, Floats],
    alone: Sequence[str],
    without: Floats | None = None,
) -> float:
    """The most that any of n rows gains when its `alone` columns take the best of values seen, or become unknown.

    One column after the other, ROUNDS times: each row keeps whatever raises it. 0 where nobody gains. `without` is
    what each has where those columns are not used at all: a model that they only lower gives nobody more than that.
    """
    moved = dict(features)
    best = probability(moved)
    start = best if without is None else np.maximum(best, without)
    for _ in range(ROUNDS):
        for name in (name for name in alone if name in features):
            for value in _levels(features[name]):
                tried = {**moved, name: np.full(len(start), value)}
                told = probability(tried)
                better = told > best + 1e-12
                moved = {**moved, name: np.where(better, value, moved[name])}
                best = np.maximum(best, told)
    return float((best - start).max(initial=0.0))


def _levels(column: Floats) -> list[float]:
    seen = column[np.isfinite(column)]
    return [*(np.unique(np.quantile(seen, LEVELS)).tolist() if len(seen) else []), float("nan")]


SEEDS, SEEDED = 3, ("lightgbm", "blend")
CHECKS, FEWEST_CHECKED = "ci_pass_rate", 200
MOST_LIFTED = 300  # cases on which the self-lift is tried
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """One scope of a model: what serves, its map, why, and how it did on the validation slice."""

    model: Estimator
    calibration: Calibrator
    decision: Decision
    figures: dict[str, Any]
    said: tuple[str, ...]
    behind: CalibrationCases  # of the last twelve months
    told: Floats  # P(clean) of every case as given at its opening, NaN where none was


@dataclass(frozen=True, slots=True)
class Scope:
    """The data that one scope of a model, "person" or "change", is trained on, and the moment of it."""

    name: str
    material: Material
    past: Past
    features: Mapping[str, Floats]
    clock: Clock
    moment: np.datetime64
    draws: int
    seed: int

    def make(self, name: str, seed: int | None = None) -> Callable[[np.datetime64], Estimator]:
        """Makes the estimators of this name and scope."""
        return maker(name, self.material, self.name, self.seed if seed is None else seed)

    def score(self, tell: Tell) -> dict[str, Scored]:
        """Return what each model would have said of every case at its opening."""
        scored = {}
        for name in ("beta", *FITTED):
            scored[name] = score_quarters(self.past, self.features, self.make(name), self.clock, tell)
            calibrate_quarters(self.past, scored[name], self.clock)
        scored["blend"] = blend(self.past, self.clock, *(scored[name] for name in FITTED))
        return scored


@dataclass(frozen=True, slots=True)
class Slice:
    """The settled cases of the judged years: which they are, what came of them (n of the slice), and by whom."""

    which: NDArray[np.bool_]
    came: Floats
    authors: NDArray[np.int64]


def train(
    material: Material, label: LabelName, now: datetime, draws: int, seed: int, tell: Tell = lambda words: None
) -> dict[str, Trained]:
    """Both scopes, "person" and "change". Never raises for a poor history: the shrunk rate then serves,
    and `said` says why."""
    moment = np.datetime64(now, "us")
    past = Past(material.cases, label, material.lane)
    clock = Clock.of(first_judged(material.cases, moment), moment)
    features = without_rare_checks(material.cases, {**material.cases.features, **settled_record(material.cases, label)})
    return {name: _train(Scope(name, material, past, features, clock, moment, draws, seed), tell) for name in SCOPES}


def without_rare_checks(cases: Cases, features: dict[str, Floats]) -> dict[str, Floats]:
    """Return the features, with CI unknown throughout where fewer than FEWEST_CHECKED settled cases have it.

    No recorded history holds CI runs, so a few cases cannot tell what they are worth.
    """
    if CHECKS not in features:
        return features
    known = ~np.isnan(features[CHECKS]) & settled(cases)
    if np.count_nonzero(known) >= FEWEST_CHECKED:
        return features
    return {**features, CHECKS: np.full_like(features[CHECKS], np.nan)}


def _train(scope: Scope, tell: Tell) -> Trained:
    scored = scope.score(tell)
    held = _slice(scope, scored["beta"])
    decision = decide(_candidates(scope, scored, held), held.came, held.authors, scope.draws, scope.seed)
    served, said = scored[decision.serves], [*scored[decision.serves].said]
    known = scope.past.at(scope.moment)
    if not len(known.positions):
        said.append("No history to learn from: the shrunk rate is used, with a prior of one half.")
    wanted = _whole(scope, decision.serves)
    model = fit_as_of(known, scope.features, wanted, scope.moment, said)
    figures = _figures(scope, scored, decision.serves, held)
    calibration, figures["maps"] = map_at(scope.past, served, scope.moment)
    return Trained(
        model,
        calibration,
        decision,
        figures,
        tuple(dict.fromkeys(said)),
        behind_at(scope.past, served.odds, scope.moment),
        served.told,
    )


def _slice(scope: Scope, plain: Scored) -> Slice:
    cases, came = scope.past.cases, scope.past.came()
    which = scope.past.judged(scope.clock.judged_from) & ~np.isnan(plain.told)
    return Slice(which, came[which].astype(np.float64), cases.authors[which])


def _candidates(scope: Scope, scored: Mapping[str, Scored], held: Slice) -> list[Candidate]:
    return [
        Candidate(
            name,
            scored[name].told[held.which],
            _over_seeds(scope, held, name) if name in SEEDED else (),
            _lift(scope, held, name),
        )
        for name in NAMES
    ]


def _whole(scope: Scope, name: str) -> Estimator:
    """The estimator that is fitted to everything; its trees are counted anew."""
    person = scope.name == "person"
    directions = scope.material.person if person else scope.material.change
    return make_estimator(name, directions, scope.seed, scope.material.alone if person else ())


def _figures(scope: Scope, scored: Mapping[str, Scored], serves: str, held: Slice) -> dict[str, Any]:
    """Return how what serves did on the slice, every model beside it, its gain over the shrunk rate, its
    reliability curve.
    """
    on_slice = {name: (one.told[held.which], one.odds[held.which]) for name, one in scored.items()}
    each = {name: figures_of(told, held.came, scope.draws, scope.seed, odds) for name, (told, odds) in on_slice.items()}
    gain = gain_of(on_slice[serves], on_slice["beta"], held.came, held.authors, scope.draws, scope.seed)
    curve = [asdict(one) for one in reliability(on_slice[serves][0], held.came, scope.draws, scope.seed)]
    return {**each[serves], "models": each, "gain": gain, "reliability": curve}


def _over_seeds(scope: Scope, held: Slice, name: str) -> tuple[float, ...]:
    """The AUC on the slice of models fitted once, at its beginning, with several seeds."""
    found, start = [], scope.clock.judged_from
    known = scope.past.at(start)
    rows = {column: values[known.positions] for column, values in scope.features.items()}
    asked = {column: values[held.which] for column, values in scope.features.items()}
    for seed in range(scope.seed, scope.seed + SEEDS):
        try:
            model = scope.make(name, seed)(start).fit(rows, known.target, weights=known.weight)
        except FitProblem:
            return ()
        found.append(auc(model.decision_function(asked), held.came))
    return tuple(found)


def _lift(scope: Scope, held: Slice, name: str) -> float:
    """Return what a person could gain alone under the model fitted at the beginning of the slice.

    A change is capped.
    """
    if scope.name != "person" or not held.which.any():
        return 0.0
    start, said = scope.clock.judged_from, list[str]()
    model = fit_as_of(scope.past.at(start), scope.features, scope.make(name)(start), start, said)
    rows = {column: values[held.which][:MOST_LIFTED] for column, values in scope.features.items()}
    less = without_alone_of(model)
    without = less.predict_proba(rows)[:, 1] if less is not None else None
    return largest_lift(lambda moved: model.predict_proba(moved)[:, 1], rows, scope.material.alone, without)
