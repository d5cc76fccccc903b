"""Two stores are equal when their tables say the same, whoever got which number and at what time of the wall clock."""

from datetime import datetime
from pathlib import Path

import pytest

from ingest.store.database import Store
from ingest.store.digest import LEFT_OUT, digest
from ingest.store.snapshots import SnapshotReader, publish
from ingest.stream.load import load
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, SOURCE, Frames, digest_of, pull_uri, rows, take


def world() -> Frames:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.vouch(SEED, ANA)
    frames.pull(MARA, "one")
    frames.status(SEED, pull_uri(MARA, "one"), "merged")
    frames.append(b"no frame")
    return frames


def test_every_table_has_a_hash_but_those_that_only_count_work(store: Store) -> None:
    tables = {name for (name,) in rows(store, "select table_name from duckdb_tables()")}
    assert digest_of(store).keys() == tables - LEFT_OUT
    assert {"events", "labels", "features", "current_scores", "current_decisions"} <= digest_of(store).keys()


def test_other_numbers_and_another_wall_clock_are_the_same_state(store: Store, tmp_path: Path) -> None:
    take(store, world())
    later = Store.open(tmp_path / "later.duckdb", lambda: datetime(2040, 1, 1))
    later.bind(SOURCE)
    with later.write() as txn:
        txn.person_ids([MARA, "did:plc:nobody", ANA])
        txn.execute("delete from contributors where did = 'did:plc:nobody'")
        txn.value("select nextval('repository_numbers') from range(9)")
    take(later, world())
    people = "select contributor_id from contributors order by did"
    assert rows(later, people) != rows(store, people)
    assert digest_of(later) == digest_of(store)
    later.close()


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("events", "update events set body = null where event_seq = 1"),
        ("vouches", "update vouches set kind = 'denounce'"),
        ("pull_requests", "update pull_requests set state_at = state_at + interval 1 microsecond"),
        ("statuses", "update statuses set actor_id = 2"),
        ("contributors", "update contributors set did = 'did:plc:other' where contributor_id = 3"),
        ("push_holders", "insert into push_holders values (1, 1, 'owner', 'owner', null, null)"),
        ("dead_letters", "delete from dead_letters"),
    ],
)
def test_any_other_difference_shows(store: Store, open_store: Open, table: str, change: str) -> None:
    other = open_store("other")
    for one in (store, other):
        take(one, world())
    with other.write() as txn:
        txn.execute(change)
    before, after = digest_of(store), digest_of(other)
    assert before[table] != after[table]
    assert table == "contributors" or {name for name in before if before[name] != after[name]} == {table}


def test_a_float_that_differs_in_its_last_places_is_the_same(store: Store, open_store: Open) -> None:
    other = open_store("other")
    for one, value in ((store, 0.1 + 0.2), (other, 0.3)):
        with one.write() as txn:
            txn.person_ids([ANA])
            txn.execute("insert into trust values (0, 1, ?, 0.5, 0.5, 1, [1], [], null, false, 0, 0, 1)", [value])
    assert digest_of(store) == digest_of(other)


def test_a_row_that_names_a_repository_which_is_gone_can_be_hashed(store: Store) -> None:
    with store.write() as txn:
        txn.execute("insert into push_holders values (99, 1, 'owner', 'owner', null, null)")
        txn.person_ids([ANA])
    assert digest_of(store)


def test_a_snapshot_hashes_like_the_store_it_was_made_of(store: Store, tmp_path: Path) -> None:
    load(store, SOURCE, world())
    publish(store, tmp_path / "snapshots")
    reader = SnapshotReader(tmp_path / "snapshots")
    with reader.pin() as pinned:
        assert pinned is not None
        assert digest(pinned) == digest_of(store)
    reader.close()
