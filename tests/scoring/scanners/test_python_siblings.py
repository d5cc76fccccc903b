"""Attacks in Python by other ways than the examples of the rules, each beside an honest change of the same place."""

from pathlib import Path

import msgspec.yaml

from scoring.scanners.run import examine
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity
from tests.scoring.scanners.written import added_lines, change_of, marked_lines

SIBLINGS = msgspec.yaml.decode(Path(__file__).with_name("python_siblings.yml").read_bytes(), type=list[dict[str, str]])


def weighty(text: str) -> set[Finding]:
    """Return what weighs on a file of these lines, or on a hunk of lines with their marks."""
    file = marked_lines(text) if text[0] == "-" else added_lines(text)
    found = examine(Submission(change_of(file))).findings
    return {finding for finding in found if finding.severity in (Severity.HIGH, Severity.MED)}


def test_the_bad_ones_are_found_and_the_good_ones_are_not() -> None:
    assert [pair["name"] for pair in SIBLINGS if not weighty(pair["bad"])] == []
    assert [finding for pair in SIBLINGS for finding in weighty(pair["good"])] == []
