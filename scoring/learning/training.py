"""Training: which model serves a label now, fitted to all that is known, with its map, figures and card. Plain values.

The validation slice is what was opened in the last judged year and is settled; models are scored on it as they would
have been then, quarter by quarter. The map rests on the last twelve months of those scores.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.calibration import Calibrator, Platt, choose
from scoring.estimators import NAMES, Estimator, make_estimator
from scoring.labels import settled
from scoring.learning.backtest import FITTED, SCOPES, maker
from scoring.learning.blended import without_alone_of
from scoring.learning.cases import LabelName
from scoring.learning.design import FitProblem, Floats
from scoring.learning.figures import figures_of, gain_of
from scoring.learning.material import Material
from scoring.learning.measures import auc
from scoring.learning.records import settled_record
from scoring.learning.rolling import (
    FEWEST,
    Clock,
    Past,
    Scored,
    blend,
    calibrate_quarters,
    fit_as_of,
    score_quarters,
    settled_scores,
)
from scoring.learning.self_lift import largest_lift
from scoring.promotion import Candidate, Decision, decide

SEEDS, SEEDED = 3, ("lightgbm", "blend")
MOST_LIFTED = 300  # cases on which the self-lift is tried
VALIDATION_QUARTERS = 4
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """One scope of a model: what serves, its map, why, and how it did on the validation slice."""

    model: Estimator
    calibration: Calibrator
    decision: Decision
    figures: dict[str, Any]
    said: tuple[str, ...]
    odds: Floats  # of the settled cases of the last twelve months as given at their opening, with what came of them
    came: Floats
    told: Floats  # P(clean) of every case as given at its opening, NaN where none was


def train(
    material: Material, label: LabelName, now: datetime, draws: int, seed: int, tell: Tell = lambda words: None
) -> dict[str, Trained]:
    """Both scopes of DESIGN.md §4, "person" and "change". Never raises for a poor history: the shrunk rate then serves,
    and `said` says why."""
    from threadpoolctl import threadpool_limits

    moment = np.datetime64(now, "us")
    past = Past(material.cases, label, material.lane)
    ripe = material.cases.opened_at[settled(material.cases)]
    last = ripe[-1] if len(ripe) else moment
    first = (last.astype("datetime64[M]") - 3 * (VALIDATION_QUARTERS - 1)).astype("datetime64[us]")
    clock = Clock.of(first, moment)
    features = {**material.cases.features, **settled_record(material.cases, label)}
    # Two threads of BLAS on two busy cores took two to five times the CPU of one.
    with threadpool_limits(1):
        return {scope: _scope(material, past, features, clock, scope, moment, draws, seed, tell) for scope in SCOPES}


def _scope(
    material: Material,
    past: Past,
    features: dict[str, Floats],
    clock: Clock,
    scope: str,
    moment: np.datetime64,
    draws: int,
    seed: int,
    tell: Tell,
) -> Trained:
    scored = {}
    for name in ("beta", *FITTED):
        scored[name] = score_quarters(past, features, maker(name, material, scope, seed), clock, tell)
        calibrate_quarters(past, scored[name], clock)
    scored["blend"] = blend(past, clock, *(scored[name] for name in FITTED))
    cases, came = past.cases, past.came()
    slice_ = settled(cases) & (came >= 0) & (cases.opened_at >= clock.judged_from)
    slice_ &= ~np.isnan(scored["beta"].told)
    judged = came[slice_].astype(np.float64)
    candidates = [
        Candidate(
            name,
            scored[name].told[slice_],
            _over_seeds(material, past, features, clock, scope, slice_, judged, name, seed) if name in SEEDED else (),
            _lift(material, past, features, clock, scope, slice_, name, seed),
        )
        for name in NAMES
    ]
    decision = decide(candidates, judged, cases.authors[slice_], draws, seed)
    said = [*scored[decision.serves].said]
    alone = material.alone if scope == "person" else ()
    directions = material.person if scope == "person" else material.change
    wanted = make_estimator(decision.serves, directions, seed, alone)
    known = past.at(moment)
    if not len(known.positions):
        said.append("There is no history to learn from: the shrunk rate serves with a prior of one half.")
    model = fit_as_of(known, features, wanted, moment, said)
    served = scored[decision.serves]
    figures = _figures(scored, decision.serves, slice_, judged, cases.authors[slice_], draws, seed)
    return Trained(
        model,
        _calibration(past, served, moment, figures),
        decision,
        figures,
        tuple(dict.fromkeys(said)),
        *settled_scores(past, served.odds, moment),
        served.told,
    )


def _figures(
    scored: Mapping[str, Scored],
    serves: str,
    slice_: NDArray[np.bool_],
    judged: Floats,
    authors: NDArray[np.int64],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    """How what serves did on the slice, every model beside it, and its gain over the shrunk rate."""
    on_slice = {name: (one.told[slice_], one.odds[slice_]) for name, one in scored.items()}
    each = {name: figures_of(told, judged, draws, seed, odds) for name, (told, odds) in on_slice.items()}
    gain = gain_of(on_slice[serves], on_slice["beta"], judged, authors, draws, seed)
    return {**each[serves], "models": each, "gain": gain}


def _calibration(past: Past, scored: Scored, moment: np.datetime64, figures: dict[str, Any]) -> Calibrator:
    """Plain Platt unless another map beats it on held-out authors; with few cases the score as it is."""
    known = past.window(moment)
    given = ~np.isnan(scored.odds[known.positions])
    positions, target, weight = known.positions[given], known.target[given], known.weight[given]
    if weight.sum() < FEWEST:
        return Platt(1.0, 0.0)
    found, figures["maps"] = choose(scored.odds[positions], target, past.cases.authors[positions], weight)
    return found


def _over_seeds(
    material: Material,
    past: Past,
    features: dict[str, Floats],
    clock: Clock,
    scope: str,
    slice_: Any,
    judged: Floats,
    name: str,
    seed: int,
) -> tuple[float, ...]:
    """The AUC on the slice of models fitted once, at its beginning, with several seeds."""
    found, start = [], clock.judged_from
    for other in range(seed, seed + SEEDS):
        try:
            model = maker(name, material, scope, other)(start)
            known = past.at(start)
            model.fit(
                {name: column[known.positions] for name, column in features.items()}, known.target, weights=known.weight
            )
        except FitProblem:
            return ()
        odds = model.decision_function({name: column[slice_] for name, column in features.items()})
        found.append(auc(odds, judged))
    return tuple(found)


def _lift(
    material: Material,
    past: Past,
    features: dict[str, Floats],
    clock: Clock,
    scope: str,
    slice_: Any,
    name: str,
    seed: int,
) -> float:
    """What a person could gain alone under the model fitted at the beginning of the slice; a change is capped."""
    if scope != "person" or not slice_.any():
        return 0.0
    start, said = clock.judged_from, list[str]()
    model = fit_as_of(past.at(start), features, maker(name, material, scope, seed)(start), start, said)
    rows = {column: values[slice_][:MOST_LIFTED] for column, values in features.items()}
    less = without_alone_of(model)
    without = less.predict_proba(rows)[:, 1] if less is not None else None
    return largest_lift(lambda moved: model.predict_proba(moved)[:, 1], rows, material.alone, without)
