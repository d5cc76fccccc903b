"""Features of all pull requests, computed on a cluster: exported, cut, computed in tasks, checked and written down.

Every task runs features.sql in DuckDB (scoring/cluster/cut.py); the engine only moves rows to the shards. An exported
row is a case or what its author's shard needs beside it, in the columns `<table>__<column>` of one file. No name and no
text leaves this machine: people are numbers, a pull request is a hash of its key, a comment is as many letters x as it
has, and of signals only numbers and times go.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ingest.cluster.engine import ClusterProblem, Task, count_values, grouped, task_of, write
from ingest.files import put_in_place
from ingest.store.transaction import Rows, quoted
from scoring.cluster.cut import OF_REPOSITORY, cut
from scoring.dataset.dataset import HASHED, NAMES, QUERY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_FILE, FOUND, RESULT = "rows.parquet", "found", "features.parquet"
DID = "case when starts_with(c.did, 'did:plc:') then 'did:plc:' else 'did:web:' end || c.contributor_id"
# Whole authors, or whole repositories, in an order drawn by their hash, cut where a shard is full: none holds more than
# its part of the cases and the last that went in.
SHARDS = """
select {of}, ((sum(n) over (order by hash({of}), {of}) - n) * {{shards}} // sum(n) over ())::integer as shard
from (select {of}, count(*) as n from cases group by all)
"""
# {shard}: that of the author. Each author's rows name the author, so that a few can be computed anew as a check.
EXPORT = f"""
with placed as (
  select c.*, c.rowid as place, a.shard, r.shard as repository_shard
  from cases c join ({SHARDS.format(of="author_id")}) a using (author_id)
  join ({SHARDS.format(of="repository_id")}) r using (repository_id)
), authors as (
  select distinct author_id, shard from placed
), asked as (
  select distinct author_id, shard, unnest([repository_id, 0]) as repository_id from placed where author_id > 0
), told as (
  select c.did, c.contributor_id, c.did_created_at, {DID} as masked, a.author_id, a.shard
  from contributors c join authors a on a.author_id = c.contributor_id
), told_comments as (
  select {HASHED.format("m.subject_uri")} as subject_uri, m.author_id, m.seen_at, repeat('x', length(m.body)) as body,
    p.author_id as of_author, p.shard
  from comments m join placed p on p.key = m.subject_uri
), told_runs as (
  select {HASHED.format("r.pull_uri")} as pull_uri, r.state, r.observed_at, p.author_id as of_author, p.shard
  from ci_runs r join placed p on p.key = r.pull_uri
), told_signals as (
  select t.masked as subject, s.source, s.key, s.known_from, t.author_id as of_author, t.shard,
    case when try_cast(s.value as double) is not null or try_cast(s.value as timestamp) is not null then s.value end
      as value
  from signals s join told t on t.did = s.subject where s.source in ('bluesky', 'plc')
), told_slices as (
  select t.*, a.author_id as of_author, a.shard
  from trust_slices t join asked a on a.author_id = t.contributor_id and a.repository_id = t.repository_id
)
select 'cases' as of_table, {HASHED.format("key")} as key, place, author_id as of_author,
  repository_id as of_repository, shard as author_shard, repository_shard,
  columns(* exclude (key, place, shard, repository_shard)) as 'cases__\\0'
from placed
union all by name
select 'contributors' as of_table, author_id as of_author, shard as author_shard, masked as contributors__did,
  contributor_id as contributors__contributor_id, did_created_at as contributors__did_created_at
from told
union all by name
select 'slice_dates' as of_table, a.shard as author_shard, d.repository_id as slice_dates__repository_id,
  d.as_of as slice_dates__as_of
from slice_dates d join (select distinct shard, repository_id from asked) a using (repository_id)
"""
SIDES = {"comments": "told_comments", "ci_runs": "told_runs", "signals": "told_signals", "trust_slices": "told_slices"}
SIDE = """
union all by name
select '{table}' as of_table, of_author, shard as author_shard,
  columns(* exclude (of_author, shard)) as '{table}__\\0'
from {source}
"""
ROWS = EXPORT + "".join(SIDE.format(table=table, source=source) for table, source in SIDES.items())
_OF_TABLE = "create temp table {0} as select {1} columns('^{0}__(.*)$') as '\\1' from rows where of_table = '{0}' "
# The tables of one shard, as features.sql reads them; of cases the order of their numbers is kept.
PREPARED = (
    _OF_TABLE.format("cases", "key,") + "order by place",
    *(_OF_TABLE.format(table, "") for table in ("contributors", *SIDES)),
    _OF_TABLE.format("slice_dates", "distinct"),  # each shard has those that it needs
    "create temp table questions as from cases limit 0",
)
PROJECT = f"""
create temp table {OF_REPOSITORY} as
select c.rowid as place, r.* exclude (key) from cases c
join (select key, columns('^{OF_REPOSITORY}_.*$') from rows where of_table = 'cases') r using (key)
"""
FEATURES_ONLY = "select * exclude (place) from ({})"
PARQUET = "(format parquet, compression zstd)"
CHECKED_AUTHORS = 20
COUNTED = "select count(*) as found, count(distinct key) as keys from read_parquet($found)"
CASES = "select count(*) from read_parquet($rows) where of_table = 'cases' and not cases__is_bot"
DRAWN = """
select of_author from read_parquet($rows) where of_table = 'cases'
group by of_author order by md5(of_author::varchar) limit $authors
"""


def export(rows: Rows, path: Path, shards: int) -> None:
    """Write the temporary tables `cases`, `slice_dates` and `trust_slices`, with what else is needed.

    DuckDB streams the rows into the file, which is there whole or not at all.
    """
    draft = path.with_suffix(".part")
    rows.rows(f"copy ({ROWS.format(shards=shards)}) to {quoted(draft)} {PARQUET}")
    put_in_place(draft, path)


def tasks() -> tuple[Task, Task]:
    """Return the tasks of both passes."""
    by_repository, by_author = cut(QUERY)
    return (
        task_of([*PREPARED, by_repository]),
        task_of([*PREPARED, PROJECT, FEATURES_ONLY.format(by_author)]),
    )


def compute(session: "SparkSession", folder: Path, tell: Callable[[str], None]) -> None:
    """Run both passes over the exported rows; each leaves a folder of Parquet files; the first is not repeated.

    Raises ClusterProblem where the files are not seen here.
    """
    by_repository, by_author = tasks()
    rows, projects, found = (folder / name for name in (ROWS_FILE, "projects", FOUND))
    schema = pq.read_schema(rows)
    project_schema = by_repository(schema.empty_table()).schema
    shards = count_values(rows, "author_shard")
    exported = session.read.parquet(rows.as_uri())
    if not projects.is_dir():
        tell("by repository")
        cases = exported.where("of_table = 'cases'")
        write(grouped(cases, "repository_shard", shards, by_repository, project_schema), projects)
    tell("by author")
    both = pa.schema([*schema, *(field for field in project_schema if field.name != "key")])
    joined = exported.join(session.read.parquet(projects.as_uri()), "key", "left")
    write(grouped(joined, "author_shard", shards, by_author, by_author(both.empty_table()).schema), found)


def check(rows: Rows, folder: Path) -> int:
    """Compare the result with the one query for CHECKED_AUTHORS authors, in every bit, and count its rows.

    Returns how many pull requests were computed anew. Raises ClusterProblem where a case is missing or twice, or a
    value differs: then a machine of the cluster computes otherwise than this one.
    """
    exported, found = (str(folder / name) for name in (ROWS_FILE, f"{FOUND}/*.parquet"))
    counted, cases = rows.rows(COUNTED, {"found": found})[0], rows.value(CASES, {"rows": exported})
    if counted != {"found": cases, "keys": cases}:
        raise ClusterProblem(f"The cluster gave {counted['found']} rows for {cases} pull requests: none is taken over.")
    authors = [row["of_author"] for row in rows.rows(DRAWN, {"rows": exported, "authors": CHECKED_AUTHORS})]
    own = pc.field("of_author").isin(authors)
    everything = ds.dataset(folder / ROWS_FILE, format="parquet")
    theirs = everything.to_table(columns=["key", "of_repository", "author_shard"], filter=own)
    around = own | pc.field("of_repository").isin(theirs["of_repository"].unique())
    dates = (pc.field("of_table") == "slice_dates") & pc.field("author_shard").isin(theirs["author_shard"].unique())
    keys = pc.field("key").isin(theirs["key"].unique().drop_null())
    anew = task_of([*PREPARED, FEATURES_ONLY.format(QUERY)])(everything.to_table(filter=around | dates)).filter(keys)
    given = ds.dataset(folder / FOUND, format="parquet").to_table(filter=keys)
    pairs = [[table.sort_by("key")[name].to_numpy() for table in (anew, given)] for name in NAMES]
    if not all(np.array_equal(ours, theirs, equal_nan=True) for ours, theirs in pairs):
        raise ClusterProblem(
            f"The cluster computes other values than this machine (checked on {len(anew)} pull requests): give all of "
            "its machines the packages of requirements/base.txt, empty the folder and run the job again."
        )
    return len(anew)


def write_result(rows: Rows, folder: Path) -> Path:
    """Write `features.parquet`, in the order of the keys, so that a repeat gives the same bytes; then drop the rest."""
    path, draft = folder / RESULT, folder / f"{RESULT}.part"
    found = f"from read_parquet({quoted(folder / FOUND / '*.parquet')}) order by key"
    rows.rows(f"copy ({found}) to {quoted(draft)} {PARQUET}")
    put_in_place(draft, path)
    for name in ("projects", FOUND):
        shutil.rmtree(folder / name)
    (folder / ROWS_FILE).unlink()
    return path
