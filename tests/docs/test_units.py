"""The two systemd units of docs/deploy.md: systemd finds nothing in them, and they say the same of worker and web."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import text_of

UNITS = dict(
    re.findall(r"`sunstead-(worker|web)\.service`[^\n]*:\n\n```ini\n(.*?)```", text_of("docs/deploy.md"), re.DOTALL)
)
DRIVE = "/srv/sunstead"


def keys_of(half: str) -> configparser.RawConfigParser:
    """Sections and keys of a unit; a key that stands twice is refused."""
    read = configparser.RawConfigParser()
    read.optionxform = str  # ty: ignore[invalid-assignment] - keys of units have capitals
    read.read_string(UNITS[half])
    return read


def test_there_is_a_unit_for_each_half() -> None:
    assert set(UNITS) == {"worker", "web"}


@pytest.mark.parametrize("half", UNITS)
def test_a_unit_writes_nowhere_but_on_the_drive_that_it_waits_for(half: str) -> None:
    unit, service = keys_of(half)["Unit"], keys_of(half)["Service"]
    assert unit["RequiresMountsFor"] == service["ReadWritePaths"] == DRIVE
    assert service["Environment"] == f"DATA_ROOT={DRIVE}"
    assert service["ProtectSystem"] == "strict"
    assert service["User"] not in ("", "root")
    assert service["ExecStart"] == f"{DRIVE}/venv/bin/python manage.py {half}"
    assert int(service["TimeoutStopSec"]) > 9, "docs/operate.md: the worker ends within nine seconds"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_nothing_in_the_units(tmp_path: Path) -> None:
    files = []
    for half, text in UNITS.items():
        file = tmp_path / f"sunstead-{half}.service"
        file.write_text(text.replace(f"{DRIVE}/venv/bin/python", sys.executable))
        files.append(str(file))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    told = [line for line in done.stderr.splitlines() if "sunstead-" in line]
    assert (done.returncode, told) == (0, [])
