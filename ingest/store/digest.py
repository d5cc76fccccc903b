"""Compare two stores table by table: by meaning (`digest`) or row by row (`table_sums`).

By meaning: people by DID; wall-clock times, durations and serial numbers do not count.

`scores` and `audit_draws` are left out: the cut of the stream into batches decides which intermediate judgements were
made; the current ones (`current_scores`, `current_decisions`) are compared entirely. `hops` and `fetches` are left out
too, because they only count work.

Row by row: a count and an order-free sum of DuckDB's own hashes, which compare only within one version of it. This
takes .3 s for a million rows, and no row comes into Python.
"""

import hashlib
from datetime import datetime

import duckdb
import msgspec

from ingest.atproto.syntax import IS_TID
from ingest.store.archive import all_events
from ingest.store.tombstones import NOBODY, PEOPLE
from ingest.store.transaction import Rows

LEFT_OUT = frozenset({"scores", "audit_draws", "hops", "fetches", "event_segments", "mirrors"})
# Rows of the table and of files, without the bodies of replaced records, which go after a month
# (ingest/store/archive.py).
EVENTS = f"""
select * replace (case when kind <> 'commit' or row_number() over (
  partition by did, collection, rkey order by case when {IS_TID} then rev else '' end desc, event_seq desc
) = 1 then body end as body) from {{events}}
"""
DIGITS = 9  # sums of floats differ in the last places with the order of the terms


def digest(rows: Rows) -> dict[str, str]:
    people = dict(rows.cursor.execute("select contributor_id, did from contributors").fetchall())
    repositories = dict(rows.cursor.execute("select repository_id, repo_key from repositories").fetchall())
    sql = "select table_name from duckdb_tables() where database_name = current_database()"
    tables = sorted(row["table_name"] for row in rows.rows(sql))
    return {table: _hash_table(rows, table, people, repositories) for table in tables if table not in LEFT_OUT}


def _hash_table(rows: Rows, table: str, people: dict[int, str], repositories: dict[int, str]) -> str:
    cursor = rows.cursor.execute(EVENTS.replace("{events}", all_events(rows)) if table == "events" else f"from {table}")
    names = [column[0] for column in cursor.description or ()]
    compared_columns = [(place, name) for place, name in enumerate(names) if _is_compared(table, name)]
    lines = sorted(
        "\x1f".join(_comparable_text(name, row[place], people, repositories) for place, name in compared_columns)
        for row in cursor.fetchall()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _is_compared(table: str, column: str) -> bool:
    if table == "contributors" and column == "contributor_id":
        return False
    if table == "repositories" and column == "repository_id":
        return False
    if column == "archived_rev":  # it depends only on where rows lie
        return False
    return not column.endswith(("_clock", "_seq"))


def _comparable_text(name: str, value: object, people: dict[int, str], repositories: dict[int, str]) -> str:
    if name in PEOPLE and isinstance(value, int):
        return people[value] if value > NOBODY else "nobody"
    if name == "path" and isinstance(value, list):
        return ">".join(people[person] for person in value)
    if name == "repository_id" and isinstance(value, int):
        return repositories.get(value, "gone") if value else "site"
    if isinstance(value, float):
        return f"{value:.{DIGITS}f}"
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value)


class Sum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of rows of one table, and the sum of their 64-bit hashes in decimal."""

    rows: int
    hashes: str


def table_sums(cursor: duckdb.DuckDBPyConnection, database: str = "") -> dict[str, Sum]:
    """Return the sum of every table of an attached database ("": the current one), by name. Raises duckdb.Error."""
    tables = cursor.execute(
        "select database_name, schema_name, table_name from duckdb_tables() "
        "where database_name = coalesce(nullif(?, ''), current_database()) order by table_name",
        [database],
    ).fetchall()
    sums = {}
    for place in tables:
        name = ".".join(f'"{part.replace(chr(34), 2 * chr(34))}"' for part in place)
        rows, hashes = cursor.execute(f"select count(*), coalesce(sum(hash(one)), 0) from {name} as one").fetchall()[0]
        sums[place[2]] = Sum(rows, str(hashes))
    return sums


def differing(sums: dict[str, Sum], other_sums: dict[str, Sum]) -> list[str]:
    """Return the names of the tables that differ."""
    return [name for name in sorted(sums.keys() | other_sums.keys()) if sums.get(name) != other_sums.get(name)]
