"""Trust of past months for features, computed on a cluster: seed sets are spread, vouches are not.

The graph of each month is written once, as arrays that a task maps from the drive (24 bytes a vouch); the task then
calls the functions that this machine calls. So its machines need this project, and there is no second implementation. A
graph larger than one machine's memory is out of scope (docs/scale.md).
"""

import shutil
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ingest.cluster.engine import ClusterProblem, count_values, grouped, write
from ingest.files import put_in_place
from ingest.store.transaction import Rows, quoted
from scoring.config.policy import Policy
from scoring.dataset.dataset import slice_of, slices_wanted
from scoring.trust.graph import Edges, Floats, Network
from scoring.trust.table import Graph, read_graph, site_share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPHS, WANTED, COMPUTED, SLICES = "graphs", "wanted.parquet", "computed", "slices.parquet"
SETS_A_TASK, CHECKED_SETS = 64, 5
PEOPLE, SHARE = ("contributor_ids", "position", "site"), "share"
PARTS = {"vouches": Network, "denounces": Network, "merges": Edges, "evidence": Edges}
WANTED_SCHEMA = pa.schema(
    {
        "task": pa.int32(),
        "graph": pa.int32(),
        "as_of": pa.timestamp("us"),
        "repository_id": pa.int32(),
        "seeds": pa.list_(pa.int64()),
    }
)
SLICE_SCHEMA = pa.schema(
    {
        "repository_id": pa.int32(),
        "contributor_id": pa.int64(),
        "as_of": pa.timestamp("us"),
        "structural_trust": pa.float64(),
        "eigentrust": pa.float64(),
        "distance": pa.int64(),
        "trusted_denouncers": pa.int64(),
    }
)
COUNTED = """
select count(*) as found, count(distinct (repository_id, as_of, contributor_id)) as people,
  count(distinct (repository_id, as_of)) as slices
from read_parquet($found)
"""


def write_graph(graph: Graph, folder: Path) -> None:
    """Write every array of the graph, and its `site_share`, as a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (*_arrays(graph), (SHARE, site_share(graph))):
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def _arrays(graph: Graph) -> Iterator[tuple[str, Any]]:
    yield from ((name, getattr(graph, name)) for name in PEOPLE)
    for part, kind in PARTS.items():
        yield from ((f"{part}.{field.name}", getattr(getattr(graph, part), field.name)) for field in fields(kind))


@lru_cache(maxsize=1)
def map_graph(folder: str) -> tuple[Graph, Floats]:
    """Map the arrays that `write_graph` wrote, for reading; the last graph stays mapped for the next task."""

    def mapped(name: str) -> Any:
        return np.load(Path(folder) / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def columns(part: str) -> list[Any]:
        return [mapped(f"{part}.{field.name}") for field in fields(PARTS[part])]

    graph = Graph(
        **{name: mapped(name) for name in PEOPLE},
        vouches=Network(*columns("vouches")),
        denounces=Network(*columns("denounces")),
        merges=Edges(*columns("merges")),
        evidence=Edges(*columns("evidence")),
    )
    return graph, mapped(SHARE)


def export(rows: Rows, folder: Path, now: datetime, policy: Policy) -> int:
    """Write the graph of every month and, last, `wanted.parquet`: a row for each slice. Returns their number.

    Raises ClusterProblem where there is none.
    """
    moments, seeds = slices_wanted(rows, now)
    if not moments:
        raise ClusterProblem("Nobody vouches, or nobody is a seed: there is no trust to compute.")
    for place, moment in enumerate(moments):
        write_graph(read_graph(rows, moment, policy), folder / GRAPHS / str(place))
    tasks = -(-len(seeds) // SETS_A_TASK)
    wanted = [
        (place * tasks + number // SETS_A_TASK, place, moment, repository, people)
        for place, moment in enumerate(moments)
        for number, (repository, people) in enumerate(seeds.items())
    ]
    rows_of_table = [dict(zip(WANTED_SCHEMA.names, row, strict=True)) for row in wanted]
    table = pa.Table.from_pylist(rows_of_table, WANTED_SCHEMA)
    draft = folder / f"{WANTED}.part"
    pq.write_table(table, draft)
    put_in_place(draft, folder / WANTED)
    return len(wanted)


def compute_slices(folder: str, policy: Policy, wanted: pa.Table) -> pa.Table:
    """Compute these slices, all of one graph; the task of the cluster."""
    slices = [SLICE_SCHEMA.empty_table()]
    for row in wanted.to_pylist():
        graph, share = map_graph(str(Path(folder) / GRAPHS / str(row["graph"])))
        table = slice_of(graph, row["repository_id"], row["seeds"], share, policy)
        moments = pa.array([row["as_of"]] * len(table), pa.timestamp("us"))
        slices.append(table.append_column("as_of", moments).select(SLICE_SCHEMA.names).cast(SLICE_SCHEMA))
    return pa.concat_tables(slices)


def compute(session: "SparkSession", folder: Path, policy: Policy) -> None:
    """Compute all slices. Raises ClusterProblem where the files are not seen here."""
    sent = replace(policy, audit_key=b"", models=None, starter=None)  # the key never leaves this machine

    def task(rows: pa.Table) -> pa.Table:
        return compute_slices(str(folder), sent, rows)

    wanted = session.read.parquet((folder / WANTED).as_uri())
    write(grouped(wanted, "task", count_values(folder / WANTED, "task"), task, SLICE_SCHEMA), folder / COMPUTED)


def check(rows: Rows, folder: Path, policy: Policy) -> int:
    """Compute CHECKED_SETS slices here as well and compare them in every bit; count the others. Return how many.

    Raises ClusterProblem where a slice is missing, somebody is twice in one, or a value differs.
    """
    wanted = pq.read_table(folder / WANTED)
    counted = rows.rows(COUNTED, {"found": str(folder / COMPUTED / "*.parquet")})[0]
    if counted["slices"] != len(wanted) or counted["people"] != counted["found"]:
        raise ClusterProblem(f"The cluster gave {counted['slices']} slices of {len(wanted)}: none is taken over.")
    drawn = wanted.take(np.unique(np.linspace(0, len(wanted) - 1, CHECKED_SETS).astype(np.int64)))
    given = ds.dataset(folder / COMPUTED, format="parquet")
    for row in drawn.to_pylist():
        only = (pc.field("repository_id") == row["repository_id"]) & (pc.field("as_of") == row["as_of"])
        ours = compute_slices(str(folder), policy, pa.Table.from_pylist([row], WANTED_SCHEMA))
        theirs = given.to_table(filter=only).select(SLICE_SCHEMA.names).cast(SLICE_SCHEMA)
        if not ours.sort_by("contributor_id").equals(theirs.sort_by("contributor_id")):
            raise ClusterProblem(
                "The cluster computes other trust than this machine: give all of its machines this version and the "
                "packages of requirements/base.txt, empty the folder and run the job again."
            )
    return len(drawn)


def write_result(rows: Rows, folder: Path) -> None:
    """Write `slices.parquet` in one order, so that a repeat gives the same bytes; then drop the graphs."""
    draft = folder / f"{SLICES}.part"
    found = (
        f"from read_parquet({quoted(folder / COMPUTED / '*.parquet')}) order by repository_id, as_of, contributor_id"
    )
    rows.rows(f"copy ({found}) to {quoted(draft)} (format parquet, compression zstd)")
    put_in_place(draft, folder / SLICES)
    for name in (COMPUTED, GRAPHS):
        shutil.rmtree(folder / name)
