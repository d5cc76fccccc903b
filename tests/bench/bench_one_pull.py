"""Scoring one pull request as the worker does: `python -m tests.bench.bench_one_pull`, with DATA_ROOT a marked folder.

One line of JSON a way, each with the median of wall time and of CPU in ms for one pull request. Goal: under 5 ms.
"model": P(clean) of the change and of its author, their shares and intervals, from columns that are there. "features":
those columns, from a store of 100,000 pull requests: the real history and copies of it by other people in other
repositories. "alone": all that a pass does for one. "among 1,000": the same for 1,000 in one pass. The models are
fitted to columns drawn at random, and have as many trees as real ones; 5,000 settled cases stand behind intervals.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from ingest.history_import.pulls import import_past
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.dataset.dataset import build_cases
from scoring.models.calibration import CalibrationCases
from scoring.models.estimators import FEWEST
from scoring.models.serving import _predict_scope, predict, read_columns
from scoring.models.storage import ScopeModel, ServedModel, load_model, save_model
from tests.scoring.models.test_serving import made_up_model
from tests.sources import PROJECT
from trustsite.settings import DATA_ROOT

HISTORY = PROJECT.parent / "shared" / "data" / "pr_history.parquet"
NOW, WINDOW_DAYS, SETTLED, MANY = datetime(2026, 11, 1), 14, 5_000, 1_000
COPIES, APART = 6, 10_000_000  # no pull request of the history has so high a number
COPY = """
insert into imported_pulls by name
select * replace (number + $shift as number, author_id - $shift::bigint as author_id,
  repository_id - $shift::bigint as repository_id, concat(repository, $shift::varchar) as repository)
from imported_pulls where number < $apart
"""
NEWEST = "select key, author_id, repository_id from cases order by opened_at desc, key limit ?"


def main() -> None:
    """Import the real history with its copies, then score its newest pull requests by each kind of model."""
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb")
        import_past(store, HISTORY, None, "github")
        with store.write() as txn:
            for number in range(1, COPIES + 1):
                txn.execute(COPY, {"shift": number * APART, "apart": APART})
        with store.read() as rows:
            for name in ("logistic", "lightgbm"):
                _run(rows, name, _served(Path(folder), name))
        store.close()


def _served(folder: Path, name: str) -> ServedModel:
    """A model as it is read back, with as many settled cases as a real one."""
    served = load_model(folder, save_model(folder, made_up_model(1, names=(name, name), rounds=FEWEST), ""))
    draw = np.random.default_rng(1)
    odds = draw.normal(1.0, 1.0, SETTLED)
    came = (draw.random(SETTLED) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    behind = CalibrationCases.of(odds, came, np.ones(SETTLED), draw.integers(0, 400, SETTLED))

    def settled(part: ScopeModel) -> ScopeModel:
        return replace(part, behind=behind)

    return replace(served, person=settled(served.person), change=settled(served.change))


def _run(rows: Rows, name: str, served: ServedModel) -> None:
    build_cases(rows, NOW, WINDOW_DAYS)
    newest = {row["key"]: (row["author_id"], row["repository_id"]) for row in rows.rows(NEWEST, [MANY])}
    key, author = next(iter(newest.items()))
    columns, places, _ = read_columns(rows, [author], [key], NOW, WINDOW_DAYS)

    def from_columns() -> None:
        told = [_predict_scope(part, columns) for part in (served.person, served.change)]
        for one in told:
            one.at(places[key])

    _report(name, "model", from_columns, 1, 200)
    _report(name, "features", lambda: read_columns(rows, [author], [key], NOW, WINDOW_DAYS), 1, 15)
    _report(name, "alone", lambda: predict(rows, served, [], {key: author}, {}, NOW, WINDOW_DAYS), 1, 15)
    _report(name, "among 1,000", lambda: predict(rows, served, [], newest, {}, NOW, WINDOW_DAYS), MANY, 3)


def _report(name: str, way: str, work: Callable[[], object], pulls: int, times: int) -> None:
    """The median over so many runs, for one of the pull requests that each scores."""
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append((time.perf_counter() - wall) * 1e3 / pulls)
        cpus.append((time.process_time() - cpu) * 1e3 / pulls)
    told = {"ms": float(np.median(walls)), "cpu_ms": float(np.median(cpus))}
    print(
        json.dumps({"scoring": name, "way": way, **{key: round(value, 2) for key, value in told.items()}}), flush=True
    )


if __name__ == "__main__":
    main()
