"""`manage.py check_pins`: our own pins against imported OSV records."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from scoring.packages.entry import Package
from scoring.review.pins import PinProblem, read_pins
from tests.ingest.lookups.osv_records import folder_of, record
from tests.sources import PROJECT
from tests.stores import use_own_store

BASE = PROJECT / "requirements" / "base.txt"
FROM_ZERO = [{"introduced": "0"}]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Settings) -> None:
    """A store and snapshots of the test's own; no worker runs, so the command owns them."""
    use_own_store(tmp_path, settings)


def check(*arguments: str) -> str:
    out = StringIO()
    call_command("check_pins", *arguments, stdout=out)
    return out.getvalue()


def test_every_line_of_our_own_pins_names_one_version() -> None:
    pins = read_pins(BASE.read_text())
    assert len(pins) == sum(line[:1].isalnum() for line in BASE.read_text().splitlines())
    assert {"django", "duckdb"} <= {one.name for one in pins}


def test_comments_extras_and_markers_are_read_over() -> None:
    text = "# made by hand\nhttpx[http2]==1.2  # via us\n    # via them\ntzdata==2026.6 ; sys_platform == 'win32'\n"
    assert read_pins(text) == (Package("PyPI", "httpx", "1.2"), Package("PyPI", "tzdata", "2026.6"))


@pytest.mark.parametrize("line", ["django", "django>=5", "-r other.txt", "django==5.*"])
def test_a_line_that_pins_nothing_is_refused(line: str) -> None:
    with pytest.raises(PinProblem, match="pins no package to one version"):
        read_pins(line)


def test_without_an_import_it_says_that_it_cannot_tell() -> None:
    with pytest.raises(CommandError, match="import_osv") as raised:
        check()
    assert raised.value.returncode == 2


def test_an_advisory_on_a_pin_is_reported_and_one_on_another_version_or_package_is_not(tmp_path: Path) -> None:
    old = [{"introduced": "0"}, {"fixed": "1.0"}]
    records = [record("PYSEC-1", "django", old), record("PYSEC-2", "left-pad", FROM_ZERO)]
    call_command("import_osv", str(folder_of(tmp_path / "fine", records)), stdout=StringIO())
    assert "None of " in check()
    bad = folder_of(tmp_path / "bad", [record("PYSEC-3", "Django", FROM_ZERO)])
    call_command("import_osv", str(bad), stdout=StringIO())
    out = StringIO()
    with pytest.raises(CommandError, match=r"^1 of ") as raised:
        call_command("check_pins", stdout=out)
    assert raised.value.returncode == 1
    assert "django" in out.getvalue()
    assert "PYSEC-3" in out.getvalue()
    assert "PYSEC-1" not in out.getvalue()


def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="holds no pins that can be read"):
        check("--pins", str(tmp_path / "gone"))
