"""The starter model: the order of open pull requests, borrowed from other projects until a model of one's own serves.

It says who is looked at first where nothing of an author is settled yet, and nothing else: no gate, threshold,
certificate or probability reads it. Coefficients and where they come from are one small JSON file beside this one, made
by `train FILE --starter PATH`; no person and no repository is in it.
"""

import hashlib
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ingest.store.transaction import Rows
from scoring.dataset.catalogue import FEATURES, Feature
from scoring.dataset.dataset import build_cases
from scoring.models.base import FitProblem
from scoring.models.ensembles import Lowered
from scoring.models.linear import Logistic

if TYPE_CHECKING:
    from scoring.models.base import Floats
    from scoring.models.ensembles import Lowered

QUERY = Path(__file__).with_name("starter.sql").read_text()
FORMAT = 1
LARGEST = 64_000  # bytes of such a file
DIGITS = 4  # of a borrowed value: sums in another order differ in the last places
# What a project knows in its first hour: the change, and of its author what was settled here, which may be nothing.
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
    """A starter file cannot be used, in one sentence."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A starter model as its file holds it; `name` changes with every byte of that."""

    name: str
    projects: int
    model: "Lowered"

    def values(self, columns: Mapping[str, "Floats"]) -> "Floats":
        """Return what changes are ordered by, in (0, 1), the lowest first.

        Columns of one length n, NaN where unknown.
        """
        return self.model.predict_proba(columns)[:, 1]


@dataclass(frozen=True, slots=True)
class BorrowedOrder:
    """Values that a pass borrowed: one in (0, 1) for each change by its address, and from how many projects."""

    values: Mapping[str, float] = field(default_factory=dict)
    projects: int | None = None

    def columns(self, uri: str) -> dict[str, Any]:
        """The columns of a decision that hold it, null where nothing is borrowed."""
        value = self.values.get(uri)
        return {"borrowed": value, "borrowed_from": None if value is None else self.projects}


class StarterFile:
    """The starter model of one file, read again when it changes; one that cannot be used is told once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data: bytes | None = None
        self._held: Starter | None = None
        self._told = ""

    def starter(self) -> Starter | None:
        """The model; None where there is none to use, and the queue goes on without."""
        try:
            data, problem = _read_file(self._path), ""
            if data != self._data:
                self._data, self._held = data, None
                self._held = parse_starter(data)
            elif self._held is None:
                problem = self._told
        except StarterProblem as refused:
            self._held, problem = None, str(refused)
        if problem and problem != self._told:
            logger.warning("Nothing is borrowed for the order of the queue: %s.", problem)
        self._told = problem
        return self._held


def features() -> list[list[Any]]:
    """Return what the code computes: a file of other names, directions or movers would read the wrong numbers."""
    return [[column.name, column.direction, column.moved_by] for column in COLUMNS]


def parse_starter(data: bytes) -> Starter:
    """A starter file. Raises StarterProblem for one that is cut, of other features, or that a person could raise."""
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
    """Return what these open changes are ordered by while no model of one's own serves; nothing without a starter.

    A change in a repository that does not count has none (`scoring.dataset.dataset`).
    """
    if starter is None or not changes:
        return BorrowedOrder()
    build_cases(rows, now, window_days)
    keys, columns = read_columns(rows, changes)
    found = zip(keys, starter.values(columns).tolist(), strict=True)
    return BorrowedOrder({key: round(value, DIGITS) for key, value in found}, starter.projects)


def read_columns(rows: Rows, keys: Collection[str]) -> tuple[list[str], dict[str, "Floats"]]:
    """Those of these keys that are cases, in the order of opening, and their columns; after `build_cases`."""
    table = rows.columns(QUERY, {"keys": list(keys)})
    columns = {name: np.ma.filled(np.ma.asarray(table[name]).astype(np.float64), np.nan) for name in WEIGHED}
    return [str(key) for key in table["key"]], columns


def starter_words(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how good the order of a starter record is on projects that it has not seen, in sentences."""
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
