"""A drive of which any parts are gone or damaged: what was stored is there again, or the refusal says what to do."""

import random
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.store.look_inside import look_inside
from ingest.store.snapshots import current_number, publish
from tests.conftest import Count, Manage
from tests.ingest.backup.kept_state import files_of, frames_of
from tests.ingest.stream.frames import SOURCE, take
from tests.trustsite.ports import free_port
from trustsite import drive
from trustsite.worker.handover import open_store

EVENTS = 30
WAYS_OUT = re.compile(
    r"mount it|mount its drive|restore --snapshot|restore a backup|`manage.py (restore|init_drive)|put its backup|`mv "
)
Spoil = Callable[[Path], object]


def gone(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"no database, no number, no key" * 400)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_circle(path: Path) -> None:
    """A link to itself: reading it fails, as a worn drive fails."""
    path.unlink()
    path.symlink_to(path)


def whole(path: Path) -> None:
    """Nothing happened to it."""


FILES: Mapping[str, tuple[Spoil, ...]] = {
    "second/trust.duckdb": (whole, gone, gone, cut, emptied, garbage, a_folder, a_circle),
    "second/.sunstead": (whole, gone),
    "drive/.sunstead": (*[whole] * 9, gone),
    "drive/keys/tombstones": (*[whole] * 7, gone, emptied, garbage),
    "drive/snapshots/CURRENT": (whole, gone, emptied, garbage, a_folder, a_circle),
    "drive/snapshots/serve-1.duckdb": (whole, gone, cut, emptied, a_folder),
    "drive/snapshots/serve-2.duckdb": (whole, gone, cut, emptied, a_folder),
}


@pytest.fixture(name="published")
def published_fixture(tmp_path: Path, settings: Settings) -> Path:
    """A drive, and a second one with its store, which was published twice; the settings name them."""
    folder = tmp_path / "published"
    root = folder / "drive"
    root.mkdir(parents=True)
    settings.PLACE, settings.ROOT = drive.Place("drive", root), root
    settings.DUCKDB_PATH, settings.SNAPSHOT_DIR = folder / "second" / "trust.duckdb", root / "snapshots"
    drive.mark(root)
    drive.mark_store_folder(settings.DUCKDB_PATH, root)
    store = open_store()
    store.bind(SOURCE)
    take(store, frames_of(EVENTS))
    for _ in range(2):
        publish(store, settings.SNAPSHOT_DIR)
    store.close()
    return folder


def start(root: Path) -> int | str:
    """Return how many events a worker finds, or the sentence with which it refuses to start."""
    try:
        drive.require(drive.Place("drive", root))
        drive.require_keys(root)
        store = open_store()
    except (drive.DriveProblem, StoreProblem) as problem:
        return str(problem)
    with closing(store), store.read() as rows:
        return rows.value("select count(*) from events")


def test_no_empty_store_is_begun_where_one_was_whatever_is_gone_or_damaged(
    published: Path, tmp_path: Path, count: Count
) -> None:
    draw, seen, kept = random.Random(11), set(), tmp_path / "kept"
    published.rename(kept)
    for number in range(count(40, 1000)):
        shutil.copytree(kept, published, copy_function=shutil.copy2)
        spoilt = {name: draw.choice(ways) for name, ways in FILES.items()}
        for name, spoil in spoilt.items():
            spoil(published / name)
        case = number, spoilt
        is_all_gone = all(spoilt[name] is gone for name in FILES if name.endswith(("duckdb", "CURRENT")))
        before, told = files_of(published), start(published / "drive")
        if isinstance(told, int):
            assert told == (0 if is_all_gone else EVENTS), case
        else:
            after = files_of(published)
            assert WAYS_OUT.search(told), (case, told)
            assert before.items() <= after.items(), case
            assert after.keys() - before.keys() <= {"second/.sunstead", "drive/keys/tombstones"}, case
        seen.add(type(told))
        shutil.rmtree(published)
    assert seen == {int, str}


@pytest.fixture
def filled(new_drive: Path) -> Path:
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
    manage: Manage, filled: Path, settings: Settings
) -> None:
    path, sentence = filled / "duckdb" / "trust.duckdb", "manage.py restore --snapshot`, which takes serve-1.duckdb"
    path.unlink()
    before = files_of(filled / "snapshots")
    refused = manage("worker", DATA_ROOT=filled)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert sentence in refused.stderr
    settings.PLACE, settings.ROOT = drive.Place("drive", filled), filled
    settings.DUCKDB_PATH, settings.SNAPSHOT_DIR = path, filled / "snapshots"
    for command in ("backfill", "compact", "retry_dead_letters"):
        with pytest.raises(CommandError, match=re.escape(sentence)) as problem:
            call_command(command)
        assert "\n" not in str(problem.value)
    assert files_of(filled / "snapshots") == before
    assert not path.exists()


def test_the_newest_snapshot_is_restored_and_published_anew(manage: Manage, filled: Path) -> None:
    path = filled / "duckdb" / "trust.duckdb"
    expected = look_inside(path).tables
    path.unlink()
    done = manage("restore", "--snapshot", DATA_ROOT=filled)
    assert done.returncode == 0, done.stderr
    assert "serve-1.duckdb is the store again" in done.stdout
    assert look_inside(path).tables == expected
    assert current_number(filled / "snapshots") == 2
    again = manage("restore", "--snapshot", DATA_ROOT=filled)
    assert again.returncode == 2
    assert "add --replace" in again.stderr


def test_a_second_drive_that_is_not_mounted_gets_no_store(manage: Manage, filled: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    path = second / "trust.duckdb"
    second.mkdir()
    shutil.rmtree(filled / "snapshots")
    refused = manage("worker", DATA_ROOT=filled, DUCKDB_PATH=path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "without a mark (.sunstead), as a drive that is not mounted: mount it, or run `manage.py init_drive`" in (
        refused.stderr
    )
    assert list(second.iterdir()) == []


def test_init_drive_marks_the_folder_of_a_store_on_a_second_drive(manage: Manage, tmp_path: Path) -> None:
    filled, second = tmp_path / "drive", tmp_path / "second"
    filled.mkdir()
    assert manage("init_drive", DATA_ROOT=filled, DUCKDB_PATH=second / "trust.duckdb").returncode == 0
    drive.require_store_folder(second / "trust.duckdb", filled)
    assert second.stat().st_mode & 0o777 == 0o700
    second.rename(tmp_path / "unmounted")
    second.mkdir()
    with pytest.raises(drive.DriveProblem, match="not mounted"):
        drive.require_store_folder(second / "trust.duckdb", filled)


def test_a_link_in_the_drive_to_a_second_drive_counts_as_the_second_drive(filled: Path, tmp_path: Path) -> None:
    shutil.rmtree(filled / "duckdb")
    (tmp_path / "second").mkdir()
    (filled / "duckdb").symlink_to(tmp_path / "second")
    with pytest.raises(drive.DriveProblem, match="not mounted"):
        drive.require_store_folder(filled / "duckdb" / "trust.duckdb", filled)


def test_a_store_on_a_second_drive_that_was_made_before_there_were_marks_is_marked(
    filled: Path, tmp_path: Path
) -> None:
    path = tmp_path / "second" / "trust.duckdb"
    publish_below(filled, path)
    drive.require_store_folder(path, filled)
    path.unlink()
    drive.require_store_folder(path, filled)
    assert (path.parent / ".sunstead").exists(), "by which it is known from here on"


def refusal(manage: Manage, command: str, root: Path) -> str:
    """The one sentence with which a command ends."""
    done = manage(command, DATA_ROOT=root, BIND=f"127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    return done.stderr


def test_a_damaged_queue_ends_the_worker_in_one_sentence(manage: Manage, new_drive: Path) -> None:
    """The file begins as SQLite's do and holds nothing that makes sense."""
    (new_drive / "queue.sqlite3").write_bytes(b"SQLite format 3\0" + b"\x10\0\x02\x02\0@  " + b"\xff" * 9_000)
    sentence = refusal(manage, "worker", new_drive)
    assert "queue.sqlite3 is damaged" in sentence
    assert "stop worker and web and delete it, nothing is lost" in sentence


def test_a_damaged_key_is_refused_in_one_sentence_and_the_doctor_looks_at_all_beside_it(
    manage: Manage, new_drive: Path
) -> None:
    (new_drive / "keys" / "django").write_text("")
    for command in ("worker", "web"):
        sentence = refusal(manage, command, new_drive)
        assert "keys/django is empty or damaged: put its backup there, or delete it" in sentence
    done = manage("doctor", DATA_ROOT=new_drive)
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 16, done.stdout + done.stderr
    (line,) = [line for line in lines if line.split()[1] == "keys"]
    assert line.startswith("look")
    assert "django missing or damaged" in line


@pytest.mark.parametrize("held", ["", "half a k", "x" * 64, "a" * 63, "a" * 65, "a" * 63 + "\n"])
def test_every_key_of_a_drive_is_looked_at_and_a_damaged_one_never_signs(new_drive: Path, held: str) -> None:
    for name in drive.KEYS:
        drive.require_keys(new_drive)
        path = new_drive / "keys" / name
        path.write_text(held)
        with pytest.raises(drive.DriveProblem, match=f"keys/{name} is empty or damaged: put its backup there"):
            drive.require_keys(new_drive)
        assert drive.key(new_drive, name) != drive.key(new_drive, name)
        path.unlink()
