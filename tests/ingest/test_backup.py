"""A backup is the state of one moment, taken under load; a restore brings exactly that back, or changes nothing."""

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from ingest import archive, state_copy
from ingest import restore as restoring
from ingest.backup import write_backup
from ingest.backup_files import MANIFEST, BackupProblem, Places, file_of, is_name
from ingest.load import load
from ingest.look_inside import look_inside
from ingest.state_copy import copy_sqlite
from ingest.store import Store
from ingest.transaction import Rows
from tests.ingest.conftest import Open
from tests.ingest.kept_state import (
    SESSION,
    back_up,
    copier,
    files_of,
    fill_beside,
    make_drive,
    open_drive,
    places_below,
    put_back,
)
from tests.ingest.planted import a_row
from tests.ingest.stream import ANA, FIRST_US, MARA, SEED, SOURCE, Frames, at, digest_of, rows, take
from tests.waiting import wait_for

LOADED = ("events", "vouches", "ingest_state")  # tables that the load fills


def frames_of(size: int) -> Frames:
    frames = Frames()
    while len(frames) < size:
        frames.vouch((SEED, ANA, MARA)[len(frames) % 3], f"did:plc:{len(frames):024d}".replace("0", "a"))
    return frames


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A drive with something of everything beside its store."""
    made = make_drive(tmp_path / "drive")
    fill_beside(made)
    return made


@pytest.fixture
def owned(places: Places) -> Iterator[Store]:
    """Its store, of which the older half lies in the archive."""
    store = open_drive(places)
    take(store, frames_of(40))
    archive.archive(store, places.staging, 30, 20, at(0))
    yield store
    store.close()


def test_a_backup_taken_under_load_is_the_state_of_its_moment_row_by_row(
    places: Places, owned: Store, tmp_path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_empty_tables(owned)
    frames, stop, then = frames_of(4_000), threading.Event(), {}

    def write() -> None:
        for begin in range(40, len(frames), 5):
            if stop.is_set():
                return
            take(owned, frames[begin : begin + 5])
            note_batch(places, begin)  # as an action that is noted as delivered once the store has it

    def copy_accounts(source: Path, target: Path) -> None:
        then.update(every_row(owned))
        copy_sqlite(source, target)

    monkeypatch.setattr(state_copy, "copy_sqlite", copy_accounts)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_for(lambda: newest(owned) > FIRST_US + 60_000_000)
        manifest = back_up(owned, places, tmp_path / "backup")
        wait_for(lambda: newest(owned) > manifest.cursors[SOURCE])
    finally:
        stop.set()
        writer.join()
    other = make_drive(tmp_path / "other")
    put_back(tmp_path / "backup", other)
    assert differing_tables(other, manifest.tables) == ["event_segments"]  # whose files lie elsewhere now
    restored = open_drive(other)
    found = every_row(restored)
    assert [name for name in then if found[name] != then[name]] == ["event_segments"]
    assert [name for name in then if not then[name]] == []
    seen = (manifest.cursors[SOURCE] - FIRST_US) // 1_000_000 + 1
    assert newest(restored) == manifest.cursors[SOURCE]
    noted = batches_noted(other)
    assert noted == list(range(40, noted[-1] + 5, 5))
    assert seen - noted[-1] in (5, 10), "the batch that the accounts know is in the store, and at most one more"
    undisturbed = open_store("undisturbed")
    take(undisturbed, frames[:seen])
    told, wanted = digest_of(restored), digest_of(undisturbed)
    assert {name: told[name] for name in LOADED} == {name: wanted[name] for name in LOADED}
    restored.close()


def fill_empty_tables(store: Store) -> None:
    """A row in every table that has none, so that no table is equal for want of rows."""
    with store.read() as found:
        empty = [name for name in names_of(found) if not found.value(f'select count(*) from "{name}"')]
    with store.write() as txn:
        for name in ("contributors", *empty):  # of whom the other rows tell
            row = a_row(store, name, 1, {})
            txn.execute(f'insert into "{name}" values ({", ".join("?" * len(row))})', list(row.values()))


def names_of(found: Rows) -> list[str]:
    return [row["table_name"] for row in found.rows("select table_name from duckdb_tables() order by all")]


def every_row(store: Store) -> dict[str, list[str]]:
    """All rows of all tables, as text."""
    with store.read() as found:
        return {name: sorted(map(repr, found.cursor.execute(f'from "{name}"').fetchall())) for name in names_of(found)}


def note_batch(places: Places, number: int) -> None:
    with closing(sqlite3.connect(places.accounts)) as accounts:
        accounts.execute("create table if not exists noted (number integer)")
        accounts.execute("insert into noted values (?)", [number])
        accounts.commit()


def batches_noted(places: Places) -> list[int]:
    with closing(sqlite3.connect(places.accounts)) as accounts:
        return [number for (number,) in accounts.execute("select number from noted order by number")]


def newest(store: Store) -> int:
    return rows(store, "select cursor_us from ingest_state")[0][0]


def differing_tables(places: Places, tables: object) -> list[str]:
    found = look_inside(places.store).tables
    assert isinstance(tables, dict)
    assert found.keys() == tables.keys()
    return [name for name in found if found[name] != tables[name]]


def test_everything_beside_the_store_comes_back_and_nobody_is_signed_in(
    places: Places, owned: Store, tmp_path: Path
) -> None:
    back_up(owned, places, tmp_path / "backup")
    other = make_drive(tmp_path / "other")
    done = put_back(tmp_path / "backup", other)
    assert (done.aside, done.erase, done.unknown) == (None, (), True)
    for folder in ("diffs", "models", "staging/events"):
        assert files_of(other.root / folder) == files_of(places.root / folder) != {}
    with closing(sqlite3.connect(other.accounts)) as accounts:
        assert accounts.execute("select did from triage_person").fetchall() == [("did:plc:somebody",)]
    assert not any(SESSION.encode() in held for held in files_of(tmp_path / "backup").values())
    assert not (other.root / ".restoring").exists()
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "backup").rglob("*") if path.is_file()} == {0o600}


def test_keys_are_in_a_backup_only_where_somebody_asks_for_them(places: Places, owned: Store, tmp_path: Path) -> None:
    (places.keys / "django").write_text("zq7KEYzq7")
    back_up(owned, places, tmp_path / "plain")
    back_up(owned, places, tmp_path / "secret", keys=True, diffs=False)
    assert not any(b"zq7KEYzq7" in held for held in files_of(tmp_path / "plain").values())
    assert not (tmp_path / "secret" / "diffs").exists()
    other = make_drive(tmp_path / "other", "b" * 64)
    put_back(tmp_path / "secret", other)
    assert (other.keys / "django").read_text() == "zq7KEYzq7"
    assert (other.keys / "django").stat().st_mode & 0o777 == 0o600


def test_the_key_that_a_webhooks_receiver_holds_comes_back_with_the_others(
    places: Places, owned: Store, tmp_path: Path
) -> None:
    (places.keys / "webhook").write_text("c" * 64)
    back_up(owned, places, tmp_path / "secret", keys=True)
    other = make_drive(tmp_path / "other")
    (other.keys / "webhook").write_text("d" * 64)
    done = put_back(tmp_path / "secret", other)
    assert (other.keys / "webhook").read_text() == "c" * 64
    assert done.aside is not None
    assert (done.aside / "keys" / "webhook").read_text() == "d" * 64


def test_a_backup_that_fails_leaves_nothing_of_its_name(places: Places, owned: Store, tmp_path: Path) -> None:
    next((places.staging / "events").iterdir()).unlink()
    with pytest.raises(Exception, match="No such file"):
        back_up(owned, places, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("backup")] == []


def test_what_a_killed_backup_left_goes_and_a_finished_one_is_never_written_over(
    places: Places, owned: Store, tmp_path: Path
) -> None:
    half = tmp_path / "backup.part"
    half.mkdir()
    (half / ".sunstead-backup").touch()
    (half / "trust.duckdb").write_text("half")
    back_up(owned, places, tmp_path / "backup")
    assert not half.exists()
    with pytest.raises(BackupProblem, match="exists already"):
        back_up(owned, places, tmp_path / "backup")
    half.mkdir()
    (half / "mine").write_text("not begun by us")
    (tmp_path / "backup").rename(tmp_path / "elsewhere")
    with pytest.raises(BackupProblem, match="cannot be made"):
        back_up(owned, places, tmp_path / "backup")
    assert (half / "mine").read_text() == "not begun by us"


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
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), "is no backup"),
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
    "code of a stranger": (with_code, "no backup that Sunstead made"),
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


def test_a_copier_that_tells_other_rows_than_it_copied_is_found_out(
    places: Places, owned: Store, tmp_path: Path
) -> None:
    def lie(folder: Path) -> dict[str, object]:
        told = dict(copier(owned, places)(folder))
        return told | {"rows": told["rows"] | {"events": 7}}

    with pytest.raises(BackupProblem, match=r"other rows than the store had \(events\)"):
        write_backup(tmp_path / "backup", places, lie)


def test_places_of_names_lie_where_the_settings_say(tmp_path: Path) -> None:
    places = places_below(tmp_path)
    assert places.of("events/1.parquet") == tmp_path / "staging" / "events" / "1.parquet"
    assert places.of("trust.duckdb") == tmp_path / "duckdb" / "trust.duckdb"
