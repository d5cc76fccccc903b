"""Who was erased after a backup was made: known by the drive's tombstones, found in the backup, and hidden there.

A tombstone is a keyed hash, so people are found by hashing every DID that the backup names.
"""

import hmac
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from ingest.backup_files import BackupProblem, Places
from ingest.backups import ASIDE
from ingest.long_texts import texts_below
from ingest.look_inside import Inside, InspectProblem, look_inside
from ingest.state_copy import STORE
from ingest.tombstones import CHECK, mark_of

DID = r"did:(?:plc:[a-z2-7]{24}|web:[A-Za-z0-9-]+(?:[.:%][A-Za-z0-9-]+)*)"
_DID = re.compile(DID)
NAMED = f"""
select did from contributors
union select unnest(regexp_extract_all(concat_ws(' ', did, rkey, body), '{DID}')) from ({{events}})
union select unnest(regexp_extract_all(body, '{DID}')) from dead_letters
"""
Tombs = Mapping[str, tuple[str, str]]  # mark -> why, erased_at


@dataclass(frozen=True, slots=True)
class Buried:
    """Tombstones that the backup lacks or knows as older, under `key`; `unknown`: none of this drive could be read.

    `keep_key`: the drive's own key stays, since its tombstones are under it.
    """

    key: bytes
    marks: Tombs
    unknown: bool
    keep_key: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """The places of the archive, the long texts and the accounts that belong to a store."""

    events: Path
    texts: Path
    accounts: Path


def buried_since(places: Places, inside: Inside, brought: Path) -> Buried:
    """What this drive remembers that the backup does not. Raises BackupProblem where their keys do not fit."""
    own, theirs = _key(places.keys / "tombstones"), _key(brought)
    known, unknown = _tombs_of(places, own)
    key = own if known else theirs or own
    if inside.check and not _fits(inside.check, key):
        raise BackupProblem(
            "This backup remembers erased people under another key than "
            + ("this drive does: " if known else "the one in keys/tombstones here: ")
            + "put the drive's keys/tombstones of that time there first. Nothing was changed."
        )
    since = {mark: told for mark, told in known.items() if inside.tombstones.get(mark, ("", ""))[1] < told[1]}
    return Buried(key, since, unknown, bool(known))


def _key(path: Path) -> bytes:
    try:
        return path.read_text().encode()
    except (OSError, UnicodeDecodeError):
        return b""


def _fits(check: str, key: bytes) -> bool:
    return hmac.compare_digest(check, mark_of(key, CHECK))


def _tombs_of(places: Places, key: bytes) -> tuple[Tombs, bool]:
    """The tombstones of the drive's store and snapshots, under its key; and whether none could be read."""
    tombs: dict[str, tuple[str, str]] = {}
    stores = [places.store, *sorted(places.snapshots.glob("serve-*.duckdb"))]
    seen = [one for one in map(_looked_into, filter(Path.is_file, stores)) if one is not None]
    for one in seen:
        if one.check and not _fits(one.check, key):
            raise BackupProblem(f"keys/tombstones is not the key of {places.store}: put that one there first.")
    cut = [one for one in map(_looked_into, places.root.glob(f"{ASIDE}*/{STORE}")) if one and _is_under(one, key)]
    for one in (*seen, *cut):  # a restore that was cut off has moved the store away already
        for mark, told in one.tombstones.items():
            tombs[mark] = max(tombs.get(mark, told), told, key=lambda one: one[1])
    return tombs, not seen


def _is_under(inside: Inside, key: bytes) -> bool:
    return bool(inside.check) and _fits(inside.check, key)


def _looked_into(path: Path) -> Inside | None:
    try:
        return look_inside(path, sums=False)
    except InspectProblem:
        return None


def hide(connection: duckdb.DuckDBPyConnection, beside: Beside, buried: Buried) -> list[str]:
    """Bury them in the copied store too, and hide those of them whom it knows; the DIDs that are to be erased."""
    rows = [(mark, why, erased_at) for mark, (why, erased_at) in buried.marks.items()]
    connection.executemany("insert or replace into tombstones values (?, ?, ?)", rows)
    connection.execute("insert or replace into meta values (?, ?)", [CHECK, mark_of(buried.key, CHECK)])
    found = sorted(did for did in set(_named(connection, beside)) if mark_of(buried.key, did) in buried.marks)
    connection.execute(
        "update contributors set account_status = 'erasing' where list_contains(?, did)",
        [found],
    )
    return found


def _named(connection: duckdb.DuckDBPyConnection, beside: Beside) -> Iterator[str]:
    """Every DID that the copy names in its log, among its people and its accounts."""
    files = [str(path) for path in sorted(beside.events.glob("*.parquet"))]
    events, given = "select did, rkey, body from events", []
    if files:
        events, given = f"{events} union all select did, rkey, body from read_parquet(?)", [files]
    yield from (row[0] for row in connection.execute(NAMED.replace("{events}", events), given).fetchall())
    for text in texts_below(beside.texts):
        yield from _DID.findall(text)
    if beside.accounts.is_file():
        with closing(sqlite3.connect(beside.accounts)) as accounts:
            try:
                yield from [row[0] for row in accounts.execute("select did from triage_person")]
            except sqlite3.OperationalError:  # of a drive where nobody ever opened a page
                return
