"""Past pull requests of another forge into the store: read, checked, tied to people; whole or not at all.

Nothing that a file says becomes a record here: rows stand apart, marked by source, and go together. They count in a
person's record only where the operator tied the author to a DID. Each rule that a row must keep is one condition, with
one sentence for a row that breaks it. Of a title only marks that name nobody are kept.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.atproto.syntax import is_did
from ingest.history_import.files import COLUMNS, LEAKING, SCHEMA, PastFile, PastProblem, read_identities
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

EARLIEST = "timestamp '1990-01-01'"  # no forge is older
LATEST_COUNT = 1_000_000_000  # lines of one pull request; the largest of 14,887 real ones added 1,300,706
MOVED_SHARE = 0.05  # of merges before their opening: 1.9 % of real ones, whose opening had to be inferred
STATES = ("merged", "closed", "closed_or_stale", "open", "open_or_recent")
TIMES = tuple(column.name for column in COLUMNS if column.kind == "time")
COUNT_COLUMNS = ("additions", "deletions", "files_touched", "binary_files")
EVENTS = tuple(name for name in TIMES if name not in ("opened_at", "snapshot_at"))
QUIET = "greatest(opened_at, last_commit_at) + interval 180 day"
# In this order, since a later rule presumes the ones before.
RULES: tuple[tuple[str, str], ...] = (
    *((f"{column.name} is null", f"has no {column.name}") for column in COLUMNS if column.needed),
    ("length(repo) not between 1 and 200", "names its project with no or more than 200 characters"),
    ("length(author) not between 1 and 200", "names its author with no or more than 200 characters"),
    ("number not between 0 and 1000000000000", "has a number that is none"),
    (f"state not in {STATES}", f"has a state that is none of {', '.join(STATES)}"),
    *(
        (f"{name} not between 0 and {LATEST_COUNT}", f"has {name} below 0 or above {LATEST_COUNT}")
        for name in COUNT_COLUMNS
    ),
    *((f"{name} < {EARLIEST}", f"has {name} before 1990") for name in TIMES),
    ("snapshot_at > $now", "was watched until a moment that has not come yet"),
    ("opened_at > snapshot_at", "was opened after it was last watched"),
    *((f"{name} > snapshot_at", f"has {name} after it was last watched") for name in EVENTS),
    ("state = 'merged' and merged_at is null", "is merged, but has no merged_at"),
    ("state <> 'merged' and merged_at is not null", "has merged_at, but is not merged"),
    ("state = 'closed' and closed_at is null", "is closed, but has no closed_at"),
    ("closed_at < opened_at", "was closed before it was opened"),
    (
        f"state = 'closed_or_stale' and coalesce(closed_at, {QUIET}) > snapshot_at",
        "is closed_or_stale, but was watched for less than 180 days after its last commit and has no closed_at",
    ),
    ("reverted_at < merged_at or patched14_first_at < merged_at", "was taken back or patched before it was merged"),
)
BROKEN = ", ".join(f"count(*) filter ({condition}) as n{place}" for place, (condition, _) in enumerate(RULES))
TWICE = "select repo, number, count(*) as times from past group by repo, number having times > 1 order by all limit 1"
MOVED = """
select count(*) filter (merged_at < opened_at) as moved, count(merged_at) as merges,
  any_value(concat(repo, '#', number)) filter (merged_at < opened_at) as example from past
"""


def check_past(rows: Rows, now: datetime) -> int:
    """Look through the table `past`; returns how many were merged before they were opened, where few enough were.

    Raises PastProblem with the first rule that a row breaks, how many do, and one of them.
    """
    found = rows.row(f"select count(*) as rows, {BROKEN} from past", {"now": now}) or {}
    if not found["rows"]:
        raise PastProblem("The file holds no pull request: export some, or name another file.")
    for place, (condition, sentence) in enumerate(RULES):
        if broken := found[f"n{place}"]:
            example = rows.value(
                f"select concat(repo, '#', number) from past where {condition} limit 1",
                {"now": now} if "$now" in condition else {},
            )
            raise PastProblem(
                f"{str(example)[:100]!a} {sentence} ({broken} of {found['rows']} rows): nothing was taken."
            )
    if twice := rows.row(TWICE):
        name = f"{twice['repo']}#{twice['number']}"
        raise PastProblem(f"{name[:100]!a} is in the file {twice['times']} times: nothing was imported.")
    return _moved(rows)


def _moved(rows: Rows) -> int:
    found = rows.row(MOVED) or {}
    if found["moved"] > MOVED_SHARE * found["merges"]:
        raise PastProblem(
            f"{found['example'][:100]!a} was merged before it was opened, like {found['moved']} of {found['merges']} "
            "merges: nothing was taken."
        )
    return found["moved"]


MARKS = ("default", "fix", "docs", "new", "code")
# A temporary macro: `title_says(title)` is the list of MARKS that hold, null where a title tells nothing that was known
# at opening. Of one word it may be the name of a branch, which follows from the outcome. `default` is what a web editor
# suggests: "Update FILE". English words alone are looked for; how well somebody writes is not.
TITLE_SAYS = r"""
create or replace temp macro title_says(title) as case when contains(trim(title), ' ') then list_filter([
  case when regexp_matches(trim(title), '(?i)^(update|create|delete|rename|add files via)\s+\S+(\s+\S+)?$')
    then 'default' end,
  case when regexp_matches(title, '(?i)\b(fix|fixes|fixed|bugs?|correct(s|ed)?)\b') then 'fix' end,
  case when regexp_matches(title, '(?i)\b(docs?|documentation|readme|typos?|spelling|grammar|links?)\b')
    then 'docs' end,
  case when regexp_matches(title,
    '(?i)\b(add|adds|added|supports?|feat|features?|implements?|allows?|introduces?|new)\b') then 'new' end,
  case when regexp_matches(title, '`|\(\)|_|\.\w') then 'code' end
], lambda mark: mark is not null) end
"""

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
