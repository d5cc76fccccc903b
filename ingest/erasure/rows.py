"""Taking one person out of every table, in one transaction: the rules, read from the schema.

A row that is the person's or refers to them (number, DID, one of their records, a key that names them) goes. In anybody
else's text a mention is replaced by a word. Two things outlive them without their name: what they settled as a
push-holder, since it is other people's record too, and the numbers of their repositories, where others' work lies.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ingest.erasure.find import Table, tables
from ingest.store.archive import events_at_hand
from ingest.store.tombstones import NOBODY, Names
from ingest.store.transaction import Transaction

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
    """Rows that carry the number, the DID or one of the person's records."""
    clauses = [f'"{column}" = $number' for column in table.numbers] if number is not None else []
    clauses += [f"\"{name}\" = $did or starts_with(\"{name}\", 'at://' || $did || '/')" for name in table.texts]
    if not clauses:
        return 0
    sql = f'delete from "{table.name}" where {" or ".join(clauses)}'
    values: dict[str, object] = {"did": names.did, "number": number}
    return _count(txn, sql, {name: value for name, value in values.items() if f"${name}" in sql})


def _strike(txn: Transaction, table: Table, names: Names) -> int:
    """Whatever names the person still: by text, row by row, since few are left."""
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
