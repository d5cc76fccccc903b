"""A person who is erased is gone from every table, file, snapshot and queue, and other people's work stays."""

import gzip
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.archive import archive, read_log
from ingest.backfill import runs
from ingest.erase import erase, erase_due, finish, finish_due
from ingest.held import TEXT, TEXTS, tables
from ingest.mentions import Names
from ingest.patches import store_patch
from ingest.snapshot import SnapshotReader, publish
from ingest.store import Store, StoreProblem
from ingest.tombstones import PEOPLE
from tests.conftest import count
from tests.ingest.planted import GONE, HANDLE, KEY, MARK, SHORT, folders_below, plant_in_files, plant_in_tables, traces
from tests.ingest.stream import ANA, MARA, REPO, SEED, SOURCE, Frames, at, digest_of, pull_uri, rows, take
from tests.sources import PROJECT

LATE = at(10_000)
WORDS = (GONE, GONE.removeprefix("did:plc:"), HANDLE, SHORT)


@pytest.fixture(name="kept")
def kept_fixture(tmp_path: Path) -> Iterator[Store]:
    """A store with the key of a drive."""
    store = Store.open(tmp_path / "duckdb" / "trust.duckdb", key=KEY)
    store.bind(SOURCE)
    yield store
    with suppress(duckdb.ConnectionException):  # some tests have closed it, to open it again
        store.close()


def story() -> Frames:
    """Somebody who wrote of everything, with others who wrote of them."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(GONE, "orchard")
    frames.vouch(SEED, GONE, reason=MARK)
    frames.vouch(GONE, ANA)
    frames.pull(GONE, "one", title=MARK)
    frames.status(SEED, pull_uri(GONE, "one"), "merged")
    frames.pull(ANA, "two", body=f"as {GONE} said")
    frames.status(GONE, pull_uri(ANA, "two"), "closed")
    frames.pull(MARA, "three", target=f"at://{GONE}/sh.tangled.repo/orchard")
    frames.account(GONE, active=True)
    return frames


def name_handle(store: Store) -> None:
    with store.write() as txn:
        txn.execute("update contributors set handle = ?, handle_verified = true where did = ?", [HANDLE, GONE])


def days_later() -> datetime:
    """The wall clock of somebody who waited longer than an erasure waits for others."""
    return datetime.now(UTC).replace(tzinfo=None) + timedelta(days=2)


def everything(store: Store) -> str:
    with store.read() as found:
        return str([found.rows(f'from "{table.name}"') for table in tables(found)])


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


def test_other_people_keep_their_work(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    assert rows(kept, "select did from contributors order by did") == sorted([(SEED,), (ANA,), (MARA,)])
    assert rows(kept, "select body from pull_requests where pull_uri = ?", pull_uri(ANA, "two")) == [
        ("as (erased) said",)
    ]
    assert rows(kept, "select pull_uri from pull_requests order by pull_uri") == sorted(
        [(pull_uri(ANA, "two"),), (pull_uri(MARA, "three"),)]
    )
    assert rows(kept, "select count(*) from vouches") == [(0,)]
    owners = rows(kept, "select owner_id, name from repositories join pull_requests using (repository_id) order by all")
    assert owners == [(1, "lantern"), (None, None)]


def test_what_an_erased_push_holder_settled_stands_as_nobodys(kept: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.repository(GONE, repoDid=REPO)
    frames.pull(ANA, "one")
    frames.status(GONE, pull_uri(ANA, "one"), "merged")
    take(kept, frames)
    settled = "select state, merge_proof, merged_at from pull_requests"
    before = rows(kept, settled)
    assert before[0][:2] == ("merged", "verified")
    erase(kept, GONE, "account_deleted", LATE, folders_below(tmp_path))
    take(kept, [])
    assert rows(kept, settled) == before
    assert rows(kept, "select actor_id, status_uri from statuses") == [(0, "erased:3")]
    assert digest_of(kept)


def test_a_replayed_stream_does_not_bring_them_back_and_what_is_later_is_new(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    number = rows(kept, "select max(contributor_id) from contributors")[0][0]
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    before, held = digest_of(kept), everything(kept)
    take(kept, story())
    assert digest_of(kept) == before
    assert GONE not in held
    kept.close()
    again = Store.open(kept.path, key=KEY)
    take(again, story())
    assert digest_of(again) == before
    later = Frames([b"{}"] * 20_000)
    later.vouch(GONE, ANA)
    take(again, later[20_000:])
    assert rows(again, "select contributor_id > ? from contributors where did = ?", number, GONE) == [(True,)]
    again.close()


def test_a_fresh_store_that_knows_the_tombstones_keeps_them_out(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    fresh = Store.open(tmp_path / "fresh.duckdb", key=KEY)
    fresh.bind(SOURCE)
    with fresh.write() as txn:
        txn.append("tombstones", [dict(row) for row in kept_tombstones(kept)])
    fresh.close()
    fresh = Store.open(tmp_path / "fresh.duckdb", key=KEY)
    take(fresh, story())
    held = everything(fresh)
    assert not any(word in held for word in WORDS)
    assert rows(fresh, "select body from pull_requests where pull_uri = ?", pull_uri(ANA, "two")) == [
        ("as (erased) said",)
    ]
    fresh.close()


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
        worker.join(20)
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


def test_a_host_that_still_names_them_brings_not_even_their_did_back(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    kept.close()
    again = Store.open(kept.path, key=KEY)
    runs.begin(again, "first_start")
    run = runs.next_run(again)
    assert run is not None
    runs.keep_accounts(again, run, [GONE, MARA], [])
    assert GONE not in everything(again)
    assert (MARA,) in rows(again, "select did from backfill_accounts")
    again.close()


def kept_tombstones(store: Store) -> list[dict[str, object]]:
    with store.read() as found:
        return found.rows("from tombstones")


def test_a_tombstone_tells_nobody_who_lacks_the_key(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    kept.close()
    for key in (b"", b"another"):
        with pytest.raises(StoreProblem, match="keys/tombstones is not the one"):
            Store.open(kept.path, key=key)


def test_without_the_drives_key_nobody_is_erased(store: Store, tmp_path: Path) -> None:
    take(store, story())
    before = digest_of(store)
    with pytest.raises(ValueError, match="without the drive's key"):
        erase(store, GONE, "by_request", LATE, folders_below(tmp_path))
    assert {name for name, value in digest_of(store).items() if value != before[name]} == {"contributors"}
    assert store.people.numbers[GONE]


def test_a_number_of_somebody_erased_is_never_given_again(kept: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.vouch(SEED, GONE)
    take(kept, frames)
    last = rows(kept, "select contributor_id from contributors where did = ?", GONE)[0][0]
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    kept.close()
    again = Store.open(kept.path, key=KEY)
    with again.write() as txn:
        assert txn.person_ids(["did:plc:new"]) == {"did:plc:new": last + 1}
    again.close()


def test_a_look_up_that_was_under_way_brings_nothing_back(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    number = kept.people.numbers[GONE]
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    holder = {"repository_id": 1, "contributor_id": number, "role": "owner", "learned_from": "knot"}
    fetched = {"kind": "identity", "subject": GONE, "outcome": "found", "reason": None, "attempts": 0}
    with kept.write() as txn:
        txn.append("push_holders", [holder | {"held_from": None, "held_until": None}])
        txn.upsert("fetches", [fetched | {"due_clock": None, "fetched_clock": LATE}])
    assert rows(kept, "select count(*) from fetches") == [(0,)]
    assert rows(kept, "select count(*) from push_holders where contributor_id = ?", number) == [(0,)]


def test_a_deleted_account_is_erased_when_asked_and_its_bytes_go_after_a_day(tmp_path: Path) -> None:
    present = [datetime(2026, 9, 22)]
    store = Store.open(tmp_path / "trust.duckdb", lambda: present[0], key=KEY)
    store.bind(SOURCE)
    frames = story()
    frames.account(GONE, active=False, status="deleted")
    take(store, frames)
    folders = folders_below(tmp_path)
    assert erase_due(store, LATE, folders) == 1
    assert erase_due(store, LATE, folders) == 0
    assert GONE not in everything(store)
    assert rows(store, "select why from tombstones") == [("account_deleted",)]
    assert not finish_due(store, folders)
    present[0] += timedelta(days=1)
    assert finish_due(store, folders)
    assert not finish_due(store, folders)
    store.close()


def test_an_erasure_that_is_cut_short_hides_them_and_the_sweep_goes_on(
    kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(kept, story())

    def fail(*_: object) -> int:
        raise OSError("no space left on device")

    folders = folders_below(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr("ingest.erase.strike_folder", fail)
        with pytest.raises(StoreProblem, match="no space left"):
            erase(kept, GONE, "by_request", LATE, folders)
    assert rows(kept, "select account_status from hidden_people") == [("erasing",)]
    assert erase_due(kept, LATE, folders) == 1
    assert GONE not in everything(kept)
    assert rows(kept, "select why from tombstones") == [("by_request",)]


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
    """A new type, or a new number of a person, must first be taught to `ingest.held`."""
    known = {TEXT, TEXTS, "INTEGER[]", "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "TIMESTAMP"}
    found = rows(store, "select column_name, data_type from duckdb_columns() where not internal")
    assert {kind for _, kind in found} <= known
    numbers = {name for name, kind in found if kind in ("INTEGER", "BIGINT") and name.endswith("_id")}
    assert numbers - PEOPLE == {"repository_id"}
    assert {name for name, kind in found if kind == "INTEGER[]"} == {"path"}


SPELLINGS = st.sampled_from(
    [GONE, f"at://{GONE}/a/b", f"x {GONE}.", f'{{"a":"{GONE}"}}', GONE.replace(":", "%3A"), GONE[8:], f"({SHORT})"]
)


@settings(max_examples=count(15, 500))
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
from ingest.erase import erase, finish
from ingest.store import Store
from tests.ingest.planted import GONE, KEY, folders_below
from tests.ingest.stream import at
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
    for _ in range(count(5, 60)):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(moments.uniform(0.0, 0.4))]
        killed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
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
        from tests.ingest.planted import a_row

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
    monkeypatch.setattr("ingest.snapshot.LOOK_SECONDS", 0.0)
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


def test_names_are_found_and_others_are_not() -> None:
    names = Names("did:web:a.example", "ana.example.com")
    for text in ("did:web:a.example", "see did:web:a.example.", "did%3Aweb%3Aa.example/x", "@Ana.Example.com!"):
        assert names.named_in(text), text
    for text in ("did:web:a.example.org", "did:web:a.example-b", "diana.example.com", "ana.example.community"):
        assert not names.named_in(text), text
    assert names.struck_from("at://did:web:a.example/x/y, and more") == "(erased), and more"


def test_erasing_refuses_a_full_drive_and_leaves_the_store_usable(
    kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    with monkeypatch.context() as full:
        full.setattr("ingest.compact.SPARE_BYTES", 10**18)
        with pytest.raises(StoreProblem, match="free some space"):
            finish(kept, folders_below(tmp_path))
    assert rows(kept, "select count(*) from contributors") == [(3,)]
    kept.close()
    again = Store.open(kept.path, days_later, key=KEY)
    assert finish_due(again, folders_below(tmp_path))
    assert not finish_due(again, folders_below(tmp_path))
    again.close()
