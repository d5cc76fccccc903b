"""The one file: who may open it, what a failure or a kill leaves in it."""

import shutil
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from random import Random

import duckdb
import pytest

from ingest.clock import to_microseconds
from ingest.errors import StoreProblem
from ingest.store import contributors
from ingest.store.contributors import BYTES_AN_HOUR, HOUR_US, Intake, Spent
from ingest.store.database import SCHEMA_VERSION, Store, StreamClock
from ingest.store.transaction import PARSED, PARSED_CHARACTERS
from ingest.stream.load import load
from tests.conftest import count
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import ANA, FIRST_US, MARA, SEED, SOURCE, Frames, rows
from tests.sources import PROJECT
from tests.stores import fresh_store
from tests.waiting import LONG_SECONDS, ends_by_itself

SEEN = datetime(2026, 10, 1)
HOLD = """
import sys
from pathlib import Path
from ingest.store.database import Store
store = Store.open(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""
# Loads one frame more each time, derives, and publishes now and then, until it is killed.
LOAD_FOR_EVER = """
import sys
from pathlib import Path
from ingest.records.derive import derive
from ingest.stream.load import load
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, FIRST_US, SOURCE, Frames
store = Store.open(Path(sys.argv[1]))
frames = Frames([b""] * ((store.bind(SOURCE) - FIRST_US) // 1_000_000 + 1) if store.bind(SOURCE) else [])
for turn in range(1_000_000):
    begin = len(frames)
    for _ in range(1 + turn % 40):
        frames.vouch(ANA, f"did:plc:{len(frames) % 50:024d}")
    load(store, SOURCE, frames[begin:])
    derive(store)
    if turn % 7 == 0:
        store.checkpoint()
    if turn == 2:
        print("going", flush=True)
"""

FILL_THE_LOG = """
import sys
from pathlib import Path
from ingest.stream.load import load
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, MARA, SOURCE, Frames
store = Store.open(Path(sys.argv[1]))
store.bind(SOURCE)
frames = Frames()
for _ in range(50):
    frames.vouch(ANA, MARA, reason="x" * 100)
    load(store, SOURCE, frames[-1:])
print("open", flush=True)
sys.stdin.read()
"""


def child(program: str, path: Path) -> subprocess.Popen[str]:
    """A process that has printed its first line."""
    command = [sys.executable, "-c", program, str(path)]
    started = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline().strip() in ("open", "going")
    return started


def refusal(path: Path) -> str:
    """Why the store cannot be opened: one sentence that ends."""
    with pytest.raises(StoreProblem) as caught:
        Store.open(path)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(str(path))
    assert said.endswith(".")
    return said


def test_a_second_owner_is_refused_and_told_which_process_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    with child(HOLD, path) as owner:
        assert f"held by process {owner.pid} " in refusal(path)
        owner.kill()
    Store.open(path).close()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    store = Store.open(path)
    with store.write() as txn:
        txn.execute("update meta set value = '999' where key = 'schema_version'")
    store.close()
    assert f"written by a newer Sunstead (schema 999; this one knows {SCHEMA_VERSION}): update Sunstead" in refusal(
        path
    )
    with duckdb.connect(str(path)) as other:  # nothing holds it any more
        assert other.execute("select count(*) from events").fetchall() == [(0,)]


@pytest.mark.parametrize("statement", ["create table events (a integer)", "create table meta (a integer)"])
def test_a_database_of_something_else_is_left_alone(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute(statement)
    refusal(path)
    with duckdb.connect(str(path)) as other:
        assert other.execute("select count(*) from duckdb_tables()").fetchall() == [(1,)]


def test_a_file_that_is_no_database_or_was_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trust.duckdb"
    Store.open(path).close()
    for data in (Random(1).randbytes(50_000), path.read_bytes()[:5_000]):
        path.write_bytes(data)
        assert "restore a backup, or the newest snapshot" in refusal(path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refusal(tmp_path / "file" / "trust.duckdb")
    refusal(tmp_path)


def test_extensions_are_never_fetched(store: Store) -> None:
    settings = "select name from duckdb_settings() where name like 'auto%extensions' and value <> 'false'"
    assert rows(store, settings) == []
    with pytest.raises(duckdb.Error), store.read() as found:
        found.value("select count(*) from read_xlsx('x.xlsx')")


def test_a_transaction_that_fails_leaves_nothing_not_even_a_number(store: Store) -> None:
    def fail() -> None:
        with store.write() as txn:
            assert txn.person_ids([ANA, MARA], SEEN) == {ANA: 1, MARA: 2}
            txn.inputs_changed()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert rows(store, "select count(*) from contributors") == [(0,)]
    assert rows(store, "select position_seq from hops where name = 'inputs'") == [(0,)]
    assert store.seen_since(ANA) is None
    with store.write() as txn:
        assert txn.person_ids([MARA]) == {MARA: 1}


def test_a_commit_that_fails_leaves_nothing(store: Store) -> None:
    with store.write() as txn:
        txn.person_ids([ANA])

    def fail() -> None:
        with store.write() as txn:
            txn.person_ids([MARA])
            txn.execute("insert into contributors from contributors where did = ?", [ANA])

    with pytest.raises(duckdb.ConstraintException):
        fail()
    with store.write() as txn:
        assert txn.person_ids([SEED]) == {SEED: 2}


def test_people_keep_their_numbers_and_the_first_moment_they_were_seen(tmp_path: Path) -> None:
    later = datetime(2026, 10, 2)
    store = Store.open(tmp_path / "trust.duckdb")
    with store.write() as txn:
        assert txn.register_people({ANA: SEEN, MARA: None}) == {ANA: 1, MARA: 2}
        assert txn.register_people({MARA: SEEN, SEED: None}) == {MARA: 2, SEED: 3}
        assert txn.register_people({MARA: later}) == {MARA: 2}
    with store.write() as txn:
        assert txn.register_people({ANA: later, SEED: later}) == {ANA: 1, SEED: 3}
    store.close()
    store = Store.open(tmp_path / "trust.duckdb")
    known = "select did, first_seen_at from contributors order by contributor_id"
    assert rows(store, known) == [(ANA, SEEN), (MARA, SEEN), (SEED, later)]
    assert store.seen_since(SEED) == later
    with store.write() as txn:
        assert txn.person_ids([SEED]) == {SEED: 3}
    store.close()


def test_a_store_belongs_to_one_stream(store: Store) -> None:
    assert store.bind(SOURCE) == 0
    with pytest.raises(StoreProblem, match=r"was filled from 'test' and this run reads 'other': use another DATA_ROOT"):
        store.bind("other")
    assert rows(store, "select source from ingest_state") == [(SOURCE,)]


def test_the_present_of_a_recording_is_its_newest_frame(store: Store) -> None:
    assert StreamClock(store).now() == datetime(1970, 1, 1)
    with store.write() as txn:
        txn.execute("update ingest_state set cursor_us = ?", [to_microseconds(SEEN)])
    assert StreamClock(store).now() == SEEN


def test_rows_that_are_there_are_left_and_counted_right(store: Store) -> None:
    letter = {"letter_id": "a", "letter_seq": 1, "source": "s", "reason": "r", "body": "b", "found_clock": SEEN}
    with store.write() as txn:
        assert txn.append_new("dead_letters", [letter]) == 1
        assert txn.append_new("dead_letters", [letter | {"reason": "x"}, letter | {"letter_id": "b"}]) == 1
        assert txn.append_new("dead_letters", []) == 0
    assert rows(store, "select letter_id, reason from dead_letters order by 1") == [("a", "r"), ("b", "r")]


def test_reading_never_holds_up_a_checkpoint(store: Store) -> None:
    stop = threading.Event()

    def read() -> None:
        with store.read() as found:
            while not stop.is_set():
                found.row("from range(100_000)")
                found.value("select value from meta, range(1000)")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            with store.write() as txn:
                txn.execute("update meta set value = ? where key = 'source'", [str(number)])
            with ends_by_itself():
                store.checkpoint()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_writers_take_turns(store: Store) -> None:
    def add(name: str) -> None:
        for number in range(20):
            with store.write() as txn:
                txn.person_ids([f"did:plc:{name}{number}"])

    threads = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(store, "select count(distinct contributor_id), max(contributor_id) from contributors") == [(60, 60)]


def test_a_kill_at_any_moment_leaves_rows_and_cursor_in_step(tmp_path: Path) -> None:
    path, random = tmp_path / "trust.duckdb", Random(2)
    stored = 0
    for _ in range(count(3, 20)):
        with child(LOAD_FOR_EVER, path) as killed:
            time.sleep(random.uniform(0.05, 0.6))
            killed.kill()
        store = Store.open(path)
        loaded, newest, numbered = rows(store, "select count(*), max(seen_at), max(event_seq) from events")[0]
        ((cursor,),) = rows(store, "select cursor_us from ingest_state")
        assert loaded == numbered == (cursor - FIRST_US) // 1_000_000 + 1
        assert to_microseconds(newest) == cursor
        ((derived,),) = rows(store, "select position_seq from hops where name = 'derive'")
        assert rows(store, "select count(*), coalesce(max(event_seq), 0) from vouches") == [(derived, derived)]
        assert loaded > stored, "nothing was stored between two kills"
        stored = loaded
        store.close()


@pytest.fixture(scope="module")
def killed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store whose owner was killed with changes in its log; tests copy it."""
    folder = tmp_path_factory.mktemp("killed")
    with child(FILL_THE_LOG, folder / "trust.duckdb") as killed:
        killed.kill()
    return folder


@pytest.mark.parametrize("place", [0.1, 0.3, 0.6, 0.9])
def test_a_damaged_log_of_changes_is_refused_and_named(killed_store: Path, tmp_path: Path, place: float) -> None:
    path = shutil.copytree(killed_store, tmp_path / "copy") / "trust.duckdb"
    log = path.with_name(path.name + ".wal")
    damaged = bytearray(log.read_bytes())
    begin = int(len(damaged) * place)
    damaged[begin : begin + 64] = bytes(64)
    log.write_bytes(bytes(damaged))
    assert f"{log} cannot be replayed" in refusal(path)
    assert log.exists()


SEEDS = "select contributor_id, repository_id, role from seeds order by all"
ROLES = "select unnest([1, 1, 2]), unnest([7, 8, 7]), unnest($roles)"


def test_a_table_made_to_hold_a_query_is_written_where_it_differs_and_tells_where(store: Store) -> None:
    keys = ("repository_id", "contributor_id")

    def hold(query: str, *roles: str) -> list[tuple[int, int]]:
        with store.write() as txn:
            changed = txn.hold("seeds", query, {"roles": list(roles)} if roles else {}, keys)
        return sorted(zip(changed["contributor_id"].tolist(), changed["repository_id"].tolist(), strict=True))

    assert hold(ROLES, "owner", "owner", "maintainer") == [(7, 1), (7, 2), (8, 1)]
    assert hold(ROLES, "owner", "push_holder", "maintainer") == [(8, 1)]
    assert hold(ROLES, "owner", "push_holder", "maintainer") == []
    assert rows(store, SEEDS) == [(7, 1, "owner"), (7, 2, "maintainer"), (8, 1, "push_holder")]
    assert hold("select 1, 7, 'owner'") == [(7, 2), (8, 1)]
    assert rows(store, SEEDS) == [(7, 1, "owner")]
    assert hold("from seeds limit 0") == [(7, 1)]


def test_a_text_is_parsed_once_and_means_what_each_store_holds(open_store: Open) -> None:
    here, there, sql = open_store("here"), open_store("there"), "select value || $1 from meta where key = $2"
    for store in (here, there):
        with store.write() as txn:
            txn.upsert("meta", [{"key": "name", "value": store.path.parent.name}])
    with here.read() as first, there.read() as second:
        assert [rows.value(sql, [sign, "name"]) for rows, sign in ((first, "!"), (second, "?"))] == ["here!", "there?"]
    assert PARSED[sql].query == sql


def test_a_text_that_was_parsed_before_a_column_was_added_shows_the_column(store: Store) -> None:
    with store.write() as txn:
        txn.execute("create temp table told as select 1 as a")
        assert txn.rows("from told") == [{"a": 1}]
        txn.execute("alter table told add column b varchar default 'new'")
        assert txn.rows("from told") == [{"a": 1, "b": "new"}]


def test_however_many_texts_are_executed_few_are_kept_parsed(store: Store) -> None:
    with store.read() as found:
        for number in range(300):
            assert found.value(f"select {number}, '{'x' * 1_000}'") == number
    assert sum(map(len, PARSED)) <= PARSED_CHARACTERS


def test_several_statements_in_one_text_are_all_executed(store: Store) -> None:
    with store.write() as txn:
        txn.execute("insert into meta values ('a', '1'); insert into meta values ('b', '2')")
        assert txn.value("select count(*) from meta where key in ('a', 'b')") == 2


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from ingest.store.database import Store

signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background of a shell ignores it
store = Store.open(Path(sys.argv[1]))
stopped = threading.Event()

def press():  # once, and again where the first press fell between Python and the query, as happens on a busy machine
    while not stopped.wait(2):
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press, daemon=True).start()
try:
    with store.read() as rows:
        rows.value("select sum(hash(a.i * b.i)) from range(1000000) a(i), range(1000000) b(i)")
except KeyboardInterrupt:
    stopped.set()
    with store.read() as rows:
        print("stopped by hand, and read again:", rows.value("select 1"))
store.close()
"""


def test_a_ctrl_c_within_a_query_is_a_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "trust.duckdb")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONG_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "stopped by hand, and read again: 1\n"), done.stderr


NOW = 500_000 * HOUR_US
STRING = "sh.tangled.string"


def spend(spent: Spent, did: str, time_us: int, size: int) -> bool:
    """Return whether so many bytes of this account are kept."""
    taken = Intake(spent)
    refused = taken.refused([0], [did], [time_us], [size])
    taken.keep()
    return not refused


def test_an_older_hour_that_comes_late_takes_away_no_count_of_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributors, "MOST_KEPT", 10)
    spent = Spent()
    assert spend(spent, MARA, NOW, BYTES_AN_HOUR)
    for number in range(30):
        assert spend(spent, f"did:web:{number}.test", NOW - (number + 1) * HOUR_US, 5)
    assert not spend(spent, MARA, NOW + 5, 1)
    assert len(spent.bytes) <= 10
    assert spend(spent, MARA, NOW + HOUR_US, BYTES_AN_HOUR)


def test_a_replay_of_an_older_hour_admits_no_more_than_the_bound_once_more(tmp_path: Path) -> None:
    frames = Frames()
    for number in range(40):
        frames.commit(MARA, STRING, str(number), {"contents": "x" * 990_000})
    first = frames[:]
    frames.extend([b""] * (4 * 3_600 - len(frames)))
    frames.commit(ANA, STRING, "later", {"contents": "x"})
    store = fresh_store(tmp_path / "trust.duckdb")
    store.bind(SOURCE)
    assert load(store, SOURCE, first).events == 16
    assert load(store, SOURCE, first).events == 0
    assert load(store, SOURCE, frames[-1:]).events == 1
    store.close()
    store = Store.open(tmp_path / "trust.duckdb")
    assert load(store, SOURCE, first).events == 16
    assert load(store, SOURCE, first).events == 0
    store.close()
