"""Trains the model that serves a label now, with its map and figures, and attempts to certify its thresholds.

The validation slice holds the settled cases of the same five years as in a backtest: one year of a real history had 576
cases, too few to tell two models apart. Models are scored on it quarter by quarter, as they would have been then. The
map is fitted to the last twelve months of those scores.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.certificates.certificate import Certificate, Label
from scoring.certificates.issue import Settled, Terms, bad_shares, certify, is_counted, label_for
from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.lane_curve import group_of
from scoring.certificates.threshold import DEFAULT
from scoring.certificates.threshold_queries import StoredGroup, StoredTable, Table, table_of
from scoring.dataset.cases import Cases, LabelName
from scoring.dataset.dataset import Material, data_version
from scoring.dataset.labels import FastLaned, clean_as_sent, settled
from scoring.dataset.track_record import settled_record, with_record
from scoring.models.base import Estimator, FitProblem, Floats
from scoring.models.calibration import CalibrationCases, Calibrator
from scoring.models.estimators import without_alone_of
from scoring.models.registry import NAMES, make_estimator
from scoring.models.storage import FORMAT, features
from scoring.training.backtest import FITTED, SCOPES, maker
from scoring.training.metrics import auc, figures_of, gain_of, reliability
from scoring.training.promotion import Candidate, Decision, decide, largest_lift
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

SEEDS, SEEDED = 3, ("lightgbm", "blend")
CHECKS, FEWEST_CHECKED = "ci_pass_rate", 200
MOST_LIFTED = 300  # cases on which the self-lift is measured
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Slice:
    """The settled cases of the judged years: their mask, and outcomes and authors of the n cases in it."""

    which: NDArray[np.bool_]
    observed: Floats
    authors: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trained:
    """One scope of a trained model: the model, its map, the decision, and its figures on the slice."""

    model: Estimator
    calibration: Calibrator
    decision: Decision
    figures: dict[str, Any]
    said: tuple[str, ...]
    behind: CalibrationCases  # of the last twelve months
    predicted: Floats  # P(clean) of every case at its opening, NaN without one
    candidates: tuple[Candidate, ...]  # all that were tried, on the slice
    validation: Slice


@dataclass(frozen=True, slots=True)
class Scope:
    """The data and the moment for training one scope of a model, "person" or "change"."""

    name: str
    material: Material
    past: Past
    features: Mapping[str, Floats]
    clock: Clock
    moment: np.datetime64
    draws: int
    seed: int

    def make(self, name: str, seed: int | None = None) -> Callable[[np.datetime64], Estimator]:
        return maker(name, self.material, self.name, self.seed if seed is None else seed)

    def score(self, tell: Tell) -> dict[str, Scored]:
        scored = {}
        for name in ("beta", *FITTED):
            scored[name] = score_quarters(self.past, self.features, self.make(name), self.clock, tell)
            calibrate_quarters(self.past, scored[name], self.clock)
        scored["blend"] = blend(self.past, self.clock, *(scored[name] for name in FITTED))
        return scored


def record_of(
    trained: Mapping[str, Trained], material: Material, label: LabelName, now: datetime, seed: int
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "label": label,
        "made_at": now.isoformat(timespec="seconds"),
        "data": data_version(material.cases),
        "cases": len(material),
        "seed": seed,
        "features": features(),
        "scopes": {
            scope: {
                "model": part.model.as_dict(),
                "calibration": part.calibration.as_dict(),
                "behind": {name: column.tolist() for name, column in part.behind._asdict().items()},
                "decision": part.decision.as_dict(),
                "metrics": part.figures,
                "said": list(part.said),
            }
            for scope, part in trained.items()
        },
    }


def train(
    material: Material, label: LabelName, now: datetime, draws: int, seed: int, tell: Tell = lambda words: None
) -> dict[str, Trained]:
    """Train both scopes, "person" and "change".

    A poor history does not raise: the shrunk rate then serves, and `said` has the reason.
    """
    return {scope.name: _train_scope(scope, tell) for scope in scopes_of(material, label, now, draws, seed)}


def scopes_of(material: Material, label: LabelName, now: datetime, draws: int, seed: int) -> list[Scope]:
    moment = np.datetime64(now, "us")
    past = Past(material.cases, label, material.lane)
    clock = Clock.of(first_judged(material.cases, moment), moment)
    features = without_rare_checks(material.cases, {**material.cases.features, **settled_record(material.cases, label)})
    return [Scope(name, material, past, features, clock, moment, draws, seed) for name in SCOPES]


def without_rare_checks(cases: Cases, features: dict[str, Floats]) -> dict[str, Floats]:
    """Return the features, with CI unknown everywhere if fewer than FEWEST_CHECKED settled cases have it.

    Recorded history has no CI runs, and a few cases cannot show their weight.
    """
    if CHECKS not in features:
        return features
    has_checks = ~np.isnan(features[CHECKS]) & settled(cases)
    if np.count_nonzero(has_checks) >= FEWEST_CHECKED:
        return features
    return {**features, CHECKS: np.full_like(features[CHECKS], np.nan)}


def _train_scope(scope: Scope, tell: Tell) -> Trained:
    scored = scope.score(tell)
    cases, observed = scope.past.cases, scope.past.observed()
    mask = scope.past.judged(scope.clock.judged_from) & ~np.isnan(scored["beta"].predicted)
    validation = Slice(mask, observed[mask].astype(np.float64), cases.authors[mask])
    candidates = _candidates(scope, scored, validation)
    decision = decide(candidates, validation.observed, validation.authors, scope.draws, scope.seed)
    served, said = scored[decision.serves], [*scored[decision.serves].said]
    labels = scope.past.at(scope.moment)
    if not len(labels.positions):
        said.append("No history to learn from: the shrunk rate is used, with a prior of one half.")
    estimator = _final_estimator(scope, decision.serves)
    model = fit_as_of(labels, scope.features, estimator, scope.moment, said)
    figures = _figures_on_slice(scope, scored, decision.serves, validation)
    calibration, figures["maps"] = map_at(scope.past, served, scope.moment)
    return Trained(
        model,
        calibration,
        decision,
        figures,
        tuple(dict.fromkeys(said)),
        behind_at(scope.past, served.odds, scope.moment),
        served.predicted,
        candidates,
        validation,
    )


def _candidates(scope: Scope, scored: Mapping[str, Scored], validation: Slice) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            name,
            scored[name].predicted[validation.which],
            _auc_over_seeds(scope, validation, name) if name in SEEDED else (),
            _self_lift(scope, validation, name),
        )
        for name in NAMES
    )


def _final_estimator(scope: Scope, name: str) -> Estimator:
    """Make the estimator for fitting to all cases; its number of trees is chosen again."""
    person = scope.name == "person"
    directions = scope.material.person if person else scope.material.change
    return make_estimator(name, directions, scope.seed, scope.material.alone if person else ())


def _figures_on_slice(scope: Scope, scored: Mapping[str, Scored], serves: str, validation: Slice) -> dict[str, Any]:
    """Return the served model's figures on the slice, those of all models, its gain and its reliability curve."""
    on_slice = {
        name: (model_scores.predicted[validation.which], model_scores.odds[validation.which])
        for name, model_scores in scored.items()
    }
    by_model = {
        name: figures_of(predicted, validation.observed, scope.draws, scope.seed, odds)
        for name, (predicted, odds) in on_slice.items()
    }
    gain = gain_of(on_slice[serves], on_slice["beta"], validation.observed, validation.authors, scope.draws, scope.seed)
    curve = [
        asdict(model_scores)
        for model_scores in reliability(on_slice[serves][0], validation.observed, scope.draws, scope.seed)
    ]
    return {**by_model[serves], "models": by_model, "gain": gain, "reliability": curve}


def _auc_over_seeds(scope: Scope, validation: Slice, name: str) -> tuple[float, ...]:
    """Return the AUC on the slice of models fitted once, at its beginning, with several seeds."""
    aucs, start = [], scope.clock.judged_from
    labels = scope.past.at(start)
    rows = {column: values[labels.positions] for column, values in scope.features.items()}
    validation_rows = {column: values[validation.which] for column, values in scope.features.items()}
    for seed in range(scope.seed, scope.seed + SEEDS):
        try:
            model = scope.make(name, seed)(start).fit(rows, labels.target, weights=labels.weight)
        except FitProblem:
            return ()
        aucs.append(auc(model.decision_function(validation_rows), validation.observed))
    return tuple(aucs)


def _self_lift(scope: Scope, validation: Slice, name: str) -> float:
    """Return the most that a person could gain alone under the model fitted at the beginning of the slice.

    It is 0 for a change, which the gate caps.
    """
    if scope.name != "person" or not validation.which.any():
        return 0.0
    start, said = scope.clock.judged_from, list[str]()
    model = fit_as_of(scope.past.at(start), scope.features, scope.make(name)(start), start, said)
    rows = {column: values[validation.which][:MOST_LIFTED] for column, values in scope.features.items()}
    without_alone = without_alone_of(model)
    without = without_alone.predict_proba(rows)[:, 1] if without_alone is not None else None
    return largest_lift(lambda moved_rows: model.predict_proba(moved_rows)[:, 1], rows, scope.material.alone, without)


def attempt(
    cases: Cases,
    trained: Mapping[str, Trained],
    terms: Terms,
    lane: FastLaned,
    before: Mapping[str, Certificate],
    now: datetime,
) -> Certificate:
    """Make one attempt on all settled cases with their scores at opening.

    The label of `terms` is that of the model; the certificate uses clean_as_sent once enough cases have it. Raises
    CertificateProblem for a second attempt of this model at this side in a month.
    """
    label, counted = terms.defined, label_of(cases, terms)
    settled = settled_cases(cases, trained, label, counted, lane, now)
    return certify(settled, replace(terms, label=counted, definition=label), before, now)


def lane_table(
    cases: Cases, trained: Mapping[str, Trained], terms: Terms, lane: FastLaned, now: datetime
) -> StoredTable:
    """Return the table of thresholds of the pull requests that a certificate of T_HIGH counts, for the last year."""
    label, window = label_of(cases, terms), (now - timedelta(days=DEFAULT.window_days), now)
    settled = settled_cases(cases, trained, terms.defined, label, lane, now)
    counted = is_counted(settled, "high", *window)
    columns = (settled.scores, settled.bad, settled.authors, settled.opened_at, 1 / settled.odds)
    table = table_of(ScoredCases.of(*(column[counted] for column in columns)))
    rounded = {name: tuple(np.round(getattr(table, name), 6).tolist()) for name in Table.__dataclass_fields__}
    everybody = is_counted(replace(settled, push_holder=np.zeros_like(settled.push_holder)), "high", *window)
    groups = (_stored_group(settled, counted & ~settled.recorded), _stored_group(settled, everybody))
    return StoredTable(
        "sunstead-lanes/1", terms.model, label, window, **rounded, newcomers=groups[0], everybody=groups[1]
    )


def _stored_group(settled: Settled, mask: NDArray[np.bool_]) -> StoredGroup:
    return StoredGroup(**asdict(group_of(settled.scores[mask], settled.bad[mask], 1 / settled.odds[mask])))


def label_of(cases: Cases, terms: Terms) -> Label:
    """Return the label of a threshold; T_LOW promises nothing about the patch first sent."""
    if terms.side == "low":
        return terms.defined
    is_known = (cases.as_sent >= 0) & (clean_as_sent(cases, terms.defined).clean >= 0)
    return label_for(int(np.count_nonzero(is_known)), terms.defined)


def settled_cases(
    cases: Cases, trained: Mapping[str, Trained], definition: LabelName, counted: Label, lane: FastLaned, now: datetime
) -> Settled:
    """Return every case with the gate's P(clean) at its opening; NaN for cases that the lane let through unaudited."""
    return Settled(
        keys=[str(key) for key in cases.keys],
        scores=np.where(lane.unanswered(cases), np.nan, _opening_scores(trained)),
        bad=bad_shares(cases, definition, counted, lane.audited, now),
        odds=np.array([lane.audited[key].odds if key in lane.audited else 1.0 for key in cases.keys], dtype=np.float64),
        authors=cases.authors,
        opened_at=cases.opened_at,
        push_holder=cases.push_holder,
        recorded=with_record(settled_record(cases, definition)),
    )


def _opening_scores(trained: Mapping[str, Trained]) -> Floats:
    """Return the gate's P(clean) at opening: the lower of the change's and the author's."""
    return np.fmin(trained["change"].predicted, trained["person"].predicted)
