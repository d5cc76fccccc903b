"""A backup is the state of one moment, taken under load, with everything beside the store and no session or key."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingest.backup import manifest as state_copy
from ingest.backup.manifest import BackupProblem, Places, copy_sqlite, write_backup
from ingest.store import archive
from ingest.store.database import Store
from ingest.store.look_inside import look_inside
from ingest.store.transaction import Rows
from tests.ingest.backup.kept_state import (
    SESSION,
    back_up,
    copier,
    files_of,
    fill_beside,
    frames_of,
    make_drive,
    open_drive,
    places_below,
    put_back,
)
from tests.ingest.conftest import Open
from tests.ingest.erasure.planted import a_row
from tests.ingest.stream.frames import FIRST_US, SOURCE, at, digest_of, rows, take
from tests.waiting import wait_for

LOADED = ("events", "vouches", "ingest_state")  # tables that the load fills


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
        published_as = accounts.execute("select sealed from triage_serviceaccount").fetchall()
        assert published_as == [(None,)], "nothing is published before it is connected again"
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


@pytest.mark.parametrize("name", ["webhook", "push"])
def test_a_key_of_which_others_hold_a_copy_or_the_other_half_comes_back_with_the_drives_own(
    places: Places, owned: Store, tmp_path: Path, name: str
) -> None:
    (places.keys / name).write_text("c" * 64)
    back_up(owned, places, tmp_path / "secret", keys=True)
    other = make_drive(tmp_path / "other")
    (other.keys / name).write_text("d" * 64)
    done = put_back(tmp_path / "secret", other)
    assert (other.keys / name).read_text() == "c" * 64
    assert done.aside is not None
    assert (done.aside / "keys" / name).read_text() == "d" * 64


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
