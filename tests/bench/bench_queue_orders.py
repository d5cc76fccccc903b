"""Measures what orders of the queue would have done: `python -m tests.bench.bench_queue_orders HISTORY DIFFS`.

Both are Parquet: past pull requests as docs/history.md lists them, and the diffs of some of them (repo, number, diff).
One line of JSON for each label, group and order, as `order_figures` says. The content risk is that of the scanners on
these diffs; the rest of them has none. It takes ten minutes.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from scoring.diff.parser import read_change
from scoring.review.deterministic import assess
from scoring.scanners.run import examine
from scoring.scanners.submission import Submission
from scoring.training.backtest import SCOPES, arrivals_of
from scoring.training.replays import order_figures
from tests.bench.lane_past import read_studies


def risks_of(diffs: Path, keys: set[str]) -> dict[str, float]:
    """The content risk of each of these cases whose diff is in the file."""
    found = {}
    for row in pq.read_table(diffs).to_pylist():
        key = f"imported:file:{row['repo']}#{row['number']}"
        if key in keys:
            change = read_change(row["diff"] or "")
            found[key] = assess(change, examine(Submission(change)).findings).content_risk
    return found


def measure(history: Path, diffs: Path) -> None:
    """Print the figures of every order, of everybody and of those who may not push."""
    material, studies = read_studies(history)
    judged = np.any([study.judged for study in studies], axis=0)
    material = replace(material, risk=risks_of(diffs, set(material.cases.keys[judged])))
    groups = {"everybody": np.ones(len(material), dtype=bool), "no push-holders": ~material.cases.push_holder}
    for study in studies:
        served = {scope: study.served(scope) for scope in SCOPES}
        for words, group in groups.items():
            arrivals = arrivals_of(study, served, material, group)
            about = {"label": study.label, "group": words, "n": len(arrivals.bad), "bad": int(arrivals.bad.sum())}
            for name, figures in order_figures(arrivals, 0).items():
                print(json.dumps({**about, "order": name, **figures}), flush=True)


if __name__ == "__main__":
    measure(*map(Path, sys.argv[1:]))
