"""Real pull requests of public projects, read as the site reads them."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scoring.diff.parser import read_change
from scoring.scanners.submission import Submission


def real_submissions(shared: Path, count: int) -> Iterator[tuple[str, Submission]]:
    """`count` diffs spread evenly over the file, each with its project and number."""
    table = _table(shared)
    step = max(1, table.num_rows // count)
    for place in range(0, table.num_rows, step)[:count]:
        [row] = table.slice(place, 1).to_pylist()
        yield f"{row['repo']}#{row['number']}", Submission(read_change(row["diff"]))


@lru_cache(maxsize=1)
def _table(shared: Path) -> pa.Table:
    return pq.read_table(shared / "data" / "pr_diffs.parquet", columns=["repo", "number", "diff"])
