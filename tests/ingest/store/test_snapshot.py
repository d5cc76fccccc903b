"""Published copies: each is one whole state, and a reader's stays while the world moves on."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest.store import snapshots
from ingest.store.database import Store
from ingest.store.snapshots import Publisher, PublishProblem, SnapshotReader, current_number, publish
from tests.stores import opened_elsewhere
from tests.waiting import LONG_SECONDS, wait_for

MONEY = "select sum(value::integer), count(*) from meta where key in ('ana', 'mara')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.fixture
def reader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SnapshotReader]:
    """One that looks for a newer snapshot at every request."""
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.0)
    opened = SnapshotReader(folder)
    yield opened
    opened.close()


def put(store: Store, value: object) -> None:
    with store.write() as txn:
        txn.upsert("meta", [{"key": "told", "value": str(value)}])


def told(reader: SnapshotReader) -> str | None:
    with reader.pin() as pinned:
        return pinned.value("select value from meta where key = 'told'") if pinned else None


def attached(reader: SnapshotReader) -> int:
    with reader._database.cursor() as cursor:
        return len(cursor.execute("from duckdb_databases() where database_name like 's%' and not internal").fetchall())


def test_before_the_first_publish_there_is_nothing_to_read(reader: SnapshotReader) -> None:
    with reader.pin() as pinned:
        assert pinned is None


def test_readers_see_the_newest_publish_and_nothing_after_it(
    store: Store, folder: Path, reader: SnapshotReader
) -> None:
    put(store, 1)
    assert publish(store, folder) == 1
    put(store, 2)
    assert told(reader) == "1"
    assert publish(store, folder) == 2
    assert told(reader) == "2"


def test_a_pinned_snapshot_stays_while_newer_ones_come_and_its_file_goes(
    store: Store, folder: Path, reader: SnapshotReader
) -> None:
    put(store, 0)
    publish(store, folder)
    with reader.pin() as old:
        assert old is not None
        for number in range(1, 6):
            put(store, number)
            publish(store, folder)
            assert told(reader) == str(number)
        assert not (folder / "serve-1.duckdb").exists()
        assert old.value("select value from meta where key = 'told'") == "0"
        assert (old.number, attached(reader)) == (1, 2)
    assert attached(reader) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["CURRENT", *(f"serve-{n}.duckdb" for n in (4, 5, 6))]


def test_a_snapshot_that_was_let_go_of_is_read_no_more(store: Store, folder: Path, reader: SnapshotReader) -> None:
    publish(store, folder)
    with reader.pin() as before:
        assert before is not None
        assert before.value("select 1") == 1
    with pytest.raises(RuntimeError, match="let go"):
        before.value("select 1")


def test_a_reader_opens_as_many_cursors_as_are_used_at_once_and_each_reads_its_own_snapshot(
    store: Store, folder: Path, reader: SnapshotReader
) -> None:
    put(store, 1)
    publish(store, folder)
    with reader.pin() as first, reader.pin() as second, reader.pin():
        assert first is not None
        assert second is not None
        assert first.cursor is not second.cursor
        used = {id(first.cursor), id(second.cursor)}
    for _ in range(5):
        with reader.pin() as again:
            assert again is not None
            assert id(again.cursor) in used
    put(store, 2)
    publish(store, folder)
    assert told(reader) == "2"


def test_every_snapshot_is_one_whole_state(store: Store, folder: Path, reader: SnapshotReader) -> None:
    with store.write() as txn:
        txn.execute("insert into meta values ('ana', '500'), ('mara', '500')")
    publish(store, folder)
    stop, seen, wrong = threading.Event(), set[int](), list[object]()

    def move() -> None:
        amount = 0
        while not stop.is_set():
            amount = (amount + 7) % 900
            with store.write() as txn:
                txn.execute("update meta set value = ? where key = 'ana'", [str(amount)])
                txn.execute("update meta set value = ? where key = 'mara'", [str(1000 - amount)])

    def look() -> None:
        while not stop.is_set():
            with reader.pin() as pinned:
                assert pinned is not None
                found = [tuple((pinned.row(MONEY) or {}).values()) for _ in range(3)]
                seen.add(pinned.number)
                wrong.extend(row for row in found if row != (1000, 2))

    threads = [threading.Thread(target=move), *(threading.Thread(target=look) for _ in range(3))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            publish(store, folder)
            wait_for(lambda: current_number(folder) in seen)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert told(reader) is None
    assert attached(reader) == 1


def test_another_process_cannot_open_the_file_after_a_publish(store: Store, folder: Path) -> None:
    publish(store, folder)
    assert "Conflicting lock is held" in opened_elsewhere(store.path)


def test_the_pointer_always_names_a_whole_snapshot(store: Store, folder: Path) -> None:
    publish(store, folder)
    stop, read = threading.Event(), list[tuple[str, bool]]()

    def look() -> None:
        while not stop.is_set():
            text = (folder / "CURRENT").read_text()
            exists = (folder / f"serve-{text}.duckdb").exists()
            read.append((text, exists or current_number(folder) >= int(text) + snapshots.KEEP))

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(10):
        publish(store, folder)
    stop.set()
    thread.join()
    assert read
    assert all(whole for _, whole in read)


def broken_copy(folder: Path) -> None:
    """The next copy goes to a device that is always full."""
    (folder / "serve-2.partial").symlink_to("/dev/full")


def folder_in_the_way(folder: Path) -> None:
    (folder / "serve-2.partial").mkdir()
    (folder / "serve-2.partial" / "kept").write_text("")


def pointer_in_the_way(folder: Path) -> None:
    (folder / "CURRENT.partial").mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (broken_copy, "No space left on device"),
        (folder_in_the_way, "cannot overwrite directory"),
        (pointer_in_the_way, "no snapshot could be made in"),
    ],
)
def test_a_publish_that_fails_says_why_and_the_one_before_it_serves_on(
    store: Store,
    folder: Path,
    reader: SnapshotReader,
    monkeypatch: pytest.MonkeyPatch,
    spoil: object,
    why: str,
) -> None:
    put(store, 1)
    publish(store, folder)
    put(store, 2)
    # A number is never used twice, so the next one is told before anything lies in its way.
    monkeypatch.setattr(snapshots, "_numbers", lambda _: {})
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(PublishProblem, match=why):
        publish(store, folder)
    assert (current_number(folder), told(reader)) == (1, "1")


def test_what_a_killed_publish_left_is_never_taken_for_a_snapshot(
    store: Store, folder: Path, reader: SnapshotReader
) -> None:
    publish(store, folder)
    (folder / "serve-7.partial").write_bytes(b"half")
    (folder / "serve-8.duckdb").write_bytes(b"whole, but nothing points at it")
    put(store, 1)
    assert publish(store, folder) == 9
    assert told(reader) == "1"
    assert not list(folder.glob("*.partial"))


def test_a_lost_pointer_does_not_bring_back_an_old_name(store: Store, folder: Path, reader: SnapshotReader) -> None:
    for number in range(4):
        put(store, number)
        publish(store, folder)
    assert told(reader) == "3"
    (folder / "CURRENT").write_text("not a number")
    put(store, "new")
    assert publish(store, folder) == 5
    assert told(reader) == "new"


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x" * 9000)])
def test_a_snapshot_that_cannot_be_read_leaves_the_one_before_it_in_service(
    store: Store, folder: Path, reader: SnapshotReader, damage: object
) -> None:
    put(store, 1)
    publish(store, folder)
    assert told(reader) == "1"
    put(store, 2)
    publish(store, folder)
    assert callable(damage)
    damage(folder / "serve-2.duckdb")
    assert told(reader) == "1"
    put(store, 3)
    publish(store, folder)
    assert told(reader) == "3"


def is_a_folder(pointer: Path) -> None:
    pointer.unlink()
    pointer.mkdir()


def fails_to_read(pointer: Path) -> None:
    """The kernel answers EIO to whoever reads the first bytes of this file."""
    pointer.unlink()
    pointer.symlink_to("/proc/self/mem")


def names_what_never_was(pointer: Path) -> None:
    pointer.write_text("999999")


@pytest.fixture
def three(store: Store, folder: Path) -> Path:
    """The folder with three snapshots, which tell 1, 2 and 3."""
    for number in (1, 2, 3):
        put(store, number)
        publish(store, folder)
    return folder


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9_000])


@pytest.mark.parametrize("damage", [Path.unlink, cut, lambda path: path.write_bytes(b"x" * 9_000)])
@pytest.mark.parametrize("damaged", [1, 2])
def test_a_new_process_serves_the_newest_snapshot_that_can_be_read(
    three: Path, reader: SnapshotReader, damage: Callable[[Path], None], damaged: int
) -> None:
    for number in range(3, 3 - damaged, -1):
        damage(three / f"serve-{number}.duckdb")
    assert told(reader) == str(3 - damaged)
    assert not reader.is_unreadable


@pytest.mark.parametrize("spoil", [Path.unlink, is_a_folder, fails_to_read, names_what_never_was])
def test_without_a_pointer_that_can_be_read_the_newest_snapshot_is_served(
    three: Path, folder: Path, reader: SnapshotReader, spoil: Callable[[Path], None]
) -> None:
    spoil(folder / "CURRENT")
    assert told(reader) == "3"


@pytest.mark.parametrize("spoil", [Path.unlink, is_a_folder, fails_to_read, names_what_never_was])
def test_a_process_that_reads_already_goes_on_whatever_becomes_of_the_pointer(
    three: Path, reader: SnapshotReader, spoil: Callable[[Path], None]
) -> None:
    assert told(reader) == "3"
    spoil(three / "CURRENT")
    assert told(reader) == "3"


def test_where_nothing_can_be_read_that_is_not_taken_for_a_new_drive(three: Path, reader: SnapshotReader) -> None:
    for path in three.glob("serve-*"):
        path.write_bytes(b"x" * 9_000)
    assert told(reader) is None
    assert reader.is_unreadable


def test_a_damaged_snapshot_is_told_of_once_and_served_as_soon_as_it_can_be_read(
    three: Path, reader: SnapshotReader, caplog: pytest.LogCaptureFixture
) -> None:
    whole = (three / "serve-3.duckdb").read_bytes()
    (three / "serve-3.duckdb").write_bytes(b"x" * 9_000)
    assert [told(reader) for _ in range(3)] == ["2", "2", "2"]
    assert len([line for line in caplog.messages if "snapshot 3 cannot be read" in line]) == 1
    (three / "serve-3.duckdb").write_bytes(whole)
    assert told(reader) == "3"


def test_a_snapshot_that_is_left_while_others_read_it_stays_open_for_them(three: Path, reader: SnapshotReader) -> None:
    with reader.pin() as pinned:
        assert pinned is not None
        reader.leave(3)
        assert told(reader) == "2"
        assert pinned.value("select value from meta where key = 'told'") == "3"
    assert attached(reader) == 1
    assert told(reader) == "2"


def test_a_pointer_that_is_a_folder_is_a_problem_that_says_what_to_do(store: Store, three: Path) -> None:
    is_a_folder(three / "CURRENT")
    with pytest.raises(PublishProblem, match="CURRENT is a folder: remove it"):
        publish(store, three)
    (three / "CURRENT").rmdir()
    publish(store, three)
    assert current_number(three) > 3


def test_a_folder_that_is_a_file_is_a_problem_in_words(store: Store, folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(PublishProblem, match="make it writable"):
        publish(store, folder)


def test_without_room_nothing_is_copied(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SPARE_BYTES", 10**18)
    with pytest.raises(PublishProblem, match=r"no room for a snapshot of \d+ MB: free some space"):
        publish(store, folder)
    assert list(folder.iterdir()) == []


def test_the_publisher_survives_a_problem_and_publishes_when_it_is_gone(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "EVERY_SECONDS", 0.05)
    folder.write_text("")
    problems: list[str] = []
    publisher = Publisher(store, folder, problems.append)
    publisher.start()
    publisher.mark()
    wait_for(lambda: len(problems) > 1)
    folder.unlink()
    wait_for(lambda: current_number(folder) == 1)
    publisher.mark()
    publisher.stop()
    assert current_number(folder) in (2, 3)
    assert not publisher.is_alive()


def test_a_publisher_that_never_began_can_be_stopped(store: Store, folder: Path) -> None:
    publisher = Publisher(store, folder, pytest.fail)
    publisher.mark()
    publisher.stop()
    assert current_number(folder) == 1


def test_the_publisher_waits_for_what_is_about_to_change_and_not_for_ever(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "PATIENCE_SECONDS", 60.0)
    asked, busy = threading.Event(), threading.Event()
    busy.set()

    def is_busy() -> bool:
        asked.set()
        return busy.is_set()

    publisher = Publisher(store, folder, pytest.fail, is_busy)
    publisher.start()
    publisher.mark()
    assert asked.wait(LONG_SECONDS)
    assert current_number(folder) == 0
    busy.clear()
    wait_for(lambda: current_number(folder) == 1)
    busy.set()
    monkeypatch.setattr(snapshots, "PATIENCE_SECONDS", 0.0)
    publisher.mark()
    wait_for(lambda: current_number(folder) == 2)
    publisher.stop()


class Held:
    """A lock that somebody holds for 100 s of a clock that stands still otherwise."""

    def __init__(self) -> None:
        self.clock = 0.0

    def __enter__(self) -> None:
        self.clock += 100.0

    def __exit__(self, *told: object) -> None:
        pass


@pytest.mark.parametrize("lock", ["whole", "_writer"])
def test_a_publisher_that_waited_for_a_pass_or_a_writer_need_not_rest_for_that(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    held = Held()
    monkeypatch.setattr(store, lock, held)
    monkeypatch.setattr(time, "monotonic", lambda: held.clock)
    assert Publisher(store, folder, pytest.fail).publish_now() == 0.0
    assert (held.clock, current_number(folder)) == (100.0, 1)


def test_publishing_takes_a_fifth_of_the_time_at_most(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "EVERY_SECONDS", 0.0)
    publisher, took = Publisher(store, folder, pytest.fail), list[float]()
    publish_now = publisher.publish_now

    def timed() -> float:
        took.append(publish_now())
        publisher.mark()
        return took[-1]

    monkeypatch.setattr(publisher, "publish_now", timed)
    publisher.mark()
    began = time.monotonic()
    publisher.start()
    wait_for(lambda: len(took) > 4)
    spent, elapsed = sum(took[:4]), time.monotonic() - began  # the fifth began after four rests
    publisher.stop()
    assert spent <= elapsed * snapshots.SHARE_OF_TIME
