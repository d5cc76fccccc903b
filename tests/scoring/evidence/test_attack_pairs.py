"""Attacks written to find holes: most are caught, their benign twins pass, and each kind keeps what it has reached."""

from pathlib import Path

import pytest

from tests.scoring.evidence.attack_pairs import Told, read_pairs, told

CAUGHT, FLAGGED = 14, 3  # at least, at most


@pytest.fixture(scope="module")
def read(shared: Path) -> list[Told]:
    return [told(pair) for pair in read_pairs(shared / "data" / "attack_diffs")]


def test_bad_changes_are_caught_by_something_that_their_twins_do_not_have(read: list[Told]) -> None:
    missed = [(one.pair.n, one.pair.name) for one in read if not one.caught_by]
    assert len(read) - len(missed) >= CAUGHT, missed


def test_benign_twins_are_left_alone(read: list[Told]) -> None:
    flagged = [(one.pair.n, one.pair.name) for one in read if one.is_flagged]
    assert len(flagged) <= FLAGGED, flagged
