"""Measures what the shape of a change adds to P(clean): `python -m tests.bench.bench_shape_history HISTORY DIFFS`.

Both are Parquet: past pull requests as docs/history.md lists them, and the diffs of some of them (repo, number, diff).
One line of JSON for each label and kind of feature: the gain over a map of the served P(clean) alone, a regression on
its log odds, by a regression on these and the features. Both are refitted each half-year on judged pull requests opened
half a year before or earlier, so that their outcome was known. Intervals are over authors; a positive gain is better.
It takes a quarter of an hour.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from scoring.diff.parser import read_change
from scoring.models.base import Floats
from scoring.training.backtest import Study
from scoring.training.metrics import gain_of
from tests.bench.change_shape import FEATURES, FINDINGS, finding_counts, shape_of
from tests.bench.lane_past import read_studies

STRENGTHS = (0.001, 0.01, 0.1)  # C of the regression on features; that of the log odds is as good as free
HALF_YEAR, SETTLED = 6, 7  # months
FEWEST = 400  # cases for a first fit
FREE = 100.0  # scale of the log odds, which the penalty hardly reaches
EDGE = 1e-3  # of P(clean)
Row = dict[str, float]


def features_of(diffs: Path, keys: set[str]) -> dict[str, Row]:
    """Return shape and findings of each of these cases whose diff is in the file."""
    rows: dict[str, Row] = {}
    for row in pq.read_table(diffs).to_pylist():
        key = f"imported:file:{row['repo']}#{row['number']}"
        if key in keys:
            change = read_change(row["diff"] or "")
            rows[key] = {**shape_of(change), **finding_counts(change)}
    return rows


def predict_forward(columns: Floats, odds: Floats, clean: NDArray[np.int64], months: NDArray[np.int64]) -> Floats:
    """Return P(clean) of each case from what was settled before its half-year; NaN before FEWEST were."""
    spread = columns.std(axis=0) + 1e-9
    inputs = np.column_stack([odds * FREE, columns / spread])
    chances = np.full(len(odds), np.nan)
    for half in np.unique(months // HALF_YEAR):
        known = np.flatnonzero(months < half * HALF_YEAR - SETTLED)
        if len(known) >= FEWEST:
            now = months // HALF_YEAR == half
            strength = _best_strength(inputs[known], clean[known]) if columns.shape[1] else 1.0
            chances[now] = _fit(inputs[known], clean[known], strength).predict_proba(inputs[now])[:, 1]
    return chances


def _best_strength(inputs: Floats, clean: NDArray[np.int64]) -> float:
    """Return the strength that does best on the newest 30 % of these cases, which are in the order of time."""
    cut = int(0.7 * len(clean))
    losses = []
    for strength in STRENGTHS:
        chances = _fit(inputs[:cut], clean[:cut], strength).predict_proba(inputs[cut:])[:, 1]
        losses.append(-np.log(np.where(clean[cut:] == 1, chances, 1 - chances)).mean())
    return STRENGTHS[int(np.argmin(losses))]


def _fit(inputs: Floats, clean: NDArray[np.int64], strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=2_000).fit(inputs, clean)


def gains(study: Study, features: dict[str, Row]) -> dict[str, object]:
    """Return the gain of each kind of feature on the judged cases with a diff."""
    cases, predicted = study.past.cases, study.served("change").predicted
    has_diff = np.array([key in features for key in cases.keys])
    at = np.flatnonzero(study.judged & has_diff & ~np.isnan(predicted))
    at = at[np.argsort(cases.opened_at[at], kind="stable")]
    chance, clean = np.clip(predicted[at], EDGE, 1 - EDGE), (study.observed[at] == 1).astype(np.int64)
    odds, months = np.log(chance / (1 - chance)), cases.opened_at[at].astype("datetime64[M]").astype(np.int64)
    plain = predict_forward(np.empty((len(at), 0)), odds, clean, months)
    used = ~np.isnan(plain)
    told: dict[str, object] = {"n": int(used.sum()), "bad": int((clean[used] == 0).sum())}
    for words, names in {"shape": FEATURES, "findings": FINDINGS, "both": (*FEATURES, *FINDINGS)}.items():
        columns = np.array([[features[key][name] for name in names] for key in cases.keys[at]])
        ours = predict_forward(columns, odds, clean, months)[used]
        told[words] = gain_of(
            (ours, ours), (plain[used], plain[used]), clean[used].astype(float), cases.authors[at][used], 1_000, 0
        )
    return told


def measure(history: Path, diffs: Path) -> None:
    """Print the gains of every label."""
    material, studies = read_studies(history)
    judged = np.any([study.judged for study in studies], axis=0)
    features = features_of(diffs, set(material.cases.keys[judged]))
    for study in studies:
        print(json.dumps({"label": study.label, **gains(study, features)}), flush=True)


if __name__ == "__main__":
    measure(*map(Path, sys.argv[1:]))
