"""Pages and JSON where snapshots are damaged: an older whole one serves, and with none the answer is 503 in words."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from django.test import Client
from pytest_django import Settings

from ingest.store import snapshots
from ingest.store.database import Store
from ingest.store.snapshots import publish
from tests.conftest import Count
from tests.triage.worlds.site import Site
from triage import middleware

HEADERS, BLOCK = 3 * 4_096, 262_144  # bytes of a DuckDB file: its three headers, then blocks
pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The site's snapshots, the newest two published here."""
    settings.PUBLIC_READ = True
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.0)
    store = Store.open(site.folder / "duckdb" / "trust.duckdb")
    publish(store, settings.SNAPSHOT_DIR)
    publish(store, settings.SNAPSHOT_DIR)
    store.close()
    for path in snapshots.snapshot_files(settings.SNAPSHOT_DIR):  # linked ones are every test's: these are damaged
        held = path.read_bytes()
        path.unlink()
        path.write_bytes(held)
    yield settings.SNAPSHOT_DIR
    middleware._reader(settings.SNAPSHOT_DIR).close()
    middleware._reader.cache_clear()


def newest(folder: Path) -> Path:
    return snapshots.snapshot_files(folder)[0]


def spoil_rows(path: Path) -> None:
    """Zeros where the rows of pull requests lie, as a failing drive leaves them: the file opens, its rows do not."""
    with duckdb.connect(str(path), read_only=True) as database:
        query = "select distinct block_id from pragma_storage_info('pull_requests') where persistent and block_id >= 0"
        blocks = [row[0] for row in database.execute(query).fetchall()]
    held = bytearray(path.read_bytes())
    for block in blocks:
        begins = HEADERS + block * BLOCK
        held[begins : begins + BLOCK] = bytes(BLOCK)
    path.write_bytes(bytes(held))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9_000])


@pytest.mark.parametrize(("damage", "first"), [(cut, 200), (spoil_rows, 503)])
def test_a_new_web_process_with_a_damaged_snapshot_serves_the_one_before_it(
    client: Client, folder: Path, damage: Callable[[Path], None], first: int
) -> None:
    damage(newest(folder))
    # Damage that opening does not show costs the request that meets it, and no other.
    assert [client.get("/queue").status_code for _ in range(3)] == [first, 200, 200]
    assert client.get("/health").json()["snapshot"] == snapshots.current_number(folder) - 1


def test_a_damaged_row_costs_one_answer_in_words_of_json_too(client: Client, folder: Path) -> None:
    spoil_rows(newest(folder))
    answers = [client.get("/queue", headers={"Accept": "application/json"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 200, 200]
    assert "Nothing is lost" in answers[0].content.decode()


@pytest.mark.parametrize("path", ["/", "/queue", "/leaderboard", "/no-such-page"])
def test_without_any_snapshot_that_can_be_read_a_page_says_so_in_words(client: Client, folder: Path, path: str) -> None:
    for one in folder.glob("serve-*"):
        cut(one)
    answer = client.get(path)
    assert answer.status_code == 503
    assert "cannot read its data just now" in answer.content.decode()
    assert answer["Cache-Control"] == "no-store"
    health = client.get("/health")
    assert (health.status_code, health.json()["ready"], health.json()["snapshot"]) == (503, False, None)


def a_folder(pointer: Path) -> None:
    pointer.unlink()
    pointer.mkdir()


def failing(pointer: Path) -> None:
    """The kernel answers EIO to whoever reads the first bytes of this file."""
    pointer.unlink()
    pointer.symlink_to("/proc/self/mem")


@pytest.mark.parametrize("spoil", [Path.unlink, a_folder, failing])
def test_a_pointer_that_cannot_be_read_costs_nobody_an_answer(
    client: Client, folder: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(folder / "CURRENT")
    assert client.get("/queue").status_code == 200
    assert client.get("/health").json()["snapshot"] is not None


def test_a_pointer_without_any_snapshot_beside_it_is_503_in_words(client: Client, folder: Path) -> None:
    for one in folder.glob("serve-*"):
        one.unlink()
    a_folder(folder / "CURRENT")
    assert client.get("/queue").status_code == 503


IN_WORDS = ("cannot read its data just now", "Nothing is lost", "Nothing was published yet")


def whole(path: Path) -> None:
    """Nothing happened to it."""


def test_whatever_is_gone_or_damaged_a_whole_snapshot_serves_or_the_answer_is_503_in_words(
    client: Client, folder: Path, tmp_path: Path, count: Count
) -> None:
    draw, seen, kept = random.Random(3), set(), tmp_path / "kept"
    shutil.copytree(folder, kept, copy_function=shutil.copy2)
    for number in range(count(10, 300)):
        middleware._reader(folder).close()
        middleware._reader.cache_clear()
        shutil.rmtree(folder)
        shutil.copytree(kept, folder, copy_function=shutil.copy2)
        files = snapshots.snapshot_files(folder)
        spoilt = [draw.choice([whole, Path.unlink, cut, spoil_rows]) for _ in files]
        for path, spoil in zip(files, spoilt, strict=True):
            spoil(path)
        draw.choice([whole, Path.unlink, a_folder, failing])(folder / "CURRENT")
        *damaged, last = [client.get("/queue") for _ in range(len(files) + 1)]
        assert {answer.status_code for answer in damaged} <= {200, 503}, (number, spoilt)
        assert last.status_code == (200 if whole in spoilt else 503), (number, spoilt)
        assert whole in spoilt or any(words in last.content.decode() for words in IN_WORDS), (number, spoilt)
        seen.add(last.status_code)
    assert seen == {200, 503}
