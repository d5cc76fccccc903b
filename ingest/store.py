"""The one DuckDB file: opened here and nowhere else, by the one process that owns it."""

import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingest.clock import from_microseconds, wall_now
from ingest.people import Arrivals, People, new_contributor

Params = Sequence[object] | Mapping[str, object]  # for `?`, or for `$name`
SCHEMA = Path(__file__).with_name("schema.sql")
SCHEMA_VERSION = 1
# Automatic checkpoints stay off: the publisher checkpoints; meanwhile the main file must not change under the copy.
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "checkpoint_threshold": "1TB",
}


class StoreProblem(Exception):
    """The store cannot be used; the message is one sentence that says what to do."""


class Rows:
    """Reading: every call is one statement that is read to its end, so nothing keeps a transaction open.

    An unread result would: FORCE CHECKPOINT waits for it, and the publisher with it.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        """All rows, each as a mapping of column name to value."""
        result = self.cursor.execute(sql, params)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def row(self, sql: str, params: Params = ()) -> dict[str, Any] | None:
        """The first row, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Params = ()) -> Any:
        """First column of the first row, or None."""
        found = self.cursor.execute(sql, params).fetchall()
        return found[0][0] if found else None

    def columns(self, sql: str, params: Params = ()) -> dict[str, Any]:
        """All rows as one NumPy array a column, for reads of a whole table."""
        return self.cursor.execute(sql, params).fetchnumpy()


class Transaction(Rows):
    """Writing: everything done through it happens together or not at all."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, store: "Store") -> None:
        super().__init__(cursor)
        self._store = store
        self._changed = False
        self.arrivals = Arrivals(store.people)

    def execute(self, sql: str, params: Params = ()) -> None:
        """Run one statement whose result is not needed."""
        self.cursor.execute(sql, params).fetchall()

    def append(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows that name every column of the table."""
        self._insert("insert into", table, rows)

    def upsert(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows or replace those with the same primary key; keys must differ within one call."""
        self._insert("insert or replace into", table, rows)

    def append_new(self, table: str, rows: Sequence[Mapping[str, object]]) -> int:
        """Insert the rows whose primary key is not there yet; returns how many."""
        return self._insert("insert or ignore into", table, rows)

    def _insert(self, verb: str, table: str, rows: Sequence[Mapping[str, object]]) -> int:
        if not rows:
            return 0
        self.cursor.register("incoming", pa.Table.from_pylist(list(rows), schema=self._store.arrow_schema(table)))
        try:
            return self.cursor.execute(f"{verb} {table} by name select * from incoming").fetchall()[0][0]
        finally:
            self.cursor.unregister("incoming")

    def inputs_changed(self) -> None:
        """Note that something that scores read has changed, so that the scoring hop has work."""
        if not self._changed:
            self.execute(
                "update hops set position_seq = position_seq + 1, ran_clock = ? where name = 'inputs'",
                [self._store.wall()],
            )
            self._changed = True

    def person_ids(self, dids: Iterable[str], seen_at: datetime | None = None) -> dict[str, int]:
        """The integer of each DID, given now where there is none; `seen_at` where a record by or about them arrived."""
        return self.register_people(dict.fromkeys(dids, seen_at))

    def register_people(self, first_seen: Mapping[str, datetime | None]) -> dict[str, int]:
        """As `person_ids`, with a moment for each DID."""
        news = self.arrivals.note_seen(first_seen)
        found = {did: self.arrivals.number(did) for did in first_seen}
        fresh = {did: self.arrivals.give(did) for did, number in found.items() if number is None}
        self.append("contributors", [new_contributor(did, number, news.get(did)) for did, number in fresh.items()])
        self._fill_first_seen({did: seen_at for did, seen_at in news.items() if did not in fresh})
        return {did: number or fresh[did] for did, number in found.items()}

    def _fill_first_seen(self, seen: Mapping[str, datetime]) -> None:
        """For people of whom only the name was known so far."""
        if seen:
            self.execute(
                "update contributors set first_seen_at = n.seen_at "
                "from (select unnest(?) as did, unnest(?) as seen_at) n where n.did = contributors.did",
                [list(seen), list(seen.values())],
            )


class Store:
    """The owner of the file: many short reads, one writer at a time."""

    def __init__(self, database: duckdb.DuckDBPyConnection, path: Path, wall: Callable[[], datetime]) -> None:
        self.path = path
        self.wall = wall
        self.people = People()
        self._database = database
        # Held over the transactions of one scoring pass: no snapshot shows half of it, since publishing waits.
        self.whole = threading.Lock()
        self._writer = threading.Lock()
        self._schemas: dict[str, pa.Schema] = {}

    @classmethod
    def open(cls, path: Path, wall: Callable[[], datetime] = wall_now) -> "Store":
        """Own the file, made or migrated as needed.

        Raises StoreProblem where another process owns it, a newer version wrote it or it cannot be read.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            database = duckdb.connect(str(path), config=CONFIG)
        except (duckdb.Error, OSError) as error:
            raise StoreProblem(_why_not(path, str(error))) from error
        store = cls(database, path, wall)
        try:
            store._migrate()
            store._load_people()
        except duckdb.Error as error:
            database.close()
            raise StoreProblem(_why_not(path, str(error))) from error
        except StoreProblem:
            database.close()
            raise
        return store

    def _migrate(self) -> None:
        with self.write() as txn:
            version = self._version(txn)
            if version > SCHEMA_VERSION:
                raise StoreProblem(
                    f"{self.path} was written by a newer Sunstead (schema {version}; this one knows {SCHEMA_VERSION}): "
                    "update Sunstead, or restore a backup made by this version."
                )
            if version == 0:
                txn.cursor.execute(SCHEMA.read_text())
                txn.execute("insert into meta values ('schema_version', ?)", [str(SCHEMA_VERSION)])
                for hop in ("derive", "inputs", "score"):
                    txn.execute("insert into hops values (?, 0, ?)", [hop, self.wall()])
        # A WAL that holds DDL is the one that fails to replay (duckdb #22124), so none is left behind.
        self.checkpoint()

    def _version(self, rows: Rows) -> int:
        """The schema version of the file, 0 for an empty one; StoreProblem where the file is somebody else's."""
        tables = {row["table_name"] for row in rows.rows("select table_name from duckdb_tables()")}
        if not tables:
            return 0
        told = rows.value("select value from meta where key = 'schema_version'") if "meta" in tables else None
        if told is None or not told.isdigit():
            raise StoreProblem(f"{self.path} is a database of something else: name another file in DUCKDB_PATH.")
        return int(told)

    def _load_people(self) -> None:
        with self.read() as rows:
            for row in rows.rows("select did, contributor_id, first_seen_at from contributors"):
                self.people.add(row["did"], row["contributor_id"], row["first_seen_at"])

    def seen_since(self, did: str) -> datetime | None:
        """When the first record by or about this DID was seen; None for a stranger."""
        return self.people.seen_since.get(did)

    def arrow_schema(self, table: str) -> pa.Schema:
        """Arrow types of a table's columns."""
        if table not in self._schemas:
            cursor = self._database.cursor()
            self._schemas[table] = cursor.sql(f"select * from {table} limit 0").to_arrow_table().schema
            cursor.close()
        return self._schemas[table]

    @contextmanager
    def read(self) -> Generator[Rows]:
        """A cursor for short reads; each statement sees the newest committed state."""
        cursor = self._database.cursor()
        try:
            yield Rows(cursor)
        finally:
            cursor.close()

    @contextmanager
    def write(self) -> Generator[Transaction]:
        """One transaction under the writer's mutex: committed when the block ends, undone when it raises."""
        with self._writer:
            cursor = self._database.cursor()
            txn = Transaction(cursor, self)
            try:
                cursor.execute("begin")
                yield txn
                cursor.execute("commit")
                txn.arrivals.keep()
            except BaseException:
                with suppress(duckdb.Error):  # a failed commit has already rolled back; what it failed of is raised
                    cursor.execute("rollback")
                raise
            finally:
                cursor.close()

    def bind(self, source: str) -> int:
        """Tie the store to the stream it is filled from and return that stream's cursor (0: none yet).

        Raises StoreProblem for a store that was filled from another stream.
        """
        with self.write() as txn:
            bound = txn.value("select value from meta where key = 'source'")
            if bound is None:
                txn.execute("insert into meta values ('source', ?)", [source])
                txn.execute("insert into ingest_state values (?, 0, 0, ?)", [source, self.wall()])
            elif bound != source:
                raise StoreProblem(
                    f"{self.path} was filled from {bound!r} and this run reads {source!r}: "
                    "use another DATA_ROOT, or move that file away to start afresh."
                )
            return txn.value("select cursor_us from ingest_state where source = ?", [source])

    def checkpoint(self) -> None:
        """Write everything committed into the main file; raises StoreProblem where that fails.

        FORCE, since a plain CHECKPOINT fails while another thread reads and rows were updated.
        """
        with self._writer:
            cursor = self._database.cursor()
            try:
                cursor.execute("force checkpoint").fetchall()
            except duckdb.Error as error:
                raise StoreProblem(f"{self.path} could not be checkpointed: {error}") from error
            finally:
                cursor.close()

    def close(self) -> None:
        """Checkpoint and let go of the file."""
        try:
            self.checkpoint()
        finally:
            self._database.close()


class StreamClock:
    """The present of a recorded stream: the newest frame that was handled."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> datetime:
        """Naive UTC time of the newest frame; 1970 before the first."""
        with self._store.read() as rows:
            return from_microseconds(rows.value("select max(cursor_us) from ingest_state") or 0)


def _why_not(path: Path, error: str) -> str:
    holder = re.search(r"held in (\S+) \(PID (\d+)\)", error)
    if holder:
        return (
            f"{path} is held by process {holder[2]} ({holder[1]}): only one worker may own it; "
            "stop that one first, or read from a snapshot."
        )
    told = " ".join(error.split())[:200]
    if "WAL" in error or f"{path}.wal" in error:
        return (
            f"{path}.wal cannot be replayed ({told}): move it aside and start again; the stream fills the gap, "
            "but maintainers added since the last publish must be added again."
        )
    return f"{path} cannot be opened ({told}): restore a backup, or move the file away to start afresh."
