"""Makes a starter model and curve from other projects (`scoring.models.starter`, `lane_curve`), and measures the model.

Each project restarts every 365 days without a record of anybody, like a new project on this site. A model of the other
projects judges each project. People who may push are left out, as in a lane. Nothing depends on the clock: the file is
the same on every machine.
"""

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest.history_import.pulls import import_past
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.certificates.lane_counts import Group, ScoredCases
from scoring.certificates.lane_curve import curve_of, given_rate, group_of
from scoring.certificates.threshold_queries import table_of
from scoring.config.policy import Policy
from scoring.dataset.cases import Cases
from scoring.dataset.dataset import build_cases, read_cases
from scoring.dataset.labels import WINDOW_DAYS, outcomes, settled
from scoring.dataset.track_record import CLEAN, NOT_CLEAN, settled_record
from scoring.models.base import FitProblem, Floats, Labels
from scoring.models.estimators import Logistic, Lowered, ShrunkRate, without_alone
from scoring.models.registry import SHRUNK_RATE
from scoring.models.serving import LABEL
from scoring.models.starter import ALONE, COLUMNS, FORMAT, features, read_columns
from scoring.training.metrics import auc, auc_of, interval, log_losses

PURPOSE = "The order of open pull requests until a model of one's own serves; never a probability, never a certificate."
CURVE_PURPOSE = "What a fast lane may be estimated by until enough is settled on the site itself; never a certificate."
FEWEST_PROJECTS = 3  # with fewer the model cannot be measured on unseen projects
PLACES = 6  # decimals in the file
DRAWS = 400
# People and projects become numbers.
RESTART_PROJECTS = """
create or replace temp table cases as
with dated as (
  select *, datediff('day', min(opened_at) over (partition by repository_id), opened_at) // 365 as year from cases
)
select * exclude (year) replace (
    -dense_rank() over (order by repository_id, year) as repository_id,
    -dense_rank() over (order by repository_id, year, author_id) as author_id),
  -dense_rank() over (order by repository_id) as project, -dense_rank() over (order by author_id) as person
from dated order by opened_at, key
"""
PROJECTS_AND_PEOPLE = "select project, person from cases where not is_bot order by opened_at, key"


@dataclass(frozen=True, slots=True)
class History:
    """Settled pull requests of people who may not push, as columns of one length n."""

    columns: dict[str, Floats]
    given: Floats  # the shrunk rate of the author's record in that project at the opening, NaN without one
    observed: Labels
    projects: NDArray[np.int64]
    people: NDArray[np.int64]
    opened_at: NDArray[np.datetime64]
    watched_until: np.datetime64
    everybody: Group  # the lane with those who may push

    def part(self, mask: NDArray[np.bool_]) -> tuple[dict[str, Floats], Labels]:
        return {name: column[mask] for name, column in self.columns.items()}, self.observed[mask]


def starter_of_file(path: Path, folder: Path, now: datetime, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build the starter file and its curve, as plain values, from a file of past pull requests (docs/history.md).

    A temporary store is written to `folder`. Raises PastProblem and FitProblem in one sentence.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="starter-", dir=folder) as scratch:
        store = Store.open(Path(scratch) / "past.duckdb", wall=lambda: now)
        try:
            import_past(store, path, None, "file")
            with store.read() as rows:
                build_cases(rows, now, WINDOW_DAYS)
                history = read_history(rows)
        finally:
            store.close()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return record_of(history, digest, seed), curve_record(history, digest)


def read_history(rows: Rows) -> History:
    """Read the history from the temporary table `cases`, after restarting every project in it."""
    rows.rows(RESTART_PROJECTS)
    cases, people = read_cases(rows), rows.columns(PROJECTS_AND_PEOPLE)
    keys, columns = read_columns(rows, [str(key) for key in cases.keys])
    if keys != [str(key) for key in cases.keys]:
        raise ValueError("these are not the cases that the columns belong to")
    observed = outcomes(cases, LABEL).clean
    is_known, scores = settled(cases) & (observed >= 0), _rate_at_opening(cases)
    used = is_known & ~cases.push_holder
    if not used.any():
        raise FitProblem("there is no settled history to learn from")
    return History(
        {name: column[used] for name, column in columns.items()},
        scores[used],
        observed[used],
        np.asarray(people["project"], dtype=np.int64)[used],
        np.asarray(people["person"], dtype=np.int64)[used],
        cases.opened_at[used],
        cases.observed_until.max(),
        group_of(scores[is_known], (1 - observed[is_known]).astype(np.float64), np.ones(np.count_nonzero(is_known))),
    )


def _rate_at_opening(cases: Cases) -> Floats:
    record, policy = settled_record(cases, LABEL), Policy()
    return given_rate(record[CLEAN], record[NOT_CLEAN], policy.prior, policy.strength)


def curve_record(history: History, digest: str) -> dict[str, Any]:
    """Return the starter's curve for its file: the fast lane by the shrunk rate on this history, at each threshold.

    Projects restart every 365 days there too, like the site that borrows the curve.
    """
    has_score, bad = np.isfinite(history.given), 1.0 - history.observed
    judged = (history.given, bad, history.people, history.opened_at)
    days = float((history.opened_at.max() - history.opened_at.min()) / np.timedelta64(1, "D"))
    curve = curve_of(table_of(ScoredCases.of(*(column[has_score] for column in judged))), "starter", len(bad), days)
    if curve is None:
        raise FitProblem("nobody in this history had a record when they sent something")
    newcomers = group_of(history.given[~has_score], bad[~has_score], np.ones(np.count_nonzero(~has_score)))
    policy = Policy()
    record = {
        "format": FORMAT,
        "purpose": CURVE_PURPOSE,
        "provenance": {"sha256": digest, **_provenance(history)},
        "score": {"model": SHRUNK_RATE, "prior": policy.prior, "strength": policy.strength},
        "cases": curve.cases,
        "days": curve.days,
        "points": [asdict(column) for column in curve.points],
        "newcomers": asdict(newcomers),
        "everybody": asdict(history.everybody),
    }
    return _rounded(record)


def record_of(history: History, digest: str, seed: int) -> dict[str, Any]:
    """Return the starter file of this history, figures rounded to PLACES. Raises FitProblem for too little history."""
    projects = len(np.unique(history.projects))
    if projects < FEWEST_PROJECTS:
        raise FitProblem(f"a starter model needs {FEWEST_PROJECTS} projects or more, and the file holds {projects}")
    everything = np.ones(len(history.observed), dtype=np.bool_)
    provenance = {"sha256": digest, **_provenance(history), "seed": seed}
    record = {
        "format": FORMAT,
        "purpose": PURPOSE,
        "features": features(),
        "provenance": provenance,
        "model": fit(*history.part(everything)).as_dict(),
        "on_projects_not_seen": judge(history, seed),
    }
    return _rounded(record)


def _provenance(history: History) -> dict[str, Any]:
    return {
        "projects": len(np.unique(history.projects)),
        "rows": len(history.observed),
        "opened_from": str(history.opened_at.min().astype("datetime64[D]")),
        "opened_until": str(history.opened_at.max().astype("datetime64[D]")),
        "watched_until": str(history.watched_until.astype("datetime64[D]")),
        "label": LABEL,
    }


def text_of(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"


def fit(columns: dict[str, Floats], observed: Labels) -> Lowered:
    """Fit the starter model; columns that a person moves alone only lower its result."""
    directions = {column.name: column.direction for column in COLUMNS}
    return Lowered(Logistic(without_alone(directions, ALONE)), Logistic(directions)).fit(columns, observed)


def judge(history: History, seed: int) -> dict[str, Any]:
    """Return the figures in each project of a model of the others, the largest project first.

    Means are weighted by size. `record_auc` is that of the shrunk rate of the author's own record, `newcomers` counts
    cases by authors without a settled one there, and `constant_log_loss` is that of the other projects' clean rate.
    """
    by_project = [_judge_project(history, project, seed) for project in np.unique(history.projects)]
    by_project.sort(key=lambda figures: -figures["n"])
    sizes = np.array([figures["n"] for figures in by_project], dtype=np.float64)
    means = ("auc", "record_auc", "newcomers_auc", "log_loss", "constant_log_loss")
    overall = {name: _mean([figures[name] for figures in by_project], sizes) for name in means}
    ordered = [figures["auc"] for figures in by_project if figures["auc"] is not None]
    extremes = {"auc_lowest": min(ordered, default=None), "auc_highest": max(ordered, default=None)}
    return {**overall, **extremes, "by_project": by_project}


def _judge_project(history: History, project: int, seed: int) -> dict[str, Any]:
    mask = history.projects == project
    columns, observed = history.part(mask)
    other_columns, other_outcomes = history.part(~mask)
    predicted = fit(other_columns, other_outcomes).predict_proba(columns)[:, 1]
    by_record = (
        ShrunkRate("merged_here", "refused_here").fit(other_columns, other_outcomes).predict_proba(columns)[:, 1]
    )
    target, is_newcomer = observed.astype(np.float64), columns["merged_here"] + columns["refused_here"] == 0
    return {
        "n": len(observed),
        "clean": float(target.mean()),
        "auc": _auc(predicted, target),
        "auc_95": [_number(end) for end in interval(auc_of(predicted, target), history.people[mask], DRAWS, seed)],
        "record_auc": _auc(by_record, target),
        "newcomers": int(is_newcomer.sum()),
        "newcomers_auc": _auc(predicted[is_newcomer], target[is_newcomer]),
        "log_loss": float(log_losses(predicted, target).mean()),
        "constant_log_loss": float(log_losses(np.full(len(observed), other_outcomes.mean()), target).mean()),
    }


def _auc(predicted: Floats, observed: Floats) -> float | None:
    return _number(auc(predicted, observed))


def _number(value: float) -> float | None:
    """Replace NaN by None, which JSON can hold: a project with one kind of outcome has no AUC."""
    return None if np.isnan(value) else value


def _mean(values: list[float | None], sizes: Floats) -> float | None:
    is_known = np.array([value is not None for value in values])
    if not is_known.any():
        return None
    return float(np.average(np.array([value for value in values if value is not None]), weights=sizes[is_known]))


def _rounded(value: Any) -> Any:
    """Return plain values with every float rounded to PLACES."""
    if isinstance(value, float):
        return round(value, PLACES)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
