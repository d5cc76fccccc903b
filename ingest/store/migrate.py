"""A store of an older version brought to today's schema: what was learned is kept, what follows is derived anew.

From version 2 on tables and columns were added, and letters learned where their event stands. Of version 1 the log,
people, repositories with their names and numbers, what the operator said and every decision ever made are kept. What
else there was follows from the log: the hop `derive` begins at its first event again, so collections that had no table
before are read too. Everything happens in one transaction; the caller checkpoints.

Long texts move beside the store, also of one that cannot be checkpointed. A table is written anew without them and the
old one is dropped, so that no checkpoint reads them: an update would leave them in its blocks. Files of the archive are
read by pyarrow, a few rows at a time: DuckDB takes up the texts of 2,048 rows of them at once too.

Stored reviews are bounded: so many rows of each pull request, so many bytes of each list in a row. Paths and titles are
the author's, and each new round or title is read anew: without a bound one author fills the store with rows that DuckDB
cannot scan within its memory.
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
# Rows that a listing brought had their CID for a rev; an event was told apart by its time where it had neither.
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
# That version had no backfill: what is older than its first frame is a gap, which the worker has filled by itself.
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
)
# Until version 4 a pull request was drawn for the audit once for all its rounds: that draw stands for the newest one.
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
# Until version 8 the figures of a score were kept packed: unpacking those of 100 people takes 3 ms of 5.
PACKED = """
select exists (from duckdb_tables() where table_name = 'current_scores' and not contains(lower(sql), 'uncompressed'))
"""
SCORES = "insert into current_scores by name from old_current_scores"
MADE_ANEW = {"audit_draws": (DRAWN_ONCE, DRAWS), "current_scores": (PACKED, SCORES)}  # table: whether, and its rows
TO_VERSION_9 = (
    # A review's rules were named by a hash of their sources. This hash is version 1: what it read is not read again.
    "update content_reviews set rules = '1' where rules = '1beeb51dfe147950'",
    # A merge counted as reverted where a commit named it and took away one line of the same text. All are mined once
    # more: what holds keeps the moment from which it was known, the rest goes, and what only changed some lines of a
    # merge is found as such.
    "update mirrors set followups_mark = null",
    "update landings set followed = false "
    "where pull_uri in (select pull_uri from pull_followups where kind = 'reverted')",
)
_CREATED = re.compile(r"^create (table|sequence|index) ", re.MULTILINE)


def bring_up(txn: Transaction, schema: str, version: int) -> None:
    """Turn a file of this schema version into one of today; `schema` are the statements that make an empty one."""
    if version < 2:
        _from_version_1(txn, schema)
        return
    _add_missing(txn, schema)
    if version < 3:
        txn.execute(LETTERS)
    if version < 9:
        for statement in TO_VERSION_9:
            txn.execute(statement)
        bound_old_reviews(txn)


def _add_missing(txn: Transaction, schema: str) -> None:
    """Add the tables, columns and indexes that a file of version 2 or later lacks; views are made anew."""
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


def _from_version_1(txn: Transaction, schema: str) -> None:
    tables = [row["table_name"] for row in txn.rows("select table_name from duckdb_tables()")]
    given = txn.value("select last_value from duckdb_sequences() where sequence_name = 'repository_numbers'") or 0
    for table in tables:
        txn.execute(f"alter table {table} rename to old_{table}")
    txn.execute("drop sequence repository_numbers")
    txn.cursor.execute(schema)
    for table in KEPT_TABLES:
        txn.execute(f"insert into {table} by name from old_{table}")
    for statement in (EVENTS, NEVER_ASKED, *REST):
        txn.execute(statement)
    txn.rows("select nextval('repository_numbers') from range(?)", [given])
    for table in tables:
        txn.execute(f"drop table old_{table}")


TABLES = ("events", "dead_letters")  # each has its text in `body`
MARK = ("long_texts", "beside, archived too")  # in `meta` once neither a table nor the archive holds a long text
VECTOR = 2048  # rows that DuckDB reads at once
ARCHIVED = 32  # rows of the archive that are read at once


def are_moved(rows: Rows) -> bool:
    """Return whether no table of the store and no file of its archive holds a long text."""
    return rows.value("select value from meta where key = ?", [MARK[0]]) == MARK[1]


def move_long_texts(store: "Store", txn: Transaction, schema: str) -> list[Path]:
    """Put the long texts of every table and of the archive beside the store; the files that the commit replaces.

    `schema` are the statements that make an empty store. While a file of the archive is missing, as on a drive that is
    not mounted, the next start looks again.
    """
    with store.read() as rows:
        for table in TABLES:
            if _has_long_texts(rows, table):
                _write_anew(store, rows, txn, table, schema)
    noted = [Path(row["path"]) for row in txn.rows("select path from event_segments order by path")]
    present = [path for path in noted if path.is_file()]
    replaced = [path for path in present if _archives_long_texts(path)]
    for path in replaced:
        made = _write_segment_anew(store.long_texts, path)
        txn.execute("update event_segments set path = ? where path = ?", [str(made), str(path)])
    if present == noted:
        txn.execute("insert or replace into meta values (?, ?)", list(MARK))
    return replaced


def _archives_long_texts(path: Path) -> bool:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ARCHIVED, columns=["body"]):
            _, texts = shorten(pa.Table.from_batches([batch]))
            if texts:
                return True
    return False


def _write_segment_anew(texts: LongTexts, path: Path) -> Path:
    """Write a file with the same rows in the same order and no long text, on the drive before this returns."""
    made = free_path(path.parent, path.stem)
    partial = made.with_suffix(".partial")
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
    put_in_place(partial, made)
    return made


def _has_long_texts(rows: Rows, table: str) -> bool:
    sql = f"select exists (from {table} where strlen(body) > ? or starts_with(body, ?))"
    try:
        return rows.value(sql, [LIMIT, PREFIX])
    except duckdb.OutOfMemoryException:
        return True


def _write_anew(store: "Store", rows: Rows, txn: Transaction, table: str, schema: str) -> None:
    made = re.search(rf"^create table {table} \(.*?^\);", schema, re.MULTILINE | re.DOTALL)
    if made is None:
        raise ValueError(f"the schema has no table {table}")
    txn.execute(f"alter table {table} rename to old_{table}")
    txn.execute(made[0])
    for columns in _blocks(rows, table):
        short, texts = shorten(columns)
        store.long_texts.write(texts)
        with txn.registered(short):
            txn.execute(f"insert into {table} by name from incoming")
    txn.execute(f"drop table old_{table}")


def _blocks(rows: Rows, table: str) -> Iterator[pa.Table]:
    """The rows in order, as many at a time as DuckDB reads at once; one by one where those do not fit into memory.

    Read outside the transaction, which an error would end.
    """
    last = rows.value(f"select max(rowid) from {table}")
    for begin in range(0, 0 if last is None else last + 1, VECTOR):
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
"""
LONG_REVIEWS = f"""
select rowid as place, {", ".join(LISTS)} from content_reviews
where {" or ".join(f"strlen({name}) > {COLUMN_BYTES}" for name in LISTS)}
"""
LONG_PATHS = f"select rowid as place, paths from touched_files where strlen(paths::varchar) > {COLUMN_BYTES}"


def drop_superseded(txn: Transaction, pulls: Sequence[str] | None = None) -> None:
    """Keep the newest reviews of these pull requests, of all without any named, and the files of their rounds."""
    for statement in (SUPERSEDED, UNREAD_ROUNDS):
        txn.execute(statement, {"pulls": None if pulls is None else list(pulls)})


def bound_old_reviews(txn: Transaction) -> None:
    """Bring the rows of a version without bounds down to today's; a list of files that is cut says that it is."""
    drop_superseded(txn)
    for row in txn.rows(LONG_REVIEWS):
        lists = [_fitting_json(row[name]) for name in LISTS]
        txn.execute(
            f"update content_reviews set {', '.join(f'{name} = ?' for name in LISTS)} where rowid = ?",
            [*lists, row["place"]],
        )
    for row in txn.rows(LONG_PATHS):
        txn.execute(
            "update touched_files set paths = ?, whole = false where rowid = ?", [fitting(row["paths"]), row["place"]]
        )


def _fitting_json(text: str) -> str:
    if len(text.encode()) <= COLUMN_BYTES:
        return text
    items: list[Any] = msgspec.json.decode(text)
    return msgspec.json.encode(fitting(items)).decode()
