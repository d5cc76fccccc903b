"""Find one person in the tables by reading the schema, so that no column is forgotten, and remove them at once.

A row that is the person's or refers to them (number, DID, one of their records, a key that names them) goes. In other
people's text a mention is replaced by a word. Two things stay without their name: what they settled as a push-holder,
since it is other people's record too, and the numbers of their repositories, where others' work lies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.store.archive import events_at_hand
from ingest.store.long_texts import PREFIX, LongTexts
from ingest.store.tombstones import NOBODY, PEOPLE, Names
from ingest.store.transaction import Rows, Transaction

TEXT, TEXTS, NUMBERS = "VARCHAR", "VARCHAR[]", "INTEGER[]"
COLUMNS = """
select c.table_name, c.column_name, c.data_type, c.is_nullable
from duckdb_columns() c join duckdb_tables() t using (database_oid, schema_oid, table_oid)
where c.database_name = current_database() and not t.internal and not t.temporary
order by c.table_name, c.column_index
"""
KEYS = """
select table_name, unnest(constraint_column_names) as column_name from duckdb_constraints()
where database_name = current_database() and constraint_type = 'PRIMARY KEY'
"""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    numbers: tuple[str, ...]  # people's numbers that every row has
    optional_numbers: tuple[str, ...]
    number_lists: tuple[str, ...]
    texts: tuple[str, ...]
    text_lists: tuple[str, ...]
    keys: frozenset[str]

    def naming(self, names: Names, number: int | None) -> tuple[str, list[object]]:
        """Return a condition that holds for every row that may be about the person, and its parameters."""
        clauses: list[tuple[str, object]] = []
        if number is not None:
            clauses += [(f'"{column}" = ?', number) for column in (*self.numbers, *self.optional_numbers)]
            clauses += [(f'list_contains("{column}", ?)', number) for column in self.number_lists]
        for needle in names.column_needles:
            clauses += [(f'contains(lower("{column}"), ?)', needle) for column in self.texts]
            clauses += [(f'contains(lower("{column}"::varchar), ?)', needle) for column in self.text_lists]
        return " or ".join(clause for clause, _ in clauses) or "false", [value for _, value in clauses]

    def named_in(self, row: Row, names: Names, number: int | None) -> bool:
        """Return True if a row that may be about the person really is."""
        numbers = {row[column] for column in (*self.numbers, *self.optional_numbers)}
        listed_numbers = (item for column in self.number_lists for item in row[column] or ())
        if number is not None and (number in numbers or number in listed_numbers):
            return True
        texts = [row[column] for column in self.texts] + [item for name in self.text_lists for item in row[name] or ()]
        return any(text and names.named_in(text) for text in texts)


def tables(rows: Rows) -> list[Table]:
    columns: dict[str, list[Row]] = {}
    for row in rows.rows(COLUMNS):
        columns.setdefault(row["table_name"], []).append(row)
    keys: dict[str, set[str]] = {}
    for row in rows.rows(KEYS):
        keys.setdefault(row["table_name"], set()).add(row["column_name"])
    return [
        _build_table(name, table_columns, keys.get(name, set()))
        for name, table_columns in columns.items()
        if name != "tombstones"
    ]


def _build_table(name: str, columns: Sequence[Row], keys: set[str]) -> Table:
    def of_type(kind: str) -> tuple[str, ...]:
        return tuple(row["column_name"] for row in columns if row["data_type"] == kind)

    people = [row for row in columns if row["column_name"] in PEOPLE]
    return Table(
        name=name,
        numbers=tuple(row["column_name"] for row in people if not row["is_nullable"]),
        optional_numbers=tuple(row["column_name"] for row in people if row["is_nullable"]),
        number_lists=of_type(NUMBERS),
        texts=of_type(TEXT),
        text_lists=of_type(TEXTS),
        keys=frozenset(keys),
    )


def find_names(rows: Rows, did: str) -> tuple[Names, int | None]:
    """Return the names of a DID here and its number, or None if it has none."""
    row = rows.row("select contributor_id, handle, handle_verified from contributors where did = ?", [did])
    if row is None:
        return Names(did), None
    handle = row["handle"] if row["handle_verified"] else None
    return Names(did, handle.lower() if handle else None), row["contributor_id"]


@dataclass(frozen=True, slots=True)
class LongText:
    """A long text that is read each time `str` is called: of 10,000 texts of a megabyte only one is in memory."""

    texts: LongTexts
    reference: str

    def __str__(self) -> str:
        return str(self.texts.shown(self.reference))


def whole_row(row: Row, texts: LongTexts) -> dict[str, Any]:
    """Return the row with its text in place of a reference; the text is read when it is written out."""
    body = row.get("body")
    return {**row, "body": LongText(texts, body)} if body and body.startswith(PREFIX) else dict(row)


def held_rows(rows: Rows, names: Names, number: int | None) -> Iterator[tuple[str, Sequence[Row]]]:
    """Yield each table with its rows about a person, long texts as references; skip tables without such rows."""
    for table in tables(rows):
        where, params = table.naming(names, number)
        candidates = rows.rows(f'select * from "{table.name}" where {where}', params)
        if own_rows := [row for row in candidates if table.named_in(row, names, number)]:
            yield table.name, own_rows


# A server's name may equal somebody's handle, but it locates a repository and identifies nobody.
HOSTS = frozenset({"knot", "spindle", "host", "server", "pds"})
GONE = object()
ANONYMOUS = (
    f"insert into push_holders by name select repository_id, {NOBODY} as contributor_id, 'owner' as role, "
    "'owner' as learned_from, null::timestamp as held_from, $now::timestamp as held_until from repositories "
    "where owner_id = $number",
    f"insert into push_holders by name select * replace ({NOBODY} as contributor_id, "
    "coalesce(held_until, $now::timestamp) as held_until) from push_holders where contributor_id = $number",
    "delete from push_holders where contributor_id = $number",
    f"update statuses set actor_id = {NOBODY}, status_uri = 'erased:' || event_seq "
    "from pull_requests p where p.pull_uri = statuses.pull_uri and actor_id = $number and p.author_id <> $number "
    "and statuses.authority = 'push_holder'",
)
BARE = """
update repositories set owner_id = null, rkey = null, name = null, knot = null, spindle = null, written_at = null,
  upstream = null,
  repo_key = case when contains(repo_key, $did) then 'erased:' || repository_id else repo_key end
where owner_id is not distinct from $number and owner_id is not null or starts_with(repo_key, 'at://' || $did || '/')
"""

# Data from the mirrors of their repositories; other people's landings there stay in `landings`.
OF_MIRRORS = [
    f"delete from {table} where repository_id in (select repository_id from repositories where owner_id = $number)"
    for table in ("mirrors", "commits", "branch_commits")
] + ["delete from ref_updates where repository in (select repo_key from repositories where owner_id = $number)"]


def erase_letters(txn: Transaction, names: Names) -> None:
    """Delete the dead letters of their events, whose texts may not name them, while the log has the events."""
    own_events = f"from {events_at_hand(txn)} where did = $did or rkey = $did"
    txn.execute(f"delete from dead_letters where event_id in (select event_id {own_events})", {"did": names.did})
    txn.execute(f"delete from unread_events where event_seq in (select event_seq {own_events})", {"did": names.did})


def erase_rows(txn: Transaction, names: Names, number: int | None, now: datetime) -> int:
    """Remove the person from every table; return how many rows went or were changed."""
    if number is not None:
        for statement in (*ANONYMOUS, *OF_MIRRORS):
            txn.execute(statement, _select_params(statement, names, number, now))
    txn.execute(BARE, _select_params(BARE, names, number, now))
    erase_letters(txn, names)
    return sum(_erase_from_table(txn, table, names, number) for table in tables(txn))


def _select_params(statement: str, names: Names, number: int | None, now: datetime) -> dict[str, object]:
    values = {"did": names.did, "number": number, "now": now}
    return {name: value for name, value in values.items() if f"${name}" in statement}


def _erase_from_table(txn: Transaction, table: Table, names: Names, number: int | None) -> int:
    changed = _delete_own(txn, table, names, number)
    if number is not None:
        for column in table.optional_numbers:
            changed += _execute_count(
                txn, f'update "{table.name}" set "{column}" = null where "{column}" = ?', [number]
            )
        for column in table.number_lists:
            sql = f'update "{table.name}" set "{column}" = [] where list_contains("{column}", ?)'
            changed += _execute_count(txn, sql, [number])
    return changed + _strike_texts(txn, table, names)


def _delete_own(txn: Transaction, table: Table, names: Names, number: int | None) -> int:
    clauses = [f'"{column}" = $number' for column in table.numbers] if number is not None else []
    clauses += [f"\"{name}\" = $did or starts_with(\"{name}\", 'at://' || $did || '/')" for name in table.texts]
    if not clauses:
        return 0
    sql = f'delete from "{table.name}" where {" or ".join(clauses)}'
    values: dict[str, object] = {"did": names.did, "number": number}
    return _execute_count(txn, sql, {name: value for name, value in values.items() if f"${name}" in sql})


def _strike_texts(txn: Transaction, table: Table, names: Names) -> int:
    where, params = table.naming(names, None)
    columns = ", ".join(f'"{name}"' for name in (*table.texts, *table.text_lists))
    if not columns:
        return 0
    deleted: list[int] = []
    changes: dict[str, list[tuple[int, Any]]] = {}
    for row in txn.rows(f'select rowid as row_number, {columns} from "{table.name}" where {where}', params):
        place = row.pop("row_number")
        new_values = {name: struck_value(table, name, value, names) for name, value in row.items()}
        if any(value is GONE for value in new_values.values()):
            deleted.append(place)
            continue
        for name, value in new_values.items():
            if value != row[name]:
                changes.setdefault(name, []).append((place, value))
    return _write_changes(txn, table, deleted, changes)


def _write_changes(
    txn: Transaction, table: Table, deleted: Sequence[int], changes: dict[str, list[tuple[int, Any]]]
) -> int:
    """Update before deleting: a deleted row may move the numbers of others."""
    changed = {place for column_changes in changes.values() for place, _ in column_changes}
    for name, column_changes in changes.items():
        txn.execute(
            f'update "{table.name}" set "{name}" = n.value from (select unnest(?) as place, unnest(?) as value) n '
            f'where n.place = "{table.name}".rowid',
            [[place for place, _ in column_changes], [value for _, value in column_changes]],
        )
    if deleted:
        txn.execute(f'delete from "{table.name}" where rowid in (select unnest(?))', [list(deleted)])
    return len(changed) + len(deleted)


def struck_value(table: Table, column: str, value: Any, names: Names) -> Any:
    """Return the rest of a value that may name the person: itself, a part, None, or GONE for the whole row."""
    if isinstance(value, list):
        return [item for item in value if not names.named_in(item)]
    if not isinstance(value, str) or not names.named_in(value):
        return value
    if column in HOSTS and value.lower() == names.handle:
        return value
    if column == "body" and table.name in ("events", "dead_letters") and names.referred_in_json(value):
        return None if table.name == "events" else GONE
    is_key = column in table.keys or column == "rkey"
    if table.name == "repositories" and is_key:
        return f"erased:{names.struck_from(value)}"
    return GONE if is_key or names.referred_by(value) else names.struck_from(value)


def _execute_count(txn: Transaction, sql: str, params: Any) -> int:
    return txn.value(sql, params) or 0
