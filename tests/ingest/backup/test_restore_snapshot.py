"""`restore --snapshot` loses nothing that only the newer main file names, and nobody who was erased comes back."""

from pathlib import Path

import pytest

from ingest.backup.manifest import Places
from ingest.backup.missing_store import FromSnapshot, restore_snapshot
from ingest.erasure.erase import erase
from ingest.store.archive import adopt, archive, read_log
from ingest.store.database import Store
from ingest.store.long_texts import LongTexts
from ingest.store.snapshots import publish
from tests.ingest.backup.kept_state import NOW, files_of, make_drive, open_drive
from tests.ingest.erasure.erased import LATE
from tests.ingest.erasure.planted import GONE, folders_below
from tests.ingest.stream.frames import ANA, MARA, Frames, at, take

EVENTS = "select event_seq, did from {events} order by event_seq"


def kept_beside(places: Places) -> dict[str, bytes]:
    """Long texts and archive as they lie there, under the names that they have in what is kept aside."""
    texts = {f"texts/{name}": data for name, data in files_of(LongTexts(places.store).folder).items()}
    return texts | {f"staging/{name}": data for name, data in files_of(places.staging).items()}


def log_of(store: Store) -> list[tuple[object, ...]]:
    with store.read() as rows:
        return [tuple(row.values()) for row in read_log(rows, EVENTS)]


def grow(store: Store, places: Places, frames: Frames, name: str, size: int) -> None:
    """A pull request with a long text and some vouches, all of them archived."""
    frames.pull(MARA, name, "create", title=name, body=f"{name} " * 2_000)
    for number in range(size):
        frames.vouch(ANA, f"did:plc:{name[0] * 20}{number:04d}".replace("0", "a").replace("1", "b"))
    take(store, frames)
    archive(store, places.staging, 30, 0, at(0))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return make_drive(tmp_path / "drive")


@pytest.fixture
def store(places: Places) -> Store:
    """A store that was published with one file of its archive and one long text."""
    made = open_drive(places)
    frames = Frames()
    frames.repository(ANA)
    frames.vouch(GONE, ANA)
    grow(made, places, frames, "first", 5)
    publish(made, places.snapshots)
    return made


def restored(places: Places) -> tuple[FromSnapshot, Store]:
    done = restore_snapshot(places, replace=True, now=NOW)
    store = open_drive(places)
    adopt(store, places.staging)
    return done, store


def test_what_only_the_newer_file_names_stays_whole_aside(places: Places, store: Store) -> None:
    before = log_of(store)
    frames = Frames([b""] * 20)
    grow(store, places, frames, "second", 7)
    store.close()
    beside = kept_beside(places)
    assert len(beside) == 3  # two texts, and one file of the archive that took the place of the first
    done, mended = restored(places)
    assert done.aside is not None
    aside = files_of(done.aside)
    assert {name: data for name, data in aside.items() if name != "trust.duckdb"} == beside
    assert "trust.duckdb" in aside
    assert [(one.rows, one.found) for one in done.lost] == [(len(before), len(before))]
    assert log_of(mended) == before
    mended.close()


def test_where_no_later_file_holds_the_rows_the_store_goes_on_without_them(places: Places, store: Store) -> None:
    store.close()
    for path in places.staging.rglob("*.parquet"):
        path.unlink()
    done, mended = restored(places)
    assert [one.found for one in done.lost] == [0]
    assert log_of(mended) == []
    mended.close()


@pytest.mark.parametrize("cut", [False, True])
def test_who_was_erased_after_the_snapshot_is_hidden_and_to_be_erased_again(
    places: Places, store: Store, cut: bool
) -> None:
    erase(store, GONE, "by_request", LATE, folders_below(places.root))
    with store.read() as rows:
        marks = rows.rows("from tombstones")
    store.close()
    if cut:  # a restore that was killed after it moved the main file away
        (places.root / "replaced-2026-11-21T00-00-00").mkdir()
        places.store.rename(places.root / "replaced-2026-11-21T00-00-00" / places.store.name)
    done, mended = restored(places)
    assert done.erase == (GONE,)
    with mended.read() as rows:
        assert rows.rows("from tombstones") == marks
        assert rows.value("select account_status from contributors where did = ?", [GONE]) == "erasing"
    mended.close()


def test_a_main_file_that_cannot_be_read_leaves_its_tombstones_unknown(places: Places, store: Store) -> None:
    store.close()
    places.store.write_bytes(b"x" * 9_000)
    done, mended = restored(places)
    assert done.unknown
    mended.close()
