"""Features on a cluster beside the one query: `python -m tests.bench.bench_cluster [PULLS [ADDRESS]]`.

DATA_ROOT is a marked folder. DuckDB takes every core, as the engines do, and 4,096 MB or `--memory-mb N`. First a line
of JSON with the seconds of the one query and of the export, then one for each engine: seconds of the cluster and of the
check, how many values differ (goal: 0), and how many times as long as the one query all of it took. Without ADDRESS the
engines are Sail and, where SPARK_HOME names it, Spark with two workers, all on this machine: there a cluster can only
lose, and the figure says by how much.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingest.cluster.engine import connected
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.cluster.features import RESULT, ROWS_FILE, check, compute, export, write_result
from scoring.cluster.job import CASES_A_SHARD, FEWEST_SHARDS
from scoring.dataset.dataset import NAMES, QUESTIONS
from tests.bench.bench_features import fill_world
from tests.engines import sail, spark
from tests.scoring.cluster.compare import differing, of_file, single
from trustsite.settings import DATA_ROOT

PULLS, MEMORY_MB = 200_000, 4_096


def main(pulls: int, address: str | None, memory_mb: int) -> None:
    threads = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as name:
        folder = Path(name)
        store = Store.open(folder / "trust.duckdb", memory_mb=memory_mb)
        with store.read() as rows:
            fill_world(rows, pulls)
            rows.rows(QUESTIONS)
            rows.rows(f"set threads = {threads}")
            began = time.perf_counter()
            one = single(rows)
            queried = time.perf_counter()
            export(rows, folder / "all.parquet", max(FEWEST_SHARDS, pulls // CASES_A_SHARD))
            own = {"one_query_s": queried - began, "export_s": time.perf_counter() - queried}
            say(rows=pulls, columns=len(NAMES), threads=threads, memory_mb=memory_mb, **own)
            for engine in [address] if address else ["sail", *(["spark"] if os.environ.get("SPARK_HOME") else [])]:
                with answering(engine, folder) as there:
                    cluster = measure(rows, folder, there)
                seconds = own["export_s"] + sum(cluster.values())
                unlike = differing(one, of_file(folder / RESULT))
                say(engine=engine, differing=unlike, **cluster, times_the_one_query=seconds / own["one_query_s"])
        store.close()


@contextmanager
def answering(engine: str, folder: Path) -> Generator[str]:
    """The address of an engine by its name, or what is an address already."""
    if engine == "sail":
        with sail(folder) as address:
            yield address
    elif engine == "spark":
        with spark(folder, Path(os.environ["SPARK_HOME"])) as (address, _):
            yield address
    else:
        yield engine


def measure(rows: Rows, folder: Path, address: str) -> dict[str, float]:
    """Seconds of both passes, and of the check with the result written down."""
    (folder / ROWS_FILE).hardlink_to(folder / "all.parquet")  # what a job drops at its end
    began = time.perf_counter()
    with connected(address) as session:
        compute(session, folder, lambda words: None)
    computed = time.perf_counter()
    check(rows, folder)
    write_result(rows, folder)
    return {"cluster_s": computed - began, "check_s": time.perf_counter() - computed}


def say(**figures: Any) -> None:
    around = {"load": os.getloadavg()[0], "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000}
    print(
        json.dumps(
            {name: round(one, 1) if isinstance(one, float) else one for name, one in (figures | around).items()}
        ),
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pulls", nargs="?", type=int, default=PULLS)
    parser.add_argument("address", nargs="?")
    parser.add_argument("--memory-mb", type=int, default=MEMORY_MB)
    main(**vars(parser.parse_args()))
