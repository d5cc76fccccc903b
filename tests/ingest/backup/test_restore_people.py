"""Whoever was erased after a backup was made does not come back with it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.backup.manifest import BackupProblem, Places
from ingest.erasure import erase
from ingest.store.archive import adopt, archive
from ingest.store.database import Store
from ingest.store.snapshots import publish
from tests.ingest.backup.kept_state import back_up, make_drive, open_drive, places_below, put_back
from tests.ingest.erasure.erased import LATE, story
from tests.ingest.erasure.planted import GONE, folders_below, traces
from tests.ingest.stream.frames import ANA, at, rows, take

WORDS = (GONE, GONE.removeprefix("did:plc:"))


@pytest.fixture(scope="module")
def erased_since(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drive from which somebody was erased after its backup (`backup` beside it) was made; tests copy both."""
    root = tmp_path_factory.mktemp("erased")
    places = make_drive(root / "drive")
    store = open_drive(places)
    take(store, story())
    archive(store, places.staging, 30, 5, at(0))
    back_up(store, places, root / "backup")
    folders = folders_below(places.root)
    erase.erase(store, GONE, "by_request", LATE, folders)
    erase.finish(store, folders)
    store.close()
    return root


@pytest.fixture
def both(erased_since: Path, tmp_path: Path) -> Path:
    return shutil.copytree(erased_since, tmp_path / "both")


def places_of(both: Path) -> Places:
    return places_below(both / "drive")


def spoil_nothing(places: Places) -> None:
    """Leave the former state whole."""


def spoil_store(places: Places) -> None:
    """Damage the former store: only its snapshot still tells who was erased."""
    places.store.write_bytes(b"x" * 9_000)


def restored(places: Places) -> Store:
    store = open_drive(places)
    adopt(store, places.staging)
    return store


@pytest.mark.parametrize("spoil", [spoil_nothing, spoil_store])
def test_they_are_hidden_in_what_is_restored_and_the_sweep_erases_them(
    both: Path, spoil: Callable[[Places], None]
) -> None:
    places = places_of(both)
    spoil(places)
    done = put_back(both / "backup", places, replace=True)
    assert (done.erase, done.unknown) == ((GONE,), False)
    store = restored(places)
    status = "select account_status from contributors where did = ?"
    with store.read() as found:
        assert found.value(status, [GONE]) == "erasing"
        assert found.value(status, [ANA]) == "active"
    folders = folders_below(places.root)
    assert erase.erase_due(store, LATE, folders) == 1
    erase.finish(store, folders)
    assert take(store, story()).events == 0  # nor does a replay bring them back
    store.close()
    assert done.aside is not None
    shutil.rmtree(done.aside)
    assert traces(places.root, WORDS) == []


def test_a_drive_that_knows_nobody_says_so(both: Path, tmp_path: Path) -> None:
    done = put_back(both / "backup", make_drive(tmp_path / "new"))
    assert (done.erase, done.unknown) == ((), True)


def test_a_store_that_remembers_people_under_another_key_is_refused(both: Path, tmp_path: Path) -> None:
    places = places_of(both)
    store = restored(places)
    back_up(store, places, both / "later")
    store.close()
    stranger = make_drive(tmp_path / "stranger", "b" * 64)
    with pytest.raises(BackupProblem, match="under another key"):
        put_back(both / "later", stranger)
    (places.keys / "tombstones").write_text("b" * 64)
    with pytest.raises(BackupProblem, match="is not the key of"):
        put_back(both / "backup", places, replace=True)


def test_whoever_was_erased_before_the_backup_is_remembered_and_not_erased_twice(both: Path) -> None:
    places = places_of(both)
    store = restored(places)
    back_up(store, places, both / "later")
    publish(store, places.snapshots)
    store.close()
    done = put_back(both / "later", places, replace=True)
    assert done.erase == ()
    store = restored(places)
    assert rows(store, "select count(*) from tombstones") == [(1,)]
    store.close()
