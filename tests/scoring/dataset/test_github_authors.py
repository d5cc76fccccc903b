"""The shrunk rate on authors of another forge, at the one date whose outcome the file holds.

Rates at 2022-07-01 against the share merged until 2023-01-01, each author counting once; the bar is that of
facts/numbers.md. Its other date is 2023-01-01, the last of the file: what came after it is not in the file.
"""

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scoring.dataset.track_record import CLEAN, NOT_CLEAN
from scoring.models.estimators import ShrunkRate
from scoring.training.metrics import auc

DATES = ("2020-01-01", "2021-01-01", "2022-01-01", "2022-07-01", "2023-01-01")


def pair(shared: Path, before: str, after: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pull requests, merged ones) at the first date, and the share merged between the two, of authors with any."""
    table = pq.read_table(shared / "github_authors.parquet", columns=["cutoff", "author", "total_prs", "merge_rate"])
    at: dict[str, dict[str, tuple[int, float]]] = {before: {}, after: {}}
    for row in table.to_pylist():
        if str(row["cutoff"]) in at:
            at[str(row["cutoff"])].setdefault(row["author"], (row["total_prs"], row["total_prs"] * row["merge_rate"]))
    both = [(at[before][name], at[after][name]) for name in sorted(at[before]) if name in at[after]]
    rows = np.array([(n, merged, later - n, more - merged) for (n, merged), (later, more) in both if later > n])
    return rows[:, 0], rows[:, 1], np.clip(rows[:, 3].round(), 0, rows[:, 2]) / rows[:, 2]


def figures(told: np.ndarray, came: np.ndarray) -> tuple[float, float, float]:
    """AUC, Brier and calibration error, each author counting once with the share that came."""
    brier = np.mean(came * (told - 1) ** 2 + (1 - came) * told**2)
    bins = np.minimum((told * 10).astype(int), 9)
    error = sum(abs((told - came)[bins == one].sum()) for one in range(10)) / len(told)
    both, sides = np.concatenate([told, told]), np.repeat([1.0, 0.0], len(told))
    return auc(both, sides, np.concatenate([came, 1 - came])), float(brier), float(error)


def test_the_shrunk_rate_meets_the_bar_that_every_model_has_to_pass(shared: Path) -> None:
    data = shared / "data"
    earlier = np.concatenate([pair(data, *dates)[2] for dates in pairwise(DATES[:4])])
    sides = np.concatenate([np.ones(len(earlier)), np.zeros(len(earlier))]).astype(np.int8)
    shares = np.concatenate([earlier, 1 - earlier])
    number, merged, came = pair(data, "2022-07-01", "2023-01-01")
    model = ShrunkRate().fit({}, sides[shares > 0], weights=shares[shares > 0])
    ordered, brier, error = figures(model.predict_proba({CLEAN: merged, NOT_CLEAN: number - merged})[:, 1], came)
    assert (round(ordered, 3), round(brier, 4)) == pytest.approx((0.656, 0.1695), abs=5e-4)
    assert error <= 0.0125


def test_no_two_dates_of_the_file_give_the_raw_rate_that_was_measured_at_its_last_one(shared: Path) -> None:
    raw = []
    for dates in combinations(DATES, 2):
        number, merged, came = pair(shared / "data", *dates)
        raw.append(figures(merged / number, came))
    assert len(raw) == 10
    measured = np.array([0.544, 0.285, 0.238])
    assert min(np.abs(np.array(one) - measured).max() for one in raw) > 0.05
