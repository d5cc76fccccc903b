"""Reading and writing the store: who may do so now, and what a cursor of it offers to everybody else."""

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
Keys = dict[str, NDArray[Any]]  # rows told apart: one array for each column of their key

# Rows that are replaced at once: 700,000 in one statement take more than the 160 MB that a small store may have.
GROUP_ROWS = 100_000
DRAIN_SECONDS = 60.0  # how long whoever shuts the gate waits for those inside
# Statements as DuckDB parsed them, which it would do anew at every call: a fifth of the CPU of a scoring pass over a
# small store. So many characters of them are kept, each takes 75 bytes; that pass needs 39,000.
PARSED_CHARACTERS = 200_000
PARSED: dict[str, duckdb.Statement] = {}


class Gate:
    """Many pass together; who shuts it waits until all are out and keeps new ones waiting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False
        self._mine = threading.local()

    @contextmanager
    def passing(self) -> Generator[None]:
        """Be inside; a thread that is inside already passes even while others wait, else it would wait for itself."""
        depth = getattr(self._mine, "depth", 0)
        if not depth:
            with self._changed:
                self._changed.wait_for(lambda: not self._shut)
                self._inside += 1
        self._mine.depth = depth + 1
        try:
            yield
        finally:
            self._mine.depth = depth
            if not depth:
                with self._changed:
                    self._inside -= 1
                    self._changed.notify_all()

    @contextmanager
    def shut(self, after_another: bool = False) -> Generator[None]:
        """Be alone; TimeoutError where somebody stays inside for a minute, or this thread itself is.

        Whoever shut it already is waited for with `after_another`, else it is a TimeoutError at once.
        """
        with self._changed:
            if getattr(self._mine, "depth", 0) or (self._shut and not after_another):
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
    """Reading: every call is one statement that is read to its end, so nothing keeps a transaction open.

    An unread result would: FORCE CHECKPOINT waits for it, and the publisher with it.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        result = self._run(sql, params)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def row(self, sql: str, params: Params = ()) -> dict[str, Any] | None:
        found = self.rows(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Params = ()) -> Any:
        found = self._run(sql, params).fetchall()
        return found[0][0] if found else None

    def columns(self, sql: str, params: Params = ()) -> dict[str, Any]:
        """All rows as one NumPy array a column, for reads of a whole table."""
        return self._run(sql, params).fetchnumpy()

    def _run(self, sql: str, params: Params) -> duckdb.DuckDBPyConnection:
        try:
            return self.cursor.execute(_parsed(self.cursor, sql), params)
        except RuntimeError as error:
            if str(error) != "Query interrupted":
                raise
            raise KeyboardInterrupt from error  # what DuckDB makes of a Ctrl-C that comes while it works


class Transaction(Rows):
    """Writing: everything done through it happens together or not at all."""

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
        """Insert the rows whose primary key is not there yet; returns how many."""
        return self._insert("insert or ignore into", table, rows)

    def exchange(self, table: str, rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> None:
        """As `upsert` by these keys, for many rows: of 5,000 wide ones it takes 10 ms, that one 2 to 20 s."""
        met = " and ".join(f"t.{name} = i.{name}" for name in keys)
        taken_out = f"delete from {table} t using incoming i where {met}"
        self._insert("insert into", table, rows, taken_out)

    def _insert(self, verb: str, table: str, rows: Sequence[Mapping[str, object]], first: str = "") -> int:
        rows = self._store.tombstones.living(table, rows, self.arrivals.number)
        if not rows:
            return 0
        schema = self._store.arrow_schema(table)
        columns = [pa.array([row.get(column.name) for row in rows], column.type) for column in schema]
        with self.registered(pa.table(columns, schema=schema)):
            if first:
                self.execute(first)
            return self.value(f"{verb} {table} by name select * from incoming")

    def replace(
        self, table: str, parts: Sequence[pa.Table], keys: Sequence[str], among: tuple[str, Sequence[int]]
    ) -> Keys:
        """Make a table hold exactly these rows where the column `among` has one of these values.

        `keys` tell rows apart; returns those of the rows that were written or taken out. What stands already is left as
        it is. Rows meet by their keys alone and are compared then: hashing 700,000 whole rows with their lists took
        twice as long.
        """
        schema, column = self._store.arrow_schema(table), among[0]
        changed, left = [], set(among[1])
        for group in _groups([part.select(schema.names).cast(schema) for part in parts], column):
            values = set(group[column].unique().to_pylist()) & left
            changed.append(self._replace(table, group, keys, (column, values)))
            left -= values
        changed.append(self._replace(table, schema.empty_table(), keys, (column, left)))
        return {name: np.concatenate([part[name] for part in changed]) for name in keys}

    def _replace(self, table: str, whole: pa.Table, keys: Sequence[str], among: tuple[str, Iterable[int]]) -> Keys:
        scope = ", ".join(str(int(value)) for value in sorted(among[1]))
        with self.registered(self._store.tombstones.living_columns(whole)):
            return self._keep(table, "incoming", keys, f"t.{among[0]} in ({scope})" if scope else "false")

    def hold(self, table: str, query: str, params: Params, keys: Sequence[str]) -> Keys:
        """Make a table hold exactly the rows that a query gives, in the order of its columns; else as `replace`."""
        self.execute(f"create or replace temp table wanted as from {table} limit 0")
        self.execute(f"insert into wanted {query}", params)
        changed = self._keep(table, "wanted", keys, "true")
        self.execute("drop table wanted")
        return changed

    def _keep(self, table: str, source: str, keys: Sequence[str], scope: str) -> Keys:
        """Write the rows of `source` that a table does not hold, and take out those in scope that are not in it."""
        met, named = " and ".join(f"t.{name} = i.{name}" for name in keys), ", ".join(keys)
        differs = " or ".join(f"t.{name} is distinct from i.{name}" for name in self._store.arrow_schema(table).names)
        self.execute(
            f"create or replace temp table differing as select i.* from {source} i left join {table} t on {met} "
            f"where {differs}"
        )
        self.execute(
            f"create or replace temp table gone as select {named} from {table} t "
            f"where {scope} and not exists (from {source} i where {met})"
        )
        changed = self.columns(f"select {named} from differing union all from gone")
        if len(changed[keys[0]]):
            self.execute(f"delete from {table} t using gone i where {met}")
            self.execute(f"delete from {table} t using differing i where {met}")
            self.execute(f"insert into {table} by name from differing")
        self.execute("drop table differing")
        self.execute("drop table gone")
        return changed

    @contextmanager
    def registered(self, columns: pa.Table) -> Generator[None]:
        """Statements in the block read these columns as the table `incoming`."""
        self.cursor.register("incoming", columns)
        yield
        self.cursor.unregister("incoming")  # after a failure the cursor takes nothing more, and is closed

    def wall(self) -> datetime:
        return self._store.wall()

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


def quoted(path: Path | str) -> str:
    """A path as a text in SQL, for statements that take no parameter there."""
    return "'" + str(path).replace("'", "''") + "'"


def _parsed(cursor: duckdb.DuckDBPyConnection, sql: str) -> str | duckdb.Statement:
    """One statement as DuckDB parsed it the first time; what is several stays text.

    It names tables and parameters and holds none, so that every store, cursor and thread may execute it.
    """
    known = PARSED.get(sql)
    if known is not None:
        return known
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        return sql
    if sum(map(len, tuple(PARSED))) + len(sql) > PARSED_CHARACTERS:  # a copy: other threads add to it meanwhile
        PARSED.clear()  # some name their values one by one and never come again
    PARSED[sql] = statements[0]
    return statements[0]


def _groups(parts: Sequence[pa.Table], column: str) -> Iterator[pa.Table]:
    """The parts put together to GROUP_ROWS or a little more; no value of the column is in two of them."""
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
