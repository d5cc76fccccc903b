"""Migrate a store of an older version to today's schema: keep what was learned, derive the rest again.

Since version 2 tables and columns were added, and letters store the number of their event. From version 1 the log,
people, repositories with their names and numbers, the operator's settings and every decision are kept. The rest follows
from the log: the hop `derive` begins at its first event again, so collections that had no table before are read too.
Everything happens in one transaction; the caller checkpoints.

Long texts move beside the store, also those of a store that cannot be checkpointed. A table is rewritten without them
and the old one is dropped, so that no checkpoint reads them: an update would leave them in its blocks. Files of the
archive are read by pyarrow, a few rows at a time: DuckDB would load the texts of 2,048 of their rows at once too.

Stored reviews are bounded in rows of each pull request and in bytes of each list in a row. Paths and titles are the
author's, and each new round or title is read again: without a bound one author could fill the store with rows that
DuckDB cannot scan within its memory.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.atproto.syntax import IS_TID, NAMESPACE
from ingest.files import put_in_place
from ingest.store.archive import GROUP_ROWS, free_path
from ingest.store.contributors import EVENT_ID
from ingest.store.long_texts import COLUMN_BYTES, LIMIT, PREFIX, LongTexts, fitting, shorten
from ingest.store.transaction import Rows, Transaction

if TYPE_CHECKING:
    from ingest.store.database import Store

KEPT_TABLES = (
    "meta",
    "contributors",
    "repositories",
    "repository_aliases",
    "watched_repositories",
    "maintainers",
    "scores",
)
# Rows from a listing had their CID as rev; an event that had neither was identified by its time.
EVENTS = f"""
insert into events by name
with named as (
  select * replace (case when rev = cid then null else rev end as rev), {EVENT_ID} as new_id from old_events
), once as (
  select * from named qualify row_number() over (partition by new_id order by event_seq) = 1
), ranked as (
  select *, case when {IS_TID} and starts_with(collection, '{NAMESPACE}')
    then rev end as rank from once
)
select * exclude (new_id, rank) replace (new_id as event_id), coalesce(rank < max(rank) over (
  partition by did order by event_seq rows between unbounded preceding and 1 preceding), false) as late
from ranked
"""
# That version had no backfill: the time before its first frame is a gap, which the worker fills automatically.
NEVER_ASKED = """
insert into gaps select source, 0, cursor_us, 'an older version never asked for what came before it', moved_clock, null
from old_ingest_state where source = 'jetstream' and cursor_us > 0
"""
# A letter about an event is written again when the event is derived.
REST = (
    "insert into ingest_state by name from old_ingest_state",
    "insert into dead_letters by name from old_dead_letters where event_id is null",
    "insert into fetches by name from old_fetches where kind = 'identity'",
    "insert into hops by name from old_hops where name <> 'derive'",
    "insert into hops select 'derive', 0, ran_clock from old_hops where name = 'derive'",
)
LETTERS = "update dead_letters set event_seq = e.event_seq from events e where e.event_id = dead_letters.event_id"
# Columns that tables gained after version 2, in the order in which they came; old rows have null.
ADDED = (
    ("dead_letters", "event_seq bigint"),
    ("scores", "inputs varchar"),
    ("scores", "data_version bigint"),
    ("current_decisions", "inputs varchar"),
    ("current_scores", "fingerprint varchar"),
    ("pull_requests", "opened_title varchar"),
    ("imported_pulls", "title_says varchar[]"),
    ("current_decisions", "borrowed double"),
    ("current_decisions", "borrowed_from integer"),
    ("repository_settings", "alarm_budget double"),
    ("reviews", "payer varchar"),
    ("dead_letters", "due_clock timestamp"),
    ("patches", "git_reading varchar"),
    ("patches", "git_line integer"),
    ("content_reviews", "git_reading varchar"),
    ("objections", "repository_id integer"),
    ("objections", "by_maintainer boolean"),
    ("approvals", "decision varchar"),
    ("audit_draws", "estimated boolean"),
    ("audits", "estimated boolean"),
    ("estimated_lanes", "model varchar"),
    ("ingest_state", "resume_us bigint"),
    ("repository_settings", "publish varchar"),
    ("repository_settings", "publish_since timestamp"),
    ("repository_settings", "time_zones boolean"),
    ("repositories", "upstream varchar"),
    ("current_decisions", "graph double"),
    ("trust", "other_seed boolean"),
)
# Until version 4 a pull request was drawn for the audit once for all its rounds: that draw now counts for the newest.
DRAWN_ONCE = """
select exists (from duckdb_columns() where table_name = 'audit_draws') and not exists (
  from duckdb_columns() where table_name = 'audit_draws' and column_name = 'round')
"""
DRAWS = """
insert into audit_draws by name
select d.*, coalesce(p.round, 0) as round, coalesce(p.record_cid, '') as record_cid,
  coalesce(k.patch_id, '') as patch_id
from old_audit_draws d left join pull_requests p on p.pull_uri = d.pull_uri
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
"""
# Until version 8 the figures of a score were stored packed: unpacking those of 100 people takes 3 ms of 5.
PACKED = """
select exists (from duckdb_tables() where table_name = 'current_scores' and not contains(lower(sql), 'uncompressed'))
"""
SCORES = "insert into current_scores by name from old_current_scores"
MADE_ANEW = {"audit_draws": (DRAWN_ONCE, DRAWS), "current_scores": (PACKED, SCORES)}  # table: (test if old, its rows)
TO_VERSION_9 = (
    # A review's rules were named by a hash of their sources. This hash is version 1: its reviews are not repeated.
    "update content_reviews set rules = '1' where rules = '1beeb51dfe147950'",
    # A merge counted as reverted if a commit named it and removed one line with equal text. All are mined again: a
    # finding that holds keeps the time from which it was known, the others go, and commits that only changed some
    # lines of a merge are found as such.
    "update mirrors set followups_mark = null",
    "update landings set followed = false "
    "where pull_uri in (select pull_uri from pull_followups where kind = 'reverted')",
)
# Until version 17 each seed set had a row for everybody whom it reaches. The next pass computes the others anew.
ONLY_WHO_OFFERED = """
delete from trust where repository_id <> 0
  and (repository_id, contributor_id) not in (select (repository_id, author_id) from pull_requests)
"""
# Until version 18 every seed set had a walk of EigenTrust of its own: now the site's rows alone hold a share.
ONE_WALK = "alter table trust alter column eigentrust drop not null"
_CREATED = re.compile(r"^create (table|sequence|index) ", re.MULTILINE)


def bring_up(txn: Transaction, schema: str, version: int) -> None:
    """Migrate a file of this schema version to today's; `schema` are the statements that make an empty one."""
    if version < 2:
        _migrate_version_1(txn, schema)
        return
    _add_missing(txn, schema)
    if version < 3:
        txn.execute(LETTERS)
    if version < 9:
        for statement in TO_VERSION_9:
            txn.execute(statement)
        bound_old_reviews(txn)
    if version < 17:
        txn.execute(ONLY_WHO_OFFERED)
    if version < 18:
        txn.execute(ONE_WALK)


def _add_missing(txn: Transaction, schema: str) -> None:
    """Add the tables, columns and indexes that a file of version 2 or later lacks; views are created again."""
    for table, column in ADDED:
        txn.execute(f"alter table if exists {table} add column if not exists {column}")
    moved = {table: rows for table, (is_old, rows) in MADE_ANEW.items() if txn.value(is_old)}
    for table in moved:
        txn.execute(f"alter table {table} rename to old_{table}")
    missing = _CREATED.sub(r"create \1 if not exists ", schema)
    txn.cursor.execute(missing.replace("\ncreate view ", "\ncreate or replace view "))
    for table, rows in moved.items():
        txn.execute(rows)
        txn.execute(f"drop table old_{table}")


def _migrate_version_1(txn: Transaction, schema: str) -> None:
    tables = [row["table_name"] for row in txn.rows("select table_name from duckdb_tables()")]
    last_number = txn.value("select last_value from duckdb_sequences() where sequence_name = 'repository_numbers'") or 0
    for table in tables:
        txn.execute(f"alter table {table} rename to old_{table}")
    txn.execute("drop sequence repository_numbers")
    txn.cursor.execute(schema)
    for table in KEPT_TABLES:
        txn.execute(f"insert into {table} by name from old_{table}")
    for statement in (EVENTS, NEVER_ASKED, *REST):
        txn.execute(statement)
    txn.rows("select nextval('repository_numbers') from range(?)", [last_number])
    for table in tables:
        txn.execute(f"drop table old_{table}")


TABLES = ("events", "dead_letters")  # each has its text in `body`
MARK = ("long_texts", "beside, archived too")  # in `meta` once neither a table nor the archive holds a long text
VECTOR = 2048  # rows that DuckDB reads at once
ARCHIVED = 32  # rows of the archive that are read at once


def are_moved(rows: Rows) -> bool:
    """Return True if no table of the store and no file of its archive holds a long text."""
    return rows.value("select value from meta where key = ?", [MARK[0]]) == MARK[1]


def move_long_texts(store: "Store", txn: Transaction, schema: str) -> list[Path]:
    """Move the long texts of all tables and the archive beside the store; return the files that this replaces.

    `schema` are the statements that make an empty store. If a file of the archive is missing, for example because a
    drive is not mounted, the next start looks again.
    """
    with store.read() as reader:
        for table in TABLES:
            if _table_has_long_texts(reader, table):
                _rewrite_table(store, reader, txn, table, schema)
    noted_paths = [Path(row["path"]) for row in txn.rows("select path from event_segments order by path")]
    present = [path for path in noted_paths if path.is_file()]
    replaced = [path for path in present if _file_has_long_texts(path)]
    for path in replaced:
        new_path = _rewrite_segment(store.long_texts, path)
        txn.execute("update event_segments set path = ? where path = ?", [str(new_path), str(path)])
    if present == noted_paths:
        txn.execute("insert or replace into meta values (?, ?)", list(MARK))
    return replaced


def _file_has_long_texts(path: Path) -> bool:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ARCHIVED, columns=["body"]):
            _, texts = shorten(pa.Table.from_batches([batch]))
            if texts:
                return True
    return False


def _rewrite_segment(texts: LongTexts, path: Path) -> Path:
    """Rewrite a file with its rows in order and no long text, durable before this returns."""
    new_path = free_path(path.parent, path.stem)
    partial = new_path.with_suffix(".partial")
    with pq.ParquetFile(path) as file, pq.ParquetWriter(partial, file.schema_arrow, compression="zstd") as writer:
        group: list[pa.Table] = []
        for batch in file.iter_batches(batch_size=ARCHIVED):
            short, long = shorten(pa.Table.from_batches([batch]))
            texts.write(long)
            group.append(short)
            if len(group) * ARCHIVED >= GROUP_ROWS:
                writer.write_table(pa.concat_tables(group))
                group.clear()
        if group:
            writer.write_table(pa.concat_tables(group))
    put_in_place(partial, new_path)
    return new_path


def _table_has_long_texts(rows: Rows, table: str) -> bool:
    sql = f"select exists (from {table} where strlen(body) > ? or starts_with(body, ?))"
    try:
        return rows.value(sql, [LIMIT, PREFIX])
    except duckdb.OutOfMemoryException:
        return True


def _rewrite_table(store: "Store", rows: Rows, txn: Transaction, table: str, schema: str) -> None:
    create_table = re.search(rf"^create table {table} \(.*?^\);", schema, re.MULTILINE | re.DOTALL)
    if create_table is None:
        raise ValueError(f"the schema has no table {table}")
    txn.execute(f"alter table {table} rename to old_{table}")
    txn.execute(create_table[0])
    for columns in _read_blocks(rows, table):
        short, texts = shorten(columns)
        store.long_texts.write(texts)
        with txn.registered(short):
            txn.execute(f"insert into {table} by name from incoming")
    txn.execute(f"drop table old_{table}")


def _read_blocks(rows: Rows, table: str) -> Iterator[pa.Table]:
    """Yield the rows in order, as many as DuckDB reads at once, or one by one if memory is too small.

    Read outside the transaction, which an error would end.
    """
    last_rowid = rows.value(f"select max(rowid) from {table}")
    for begin in range(0, 0 if last_rowid is None else last_rowid + 1, VECTOR):
        span = [begin, begin + VECTOR]
        try:
            yield _read(rows, table, "rowid >= ? and rowid < ?", span)
        except duckdb.OutOfMemoryException:
            for row in rows.rows(f"select rowid as place from {table} where rowid >= ? and rowid < ?", span):
                yield _read(rows, table, "rowid = ?", [row["place"]])


def _read(rows: Rows, table: str, where: str, params: list[int]) -> pa.Table:
    return rows.cursor.sql(f"select * from {table} where {where}", params=params).to_arrow_table()


KEPT_REVIEWS = (
    5  # reviews of one pull request, the newest: the round that stands, the one approved before it, and their titles
)
LISTS = ("flags", "findings", "left_out")  # JSON, the strongest first
NEWEST = "coalesce(reviewed_clock, begun_clock) desc, round desc, patch_ref, said, rules"
SUPERSEDED = f"""
delete from content_reviews where rowid in (
  select rowid from content_reviews where $pulls is null or list_contains($pulls, pull_uri)
  qualify row_number() over (partition by pull_uri order by {NEWEST}) > {KEPT_REVIEWS}
)
"""
UNREAD_ROUNDS = """
delete from touched_files where ($pulls is null or list_contains($pulls, pull_uri))
  and pull_uri in (select pull_uri from content_reviews)
  and (pull_uri, patch_ref) not in (select (pull_uri, patch_ref) from content_reviews)
  and (pull_uri, patch_ref) not in (
    select (pull_uri, arg_min(patch_ref, (round, seen_at))) from pull_rounds group by pull_uri)
"""
LONG_REVIEWS = f"""
select rowid as place, {", ".join(LISTS)} from content_reviews
where {" or ".join(f"strlen({name}) > {COLUMN_BYTES}" for name in LISTS)}
"""
LONG_PATHS = f"select rowid as place, paths from touched_files where strlen(paths::varchar) > {COLUMN_BYTES}"


def drop_superseded(txn: Transaction, pulls: Sequence[str] | None = None) -> None:
    """Keep the newest reviews of these pull requests (of all, if none are named), and the files of their rounds.

    The files of the first round stay as well: models learn from these.
    """
    for statement in (SUPERSEDED, UNREAD_ROUNDS):
        txn.execute(statement, {"pulls": None if pulls is None else list(pulls)})


def bound_old_reviews(txn: Transaction) -> None:
    """Apply today's bounds to the rows of a version without bounds; a list of files that is cut is marked as cut."""
    drop_superseded(txn)
    for row in txn.rows(LONG_REVIEWS):
        lists = [_cut_json(row[name]) for name in LISTS]
        txn.execute(
            f"update content_reviews set {', '.join(f'{name} = ?' for name in LISTS)} where rowid = ?",
            [*lists, row["place"]],
        )
    for row in txn.rows(LONG_PATHS):
        txn.execute(
            "update touched_files set paths = ?, whole = false where rowid = ?", [fitting(row["paths"]), row["place"]]
        )


def _cut_json(text: str) -> str:
    if len(text.encode()) <= COLUMN_BYTES:
        return text
    items: list[Any] = msgspec.json.decode(text)
    return msgspec.json.encode(fitting(items)).decode()
