"""The shrunk rate on authors of another forge, at the one date whose outcome the file holds.

Rates at 2022-07-01 against the share merged until 2023-01-01, each author counting once; the bar is that of
facts/numbers.md. What came after 2023-01-01, the last date of the file, is not in it.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scoring.learning.measures import auc
from scoring.learning.simple import CLEAN, NOT_CLEAN, ShrunkRate

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


def test_the_shrunk_rate_meets_the_bar_that_every_model_has_to_pass(shared: Path) -> None:
    data = shared / "data"
    earlier = np.concatenate([pair(data, *dates)[2] for dates in pairwise(DATES[:4])])
    sides = np.concatenate([np.ones(len(earlier)), np.zeros(len(earlier))]).astype(np.int8)
    shares = np.concatenate([earlier, 1 - earlier])
    number, merged, came = pair(data, "2022-07-01", "2023-01-01")
    model = ShrunkRate().fit({}, sides[shares > 0], weights=shares[shares > 0])
    told = model.predict_proba({CLEAN: merged, NOT_CLEAN: number - merged})[:, 1]
    brier = np.mean(came * (told - 1) ** 2 + (1 - came) * told**2)
    bins = np.minimum((told * 10).astype(int), 9)
    error = sum(abs((told - came)[bins == one].sum()) for one in range(10)) / len(told)
    both = np.concatenate([told, told])
    ordered = auc(both, np.repeat([1.0, 0.0], len(told)), np.concatenate([came, 1 - came]))
    assert (round(ordered, 3), round(float(brier), 4)) == pytest.approx((0.656, 0.1695), abs=5e-4)
    assert error <= 0.0125
