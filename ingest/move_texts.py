"""Moving the long texts of a store that was written before they lay beside it; also one that cannot be checkpointed.

A table is written anew without its long texts and the old one is dropped, so that no checkpoint reads them: an update
would leave them in its blocks. Everything happens in one transaction; the caller checkpoints.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ingest.long_texts import LIMIT, PREFIX, shorten
from ingest.transaction import Rows, Transaction

if TYPE_CHECKING:
    from ingest.store import Store

TABLES = ("events", "dead_letters")  # each has its text in `body`
MARK = ("long_texts", "beside")  # in `meta` once no table holds a long text
VECTOR = 2048  # rows that DuckDB reads at once


def are_moved(rows: Rows) -> bool:
    """Return whether no table of the store holds a long text."""
    return rows.value("select value from meta where key = ?", [MARK[0]]) == MARK[1]


def move_long_texts(store: "Store", txn: Transaction, schema: str) -> None:
    """Put the long texts of every table beside the store; `schema` are the statements that make an empty one."""
    with store.read() as rows:
        for table in TABLES:
            if _has_long_texts(rows, table):
                _write_anew(store, rows, txn, table, schema)
    txn.execute("insert or replace into meta values (?, ?)", list(MARK))


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
