"""Store the progress of backfills: one row a run and one an account, so that a killed run continues where it was.

It also sums up a backfill: in numbers while it runs, and at the end with the missing accounts and the reasons. Staged
pages go to the event log first, then the account is marked as done: a kill between the two repeats the account, and
events are not logged twice.
"""

import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ingest.atproto.syntax import tid_time
from ingest.backfill.account import Account, Entry, Staging, read_page, usable
from ingest.clock import from_microseconds
from ingest.files import require_room
from ingest.records.fields import moment
from ingest.records.pull_state import OPEN_GAP
from ingest.records.rows import UNPROVEN
from ingest.store.archive import read_log
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction
from ingest.stream.frames import EARLIEST_US
from ingest.stream.load import Listed, load_listing

CHUNK = 5_000  # rows a transaction: the live stream waits for the writer some 100 ms at most
ACCOUNTS_KEPT = timedelta(days=30)
# The DIDs with records in the log, even if no host names them.
KNOWN = "select distinct did from {events} where kind = 'commit' order by did"

FORMER_PEERS = """
select a.* from peer_assessments a join contributors c on c.contributor_id = a.author_id
where a.proof is not null and c.did not in (select unnest(?::varchar[]))
"""


@dataclass(frozen=True, slots=True)
class Run:
    run_id: str
    reason: str
    state: str
    collections: tuple[str, ...]
    is_whole: bool
    witnessed_until: datetime | None
    began_clock: datetime


def begin(
    store: Store,
    reason: str,
    dids: Sequence[str] = (),
    collections: Sequence[str] = (),
    witnessed_until: datetime | None = None,
    run_id: str | None = None,
) -> str:
    """Enter a run, of these accounts or of all that can be found; return its name. The next turn processes it.

    A run with a given name is entered only once.
    """
    run_id = run_id or uuid.uuid4().hex
    row = {
        "run_id": run_id,
        "reason": reason,
        "state": "listing" if dids else "finding",
        "collections": list(collections),
        "is_whole": not dids and not collections,
        "witnessed_until": witnessed_until,
        "notes": [],
        "began_clock": store.wall(),
        "ended_clock": None,
    }
    with store.write() as txn:
        txn.append_new("backfills", [row])
        txn.append_new("backfill_accounts", [_waiting_row(run_id, did) for did in dict.fromkeys(dids)])
    return run_id


def begin_first(store: Store, source: str) -> str | None:
    """Enter the first run of a store whose stream has no cursor yet; return None if there was one before."""
    with store.read() as rows:
        cursor = rows.value("select cursor_us from ingest_state where source = ?", [source])
        was_begun = rows.value("select count(*) from backfills where reason = 'first_start'")
    return None if cursor or was_begun else begin(store, "first_start")


def begin_peers(store: Store) -> None:
    """Enter a run for each new peer, and forget what accounts said that are not peers any more.

    How a former peer's word compared with audits stays: chosen again, it begins with that.
    """
    peers = store.tombstones.without(sorted(store.registry.peers))
    with store.write() as txn:
        former = txn.rows(FORMER_PEERS, [peers])
        if former:
            txn.upsert("peer_assessments", [{**row, **UNPROVEN} for row in former])
            txn.inputs_changed()
    for did in peers:
        begin(store, "peer", [did], [store.registry.assessments], run_id=f"peer {did}")


def next_run(store: Store, has_hosts: bool = True) -> Run | None:
    """Return the oldest run that is not done, or a new one for the gaps that no run has filled.

    Without hosts that list accounts, it covers the gaps that were found since the last such run began. A run that a
    maintainer waits for comes first. A run that still looks for accounts comes last: while no host answers, it would
    delay runs that were started by hand.
    """
    with store.read() as rows:
        row = rows.row(
            "select * from backfills where state <> 'done' "
            "order by state = 'finding', reason <> 'setup', began_clock, run_id limit 1"
        )
        gap_us = rows.value(OPEN_GAP, [has_hosts])
    if row is None and gap_us is not None:
        begin(store, "gap", witnessed_until=from_microseconds(gap_us))
        return next_run(store, has_hosts)
    if row is None:
        return None
    fields: dict[str, Any] = {name: row[name] for name in Run.__slots__}
    fields["collections"] = tuple(row["collections"])
    return Run(**fields)


def is_outrun(store: Store, run: Run) -> bool:
    """Return True if a maintainer's run waits while this is another one: then this one continues after it."""
    if run.reason == "setup":
        return False
    with store.read() as rows:
        return bool(rows.value("select exists (from backfills where state <> 'done' and reason = 'setup')"))


def look_anew(store: Store, run: Run) -> Run:
    """Return the run with a new start time, since it begins to look for accounts only now."""
    with store.write() as txn:
        now = store.wall()
        txn.execute("update backfills set began_clock = ? where run_id = ?", [now, run.run_id])
    return replace(run, began_clock=now)


def keep_accounts(store: Store, run: Run, dids: Sequence[str], notes: Sequence[str], has_hosts: bool = True) -> None:
    """Enter the accounts that were found and those in the log, and continue by listing them.

    Without hosts that list accounts the run is not whole: people who wrote only within a gap are missing. An erased
    person is only asked again once the stream has brought a new record of theirs: a host's list is not their own
    statement, and their DID would stay here.
    """
    with store.read() as rows:
        logged_dids = [row["did"] for row in read_log(rows, KNOWN)]
    all_dids = list(dict.fromkeys([*logged_dids, *store.tombstones.without(dids)]))
    for start in range(0, len(all_dids), CHUNK):
        with store.write() as txn:
            rows_to_add = [_waiting_row(run.run_id, did) for did in all_dids[start : start + CHUNK]]
            txn.append_new("backfill_accounts", rows_to_add)
    with store.write() as txn:
        sql = "update backfills set state = 'listing', notes = ?, is_whole = is_whole and ? where run_id = ?"
        txn.execute(sql, [[*notes][:20], has_hosts, run.run_id])


def add_accounts(store: Store, run: Run, dids: Sequence[str]) -> None:
    with store.write() as txn:
        txn.append_new("backfill_accounts", [_waiting_row(run.run_id, did) for did in dids])


def waiting(rows: Rows, run: Run) -> list[Account]:
    sql = "select did, attempts, due_clock from backfill_accounts where run_id = ? and state = 'waiting'"
    return [Account(row["did"], row["attempts"], row["due_clock"]) for row in rows.rows(sql, [run.run_id])]


def write_accounts(txn: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    txn.upsert("backfill_accounts", rows)


def account_row(run: Run, account: Account) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "did": account.did,
        "state": account.state,
        "reason": account.problem if account.state == "waiting" else account.reason,
        "records": account.records,
        "attempts": account.attempts,
        "due_clock": account.due_at if account.state == "waiting" else None,
    }


def end(store: Store, run: Run) -> None:
    """Mark the run as done; a whole run fills the gaps that were found before it began.

    The accounts of runs that ended a month ago are deleted: every gap adds one row for everybody.
    """
    with store.write() as txn:
        now = store.wall()
        txn.execute("update backfills set state = 'done', ended_clock = ? where run_id = ?", [now, run.run_id])
        if txn.value("select is_whole from backfills where run_id = ?", [run.run_id]):
            sql = "update gaps set filled_clock = ? where filled_clock is null and found_clock <= ?"
            txn.execute(sql, [now, run.began_clock])
        ended = "select run_id from backfills where ended_clock < ?"
        txn.execute(f"delete from backfill_accounts where run_id in ({ended})", [now - ACCOUNTS_KEPT])


def _waiting_row(run_id: str, did: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"reason": None, "records": 0, "attempts": 0, "due_clock": None}
    return {"run_id": run_id, "did": did, "state": "waiting", **empty}


EXAMPLES, REASONS = 5, 20
SPAN_SECONDS = 60.0
NOT_HAD = """
select state, reason, count(*) as accounts, list(did order by did)[:?] as examples
from backfill_accounts where run_id = ? and reason is not null and state <> 'waiting'
group by state, reason order by accounts desc, reason
"""
STATES = """
select state, count(*) as n, sum(records)::bigint as records from backfill_accounts where run_id = ? group by state
"""
LOGGED = """
select count(*) filter (operation <> 'delete') as logged, count(*) filter (operation = 'delete') as deletes
from {events} where source = 'backfill' and loaded_clock between ? and ?
"""


@dataclass(frozen=True, slots=True)
class Progress:
    state: str
    accounts: int
    ended: int
    records: int


def progress(rows: Rows, run_id: str) -> Progress | None:
    """Return the progress of a run, or None if there is no such run (yet)."""
    row = rows.row(
        "select b.state, count(a.did) as accounts, count(*) filter (a.state <> 'waiting') as ended, "
        "coalesce(sum(a.records), 0)::bigint as records "
        "from backfills b left join backfill_accounts a using (run_id) where run_id = ? group by b.state",
        [run_id],
    )
    return Progress(**row) if row else None


def summarize(rows: Rows, run_id: str) -> dict[str, Any]:
    """Return accounts, records and missing accounts: at most 20 reasons, with counts and up to 5 examples each."""
    run = rows.row("select * from backfills where run_id = ?", [run_id])
    if run is None:
        raise LookupError(f"there is no backfill {run_id}")
    states = {row["state"]: row for row in rows.rows(STATES, [run_id])}
    ended = run["ended_clock"] or rows.value("select max(loaded_clock) from events")
    (logged,) = read_log(rows, LOGGED, [run["began_clock"], ended])
    reasons = rows.rows(NOT_HAD, [EXAMPLES, run_id])
    other_accounts = sum(row["accounts"] for row in reasons[REASONS:])
    return {
        "run": run_id,
        "why": run["reason"],
        "state": run["state"],
        "accounts": sum(row["n"] for row in states.values()),
        **{state: states[state]["n"] if state in states else 0 for state in ("done", "absent", "failed", "waiting")},
        "records": sum(row["records"] for row in states.values()),
        **logged,
        "seconds": (run["ended_clock"] - run["began_clock"]).total_seconds() if run["ended_clock"] else None,
        "not_had": reasons[:REASONS]
        + ([{"reason": "other reasons", "accounts": other_accounts}] if other_accounts else []),
        "notes": run["notes"],
    }


@dataclass(slots=True)
class Estimate:
    """Estimate the remaining time from the rate of the last minute."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def left(self, moment: float, ended: int, accounts: int) -> float | None:
        """Return the seconds that remain when `ended` accounts are done at this time, or None while none ends."""
        self._seen.append((moment, ended))
        while len(self._seen) > 2 and self._seen[0][0] < moment - SPAN_SECONDS:
            self._seen.popleft()
        first_moment, first_ended = self._seen[0]
        if ended <= first_ended or moment <= first_moment:
            return None
        return (accounts - ended) * (moment - first_moment) / (ended - first_ended)


CHUNK_BYTES = 32_000_000
FLUSH_SECONDS = 1.0
EARLIEST = from_microseconds(EARLIEST_US)
# The newest event of each record of these accounts; by rev, since a listed one may be older than a live one.
NEWEST_LOGGED = """
select did, collection, rkey, max(seen_at) as seen_at, min(seen_at) as first_seen_at,
  arg_max({'operation': operation, 'rev': rev}, {'rev': coalesce(rev, ''), 'seq': event_seq}) as newest
from {events} where kind = 'commit' and did in (select unnest(?)) group by did, collection, rkey
"""
Key = tuple[str, str]  # collection, record key


@dataclass(slots=True)
class _Logged:
    first_seen_at: datetime
    records: dict[Key, Mapping[str, Any]] = field(default_factory=dict)


class Book:
    """Take accounts whose listing has ended and commit them a few at a time; call `on_commit` after each commit."""

    def __init__(self, store: Store, run: Run, staging: Staging) -> None:
        self._store, self._run, self._staging = store, run, staging
        self._accounts: list[Account] = []
        self._rows: dict[str, dict[str, Any]] = {}
        self._began = time.monotonic()

    def take(self, account: Account) -> None:
        if not self._rows:
            self._began = time.monotonic()
        self._rows[account.did] = account_row(self._run, account)
        if account.state == "done":
            self._accounts.append(account)
        elif account.state != "waiting":
            self._staging.drop(account.pages)

    @property
    def is_due(self) -> bool:
        """Return True if enough rows came together, or the oldest has waited for a second."""
        if not self._rows:
            return False
        rows = sum(account.records for account in self._accounts)
        return rows >= CHUNK or time.monotonic() - self._began > FLUSH_SECONDS

    def flush(self) -> int:
        """Commit everything taken; return how many events are new."""
        new_events = log_accounts(self._store, self._accounts, self._run.witnessed_until)
        with self._store.write() as txn:
            write_accounts(txn, list(self._rows.values()))
        for account in self._accounts:
            self._staging.drop(account.pages)
        self._accounts.clear()
        self._rows.clear()
        return new_events


def log_accounts(store: Store, accounts: Sequence[Account], witnessed_until: datetime | None = None) -> int:
    """Log these listings; return how many events are new. Raises StoreProblem, duckdb.Error."""
    new_events = 0
    for chunk in _split_rows(store, accounts, witnessed_until):
        require_room(store.path)
        new_events += load_listing(store, chunk)
    return new_events


def _split_rows(store: Store, accounts: Sequence[Account], witnessed_until: datetime | None) -> Iterator[list[Listed]]:
    """Yield the rows of all accounts in chunks of bounded size, oldest first in each."""
    with store.read() as rows:
        logged = _read_logged(rows, [account.did for account in accounts])
    chunk: list[Listed] = []
    size = 0
    for account in accounts:
        for listed in listed_rows(account, logged.get(account.did), witnessed_until):
            if len(chunk) >= CHUNK or size + len(listed.body) > CHUNK_BYTES:
                yield sorted(chunk, key=lambda row: row.seen_at)
                chunk, size = [], 0
            chunk.append(listed)
            size += len(listed.body)
    if chunk:
        yield sorted(chunk, key=lambda row: row.seen_at)


def listed_rows(account: Account, logged: _Logged | None, witnessed_until: datetime | None) -> Iterator[Listed]:
    """Yield the rows for the listing of one account: its records, and deletes of records that are gone."""
    logged_records = logged.records if logged else {}
    floor = (account.identity.created_at if account.identity else None) or EARLIEST
    if logged and witnessed_until and logged.first_seen_at <= witnessed_until:
        floor = max(floor, witnessed_until)
    listed_at = account.listed_at or EARLIEST
    for page in account.pages:
        for rkey, entry in usable(account.did, page.collection, read_page(page.path.read_bytes())):
            body = bytes(entry.value)
            logged_record = logged_records.get((page.collection, rkey))
            seen_at = max(
                told_time(rkey, entry) or listed_at, floor, logged_record["seen_at"] if logged_record else floor
            )
            seen_at = min(seen_at, listed_at)
            yield Listed(account.did, page.collection, rkey, "create", entry.cid, account.rev, seen_at, body)
    for (collection, rkey), logged_record in logged_records.items():
        if _was_deleted(account, collection, rkey, logged_record["newest"]):
            yield Listed(account.did, collection, rkey, "delete", None, account.rev, listed_at, b"")


def _was_deleted(account: Account, collection: str, rkey: str, newest: Mapping[str, Any]) -> bool:
    """Return True if a record in the log is missing from a complete listing that is not older than it."""
    is_present = newest["operation"] != "delete" and (newest["rev"] or "") <= account.rev
    return is_present and collection in account.complete and hash(rkey) not in account.keys[collection]


def told_time(rkey: str, entry: Entry) -> datetime | None:
    """Return the claimed time of writing: the TID, else createdAt; None if there is neither."""
    if tid_moment := tid_time(rkey):
        return tid_moment
    try:
        value = msgspec.json.decode(entry.value)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return moment(value, "createdAt") if isinstance(value, dict) else None


def _read_logged(rows: Rows, dids: Sequence[str]) -> dict[str, _Logged]:
    logged_by_did: dict[str, _Logged] = {}
    for row in read_log(rows, NEWEST_LOGGED, [list(dids)]) if dids else ():
        logged = logged_by_did.setdefault(row["did"], _Logged(row["first_seen_at"]))
        logged.first_seen_at = min(logged.first_seen_at, row["first_seen_at"])
        logged.records[row["collection"], row["rkey"]] = row
    return logged_by_did
