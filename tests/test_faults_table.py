"""docs/faults.md names for every fault what is seen, what is lost, how it recovers, and a test that exists."""

import re

import pytest
from django.core.management import get_commands

from tests.sources import PROJECT

TEXT = (PROJECT / "docs" / "faults.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]
FAULTS = {row[0]: row[1:] for row in ROWS[1:]}
WANTED = {
    "worker SIGKILL",
    "web SIGKILL",
    "full disk",
    "read-only drive",
    "drive gone while running",
    "clock jump",
    "corrupt WAL",
    "half-written snapshot",
    "locked queue file",
    "dead PDS",
    "dead Claude",
    "slow clients",
    "2,000 connections",
    "50 MB body",
}


def test_every_fault_has_its_line() -> None:
    assert WANTED - FAULTS.keys() == set()
    assert {len(cells) for cells in FAULTS.values()} == {4}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_tests_that_a_line_names_exist(fault: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", FAULTS[fault][3])
    assert named
    for path, name in named:
        assert f"def {name}(" in (PROJECT / path).read_text(), f"{path} has no {name}"


def test_every_command_that_the_page_names_exists() -> None:
    assert set(re.findall(r"manage\.py ([a-z_]+)", TEXT)) - set(get_commands()) == set()
