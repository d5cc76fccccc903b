"""A drive of which any parts are gone or damaged: what was stored is there again, or the refusal says what to do."""

import random
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from pytest_django import Settings

from ingest.errors import StoreProblem
from ingest.store.snapshots import publish
from tests.conftest import Count
from tests.ingest.backup.kept_state import files_of, frames_of
from tests.ingest.stream.frames import SOURCE, take
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
