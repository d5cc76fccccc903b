"""A person planted in every table and file, and the search that must not find them afterwards."""

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.erasure.erase import Folders
from ingest.erasure.rows import tables
from ingest.store.database import Store

KEY = b"a key of this drive"
GONE = "did:plc:" + "gone".ljust(24, "q")
HANDLE = "gone.quince.example.com"
MARK = "zq7MARKEDzq7"
SHORT = f"{GONE[:14]}…{GONE[-4:]}"
WHEN = datetime(2026, 9, 21)
PLAIN: dict[str, object] = {"BOOLEAN": True, "TIMESTAMP": WHEN, "DOUBLE": 0.5, "INTEGER[]": [], "VARCHAR[]": []}
PLAIN |= {"FLOAT[512]": [1.0] * 512, "SMALLINT[]": [], "SMALLINT": 1, "TINYINT": 1, "FLOAT": 0.5}


def folders_below(root: Path) -> Folders:
    return Folders(
        diffs=root / "diffs",
        mirrors=root / "mirrors",
        staging=root / "staging",
        models=root / "models",
        graphs=root / "pyg",
        logs=root / "logs",
        snapshots=root / "snapshots",
        queue=root / "queue.sqlite3",
        status=root / "status.json",
        forget_account=lambda names: 0,
    )


def columns(store: Store, table: str) -> list[dict[str, Any]]:
    with store.read() as rows:
        return rows.rows(
            "select column_name as name, data_type as kind from duckdb_columns() "
            "where table_name = ? and not internal order by column_index",
            [table],
        )


def a_row(store: Store, table: str, serial: int, changes: dict[str, object]) -> dict[str, object]:
    """A row of a table that tells of nobody, but for the changes; `serial` keeps keys apart."""
    row: dict[str, object] = {}
    for column in columns(store, table):
        plain = f"{table}-{serial}" if column["kind"] == "VARCHAR" else PLAIN.get(column["kind"], 900_000 + serial)
        row[column["name"]] = changes.get(column["name"], plain)
    return row


def plant_in_tables(store: Store, texts: list[str]) -> int:
    """A row for each text column of each table and each text, that holds the text there; returns how many."""
    planted = 0
    with store.read() as rows:
        found = tables(rows)
    for table in found:
        blank = a_row(store, table.name, 0, {})
        made: list[dict[str, object]] = []
        for column in (*table.texts, *table.text_lists):
            for text in texts:
                if (table.name, column, text) == ("contributors", "did", GONE):
                    continue  # the real one, which other rows know by number
                planted += 1
                serials = {name: _numbered(value, planted) for name, value in blank.items()}
                made.append(serials | {column: [text] if column in table.text_lists else text})
        with store.write() as txn:
            txn.upsert(table.name, made) if table.keys else txn.append(table.name, made)
    return planted


def _numbered(value: object, serial: int) -> object:
    """A plain value of a row, told apart from those of other rows."""
    if isinstance(value, str):
        return f"{value}-{serial}"
    return value + serial if isinstance(value, int) and not isinstance(value, bool) else value


def plant_in_files(root: Path) -> None:
    """Logs, models, graphs, staged pages, event segments, the status file, the queue."""
    for name in ("logs/worker.log", "models/shrunk.json", "pyg/graph.json", "staging/pages/1.json", "status.json"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"who": GONE, "uri": f"at://{GONE}/app/{MARK}", "as": f"@{HANDLE}"}) + "\nelse\n")
    (root / "logs" / "old.log.gz").write_bytes(gzip.compress(f"{GONE} and {HANDLE}\nelse\n".encode()))
    (root / "staging" / "packed.json.zst").write_bytes(pa.compress(f"{GONE}\nelse\n".encode(), "zstd", asbytes=True))
    events = [
        {"event_seq": 1, "did": GONE, "rkey": "a", "body": MARK},
        {"event_seq": 2, "did": "did:plc:other", "rkey": "b", "body": f"thanks {GONE}, else"},
        {"event_seq": 3, "did": "did:plc:other", "rkey": "c", "body": f'{{"subject":"{GONE}","text":"{MARK}"}}'},
        {"event_seq": 4, "did": "did:plc:other", "rkey": GONE, "body": MARK},
        {"event_seq": 5, "did": "did:plc:other", "rkey": "d", "body": "else"},
    ]
    (root / "staging" / "events").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(events), root / "staging" / "events" / "1.parquet", compression="zstd")
    with closing(sqlite3.connect(root / "queue.sqlite3")) as queue:
        queue.execute("pragma journal_mode = wal")
        queue.execute("create table task (id integer primary key, data blob)")
        queue.executemany("insert into task (data) values (?)", [(f'{{"args":["{GONE}"]}}:sig'.encode(),), (b"else",)])
        queue.commit()


def traces(root: Path, words: tuple[str, ...]) -> list[str]:
    """Every file below a folder of which a byte tells of one of the words, packed or not, and what was found."""
    return [
        f"{path.relative_to(root)}: {word}"
        for path in sorted(root.rglob("*"))
        if path.is_file()
        for data in _readings(path)
        for word in words
        if word.encode() in data or word in path.name
    ]


def _readings(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield gzip.decompress(data)
    if path.suffix == ".zst":
        yield pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    if path.suffix == ".parquet":
        yield str(pq.read_table(path).to_pylist()).encode()
    if path.suffix == ".duckdb":
        yield from _rows_of(path)


def _rows_of(path: Path) -> Iterator[bytes]:
    """DuckDB packs texts, so that its bytes alone prove nothing: its rows are read too."""
    with duckdb.connect(str(path), read_only=True) as database:
        for (table,) in database.execute("select table_name from duckdb_tables() where not internal").fetchall():
            yield str(database.execute(f'from "{table}"').fetchall()).encode()
