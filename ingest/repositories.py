"""Repositories by every name that records use for them, and who owns them.

A record's author owns the key that it names only if nobody claimed that key before: `repoDid` is a claim that anyone can
write, so a later record by somebody else stays a repository of its own under its at-uri.
"""

from datetime import datetime
from typing import Any

from ingest.records import Event, RepositoryRecord, written_at
from ingest.store import Transaction


class Repositories:
    """The repositories table while one batch is worked off; there are few, so all are held."""

    def __init__(self, txn: Transaction) -> None:
        self.txn = txn
        self.rows: dict[int, dict[str, Any]] = {
            row["repository_id"]: row for row in txn.rows("select * from repositories")
        }
        self.aliases: dict[str, int] = {
            row["alias"]: row["repository_id"] for row in txn.rows("select * from repository_aliases")
        }
        self.joined: dict[int, int] = {}
        self._touched: set[int] = set()
        self._new_aliases: dict[str, int] = {}

    def find(self, name: str, seen_at: datetime) -> int:
        """The number of the repository with this DID or at-uri, given now where it is new."""
        if name in self.aliases:
            return self.aliases[name]
        number = self.txn.value("select nextval('repository_numbers')")
        self.rows[number] = _unowned(name, number, seen_at)
        self._name(name, number)
        return number

    def put(self, event: Event, record: RepositoryRecord, owner_id: int) -> None:
        """Take a repository record: its author becomes the owner unless somebody claimed the DID before."""
        number = self._claim(event, record, owner_id)
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

    def _claim(self, event: Event, record: RepositoryRecord, owner_id: int) -> int:
        at_uri = self.find(event.uri, event.seen_at)
        if record.repo_did is None:
            return at_uri
        by_did = self.aliases.get(record.repo_did)
        if by_did is None:
            self._name(record.repo_did, at_uri)
            self._rename(at_uri, record.repo_did)
            return at_uri
        if by_did == at_uri:
            return at_uri
        if self.rows[by_did]["owner_id"] not in (None, owner_id):
            return at_uri
        self._join(at_uri, by_did)
        return by_did

    def _name(self, alias: str, number: int) -> None:
        self.aliases[alias] = self._new_aliases[alias] = number
        self._touched.add(number)

    def _rename(self, number: int, repo_key: str) -> None:
        self.txn.execute("delete from repositories where repository_id = ?", [number])
        self.rows[number]["repo_key"] = repo_key
        self._touched.add(number)

    def _join(self, gone: int, kept: int) -> None:
        """Two names turned out to be one repository: what was filed under the at-uri moves to the DID."""
        for table in ("pull_requests", "watched_repositories", "maintainers", "push_holders"):
            self.txn.execute(f"update {table} set repository_id = ? where repository_id = ?", [kept, gone])
        self.txn.execute("delete from repositories where repository_id = ?", [gone])
        del self.rows[gone]
        self._touched.discard(gone)
        self.joined[gone] = kept
        for alias in [name for name, number in self.aliases.items() if number == gone]:
            self._name(alias, kept)

    def delete(self, event: Event, owner_id: int) -> None:
        """Note that the owner deleted the record."""
        number = self.aliases.get(event.uri)
        if number is not None and self.rows[number]["owner_id"] == owner_id:
            self.rows[number]["deleted_at"] = event.seen_at
            self._touched.add(number)

    def write(self) -> None:
        """Write the touched repositories and the new names."""
        self.txn.upsert("repositories", [self.rows[number] for number in sorted(self._touched)])
        rows = [{"alias": alias, "repository_id": number} for alias, number in self._new_aliases.items()]
        self.txn.upsert("repository_aliases", rows)


def _unowned(name: str, number: int, seen_at: datetime) -> dict[str, Any]:
    empty = dict.fromkeys(("owner_id", "rkey", "name", "knot", "spindle", "written_at", "deleted_at"))
    return {"repo_key": name, "repository_id": number, "seen_at": seen_at} | empty
