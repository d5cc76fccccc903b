"""Features on a cluster beside the one query: `python -m tests.bench.bench_cluster [PULLS [ADDRESS]]`.

DATA_ROOT is a marked folder. One line of JSON: seconds of the one query, of the export, of the cluster, of the check;
how many values differ (goal: 0). Without ADDRESS the engine is Sail on this machine: the cluster can only lose, and
the figure says by how much.
"""

import json
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from ingest.cluster.engine import connected
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.cluster.features import RESULT, ROWS_FILE, check, compute, export, write_result
from scoring.dataset.dataset import NAMES, QUESTIONS
from tests.bench.bench_features import fill_world
from tests.engines import sail
from tests.scoring.cluster.compare import differing, of_file, single
from trustsite.settings import DATA_ROOT

PULLS, SHARDS = 200_000, 8


def main(pulls: int, address: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as name:
        folder = Path(name)
        store = Store.open(folder / "trust.duckdb", memory_mb=4096)
        with store.read() as rows, nullcontext(address) if address else sail(folder) as engine:
            fill_world(rows, pulls)
            rows.rows(QUESTIONS)
            print(json.dumps(measure(rows, folder, engine)), flush=True)
        store.close()


def measure(rows: Rows, folder: Path, address: str) -> dict[str, object]:
    began = time.perf_counter()
    one = single(rows)
    queried = time.perf_counter()
    export(rows, folder / ROWS_FILE, SHARDS)
    exported = time.perf_counter()
    with connected(address) as session:
        compute(session, folder, lambda words: None)
    computed = time.perf_counter()
    check(rows, folder)
    write_result(rows, folder)
    checked = time.perf_counter()
    seconds = {
        "one_query_s": queried - began,
        "export_s": exported - queried,
        "cluster_s": computed - exported,
        "check_s": checked - computed,
    }
    return {
        "rows": len(one["key"]),
        "columns": len(NAMES),
        "differing": differing(one, of_file(folder / RESULT)),
        **{name: round(value, 1) for name, value in seconds.items()},
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PULLS, sys.argv[2] if len(sys.argv) > 2 else None)
