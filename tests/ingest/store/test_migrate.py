"""A store of the version before is opened, and says what one says that was filled today."""

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from ingest.backfill.runs import next_run
from ingest.store.database import SCHEMA, SCHEMA_VERSION, Store
from ingest.store.migrate import ADDED
from ingest.stream.batch import read_batch
from ingest.stream.load import load, store_batch
from tests.conftest import count
from tests.ingest.backup.kept_state import back_up, make_drive, open_drive, put_back
from tests.ingest.stream.frames import (
    ANA,
    FIRST_US,
    MARA,
    REPO,
    SEED,
    SOURCE,
    Frames,
    digest_of,
    letters,
    pull_uri,
    rows,
    take,
)
from tests.ingest.stream.listening import written

VERSION_1 = Path(__file__).with_name("version_1.sql")
INDEXES = "select table_name, index_name, sql from duckdb_indexes() order by all"
SAME = ("repository_aliases", "watched_repositories", "maintainers", "hops", "fetches")
CHANGED = (
    "insert into old.repositories by name select * exclude upstream from repositories",
    "insert into old.scores by name select * exclude (trust_measure, inputs, data_version) from scores",
    "insert into old.meta select key, case key when 'schema_version' then '1' else value end from meta",
    "insert into old.ingest_state by name select * exclude (server_seq, server, resume_us) from ingest_state",
    "insert into old.events by name select * exclude late replace ('old' || event_seq as event_id) from events",
    "insert into old.contributors by name select * exclude archived_rev from contributors",
    "insert into old.dead_letters by name select * exclude (event_seq, due_clock) "
    "replace (if(event_id is null, letter_id, 'old') as letter_id) from dead_letters",
)


@contextmanager
def old_store(path: Path, version: int, tables: str = "*.sql") -> Generator[duckdb.DuckDBPyConnection]:
    """A store that says that it is of this version, with today's tables, for a test to take them back from."""
    with duckdb.connect(str(path)) as old:
        for part in sorted(SCHEMA.glob(tables)):
            old.execute(part.read_text())
        old.execute("insert into meta values ('schema_version', ?)", [str(version)])
        yield old


def history() -> Frames:
    """Repositories, vouches that change, a merge, a deletion, an account, a frame and a record that cannot be read."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(ANA, "other", repoDid=REPO)
    frames.vouch(SEED, ANA)
    frames.vouch(SEED, ANA, "update", kind="denounce")
    frames.pull(MARA, "one")
    frames.pull(MARA, "two")
    frames.delete(MARA, "sh.tangled.repo.pull", "two")
    frames.status(SEED, pull_uri(MARA, "one"), "merged")
    frames.account(MARA, active=False, status="deactivated")
    frames.commit(ANA, "sh.tangled.graph.vouch", "no did", {})
    frames.append(b"no frame")
    return frames


def test_a_migrated_store_says_what_a_fresh_one_says(store: Store, tmp_path: Path) -> None:
    take(store, history())
    with store.write() as txn:
        txn.execute("insert into watched_repositories select repository_id, 'off', now() from repositories limit 1")
    fresh, newer = digest_of(store), letters(store)
    store.checkpoint()
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as old:
        old.execute(VERSION_1.read_text())
    with store.read() as found:
        found.cursor.execute(f"attach '{path}' as old")
        for statement in (*(f"insert into old.{table} from {table}" for table in SAME), *CHANGED):
            found.cursor.execute(statement)
        found.cursor.execute("detach old")
    migrated = Store.open(path)
    take(migrated, [])
    assert digest_of(migrated) == fresh
    assert letters(migrated) == newer
    assert rows(migrated, "select value from meta where key = 'schema_version'") == [(str(SCHEMA_VERSION),)]
    assert rows(migrated, "select count(*) from duckdb_tables() where starts_with(table_name, 'old_')") == [(0,)]
    take(migrated, history())
    assert digest_of(migrated) == fresh, "what was logged before was logged again"
    migrated.close()
    Store.open(path).close()


def test_numbers_of_repositories_go_on_after_a_migration(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as old:
        old.execute(VERSION_1.read_text())
        old.execute("insert into meta values ('schema_version', '1')")
        old.execute("select nextval('repository_numbers') from range(7)")
    store = Store.open(path)
    assert rows(store, "select nextval('repository_numbers')") == [(8,)]
    store.bind(SOURCE)
    store.close()


@pytest.mark.parametrize(("source", "gaps"), [("jetstream", [(0, 7, None)]), ("demo", [])])
def test_a_live_store_of_that_version_is_backfilled_by_itself(
    tmp_path: Path, source: str, gaps: list[tuple[object, ...]]
) -> None:
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as old:
        old.execute(VERSION_1.read_text())
        old.execute("insert into meta values ('schema_version', '1')")
        old.execute(
            "insert into ingest_state by name select ? as source, 7 as cursor_us, 0 as dropped_strangers, "
            "now()::timestamp as moved_clock",
            [source],
        )
    store = Store.open(path)
    assert rows(store, "select from_us, to_us, filled_clock from gaps") == gaps
    assert (next_run(store) is not None) is bool(gaps)
    store.close()


def test_a_store_of_version_2_gains_the_tables_that_came_later_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 2, "[1-5]_*.sql") as old:
        old.execute("drop table unread_events")
        old.execute("drop index current_scores_by_person")
        for table, column in ADDED:
            old.execute(f"alter table if exists {table} drop column {column.split()[0]}")
        old.execute(
            "insert into events by name select 'e' as event_id, 7 as event_seq, 'test' as source, 'commit' as kind, "
            "'did:plc:a' as did, localtimestamp as seen_at, false as late, localtimestamp as loaded_clock"
        )
        old.execute("insert into dead_letters values ('l', 1, 'e', 'test', 'why', '', localtimestamp)")
        old.execute(
            "insert into repositories (repo_key, repository_id) values ('did:plc:kept', nextval('repository_numbers'))"
        )
    store = Store.open(path)
    assert rows(store, "select repo_key from repositories") == [("did:plc:kept",)]
    assert rows(store, "select count(*) from advisories") == [(0,)]
    assert rows(store, "select letter_id, event_seq from dead_letters") == [("l", 7)]
    assert rows(store, "select nextval('repository_numbers')") == [(2,)]
    fresh = Store.open(tmp_path / "fresh.duckdb")
    assert rows(store, INDEXES) == rows(fresh, INDEXES) != []
    store.close()
    listed = "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    with duckdb.connect(str(path)) as migrated:
        assert migrated.execute(listed).fetchall() == rows(fresh, listed)
    fresh.close()


def test_a_store_of_version_3_keeps_its_decisions_which_have_no_inputs(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 3) as old:
        old.execute("drop index current_scores_by_person")
        for table, column in ADDED[1:]:
            old.execute(f"alter table {table} drop column {column.split()[0]}")
        old.execute(
            "insert into scores by name select 'one' as score_id, 1 as contributor_id, 2 as repository_id, "
            "'at://pull' as pull_uri, localtimestamp as as_of, 0.1 as low, 0.9 as high, 3 as cases, 0.5 as "
            "structural_trust, 0.0 as eigentrust, 'normal_queue' as lane, '[]' as reasons, '[]' as factors, 'm' as "
            "model_version, '{}' as thresholds, localtimestamp as decided_clock"
        )
    migrated = Store.open(path)
    assert rows(migrated, "select score_id, lane, inputs, data_version from scores") == [
        ("one", "normal_queue", None, None)
    ]
    listed = "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    assert rows(migrated, listed) == rows(store, listed)
    migrated.close()


def test_a_draw_for_the_audit_of_all_rounds_stands_for_the_newest_one(store: Store, tmp_path: Path) -> None:
    take(store, history())
    store.checkpoint()
    path = tmp_path / "old.duckdb"
    shutil.copy(store.path, path)
    with duckdb.connect(str(path)) as old:
        old.execute("update meta set value = '4' where key = 'schema_version'")
        old.execute("drop table audit_draws")
        old.execute(
            "create table audit_draws (pull_uri varchar primary key, repository_id integer not null, odds double not "
            "null, drawn boolean not null, drawn_at timestamp not null, drawn_clock timestamp not null)"
        )
        old.execute("insert into audit_draws values (?, 1, 0.5, true, now(), now())", [pull_uri(MARA, "one")])
        old.execute("insert into audit_draws values ('at://erased', 1, 1.0, false, now(), now())")
    migrated = Store.open(path)
    told = (
        "select d.odds, d.drawn, d.record_cid = p.record_cid, d.round = p.round "
        "from audit_draws d join pull_requests p using (pull_uri)"
    )
    assert rows(migrated, told) == [(0.5, True, True, True)]
    assert rows(migrated, "select count(*) from audit_draws") == [(2,)]
    assert rows(migrated, "select count(*) from duckdb_tables() where starts_with(table_name, 'old_')") == [(0,)]
    migrated.close()


def test_a_store_of_version_5_gains_the_columns_of_a_borrowed_order(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 5) as old:
        for column in ("borrowed", "borrowed_from"):
            old.execute(f"alter table current_decisions drop column {column}")
    migrated = Store.open(path)
    listed = "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    assert rows(migrated, listed) == rows(store, listed)
    migrated.close()


def test_scores_that_were_kept_packed_are_kept_as_they_are_read(store: Store, tmp_path: Path) -> None:
    made = "select sql from duckdb_tables() where table_name = 'current_scores'"
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as old:
        for part in sorted(SCHEMA.glob("*.sql")):
            old.execute(part.read_text().replace(" using compression uncompressed", ""))
        old.execute("drop index current_scores_by_person")
        old.execute(
            "insert into current_scores select 7, n, '2026-01-01', 0.1 + n / 1e9, 1000, 0, 1, n, 0.5, 0.25, null, 'l', "
            "'[]', '[]', 'm', 'first_passage', '{}', null from range(3000) r(n)"
        )
        kept = old.execute("select * from current_scores order by all").fetchall()
        old.execute("insert into meta values ('schema_version', '7')")
    migrated = Store.open(path)
    assert rows(migrated, "select * from current_scores order by all") == kept
    assert rows(migrated, made) == rows(store, made) != []
    assert rows(migrated, INDEXES) == rows(store, INDEXES)
    migrated.close()
    with duckdb.connect(str(path)) as shut:
        packed = (
            "select distinct compression from pragma_storage_info('current_scores') where column_name = 'probability' "
        )
        assert shut.execute(packed + "and segment_type = 'DOUBLE'").fetchall() == [("Uncompressed",)]


def test_a_backup_of_the_version_before_is_brought_up_once_it_is_restored(tmp_path: Path) -> None:
    drive, other = make_drive(tmp_path / "drive"), make_drive(tmp_path / "other")
    store = open_drive(drive)
    take(store, history())
    indexes, told = rows(store, INDEXES), digest_of(store)
    with store.write() as txn:
        txn.execute("drop index current_scores_by_person")
        txn.execute("update meta set value = '7' where key = 'schema_version'")
    back_up(store, drive, tmp_path / "backup")
    store.close()
    put_back(tmp_path / "backup", other)
    restored = open_drive(other)
    assert rows(restored, INDEXES) == indexes != []
    assert digest_of(restored) == told
    restored.close()


def test_a_store_of_version_8_has_what_was_reverted_mined_once_more(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 8) as old:
        old.execute(
            "insert into mirrors by name select 1 as repository_id, 'fetched' as state, 0 as bytes, '{}' as refs, "
            "'14 mark' as followups_mark"
        )
        for pull, kind in (("one", "reverted"), ("two", "patched")):
            old.execute(
                "insert into landings by name select ? as pull_uri, 'c' as commit_id, 'main' as branch, 0 as round, "
                "'2026-01-01'::timestamp as landed_at, 'patch_id' as proof, true as followed, true as proven",
                [pull],
            )
            old.execute("insert into pull_followups values (?, ?, '2026-01-02', '2026-01-02', 'd', null)", [pull, kind])
    migrated = Store.open(path)
    assert rows(migrated, "select followups_mark from mirrors") == [(None,)]
    assert rows(migrated, "select pull_uri, followed from landings order by pull_uri") == [
        ("one", False),
        ("two", True),
    ]
    assert rows(migrated, "select count(*) from pull_followups") == [(2,)]
    migrated.close()
    again = Store.open(path)
    with again.write() as txn:
        txn.execute("update mirrors set followups_mark = '14 mark'")
    again.close()
    again = Store.open(path)
    assert rows(again, "select followups_mark from mirrors") == [("14 mark",)]
    again.close()


def test_a_lane_that_was_opened_before_models_were_kept_stands_and_names_none(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    Store.open(path).close()
    with duckdb.connect(str(path)) as old:
        old.execute("alter table estimated_lanes drop column model")
        old.execute(
            "insert into estimated_lanes values ('k', 1, 0.8, 'own', 40, 20, 1, 0.02, 0.09, null, now(), now())"
        )
        old.execute("update meta set value = '10' where key = 'schema_version'")
    store = Store.open(path)
    assert rows(store, "select opening_key, bad_high, model from estimated_lanes") == [("k", 0.09, None)]


def test_a_store_of_version_11_goes_on_at_its_cursor(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    store = Store.open(path)
    store.bind(SOURCE)
    load(store, SOURCE, written(20))
    store.close()
    with duckdb.connect(str(path)) as old:
        old.execute("alter table ingest_state drop column resume_us")
        old.execute("update meta set value = '11' where key = 'schema_version'")
    store = Store.open(path)
    held = store_batch(store, SOURCE, read_batch(written(30)[20:]), until_us=0)
    assert held.resume_us == FIRST_US + 19_000_000
    store.close()


def test_a_store_of_version_14_keeps_its_settings_and_reads_no_time_zones(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    Store.open(path).close()
    with duckdb.connect(str(path)) as old:
        old.execute("drop view declared_keys")
        old.execute("drop table round_commits")
        old.execute("alter table repository_settings drop column time_zones")
        old.execute(
            "insert into repository_settings by name select 1 as repository_id, 3 as version, "
            "now()::timestamp as set_at, 'public' as tier, [] as never_fast_paths, [] as sensitive_paths, "
            "[] as accepted_issuers, [] as organisation_domains, true as shadow"
        )
        old.execute(
            "insert into public_keys values ('at://did:plc:a/sh.tangled.publicKey/k', 1, null, 'k', "
            "'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHxx a laptop', now(), now(), now(), null), "
            "('at://did:plc:a/sh.tangled.publicKey/odd', 1, null, 'odd', 'no key at all', now(), now(), now(), null)"
        )
        old.execute("update meta set value = '14' where key = 'schema_version'")
    store = Store.open(path)
    assert rows(store, "select version, time_zones from repository_settings") == [(3, None)]
    assert rows(store, "select count(*) from round_commits") == [(0,)]
    assert rows(store, "select fingerprint from declared_keys") == [
        ("SHA256:44ACUiFfySnS9sMA7yW6LknMv/qS2exosIx2K+6pRRs",)
    ]


def test_a_store_of_version_9_keeps_its_draws_and_answers_which_no_estimated_lane_made(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    Store.open(path).close()
    with duckdb.connect(str(path)) as old:
        old.execute("drop view waved_through")
        for table in ("estimated_lanes", "estimated_ends"):
            old.execute(f"drop table {table}")
        for table in ("audit_draws", "audits"):
            old.execute(f"alter table {table} drop column estimated")
        old.execute("insert into audit_draws values ('p', 0, '', '', 1, 0.5, true, now(), now())")
        old.execute(
            "insert into audits values ('k', 'p', 1, null, 0, null, 0.5, now(), true, 'read', null, now(), now())"
        )
        old.execute("update meta set value = '9' where key = 'schema_version'")
    store = Store.open(path)
    assert rows(store, "select value from meta where key = 'schema_version'") == [(str(SCHEMA_VERSION),)]
    assert rows(store, "select odds, estimated from audit_draws union all select odds, estimated from audits") == [
        (0.5, None),
        (0.5, None),
    ]
    for table in ("estimated_lanes", "estimated_ends", "waved_through"):
        assert rows(store, f"select count(*) from {table}") == [(0,)]
    store.close()


def test_a_store_of_version_16_keeps_the_sites_trust_and_that_in_who_offered_something(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 16) as old:
        old.execute("alter table trust drop column other_seed")
        old.execute(
            "insert into pull_requests by name select 'p' as pull_uri, 7 as author_id, 1 as repository_id, "
            "'' as title, '' as body, 'rounds' as record_form, 0 as round, 1 as round_count, now() as opened_at, "
            "now() as seen_at, now() as changed_at, 'merged' as state"
        )
        for repository, person in ((0, 7), (0, 8), (1, 7), (1, 8), (2, 7)):
            old.execute(
                "insert into trust values (?, ?, 1, 0.9, 0.1, 1, [], [], null, false, 0, 0, 1)", [repository, person]
            )
    store = Store.open(path)
    kept = rows(store, "select repository_id, contributor_id, other_seed from trust order by all")
    assert kept == [(0, 7, None), (0, 8, None), (1, 7, None)]
    store.close()


def test_in_a_store_of_version_17_a_row_of_a_repository_can_be_without_a_share(tmp_path: Path) -> None:
    path, insert = (
        tmp_path / "old.duckdb",
        "insert into trust values (?, 7, 1, 0.9, ?, 1, [], [], null, false, 0, 0, 1, false)",
    )
    with old_store(path, 17) as old:
        old.execute("alter table trust alter column eigentrust set not null")
        old.execute(insert, [0, 0.1])
    store = Store.open(path)
    with store.write() as txn:
        txn.execute(insert, [1, None])
    assert rows(store, "select repository_id, eigentrust from trust order by all") == [(0, 0.1), (1, None)]
    store.close()


def test_a_step_to_a_later_version_does_not_repeat_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trust.duckdb"
    store = Store.open(path)
    with store.write() as txn:
        txn.execute(
            "insert into mirrors by name select 1 as repository_id, 'fetched' as state, 0 as bytes, '{}' as refs, "
            "'14 mark' as followups_mark"
        )
    store.close()
    monkeypatch.setattr("ingest.store.database.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    later = Store.open(path)
    assert rows(later, "select value from meta where key = 'schema_version'") == [(str(SCHEMA_VERSION + 1),)]
    assert rows(later, "select followups_mark from mirrors") == [("14 mark",)]
    later.close()


REVIEW = """
insert into content_reviews by name select ? as pull_uri, ? as patch_ref, 's' as said, '1' as rules, 1 as repository_id,
  0 as round, 'content verdict' as state, 0 as attempts, 0 as failures, 'deterministic' as asked, 'no_key' as
  asked_because, 'deterministic' as reviewer, 0.8 as content_risk, true as recommended, 1 as coverage, 1 as high_flags,
  's' as summary, '[]' as flags, ? as findings, '[]' as left_out, 0 as dollars,
  '2026-01-01'::timestamp + to_hours(?) as begun_clock, begun_clock as reviewed_clock
"""


def test_a_store_of_version_8_has_the_newest_reviews_of_a_pull_request_and_no_long_lists(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    long = json.dumps([{"rule": "r", "file": f"{number:03}" + "f" * 3_600} for number in range(100)])
    with duckdb.connect(str(path)) as old:
        for part in sorted(SCHEMA.glob("*.sql")):
            old.execute(part.read_text())
        old.execute("insert into meta values ('schema_version', '8')")
        for number in range(count(100, 800)):
            old.execute(REVIEW, [f"pull {number // 10}", f"blob:{number % 10}", long, number])
        old.execute(
            "insert into touched_files values ('pull 0', 'blob:9', [], list_transform(range(100), "
            "lambda x: repeat('p', 3000) || x), true), ('pull 0', 'blob:0', [], ['a'], true)"
        )
    store = Store.open(path, memory_mb=160)
    found = rows(store, "select patch_ref, count(*) from content_reviews group by all order by all")
    assert found == [(f"blob:{number}", count(10, 80)) for number in range(5, 10)]
    assert rows(
        store,
        "select max(strlen(findings)) <= 32000, count(*) from content_reviews where "
        "contains(findings, 'like-known-bad')",
    ) == [(None, 0)]
    (shortened,) = rows(store, "select distinct findings from content_reviews")[0]
    assert [item["file"][:3] for item in json.loads(shortened)] == [f"{number:03}" for number in range(7)]
    assert rows(store, "select patch_ref, len(paths), whole from touched_files") == [("blob:9", 9, False)]
    store.close()


def test_a_store_of_version_8_has_patches_that_git_was_not_asked_about_yet(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 8) as old:
        for table in ("patches", "content_reviews"):
            old.execute(f"alter table {table} drop column git_reading")
        old.execute("alter table patches drop column git_line")
        old.execute("insert into patches values ('at://a/1', 'blob:one', 'p', 's', 1, 1, 1, 1, 'read', true, [], [])")
    store = Store.open(path)
    assert rows(store, "select sha256, git_reading, git_line from patches") == [("s", None, None)]
    store.close()


def test_a_store_of_version_14_gains_the_table_of_claims_on_accounts(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with old_store(path, 14) as old:
        old.execute("drop table account_claims")
        old.execute("insert into signals values ('did:plc:a', 'plc', 'pds_moves', '1', now(), now(), null, null, null)")
    migrated = Store.open(path)
    listed = "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    assert rows(migrated, listed) == rows(store, listed)
    assert rows(migrated, "select subject, key from signals") == [("did:plc:a", "pds_moves")]
    migrated.close()
