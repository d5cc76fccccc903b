"""Backtests every model and label, quarter by quarter on later cases; all figures are plain values.

Only settled cases are judged: opened 194 days before the end of the observed time. The newest quarter of the cases is
the test; the model that serves there was chosen on the judged quarters before it.

The number of trees is chosen once a year: early stopping in each quarter would double the time of a backtest.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import LABELS, Directions, LabelName
from scoring.dataset.dataset import Material, data_version
from scoring.dataset.labels import outcomes, settled
from scoring.dataset.track_record import settled_record, with_bad_record, with_record
from scoring.models.base import Estimator, Floats
from scoring.models.estimators import Boosted, Lowered
from scoring.models.registry import NAMES, make_estimator
from scoring.queries.queue_order import Waiting
from scoring.training.graph_trial import GRAPH_NAMES, UNHEARD, GraphTrial
from scoring.training.metrics import (
    auc,
    decompose,
    figures_of,
    gain_of,
    gains_by_split,
    intervals_of,
    number,
    reliability,
    splits_of,
    widths_of,
)
from scoring.training.promotion import Candidate, Decision, decide
from scoring.training.replays import BUDGETS, Arrivals, budget_figures, low_budget_figures, order_figures, replay_lane
from scoring.training.report import weighed
from scoring.training.rolling_origin import Clock, Past, Scored, blend, calibrate_quarters, first_judged, score_quarters
from scoring.training.summary import GRAPH


class Yearly:
    """Makes boosted models for rolling origins: the first of a year stops early, the others get as many trees."""

    def __init__(self, directions: Directions, seed: int, alone: tuple[str, ...] = ()) -> None:
        self.directions = directions
        self.seed = seed
        self.alone = alone
        self._first: dict[np.datetime64, Estimator] = {}

    def make(self, as_of: np.datetime64) -> Estimator:
        """Make a model for an origin; origins come in the order of time, each fitted before the next is made."""
        year = as_of.astype("datetime64[Y]")
        rounds = trees_of(self._first[year]) if year in self._first else None
        model = make_estimator("lightgbm", self.directions, self.seed, self.alone, rounds)
        if year not in self._first:
            self._first[year] = model
        return model


def trees_of(model: Estimator) -> int | None:
    """Return the number of trees of a fitted model; None without trees, or if it could not be fitted."""
    main_model = model.whole if isinstance(model, Lowered) else model
    return getattr(main_model, "rounds_", None) if isinstance(main_model, Boosted) else None


SCOPES = ("change", "person")
FITTED = ("logistic", "lightgbm")  # in each scope; the blend is the mean of their log odds
TEST_SHARE = 0.25
Mask = NDArray[np.bool_]
Tell = Callable[[str], None]


class BacktestProblem(Exception):
    """There are no cases to judge; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The extent of a run. `quarters`: the newest ones to judge, None for five years; `draws` of every bootstrap.

    `graph` tries the graph network, too; None leaves it out.
    """

    labels: Sequence[LabelName] = LABELS
    quarters: int | None = None
    draws: int = 1000
    seed: int = 0
    graph: GraphTrial | None = None


@dataclass(slots=True)
class Study:
    """One label: each model's scores, the observed outcomes, and masks of the judged, tested and newcomers' cases."""

    label: LabelName
    past: Past
    clock: Clock
    observed: NDArray[np.int8]
    judged: Mask
    tested: Mask
    newcomers: Mask
    scored: dict[tuple[str, str], Scored] = field(default_factory=dict)  # by (scope, model)
    decided: dict[str, Decision] = field(default_factory=dict)
    names: tuple[str, ...] = NAMES  # of all models to show
    seeds: dict[tuple[str, str], list[Scored]] = field(default_factory=dict)  # of the graph network, by (scope, model)
    graph_lift: float = 0.0  # the most by which anybody raised their own P alone under it

    def served(self, scope: str) -> Scored:
        return self.scored[scope, self.decided[scope].serves]


def steps(plan: Plan, material: Material) -> int:
    """Return the number of calls of `tell` by `run`."""
    clock, tasks = _clock(plan, material), len(SCOPES) * len(FITTED) + 1
    tasks += plan.graph.chains() if plan.graph else 0
    return len(plan.labels) * (tasks * (len(clock.quarters) - 1) + len(_lane_keys()))


def run(material: Material, plan: Plan, tell: Tell = lambda words: None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures as `manage.py backtest --json` prints them, and the further data for the report's charts.

    Deterministic for a seed. Raises BacktestProblem if no case is settled.
    """
    from threadpoolctl import threadpool_limits

    clock = _clock(plan, material)
    studies = [_study(material, label_figures, clock) for label_figures in plan.labels]
    if not studies or not any(study.judged.any() for study in studies):
        raise BacktestProblem("No pull request of this history is settled: nothing can be judged yet.")
    # One thread a model: two on two busy cores took five times as long.
    with threadpool_limits(1), ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures = [
            pool.submit(_score, study, material, scope, name, plan, tell) for study, scope, name in _tasks(studies)
        ]
        for future in futures:
            future.result()
        for study in studies:
            for scope in SCOPES:
                study.scored[scope, "blend"] = blend(study.past, study.clock, *_fitted(study, scope))
    if plan.graph is not None:  # one after the other: PyTorch uses every core for one fit, and has one source of chance
        for study in studies:
            _try_graph(study, material, plan.graph, tell)
    with threadpool_limits(1), ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for study in studies:
            study.decided = {scope: _decide(study, scope, plan, study.judged) for scope in SCOPES}
        lanes = list(pool.map(lambda study: _budget_figures(study, plan, tell), studies))
        lows = list(pool.map(_low_budget_figures, studies))
    figures = {
        study.label: _label_figures(study, material, plan, lane) for study, lane in zip(studies, lanes, strict=True)
    }
    for study, low in zip(studies, lows, strict=True):
        label_figures, served = figures[study.label], {scope: study.served(scope) for scope in SCOPES}
        everybody, outside = np.ones(len(material), dtype=bool), ~material.cases.push_holder
        label_figures["gate"]["without_push_holders"]["t_low"] = low
        label_figures["order"] = order_figures(arrivals_of(study, served, material, everybody), plan.seed)
        outsiders = label_figures["without_push_holders"]
        outsiders["order"] = order_figures(arrivals_of(study, served, material, outside), plan.seed)
    return {
        "labels": figures,
        "seed": plan.seed,
        "data": data_version(material.cases),
        "cases": len(material),
    }, {study.label: _chart_data(study, material, plan) for study in studies}


def _clock(plan: Plan, material: Material) -> Clock:
    opened = material.cases.opened_at[settled(material.cases)]
    if not len(opened):
        raise BacktestProblem("No pull request of this history is settled: nothing can be judged yet.")
    last = opened[-1]
    if plan.quarters is not None:
        return Clock.of((last.astype("datetime64[M]") - 3 * (plan.quarters - 1)).astype("datetime64[us]"), last)
    return Clock.of(first_judged(material.cases, last), last)


def _study(material: Material, label: LabelName, clock: Clock) -> Study:
    cases = material.cases
    past = Past(cases, label, material.lane)
    observed = past.observed()
    judged = past.judged(clock.judged_from)
    merge_known = cases.opened_at[outcomes(cases, "label_merge").clean >= 0]  # one beginning for every label
    start = merge_known[int(len(merge_known) * (1 - TEST_SHARE))] if len(merge_known) else clock.judged_from
    newcomers = np.zeros(len(cases), dtype=bool)
    newcomers[np.unique(cases.authors, return_index=True)[1]] = True
    tested = judged & (cases.opened_at >= start)
    return Study(label, past, clock, observed, judged, tested, newcomers)


def _tasks(studies: Sequence[Study]) -> list[tuple[Study, str, str]]:
    """Return the models to score; the shrunk rate ignores the change, so one score serves both scopes."""
    slow_first = [(scope, name) for name in reversed(FITTED) for scope in SCOPES]
    return [(study, scope, name) for scope, name in [*slow_first, ("person", "beta")] for study in studies]


def _score(study: Study, material: Material, scope: str, name: str, plan: Plan, tell: Tell) -> None:
    features = _features(study.label, material)
    scored = score_quarters(study.past, features, maker(name, material, scope, plan.seed), study.clock, tell)
    calibrate_quarters(study.past, scored, study.clock)
    study.scored[scope, name] = scored
    if name == "beta":
        study.scored["change", name] = scored


def _try_graph(study: Study, material: Material, trial: GraphTrial, tell: Tell) -> None:
    """Score the graph network, and the same net without neighbours, over its seeds; the mean of seeds is the model."""
    columns, study.names = _features(study.label, material), (*NAMES, *GRAPH_NAMES)
    for scope in SCOPES:
        for name in GRAPH_NAMES:
            seeds = [
                trial.score(study.past, columns, material, study.clock, scope, name, seed, tell)
                for seed in range(trial.seeds)
            ]
            odds = np.mean([scored.odds for scored in seeds], axis=0)
            study.seeds[scope, name] = seeds
            study.scored[scope, name] = Scored(odds, np.full(len(odds), np.nan), seeds[0].said)
            calibrate_quarters(study.past, study.scored[scope, name], study.clock)
    if study.judged.any():
        study.graph_lift = trial.lift(study.past, columns, material, study.clock, study.judged)


def _features(label: LabelName, material: Material) -> dict[str, Floats]:
    return {**material.cases.features, **settled_record(material.cases, label)}


def _fitted(study: Study, scope: str) -> list[Scored]:
    return [study.scored[scope, name] for name in FITTED]


def maker(name: str, material: Material, scope: str, seed: int) -> Callable[[np.datetime64], Estimator]:
    """Return a maker of a scope's models: columns that a person moves alone only lower; the gate caps a change."""
    directions, alone = (material.person, material.alone) if scope == "person" else (material.change, ())
    if name == "lightgbm":
        return Yearly(directions, seed, alone).make
    return lambda as_of: make_estimator(name, directions, seed, alone)


def _decide(study: Study, scope: str, plan: Plan, group: Mask, graph: bool = False) -> Decision:
    """Choose the model on the judged cases of a group that were settled when the test began.

    With `graph` the network is tried behind the others; nothing serves it, so what serves is chosen without it.
    """
    cases = study.past.cases
    start = cases.opened_at[study.tested][0] if study.tested.any() else study.clock.judged_from
    slice_ = study.judged & group & ~study.tested & (cases.opened_at + np.timedelta64(194, "D") <= start)
    candidates = [Candidate(name, study.scored[scope, name].predicted[slice_]) for name in NAMES]
    if graph and (scope, GRAPH) in study.seeds:
        observed = _observed(study, slice_)
        by_seed = (auc(scored.odds[slice_], observed) for scored in study.seeds[scope, GRAPH])
        aucs = tuple(value for value in by_seed if not np.isnan(value))
        lift = study.graph_lift if scope == "person" else 0.0  # the gate caps a change
        candidates.append(Candidate(GRAPH, study.scored[scope, GRAPH].predicted[slice_], aucs, lift))
    return decide(candidates, _observed(study, slice_), cases.authors[slice_], plan.draws, plan.seed)


def _lane_keys() -> list[tuple[str, bool, float]]:
    """Return (scope, with push-holders, budget) of each lane; "gate" takes the lower P of person and change."""
    return [
        (scope, everybody, budget) for scope in ("change", "gate") for everybody in (True, False) for budget in BUDGETS
    ]


def _budget_figures(study: Study, plan: Plan, tell: Tell) -> dict[tuple[str, bool, float], dict[str, Any]]:
    figures = {}
    for scope, everybody, budget in _lane_keys():
        group = np.ones(len(study.judged), dtype=bool) if everybody else ~study.past.cases.push_holder
        scored = [study.served("change")] if scope == "change" else [study.served(scope_name) for scope_name in SCOPES]
        lane = replay_lane(study.past, scored, group, study.clock, budget)
        judged = study.judged & group
        figures[scope, everybody, budget] = budget_figures(
            study.past, lane, study.observed, judged, study.newcomers, study.clock, budget, plan.draws, plan.seed
        )
        tell(f"{study.label}: a lane of {budget:.0%}")
    return figures


def _low_budget_figures(study: Study) -> dict[str, dict[str, Any]]:
    """Return the effect that T_LOW would have had in the gate, for people with a record who may not push."""
    record = settled_record(study.past.cases, study.label)
    group = with_record(record) & ~study.past.cases.push_holder
    arguments = (
        study.past,
        [study.served(scope) for scope in SCOPES],
        study.observed,
        group,
        with_bad_record(record),
        study.judged,
        study.clock,
    )
    return {str(budget): low_budget_figures(*arguments, budget) for budget in BUDGETS}


def arrivals_of(study: Study, served: Mapping[str, Scored], material: Material, group: Mask) -> Arrivals:
    """Return the judged cases of a group as the queue would have received them, with the gate's chance.

    `served` are the scores of each scope's model. A first-timer had no settled case in that repository.
    """
    cases, record = study.past.cases, settled_record(study.past.cases, study.label)
    chance = np.minimum(served["person"].predicted, served["change"].predicted)
    positions = np.flatnonzero(study.judged & group & ~np.isnan(chance))
    opened, no_flags = cases.opened_at[positions], np.zeros(len(positions), dtype=bool)
    settled_here = record["lately_clean_here"] + record["lately_not_clean_here"]
    risk = np.array([material.risk.get(cases.keys[position], np.nan) for position in positions], dtype=np.float64)
    return Arrivals(
        Waiting(
            chance[positions],
            risk,
            np.zeros(len(positions)),
            opened,
            settled_here[positions] == 0,
            no_flags,
            no_flags,
            np.arange(len(positions)),
        ),
        served["change"].predicted[positions],
        study.observed[positions] == 0,
        np.fmin(cases.merged_at, cases.refused_at)[positions],
    )


def _label_figures(study: Study, material: Material, plan: Plan, lanes: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    return {
        **_scope_figures(study, "change", material, plan, lanes),
        "person": _scope_figures(study, "person", material, plan, {}),
        "gate": _gate_figures(study, material, plan, lanes),
    }


def _scope_figures(
    study: Study, scope: str, material: Material, plan: Plan, lanes: Mapping[Any, dict[str, Any]]
) -> dict[str, Any]:
    cases, served, tested = study.past.cases, study.served(scope), study.tested
    outside = tested & ~cases.push_holder
    newcomers = tested & study.newcomers
    return {
        "test": _served_figures(study, scope, tested, plan),
        "models": {name: _figures(study, study.scored[scope, name], tested, plan) for name in study.names},
        "trials": _decide(study, scope, plan, study.judged, graph=True).as_dict(),
        **_graph_part(study, scope, tested, plan),
        "newcomers": _served_figures(study, scope, newcomers, plan),
        "without_push_holders": {
            **_served_figures(study, scope, outside, plan),
            "models": {name: _figures(study, study.scored[scope, name], outside, plan) for name in study.names},
            "trials": _decide(study, scope, plan, ~cases.push_holder, graph=True).as_dict(),
            **_graph_part(study, scope, outside, plan),
            "newcomers": _figures(study, served, newcomers & outside, plan),
            "gain": _gain(study, scope, outside, plan),
            **_budget_part(lanes, "change", False),
        },
        **_budget_part(lanes, "change", True),
        "gain": _gain(study, scope, tested, plan),
        "gain_of_newcomers": _gain(study, scope, newcomers, plan),
        "splits": _splits(study, served, material, plan),
        "venn_abers": widths_of(study.past, served, study.clock, tested, study.newcomers),
        "intervals": intervals_of(
            served.predicted[tested], _observed(study, tested), cases.authors[tested], plan.draws, plan.seed
        ),
        "repositories": {
            name: _figures(study, served, tested & (cases.repositories == number), plan)
            for number, name in sorted(material.repositories.items(), key=lambda pair: pair[1])
            if (tested & (cases.repositories == number)).any()
        },
    }


def _gate_figures(study: Study, material: Material, plan: Plan, lanes: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    predicted = np.minimum(study.served("person").predicted, study.served("change").predicted)
    capped = Scored(predicted, predicted)
    outside, newcomers = study.tested & ~study.past.cases.push_holder, study.tested & study.newcomers
    return {
        "test": _figures(study, capped, study.tested, plan),
        "newcomers": _figures(study, capped, newcomers, plan),
        "splits": _splits(study, capped, material, plan),
        **_budget_part(lanes, "gate", True),
        "without_push_holders": {
            "test": _figures(study, capped, outside, plan),
            "newcomers": _figures(study, capped, newcomers & outside, plan),
            **_budget_part(lanes, "gate", False),
        },
    }


def _budget_part(lanes: Mapping[Any, dict[str, Any]], scope: str, everybody: bool) -> dict[str, Any]:
    figures = {str(budget): lanes[scope, everybody, budget] for budget in BUDGETS} if lanes else {}
    return {"budgets": figures} if figures else {}


def _served_figures(study: Study, scope: str, mask: Mask, plan: Plan) -> dict[str, Any]:
    start = study.past.cases.opened_at[study.tested]
    return {
        "from": str(start[0].astype("datetime64[D]")) if len(start) else None,
        "model": study.decided[scope].serves,
        **_figures(study, study.served(scope), mask, plan),
    }


def _figures(study: Study, scored: Scored, mask: Mask, plan: Plan) -> dict[str, Any]:
    """Return the figures of the masked cases; `newcomers_n` and `newcomers_auc` are those of newcomers among them."""
    newcomers = mask & study.newcomers
    value = auc(scored.odds[newcomers], _observed(study, newcomers)) if newcomers.any() else np.nan
    return {
        **figures_of(scored.predicted[mask], _observed(study, mask), plan.draws, plan.seed, scored.odds[mask]),
        "newcomers_n": int(newcomers.sum()),
        "newcomers_auc": number(value),
    }


def _graph_part(study: Study, scope: str, mask: Mask, plan: Plan) -> dict[str, Any]:
    """Return the gains of the graph network over the blend and over itself without neighbours; {} if not tried."""
    if (scope, GRAPH) not in study.seeds:
        return {}
    graph = study.scored[scope, GRAPH]
    gains = {name: _gain_over(study, graph, study.scored[scope, name], mask, plan) for name in ("blend", UNHEARD)}
    return {"graph_gain": gains}


def _gain(study: Study, scope: str, mask: Mask, plan: Plan) -> dict[str, Any]:
    return _gain_over(study, study.served(scope), study.scored[scope, "beta"], mask, plan)


def _gain_over(study: Study, better: Scored, plain: Scored, mask: Mask, plan: Plan) -> dict[str, Any]:
    authors = study.past.cases.authors[mask]
    pair = [(scored.predicted[mask], scored.odds[mask]) for scored in (better, plain)]
    return gain_of(*pair, _observed(study, mask), authors, plan.draws, plan.seed)


def _splits(study: Study, served: Scored, material: Material, plan: Plan) -> dict[str, Any]:
    cases, plain, observed = study.past.cases, study.scored["person", "beta"], study.observed.astype(np.float64)
    parts = splits_of(cases, study.clock.quarters, material.repositories, study.newcomers, study.tested)
    return gains_by_split(served.predicted, plain.predicted, observed, cases.authors, parts, plan.draws, plan.seed)


def _observed(study: Study, mask: Mask) -> Floats:
    return study.observed[mask].astype(np.float64)


def _chart_data(study: Study, material: Material, plan: Plan) -> dict[str, Any]:
    """Return the data for charts: reliability, CORP, decision and remarks of each scope, and the trees' weights.

    "judged" holds the figures of all judged quarters for the site's page.
    """
    trees = study.scored["change", "lightgbm"].newest
    extras: dict[str, Any] = {"weighed": weighed(trees, _features(study.label, material), study.tested, plan.seed)}
    extras["judged"] = _judged_figures(study, plan)
    for scope in SCOPES:
        predicted, observed = study.served(scope).predicted[study.tested], _observed(study, study.tested)
        extras[scope] = {
            "reliability": reliability(predicted, observed, plan.draws, plan.seed),
            "corp": decompose(predicted, observed) if len(observed) else None,
            "decision": _decide(study, scope, plan, study.judged, graph=True).as_dict(),
            "said": sorted({words for name in study.names for words in study.scored[scope, name].said}),
            "auc": {name: _quarterly_auc(study, study.scored[scope, name].predicted) for name in study.names},
        }
    return extras


def _judged_figures(study: Study, plan: Plan) -> dict[str, Any]:
    """Return the figures of the shown chance, the lower of the two, on all judged cases by group of senders.

    Each case was scored by a model from before its quarter; `reliability` is that of people who may not push.
    """
    cases, predicted = study.past.cases, np.minimum(study.served("person").predicted, study.served("change").predicted)
    everybody = study.judged & ~np.isnan(predicted)
    outside = everybody & ~cases.push_holder
    opened = cases.opened_at[everybody].astype("datetime64[D]")
    return {
        "since": opened[0].item() if len(opened) else None,
        "until": opened[-1].item() if len(opened) else None,
        "groups": {
            name: {
                "n": int(mask.sum()),
                "bad": int((study.observed[mask] == 0).sum()),
                "auc": number(auc(predicted[mask], _observed(study, mask))) if mask.any() else None,
            }
            for name, mask in (("outside", outside), ("newcomers", outside & study.newcomers), ("all", everybody))
        },
        "reliability": reliability(predicted[outside], _observed(study, outside), plan.draws, plan.seed),
    }


def _quarterly_auc(study: Study, predicted: Floats) -> list[tuple[str, float]]:
    """Return the AUC of each judged quarter that has one."""
    cases, starts = study.past.cases, study.clock.quarters
    values = []
    for start, end in pairwise(starts):
        in_quarter = study.judged & (cases.opened_at >= start) & (cases.opened_at < end)
        value = auc(predicted[in_quarter], _observed(study, in_quarter)) if in_quarter.any() else np.nan
        if not np.isnan(value):
            values.append((str(start.astype("datetime64[M]")), float(value)))
    return values
