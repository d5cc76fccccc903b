"""Erase a person everywhere below DATA_ROOT, and make sure that no byte stays.

Two steps, each repeatable after a kill. `erase` removes the person from files and tables and leaves a tombstone: from
then on nothing about them is shown. `finish` rewrites the store, publishes it and removes every older snapshot: from
then on no byte is left. A request does both at once; accounts deleted on the network are erased as soon as their event
was derived, and finished together, once the first of them has waited a day.

Diffs of closed pull requests, which are stored only for a while, are dropped here too. Their numbers stay.
"""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

from ingest.erasure.files import (
    drop_all,
    drop_naming,
    empty_pages,
    erase_mirrors,
    files_below,
    names_in_file,
    strike_file,
    strike_folder,
    strike_sqlite,
)
from ingest.erasure.rows import erase_letters, erase_rows, find_names
from ingest.errors import StoreProblem
from ingest.files import remove_all
from ingest.records.dead_letters import forget_shapes
from ingest.store.archive import recount, sweep_texts
from ingest.store.database import Store
from ingest.store.snapshots import drop_but_newest, publish
from ingest.store.tombstones import CHECK, Names, mark_of
from ingest.store.transaction import Rows, Transaction

log = logging.getLogger(__name__)

LONGEST_WAIT = timedelta(days=1)
DUE = "select did, account_status from contributors where account_status in ('deleted', 'erasing') order by did"
OWN_DIFFS = """
select sha256 from patches where sha256 is not null group by sha256
having bool_and(starts_with(pull_uri, 'at://' || $did || '/'))
"""
UNFINISHED = """
select e.position_seq, e.ran_clock from hops e where e.name = 'erase'
  and e.position_seq > coalesce((select position_seq from hops where name = 'compact'), 0)
"""


@dataclass(frozen=True, slots=True)
class Folders:
    """The other places that may name a person; `forget_account` clears the tables of the web process."""

    diffs: Path
    mirrors: Path
    staging: Path
    models: Path
    graphs: Path
    logs: Path
    snapshots: Path
    queue: Path
    status: Path
    forget_account: Callable[[Names], int]


@dataclass(frozen=True, slots=True)
class Erased:
    """The counts of erased rows of the store, files, and rows of the queue's and the web's tables.

    `kept` holds sentences about data that still names the person, with the reason.
    """

    rows: int
    files: int
    others: int
    kept: tuple[str, ...] = ()


def erase(store: Store, did: str, why: str, now: datetime, folders: Folders) -> Erased:
    """Remove a person from files and tables and remember that by keyed hash; `finish` then removes the bytes.

    `why`: 'account_deleted' or 'by_request'; records of them up to `now` stay out from then on. Raises StoreProblem if
    it was interrupted: they are hidden from the first moment, and the worker's next sweep continues.
    """
    try:
        return _erase(store, did, why, now, folders)
    except (OSError, sqlite3.Error, duckdb.Error) as error:
        message = " ".join(str(error).split())[:200]
        raise StoreProblem(f"the erasure stopped ({message}): fix that and run it again; it continues") from error


def _erase(store: Store, did: str, why: str, now: datetime, folders: Folders) -> Erased:
    with store.read() as reader:
        names, number = find_names(reader, did)
    _hide(store, names)
    searched = store.long_texts.files()
    names = names.with_long_texts(store.long_texts)
    files = _erase_diffs(store, names, folders.diffs) + _erase_files(store, names, folders)
    mirrors, kept = erase_mirrors(store, folders.mirrors, names, number)
    count = _erase_rows(store, names, number, why, now)
    names = names.with_long_texts(store.long_texts, searched)
    if names.long_texts:  # such a text may have arrived before the tombstone was written
        with store.write() as txn:
            count += erase_rows(txn, names, None, now)
    files += _erase_files(store, names, folders)  # files that a running look-up has written since
    recount(store)
    files += sweep_texts(store)
    others = strike_sqlite(folders.queue, names) + folders.forget_account(names)
    return Erased(count, files + mirrors, others, kept)


def _erase_rows(store: Store, names: Names, number: int | None, why: str, now: datetime) -> int:
    seen_since, newest_rev = store.people.seen_since.get(names.did), store.people.newest_rev.get(names.did)
    try:
        with store.whole, store.write() as txn:  # no scoring pass is running that would write what it read before
            count = erase_rows(txn, names, number, now)
            _write_tombstone(txn, store, names.did, why, now)
            # While the mutex is held: nobody may get rows with a number that is gone.
            store.people.remove(names.did)
            store.tombstones.bury(names, number, now)
    except BaseException:
        store.tombstones.exhume(names, number)
        if number is not None:
            store.people.add(names.did, number, seen_since, newest_rev)
        raise
    return count


def _hide(store: Store, names: Names) -> None:
    """Hide the person, let the next sweep continue after a kill, and remove data that only the log ties to them."""
    with store.write() as txn:
        txn.execute(
            "update contributors set account_status = 'erasing' where did = ? and account_status <> 'deleted'",
            [names.did],
        )
        erase_letters(txn, names)
        forget_shapes(txn, names.did)


def _write_tombstone(txn: Transaction, store: Store, did: str, why: str, now: datetime) -> None:
    key = store.tombstones.key
    if not key:
        raise ValueError("a store that was opened without the drive's key cannot erase anybody")
    txn.upsert("tombstones", [{"mark": mark_of(key, did), "why": why, "erased_at": now}])
    txn.upsert("meta", [{"key": CHECK, "value": mark_of(key, CHECK)}])
    txn.execute("insert or replace into hops values ('people', ?, ?)", [store.people.highest, store.wall()])
    unfinished = txn.row(UNFINISHED)
    erased = txn.value("select position_seq from hops where name = 'erase'") or 0
    waiting_since = unfinished["ran_clock"] if unfinished else store.wall()
    txn.execute("insert or replace into hops values ('erase', ?, ?)", [erased + 1, waiting_since])
    txn.inputs_changed()


def _erase_files(store: Store, names: Names, folders: Folders) -> int:
    with store.files:
        changed = empty_pages(folders.staging, names.did) + strike_folder(folders.staging, names)
    changed += strike_folder(folders.logs, names)
    changed += strike_file(folders.status, names) if folders.status.is_file() else 0
    return changed + drop_naming(folders.models, names) + drop_all(folders.graphs)


def _erase_diffs(store: Store, names: Names, folder: Path) -> int:
    """Drop their own diffs that nobody else offered, and any diff that names them: a hashed file cannot be edited."""
    with store.read() as reader:
        own_diffs = reader.rows(OWN_DIFFS, {"did": names.did})
    naming_hashes = {path.name.removesuffix(".patch.gz") for path in files_below(folder) if names_in_file(path, names)}
    return drop_diffs(store, folder, naming_hashes | {row["sha256"] for row in own_diffs})


def drop_diffs(store: Store, folder: Path, hashes: set[str]) -> int:
    """Drop the texts of these patches, keeping their numbers; return how many files went."""
    if not hashes:
        return 0
    with store.write() as txn:
        txn.execute("update patches set sha256 = null where sha256 in (select unnest(?))", [sorted(hashes)])
    return remove_all([path for path in files_below(folder) if path.name.removesuffix(".patch.gz") in hashes])


def due(rows: Rows) -> bool:
    """Return True if somebody must be erased because the account is gone or an erasure was begun."""
    return rows.row(f"{DUE} limit 1") is not None


def erase_due(store: Store, now: datetime, folders: Folders) -> int:
    """Erase everybody whose account was deleted on the network or whose erasure was interrupted; return how many."""
    with store.read() as rows:
        waiting = rows.rows(DUE)
    for row in waiting:
        why = "account_deleted" if row["account_status"] == "deleted" else "by_request"
        for sentence in erase(store, row["did"], why, now, folders).kept:
            log.info("after an erasure: %s", sentence)
    return len(waiting)


def finish(store: Store, folders: Folders) -> None:
    """Remove the bytes of everybody erased so far: rewrite the store, publish it, remove all earlier snapshots.

    Raises StoreProblem or PublishProblem; the next sweep tries again.
    """
    with store.read() as rows:
        reached = rows.value("select position_seq from hops where name = 'erase'") or 0
    with store.publishing:
        store.compact()
        publish(store, folders.snapshots)
        drop_but_newest(folders.snapshots)
    # A training may have read an older snapshot: what it writes from now on is held against the newest.
    drop_all(folders.graphs)
    with store.write() as txn:
        txn.execute("insert or replace into hops values ('compact', ?, ?)", [reached, store.wall()])


def finish_due(store: Store, folders: Folders) -> bool:
    """Finish once an erasure has waited a day for others; return True if it did."""
    with store.read() as rows:
        row = rows.row(UNFINISHED)
    if row is None or store.wall() - row["ran_clock"] < LONGEST_WAIT:
        return False
    finish(store, folders)
    return True


# A diff's file is written before its row is committed; a file that a kill left without a row is older than this.
YOUNG_SECONDS = 86_400.0
OLD_DIFFS = """
select k.sha256 from patches k left join pull_requests p using (pull_uri) where k.sha256 is not null
group by k.sha256
having bool_and(p.pull_uri is null or p.state <> 'open' and greatest(p.state_at, p.changed_at, p.seen_at) < ?)
  and k.sha256 not in (select sha256 from unread_rounds where sha256 is not null)
"""


def drop_old_diffs(store: Store, folder: Path, now: datetime, days: int) -> int:
    """Drop every diff whose pull requests were all settled more than `days` days before `now`; return how many.

    A diff of several pull requests stays while one of them is open or young, and any until its files are listed.
    """
    with store.read() as reader:
        old_hashes = {row["sha256"] for row in reader.rows(OLD_DIFFS, [now - timedelta(days=days)])}
    return drop_diffs(store, folder, old_hashes)


def drop_stray_diffs(store: Store, folder: Path, wall_seconds: float) -> int:
    """Remove files that no row names and that are a day old by the file system's clock; return how many."""
    with store.read() as reader:
        known_hashes = {row["sha256"] for row in reader.rows("select sha256 from patches where sha256 is not null")}
    return remove_all(
        [
            path
            for path in files_below(folder)
            if path.name.removesuffix(".patch.gz") not in known_hashes
            and wall_seconds - path.stat().st_mtime > YOUNG_SECONDS
        ]
    )
