"""From staged pages to the event log: rows first, then the word that the account is done.

A kill between the two repeats the account, and what was logged is not logged twice.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from ingest.atproto.syntax import tid_time
from ingest.backfill.account import Account, Entry, Staging, read_page, usable
from ingest.backfill.runs import CHUNK, Run, account_row, write_accounts
from ingest.clock import from_microseconds
from ingest.files import require_room
from ingest.records.fields import moment
from ingest.store.archive import read_log
from ingest.store.database import Store
from ingest.store.transaction import Rows
from ingest.stream.frames import EARLIEST_US
from ingest.stream.load import Listed, load_listing

CHUNK_BYTES = 32_000_000
FLUSH_SECONDS = 1.0
EARLIEST = from_microseconds(EARLIEST_US)
# The newest event of each record of these accounts; by rev, since what was listed may be older than what came live.
LOGGED = """
select did, collection, rkey, max(seen_at) as seen_at, min(seen_at) as first_seen_at,
  arg_max({'operation': operation, 'rev': rev}, {'rev': coalesce(rev, ''), 'seq': event_seq}) as newest
from {events} where kind = 'commit' and did in (select unnest(?)) group by did, collection, rkey
"""
Key = tuple[str, str]  # collection, record key


@dataclass(slots=True)
class _Logged:
    """The events that the log has of one account."""

    first_seen_at: datetime
    records: dict[Key, Mapping[str, Any]] = field(default_factory=dict)


class Book:
    """Takes accounts whose listing has ended and commits them a few at a time; `on_commit` is called after each."""

    def __init__(self, store: Store, run: Run, staging: Staging) -> None:
        self._store, self._run, self._staging = store, run, staging
        self._accounts: list[Account] = []
        self._rows: dict[str, dict[str, Any]] = {}
        self._began = time.monotonic()

    def take(self, account: Account) -> None:
        """Note how an account stands now."""
        if not self._rows:
            self._began = time.monotonic()
        self._rows[account.did] = account_row(self._run, account)
        if account.state == "done":
            self._accounts.append(account)
        elif account.state != "waiting":
            self._staging.drop(account.pages)

    @property
    def is_due(self) -> bool:
        """Return whether enough came together, or the oldest has waited for a second."""
        if not self._rows:
            return False
        rows = sum(account.records for account in self._accounts)
        return rows >= CHUNK or time.monotonic() - self._began > FLUSH_SECONDS

    def flush(self) -> int:
        """Commit everything taken; returns how many events are new."""
        new = log_accounts(self._store, self._accounts, self._run.witnessed_until)
        with self._store.write() as txn:
            write_accounts(txn, list(self._rows.values()))
        for account in self._accounts:
            self._staging.drop(account.pages)
        self._accounts.clear()
        self._rows.clear()
        return new


def log_accounts(store: Store, accounts: Sequence[Account], witnessed_until: datetime | None = None) -> int:
    """Log what these listings say; returns how many events are new. StoreProblem, duckdb.Error."""
    new = 0
    for chunk in _chunks(store, accounts, witnessed_until):
        require_room(store.path)
        new += load_listing(store, chunk)
    return new


def _chunks(store: Store, accounts: Sequence[Account], witnessed_until: datetime | None) -> Iterator[list[Listed]]:
    """The rows of all accounts in transactions of bounded size, oldest first in each."""
    with store.read() as rows:
        logged = _logged(rows, [account.did for account in accounts])
    chunk: list[Listed] = []
    size = 0
    for account in accounts:
        for one in listed_rows(account, logged.get(account.did), witnessed_until):
            if len(chunk) >= CHUNK or size + len(one.body) > CHUNK_BYTES:
                yield sorted(chunk, key=lambda row: row.seen_at)
                chunk, size = [], 0
            chunk.append(one)
            size += len(one.body)
    if chunk:
        yield sorted(chunk, key=lambda row: row.seen_at)


def listed_rows(account: Account, logged: _Logged | None, witnessed_until: datetime | None) -> Iterator[Listed]:
    """Yield what the listing of one account comes to: its records, and the deletes of those that are there no more."""
    known = logged.records if logged else {}
    floor = (account.identity.created_at if account.identity else None) or EARLIEST
    if logged and witnessed_until and logged.first_seen_at <= witnessed_until:
        floor = max(floor, witnessed_until)
    listed_at = account.listed_at or EARLIEST
    for page in account.pages:
        for rkey, entry in usable(account.did, page.collection, read_page(page.path.read_bytes())):
            body = bytes(entry.value)
            before = known.get((page.collection, rkey))
            seen_at = max(told_time(rkey, entry) or listed_at, floor, before["seen_at"] if before else floor)
            seen_at = min(seen_at, listed_at)
            yield Listed(account.did, page.collection, rkey, "create", entry.cid, account.rev, seen_at, body)
    for (collection, rkey), before in known.items():
        if _was_deleted(account, collection, rkey, before["newest"]):
            yield Listed(account.did, collection, rkey, "delete", None, account.rev, listed_at, b"")


def _was_deleted(account: Account, collection: str, rkey: str, newest: Mapping[str, Any]) -> bool:
    """Return whether a record that stands in the log is missing from a whole listing that is no older than it."""
    stands = newest["operation"] != "delete" and (newest["rev"] or "") <= account.rev
    return stands and collection in account.complete and hash(rkey) not in account.keys[collection]


def told_time(rkey: str, entry: Entry) -> datetime | None:
    """Return when a record says it was written: its TID, else its createdAt; None where it says nothing."""
    if told := tid_time(rkey):
        return told
    try:
        value = msgspec.json.decode(entry.value)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return moment(value, "createdAt") if isinstance(value, dict) else None


def _logged(rows: Rows, dids: Sequence[str]) -> dict[str, _Logged]:
    found: dict[str, _Logged] = {}
    for row in read_log(rows, LOGGED, [list(dids)]) if dids else ():
        one = found.setdefault(row["did"], _Logged(row["first_seen_at"]))
        one.first_seen_at = min(one.first_seen_at, row["first_seen_at"])
        one.records[row["collection"], row["rkey"]] = row
    return found
