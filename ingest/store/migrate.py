"""A store of an older version brought to today's schema: what was learned is kept, what follows is derived anew.

From version 2 on tables and columns were added, and letters learned where their event stands. Of version 1 the log,
people, repositories with their names and numbers, what the operator said and every decision ever made are kept. What
else there was follows from the log: the hop `derive` begins at its first event again, so collections that had no table
before are read too. Everything happens in one transaction; the caller checkpoints.
"""

import re

from ingest.atproto.syntax import IS_TID, NAMESPACE
from ingest.store.contributors import EVENT_ID
from ingest.store.move_texts import bound_old_reviews
from ingest.store.transaction import Transaction

KEPT = ("meta", "contributors", "repositories", "repository_aliases", "watched_repositories", "maintainers", "scores")
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
    for table in KEPT:
        txn.execute(f"insert into {table} by name from old_{table}")
    for statement in (EVENTS, NEVER_ASKED, *REST):
        txn.execute(statement)
    txn.rows("select nextval('repository_numbers') from range(?)", [given])
    for table in tables:
        txn.execute(f"drop table old_{table}")
