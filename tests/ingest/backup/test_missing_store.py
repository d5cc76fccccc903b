"""No new store is begun over the snapshots of a main file that is gone, and the newest whole one takes its place."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from ingest.backup.manifest import BackupProblem, Places
from ingest.backup.missing_store import require_store, restore_snapshot
from ingest.errors import StoreProblem
from ingest.store.database import SCHEMA_VERSION
from ingest.store.look_inside import look_inside
from ingest.store.snapshots import publish
from tests.ingest.backup.kept_state import NOW, files_of, frames_of, make_drive, open_drive, places_below
from tests.ingest.stream.frames import take
from tests.sources import PROJECT

HOLD = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drive with three snapshots, each with ten events more; tests copy it."""
    root = tmp_path_factory.mktemp("published") / "drive"
    places = make_drive(root)
    store = open_drive(places)
    for size in (10, 20, 30):
        take(store, frames_of(size))
        publish(store, places.snapshots)
    store.close()
    return root


@pytest.fixture
def places(published: Path, tmp_path: Path) -> Places:
    root = tmp_path / "drive"
    shutil.copytree(published, root, copy_function=shutil.copy2)
    return places_below(root)


def events_in(path: Path) -> int:
    return look_inside(path).tables["events"].rows


def remove_pointer(places: Places) -> None:
    (places.snapshots / "CURRENT").unlink()


def remove_snapshots(places: Places) -> None:
    for path in places.snapshots.glob("serve-*"):
        path.unlink()


@pytest.mark.parametrize("also_gone", [lambda places: None, remove_pointer, remove_snapshots])
def test_no_store_is_begun_where_one_was_published(places: Places, also_gone: Callable[[Places], None]) -> None:
    places.store.unlink()
    also_gone(places)
    before = files_of(places.root)
    with pytest.raises(StoreProblem, match=r"is gone, but .* mount its drive or put the file back"):
        require_store(places.store, places.snapshots)
    assert files_of(places.root) == before


def make_a_folder(pointer: Path) -> None:
    pointer.mkdir()


def fill_with_garbage(pointer: Path) -> None:
    pointer.write_bytes(b"\xff\x00garbage")


def empty(pointer: Path) -> None:
    pointer.write_bytes(b"")


def point_in_a_circle(pointer: Path) -> None:
    pointer.symlink_to(pointer)  # reading it fails with ELOOP, as a worn drive fails with EIO


@pytest.mark.parametrize("spoil", [make_a_folder, fill_with_garbage, empty, point_in_a_circle])
def test_a_pointer_that_cannot_be_read_still_says_that_something_was_published(
    places: Places, spoil: Callable[[Path], None]
) -> None:
    places.store.unlink()
    remove_snapshots(places)
    remove_pointer(places)
    spoil(places.snapshots / "CURRENT")
    with pytest.raises(StoreProblem, match="is gone, but"):
        require_store(places.store, places.snapshots)


def test_the_refusal_names_the_newest_snapshot_that_can_be_read(places: Places) -> None:
    places.store.unlink()
    (places.snapshots / "serve-3.duckdb").write_bytes(b"x" * 9_000)
    with pytest.raises(StoreProblem, match=r"manage\.py restore --snapshot`, which takes serve-2\.duckdb of 20"):
        require_store(places.store, places.snapshots)


def test_a_drive_where_nothing_was_published_may_begin_and_one_with_its_store_goes_on(places: Places) -> None:
    require_store(places.store, places.snapshots)
    places.store.unlink()
    with pytest.raises(StoreProblem, match="is gone, but"):
        require_store(places.store, places.snapshots)
    shutil.rmtree(places.snapshots)
    require_store(places.store, places.snapshots)
    assert not places.store.exists(), "asking makes none"


def test_the_newest_snapshot_becomes_the_store_row_by_row(places: Places) -> None:
    expected = look_inside(places.store).tables
    places.store.unlink()
    done = restore_snapshot(places, replace=False, now=NOW)
    assert (done.snapshot.name, done.aside) == ("serve-3.duckdb", None)
    assert look_inside(places.store).tables == expected
    assert places.store.stat().st_mode & 0o777 == 0o600
    store = open_drive(places)
    assert publish(store, places.snapshots) == 4
    store.close()


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def spoil_data(path: Path) -> None:
    """Zeros over the second half, where the rows are: the file still opens."""
    held = path.read_bytes()
    path.write_bytes(held[: len(held) // 2] + bytes(len(held) - len(held) // 2))


def of_a_newer_version(path: Path) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute("update meta set value = ? where key = 'schema_version'", [str(SCHEMA_VERSION + 1)])


@pytest.mark.parametrize("damage", [cut_in_half, spoil_data, of_a_newer_version, Path.unlink])
def test_a_snapshot_that_is_not_whole_is_passed_over(places: Places, damage: Callable[[Path], None]) -> None:
    places.store.unlink()
    damage(places.snapshots / "serve-3.duckdb")
    assert restore_snapshot(places, replace=False, now=NOW).snapshot.name == "serve-2.duckdb"
    assert events_in(places.store) == events_in(places.snapshots / "serve-2.duckdb")


def test_without_a_whole_snapshot_nothing_is_changed(places: Places) -> None:
    places.store.unlink()
    for path in places.snapshots.glob("serve-*"):
        cut_in_half(path)
    before = files_of(places.root)
    with pytest.raises(BackupProblem, match="restore a backup instead"):
        restore_snapshot(places, replace=False, now=NOW)
    assert files_of(places.root) == before


def test_a_main_file_that_is_there_is_kept_unless_it_is_to_be_replaced(places: Places) -> None:
    cut_in_half(places.store)
    places.store.with_name("trust.duckdb.wal").write_bytes(b"changes")
    before = places.store.read_bytes()
    with pytest.raises(BackupProblem, match="add --replace"):
        restore_snapshot(places, replace=False, now=NOW)
    assert places.store.read_bytes() == before
    done = restore_snapshot(places, replace=True, now=NOW)
    assert done.aside is not None
    assert (done.aside / "trust.duckdb").read_bytes() == before
    assert (done.aside / "trust.duckdb.wal").read_bytes() == b"changes"
    assert not places.store.with_name("trust.duckdb.wal").exists()
    assert events_in(places.store) == events_in(places.snapshots / "serve-3.duckdb")


def test_a_log_of_changes_that_was_left_alone_is_not_replayed_into_the_snapshot(places: Places) -> None:
    places.store.unlink()
    places.store.with_name("trust.duckdb.wal").write_bytes(b"not of this file")
    restore_snapshot(places, replace=False, now=NOW)
    assert not places.store.with_name("trust.duckdb.wal").exists()


def test_a_store_that_a_worker_holds_is_not_replaced(places: Places) -> None:
    command = [sys.executable, "-c", HOLD, str(places.store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BackupProblem, match=f"held by process {holder.pid}: stop the worker"):
            restore_snapshot(places, replace=True, now=NOW)


def test_a_restore_that_a_full_drive_cut_off_leaves_no_half_store(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.store.unlink()

    def full(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:1_000])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    before = files_of(places.root)
    with pytest.raises(BackupProblem, match="could not be put back"):
        restore_snapshot(places, replace=False, now=NOW)
    assert files_of(places.root) == before
