"""Training on 1,000,000 pull requests: `python -m tests.bench.bench_training [PULLS]`, with DATA_ROOT a marked folder.

One line of JSON a step: seconds of wall time and of CPU, and the peak memory so far. Goal: 2 minutes on 2 cores. The
steps are those of one training: the record, survival-weighted labels, the logistic model, boosted trees (with their
early stop) and the choice of a map. The history is that of bench_features, whose outcomes are drawn: its models learn
little, and take as long as others.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ingest.store.database import Store
from scoring.dataset.cases import Cases
from scoring.dataset.dataset import add_features, material_of, read_cases
from scoring.dataset.labels import known_by
from scoring.dataset.track_record import settled_record
from scoring.models.calibration import choose
from scoring.models.registry import make_estimator
from scoring.models.serving import LABEL
from tests.bench.bench_features import PULLS, fill_world
from trustsite.settings import DATA_ROOT

NOW = np.datetime64("2026-12-31")


@contextmanager
def step(name: str) -> Generator[None]:
    """Print what the block took."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    told = {"s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"training": name, **{key: round(value, 1) for key, value in told.items()}, "peak_mb": peak}))


def history(pulls: int) -> Cases:
    """A history with its features, in a store that is closed again."""
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb", memory_mb=4096)
        with store.read() as rows:
            fill_world(rows, pulls)
            cases = add_features(rows, read_cases(rows))
        store.close()
    return cases


def main(pulls: int) -> None:
    """Each step by itself, then all of them together."""
    cases = history(pulls)
    directions = material_of(cases, {}).change
    with step("all"), threadpool_limits(1):
        with step("record"):
            columns = {**cases.features, **settled_record(cases, LABEL)}
        with step("labels"):
            known = known_by(cases, LABEL, NOW)
            came = known.target.astype(np.float64)
            rows = {name: columns[name][known.positions] for name in directions}
        for name in ("logistic", "lightgbm"):
            with step(name):
                model = make_estimator(name, directions).fit(rows, known.target, weights=known.weight)
            with step(f"map of {name}"):
                choose(model.decision_function(rows), came, cases.authors[known.positions], known.weight)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PULLS)
