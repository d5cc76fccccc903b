"""One person in the tables: found by reading the schema, so that none is forgotten, and taken out in one transaction.

A row that is the person's or refers to them (number, DID, one of their records, a key that names them) goes. In anybody
else's text a mention is replaced by a word. Two things outlive them without their name: what they settled as a
push-holder, since it is other people's record too, and the numbers of their repositories, where others' work lies.
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
        """A condition that holds for every row that may tell of the person, and its parameters."""
        found: list[tuple[str, object]] = []
        if number is not None:
            found += [(f'"{column}" = ?', number) for column in (*self.numbers, *self.optional_numbers)]
            found += [(f'list_contains("{column}", ?)', number) for column in self.number_lists]
        for needle in names.column_needles:
            found += [(f'contains(lower("{column}"), ?)', needle) for column in self.texts]
            found += [(f'contains(lower("{column}"::varchar), ?)', needle) for column in self.text_lists]
        return " or ".join(clause for clause, _ in found) or "false", [value for _, value in found]

    def named_in(self, row: Row, names: Names, number: int | None) -> bool:
        """Return whether a row that may tell of the person does."""
        numbers = {row[column] for column in (*self.numbers, *self.optional_numbers)}
        listed = (one for column in self.number_lists for one in row[column] or ())
        if number is not None and (number in numbers or number in listed):
            return True
        texts = [row[column] for column in self.texts] + [one for name in self.text_lists for one in row[name] or ()]
        return any(text and names.named_in(text) for text in texts)


def tables(rows: Rows) -> list[Table]:
    columns: dict[str, list[Row]] = {}
    for row in rows.rows(COLUMNS):
        columns.setdefault(row["table_name"], []).append(row)
    keys: dict[str, set[str]] = {}
    for row in rows.rows(KEYS):
        keys.setdefault(row["table_name"], set()).add(row["column_name"])
    return [_table(name, found, keys.get(name, set())) for name, found in columns.items() if name != "tombstones"]


def _table(name: str, columns: Sequence[Row], keys: set[str]) -> Table:
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
    """Return what a DID is called here and its number, None where it has none."""
    row = rows.row("select contributor_id, handle, handle_verified from contributors where did = ?", [did])
    if row is None:
        return Names(did), None
    handle = row["handle"] if row["handle_verified"] else None
    return Names(did, handle.lower() if handle else None), row["contributor_id"]


@dataclass(frozen=True, slots=True)
class LongText:
    """A long text that is read, each time anew, where `str` asks for it: of 10,000 of a megabyte one is in memory."""

    texts: LongTexts
    reference: str

    def __str__(self) -> str:
        return str(self.texts.shown(self.reference))


def whole_row(row: Row, texts: LongTexts) -> dict[str, Any]:
    """The row with its text, to be read when it is written out, in place of a reference."""
    body = row.get("body")
    return {**row, "body": LongText(texts, body)} if body and body.startswith(PREFIX) else dict(row)


def held_rows(rows: Rows, names: Names, number: int | None) -> Iterator[tuple[str, Sequence[Row]]]:
    """Table by table, every row that tells of a person, long texts as references; tables without one are left out."""
    for table in tables(rows):
        where, params = table.naming(names, number)
        found = rows.rows(f'select * from "{table.name}" where {where}', params)
        if told := [row for row in found if table.named_in(row, names, number)]:
            yield table.name, told


# A server's name may equal somebody's handle; it tells where a repository lies, not who somebody is.
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
  repo_key = case when contains(repo_key, $did) then 'erased:' || repository_id else repo_key end
where owner_id is not distinct from $number and owner_id is not null or starts_with(repo_key, 'at://' || $did || '/')
"""

# What the mirror of a repository told that was theirs; what others landed there stands in `landings`.
OF_MIRRORS = [
    f"delete from {table} where repository_id in (select repository_id from repositories where owner_id = $number)"
    for table in ("mirrors", "commits", "branch_commits")
] + ["delete from ref_updates where repository in (select repo_key from repositories where owner_id = $number)"]


def erase_letters(txn: Transaction, names: Names) -> None:
    """Take out the dead letters of their events, whose texts need not name them; known only while the log has these."""
    theirs = f"from {events_at_hand(txn)} where did = $did or rkey = $did"
    txn.execute(f"delete from dead_letters where event_id in (select event_id {theirs})", {"did": names.did})
    txn.execute(f"delete from unread_events where event_seq in (select event_seq {theirs})", {"did": names.did})


def erase_rows(txn: Transaction, names: Names, number: int | None, now: datetime) -> int:
    """Take the person out of every table; returns how many rows went or were changed."""
    if number is not None:
        for statement in (*ANONYMOUS, *OF_MIRRORS):
            txn.execute(statement, _named(statement, names, number, now))
    txn.execute(BARE, _named(BARE, names, number, now))
    erase_letters(txn, names)
    return sum(_erase_from(txn, table, names, number) for table in tables(txn))


def _named(statement: str, names: Names, number: int | None, now: datetime) -> dict[str, object]:
    values = {"did": names.did, "number": number, "now": now}
    return {name: value for name, value in values.items() if f"${name}" in statement}


def _erase_from(txn: Transaction, table: Table, names: Names, number: int | None) -> int:
    changed = _delete_own(txn, table, names, number)
    if number is not None:
        for column in table.optional_numbers:
            changed += _count(txn, f'update "{table.name}" set "{column}" = null where "{column}" = ?', [number])
        for column in table.number_lists:
            sql = f'update "{table.name}" set "{column}" = [] where list_contains("{column}", ?)'
            changed += _count(txn, sql, [number])
    return changed + _strike(txn, table, names)


def _delete_own(txn: Transaction, table: Table, names: Names, number: int | None) -> int:
    clauses = [f'"{column}" = $number' for column in table.numbers] if number is not None else []
    clauses += [f"\"{name}\" = $did or starts_with(\"{name}\", 'at://' || $did || '/')" for name in table.texts]
    if not clauses:
        return 0
    sql = f'delete from "{table.name}" where {" or ".join(clauses)}'
    values: dict[str, object] = {"did": names.did, "number": number}
    return _count(txn, sql, {name: value for name, value in values.items() if f"${name}" in sql})


def _strike(txn: Transaction, table: Table, names: Names) -> int:
    where, params = table.naming(names, None)
    columns = ", ".join(f'"{name}"' for name in (*table.texts, *table.text_lists))
    if not columns:
        return 0
    gone: list[int] = []
    changes: dict[str, list[tuple[int, Any]]] = {}
    for row in txn.rows(f'select rowid as row_number, {columns} from "{table.name}" where {where}', params):
        place = row.pop("row_number")
        struck = {name: struck_value(table, name, value, names) for name, value in row.items()}
        if any(value is GONE for value in struck.values()):
            gone.append(place)
            continue
        for name, value in struck.items():
            if value != row[name]:
                changes.setdefault(name, []).append((place, value))
    return _write(txn, table, gone, changes)


def _write(txn: Transaction, table: Table, gone: Sequence[int], changes: dict[str, list[tuple[int, Any]]]) -> int:
    """Updates first: a deleted row may move the numbers of others."""
    changed = {place for found in changes.values() for place, _ in found}
    for name, found in changes.items():
        txn.execute(
            f'update "{table.name}" set "{name}" = n.value from (select unnest(?) as place, unnest(?) as value) n '
            f'where n.place = "{table.name}".rowid',
            [[place for place, _ in found], [value for _, value in found]],
        )
    if gone:
        txn.execute(f'delete from "{table.name}" where rowid in (select unnest(?))', [list(gone)])
    return len(changed) + len(gone)


def struck_value(table: Table, column: str, value: Any, names: Names) -> Any:
    """Return what stays of a value that may name the person: itself, its rest, None, or GONE for the whole row."""
    if isinstance(value, list):
        return [one for one in value if not names.named_in(one)]
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


def _count(txn: Transaction, sql: str, params: Any) -> int:
    return txn.value(sql, params) or 0
