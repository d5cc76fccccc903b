"""The one DuckDB file: it is opened only here, by the one process that owns it.

Compaction also happens here: the bytes of a deleted row stay in its blocks and its WAL until the file is rewritten.
Measured (DuckDB 2.0.0): COPY FROM DATABASE keeps keys, indexes, not-null, views and the positions of sequences. It is
safe against a kill: up to the rename the old file is whole, then the new one is; leftovers of a kill are removed at the
next start. Freed blocks of the file system and overwritten blocks of a drive are beyond any program's reach.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingest.clock import from_microseconds, wall_now
from ingest.errors import StoreProblem as StoreProblem
from ingest.errors import is_out_of_memory, plain, why_unopened
from ingest.files import require_room, sync
from ingest.records.registry import REGISTRY, Registry
from ingest.store.archive import sweep_texts
from ingest.store.contributors import People, Spent, load_people, load_spent
from ingest.store.digest import differing, table_sums
from ingest.store.long_texts import LongTexts
from ingest.store.migrate import are_moved, bring_up, move_long_texts
from ingest.store.tombstones import Tombstones, WrongKey, load_tombstones
from ingest.store.transaction import Gate, Rows, Transaction, quoted

PARTIAL = ".compacting"
SPARE_BYTES = 50_000_000
HELD_SECONDS = 10.0


def clear_leftovers(path: Path) -> None:
    """Remove the leftovers of a killed compaction beside the file; only the file's owner may do this."""
    for leftover in path.parent.glob(f"{path.name}{PARTIAL}*"):
        leftover.unlink(missing_ok=True)


def compacted(
    database: duckdb.DuckDBPyConnection, path: Path, config: Mapping[str, Any], checked: bool = False
) -> duckdb.DuckDBPyConnection:
    """Return a connection to the rewritten file; no cursor of the old one may be open. Errors leave the old one in use.

    `checked`: every table of both is read and compared before the old file goes.
    """
    partial = path.with_name(path.name + PARTIAL)
    clear_leftovers(path)
    size = path.stat().st_size
    if shutil.disk_usage(path.parent).free < size + SPARE_BYTES:
        raise OSError(f"{path.parent} has no room for a second copy of {size // 1_000_000} MB: free some space")
    try:
        number = _copy_database(database, path, partial, checked)
        swapped = _swap_files(database, path, partial, config)
    finally:
        clear_leftovers(path)
    if _file_number(swapped) != number:
        raise OSError("the old file is still open in this process: restart it")
    return swapped


def _file_number(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how often the file was rewritten, which distinguishes the new file from the old one."""
    rows = connection.execute("select position_seq from hops where name = 'file'").fetchall()
    return rows[0][0] if rows else 0


def _copy_database(database: duckdb.DuckDBPyConnection, path: Path, partial: Path, checked: bool) -> int:
    """Copy all committed rows into a file of their own, durable when this returns; return its number."""
    cursor = database.cursor()
    try:
        cursor.execute("force checkpoint").fetchall()
        name = cursor.execute("select current_database()").fetchall()[0][0]
        number = _file_number(cursor) + 1
        cursor.execute(f"attach {quoted(partial)} as compacted").fetchall()
        try:
            cursor.execute(f'copy from database "{name}" to compacted').fetchall()
            if checked and (differing_tables := differing(table_sums(cursor), table_sums(cursor, "compacted"))):
                raise OSError(f"the copy has other rows in {', '.join(differing_tables)}")
            insert_number = "insert or replace into compacted.hops values ('file', ?, now()::timestamp)"
            cursor.execute(insert_number, [number]).fetchall()
            cursor.execute("checkpoint compacted").fetchall()
        finally:
            cursor.execute("detach compacted").fetchall()
    finally:
        cursor.close()
    wal = path.with_name(path.name + ".wal")
    if wal.exists() and wal.stat().st_size:  # it would be replayed into the new file, which already has its rows
        raise OSError(f"{wal} was not emptied")
    wal.unlink(missing_ok=True)
    sync(partial)
    return number


def _swap_files(
    database: duckdb.DuckDBPyConnection, path: Path, partial: Path, config: Mapping[str, Any]
) -> duckdb.DuckDBPyConnection:
    """Put the new file in the old one's place; no other process can ever own a file that is about to be replaced.

    A second instance holds the new file's lock during the rename. Otherwise another process could open the old file
    between our release of it and the rename, and its writes would be lost.
    """
    holder = duckdb.connect(":memory:")
    try:
        holder.execute(f"attach {quoted(partial)} as held (read_only)").fetchall()
        partial.rename(path)
        sync(path.parent)
        database.close()  # as late as possible: else DuckDB would return this instance, with the old file, for its path
    finally:
        holder.close()
    return _connect_patiently(path, config)


def _connect_patiently(path: Path, config: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """Own the new file; wait for a command that holds it for a moment."""
    deadline = time.monotonic() + HELD_SECONDS
    while True:
        try:
            return duckdb.connect(str(path), config=dict(config))
        except duckdb.IOException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


log = logging.getLogger(__name__)

SCHEMA = Path(__file__).with_name("schema")  # statements in the order of the file names
SCHEMA_VERSION = 19
# With 160 the worker and its reader stay below 500 MB when 300,000 events come at once, with 256 they do not; a scoring
# pass over 20,000 people and 40 repositories needs 130.
MEMORY_MB = 160
# One thread: sharing an insert of 10,000 rows among two costs more than the insert (2.5 µs of CPU a row, alone 1.1),
# and a scoring pass over 20,000 people takes as long with one as with two.
# Automatic checkpoints stay off: the publisher checkpoints, and the main file must not change during its copy.
Config = dict[str, str | bool | int | float | list[str]]
CONFIG: Config = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "checkpoint_threshold": "1TB",
    "threads": 1,
}


class Store:
    """The owner of the file: many short reads, one writer at a time."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        path: Path,
        wall: Callable[[], datetime],
        registry: Registry,
        config: Config,
    ) -> None:
        self.path = path
        self._config = config
        self.wall = wall
        self.opened_clock = wall()  # a row that claims to be running since before this time was killed
        self.registry = registry  # the meaning of the records in it
        self.people = People()
        self.spent = Spent()
        self.long_texts = LongTexts(path)
        self.tombstones = Tombstones(b"", {})
        self._database = database
        # Held over the transactions of one scoring pass: publishing waits, so no snapshot shows half a pass.
        self.whole = threading.Lock()
        # Held while a snapshot is made: a copy from before an erasure may not be published after it.
        self.publishing = threading.RLock()
        # Held while rows move between the table and files, and while files are searched for somebody: a search during a
        # move would miss the moving rows. Taken before any transaction, never within one.
        self.files = threading.Lock()
        self._writer = threading.Lock()
        self._gate = Gate()
        self._lacked_memory = False  # True if a checkpoint did not fit into its memory limit
        self._is_invalid = False  # True if the drive failed: DuckDB then refuses everything until it is reopened
        self._schemas: dict[str, pa.Schema] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        wall: Callable[[], datetime] = wall_now,
        registry: Registry = REGISTRY,
        key: bytes = b"",
        memory_mb: int = MEMORY_MB,
    ) -> "Store":
        """Own the file, made or migrated as needed; `key` is the drive's, under which erased people are remembered.

        DuckDB stays within `memory_mb` and uses a folder beside the file beyond that. A file that cannot be opened or
        checkpointed within this limit is opened once without it, which moves long texts out of the file; the log says
        if that helped. Raises StoreProblem if another process owns the file, a newer version wrote it or it cannot be
        read.
        """
        config = CONFIG | {"memory_limit": f"{memory_mb}MB"}
        try:
            return cls._open_store(path, wall, registry, key, config)
        except StoreProblem as problem:
            if not is_out_of_memory(str(problem)):
                raise
            log.warning(
                "%s does not open within the %d MB of DUCKDB_MEMORY_MB: it is opened once with what memory this "
                "machine has, to move long texts out of it (%s)",
                path,
                memory_mb,
                problem,
            )
        cls._open_store(path, wall, registry, key, CONFIG).close()
        store = cls._open_store(path, wall, registry, key, config)
        try:
            store.checkpoint()
        except StoreProblem as problem:
            log.warning("%s opens within %d MB and needs more for a checkpoint (%s)", path, memory_mb, problem)
        else:
            log.warning("%s is mended: it is open within %d MB", path, memory_mb)
        return store

    @classmethod
    def _open_store(
        cls, path: Path, wall: Callable[[], datetime], registry: Registry, key: bytes, config: Config
    ) -> "Store":
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            database = duckdb.connect(str(path), config=config)
        except (duckdb.Error, OSError) as error:
            raise StoreProblem(why_unopened(path, str(error))) from error
        store = cls(database, path, wall, registry, config)
        try:
            clear_leftovers(path)
            store._migrate()
            sweep_texts(store)  # removes long texts that a crash left without committed rows
            with store.read() as reader:
                store.people = load_people(reader, registry)
                store.spent = load_spent(reader)
                store.tombstones = load_tombstones(reader, key)
        except WrongKey as problem:
            database.close()
            raise StoreProblem(str(problem)) from problem
        except duckdb.Error as error:
            database.close()
            raise StoreProblem(why_unopened(path, str(error))) from error
        except StoreProblem:
            database.close()
            raise
        return store

    def _migrate(self) -> None:
        with self.read() as reader:
            version = self._schema_version(reader)
        if version > SCHEMA_VERSION:
            raise StoreProblem(
                f"{self.path} was written by a newer Sunstead (schema {version}; this one knows {SCHEMA_VERSION}): "
                "update Sunstead, or restore a backup made by this version."
            )
        if version < SCHEMA_VERSION:
            self._bring_up_schema(version)
        self._move_texts()
        # A WAL that holds DDL is the one that fails to replay (duckdb #22124), so none is left behind.
        if self.path.with_name(f"{self.path.name}.wal").exists():
            self.checkpoint()

    def _move_texts(self) -> None:
        with self.read() as reader:
            if are_moved(reader):
                return
        with self.write() as txn:
            replaced_files = move_long_texts(self, txn, _read_schema())
        for path in replaced_files:
            path.unlink()

    def _bring_up_schema(self, version: int) -> None:
        """Turn tables of an earlier version, 0 for none, into today's tables."""
        with self.write() as txn:
            schema = _read_schema()
            if version:
                bring_up(txn, schema, version)
                txn.execute("update meta set value = ? where key = 'schema_version'", [str(SCHEMA_VERSION)])
            else:
                txn.cursor.execute(schema)
                txn.execute("insert into meta values ('schema_version', ?)", [str(SCHEMA_VERSION)])
                for hop in ("derive", "inputs", "score"):
                    txn.execute("insert into hops values (?, 0, ?)", [hop, self.wall()])

    def _schema_version(self, rows: Rows) -> int:
        """Return the file's schema version, 0 for an empty file. Raises StoreProblem for a foreign file."""
        try:
            version_text = rows.value("select value from meta where key = 'schema_version'")
        except (duckdb.CatalogException, duckdb.BinderException):
            if not rows.rows("select table_name from duckdb_tables()"):
                return 0
            version_text = None
        if version_text is None or not version_text.isdigit():
            raise StoreProblem(f"{self.path} is a database of something else: name another file in DUCKDB_PATH.")
        return int(version_text)

    def seen_since(self, did: str) -> datetime | None:
        """Return when the first record by or about this DID was seen, or None for a stranger."""
        return self.people.seen_since.get(did)

    def arrow_schema(self, table: str) -> pa.Schema:
        if table not in self._schemas:
            cursor = self._database.cursor()
            self._schemas[table] = cursor.sql(f"select * from {table} limit 0").to_arrow_table().schema
            cursor.close()
        return self._schemas[table]

    @contextmanager
    def _enter_gate(self) -> Generator[None]:
        """Join the readers and writers; first reopen the file if DuckDB has given it up."""
        if self._is_invalid:
            self._reopen()
        with self._gate.passing():
            try:
                yield
            except (duckdb.FatalException, StoreProblem) as error:
                self._is_invalid |= isinstance(error.__cause__ or error, duckdb.FatalException)
                raise

    def _reopen(self) -> None:
        """Reopen the file in this process with all committed rows. Raises StoreProblem if that is impossible."""
        require_room(self.path)
        try:
            with self._gate.shut(after_another=True):  # the first thread that comes here opens it
                if self._is_invalid:
                    self._database.close()
                    if self._lacked_memory:
                        log.warning("%s is checkpointed once with what memory this machine has", self.path)
                        database = duckdb.connect(str(self.path), config=CONFIG)
                        try:
                            database.execute("force checkpoint").fetchall()
                        finally:
                            database.close()
                    self._database = duckdb.connect(str(self.path), config=self._config)
                    self._is_invalid = self._lacked_memory = False
        except (TimeoutError, duckdb.Error) as error:
            raise StoreProblem(f"{self.path} cannot be opened anew ({plain(error)}): it is tried again") from error
        with self.read() as reader:  # the last transaction may or may not have been committed
            self.people = load_people(reader, self.registry)
            self.spent = load_spent(reader)

    @contextmanager
    def read(self) -> Generator[Rows]:
        """Yield a cursor for short reads; each statement sees the newest committed state."""
        with self._enter_gate():
            cursor = self._database.cursor()
            try:
                yield Rows(cursor)
            finally:
                cursor.close()

    @contextmanager
    def write(self) -> Generator[Transaction]:
        """Run one transaction under the writer's mutex: committed when the block ends, rolled back when it raises."""
        with self._enter_gate(), self._writer:
            cursor = self._database.cursor()
            txn = Transaction(cursor, self)
            try:
                cursor.execute("begin")
                yield txn
                cursor.execute("commit")
                txn.arrivals.keep()
                txn.intake.keep()
            except BaseException:
                with suppress(duckdb.Error):  # a failed commit has already rolled back; its own error is raised
                    cursor.execute("rollback")
                raise
            finally:
                cursor.close()

    def bind(self, source: str) -> int:
        """Tie the store to its stream and return that stream's cursor (0: none yet).

        Raises StoreProblem for a store that was filled from another stream.
        """
        with self.write() as txn:
            bound = txn.value("select value from meta where key = 'source'")
            if bound is None:
                txn.execute("insert into meta values ('source', ?)", [source])
                txn.execute("insert into ingest_state values (?, 0, 0, null, null, ?, null)", [source, self.wall()])
            elif bound != source:
                raise StoreProblem(
                    f"{self.path} was filled from {bound!r} and this run reads {source!r}: "
                    "use another DATA_ROOT, or move that file and the snapshots away to start afresh."
                )
            return txn.value("select cursor_us from ingest_state where source = ?", [source])

    def checkpoint(self) -> float:
        """Write everything committed into the main file; return the seconds that took, without the wait for a writer.

        FORCE, since a plain CHECKPOINT fails while another thread reads and rows were updated. Raises StoreProblem if
        it fails.
        """
        with self.still() as took:
            return took

    @contextmanager
    def still(self) -> Generator[float]:
        """Checkpoint, then keep writers out until the block ends: files copied beside the store then agree with it."""
        with self._enter_gate(), self._writer:
            began = time.monotonic()
            cursor = self._database.cursor()
            try:
                cursor.execute("force checkpoint").fetchall()
            except duckdb.Error as error:
                self._lacked_memory |= is_out_of_memory(str(error))
                raise StoreProblem(f"{self.path} could not be checkpointed: {error}") from error
            finally:
                cursor.close()
            yield time.monotonic() - began

    def compact(self, checked: bool = False) -> None:
        """Rewrite the file without the bytes of deleted rows; reading and writing wait until it is done.

        `checked`: compare row by row. Raises StoreProblem, with the file unchanged, if there is no room or a reader
        takes too long.
        """
        try:
            with self._gate.shut():
                self._database = compacted(self._database, self.path, self._config, checked)
        except (OSError, TimeoutError, duckdb.Error) as error:
            raise StoreProblem(f"{self.path} could not be compacted ({' '.join(str(error).split())[:200]})") from error

    def close(self) -> None:
        try:
            self.checkpoint()
        finally:
            self._database.close()


def _read_schema() -> str:
    return "".join(part.read_text() for part in sorted(SCHEMA.glob("*.sql")))


class StreamClock:
    """The present of a recorded stream: the newest handled frame."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> datetime:
        """Return the naive UTC time of the newest frame; 1970 before the first."""
        with self._store.read() as rows:
            return from_microseconds(rows.value("select max(cursor_us) from ingest_state") or 0)
