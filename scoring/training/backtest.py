"""Backtests every model and label, quarter by quarter on what came later, all figures as plain values.

What is judged is settled: opened 194 days before the end of what was watched. The newest quarter of the cases is the
test; which model serves there was decided on the judged quarters before it.

The number of trees is chosen once a year: stopping early in each quarter would double the time of a backtest.
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
from scoring.dataset.track_record import settled_record, with_record
from scoring.models.base import Estimator, Floats
from scoring.models.boosted import Boosted
from scoring.models.ensembles import Lowered
from scoring.models.registry import NAMES, make_estimator
from scoring.queries.queue_order import Waiting
from scoring.training.lane_budgets import BUDGETS, play, told_budget, told_low
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
from scoring.training.queue_orders import Arrivals, order_figures
from scoring.training.report import weighed
from scoring.training.rolling_origin import Clock, Past, Scored, blend, calibrate_quarters, first_judged, score_quarters


class Yearly:
    """Makes boosted models for rolling origins: the first of a year stops early, the others have as many trees."""

    def __init__(self, directions: Directions, seed: int, alone: tuple[str, ...] = ()) -> None:
        self.directions = directions
        self.seed = seed
        self.alone = alone
        self._first: dict[np.datetime64, Estimator] = {}

    def make(self, as_of: np.datetime64) -> Estimator:
        """A model for an origin; origins come in the order of time, each fitted before the next is made."""
        year = as_of.astype("datetime64[Y]")
        rounds = trees_of(self._first[year]) if year in self._first else None
        model = make_estimator("lightgbm", self.directions, self.seed, self.alone, rounds)
        if year not in self._first:
            self._first[year] = model
        return model


def trees_of(model: Estimator) -> int | None:
    """Return how many trees a fitted model has; None for one that has none, or that could not be fitted."""
    whole = model.whole if isinstance(model, Lowered) else model
    return getattr(whole, "rounds_", None) if isinstance(whole, Boosted) else None


SCOPES = ("change", "person")
FITTED = ("logistic", "lightgbm")  # in each scope; the blend is the mean of what they said
TEST_SHARE = 0.25
Mask = NDArray[np.bool_]
Tell = Callable[[str], None]


class BacktestProblem(Exception):
    """There is nothing to judge, in one sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The extent of a run. `quarters`: the newest ones to judge, None for five years; `draws` of every bootstrap."""

    labels: Sequence[LabelName] = LABELS
    quarters: int | None = None
    draws: int = 1000
    seed: int = 0


@dataclass(slots=True)
class Study:
    """One label: what each model said of each case, what came, and who is judged."""

    label: LabelName
    past: Past
    clock: Clock
    came: NDArray[np.int8]
    judged: Mask
    tested: Mask
    newcomers: Mask
    scored: dict[tuple[str, str], Scored] = field(default_factory=dict)  # by (scope, model)
    decided: dict[str, Decision] = field(default_factory=dict)

    def served(self, scope: str) -> Scored:
        """Return what the promoted model of a scope said."""
        return self.scored[scope, self.decided[scope].serves]


def steps(plan: Plan, material: Material) -> int:
    """Return how often `tell` is called by `run`."""
    clock, tasks = _clock(plan, material), len(SCOPES) * len(FITTED) + 1
    return len(plan.labels) * (tasks * (len(clock.quarters) - 1) + len(_lanes()))


def run(material: Material, plan: Plan, tell: Tell = lambda words: None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the figures as `manage.py backtest --json` prints them, what the charts of the report need besides).

    Deterministic for a seed. Raises BacktestProblem where no case is settled.
    """
    from threadpoolctl import threadpool_limits

    clock = _clock(plan, material)
    studies = [_study(material, label, clock) for label in plan.labels]
    if not studies or not any(study.judged.any() for study in studies):
        raise BacktestProblem("No pull request of this history is settled: nothing can be judged yet.")
    # One thread a model: two on two busy cores took five times as long.
    with threadpool_limits(1), ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        told = [pool.submit(_score, study, material, scope, name, plan, tell) for study, scope, name in _tasks(studies)]
        for one in told:
            one.result()
        for study in studies:
            for scope in SCOPES:
                study.scored[scope, "blend"] = blend(study.past, study.clock, *_fitted(study, scope))
                study.decided[scope] = _decide(study, scope, plan)
        lanes = list(pool.map(lambda study: _budgets(study, plan, tell), studies))
        lows = list(pool.map(_low_budgets, studies))
    found = {study.label: _told(study, material, plan, lane) for study, lane in zip(studies, lanes, strict=True)}
    for study, low in zip(studies, lows, strict=True):
        label, served = found[study.label], {scope: study.served(scope) for scope in SCOPES}
        everybody, outside = np.ones(len(material), dtype=bool), ~material.cases.push_holder
        label["gate"]["without_push_holders"]["t_low"] = low
        label["order"] = order_figures(arrivals_of(study, served, material, everybody), plan.seed)
        part = label["without_push_holders"]
        part["order"] = order_figures(arrivals_of(study, served, material, outside), plan.seed)
    return {
        "labels": found,
        "seed": plan.seed,
        "data": data_version(material.cases),
        "cases": len(material),
    }, {study.label: _besides(study, material, plan) for study in studies}


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
    came = past.came()
    judged = past.judged(clock.judged_from)
    known = cases.opened_at[outcomes(cases, "label_merge").clean >= 0]  # one beginning for every label
    start = known[int(len(known) * (1 - TEST_SHARE))] if len(known) else clock.judged_from
    first = np.zeros(len(cases), dtype=bool)
    first[np.unique(cases.authors, return_index=True)[1]] = True
    tested = judged & (cases.opened_at >= start)
    return Study(label, past, clock, came, judged, tested, first)


def _tasks(studies: Sequence[Study]) -> list[tuple[Study, str, str]]:
    """The shrunk rate knows nothing of the change: it is scored once and stands in both scopes."""
    slow_first = [(scope, name) for name in reversed(FITTED) for scope in SCOPES]
    return [(study, scope, name) for scope, name in [*slow_first, ("person", "beta")] for study in studies]


def _score(study: Study, material: Material, scope: str, name: str, plan: Plan, tell: Tell) -> None:
    features = _features(study.label, material)
    scored = score_quarters(study.past, features, maker(name, material, scope, plan.seed), study.clock, tell)
    calibrate_quarters(study.past, scored, study.clock)
    study.scored[scope, name] = scored
    if name == "beta":
        study.scored["change", name] = scored


def _features(label: LabelName, material: Material) -> dict[str, Floats]:
    return {**material.cases.features, **settled_record(material.cases, label)}


def _fitted(study: Study, scope: str) -> list[Scored]:
    return [study.scored[scope, name] for name in FITTED]


def maker(name: str, material: Material, scope: str, seed: int) -> Callable[[np.datetime64], Estimator]:
    """Makes the models of a scope: of a person what they move alone only lowers; a change is capped by the gate."""
    directions, alone = (material.person, material.alone) if scope == "person" else (material.change, ())
    if name == "lightgbm":
        return Yearly(directions, seed, alone).make
    return lambda as_of: make_estimator(name, directions, seed, alone)


def _decide(study: Study, scope: str, plan: Plan) -> Decision:
    """On the judged cases that were settled when the test began."""
    cases = study.past.cases
    start = cases.opened_at[study.tested][0] if study.tested.any() else study.clock.judged_from
    slice_ = study.judged & ~study.tested & (cases.opened_at + np.timedelta64(194, "D") <= start)
    candidates = [Candidate(name, study.scored[scope, name].told[slice_]) for name in NAMES]
    return decide(candidates, _came(study, slice_), cases.authors[slice_], plan.draws, plan.seed)


def _lanes() -> list[tuple[str, bool, float]]:
    """(scope, whether push-holders are in it, budget); "gate" takes the lower of a person's and a change's P."""
    return [
        (scope, everybody, budget) for scope in ("change", "gate") for everybody in (True, False) for budget in BUDGETS
    ]


def _budgets(study: Study, plan: Plan, tell: Tell) -> dict[tuple[str, bool, float], dict[str, Any]]:
    found = {}
    for scope, everybody, budget in _lanes():
        group = np.ones(len(study.judged), dtype=bool) if everybody else ~study.past.cases.push_holder
        scored = [study.served("change")] if scope == "change" else [study.served(one) for one in SCOPES]
        lane = play(study.past, scored, group, study.clock, budget)
        judged = study.judged & group
        found[scope, everybody, budget] = told_budget(
            study.past, lane, study.came, judged, study.newcomers, study.clock, budget, plan.draws, plan.seed
        )
        tell(f"{study.label}: a lane of {budget:.0%}")
    return found


def _low_budgets(study: Study) -> dict[str, dict[str, Any]]:
    """Return what T_LOW would have done in the gate, of people with a record who may not push."""
    group = with_record(settled_record(study.past.cases, study.label)) & ~study.past.cases.push_holder
    told = (study.past, [study.served(one) for one in SCOPES], study.came, group, study.judged, study.clock)
    return {str(budget): told_low(*told, budget) for budget in BUDGETS}


def arrivals_of(study: Study, served: Mapping[str, Scored], material: Material, group: Mask) -> Arrivals:
    """Return the judged cases of a group as the queue would have met them, with the chance that the gate takes.

    `served` is what the model of each scope said.
    A first-timer had nothing settled in that repository yet.
    """
    cases, record = study.past.cases, settled_record(study.past.cases, study.label)
    chance = np.minimum(served["person"].told, served["change"].told)
    which = np.flatnonzero(study.judged & group & ~np.isnan(chance))
    opened, nothing = cases.opened_at[which], np.zeros(len(which), dtype=bool)
    here = record["lately_clean_here"] + record["lately_not_clean_here"]
    risk = np.array([material.risk.get(cases.keys[one], np.nan) for one in which], dtype=np.float64)
    return Arrivals(
        Waiting(chance[which], risk, np.zeros(len(which)), opened, here[which] == 0, nothing, nothing),
        served["change"].told[which],
        study.came[which] == 0,
        np.fmin(cases.merged_at, cases.refused_at)[which],
    )


def _told(study: Study, material: Material, plan: Plan, lanes: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    return {
        **_scope(study, "change", material, plan, lanes),
        "person": _scope(study, "person", material, plan, {}),
        "gate": _gate(study, material, plan, lanes),
    }


def _scope(
    study: Study, scope: str, material: Material, plan: Plan, lanes: Mapping[Any, dict[str, Any]]
) -> dict[str, Any]:
    cases, served, tested = study.past.cases, study.served(scope), study.tested
    outside = tested & ~cases.push_holder
    newcomers = tested & study.newcomers
    return {
        "test": _named(study, scope, tested, plan),
        "models": {name: _figures(study, study.scored[scope, name], tested, plan) for name in NAMES},
        "newcomers": _named(study, scope, newcomers, plan),
        "without_push_holders": {
            **_named(study, scope, outside, plan),
            "models": {name: _figures(study, study.scored[scope, name], outside, plan) for name in NAMES},
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
            served.told[tested], _came(study, tested), cases.authors[tested], plan.draws, plan.seed
        ),
        "repositories": {
            name: _figures(study, served, tested & (cases.repositories == number), plan)
            for number, name in sorted(material.repositories.items(), key=lambda pair: pair[1])
            if (tested & (cases.repositories == number)).any()
        },
    }


def _gate(study: Study, material: Material, plan: Plan, lanes: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    told = np.minimum(study.served("person").told, study.served("change").told)
    capped = Scored(told, told)
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
    found = {str(budget): lanes[scope, everybody, budget] for budget in BUDGETS} if lanes else {}
    return {"budgets": found} if found else {}


def _named(study: Study, scope: str, which: Mask, plan: Plan) -> dict[str, Any]:
    start = study.past.cases.opened_at[study.tested]
    return {
        "from": str(start[0].astype("datetime64[D]")) if len(start) else None,
        "model": study.decided[scope].serves,
        **_figures(study, study.served(scope), which, plan),
    }


def _figures(study: Study, scored: Scored, which: Mask, plan: Plan) -> dict[str, Any]:
    """Those of the newcomers among them are `newcomers_n` and `newcomers_auc`."""
    first = which & study.newcomers
    value = auc(scored.odds[first], _came(study, first)) if first.any() else np.nan
    return {
        **figures_of(scored.told[which], _came(study, which), plan.draws, plan.seed, scored.odds[which]),
        "newcomers_n": int(first.sum()),
        "newcomers_auc": number(value),
    }


def _gain(study: Study, scope: str, which: Mask, plan: Plan) -> dict[str, Any]:
    """Over the Beta-shrunk rate."""
    served, plain = study.served(scope), study.scored[scope, "beta"]
    authors = study.past.cases.authors[which]
    pair = [(one.told[which], one.odds[which]) for one in (served, plain)]
    return gain_of(*pair, _came(study, which), authors, plan.draws, plan.seed)


def _splits(study: Study, served: Scored, material: Material, plan: Plan) -> dict[str, Any]:
    """Return where what serves lies above or below the Beta-shrunk rate in the test."""
    cases, plain, came = study.past.cases, study.scored["person", "beta"], study.came.astype(np.float64)
    parts = splits_of(cases, study.clock.quarters, material.repositories, study.newcomers, study.tested)
    return gains_by_split(served.told, plain.told, came, cases.authors, parts, plan.draws, plan.seed)


def _came(study: Study, which: Mask) -> Floats:
    return study.came[which].astype(np.float64)


def _besides(study: Study, material: Material, plan: Plan) -> dict[str, Any]:
    """Of the test of each scope: the reliability curve and CORP; what was decided and said aloud; what trees weigh.
    Under "judged" the figures of every judged quarter, as a page shows them."""
    trees = study.scored["change", "lightgbm"].newest
    found: dict[str, Any] = {"weighed": weighed(trees, _features(study.label, material), study.tested, plan.seed)}
    found["judged"] = _judged(study, plan)
    for scope in SCOPES:
        told, came = study.served(scope).told[study.tested], _came(study, study.tested)
        found[scope] = {
            "reliability": reliability(told, came, plan.draws, plan.seed),
            "corp": decompose(told, came) if len(came) else None,
            "decision": study.decided[scope].as_dict(),
            "said": sorted({words for name in NAMES for words in study.scored[scope, name].said}),
            "auc": {name: _quarterly(study, study.scored[scope, name].told) for name in NAMES},
        }
    return found


def _judged(study: Study, plan: Plan) -> dict[str, Any]:
    """Return how the chance that rows show, the lower of the two, did on all that was judged: by whom each was sent.

    Each was scored by a model of before its quarter; `reliability` is of people who may not push.
    """
    cases, told = study.past.cases, np.minimum(study.served("person").told, study.served("change").told)
    everybody = study.judged & ~np.isnan(told)
    outside = everybody & ~cases.push_holder
    opened = cases.opened_at[everybody].astype("datetime64[D]")
    return {
        "since": opened[0].item() if len(opened) else None,
        "until": opened[-1].item() if len(opened) else None,
        "groups": {
            name: {
                "n": int(which.sum()),
                "bad": int((study.came[which] == 0).sum()),
                "auc": number(auc(told[which], _came(study, which))) if which.any() else None,
            }
            for name, which in (("outside", outside), ("newcomers", outside & study.newcomers), ("all", everybody))
        },
        "reliability": reliability(told[outside], _came(study, outside), plan.draws, plan.seed),
    }


def _quarterly(study: Study, told: Floats) -> list[tuple[str, float]]:
    """The AUC of each judged quarter, where there is one."""
    cases, starts = study.past.cases, study.clock.quarters
    found = []
    for start, end in pairwise(starts):
        part = study.judged & (cases.opened_at >= start) & (cases.opened_at < end)
        value = auc(told[part], _came(study, part)) if part.any() else np.nan
        if not np.isnan(value):
            found.append((str(start.astype("datetime64[M]")), float(value)))
    return found
