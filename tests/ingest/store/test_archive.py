"""Old rows of the log lie in files: each counted once, whatever is moved, rewritten or killed in between."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.records.repositories import standing_records
from ingest.store import archive as module
from ingest.store.archive import COUNT, adopt, all_events, archive, read_log, rewrite
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.stream.load import load
from tests.conftest import count
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, SOURCE, STRANGER, Frames, at, digest_of, rows, take
from tests.sources import PROJECT
from tests.stores import fresh_store

FAR = 100_000
ARCHIVE_FOR_EVER = """
import sys
from pathlib import Path
from ingest.store import archive
from ingest.records.derive import derive
from ingest.stream.load import load
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, FIRST_US, SOURCE, Frames, at
archive.SEGMENT_ROWS = 60
store = Store.open(Path(sys.argv[1]))
frames = Frames([b""] * ((store.bind(SOURCE) - FIRST_US) // 1_000_000 + 1) if store.bind(SOURCE) else [])
for turn in range(1_000_000):
    begin = len(frames)
    for _ in range(20):
        frames.vouch(ANA, f"did:plc:{len(frames) % 50:024d}")
    load(store, SOURCE, frames[begin:])
    derive(store)
    archive.archive(store, Path(sys.argv[2]), 30, 10, at(0))
    if turn == 0:
        print("going", flush=True)
"""


def world(size: int = 60) -> Frames:
    """Pull requests that are changed and deleted, vouches, an identity and an account event."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    for number in range(size):
        frames.pull(MARA, str(number % 20), "create" if number < 20 else "update", title=str(number))
        frames.vouch(ANA, f"did:plc:{number:024d}")
    frames.delete(MARA, "sh.tangled.repo.pull", "3")
    frames.identity(MARA)
    frames.account(ANA, active=True)
    return frames


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "events").iterdir())


def everything(store: Store) -> list[int]:
    with store.read() as found:
        return [row["event_seq"] for row in found.rows(f"select event_seq from {all_events(found)} order by 1")]


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_ROWS", 50)


def test_what_is_beyond_the_number_moves_and_the_log_says_the_same(store: Store, tmp_path: Path) -> None:
    take(store, world())
    before, logged = digest_of(store), len(everything(store))
    assert archive(store, tmp_path, 30, 40, at(0)) == logged - 40
    assert rows(store, "select count(*), min(event_seq) from events") == [(40, logged - 39)]
    assert everything(store) == list(range(1, logged + 1))
    assert rows(store, COUNT) == [(logged,)]
    assert digest_of(store) == before
    assert archive(store, tmp_path, 30, 40, at(0)) == 0
    assert all(name.endswith(".parquet") for name in files(tmp_path))


def test_what_is_older_than_the_days_moves(store: Store, tmp_path: Path) -> None:
    take(store, world())
    logged = len(everything(store))
    assert archive(store, tmp_path, 30, FAR, at(10) + timedelta(days=30)) == 10
    assert everything(store) == list(range(1, logged + 1))


def test_what_is_not_derived_yet_stays(store: Store, tmp_path: Path) -> None:
    load(store, SOURCE, world())
    assert archive(store, tmp_path, 30, 0, at(FAR)) == 0


def test_what_was_archived_is_known_when_the_stream_repeats_it(store: Store, tmp_path: Path) -> None:
    take(store, world())
    before = digest_of(store)
    archive(store, tmp_path, 30, 0, at(0))
    assert load(store, SOURCE, world()).events == 0
    assert digest_of(store) == before
    later = Frames(world())
    later.vouch(STRANGER, MARA)
    assert load(store, SOURCE, later).events == 1
    assert everything(store)[-1] == len(everything(store)), "a number was given twice"


def test_a_repositorys_record_is_found_in_the_files(store: Store, tmp_path: Path) -> None:
    take(store, world())
    archive(store, tmp_path, 30, 0, at(0))
    uri = f"at://{SEED}/sh.tangled.repo/lantern"
    with store.read() as found:
        assert standing_records(found, [uri]) == {uri: 1}


def test_files_are_filled_before_new_ones_begin(store: Store, tmp_path: Path) -> None:
    take(store, world())
    for left in range(120, 0, -7):
        archive(store, tmp_path, 30, left, at(0))
    assert len(files(tmp_path)) <= 3
    assert everything(store) == list(range(1, len(everything(store)) + 1))


def test_bodies_of_replaced_and_deleted_records_go_after_a_month(store: Store, tmp_path: Path) -> None:
    take(store, world())
    before = digest_of(store)
    archive(store, tmp_path, 30, 60, at(0))
    sql = "select count(*) as n, count(body) as bodies from {events} where collection = 'sh.tangled.repo.pull'"
    month = timedelta(days=30)
    archive(store, tmp_path, 60, 60, at(40) + month)
    with store.read() as found:
        assert read_log(found, sql) == [{"n": 61, "bodies": 60}]
    archive(store, tmp_path, 60, 60, at(40) + month + timedelta(hours=7))
    with store.read() as found:
        assert read_log(found, sql) == [{"n": 61, "bodies": 19}]
        assert read_log(found, "select count(body) as bodies from {events} where did = $did", {"did": ANA}) == [
            {"bodies": 61}
        ]
    assert digest_of(store) == before


@pytest.mark.parametrize("redact", [True, False])
def test_rows_that_fit_are_dropped_or_lose_their_body_in_every_file(store: Store, tmp_path: Path, redact: bool) -> None:
    take(store, world())
    archive(store, tmp_path, 30, 0, at(0))
    logged = len(everything(store))
    assert rewrite(store, "did = ?", [MARA], redact=redact) == 62
    assert rows(store, COUNT) == [(logged if redact else logged - 62,)]
    with store.read() as found:
        left = read_log(found, "select count(*) as n, count(body) as bodies from {events} where did = ?", [MARA])
    assert left == [{"n": 62 if redact else 0, "bodies": 0}]
    assert {str(tmp_path / "events" / name) for name in files(tmp_path)} == {
        path for (path,) in rows(store, "select path from event_segments")
    }


def test_a_failure_before_the_commit_leaves_the_rows_in_the_table_and_the_next_run_clears_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, world())
    before = digest_of(store)

    def fail(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "append", fail)
        with pytest.raises(OSError, match="killed"):
            archive(store, tmp_path, 30, 40, at(0))
    assert len(files(tmp_path)) == 1
    assert digest_of(store) == before
    assert rows(store, "select count(*) from event_segments") == [(0,)]
    adopt(store, tmp_path)
    assert files(tmp_path) == []


def test_a_folder_that_was_moved_is_found_again(store: Store, tmp_path: Path) -> None:
    take(store, world())
    before = digest_of(store)
    archive(store, tmp_path / "here", 30, 0, at(0))
    (tmp_path / "here").rename(tmp_path / "there")
    adopt(store, tmp_path / "there")
    assert digest_of(store) == before


def test_a_kill_at_any_moment_leaves_every_row_once(tmp_path: Path) -> None:
    path, random, stored = tmp_path / "trust.duckdb", Random(5), 0
    for _ in range(count(3, 40)):
        command = [sys.executable, "-c", ARCHIVE_FOR_EVER, str(path), str(tmp_path / "staging")]
        with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == b"going\n"
            time.sleep(random.uniform(0.3, 1.0))
            os.kill(killed.pid, signal.SIGKILL)
        store = Store.open(path)
        logged = everything(store)
        assert logged == list(range(1, len(logged) + 1))
        assert len(logged) > stored
        stored = len(logged)
        adopt(store, tmp_path / "staging")
        assert len(files(tmp_path / "staging")) == rows(store, "select count(*) from event_segments")[0][0]
        store.close()


@settings(max_examples=count(5, 200))
@given(data=st.data())
def test_when_and_what_is_archived_changes_nothing(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, frames = tmp_path_factory.mktemp("when"), world(30)
    plain, moved = fresh_store(folder / "plain.duckdb"), fresh_store(folder / "moved.duckdb")
    try:
        for one in (plain, moved):
            one.bind(SOURCE)
        take(plain, frames)
        for begin in range(0, len(frames), 20):
            take(moved, frames[max(begin - data.draw(st.integers(0, 30)), 0) : begin + 20])
            if data.draw(st.booleans()):
                archive(moved, folder, 30, data.draw(st.integers(0, 40)), at(0))
        assert digest_of(moved) == digest_of(plain)
    finally:
        plain.close()
        moved.close()
