"""An erased person is gone from every file and table, byte by byte, whatever is killed, moved or full meanwhile."""

import gzip
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.erasure.erase import erase, erase_due, finish, finish_due
from ingest.erasure.rows import TEXT, TEXTS, tables
from ingest.errors import StoreProblem
from ingest.git.patch import store_patch
from ingest.store.archive import archive, read_log
from ingest.store.database import Store
from ingest.store.snapshots import SnapshotReader, publish
from ingest.store.tombstones import PEOPLE
from tests.conftest import count
from tests.ingest.erasure.erased import LATE, WORDS, days_later, everything, name_handle, story
from tests.ingest.erasure.planted import (
    GONE,
    HANDLE,
    KEY,
    MARK,
    SHORT,
    folders_below,
    plant_in_files,
    plant_in_tables,
    traces,
)
from tests.ingest.stream.frames import ANA, MARA, SEED, pull_uri, rows, take
from tests.processes import run_python
from tests.waiting import LONG_SECONDS


def test_a_person_planted_in_every_table_and_file_is_gone_byte_by_byte(kept: Store, tmp_path: Path) -> None:
    folders = folders_below(tmp_path)
    take(kept, story())
    plant_in_files(tmp_path)
    planted = plant_in_tables(kept, [GONE, f"at://{GONE}/app.test/{MARK}", f"of {SHORT}", f"by @{HANDLE}!"])
    assert planted > 500
    name_handle(kept)
    for _ in range(2):
        publish(kept, folders.snapshots)
    erase(kept, GONE, "by_request", LATE, folders)
    finish(kept, folders)
    kept.close()
    assert traces(tmp_path, (*WORDS, MARK)) == []
    assert sorted(path.name for path in folders.snapshots.iterdir()) == ["CURRENT", "serve-3.duckdb"]
    assert "else" in (tmp_path / "logs" / "worker.log").read_text()
    assert "else" in gzip.decompress((tmp_path / "logs" / "old.log.gz").read_bytes()).decode()


def test_files_are_not_searched_while_rows_move_into_them_nor_the_other_way_round(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    folders = folders_below(tmp_path)
    for work in (
        lambda: archive(kept, folders.staging, 30, 0, LATE),
        lambda: erase(kept, GONE, "by_request", LATE, folders),
    ):
        worker = threading.Thread(target=work)
        with kept.files:
            worker.start()
            worker.join(0.2)
            assert worker.is_alive()
        worker.join(LONG_SECONDS)
        assert not worker.is_alive()
    assert GONE not in everything(kept)
    assert traces(tmp_path / "staging", (GONE,)) == []


def test_moved_events_of_which_none_lacks_a_body_lose_the_person(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    folders = folders_below(tmp_path)
    assert archive(kept, folders.staging, 30, 0, LATE)
    erase(kept, GONE, "by_request", LATE, folders)
    assert traces(folders.staging, (GONE, MARK)) == []
    with kept.read() as found:
        bodies = read_log(found, "select did, body is null as empty from {events} where did <> ?", [GONE])
    assert {"did": MARA, "empty": True} in bodies, "a pull request into a repository of theirs was about them"
    assert {"did": ANA, "empty": False} in bodies


def test_a_diff_goes_with_its_only_author_and_stays_with_another(kept: Store, tmp_path: Path) -> None:
    folders = folders_below(tmp_path)
    take(kept, story())
    texts = {"own": "own", "shared": "shared", "naming": f"From: {GONE}"}
    hashes = {name: store_patch(folders.diffs, text) for name, text in texts.items()}
    offered = [("own", GONE, "one"), ("shared", GONE, "one"), ("shared", ANA, "two"), ("naming", MARA, "three")]
    numbers = {"bytes": 1, "files": 1, "added": 1, "removed": 0, "patch_id": "x", "state": "read", "proves": True}
    with kept.write() as txn:
        for name, author, rkey in offered:
            row = {"pull_uri": pull_uri(author, rkey), "patch_ref": f"blob:{name}", "sha256": hashes[name]}
            txn.append("patches", [{**numbers, **row, "series": [], "change_ids": []}])
    erase(kept, GONE, "by_request", LATE, folders)
    assert rows(kept, "select patch_ref, sha256 from patches order by all") == [
        ("blob:naming", None),
        ("blob:shared", hashes["shared"]),
    ]
    assert len(list(folders.diffs.rglob("*.gz"))) == 1


def test_every_column_is_of_a_kind_that_erasure_knows(store: Store) -> None:
    """A new type, or a new number of a person, must first be taught to `ingest.erasure.rows`."""
    known = {
        TEXT,
        TEXTS,
        "INTEGER[]",
        "SMALLINT[]",
        "BOOLEAN",
        "INTEGER",
        "BIGINT",
        "DOUBLE",
        "TIMESTAMP",
        "FLOAT[512]",
    }
    found = rows(store, "select column_name, data_type from duckdb_columns() where not internal")
    assert {kind for _, kind in found} <= known
    numbers = {name for name, kind in found if kind in ("INTEGER", "BIGINT") and name.endswith("_id")}
    assert numbers - PEOPLE == {"repository_id"}
    assert {name for name, kind in found if kind == "INTEGER[]"} == {"path"}
    assert {name for name, kind in found if kind == "SMALLINT[]"} == {"path_merges"}, "counts, not people"


SPELLINGS = st.sampled_from(
    [GONE, f"at://{GONE}/a/b", f"x {GONE}.", f'{{"a":"{GONE}"}}', GONE.replace(":", "%3A"), GONE[8:], f"({SHORT})"]
)


@settings(max_examples=count(8, 500))
@given(st.lists(st.tuples(st.integers(0, 10_000), SPELLINGS, st.text(max_size=5)), max_size=6))
def test_whatever_was_planted_no_row_names_them(planted: list[tuple[int, str, str]]) -> None:
    store = PLANTED.store()
    with store.read() as found:
        places = [(table, column) for table in tables(found) for column in table.texts]
    with store.write() as txn:
        for place, spelling, around in planted:
            table, column = places[place % len(places)]
            row = PLANTED.row(table.name, {column: f"{around}{spelling}"})
            txn.upsert(table.name, [row]) if table.keys else txn.append(table.name, [row])
    erase(store, GONE, "by_request", LATE, PLANTED.folders)
    held = everything(store)
    assert not any(word in held for word in WORDS)


KILLED = """
import os, sys, threading, time
from pathlib import Path
from ingest.erasure.erase import erase, finish
from ingest.store.database import Store
from tests.ingest.erasure.planted import GONE, KEY, folders_below
from tests.ingest.stream.frames import at
root = Path(sys.argv[1])
store = Store.open(root / "duckdb" / "trust.duckdb", key=KEY)
print("open", flush=True)
threading.Thread(target=lambda: (time.sleep(float(sys.argv[2])), os.kill(os.getpid(), 9)), daemon=True).start()
while True:
    erase(store, GONE, "by_request", at(10_000), folders_below(root))
    finish(store, folders_below(root))
"""


def test_a_kill_at_any_moment_leaves_one_whole_file_and_a_repetition_finishes(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    name_handle(kept)
    plant_in_files(tmp_path)
    kept.close()
    moments, others = random.Random(6), (ANA, MARA, SEED)
    for _ in range(count(3, 60)):
        killed = run_python("-c", KILLED, str(tmp_path), str(moments.uniform(0.0, 0.4)), timeout=LONG_SECONDS)
        assert killed.returncode == -9, killed.stderr
        store = Store.open(kept.path, key=KEY)
        assert set(others) <= set(store.people.numbers)
        assert not list(kept.path.parent.glob("*.compacting*"))
        store.close()
    store = Store.open(kept.path, days_later, key=KEY)
    folders = folders_below(tmp_path)
    erase_due(store, LATE, folders)
    finish(store, folders)
    assert not finish_due(store, folders)
    store.close()
    assert traces(tmp_path, WORDS) == []


class Planted:
    """One store for all examples of the property."""

    def __init__(self) -> None:
        self.made: Store | None = None
        self.serial = 0

    def open(self, root: Path) -> None:
        self.made = Store.open(root / "trust.duckdb", key=KEY)
        self.folders = folders_below(root)

    def store(self) -> Store:
        assert self.made is not None
        return self.made

    def row(self, table: str, changes: dict[str, object]) -> dict[str, object]:
        from tests.ingest.erasure.planted import a_row

        self.serial += 1
        return a_row(self.store(), table, 5_000 + self.serial, changes)


PLANTED = Planted()


@pytest.fixture(autouse=True, scope="module")
def planted_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    PLANTED.open(tmp_path_factory.mktemp("planted"))
    yield
    PLANTED.store().close()


def test_a_reader_of_an_older_snapshot_goes_on_and_the_next_request_reads_the_new_one(
    kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.store.snapshots.LOOK_SECONDS", 0.0)
    folders = folders_below(tmp_path)
    take(kept, story())
    publish(kept, folders.snapshots)
    reader = SnapshotReader(folders.snapshots)
    with reader.pin() as old:
        assert old is not None
        erase(kept, GONE, "by_request", LATE, folders)
        finish(kept, folders)
        assert old.value("select count(*) from contributors where did = ?", [GONE]) == 1
    with reader.pin() as new:
        assert new is not None
        assert new.value("select count(*) from contributors where did = ?", [GONE]) == 0
    reader.close()


def test_erasing_refuses_a_full_drive_and_leaves_the_store_usable(
    kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    with monkeypatch.context() as full:
        full.setattr("ingest.store.database.SPARE_BYTES", 10**18)
        with pytest.raises(StoreProblem, match="free some space"):
            finish(kept, folders_below(tmp_path))
    assert rows(kept, "select count(*) from contributors") == [(3,)]
    kept.close()
    again = Store.open(kept.path, days_later, key=KEY)
    assert finish_due(again, folders_below(tmp_path))
    assert not finish_due(again, folders_below(tmp_path))
    again.close()
