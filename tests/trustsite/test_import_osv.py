"""`manage.py import_osv`: from a folder to a published snapshot that advisories are looked up in."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.store.snapshots import SnapshotReader
from scoring.packages.entry import Package
from scoring.scanners.dependencies import find_advisories
from tests.ingest.lookups.osv_records import folder_of, record
from tests.stores import use_own_store


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    """A store and snapshots of the test's own; no worker runs, so the command owns them."""
    use_own_store(tmp_path, settings)


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
