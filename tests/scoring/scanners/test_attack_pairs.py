"""Attacks written to find holes: most are caught, their benign twins pass, and each kind keeps what it has reached."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scoring.diff.parser import read_change
from scoring.scanners.run import examine
from scoring.scanners.submission import Submission
from scoring.types import Severity
from tests.conftest import Count
from tests.scoring.scanners.attack_pairs import Told, read_pairs, told

CAUGHT, FLAGGED = 48, 0  # of 49 pairs: at least, at most
HIGH, MEDIUM = 0.01, 0.05  # of real diffs, by all scanners: at most


@pytest.fixture(scope="module")
def read(shared: Path) -> list[Told]:
    return [told(pair) for pair in read_pairs(shared / "data" / "attack_diffs")]


def test_bad_changes_are_caught_by_something_that_their_twins_do_not_have(read: list[Told]) -> None:
    missed = [(one.pair.n, one.pair.name) for one in read if not one.caught_by]
    assert len(read) - len(missed) >= CAUGHT, missed


def test_benign_twins_are_left_alone(read: list[Told]) -> None:
    flagged = [(one.pair.n, one.pair.name) for one in read if one.is_flagged]
    assert len(flagged) <= FLAGGED, flagged


def test_real_diffs_are_seldom_flagged_by_any_scanner(shared: Path, count: Count) -> None:
    """Of diffs that were cut when they were collected, what the reading says of the cut is left out."""
    table = pq.read_table(shared / "data" / "pr_diffs.parquet")
    rows = sorted(table.to_pylist(), key=_hash)[: count(120, 4_000)]
    worst = [_severities(row["diff"], is_cut=row["truncated"]) for row in rows]
    assert sum(Severity.HIGH in one for one in worst) <= HIGH * len(worst)
    assert sum(bool({Severity.HIGH, Severity.MED} & one) for one in worst) <= MEDIUM * len(worst)


def _hash(row: dict[str, Any]) -> str:
    return hashlib.sha256(f"{row['repo']}#{row['number']}".encode()).hexdigest()


def _severities(text: str, is_cut: bool) -> set[Severity]:
    found = examine(Submission(read_change(text))).findings
    return {finding.severity for finding in found if not (is_cut and finding.scanner == "reading")}
