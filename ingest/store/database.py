"""The one DuckDB file: opened here and nowhere else, by the one process that owns it.

It is also written anew here: the bytes of a deleted row stay in its blocks and its WAL until then. Measured (DuckDB
2.0.0): COPY FROM DATABASE keeps keys, indexes, not-null, views and where sequences stand. Kill-safe: up to the rename
the old file is whole, then the new one is; what a kill leaves beside is removed at the next start. What the file system
keeps of freed blocks, and a drive of overwritten ones, is beyond any program's reach.

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
    """Remove what a killed compaction left beside the file; only its owner may."""
    for leftover in path.parent.glob(f"{path.name}{PARTIAL}*"):
        leftover.unlink(missing_ok=True)


def compacted(
    database: duckdb.DuckDBPyConnection, path: Path, config: Mapping[str, Any], checked: bool = False
) -> duckdb.DuckDBPyConnection:
    """The connection to the file written anew, with no cursor of the old one open; errors leave the old one in use.

    `checked`: every table of both is read and compared before the old file goes.
    """
    partial = path.with_name(path.name + PARTIAL)
    clear_leftovers(path)
    size = path.stat().st_size
    if shutil.disk_usage(path.parent).free < size + SPARE_BYTES:
        raise OSError(f"{path.parent} has no room for a second copy of {size // 1_000_000} MB: free some space")
    try:
        number = _copy(database, path, partial, checked)
        swapped = _swap(database, path, partial, config)
    finally:
        clear_leftovers(path)
    if _number(swapped) != number:
        raise OSError("the old file is still open in this process: restart it")
    return swapped


def _number(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how often the file was written anew: tells the new one from the old one."""
    found = connection.execute("select position_seq from hops where name = 'file'").fetchall()
    return found[0][0] if found else 0


def _copy(database: duckdb.DuckDBPyConnection, path: Path, partial: Path, checked: bool) -> int:
    """Everything committed, in a file of its own that is on the drive when this returns; its number."""
    cursor = database.cursor()
    try:
        cursor.execute("force checkpoint").fetchall()
        name = cursor.execute("select current_database()").fetchall()[0][0]
        number = _number(cursor) + 1
        cursor.execute(f"attach {quoted(partial)} as compacted").fetchall()
        try:
            cursor.execute(f'copy from database "{name}" to compacted').fetchall()
            if checked and (wrong := differing(table_sums(cursor), table_sums(cursor, "compacted"))):
                raise OSError(f"the copy has other rows in {', '.join(wrong)}")
            numbered = "insert or replace into compacted.hops values ('file', ?, now()::timestamp)"
            cursor.execute(numbered, [number]).fetchall()
            cursor.execute("checkpoint compacted").fetchall()
        finally:
            cursor.execute("detach compacted").fetchall()
    finally:
        cursor.close()
    wal = path.with_name(path.name + ".wal")
    if wal.exists() and wal.stat().st_size:  # it would be replayed into the new file, which holds its rows already
        raise OSError(f"{wal} was not emptied")
    wal.unlink(missing_ok=True)
    sync(partial)
    return number


def _swap(
    database: duckdb.DuckDBPyConnection, path: Path, partial: Path, config: Mapping[str, Any]
) -> duckdb.DuckDBPyConnection:
    """Put the new file in the old one's place; at no moment can another process own a file that is to be replaced.

    A second instance holds the new file's lock over the rename: without it, one that opened the old file between our
    letting go of it and the rename would write what nobody reads again.
    """
    holder = duckdb.connect(":memory:")
    try:
        holder.execute(f"attach {quoted(partial)} as held (read_only)").fetchall()
        partial.rename(path)
        sync(path.parent)
        database.close()  # to the last: DuckDB would hand out this instance again, with the old file, by its path
    finally:
        holder.close()
    return _connect(path, config)


def _connect(path: Path, config: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """Own the new file; a command that took it for a moment is waited for."""
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
SCHEMA_VERSION = 13
# With it the worker and its reader keep below 500 MB where 300,000 events come at once, with 256 not; a scoring pass
# over 20,000 people and 40 repositories needs 130.
MEMORY_MB = 160
# One thread: to share an insert of 10,000 rows among two costs more than the insert (2.5 µs of CPU a row, alone 1.1),
# and a scoring pass over 20,000 people takes as long with one as with two.
# Automatic checkpoints stay off: the publisher checkpoints; meanwhile the main file must not change under the copy.
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
        self.opened_clock = wall()  # what says that it runs since before then was killed
        self.registry = registry  # what the records in it mean
        self.people = People()
        self.spent = Spent()
        self.long_texts = LongTexts(path)
        self.tombstones = Tombstones(b"", {})
        self._database = database
        # Held over the transactions of one scoring pass: no snapshot shows half of it, since publishing waits.
        self.whole = threading.Lock()
        # Held while a snapshot is made: one copied from before an erasure may not be published after it.
        self.publishing = threading.RLock()
        # Held while rows move between the table and files, and while files are searched for somebody: a search that
        # meets a move would miss what is on its way. Taken before any transaction, never within one.
        self.files = threading.Lock()
        self._writer = threading.Lock()
        self._gate = Gate()
        self._lacked_memory = False  # a checkpoint did not fit into the memory that it may take
        self._is_invalid = False  # DuckDB met a drive that took no bytes and refuses everything until it is opened anew
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

        DuckDB keeps to `memory_mb` and lays what is beyond in a folder beside the file while it works. A file that
        cannot be opened or checkpointed within it is opened once with what memory the machine has, which moves
        long texts out of it; the log says whether that mended it.
        Raises StoreProblem where another process owns it, a newer version wrote it or it cannot be read.
        """
        config = CONFIG | {"memory_limit": f"{memory_mb}MB"}
        try:
            return cls._opened(path, wall, registry, key, config)
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
        cls._opened(path, wall, registry, key, CONFIG).close()
        store = cls._opened(path, wall, registry, key, config)
        try:
            store.checkpoint()
        except StoreProblem as problem:
            log.warning("%s opens within %d MB and needs more for a checkpoint (%s)", path, memory_mb, problem)
        else:
            log.warning("%s is mended: it is open within %d MB", path, memory_mb)
        return store

    @classmethod
    def _opened(
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
            sweep_texts(store)  # what a crash left of long texts whose rows were not committed
            with store.read() as rows:
                store.people = load_people(rows, registry)
                store.spent = load_spent(rows)
                store.tombstones = load_tombstones(rows, key)
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
        with self.read() as rows:
            version = self._version(rows)
        if version > SCHEMA_VERSION:
            raise StoreProblem(
                f"{self.path} was written by a newer Sunstead (schema {version}; this one knows {SCHEMA_VERSION}): "
                "update Sunstead, or restore a backup made by this version."
            )
        if version < SCHEMA_VERSION:
            self._bring_up(version)
        self._move_texts()
        # A WAL that holds DDL is the one that fails to replay (duckdb #22124), so none is left behind.
        if self.path.with_name(f"{self.path.name}.wal").exists():
            self.checkpoint()

    def _move_texts(self) -> None:
        with self.read() as rows:
            if are_moved(rows):
                return
        with self.write() as txn:
            replaced = move_long_texts(self, txn, _schema())
        for path in replaced:
            path.unlink()

    def _bring_up(self, version: int) -> None:
        """Make the tables of today out of those of an earlier version, 0: of none."""
        with self.write() as txn:
            schema = _schema()
            if version:
                bring_up(txn, schema, version)
                txn.execute("update meta set value = ? where key = 'schema_version'", [str(SCHEMA_VERSION)])
            else:
                txn.cursor.execute(schema)
                txn.execute("insert into meta values ('schema_version', ?)", [str(SCHEMA_VERSION)])
                for hop in ("derive", "inputs", "score"):
                    txn.execute("insert into hops values (?, 0, ?)", [hop, self.wall()])

    def _version(self, rows: Rows) -> int:
        """The schema version of the file, 0 for an empty one; StoreProblem where the file is somebody else's."""
        try:
            told = rows.value("select value from meta where key = 'schema_version'")
        except (duckdb.CatalogException, duckdb.BinderException):
            if not rows.rows("select table_name from duckdb_tables()"):
                return 0
            told = None
        if told is None or not told.isdigit():
            raise StoreProblem(f"{self.path} is a database of something else: name another file in DUCKDB_PATH.")
        return int(told)

    def seen_since(self, did: str) -> datetime | None:
        """Return when the first record by or about this DID was seen; None for a stranger."""
        return self.people.seen_since.get(did)

    def arrow_schema(self, table: str) -> pa.Schema:
        if table not in self._schemas:
            cursor = self._database.cursor()
            self._schemas[table] = cursor.sql(f"select * from {table} limit 0").to_arrow_table().schema
            cursor.close()
        return self._schemas[table]

    @contextmanager
    def _passing(self) -> Generator[None]:
        """Be among those who read and write; what DuckDB has given up is opened anew first."""
        if self._is_invalid:
            self._open_anew()
        with self._gate.passing():
            try:
                yield
            except (duckdb.FatalException, StoreProblem) as error:
                self._is_invalid |= isinstance(error.__cause__ or error, duckdb.FatalException)
                raise

    def _open_anew(self) -> None:
        """Open the file again in this process, with all that was committed; StoreProblem while that cannot be done."""
        require_room(self.path)
        try:
            with self._gate.shut(after_another=True):  # of several that meet it the first opens it
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
        with self.read() as rows:  # what was in hand may have been committed, or not
            self.people = load_people(rows, self.registry)
            self.spent = load_spent(rows)

    @contextmanager
    def read(self) -> Generator[Rows]:
        """A cursor for short reads; each statement sees the newest committed state."""
        with self._passing():
            cursor = self._database.cursor()
            try:
                yield Rows(cursor)
            finally:
                cursor.close()

    @contextmanager
    def write(self) -> Generator[Transaction]:
        """One transaction under the writer's mutex: committed when the block ends, undone when it raises."""
        with self._passing(), self._writer:
            cursor = self._database.cursor()
            txn = Transaction(cursor, self)
            try:
                cursor.execute("begin")
                yield txn
                cursor.execute("commit")
                txn.arrivals.keep()
                txn.intake.keep()
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
                txn.execute("insert into ingest_state values (?, 0, 0, null, null, ?, null)", [source, self.wall()])
            elif bound != source:
                raise StoreProblem(
                    f"{self.path} was filled from {bound!r} and this run reads {source!r}: "
                    "use another DATA_ROOT, or move that file and the snapshots away to start afresh."
                )
            return txn.value("select cursor_us from ingest_state where source = ?", [source])

    def checkpoint(self) -> float:
        """Write everything committed into the main file; the seconds that took, without those of waiting for a writer.

        FORCE, since a plain CHECKPOINT fails while another thread reads and rows were updated. Raises StoreProblem
        where it fails.
        """
        with self.still() as took:
            return took

    @contextmanager
    def still(self) -> Generator[float]:
        """As `checkpoint`, and nobody writes until the block ends: what is copied beside the store agrees with it."""
        with self._passing(), self._writer:
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
        """Write the file anew without the bytes of deleted rows: nobody reads or writes meanwhile.

        `checked`: row by row. Raises StoreProblem, with the file as it was, where there is no room or something reads
        for too long.
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


def _schema() -> str:
    return "".join(part.read_text() for part in sorted(SCHEMA.glob("*.sql")))


class StreamClock:
    """The present of a recorded stream: the newest frame that was handled."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> datetime:
        """Naive UTC time of the newest frame; 1970 before the first."""
        with self._store.read() as rows:
            return from_microseconds(rows.value("select max(cursor_us) from ingest_state") or 0)
