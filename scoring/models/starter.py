"""The starter model: orders open pull requests by experience of other projects until a model of one's own serves.

It is used for the order of the queue alone: no gate, threshold, certificate or probability reads it. Its coefficients
and their origin are one small JSON file beside this one, made by `train FILE --starter PATH`, without any person or
repository.
"""

import hashlib
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ingest.store.transaction import Rows
from scoring.dataset.catalogue import FEATURES, Feature
from scoring.dataset.dataset import build_cases
from scoring.models.base import FitProblem, Floats
from scoring.models.estimators import Logistic, Lowered

QUERY = Path(__file__).with_name("starter.sql").read_text()
FORMAT = 1
LARGEST = 64_000  # bytes of such a file
DIGITS = 4  # of a borrowed value: sums in another order differ in the last digits
# Facts that a project knows in its first hour: the change, and the author's settled pull requests here, if any.
WEIGHED = (
    "merged_here",
    "refused_here",
    "open_here",
    "lines_changed",
    "lines_deleted",
    "files_touched",
    "share_added",
    "touches_tests",
    "docs_only",
    "touches_sensitive",
)
COLUMNS: tuple[Feature, ...] = tuple(one for name in WEIGHED for one in FEATURES if one.name == name)
ALONE = tuple(one.name for one in COLUMNS if one.moved_by == "self")
logger = logging.getLogger(__name__)


class StarterProblem(Exception):
    """The reason, in one sentence, why a starter file cannot be used."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A starter model as its file holds it; `name` is a hash of the file."""

    name: str
    projects: int
    model: Lowered

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """Return a value in (0, 1) to order changes by, the lowest first.

        Columns have one length n, NaN where unknown.
        """
        return self.model.predict_proba(columns)[:, 1]


@dataclass(frozen=True, slots=True)
class BorrowedOrder:
    """Values in (0, 1) that order the queue, by the address of a change, and the number of projects behind them."""

    values: Mapping[str, float] = field(default_factory=dict)
    projects: int | None = None

    def columns(self, uri: str) -> dict[str, Any]:
        """Return the columns of a decision for this value, null where nothing is borrowed."""
        value = self.values.get(uri)
        return {"borrowed": value, "borrowed_from": None if value is None else self.projects}


class StarterFile:
    """The starter model of one file, read again when it changes; an unusable file is logged once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data: bytes | None = None
        self._starter: Starter | None = None
        self._logged = ""

    def starter(self) -> Starter | None:
        """Return the model; None where it cannot be used, and the queue has its own order."""
        try:
            data, problem = _read_file(self._path), ""
            if data != self._data:
                self._data, self._starter = data, None
                self._starter = parse_starter(data)
            elif self._starter is None:
                problem = self._logged
        except StarterProblem as refused:
            self._starter, problem = None, str(refused)
        if problem and problem != self._logged:
            logger.warning("Nothing is borrowed for the order of the queue: %s.", problem)
        self._logged = problem
        return self._starter


def features() -> list[list[Any]]:
    """Return the features of this code: a file with other names, directions or movers would read wrong numbers."""
    return [[column.name, column.direction, column.moved_by] for column in COLUMNS]


def parse_starter(data: bytes) -> Starter:
    """Read a starter file. Raises StarterProblem for a cut one, other features, or one that a person could raise."""
    try:
        record = json.loads(data)
        if record["format"] != FORMAT or record["features"] != features():
            raise StarterProblem("the starter file was made with other features than this version computes")
        projects, stored = record["provenance"]["projects"], record["model"]
        without, whole = (Logistic.from_dict(stored[part]) for part in ("without", "whole"))
        model = Lowered(without, whole)
        if type(projects) is not int or not 0 < projects < 10_000 or stored["name"] != "lowered":
            raise StarterProblem("the starter file does not say from how many projects it comes")
        starter = Starter(hashlib.sha256(data).hexdigest()[:16], projects, model)
        scores = model.decision_function({name: np.array([np.nan, 0.0, 1e9]) for name in WEIGHED})
    except (AttributeError, FitProblem, KeyError, RecursionError, TypeError, ValueError) as problem:
        raise StarterProblem("the starter file is cut or was changed") from problem
    if not (np.isfinite(scores).all() and set(whole.names_) == set(WEIGHED)):
        raise StarterProblem("the starter file is cut or was changed")
    if set(without.names_) & set(ALONE):
        raise StarterProblem("the starter file would let a person raise their own place")
    return starter


def borrow(
    rows: Rows, starter: Starter | None, changes: Collection[str], now: datetime, window_days: int
) -> BorrowedOrder:
    """Return values to order these open changes by while no model of one's own serves; none without a starter.

    A change in a repository that does not count has no value (`scoring.dataset.dataset`).
    """
    if starter is None or not changes:
        return BorrowedOrder()
    build_cases(rows, now, window_days)
    keys, columns = read_columns(rows, changes)
    scored = zip(keys, starter.values(columns).tolist(), strict=True)
    return BorrowedOrder({key: round(value, DIGITS) for key, value in scored}, starter.projects)


def read_columns(rows: Rows, keys: Collection[str]) -> tuple[list[str], dict[str, Floats]]:
    """Return the keys that are cases, in the order of opening, and their columns; after `build_cases`."""
    table = rows.columns(QUERY, {"keys": list(keys)})
    columns = {name: np.ma.filled(np.ma.asarray(table[name]).astype(np.float64), np.nan) for name in WEIGHED}
    return [str(key) for key in table["key"]], columns


def starter_words(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sentences on how good the order of a starter record is on projects that it has not seen."""
    provenance, figures = record["provenance"], record["on_projects_not_seen"].items()
    shown = {name: "unknown" if value is None else f"{value:.3f}" for name, value in figures if name != "by_project"}
    return (
        f"Fitted to {provenance['rows']:,} settled pull requests of {provenance['projects']} projects, opened from "
        f"{provenance['opened_from']} to {provenance['opened_until']} by people who could not push.",
        f"On projects that it has not seen: AUC {shown['auc']}, from {shown['auc_lowest']} to {shown['auc_highest']}; "
        f"of newcomers {shown['newcomers_auc']}; of the author's record alone {shown['record_auc']}; log-loss "
        f"{shown['log_loss']}, of a constant {shown['constant_log_loss']}.",
    )


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as problem:
        raise StarterProblem(f"the starter file cannot be read ({problem.strerror})") from problem
    if len(data) > LARGEST:
        raise StarterProblem(f"the starter file is longer than {LARGEST:,} bytes")
    return data
