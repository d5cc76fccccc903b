"""The lanes of a recorded history, month by month, for the lane benchmarks.

People who may push are left out. The halves of projects were fixed before anything was tried on them (docs/method.md).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from scoring.certificates.lane_counts import ScoredCases
from scoring.config.policy import Policy
from scoring.dataset.dataset import Material, material_of_file
from scoring.models.base import Floats
from scoring.training import backtest
from scoring.training.backtest import SCOPES, Plan, Study
from scoring.training.rolling_origin import LOOK_BACK, WAIT, blend, labels_between, map_at, serving_since

NOW = datetime(2026, 11, 20)  # after everything that the file holds
A = (
    "bugsink/bugsink",
    "django/djangoproject.com",
    "encode/starlette",
    "pallets/flask",
    "qodo-ai/pr-agent",
    "sissbruecker/linkding",
)
B = ("coleifer/huey", "encode/httpx", "healthchecks/healthchecks", "psf/requests", "simonw/datasette")
HALVES: Mapping[str, tuple[str, ...]] = {"A": A, "B": B, "A and B": (*A, *B)}
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Month:
    """One month of a group of projects: the positions of what was opened in it, and the P(clean) of each (`told`).

    Both other parts hold what was known when it began: `judged` the year that ends 30 days before, `longer` everything
    that was ever scored.
    """

    start: np.datetime64
    quarter: np.datetime64
    opened: NDArray[np.int64]
    told: Floats
    judged: ScoredCases
    longer: ScoredCases


def read_studies(file: Path) -> tuple[Material, list[Study]]:
    """Read every case of the file, scored as the models of its time would have done. Takes minutes."""
    with TemporaryDirectory() as folder:
        material = material_of_file(file, Path(folder), NOW, Policy())
    plan = Plan()
    clock = backtest._clock(plan, material)
    studies = [backtest._study(material, label, clock) for label in plan.labels]
    with threadpool_limits(1), ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        tasks = backtest._tasks(studies)
        list(pool.map(lambda task: backtest._score(task[0], material, *task[1:], plan, lambda words: None), tasks))
    for study in studies:
        for scope in SCOPES:
            study.scored[scope, "blend"] = blend(study.past, study.clock, *backtest._fitted(study, scope))
            study.decided[scope] = backtest._decide(study, scope, plan, study.judged)
    return material, studies


def print_rows(file: Path, rows: Callable[[Study, Mask, str], Iterator[str]]) -> None:
    """Print these rows for each half of the projects in the file and each label."""
    material, studies = read_studies(file)
    with threadpool_limits(1):
        for half in HALVES:
            for study in studies:
                for row in rows(study, group_of(material, half), half):
                    print(row, flush=True)


def group_of(material: Material, half: str) -> Mask:
    """The cases of a half's projects whose authors may not push."""
    numbers = [number for number, name in material.repositories.items() if name in HALVES[half]]
    return np.isin(material.cases.repositories, numbers) & ~material.cases.push_holder


def months_of(study: Study, group: Mask, scopes: Sequence[str] = SCOPES) -> Iterator[Month]:
    """Yield the judged months of a group, each with only what was known when it began.

    P(clean) is the lower of two, as the gate takes it, or of the one scope named.
    """
    cases, clock = study.past.cases, study.clock
    told = np.min([study.served(scope).predicted for scope in scopes], axis=0)
    for start, end in zip(clock.months[:-1], clock.months[1:], strict=True):
        opened = np.flatnonzero(group & (cases.opened_at >= start) & (cases.opened_at < end) & ~np.isnan(told))
        quarter = serving_since(clock, start)
        longer = _known(study, group, start, quarter, scopes)
        recent = longer.opened_at >= start - LOOK_BACK
        yield Month(start, quarter, opened, told[opened], longer.select(recent), longer)


def _known(
    study: Study, group: Mask, start: np.datetime64, quarter: np.datetime64, scopes: Sequence[str]
) -> ScoredCases:
    """All cases of a group that were opened 30 days before a moment or earlier, with the scores of that quarter."""
    past, cases = study.past, study.past.cases
    scored = [study.served(scope) for scope in scopes]
    known = labels_between(cases, past.at(start), cases.opened_at[0], start - WAIT)
    used = group[known.positions] & ~np.isnan(np.sum([one.odds[known.positions] for one in scored], axis=0))
    at = known.positions[used]
    mapped = [map_at(past, one, quarter)[0].probability(one.odds[at]) for one in scored]
    return ScoredCases.of(
        np.min(mapped, axis=0), 1.0 - known.target[used], cases.authors[at], cases.opened_at[at], known.weight[used]
    )
