"""Finds what is held about one person in any table, by reading the schema, so that none is forgotten."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingest.store.long_texts import PREFIX, LongTexts
from ingest.store.tombstones import PEOPLE, Names
from ingest.store.transaction import Rows

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
    """The columns of a table that can tell of a person."""

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
    """Every table of the store, or of the snapshot in use."""
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
