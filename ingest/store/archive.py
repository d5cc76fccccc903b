"""The older part of the event log: Parquet files below STAGING_DIR, each noted in `event_segments`.

A row lies in the table or in one noted file, never in both and never in neither: the file is written whole, made
durable and renamed first, then one transaction notes it and deletes its rows. A kill in between leaves a file that is
not noted, which the next run removes. Segments are ordered by collection and DID, so that a look-up reads few rows.

If an archive file of a snapshot is gone, because a later state wrote its rows into another file, the rows are found
there and written again. A file of the archive is replaced when it is filled up or when a person is erased from it. So a
later file holds these rows under their old numbers, without those that were erased since.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from ingest.atproto.syntax import IS_TID
from ingest.clock import from_microseconds, to_microseconds
from ingest.files import put_in_place
from ingest.store.long_texts import IS_REFERENCE
from ingest.store.transaction import Params, Rows, Transaction, quoted

if TYPE_CHECKING:
    from ingest.store.database import Store

COLUMNS = (
    "event_id, event_seq, source, kind, did, collection, rkey, operation, rev, cid, seen_at, late, body, loaded_clock"
)
SEGMENT_ROWS = 100_000  # at 700 bytes each 70 MB to sort
GROUP_ROWS = 8192
PARQUET = f"(format parquet, compression zstd, row_group_size {GROUP_ROWS})"
RETENTION = timedelta(days=30)  # how long the body of a deleted or replaced record is kept
COUNT = "select (select count(*) from events) + (select coalesce(sum(rows), 0)::bigint from event_segments)"
RETENTION_EVERY = timedelta(hours=6)
# Numbers never start again, even after rows moved or went.
LAST = """
select greatest(max(event_seq), (select max(position_seq) from hops where name = 'derive'),
  (select max(last_seq) from event_segments)) from events
"""
SUMMARY = f"""
select count(*) as rows, min(event_seq) as first_seq, max(event_seq) as last_seq,
  min(rev) filter ({IS_TID}) as low_rev, max(rev) filter ({IS_TID}) as high_rev,
  count(*) filter (rev is null or not {IS_TID}) as unordered, min(seen_at) as low_seen_at, max(seen_at) as high_seen_at
from {{rows}}
"""
# Derived rows that are too old, or beyond the number that stays in the table.
DUE = """
event_seq <= (select max(position_seq) from hops where name = 'derive') and (seen_at < ? or event_seq <= (
  select coalesce(max(event_seq), 0) from (select event_seq from events order by event_seq desc offset ?)))
"""
# Bodies of records that a later event replaced or deleted; only events that became old enough since the last pass.
REPLACED = f"""
with log as (
  select kind, did, collection, rkey, event_seq, seen_at, body is not null as has_body,
    row(case when {IS_TID} then rev else '' end, event_seq) as place
  from {{events}}
), later as (
  select did, collection, rkey, max(place) as place from log
  where kind = 'commit' and seen_at <= $until and (seen_at > $since or event_seq > $seq) group by all
)
select event_seq from log join later using (did, collection, rkey) where has_body and log.place < later.place
"""


def archive(store: "Store", folder: Path, days: float, row_limit: int, now: datetime) -> int:
    """Move derived rows seen over `days` ago, and the oldest beyond `rows` rows, to files; return how many.

    The files lie in `events` below `folder` (STAGING_DIR). Bodies that were replaced 30 days ago are dropped.
    """
    with store.files:
        adopt(store, folder)
        moved = 0
        while count := _move_due_rows(store, folder / "events", now - timedelta(days=days), row_limit):
            moved += count
        if _drop_replaced(store, now - RETENTION):
            sweep_texts(store)
    return moved


def adopt(store: "Store", folder: Path) -> None:
    """Find the files again if the folder was moved, and remove leftovers of a kill there."""
    events_folder = folder / "events"
    events_folder.mkdir(parents=True, exist_ok=True)
    with store.write() as txn:
        for path in map(Path, _segment_paths(txn)):
            if path.parent != events_folder and (events_folder / path.name).exists():
                txn.execute(
                    "update event_segments set path = ? where path = ?", [str(events_folder / path.name), str(path)]
                )
        noted = set(_segment_paths(txn))
    for path in events_folder.iterdir():
        if str(path) not in noted and path.suffix in (".parquet", ".partial"):
            path.unlink()


def rewrite(store: "Store", predicate: str, params: Sequence[object] = (), redact: bool = False) -> int:
    """Drop the archived rows that match a SQL predicate, or only their bodies; return how many rows.

    One transaction a file, repeatable after a kill; the old files are gone when it returns. The caller handles rows in
    the table. The predicate is code, never data: the values that it compares with come as `params`.
    """
    with store.read() as reader:
        paths = _segment_paths(reader)
    return sum(_rewrite_one(store, Path(path), predicate, params, redact) for path in paths)


def recount(store: "Store") -> None:
    """Note how many rows each file has after an erasure removed some."""
    with store.write() as txn:
        for path in filter(os.path.isfile, _segment_paths(txn)):
            rows = txn.value(f"select count(*) from read_parquet({quoted(path)})")
            txn.execute("update event_segments set rows = ? where path = ?", [rows, path])


def _rewrite_one(store: "Store", path: Path, predicate: str, params: Sequence[object], redact: bool) -> int:
    source = f"read_parquet({quoted(path)})"
    with store.write() as txn:
        matched = txn.value(f"select count(*) from {source} where {predicate}", params)
        if not matched:
            return 0
        remaining = f"from {source} where ({predicate}) is not true"
        if redact:
            remaining = f"select * replace (case when {predicate} then null else body end as body) from {source}"
        _write_segment(txn, path.parent, remaining, params)
        txn.execute("delete from event_segments where path = ?", [str(path)])
    path.unlink()
    return matched


def _move_due_rows(store: "Store", events_folder: Path, before: datetime, rows: int) -> int:
    """Move at most one file of rows; the newest file is filled up first, so that small ones do not add up."""
    with store.write() as txn:
        sql = f"select max(event_seq) as top, count(*) as n from (select event_seq from events where {DUE} {{limit}})"
        unfilled = txn.row("select path, rows from event_segments where rows < ? limit 1", [SEGMENT_ROWS])
        room = SEGMENT_ROWS - (unfilled["rows"] if unfilled else 0)
        chosen_span = txn.row(sql.format(limit=f"order by event_seq limit {room}"), [before, rows])
        if chosen_span is None or not chosen_span["n"]:
            return 0
        chosen = f"from events where {DUE} and event_seq <= {int(chosen_span['top'])}"
        existing_rows = f" union all select {COLUMNS} from read_parquet({quoted(unfilled['path'])})" if unfilled else ""
        _write_segment(txn, events_folder, f"select {COLUMNS} {chosen}{existing_rows}", [before, rows])
        _store_revisions(txn, chosen, [before, rows])
        txn.execute(f"delete {chosen}", [before, rows])
        if unfilled:
            txn.execute("delete from event_segments where path = ?", [unfilled["path"]])
    if unfilled:
        Path(unfilled["path"]).unlink()
    return chosen_span["n"]


def _store_revisions(txn: Transaction, chosen: str, params: Sequence[object]) -> None:
    """Store the newest revs of rows that leave the table; the next start reads them from there."""
    collections = [row["collection"] for row in txn.rows(f"select distinct collection {chosen}", params)]
    own_collections = [name for name in collections if name and txn.registry.is_ours(name)]
    txn.execute(
        "update contributors set archived_rev = greatest(archived_rev, gone.rev) from ("
        f"select did, max(rev) as rev {chosen} and {IS_TID} and collection in (select unnest(?::varchar[]))"
        " group by did) gone where gone.did = contributors.did",
        [*params, own_collections],
    )


def _write_segment(txn: Transaction, place: Path, query: str, params: Sequence[object]) -> None:
    """Write the rows of a query to a file of their own and note it; write nothing if there are no rows."""
    summary = txn.row(SUMMARY.replace("{rows}", f"({query})"), params)
    if summary is None or not summary["rows"]:
        return
    path = free_path(place, f"{summary['first_seq']}-{summary['last_seq']}")
    partial = path.with_suffix(".partial")
    txn.execute(
        f"copy (select {COLUMNS} from ({query}) order by collection nulls first, did, event_seq) "
        f"to {quoted(partial)} {PARQUET}",
        params,
    )
    put_in_place(partial, path)
    txn.append("event_segments", [{"path": str(path), **summary}])


def free_path(folder: Path, name: str) -> Path:
    """Return a path that no file has: DuckDB knows files by their path, and the old one is read until the commit."""
    path, number = folder / f"{name}.parquet", 1
    while path.exists():
        number += 1
        path = folder / f"{name}.{number}.parquet"
    return path


def sweep_texts(store: "Store") -> int:
    """Remove the files of long texts that no row names any more; return how many."""
    with store.write() as txn:  # so no text can be written now whose row is not committed yet
        if store.long_texts.is_empty():
            return 0
        log, is_long = events_at_hand(txn), IS_REFERENCE.format(column="body")
        sql = f"select body from {log} where {is_long} union select body from dead_letters where {is_long}"
        return store.long_texts.sweep(row["body"] for row in txn.rows(sql))


def _drop_replaced(store: "Store", until: datetime) -> int:
    """Drop the bodies that were replaced or deleted up to this time, four times a day; return how many."""
    with store.read() as reader:
        positions_before = {
            row["name"]: row["position_seq"] for row in reader.rows("select name, position_seq from hops")
        }
        since, seq = positions_before.get("retention_us", 0), positions_before.get("retention", 0)
        if until < from_microseconds(since) + RETENTION_EVERY:  # it reads the keys of the whole log
            return 0
        last_seq = reader.value(LAST) or 0
        params = {"until": until, "since": from_microseconds(since), "seq": seq}
        replaced_seqs = [row["event_seq"] for row in read_log(reader, REPLACED, params)]
    if replaced_seqs:
        rewrite(store, "event_seq in (select unnest(?::bigint[]))", [replaced_seqs], redact=True)
    with store.write() as txn:
        txn.execute("update events set body = null where event_seq in (select unnest(?::bigint[]))", [replaced_seqs])
        positions = {"retention_us": max(since, to_microseconds(until)), "retention": last_seq}
        txn.upsert(
            "hops",
            [{"name": name, "position_seq": position, "ran_clock": txn.wall()} for name, position in positions.items()],
        )
    return len(replaced_seqs)


def all_events(rows: Rows, segments: str = "true", params: Sequence[object] = ()) -> str:
    """Return a SQL table expression for the log's rows in the table and in the files with a matching segment row.

    Valid as long as nothing is archived: within a transaction, on a snapshot, or through `read_log`.
    """
    return _log_expression(_segment_paths(rows, segments, params))


def events_at_hand(rows: Rows) -> str:
    """Return `all_events` without files that are missing: an erasure continues if a drive lost some."""
    return _log_expression([path for path in _segment_paths(rows) if Path(path).is_file()])


def _log_expression(paths: Sequence[str]) -> str:
    if not paths:
        return "events"
    files = ", ".join(quoted(path) for path in paths)
    return f"(select {COLUMNS} from events union all select {COLUMNS} from read_parquet([{files}]))"


def read_log(
    rows: Rows, sql: str, params: Params = (), segments: str = "true", segment_params: Sequence[object] = ()
) -> list[dict[str, Any]]:
    """Return rows of a query over `{events}`; query again if rows were moved to a file during the query."""
    while True:
        paths = _segment_paths(rows, segments, segment_params)
        try:
            result = rows.rows(sql.replace("{events}", all_events(rows, segments, segment_params)), params)
        except duckdb.IOException:
            if _segment_paths(rows, segments, segment_params) == paths:
                raise
            continue
        if _segment_paths(rows, segments, segment_params) == paths:
            return result


def _segment_paths(rows: Rows, segments: str = "true", params: Sequence[object] = ()) -> list[str]:
    sql = f"select path from event_segments where {segments} order by first_seq, path"
    return [row["path"] for row in rows.rows(sql, params)]


FOUND = f"""
select {COLUMNS} from read_parquet($files) where event_seq between $first and $last
  and event_seq not in (select event_seq from events)
qualify row_number() over (partition by event_seq) = 1 order by collection nulls first, did, event_seq
"""


@dataclass(frozen=True, slots=True)
class Lost:
    """A file that the snapshot names and that is gone: its rows, and how many of them were found elsewhere."""

    name: str
    rows: int
    found: int


def mend_segments(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[Lost]:
    """Make the store note its archive as it lies in `folder`; return the lost files. Raises OSError, duckdb.Error.

    No file is changed or removed: the rows of a lost file are written again under its name.
    """
    segments = connection.execute("select path, first_seq, last_seq, rows from event_segments order by 2, 1").fetchall()
    present = {path for path, *_ in segments if (folder / Path(path).name).is_file()}
    other_paths = [
        str(path)
        for path in sorted(folder.glob("*.parquet"))
        if path.name not in {Path(path_text).name for path_text in present}
    ]
    lost_files: list[Lost] = []
    for path, first, last, rows in segments:
        present_path = folder / Path(path).name
        if path in present:
            connection.execute("update event_segments set path = ? where path = ?", [str(present_path), path])
            continue
        found_rows = _write_again(connection, present_path, other_paths, first, last)
        lost_files.append(Lost(present_path.name, rows, found_rows))
        if found_rows:
            connection.execute(
                "update event_segments set path = ?, rows = ? where path = ?", [str(present_path), found_rows, path]
            )
        else:
            connection.execute("delete from event_segments where path = ?", [path])
    return lost_files


def _write_again(
    connection: duckdb.DuckDBPyConnection, place: Path, others: Sequence[str], first: int, last: int
) -> int:
    """Write the rows between two numbers that lie in other files to `place`; return how many."""
    params = {"files": [*others], "first": first, "last": last}
    if not others:
        return 0
    connection.execute(f"create or replace temp table found_again as {FOUND}", params)
    (rows,) = connection.execute("select count(*) from found_again").fetchone() or (0,)
    if rows:
        partial = place.with_suffix(".partial")
        connection.execute(f"copy found_again to {quoted(partial)} {PARQUET}")
        put_in_place(partial, place)
    connection.execute("drop table found_again")
    return rows
