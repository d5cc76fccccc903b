"""Reaches an engine that speaks Spark Connect, and runs DuckDB statements in its tasks.

The client is the optional extra `cluster` (requirements/cluster.txt). A task of `task_of` is sent by value, so that a
machine of the cluster needs pyarrow, pandas and DuckDB, but not this project. Their DuckDB must be the one that is
installed here: another version may add floating numbers in another order.
"""

import socket
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PORT, REACHED_SECONDS = 15_002, 10
MOST_WORDS = 300
RETRIES = 5  # 17 s; the client's own 15 are more than ten minutes, and a server that ended has lost its session
MOST_PARTS = 200  # what Spark itself moves grouped rows to
Task = Callable[[pa.Table], pa.Table]
Connect = Callable[[], AbstractContextManager["SparkSession"]]


class ClusterProblem(Exception):
    """The job did not finish; one sentence gives the reason. What was finished stays for the next run."""


@contextmanager
def connected(address: str) -> Generator["SparkSession"]:
    """Yield a session of the engine at `sc://host[:port]`. Raises ClusterProblem, also for what fails in the block."""
    host, port = _host_and_port(address)
    with warnings.catch_warnings():
        # Rows travel as Arrow, no frame of pandas is made; and a problem below tells what went wrong.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        warnings.filterwarnings("ignore", ".*RETRIES_EXCEEDED", UserWarning)
        try:
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
            from pyspark.sql.connect.client.retries import DefaultPolicy
        except ImportError as problem:
            raise ClusterProblem(
                "The Spark Connect client is not installed: run pip install -r requirements/cluster.txt."
            ) from problem
        _require_answer(host, port)
        try:
            session = SparkSession.builder.remote(address).create()
            session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
            try:
                yield session
            finally:
                session.stop()
        except PySparkException as problem:
            raise ClusterProblem(f"The cluster gave up: {' '.join(str(problem).split())[:MOST_WORDS]}") from problem


def _require_answer(host: str, port: int) -> None:
    """Raise ClusterProblem if nobody listens there: the client itself would go on trying for ten minutes."""
    try:
        socket.create_connection((host, port), timeout=REACHED_SECONDS).close()
    except OSError as problem:
        raise ClusterProblem(f"Nothing answers at {host}:{port} ({problem.strerror or problem}).") from problem


def _host_and_port(address: str) -> tuple[str, int]:
    """Split `sc://host[:port][/;parameters]`. Raises ClusterProblem, which repeats nothing: it may hold a token."""
    try:
        parts = urlsplit(address.partition(";")[0])
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        parts, host, port = None, None, 0
    if parts is None or parts.scheme != "sc" or not host:
        raise ClusterProblem("An address of Spark Connect is needed, such as sc://spark.example.com:15002.")
    return host, port


def task_of(statements: Sequence[str]) -> Task:
    """Return a task that runs these statements in DuckDB over its rows, the table `rows`, and returns the last result.

    It is a function within this one, hence sent by value.
    """
    version = duckdb.__version__

    def run(rows: pa.Table) -> pa.Table:
        import duckdb

        if duckdb.__version__ != version:
            raise RuntimeError(f"DuckDB {version} is needed here, and this is {duckdb.__version__}")
        with duckdb.connect(":memory:", config={"threads": 1}) as database:
            database.register("rows", rows)
            for statement in statements[:-1]:
                database.execute(statement).fetchall()
            return database.sql(statements[-1]).to_arrow_table()

    return run


def count_values(path: Path, column: str) -> int:
    """Return how many values a column of a Parquet file has."""
    return len(pq.read_table(path, columns=[column])[column].unique().drop_null())


def grouped(frame: "DataFrame", column: str, values: int, task: Task, schema: pa.Schema) -> "DataFrame":
    """Run the task on all rows of each value of a column together; `schema` is that of its results.

    The rows are moved before they are grouped: Sail would move the part of a group that a reader saw as one message,
    and ends at one of more than 4 MB.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    moved = frame.repartition(min(max(values, 1), MOST_PARTS), column)
    return moved.groupBy(column).applyInArrow(task, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def write(frame: "DataFrame", path: Path) -> None:
    """Let the cluster write a folder of Parquet files; it gets its name once every file is there.

    A repeat after a failure begins with an empty folder. An engine that runs a task twice keeps one result.
    """
    draft = path.with_name(f"{path.name}.part")
    frame.write.mode("overwrite").parquet(draft.as_uri())
    if not draft.is_dir():
        raise ClusterProblem(f"The cluster wrote {draft} where this machine does not see it: share the folder.")
    draft.rename(path)
