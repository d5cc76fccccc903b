"""Read and write the store: a gate that decides who may, and the methods that a cursor offers."""

import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.store.contributors import Arrivals, Intake, new_contributor

if TYPE_CHECKING:
    from ingest.store.database import Store

Params = Sequence[object] | Mapping[str, object]  # for `?`, or for `$name`
Keys = dict[str, NDArray[Any]]  # keys of rows: one array for each column of their key

# Rows that are replaced at once: 700,000 in one statement take more than the 160 MB that a small store may have.
GROUP_ROWS = 100_000
DRAIN_SECONDS = 60.0  # the thread that shuts the gate waits this long for the others
# Statements as DuckDB parsed them. Parsing at every call takes a fifth of the CPU of a scoring pass over a small store.
# This many characters are cached, at 75 bytes each; that pass needs 39,000.
PARSED_CHARACTERS = 200_000
PARSED: dict[str, duckdb.Statement] = {}


class Gate:
    """Many threads pass together; a thread that shuts it waits until all are out and keeps new ones waiting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False
        self._own_thread = threading.local()

    @contextmanager
    def passing(self) -> Generator[None]:
        """Be inside; a thread that is already inside passes even while others wait, else it would wait for itself."""
        depth = getattr(self._own_thread, "depth", 0)
        if not depth:
            with self._changed:
                self._changed.wait_for(lambda: not self._shut)
                self._inside += 1
        self._own_thread.depth = depth + 1
        try:
            yield
        finally:
            self._own_thread.depth = depth
            if not depth:
                with self._changed:
                    self._inside -= 1
                    self._changed.notify_all()

    @contextmanager
    def shut(self, after_another: bool = False) -> Generator[None]:
        """Be alone. Raises TimeoutError if another thread stays inside for a minute, or if this thread is inside.

        With `after_another` wait if another thread has shut it; otherwise raise TimeoutError at once.
        """
        with self._changed:
            if getattr(self._own_thread, "depth", 0) or (self._shut and not after_another):
                raise TimeoutError("this thread reads, or another one compacts")
            if not self._changed.wait_for(lambda: not self._shut, DRAIN_SECONDS):
                raise TimeoutError(f"it is shut for more than {DRAIN_SECONDS:.0f} s")
            self._shut = True
            alone = self._changed.wait_for(lambda: not self._inside, DRAIN_SECONDS)
        try:
            if not alone:
                raise TimeoutError(f"something reads for more than {DRAIN_SECONDS:.0f} s")
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()


class Rows:
    """Read: every call is one statement whose result is read to its end, so nothing keeps a transaction open.

    An unread result would: FORCE CHECKPOINT waits for it, and the publisher with it.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        result = self._run(sql, params)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def row(self, sql: str, params: Params = ()) -> dict[str, Any] | None:
        result = self.rows(sql, params)
        return result[0] if result else None

    def value(self, sql: str, params: Params = ()) -> Any:
        result = self._run(sql, params).fetchall()
        return result[0][0] if result else None

    def columns(self, sql: str, params: Params = ()) -> dict[str, Any]:
        """Return all rows as one NumPy array a column, for reads of a whole table."""
        return self._run(sql, params).fetchnumpy()

    def _run(self, sql: str, params: Params) -> duckdb.DuckDBPyConnection:
        try:
            return self.cursor.execute(_parse_once(self.cursor, sql), params)
        except RuntimeError as error:
            if str(error) != "Query interrupted":
                raise
            raise KeyboardInterrupt from error  # DuckDB raises this error for a Ctrl-C during its work


class Transaction(Rows):
    """Write: all changes through it are committed together or not at all."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, store: "Store") -> None:
        super().__init__(cursor)
        self._store = store
        self._changed = False
        self.arrivals = Arrivals(store.people)
        self.intake = Intake(store.spent)
        self.long_texts = store.long_texts
        self.tombstones = store.tombstones
        self.registry = store.registry

    def execute(self, sql: str, params: Params = ()) -> None:
        """Run one statement whose result is not needed."""
        self._run(sql, params).fetchall()

    def append(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows that name every column of the table."""
        self._insert("insert into", table, rows)

    def upsert(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows or replace those with the same primary key; keys must differ within one call."""
        self._insert("insert or replace into", table, rows)

    def append_new(self, table: str, rows: Sequence[Mapping[str, object]]) -> int:
        """Insert the rows with a new primary key; return how many."""
        return self._insert("insert or ignore into", table, rows)

    def exchange(self, table: str, rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> None:
        """Upsert many rows by these keys: for 5,000 wide ones this takes 10 ms, `upsert` takes 2 to 20 s."""
        join = " and ".join(f"t.{name} = i.{name}" for name in keys)
        delete = f"delete from {table} t using incoming i where {join}"
        self._insert("insert into", table, rows, delete)

    def _insert(self, verb: str, table: str, rows: Sequence[Mapping[str, object]], statement_before: str = "") -> int:
        rows = self._store.tombstones.living(table, rows, self.arrivals.number)
        if not rows:
            return 0
        schema = self._store.arrow_schema(table)
        columns = [pa.array([row.get(column.name) for row in rows], column.type) for column in schema]
        with self.registered(pa.table(columns, schema=schema)):
            if statement_before:
                self.execute(statement_before)
            return self.value(f"{verb} {table} by name select * from incoming")

    def replace(
        self, table: str, parts: Sequence[pa.Table], keys: Sequence[str], among: tuple[str, Sequence[int]]
    ) -> Keys:
        """Make a table hold exactly these rows where the column `among` has one of these values.

        `keys` identify rows; returns the keys of the rows that were written or removed. Unchanged rows stay untouched.
        Rows are joined by their keys alone and compared then: hashing 700,000 whole rows with their lists took twice as
        long.
        """
        schema, column = self._store.arrow_schema(table), among[0]
        changed, remaining = [], set(among[1])
        for group in _group_parts([part.select(schema.names).cast(schema) for part in parts], column):
            values = set(group[column].unique().to_pylist()) & remaining
            changed.append(self._replace(table, group, keys, (column, values)))
            remaining -= values
        changed.append(self._replace(table, schema.empty_table(), keys, (column, remaining)))
        return {name: np.concatenate([part[name] for part in changed]) for name in keys}

    def _replace(self, table: str, rows: pa.Table, keys: Sequence[str], among: tuple[str, Iterable[int]]) -> Keys:
        scope = ", ".join(str(int(value)) for value in sorted(among[1]))
        with self.registered(self._store.tombstones.living_columns(rows)):
            return self._write_differences(table, "incoming", keys, f"t.{among[0]} in ({scope})" if scope else "false")

    def hold(self, table: str, query: str, params: Params, keys: Sequence[str]) -> Keys:
        """Make a table hold exactly the rows of a query, in the order of its columns; otherwise like `replace`."""
        self.execute(f"create or replace temp table wanted as from {table} limit 0")
        self.execute(f"insert into wanted {query}", params)
        changed = self._write_differences(table, "wanted", keys, "true")
        self.execute("drop table wanted")
        return changed

    def _write_differences(self, table: str, source: str, keys: Sequence[str], scope: str) -> Keys:
        """Write the rows of `source` that differ from the table, and remove those in scope that are not in it."""
        join, key_columns = " and ".join(f"t.{name} = i.{name}" for name in keys), ", ".join(keys)
        differs = " or ".join(f"t.{name} is distinct from i.{name}" for name in self._store.arrow_schema(table).names)
        self.execute(
            f"create or replace temp table differing as select i.* from {source} i left join {table} t on {join} "
            f"where {differs}"
        )
        self.execute(
            f"create or replace temp table gone as select {key_columns} from {table} t "
            f"where {scope} and not exists (from {source} i where {join})"
        )
        changed = self.columns(f"select {key_columns} from differing union all from gone")
        if len(changed[keys[0]]):
            self.execute(f"delete from {table} t using gone i where {join}")
            self.execute(f"delete from {table} t using differing i where {join}")
            self.execute(f"insert into {table} by name from differing")
        self.execute("drop table differing")
        self.execute("drop table gone")
        return changed

    @contextmanager
    def registered(self, columns: pa.Table) -> Generator[None]:
        """Let statements in the block read these columns as the table `incoming`."""
        self.cursor.register("incoming", columns)
        yield
        self.cursor.unregister("incoming")  # after a failure the cursor takes nothing more, and is closed

    def wall(self) -> datetime:
        return self._store.wall()

    def inputs_changed(self) -> None:
        """Note that an input of scoring has changed, so that the scoring hop has work."""
        if not self._changed:
            self.execute(
                "update hops set position_seq = position_seq + 1, ran_clock = ? where name = 'inputs'",
                [self._store.wall()],
            )
            self._changed = True

    def person_ids(self, dids: Iterable[str], seen_at: datetime | None = None) -> dict[str, int]:
        """Return the integer of each DID, new if it has none; `seen_at` if a record by or about them arrived."""
        return self.register_people(dict.fromkeys(dids, seen_at))

    def register_people(self, first_seen: Mapping[str, datetime | None]) -> dict[str, int]:
        """Return the integer of each DID, as `person_ids` does, with a time for each DID."""
        newly_seen = self.arrivals.note_seen(first_seen)
        known_numbers = {did: self.arrivals.number(did) for did in first_seen}
        new_numbers = {did: self.arrivals.give(did) for did, number in known_numbers.items() if number is None}
        self.append(
            "contributors", [new_contributor(did, number, newly_seen.get(did)) for did, number in new_numbers.items()]
        )
        self._fill_first_seen({did: seen_at for did, seen_at in newly_seen.items() if did not in new_numbers})
        return {did: number or new_numbers[did] for did, number in known_numbers.items()}

    def _fill_first_seen(self, first_seen: Mapping[str, datetime]) -> None:
        """Set the first time of people who were known only by name so far."""
        if first_seen:
            self.execute(
                "update contributors set first_seen_at = n.seen_at "
                "from (select unnest(?) as did, unnest(?) as seen_at) n where n.did = contributors.did",
                [list(first_seen), list(first_seen.values())],
            )


def quoted(path: Path | str) -> str:
    """Return a path as a quoted SQL string, for statements that take no parameter there."""
    return "'" + str(path).replace("'", "''") + "'"


def _parse_once(cursor: duckdb.DuckDBPyConnection, sql: str) -> str | duckdb.Statement:
    """Return one statement as DuckDB parsed it the first time; several statements stay text.

    It names tables and parameters and holds no values, so that every store, cursor and thread may execute it.
    """
    cached = PARSED.get(sql)
    if cached is not None:
        return cached
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        return sql
    if sum(map(len, tuple(PARSED))) + len(sql) > PARSED_CHARACTERS:  # a copy, because other threads add to it
        PARSED.clear()  # some statements list their values and never come again
    PARSED[sql] = statements[0]
    return statements[0]


def _group_parts(parts: Sequence[pa.Table], column: str) -> Iterator[pa.Table]:
    """Yield the parts joined to GROUP_ROWS or a little more; no value of the column is in two groups."""
    by_value: dict[object, list[pa.Table]] = {}
    for part in parts:
        for value in part[column].unique().to_pylist():
            by_value.setdefault(value, []).append(part.filter(pc.field(column) == value))
    group: list[pa.Table] = []
    for tables in by_value.values():
        group += tables
        if sum(map(len, group)) >= GROUP_ROWS:
            yield pa.concat_tables(group)
            group = []
    if group:
        yield pa.concat_tables(group)
