"""`manage.py import_history`: from a file to a published snapshot, what it says of itself, and back."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.store.snapshots import SnapshotReader
from scoring.dataset.dataset import build_cases, read_cases
from scoring.packages.entry import Package
from scoring.scanners.dependencies import find_advisories
from tests.ingest.history_import.past import WATCHED, merged, past, refused, write
from tests.ingest.lookups.osv_records import folder_of, record
from tests.stores import use_own_store


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    """A store and snapshots of the test's own; no worker runs, so the command owns them."""
    use_own_store(tmp_path, settings)


def told(*arguments: str) -> str:
    out = StringIO()
    call_command("import_history", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_what_was_imported_is_read_from_the_published_snapshot_and_goes_again(
    tmp_path: Path, settings: Settings
) -> None:
    path = write(tmp_path / "old-forge.parquet", [merged(n_commits=3, colour="red"), refused(), past(3, is_bot=True)])
    said = told(str(path))
    assert "old-forge: 3 pull requests in 1 projects by 1 people: 1 merged, 1 refused, 1 open; 1 of bots" in said
    assert "No author has a DID (see --identities)" in said
    assert "unknown for 100% of them, which counts as unknown and not as failed" in said
    assert "Ignored, because they follow from the outcome: n_commits." in said
    assert "Columns that are not used: colour." in said
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        assert snapshot is not None
        build_cases(snapshot, WATCHED, 14)
        assert len(read_cases(snapshot)) == 2
    assert told("--remove", "old-forge") == "3 pull requests of old-forge removed.\n"
    with pytest.raises(CommandError, match="nothing was imported"):
        told("--remove", "old-forge")


def test_identities_tie_people_and_the_summary_counts_them(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [merged(), merged(2, author="mara")])
    who = tmp_path / "who.csv"
    who.write_text("author,did\nana,did:web:ana.example\n")
    said = told(str(path), "--identities", str(who), "--source", "elsewhere")
    assert "1 people are tied to a DID: 1 pull requests are part of their record." in said
    assert said.startswith("elsewhere: 2 pull requests")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Name a FILE to take, or --remove SOURCE"),
        (["gone.parquet"], "gone.parquet does not exist: name a file"),
        (["{}/text"], "is not a Parquet file that can be read"),
        (["{}/text", "--source", "a b"], "cannot name a source"),
        (["{}/text", "--remove", "x"], "Name a FILE to take, or --remove SOURCE"),
        (["{}/text", "--identities", "gone.csv"], "gone.csv does not exist"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (tmp_path / "text").write_text("no")
    with pytest.raises(CommandError, match=sentence) as said:
        told(*(one.format(tmp_path) for one in arguments))
    assert "\n" not in str(said.value)


def test_what_was_imported_is_found_in_the_published_snapshot(tmp_path: Path, settings: Settings) -> None:
    folder = folder_of(tmp_path / "osv", [record(), record("MAL-2026-1", "evil", [{"introduced": "0"}])])
    (folder / "broken.json").write_text("{")
    out, err = StringIO(), StringIO()
    call_command("import_osv", str(folder), stdout=out, stderr=err)
    assert "3 records read: 2 kept, 0 withdrawn, 0 not looked up here, 1 unusable" in out.getvalue()
    assert "'broken.json'" in err.getvalue()
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        assert snapshot is not None
        packages = [Package("PyPI", "flask", "1.0"), Package("PyPI", "evil", None), Package("PyPI", "idna", "1")]
        found = [[one.id for one in answer] for answer in find_advisories(snapshot, packages)]
    assert found == [["PYSEC-1"], ["MAL-2026-1"], []]


def test_a_source_that_is_none_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    with pytest.raises(CommandError, match="does not exist: name a folder or a zip file"):
        call_command("import_osv", str(tmp_path / "gone"))
    with pytest.raises(CommandError, match="neither a folder nor a zip file"):
        call_command("import_osv", str(tmp_path / "text"))
