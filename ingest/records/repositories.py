"""Repositories under every name that records use for them, and their owners.

A record's author owns the key that it names only if nobody claimed that key before: `repoDid` is a claim that anyone
can write, so a later record by somebody else stays a repository of its own under its at-uri. Being first proves nothing
either: the operator's word on the owner outranks every claim.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from ingest.atproto import syntax
from ingest.records.fields import AT_URI, DID, Event, Unreadable, identifier, written_at
from ingest.records.registry import REGISTRY, REPOSITORY
from ingest.records.shapes import PullRecord, RepositoryRecord
from ingest.store.archive import read_log
from ingest.store.long_texts import TextLost
from ingest.store.transaction import Rows, Transaction

KNOWN_ALIASES = """
select alias, repository_id from repository_aliases semi join (
  select repository_id from repository_aliases where alias in (select unnest(?))
) using (repository_id)
"""
# Settings of an operator or a maintainer move with a repository; if two are joined, those of the remaining one win.
FILED = ("watched_repositories", "maintainers", "repository_settings", "seed_choices")
JOINS = "(select unnest(?) as gone, unnest(?) as kept)"
# The newest derived event of each record, by rev as in ingest/records/order.py, unless it deleted the record.
STANDING = """
with derived as (
  select n.uri, e.event_seq, e.operation,
    (case when regexp_full_match(e.rev, ?) then e.rev else '' end, e.event_seq) as version
  from {events} e
  join (select unnest(?) as uri, unnest(?) as did, unnest(?) as rkey) n on (e.did, e.rkey) = (n.did, n.rkey)
  where e.collection = ? and e.event_seq <= (select position_seq from hops where name = 'derive')
)
select uri, arg_max(event_seq, version) as seq from derived
group by uri having arg_max(operation, version) <> 'delete'
"""
LOGGED = """
select event_seq as seq, event_id, source, kind, did, collection, rkey, operation, rev, cid, seen_at, late, body
from {events} where event_seq = ?
"""
Standing = tuple[Event, RepositoryRecord]


def names_in(records: Iterable[tuple[Event, object]]) -> list[str]:
    """Return every name of a repository that these records use; a deleted record is None."""
    names: dict[str, None] = {}
    for event, record in records:
        if isinstance(record, PullRecord):
            names[record.target] = None
        elif event.collection == REPOSITORY:
            names[event.uri] = None
        if isinstance(record, RepositoryRecord) and record.repo_did:
            names[record.repo_did] = None
    return list(names)


def standing_records(rows: Rows, uris: Iterable[str]) -> Mapping[str, int]:
    """Return the at-uris with a present repository record, each with the event that wrote it."""
    uri_parts = [uri_parts for uri in uris if (uri_parts := AT_URI.fullmatch(uri)) and uri_parts[2] == REPOSITORY]
    if not uri_parts:
        return {}
    name_columns = [[parts_of_uri[place] for parts_of_uri in uri_parts] for place in (0, 1, 3)]
    return {
        row["uri"]: row["seq"] for row in read_log(rows, STANDING, [syntax.PATTERN.pattern, *name_columns, REPOSITORY])
    }


def logged_record(txn: Transaction, seq: int | None) -> Standing | None:
    """Return the repository record that this event wrote, or None if there is no readable one."""
    rows_found = read_log(txn, LOGGED, [seq], "? between first_seq and last_seq", [seq])
    if not rows_found:
        return None
    try:
        if body := rows_found[0]["body"]:
            rows_found[0]["body"] = txn.long_texts.read(body)
        event = Event(**rows_found[0])
        record = REGISTRY.read(event)
    except (Unreadable, TextLost):
        return None
    return (event, record) if isinstance(record, RepositoryRecord) else None


class Repositories:
    """The repositories that one batch names; anybody can make more of them, so the others stay in the table."""

    def __init__(self, txn: Transaction, names: Sequence[str]) -> None:
        self.txn = txn
        self.aliases: dict[str, int] = {row["alias"]: row["repository_id"] for row in txn.rows(KNOWN_ALIASES, [names])}
        sql = "select * from repositories where repository_id in (select unnest(?))"
        known_numbers = list(set(self.aliases.values()))
        self.rows: dict[int, dict[str, Any]] = {row["repository_id"]: row for row in txn.rows(sql, [known_numbers])}
        unknown = sum(name not in self.aliases for name in names)
        self._free = [
            row["n"] for row in txn.rows("select nextval('repository_numbers') as n from range(?)", [unknown])
        ]
        self._stored = frozenset(self.rows)
        self._joined: dict[int, int] = {}
        self._touched: set[int] = set()
        self._new_aliases: dict[str, int] = {}
        self._names: dict[int, set[str]] = {number: set() for number in self.rows}
        for alias, number in self.aliases.items():
            self._names[number].add(alias)
        self._records: dict[str, Standing | None] = {}  # records that this batch wrote or deleted, or read from the log

    def find(self, name: str, seen_at: datetime) -> int:
        """Return the number of the repository with this DID or at-uri; a new one gets its number now."""
        if name in self.aliases:
            return self.aliases[name]
        number = self._free.pop()
        self.rows[number] = _unowned_row(name, number, seen_at)
        self._set_alias(name, number)
        return number

    def current(self, number: int) -> int:
        """Return the present number of a repository, in case it was joined with another one."""
        while number in self._joined:
            number = self._joined[number]
        return number

    def put(self, event: Event, record: RepositoryRecord, owner_id: int) -> None:
        """Take a repository record: its author becomes the owner unless somebody claimed the DID before."""
        self._records[event.uri] = (event, record)
        self._describe(self._claim_number(event, record.repo_did, owner_id), event, record, owner_id)

    def _describe(self, number: int, event: Event, record: RepositoryRecord, owner_id: int) -> None:
        row = self.rows[number]
        row |= {
            "owner_id": owner_id,
            "rkey": event.rkey,
            "name": record.name or event.rkey,
            "knot": record.knot,
            "spindle": record.spindle,
            "upstream": record.upstream,
            "written_at": row["written_at"] or written_at(event, None),
            "seen_at": row["seen_at"] or event.seen_at,
            "deleted_at": None,
        }
        self._touched.add(number)

    def _claim_number(self, event: Event, did: str | None, owner_id: int) -> int:
        """Return the number of the repository that this record describes."""
        number = self.find(event.uri, event.seen_at)
        claimed = self.aliases.get(did) if did else number
        if did is None or claimed == number:
            return number
        if claimed is not None and self.rows[claimed]["owner_id"] not in (None, owner_id):
            return number
        if identifier(DID, self.rows[number]["repo_key"]):
            return self._reuse_key(event, number, did)
        if claimed is None:
            self.rows[number]["repo_key"] = did
            self._set_alias(did, number)
            return number
        del self.rows[number]
        self._touched.discard(number)
        self._joined[number] = claimed
        for alias in list(self._names[number]):
            self._set_alias(alias, claimed)
        return claimed

    def _reuse_key(self, event: Event, old_number: int, did: str) -> int:
        """Let a key that named one repository name another from now on: they are two repositories, never one."""
        self._detach(event, old_number)
        number = self.find(did, event.seen_at)
        self._set_alias(event.uri, number)
        return number

    def _detach(self, event: Event, number: int) -> None:
        """Stop describing this repository by a record: another record of it takes over, else it is deleted."""
        row = self.rows[number]
        if row["rkey"] != event.rkey and row["deleted_at"] is None:
            return
        self._touched.add(number)
        other = min((name for name in self._names[number] - {event.uri} if self._is_present(name)), default=None)
        if other is None:
            row["deleted_at"] = event.seen_at
        elif record := self._find_record(other):
            self._describe(number, *record, row["owner_id"])

    def _is_present(self, uri: str) -> bool:
        return self._records[uri] is not None if uri in self._records else uri in self._logged

    @cached_property
    def _logged(self) -> Mapping[str, int]:
        """Query once a batch: anybody can move their records by the thousand."""
        return standing_records(self.txn, self.aliases)

    def _find_record(self, uri: str) -> Standing | None:
        if uri not in self._records:
            self._records[uri] = logged_record(self.txn, self._logged.get(uri))
        return self._records[uri]

    def outrank(self, event: Event, record: RepositoryRecord, owner_id: int) -> None:
        """Give the DID in this record to the record's author, whoever claimed it before; other names stay.

        Only for an owner named by the operator: a record alone proves nothing.
        """
        claimed = self.aliases.get(record.repo_did or "")
        if claimed is None or self.rows[claimed]["owner_id"] in (None, owner_id):
            return
        rivals = sorted(name for name in self._names[claimed] if identifier(AT_URI, name))
        self.rows[claimed] |= {"owner_id": None, "written_at": None}
        self.txn.execute("delete from push_holders where repository_id = ?", [claimed])
        key = self.rows[claimed]["repo_key"]
        self.txn.execute("delete from fetches where kind = 'push_holders' and subject = ?", [key])
        self.put(event, record, owner_id)
        for uri in rivals:
            self._split_off(uri)

    def _split_off(self, uri: str) -> None:
        """Make a separate repository of a record whose claim was outranked."""
        record_found = self._find_record(uri)
        number = self.txn.value("select nextval('repository_numbers')")
        self.rows[number] = _unowned_row(uri, number, None)
        self._set_alias(uri, number)
        if record_found:
            event, record = record_found
            self.put(event, record, self.txn.person_ids([event.did])[event.did])

    def _set_alias(self, alias: str, number: int) -> None:
        if alias in self.aliases:
            self._names[self.aliases[alias]].discard(alias)
        self._names.setdefault(number, set()).add(alias)
        self.aliases[alias] = self._new_aliases[alias] = number
        self._touched.add(number)

    def delete(self, event: Event, owner_id: int) -> None:
        self._records[event.uri] = None
        number = self.aliases.get(event.uri)
        if number is not None and self.rows[number]["owner_id"] == owner_id:
            self._detach(event, number)

    def write(self) -> None:
        """Write the touched repositories and the new names, and move rows that were filed under a removed number."""
        replaced = sorted(self._stored & (self._touched | self._joined.keys()))
        self.txn.execute("delete from repositories where repository_id in (select unnest(?))", [replaced])
        self.txn.append("repositories", [self.rows[number] for number in sorted(self._touched)])
        rows = [{"alias": alias, "repository_id": number} for alias, number in self._new_aliases.items()]
        self.txn.upsert("repository_aliases", rows)
        self._move_filed_rows()

    def _move_filed_rows(self) -> None:
        removed = sorted(self._stored & self._joined.keys())
        if not removed:
            return
        joins = [removed, [self.current(number) for number in removed]]
        self.txn.execute(
            f"update pull_requests set repository_id = j.kept from {JOINS} j where repository_id = j.gone", joins
        )
        # Rights from records are found again under the remaining number.
        self.txn.execute(
            "delete from push_holders where learned_from <> 'knot' and repository_id in (select unnest(?))", [removed]
        )
        self.txn.execute(
            f"update push_holders set repository_id = j.kept from {JOINS} j where repository_id = j.gone", joins
        )
        for table in FILED:
            self.txn.execute(
                f"insert or ignore into {table} select t.* replace (j.kept as repository_id) "
                f"from {table} t join {JOINS} j on t.repository_id = j.gone",
                joins,
            )
            self.txn.execute(f"delete from {table} where repository_id in (select unnest(?))", [removed])


def _unowned_row(name: str, number: int, seen_at: datetime | None) -> dict[str, Any]:
    empty = dict.fromkeys(("owner_id", "rkey", "name", "knot", "spindle", "written_at", "deleted_at", "upstream"))
    return {"repo_key": name, "repository_id": number, "seen_at": seen_at} | empty
