"""Import past pull requests of another forge into the store: read, check, tie to people; all rows or none.

Nothing in a file becomes a record here: the rows are separate, marked by source, and are removed together. They count
in a person's record only if the operator tied the author to a DID. Each rule for a row is one condition, with one
sentence for a row that breaks it. Of a title only marks that name nobody are stored.
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
# In this order, since a later rule assumes the earlier ones.
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
    """Check the table `past`; return how many rows were merged before they were opened, if those are few enough.

    Raises PastProblem with the first rule that a row breaks, how many rows do, and one of them.
    """
    counts = rows.row(f"select count(*) as rows, {BROKEN} from past", {"now": now}) or {}
    if not counts["rows"]:
        raise PastProblem("The file holds no pull request: export some, or name another file.")
    for place, (condition, sentence) in enumerate(RULES):
        if broken_count := counts[f"n{place}"]:
            example = rows.value(
                f"select concat(repo, '#', number) from past where {condition} limit 1",
                {"now": now} if "$now" in condition else {},
            )
            raise PastProblem(
                f"{str(example)[:100]!a} {sentence} ({broken_count} of {counts['rows']} rows): nothing was taken."
            )
    if duplicate := rows.row(TWICE):
        name = f"{duplicate['repo']}#{duplicate['number']}"
        raise PastProblem(f"{name[:100]!a} is in the file {duplicate['times']} times: nothing was imported.")
    return _check_moved(rows)


def _check_moved(rows: Rows) -> int:
    counted = rows.row(MOVED) or {}
    if counted["moved"] > MOVED_SHARE * counted["merges"]:
        raise PastProblem(
            f"{counted['example'][:100]!a} was merged before it was opened, like {counted['moved']} of "
            f"{counted['merges']} merges: nothing was taken."
        )
    return counted["moved"]


MARKS = ("default", "fix", "docs", "new", "code")
# A temporary macro: `title_says(title)` is the list of MARKS that apply, or null if a title tells nothing that was
# known at opening. A title of one word may be the name of a branch, which follows from the outcome. `default` is the
# suggestion of a web editor: "Update FILE". Only English words are matched; quality of writing does not count.
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
# Numbers of people and projects that have none here: below 0, and equal each time they are made.
NUMBER = "-(md5_number_lower(concat($source, chr(31), {name})) % 4611686018427387904)::bigint - 1"
REGULAR = 30  # merges in a project after which an author counts as a push-holder if the file does not say
# A merge before its opening counts from the opening: an inferred opening that is too late reveals nothing too early.
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
    left_out: int = 0  # bots and pull requests that the file calls unusable: stored, in no figure
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
    """Replace the stored pull requests of this source by those of the file.

    `identities` ties its authors to DIDs. `show` gets the number of rows read so far. Raises PastProblem, with
    everything unchanged.
    """
    _check_source(source)
    declared = read_identities(identities) if identities else {}
    file = PastFile(path)
    with store.write() as txn:
        _stage_rows(txn, file, show)
        result = Taken(source, moved=check_past(txn, store.wall()))
        did_count = _counts_for_people(txn, source)
        result.erased = _tie_authors(txn, declared)
        _delete_source(txn, source)
        txn.execute(TITLE_SAYS)
        txn.execute(TAKE, {"source": source})
        for name, value in (txn.row(COUNTS, {"source": source}) or {}).items():
            setattr(result, name, value)
        _write_source(txn, result, path)
        if did_count or result.tied:
            txn.inputs_changed()
        txn.execute("drop table past")
        txn.execute("drop table ties")
    result.unused = [name for name in file.unknown if name not in LEAKING]
    result.leaking = [name for name in file.unknown if name in LEAKING]
    return result


def remove_past(store: Store, source: str) -> int:
    """Remove everything of a source; return how many pull requests went. Raises PastProblem for an unknown source."""
    with store.write() as txn:
        sources = [row["source"] for row in txn.rows("select source from imported_sources order by source")]
        if source not in sources:
            available = f"there are {', '.join(sources)}" if sources else "nothing was imported"
            raise PastProblem(f"There is no imported history named {source[:60]!a}: {available}.")
        if _counts_for_people(txn, source):
            txn.inputs_changed()
        return _delete_source(txn, source)


def _check_source(source: str) -> None:
    if SOURCE.fullmatch(source) is None:
        raise PastProblem(
            f"{source[:60]!a} cannot name a source: take letters, digits, dots, dashes and underscores, at most 60."
        )


def _stage_rows(txn: Transaction, file: PastFile, show: Callable[[int], None]) -> None:
    with txn.registered(SCHEMA.empty_table()):
        txn.execute("create or replace temp table past as from incoming")
    rows_read = 0
    for batch in file.batches():
        with txn.registered(batch):
            txn.execute("insert into past from incoming")
        rows_read += len(batch)
        show(rows_read)


def _tie_authors(txn: Transaction, declared: Mapping[str, str]) -> int:
    """Number the authors with a DID, as the temporary table `ties`; return how many rows are of people erased here.

    A declaration outranks the file's column, and the column outranks an author name that is a DID.
    """
    authors = txn.rows("select author, min(did) as did, count(distinct did) as dids from past group by author")
    dids = {row["author"]: row["author"] for row in authors if is_did(row["author"])}
    dids |= {row["author"]: _checked_did(row) for row in authors if row["did"] is not None}
    dids |= {row["author"]: declared[row["author"]] for row in authors if row["author"] in declared}
    living_dids = {author: did for author, did in dids.items() if txn.tombstones.erased_at(did) is None}
    numbers = txn.person_ids(living_dids.values())
    ties = pa.table(
        {
            "author": pa.array(dids, pa.string()),
            "author_id": pa.array([numbers.get(did) for did in dids.values()], pa.int64()),
            "erased": pa.array([author not in living_dids for author in dids], pa.bool_()),
        }
    )
    with txn.registered(ties):
        txn.execute("create or replace temp table ties as from incoming")
    return txn.value("select count(*) from past semi join (from ties where erased) using (author)")


def _checked_did(row: Mapping[str, Any]) -> str:
    if row["dids"] > 1 or not is_did(row["did"]):
        raise PastProblem(
            f"{row['author'][:60]!a} has two DIDs, or {row['did'][:60]!a}, which is none: nothing was taken."
        )
    return row["did"]


def _counts_for_people(txn: Transaction, source: str) -> bool:
    """Return True if any row of this source counts in a person's record."""
    return txn.row("select 1 from imported_pulls where source = ? and author_id > 0 limit 1", [source]) is not None


def _delete_source(txn: Transaction, source: str) -> int:
    txn.execute("delete from imported_sources where source = ?", [source])
    return txn.cursor.execute("delete from imported_pulls where source = ?", [source]).fetchall()[0][0]


def _write_source(txn: Transaction, result: Taken, path: Path) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    row = {
        "source": result.source,
        "sha256": digest,
        "pulls": result.pulls,
        "people": result.people,
        "tied": result.tied,
    }
    txn.upsert("imported_sources", [row | {"imported_clock": txn.wall()}])
