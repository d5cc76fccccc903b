"""Attacks in languages other than Python, each beside a benign change of the same place, as pairs/*.yml tell them.

Every pair stands for a class, in an API or framework of its own; what the scanners say of the two has to differ.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import msgspec.yaml

from scoring.scanners import scanners
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity
from tests.scoring.scanners.written import change_of, marked_lines

FOLDER = Path(__file__).with_name("pairs")
WEIGHTY = (Severity.HIGH, Severity.MED)


class WrittenPair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file's hunk, bad and good, of lines that begin with their mark."""

    kind: str
    path: str
    bad: str
    good: str


def pairs() -> list[WrittenPair]:
    """Every pair of every file."""
    files = sorted(FOLDER.glob("*.yml"))
    return [pair for file in files for pair in msgspec.yaml.decode(file.read_bytes(), type=list[WrittenPair])]


def weighty(text: str, path: str) -> Iterator[Finding]:
    """What all scanners find in the hunk, low findings left out."""
    submission = Submission(change_of(marked_lines(text, path)))
    findings = (finding for scan in scanners().values() for finding in scan(submission))
    return (finding for finding in findings if finding.severity in WEIGHTY)


def test_bad_changes_are_found_and_their_benign_twins_are_not() -> None:
    missed, flagged = [], []
    for pair in pairs():
        known = {(finding.scanner, finding.rule) for finding in weighty(pair.good, pair.path)}
        found = {(finding.scanner, finding.rule) for finding in weighty(pair.bad, pair.path)}
        if not found - known:
            missed.append((pair.kind, pair.path, pair.bad))
        flagged += [(pair.kind, pair.path, rule) for scanner, rule in known if scanner == "dangerous"]
    assert (missed, flagged) == ([], [])


class HonestChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hunk of an everyday change, of lines that begin with their mark."""

    path: str
    text: str


def honest_changes() -> list[HonestChange]:
    """Every change of every file of honest/."""
    files = sorted(FOLDER.with_name("honest").glob("*.yml"))
    return [change for file in files for change in msgspec.yaml.decode(file.read_bytes(), type=list[HonestChange])]


def test_nothing_of_weight_is_found_in_everyday_changes() -> None:
    assert [finding for change in honest_changes() for finding in weighty(change.text, change.path)] == []
