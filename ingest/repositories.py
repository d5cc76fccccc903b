"""Repositories by every name that records use for them, and who owns them.

A record's author owns the key that it names only if nobody claimed that key before: `repoDid` is a claim that anyone
can write, so a later record by somebody else stays a repository of its own under its at-uri.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ingest.records import DID, REPOSITORY, Event, PullRecord, RepositoryRecord, identifier, written_at
from ingest.store import Transaction

KNOWN_ALIASES = """
select alias, repository_id from repository_aliases semi join (
  select repository_id from repository_aliases where alias in (select unnest(?))
) using (repository_id)
"""
JOINS = "(select unnest(?) as gone, unnest(?) as kept)"


def names_in(records: Iterable[tuple[Event, object]]) -> list[str]:
    """Every name of a repository that these records use; a deleted record is None."""
    names: dict[str, None] = {}
    for event, record in records:
        if isinstance(record, PullRecord):
            names[record.target] = None
        elif event.collection == REPOSITORY:
            names[event.uri] = None
        if isinstance(record, RepositoryRecord) and record.repo_did:
            names[record.repo_did] = None
    return list(names)


class Repositories:
    """The repositories that one batch names; anybody can make more of them, so the others stay in the table."""

    def __init__(self, txn: Transaction, names: Sequence[str]) -> None:
        self.txn = txn
        self.aliases: dict[str, int] = {row["alias"]: row["repository_id"] for row in txn.rows(KNOWN_ALIASES, [names])}
        sql = "select * from repositories where repository_id in (select unnest(?))"
        known = list(set(self.aliases.values()))
        self.rows: dict[int, dict[str, Any]] = {row["repository_id"]: row for row in txn.rows(sql, [known])}
        unknown = sum(name not in self.aliases for name in names)
        self._free = [
            row["n"] for row in txn.rows("select nextval('repository_numbers') as n from range(?)", [unknown])
        ]
        self._stored = frozenset(self.rows)
        self._joined: dict[int, int] = {}
        self._touched: set[int] = set()
        self._new_aliases: dict[str, int] = {}

    def find(self, name: str, seen_at: datetime) -> int:
        """The number of the repository with this DID or at-uri, given now where it is new."""
        if name in self.aliases:
            return self.aliases[name]
        number = self._free.pop()
        self.rows[number] = _unowned(name, number, seen_at)
        self._name(name, number)
        return number

    def current(self, number: int) -> int:
        """The number under which a repository is kept now, in case it turned out to be another one."""
        while number in self._joined:
            number = self._joined[number]
        return number

    def put(self, event: Event, record: RepositoryRecord, owner_id: int) -> None:
        """Take a repository record: its author becomes the owner unless somebody claimed the DID before."""
        number = self._claim(event, record.repo_did, owner_id)
        row = self.rows[number]
        row |= {
            "owner_id": owner_id,
            "rkey": event.rkey,
            "name": record.name or event.rkey,
            "knot": record.knot,
            "spindle": record.spindle,
            "written_at": row["written_at"] or written_at(event, None),
            "seen_at": row["seen_at"] or event.seen_at,
            "deleted_at": None,
        }
        self._touched.add(number)

    def _claim(self, event: Event, did: str | None, owner_id: int) -> int:
        """The number of the repository that this record describes."""
        number = self.find(event.uri, event.seen_at)
        claimed = self.aliases.get(did) if did else number
        if did is None or claimed == number:
            return number
        if claimed is not None and self.rows[claimed]["owner_id"] not in (None, owner_id):
            return number
        if identifier(DID, self.rows[number]["repo_key"]):
            return self._reuse(event, number, did)
        if claimed is None:
            self.rows[number]["repo_key"] = did
            self._name(did, number)
            return number
        self._join(number, claimed)
        return claimed

    def _reuse(self, event: Event, before: int, did: str) -> int:
        """A key that stood for one repository stands for another from now on: two repositories, never one."""
        self.rows[before]["deleted_at"] = event.seen_at
        self._touched.add(before)
        number = self.find(did, event.seen_at)
        self._name(event.uri, number)
        return number

    def _name(self, alias: str, number: int) -> None:
        self.aliases[alias] = self._new_aliases[alias] = number
        self._touched.add(number)

    def _join(self, gone: int, kept: int) -> None:
        """Two names turned out to be one repository: what was filed under the at-uri moves to the DID."""
        del self.rows[gone]
        self._touched.discard(gone)
        self._joined[gone] = kept
        for alias in [name for name, number in self.aliases.items() if number == gone]:
            self._name(alias, kept)

    def delete(self, event: Event, owner_id: int) -> None:
        """Note that the owner deleted the record."""
        number = self.aliases.get(event.uri)
        if number is not None and self.rows[number]["owner_id"] == owner_id:
            self.rows[number]["deleted_at"] = event.seen_at
            self._touched.add(number)

    def write(self) -> None:
        """Write the touched repositories and the new names, and move what was filed under a name that is gone."""
        replaced = sorted(self._stored & (self._touched | self._joined.keys()))
        self.txn.execute("delete from repositories where repository_id in (select unnest(?))", [replaced])
        self.txn.append("repositories", [self.rows[number] for number in sorted(self._touched)])
        rows = [{"alias": alias, "repository_id": number} for alias, number in self._new_aliases.items()]
        self.txn.upsert("repository_aliases", rows)
        self._move()

    def _move(self) -> None:
        gone = sorted(self._stored & self._joined.keys())
        if not gone:
            return
        joins = [gone, [self.current(number) for number in gone]]
        self.txn.execute(
            f"update pull_requests set repository_id = j.kept from {JOINS} j where repository_id = j.gone", joins
        )
        for table in ("watched_repositories", "maintainers", "push_holders"):
            self.txn.execute(
                f"insert or ignore into {table} select t.* replace (j.kept as repository_id) "
                f"from {table} t join {JOINS} j on t.repository_id = j.gone",
                joins,
            )
            self.txn.execute(f"delete from {table} where repository_id in (select unnest(?))", [gone])


def _unowned(name: str, number: int, seen_at: datetime) -> dict[str, Any]:
    empty = dict.fromkeys(("owner_id", "rkey", "name", "knot", "spindle", "written_at", "deleted_at"))
    return {"repo_key": name, "repository_id": number, "seen_at": seen_at} | empty
