"""A restore brings exactly the state of a backup back, or refuses in one sentence and changes nothing."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from ingest.backup import restore as restoring
from ingest.backup.manifest import MANIFEST, BackupProblem, file_of, is_name
from ingest.store import archive
from ingest.stream.load import load
from tests.ingest.backup.kept_state import (
    back_up,
    files_of,
    fill_beside,
    frames_of,
    make_drive,
    open_drive,
    put_back,
)
from tests.ingest.stream.frames import SOURCE, at, rows, take


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole backup; tests that spoil it take a copy."""
    root = tmp_path_factory.mktemp("made")
    places = make_drive(root / "drive")
    fill_beside(places)
    store = open_drive(places)
    take(store, frames_of(30))
    archive.archive(store, places.staging, 30, 10, at(0))
    back_up(store, places, root / "backup")
    store.close()
    return root / "backup"


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    told = json.loads((folder / MANIFEST).read_text())
    change(told)
    (folder / MANIFEST).write_text(json.dumps(told))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(bytes(held))


def link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def with_code(folder: Path) -> None:
    """A store with a view that reads another file, and a manifest that tells its true hash."""
    with closing(duckdb.connect(str(folder / "trust.duckdb"))) as store:
        store.execute("create view people as select * from read_text('/etc/hostname')")
    true = msgspec.to_builtins(file_of(folder / "trust.duckdb"))
    edit(folder, lambda told: told["files"].update({"trust.duckdb": true}))


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), "is not a backup"),
    "a cut manifest": (lambda folder: cut(folder / MANIFEST), "makes no sense"),
    "a list for a manifest": (lambda folder: (folder / MANIFEST).write_text("[" * 100_000), "makes no sense"),
    "a newer format": (lambda folder: edit(folder, lambda told: told.update(format=2)), "another version"),
    "a way out": (
        lambda folder: edit(folder, lambda told: told["files"].update({"models/../../x": {"size": 1, "sha256": ""}})),
        "names what no backup holds",
    ),
    "a cut store": (lambda folder: cut(folder / "trust.duckdb"), "is damaged or missing"),
    "a flipped bit": (lambda folder: flip(folder / "trust.duckdb"), "is damaged or missing"),
    "lost accounts": (lambda folder: (folder / "web.sqlite3").unlink(), "is damaged or missing"),
    "a link": (lambda folder: link(folder / "web.sqlite3"), "was not restored"),
    "a linked folder": (lambda folder: link(folder / "models"), "is damaged or missing"),
    "other rows": (
        lambda folder: edit(folder, lambda told: told["tables"]["events"].update(rows=1)),
        "has other rows",
    ),
    "code of a stranger": (with_code, "not a backup that Sunstead made"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_spoiled_backup_is_refused_in_one_sentence_and_touches_nothing(made: Path, tmp_path: Path, what: str) -> None:
    folder = shutil.copytree(made, tmp_path / "backup")
    spoil, sentence = SPOILED[what]
    spoil(folder)
    places = make_drive(tmp_path / "drive")
    before = files_of(places.root)
    with pytest.raises(BackupProblem, match=sentence) as refused:
        put_back(folder, places)
    assert "\n" not in str(refused.value)
    assert files_of(places.root) == before


@pytest.mark.parametrize("way", ["behind a link", "a/../backup"])
def test_a_backup_is_found_whatever_way_its_folder_is_named(made: Path, tmp_path: Path, way: str) -> None:
    shutil.copytree(made, tmp_path / "backup")
    (tmp_path / "a").mkdir()
    (tmp_path / "behind a link").symlink_to(tmp_path / "backup")
    places = make_drive(tmp_path / "drive")
    assert put_back(tmp_path / way, places).aside is None
    assert places.store.is_file()


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "diffs/../x", "diffs", "keys/other", "events/a.csv", "models//a", ""]
)
def test_no_name_of_a_file_leads_out_of_its_folder(name: str) -> None:
    assert not is_name(name)


def test_a_drive_with_a_state_is_replaced_only_on_purpose_and_keeps_the_old_one(made: Path, tmp_path: Path) -> None:
    places = make_drive(tmp_path / "drive")
    fill_beside(places)
    (places.root / "mirrors").mkdir()
    (places.root / "mirrors" / "1.git").write_text("of another store's number 1")
    store = open_drive(places)
    take(store, frames_of(10))
    with pytest.raises(BackupProblem, match=rf"{places.store} holds a state already: add --replace"):
        put_back(made, places)
    store.close()
    former = places.store.read_bytes()
    done = put_back(made, places, replace=True)
    assert done.aside is not None
    assert (done.aside / "trust.duckdb").read_bytes() == former
    assert (done.aside / "mirrors" / "1.git").is_file()
    assert not (places.root / "mirrors" / "1.git").exists()
    with closing(sqlite3.connect(done.aside / "web.sqlite3")) as accounts:
        assert accounts.execute("select count(*) from django_session").fetchone() == (1,)
    restored = open_drive(places)
    assert rows(restored, archive.COUNT) == [(30,)]
    restored.close()


def test_a_restore_that_was_cut_off_is_done_again_from_the_same_backup(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = make_drive(tmp_path / "drive")
    moved: list[Path] = []

    def fail(source: Path, target: Path) -> None:
        moved.append(target)
        if len(moved) == 2:
            raise OSError("the plug was pulled")
        source.rename(target)

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_move", fail)
        with pytest.raises(BackupProblem, match="run the same command again with --replace"):
            put_back(made, places)
    assert (places.root / restoring.STAGED / restoring.SWAPPING).exists()  # nothing starts: tests/test_drive.py
    put_back(made, places, replace=True)
    assert not (places.root / restoring.STAGED).exists()
    restored = open_drive(places)
    assert rows(restored, archive.COUNT) == [(30,)]
    restored.close()


def test_loading_goes_on_after_a_restore_where_the_backup_ended(made: Path, tmp_path: Path) -> None:
    places = make_drive(tmp_path / "drive")
    put_back(made, places)
    restored = open_drive(places)
    assert load(restored, SOURCE, frames_of(35)).events == 5  # the stream repeats what was lost
    restored.close()
