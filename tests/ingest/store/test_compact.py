"""Writing the file anew while others read and write: nobody sees half of it, and no other process comes to own it."""

import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.store.digest import LEFT_OUT, digest
from ingest.store.snapshots import SnapshotReader, publish
from ingest.store.transaction import Gate
from ingest.stream.load import load
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, SOURCE, Frames, digest_of, pull_uri, rows, take
from tests.stores import opened_elsewhere

SECRET = "zq7SECRETzq7"


def shape(store: Store) -> list[tuple[object, ...]]:
    """Tables, keys, indexes, views and sequences."""
    return (
        rows(store, "select table_name, sql from duckdb_tables() order by all")
        + rows(store, "select table_name, constraint_text from duckdb_constraints() order by all")
        + rows(store, "select table_name, sql from duckdb_indexes() order by all")
        + rows(store, "select view_name, sql from duckdb_views() where not internal order by all")
        + rows(store, "select sequence_name, last_value from duckdb_sequences() order by all")
    )


def test_deleted_bytes_are_gone_and_keys_indexes_views_and_sequences_stay(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "trust.duckdb")
    with store.write() as txn:
        txn.execute("insert into meta select 'k' || i, ? || i from range(5000) t(i)", [SECRET])
        txn.value("select nextval('repository_numbers') from range(7)")
    store.checkpoint()
    before = shape(store)
    with store.write() as txn:
        txn.execute("delete from meta where key like 'k%'")
    store.compact()
    assert shape(store) == before
    with store.write() as txn:
        txn.execute("insert into meta values ('after', 'kept')")
    store.close()
    assert [path.name for path in store.path.parent.iterdir()] == ["trust.duckdb"]
    assert SECRET.encode() not in store.path.read_bytes()
    again = Store.open(store.path)
    assert rows(again, "select value from meta where key = 'after'") == [("kept",)]
    again.close()


def test_readers_and_writers_go_on_around_it(store: Store) -> None:
    stop, problems, written = threading.Event(), list[object](), [0]

    def read() -> None:
        while not stop.is_set():
            with store.read() as outer, store.read() as inner:
                if outer.value("select count(*) from meta") < inner.value("select 1"):
                    problems.append("a reader saw an empty file")

    def write() -> None:
        while not stop.is_set():
            with store.write() as txn:
                txn.execute("insert into meta values (?, '')", [f"w{written[0]}"])
            written[0] += 1

    threads = [threading.Thread(target=job) for job in (read, read, write)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            store.compact()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []
    assert rows(store, "select count(*) from meta where key like 'w%'") == [(written[0],)]


def test_afterwards_as_before_no_other_process_may_own_the_file(store: Store) -> None:
    store.compact()
    assert "Conflicting lock is held" in opened_elsewhere(store.path)


def test_a_reader_that_stays_is_waited_for_and_then_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.store.transaction.DRAIN_SECONDS", 0.2)
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with store.read():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    with pytest.raises(StoreProblem, match="reads for more than"):
        store.compact()
    leave.set()
    thread.join()
    store.compact()


def test_who_reads_cannot_compact_and_is_told_so_at_once(store: Store) -> None:
    with store.read(), pytest.raises(StoreProblem, match="this thread reads"):
        store.compact()


def test_a_leftover_of_a_kill_is_removed_by_the_next_owner(tmp_path: Path) -> None:
    (tmp_path / "trust.duckdb.compacting").write_bytes(b"half")
    Store.open(tmp_path / "trust.duckdb").close()
    assert [path.name for path in tmp_path.iterdir()] == ["trust.duckdb"]


def test_a_gate_keeps_newcomers_out_until_it_opens() -> None:
    gate, order = Gate(), list[str]()

    def come() -> None:
        with gate.passing():
            order.append("in")

    with gate.shut():
        thread = threading.Thread(target=come)
        thread.start()
        time.sleep(0.05)
        order.append("opened")
    thread.join()
    assert order == ["opened", "in"]


def test_of_two_who_shut_a_gate_the_second_waits_only_where_it_says_so() -> None:
    gate, order = Gate(), list[str]()

    def shut() -> None:
        with gate.shut(after_another=True):
            order.append("second")

    with gate.shut():
        with pytest.raises(TimeoutError, match="another one compacts"), gate.shut():
            pass
        thread = threading.Thread(target=shut)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


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
            txn.execute(
                "insert into trust values (0, 1, ?, 0.5, 0.5, 1, [1], [], null, false, 0, 0, 1, false)", [value]
            )
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
