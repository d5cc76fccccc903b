"""Moves the long texts of an older store beside it, also of one that cannot be checkpointed, and bounds reviews.

A table is written anew without its long texts and the old one is dropped, so that no checkpoint reads them: an update
would leave them in its blocks. Everything happens in one transaction; the caller checkpoints. Files of the archive are
read by pyarrow, a few rows at a time: DuckDB takes up the texts of 2,048 rows of them at once too.

Stored reviews are bounded too: so many rows of each pull request, so many bytes of each list in a row. Paths and titles
are the author's, and each new round or title is read anew: without a bound one author fills the store with rows that
DuckDB cannot scan within its memory.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.files import sync
from ingest.store.archive import GROUP_ROWS, free_path
from ingest.store.long_texts import COLUMN_BYTES, LIMIT, PREFIX, LongTexts, fitting, shorten
from ingest.store.transaction import Rows, Transaction

if TYPE_CHECKING:
    from ingest.store.database import Store

TABLES = ("events", "dead_letters")  # each has its text in `body`
MARK = ("long_texts", "beside, archived too")  # in `meta` once neither a table nor the archive holds a long text
VECTOR = 2048  # rows that DuckDB reads at once
ARCHIVED = 32  # rows of the archive that are read at once


def are_moved(rows: Rows) -> bool:
    """Return whether no table of the store and no file of its archive holds a long text."""
    return rows.value("select value from meta where key = ?", [MARK[0]]) == MARK[1]


def move_long_texts(store: "Store", txn: Transaction, schema: str) -> list[Path]:
    """Put the long texts of every table and of the archive beside the store; the files that the commit replaces.

    `schema` are the statements that make an empty store. While a file of the archive is missing, as on a drive that is
    not mounted, the next start looks again.
    """
    with store.read() as rows:
        for table in TABLES:
            if _has_long_texts(rows, table):
                _write_anew(store, rows, txn, table, schema)
    noted = [Path(row["path"]) for row in txn.rows("select path from event_segments order by path")]
    present = [path for path in noted if path.is_file()]
    replaced = [path for path in present if _archives_long_texts(path)]
    for path in replaced:
        made = _write_segment_anew(store.long_texts, path)
        txn.execute("update event_segments set path = ? where path = ?", [str(made), str(path)])
    if present == noted:
        txn.execute("insert or replace into meta values (?, ?)", list(MARK))
    return replaced


def _archives_long_texts(path: Path) -> bool:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ARCHIVED, columns=["body"]):
            _, texts = shorten(pa.Table.from_batches([batch]))
            if texts:
                return True
    return False


def _write_segment_anew(texts: LongTexts, path: Path) -> Path:
    """Write a file with the same rows in the same order and no long text, on the drive before this returns."""
    made = free_path(path.parent, path.stem)
    partial = made.with_suffix(".partial")
    with pq.ParquetFile(path) as file, pq.ParquetWriter(partial, file.schema_arrow, compression="zstd") as writer:
        group: list[pa.Table] = []
        for batch in file.iter_batches(batch_size=ARCHIVED):
            short, long = shorten(pa.Table.from_batches([batch]))
            texts.write(long)
            group.append(short)
            if len(group) * ARCHIVED >= GROUP_ROWS:
                writer.write_table(pa.concat_tables(group))
                group.clear()
        if group:
            writer.write_table(pa.concat_tables(group))
    sync(partial)
    partial.rename(made)
    sync(made.parent)
    return made


def _has_long_texts(rows: Rows, table: str) -> bool:
    sql = f"select exists (from {table} where strlen(body) > ? or starts_with(body, ?))"
    try:
        return rows.value(sql, [LIMIT, PREFIX])
    except duckdb.OutOfMemoryException:
        return True


def _write_anew(store: "Store", rows: Rows, txn: Transaction, table: str, schema: str) -> None:
    made = re.search(rf"^create table {table} \(.*?^\);", schema, re.MULTILINE | re.DOTALL)
    if made is None:
        raise ValueError(f"the schema has no table {table}")
    txn.execute(f"alter table {table} rename to old_{table}")
    txn.execute(made[0])
    for columns in _blocks(rows, table):
        short, texts = shorten(columns)
        store.long_texts.write(texts)
        with txn.registered(short):
            txn.execute(f"insert into {table} by name from incoming")
    txn.execute(f"drop table old_{table}")


def _blocks(rows: Rows, table: str) -> Iterator[pa.Table]:
    """The rows in order, as many at a time as DuckDB reads at once; one by one where those do not fit into memory.

    Read outside the transaction, which an error would end.
    """
    last = rows.value(f"select max(rowid) from {table}")
    for begin in range(0, 0 if last is None else last + 1, VECTOR):
        span = [begin, begin + VECTOR]
        try:
            yield _read(rows, table, "rowid >= ? and rowid < ?", span)
        except duckdb.OutOfMemoryException:
            for row in rows.rows(f"select rowid as place from {table} where rowid >= ? and rowid < ?", span):
                yield _read(rows, table, "rowid = ?", [row["place"]])


def _read(rows: Rows, table: str, where: str, params: list[int]) -> pa.Table:
    return rows.cursor.sql(f"select * from {table} where {where}", params=params).to_arrow_table()


KEPT = 5  # reviews of one pull request, the newest: the round that stands, the one approved before it, and their titles
LISTS = ("flags", "findings", "left_out")  # JSON, the strongest first
NEWEST = "coalesce(reviewed_clock, begun_clock) desc, round desc, patch_ref, said, rules"
SUPERSEDED = f"""
delete from content_reviews where rowid in (
  select rowid from content_reviews where $pulls is null or list_contains($pulls, pull_uri)
  qualify row_number() over (partition by pull_uri order by {NEWEST}) > {KEPT}
)
"""
UNREAD_ROUNDS = """
delete from touched_files where ($pulls is null or list_contains($pulls, pull_uri))
  and pull_uri in (select pull_uri from content_reviews)
  and (pull_uri, patch_ref) not in (select (pull_uri, patch_ref) from content_reviews)
"""
LONG_REVIEWS = f"""
select rowid as place, {", ".join(LISTS)} from content_reviews
where {" or ".join(f"strlen({name}) > {COLUMN_BYTES}" for name in LISTS)}
"""
LONG_PATHS = f"select rowid as place, paths from touched_files where strlen(paths::varchar) > {COLUMN_BYTES}"


def drop_superseded(txn: Transaction, pulls: Sequence[str] | None = None) -> None:
    """Keep the newest reviews of these pull requests, of all without any named, and the files of their rounds."""
    for statement in (SUPERSEDED, UNREAD_ROUNDS):
        txn.execute(statement, {"pulls": None if pulls is None else list(pulls)})


def bound_old_reviews(txn: Transaction) -> None:
    """Bring the rows of a version without bounds down to today's; a list of files that is cut says that it is."""
    drop_superseded(txn)
    for row in txn.rows(LONG_REVIEWS):
        lists = [_fitting_json(row[name]) for name in LISTS]
        txn.execute(
            f"update content_reviews set {', '.join(f'{name} = ?' for name in LISTS)} where rowid = ?",
            [*lists, row["place"]],
        )
    for row in txn.rows(LONG_PATHS):
        txn.execute(
            "update touched_files set paths = ?, whole = false where rowid = ?", [fitting(row["paths"]), row["place"]]
        )


def _fitting_json(text: str) -> str:
    if len(text.encode()) <= COLUMN_BYTES:
        return text
    items: list[Any] = msgspec.json.decode(text)
    return msgspec.json.encode(fitting(items)).decode()
