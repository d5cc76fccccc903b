"""The material of a history file alone, read in a store of its own that goes away."""

import tempfile
from datetime import datetime
from pathlib import Path

from ingest.past_pulls import import_past
from ingest.store import Store
from scoring.learning.material import Material, read_material
from scoring.policy import Policy


def material_of_file(path: Path, folder: Path, now: datetime, policy: Policy) -> Material:
    """What a file of past pull requests (docs/history.md) gives to learn from. Raises PastProblem in one sentence.

    `folder` is where the store lies meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="backtest-", dir=folder) as scratch:
        store = Store.open(Path(scratch) / "past.duckdb", wall=lambda: now)
        try:
            import_past(store, path, None, "file")
            with store.read() as rows:
                return read_material(rows, now, policy)
        finally:
            store.close()
