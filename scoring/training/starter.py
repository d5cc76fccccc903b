"""Makes a starter model and curve from other projects (`scoring.models.starter`, `lane_curve`), and measures the model.

Each project starts afresh every 365 days: nothing is known of anybody then, as where a project begins here. Each is
judged by a model of the others, which has not seen it. Those who may push are left out, as they are of a lane. Nothing
depends on the clock: the file is the same wherever it is made.
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
from scoring.certificates.lane_counts import ScoredCases
from scoring.certificates.lane_curve import curve_of, given_rate, group_of
from scoring.certificates.lane_offer import Group
from scoring.certificates.threshold_queries import table_of
from scoring.config.policy import Policy
from scoring.dataset.cases import Cases
from scoring.dataset.dataset import build_cases, read_cases
from scoring.dataset.labels import WINDOW_DAYS, outcomes, settled
from scoring.dataset.track_record import CLEAN, NOT_CLEAN, settled_record
from scoring.models.base import FitProblem, Floats, Labels
from scoring.models.ensembles import Lowered, without_alone
from scoring.models.linear import Logistic, ShrunkRate
from scoring.models.registry import SHRUNK_RATE
from scoring.models.serving import LABEL
from scoring.models.starter import ALONE, COLUMNS, FORMAT, features, read_columns
from scoring.training.metrics import auc, auc_of, interval, log_losses

PURPOSE = "The order of open pull requests until a model of one's own serves; never a probability, never a certificate."
CURVE_PURPOSE = "What a fast lane may be estimated by until enough is settled on the site itself; never a certificate."
FEWEST_PROJECTS = 3  # with fewer nothing can be said of projects that the model has not seen
PLACES = 6  # of what is kept
DRAWS = 400
# Of people and projects only that they differ is kept.
AFRESH = """
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
WHO = "select project, person from cases where not is_bot order by opened_at, key"


@dataclass(frozen=True, slots=True)
class History:
    """Settled pull requests of people who may not push, as columns of one length n."""

    columns: dict[str, Floats]
    given: Floats  # the shrunk rate of the author's record in that project at the opening, NaN without one
    came: Labels
    projects: NDArray[np.int64]
    people: NDArray[np.int64]
    opened_at: NDArray[np.datetime64]
    watched_until: np.datetime64
    everybody: Group  # the lane with those who may push

    def part(self, which: NDArray[np.bool_]) -> tuple[dict[str, Floats], Labels]:
        """Columns and outcomes of these."""
        return {name: column[which] for name, column in self.columns.items()}, self.came[which]


def starter_of_file(path: Path, folder: Path, now: datetime, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The starter file that a file of past pull requests (docs/history.md) gives, and its curve, as plain values.

    `folder` is where a store lies meanwhile. Raises PastProblem and FitProblem in one sentence.
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
    """Return what the temporary table `cases` gives to learn from; it is left with every project started afresh."""
    rows.rows(AFRESH)
    cases, who = read_cases(rows), rows.columns(WHO)
    keys, columns = read_columns(rows, [str(key) for key in cases.keys])
    if keys != [str(key) for key in cases.keys]:
        raise ValueError("these are not the cases that the columns belong to")
    came = outcomes(cases, LABEL).clean
    known, given = settled(cases) & (came >= 0), _given(cases)
    used = known & ~cases.push_holder
    if not used.any():
        raise FitProblem("there is no settled history to learn from")
    return History(
        {name: column[used] for name, column in columns.items()},
        given[used],
        came[used],
        np.asarray(who["project"], dtype=np.int64)[used],
        np.asarray(who["person"], dtype=np.int64)[used],
        cases.opened_at[used],
        cases.observed_until.max(),
        group_of(given[known], (1 - came[known]).astype(np.float64), np.ones(np.count_nonzero(known))),
    )


def _given(cases: Cases) -> Floats:
    record, policy = settled_record(cases, LABEL), Policy()
    return given_rate(record[CLEAN], record[NOT_CLEAN], policy.prior, policy.strength)


def curve_record(history: History, digest: str) -> dict[str, Any]:
    """Return the starter's curve for its file: the fast lane by the shrunk rate on this history, at each threshold.

    Each project starts afresh every 365 days there too, like the site that borrows the curve.
    """
    known, bad = np.isfinite(history.given), 1.0 - history.came
    judged = (history.given, bad, history.people, history.opened_at)
    days = float((history.opened_at.max() - history.opened_at.min()) / np.timedelta64(1, "D"))
    curve = curve_of(table_of(ScoredCases.of(*(one[known] for one in judged))), "starter", len(bad), days)
    if curve is None:
        raise FitProblem("nobody in this history had a record when they sent something")
    newcomers = group_of(history.given[~known], bad[~known], np.ones(np.count_nonzero(~known)))
    policy = Policy()
    made = {
        "format": FORMAT,
        "purpose": CURVE_PURPOSE,
        "provenance": {"sha256": digest, **_where_from(history)},
        "score": {"model": SHRUNK_RATE, "prior": policy.prior, "strength": policy.strength},
        "cases": curve.cases,
        "days": curve.days,
        "points": [asdict(one) for one in curve.points],
        "newcomers": asdict(newcomers),
        "everybody": asdict(history.everybody),
    }
    return _rounded(made)


def record_of(history: History, digest: str, seed: int) -> dict[str, Any]:
    """The starter file of this history, figures rounded to PLACES. Raises FitProblem where too little is known."""
    projects = len(np.unique(history.projects))
    if projects < FEWEST_PROJECTS:
        raise FitProblem(f"a starter model needs {FEWEST_PROJECTS} projects or more, and the file holds {projects}")
    everything = np.ones(len(history.came), dtype=np.bool_)
    provenance = {"sha256": digest, **_where_from(history), "seed": seed}
    made = {
        "format": FORMAT,
        "purpose": PURPOSE,
        "features": features(),
        "provenance": provenance,
        "model": fit(*history.part(everything)).as_dict(),
        "on_projects_not_seen": judge(history, seed),
    }
    return _rounded(made)


def _where_from(history: History) -> dict[str, Any]:
    return {
        "projects": len(np.unique(history.projects)),
        "rows": len(history.came),
        "opened_from": str(history.opened_at.min().astype("datetime64[D]")),
        "opened_until": str(history.opened_at.max().astype("datetime64[D]")),
        "watched_until": str(history.watched_until.astype("datetime64[D]")),
        "label": LABEL,
    }


def text_of(record: dict[str, Any]) -> str:
    """The record as the file holds it."""
    return json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n"


def fit(columns: dict[str, Floats], came: Labels) -> Lowered:
    """Return what a person moves alone, such as what they choose to send, only lowers."""
    directions = {one.name: one.direction for one in COLUMNS}
    return Lowered(Logistic(without_alone(directions, ALONE)), Logistic(directions)).fit(columns, came)


def judge(history: History, seed: int) -> dict[str, Any]:
    """Return how good the order is in each project by a model of the others, the largest project first.

    Means are over projects by their size. `record_auc` is what the shrunk rate of the author's own record gives,
    `newcomers` are those of whose author nothing was settled there, and a log-loss is set beside that of a constant,
    the clean rate of the other projects.
    """
    found = [_judge_one(history, project, seed) for project in np.unique(history.projects)]
    found.sort(key=lambda one: -one["n"])
    sizes = np.array([one["n"] for one in found], dtype=np.float64)
    means = ("auc", "record_auc", "newcomers_auc", "log_loss", "constant_log_loss")
    overall = {name: _mean([one[name] for one in found], sizes) for name in means}
    ordered = [one["auc"] for one in found if one["auc"] is not None]
    ends = {"auc_lowest": min(ordered, default=None), "auc_highest": max(ordered, default=None)}
    return {**overall, **ends, "by_project": found}


def _judge_one(history: History, project: int, seed: int) -> dict[str, Any]:
    its = history.projects == project
    columns, came = history.part(its)
    others, taught = history.part(~its)
    told = fit(others, taught).predict_proba(columns)[:, 1]
    by_record = ShrunkRate("merged_here", "refused_here").fit(others, taught).predict_proba(columns)[:, 1]
    target, new = came.astype(np.float64), columns["merged_here"] + columns["refused_here"] == 0
    return {
        "n": len(came),
        "clean": float(target.mean()),
        "auc": _auc(told, target),
        "auc_95": [_number(end) for end in interval(auc_of(told, target), history.people[its], DRAWS, seed)],
        "record_auc": _auc(by_record, target),
        "newcomers": int(new.sum()),
        "newcomers_auc": _auc(told[new], target[new]),
        "log_loss": float(log_losses(told, target).mean()),
        "constant_log_loss": float(log_losses(np.full(len(came), taught.mean()), target).mean()),
    }


def _auc(told: Floats, came: Floats) -> float | None:
    return _number(auc(told, came))


def _number(value: float) -> float | None:
    """None for NaN, as JSON has none: a project whose outcomes are all the same has no order to judge."""
    return None if np.isnan(value) else value


def _mean(values: list[float | None], sizes: Floats) -> float | None:
    known = np.array([value is not None for value in values])
    if not known.any():
        return None
    return float(np.average(np.array([value for value in values if value is not None]), weights=sizes[known]))


def _rounded(value: Any) -> Any:
    """Plain values with every float rounded to PLACES."""
    if isinstance(value, float):
        return round(value, PLACES)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
