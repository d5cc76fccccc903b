"""Features of one query and features of a file, side by side."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingest.store.transaction import Rows
from scoring.dataset.dataset import HASHED, NAMES, QUERY

SINGLE = f"select {HASHED.format('key')} as key, columns(* exclude (key, place))::double from ({QUERY}) order by 1"


def single(rows: Rows) -> dict[str, NDArray[Any]]:
    """The features of the one query, in the order of hashed keys; the temporary tables are there."""
    return plain(rows.columns(SINGLE))


def of_file(path: Path) -> dict[str, NDArray[Any]]:
    table = pq.read_table(path)
    return plain({name: table[name].to_numpy() for name in table.column_names})


def plain(columns: dict[str, Any]) -> dict[str, NDArray[Any]]:
    return {
        name: np.ma.filled(columns[name], np.nan) if name in NAMES else np.asarray(columns[name])
        for name in ("key", *NAMES)
    }


def differing(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> int:
    """How many values differ in any bit but those of the unknown."""
    assert one["key"].tolist() == other["key"].tolist()
    unlike = 0
    for name in NAMES:
        bits = one[name].view(np.int64) != other[name].view(np.int64)
        unlike += int(np.count_nonzero(bits & ~(np.isnan(one[name]) & np.isnan(other[name]))))
    return unlike
