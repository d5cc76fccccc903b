"""Past pull requests of another forge into the store: read, checked, tied to people; whole or not at all.

Nothing that a file says becomes a record here: rows stand apart, marked by source, and go together. They count in a
person's record only where the operator tied the author to a DID.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.atproto.syntax import is_did
from ingest.history_import.checks import QUIET, TITLE_SAYS, check_past
from ingest.history_import.files import LEAKING, SCHEMA, PastFile, PastProblem, read_identities
from ingest.store.database import Store
from ingest.store.transaction import Transaction

SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
# Numbers of people and projects without one here: below 0, the same whenever they are made.
NUMBER = "-(md5_number_lower(concat($source, chr(31), {name})) % 4611686018427387904)::bigint - 1"
REGULAR = 30  # merges in a project after which an author counts as a push-holder where the file does not say
# A merge before its opening counts from the opening: with an inferred one that was too late, nothing is known too soon.
TAKE = f"""
insert into imported_pulls by name
with moved as (
  select * replace (greatest(merged_at, case when merged_at is not null then opened_at end) as merged_at) from past
), regular as (
  select author, repo, merged_at as since from moved where merged_at is not null
  qualify row_number() over (partition by author, repo order by merged_at) = {REGULAR}
)
select $source as source, repo as repository, number, {NUMBER.format(name="repo")} as repository_id,
  coalesce(t.author_id, {NUMBER.format(name="author")}) as author_id, opened_at, snapshot_at as observed_until,
  case when state in ('closed', 'closed_or_stale') then 'closed' when state = 'merged' then 'merged' else 'open' end
    as state,
  merged_at,
  case when merged_at is null
    then least(closed_at, case when {QUIET} <= snapshot_at then {QUIET} end) end as refused_at,
  case when merged_at is not null and (reverted or reverted_at is not null)
    then greatest(coalesce(reverted_at, snapshot_at), merged_at) end as reverted_at,
  case when merged_at is not null and (patched14_code or patched14_code_fix)
    then least(greatest(coalesce(patched14_first_at, merged_at + interval 14 day), merged_at), snapshot_at) end
    as patched_at,
  case when merged_at is not null and patched14_code_fix
    then least(merged_at + interval 14 day, snapshot_at) end as patched_fix_at,
  greatest(checks_failed_at, case when checks_failed_at is not null then opened_at end) as failed_at,
  coalesce(checks_known, checks_failed_at is not null) as checks_known,
  case when merged_at is null then -1 else coalesce(as_sent::integer, -1) end as as_sent,
  coalesce(push_holder, opened_at > r.since, false) as push_holder,
  coalesce(is_bot, false) as is_bot,
  coalesce(usable, true) or state in ('open', 'open_or_recent') as usable, additions, deletions, files_touched,
  binary_files, touches_tests, docs_only, touches_sensitive,
  case when contains(trim(title), ' ') then least(length(trim(title)), 1000)::integer end as title_length,
  title_says(title) as title_says
from moved left join ties t using (author) left join regular r using (author, repo)
where not coalesce(t.erased, false)
order by opened_at, repo, number
"""
COUNTS = """
select count(*) as pulls, count(distinct author_id) as people, count(distinct repository_id) as repositories,
  count(*) filter (state = 'merged') as merged, count(*) filter (state = 'closed') as refused,
  count(*) filter (state = 'open') as open, count(*) filter (not usable or is_bot) as left_out,
  count(distinct author_id) filter (author_id > 0) as tied, count(*) filter (author_id > 0) as tied_pulls,
  count(*) filter (not checks_known) as checks_unknown
from imported_pulls where source = $source
"""


@dataclass(slots=True)
class Taken:
    """The rows of an import; `unused` and `leaking` are names of columns that were not read."""

    source: str
    pulls: int = 0
    people: int = 0
    repositories: int = 0
    merged: int = 0
    refused: int = 0
    open: int = 0
    left_out: int = 0  # bots and what the file calls unusable: kept, in no figure
    tied: int = 0  # people
    tied_pulls: int = 0
    checks_unknown: int = 0  # pull requests
    moved: int = 0  # merged before their opening
    erased: int = 0  # pull requests of people who were erased here
    unused: list[str] = field(default_factory=list)
    leaking: list[str] = field(default_factory=list)


def import_past(
    store: Store,
    path: Path,
    identities: Path | None,
    source: str,
    show: Callable[[int], None] = lambda read: None,
) -> Taken:
    """Put the pull requests of a file in the place of what stands here of the same source.

    `identities` ties its authors to DIDs. `show` is told how many rows were read so far. Raises PastProblem, with
    everything as it was.
    """
    _check_source(source)
    declared = read_identities(identities) if identities else {}
    file = PastFile(path)
    with store.write() as txn:
        _stage(txn, file, show)
        done = Taken(source, moved=check_past(txn, store.wall()))
        counted = _ties_count(txn, source)
        done.erased = _tie(txn, declared)
        _forget(txn, source)
        txn.execute(TITLE_SAYS)
        txn.execute(TAKE, {"source": source})
        for name, value in (txn.row(COUNTS, {"source": source}) or {}).items():
            setattr(done, name, value)
        _note(txn, done, path)
        if counted or done.tied:
            txn.inputs_changed()
        txn.execute("drop table past")
        txn.execute("drop table ties")
    done.unused = [name for name in file.unknown if name not in LEAKING]
    done.leaking = [name for name in file.unknown if name in LEAKING]
    return done


def remove_past(store: Store, source: str) -> int:
    """Let go of everything of a source; returns how many pull requests went. PastProblem where there is none."""
    with store.write() as txn:
        known = [row["source"] for row in txn.rows("select source from imported_sources order by source")]
        if source not in known:
            listed = f"there are {', '.join(known)}" if known else "nothing was imported"
            raise PastProblem(f"There is no imported history named {source[:60]!a}: {listed}.")
        if _ties_count(txn, source):
            txn.inputs_changed()
        return _forget(txn, source)


def _check_source(source: str) -> None:
    if SOURCE.fullmatch(source) is None:
        raise PastProblem(
            f"{source[:60]!a} cannot name a source: take letters, digits, dots, dashes and underscores, at most 60."
        )


def _stage(txn: Transaction, file: PastFile, show: Callable[[int], None]) -> None:
    """The rows of the file as the temporary table `past`."""
    with txn.registered(SCHEMA.empty_table()):
        txn.execute("create or replace temp table past as from incoming")
    read = 0
    for batch in file.batches():
        with txn.registered(batch):
            txn.execute("insert into past from incoming")
        read += len(batch)
        show(read)


def _tie(txn: Transaction, declared: Mapping[str, str]) -> int:
    """Number the authors with a DID, as the temporary table `ties`; how many rows are of people who were erased here.

    A declaration outranks the file's column, and that an author who is named by a DID.
    """
    said = txn.rows("select author, min(did) as did, count(distinct did) as dids from past group by author")
    dids = {row["author"]: row["author"] for row in said if is_did(row["author"])}
    dids |= {row["author"]: _did(row) for row in said if row["did"] is not None}
    dids |= {row["author"]: declared[row["author"]] for row in said if row["author"] in declared}
    living = {author: did for author, did in dids.items() if txn.tombstones.erased_at(did) is None}
    numbers = txn.person_ids(living.values())
    ties = pa.table(
        {
            "author": pa.array(dids, pa.string()),
            "author_id": pa.array([numbers.get(did) for did in dids.values()], pa.int64()),
            "erased": pa.array([author not in living for author in dids], pa.bool_()),
        }
    )
    with txn.registered(ties):
        txn.execute("create or replace temp table ties as from incoming")
    return txn.value("select count(*) from past semi join (from ties where erased) using (author)")


def _did(row: Mapping[str, Any]) -> str:
    if row["dids"] > 1 or not is_did(row["did"]):
        raise PastProblem(
            f"{row['author'][:60]!a} has two DIDs, or {row['did'][:60]!a}, which is none: nothing was taken."
        )
    return row["did"]


def _ties_count(txn: Transaction, source: str) -> bool:
    """Return whether anything of this source counts in a person's record."""
    return txn.row("select 1 from imported_pulls where source = ? and author_id > 0 limit 1", [source]) is not None


def _forget(txn: Transaction, source: str) -> int:
    txn.execute("delete from imported_sources where source = ?", [source])
    return txn.cursor.execute("delete from imported_pulls where source = ?", [source]).fetchall()[0][0]


def _note(txn: Transaction, done: Taken, path: Path) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    row = {"source": done.source, "sha256": digest, "pulls": done.pulls, "people": done.people, "tied": done.tied}
    txn.upsert("imported_sources", [row | {"imported_clock": txn.wall()}])
