"""Every command that would own a missing store refuses in one sentence, and `restore --snapshot` is the way out."""

import re
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.store.database import Store
from ingest.store.look_inside import look_inside
from ingest.store.snapshots import current_number, publish
from tests.conftest import Manage
from tests.ingest.backup.kept_state import files_of, frames_of
from tests.ingest.stream.frames import SOURCE, take
from trustsite import drive


@pytest.fixture
def root(new_drive: Path) -> Path:
    """A drive with a store that was published."""
    publish_below(new_drive, new_drive / "duckdb" / "trust.duckdb")
    return new_drive


def publish_below(folder: Path, path: Path) -> None:
    store = Store.open(path, key=drive.key(folder, "tombstones").encode())
    store.bind(SOURCE)
    take(store, frames_of(30))
    publish(store, folder / "snapshots")
    store.close()


def test_a_command_that_would_own_a_missing_store_refuses_and_leaves_the_snapshots(
    manage: Manage, root: Path, settings: Settings
) -> None:
    path, sentence = root / "duckdb" / "trust.duckdb", "manage.py restore --snapshot`, which takes serve-1.duckdb"
    path.unlink()
    before = files_of(root / "snapshots")
    refused = manage("worker", DATA_ROOT=root)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert sentence in refused.stderr
    settings.PLACE, settings.ROOT = drive.Place("drive", root), root
    settings.DUCKDB_PATH, settings.SNAPSHOT_DIR = path, root / "snapshots"
    for command in ("backfill", "compact", "retry_dead_letters"):
        with pytest.raises(CommandError, match=re.escape(sentence)) as problem:
            call_command(command)
        assert "\n" not in str(problem.value)
    assert files_of(root / "snapshots") == before
    assert not path.exists()


def test_the_newest_snapshot_is_restored_and_published_anew(manage: Manage, root: Path) -> None:
    path = root / "duckdb" / "trust.duckdb"
    expected = look_inside(path).tables
    path.unlink()
    done = manage("restore", "--snapshot", DATA_ROOT=root)
    assert done.returncode == 0, done.stderr
    assert "serve-1.duckdb is the store again" in done.stdout
    assert look_inside(path).tables == expected
    assert current_number(root / "snapshots") == 2
    again = manage("restore", "--snapshot", DATA_ROOT=root)
    assert again.returncode == 2
    assert "add --replace" in again.stderr


def test_a_second_drive_that_is_not_mounted_gets_no_store(manage: Manage, root: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    path = second / "trust.duckdb"
    second.mkdir()
    shutil.rmtree(root / "snapshots")
    refused = manage("worker", DATA_ROOT=root, DUCKDB_PATH=path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "without a mark (.sunstead), as a drive that is not mounted: mount it, or run `manage.py init_drive`" in (
        refused.stderr
    )
    assert list(second.iterdir()) == []


def test_init_drive_marks_the_folder_of_a_store_on_a_second_drive(manage: Manage, tmp_path: Path) -> None:
    root, second = tmp_path / "drive", tmp_path / "second"
    root.mkdir()
    assert manage("init_drive", DATA_ROOT=root, DUCKDB_PATH=second / "trust.duckdb").returncode == 0
    drive.require_store_folder(second / "trust.duckdb", root)
    assert second.stat().st_mode & 0o777 == 0o700
    second.rename(tmp_path / "unmounted")
    second.mkdir()
    with pytest.raises(drive.DriveProblem, match="not mounted"):
        drive.require_store_folder(second / "trust.duckdb", root)


def test_a_link_in_the_drive_to_a_second_drive_counts_as_the_second_drive(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "duckdb")
    (tmp_path / "second").mkdir()
    (root / "duckdb").symlink_to(tmp_path / "second")
    with pytest.raises(drive.DriveProblem, match="not mounted"):
        drive.require_store_folder(root / "duckdb" / "trust.duckdb", root)


def test_a_store_on_a_second_drive_that_was_made_before_there_were_marks_is_marked(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "second" / "trust.duckdb"
    publish_below(root, path)
    drive.require_store_folder(path, root)
    path.unlink()
    drive.require_store_folder(path, root)
    assert (path.parent / ".sunstead").exists(), "by which it is known from here on"
