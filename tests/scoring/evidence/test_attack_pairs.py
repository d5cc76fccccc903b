"""Attacks written to find holes: most are caught, their benign twins pass, and each kind keeps what it has reached."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from scoring.content.examine import examine
from scoring.content.finding import Severity
from scoring.content.reading import read_change
from scoring.content.submission import Submission
from tests.conftest import Count
from tests.scoring.evidence.attack_pairs import Told, read_pairs, told

CAUGHT, FLAGGED = 45, 0  # of 49 pairs: at least, at most
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
    """The reading itself is left out: these diffs were cut when they were collected."""
    table = pq.read_table(shared / "data" / "pr_diffs.parquet", columns=["diff"])
    places = random.Random(18).sample(range(table.num_rows), 2_000)[: count(250, 2_000)]
    worst = [_severities(text) for text in table.take(places)["diff"].to_pylist()]
    assert sum(Severity.HIGH in one for one in worst) <= HIGH * len(worst)
    assert sum(bool({Severity.HIGH, Severity.MED} & one) for one in worst) <= MEDIUM * len(worst)


def _severities(text: str) -> set[Severity]:
    found = examine(Submission(read_change(text))).findings
    return {finding.severity for finding in found if finding.scanner != "reading"}
