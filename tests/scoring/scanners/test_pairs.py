"""Attacks in languages other than Python, each beside a benign change of the same place, as pairs/*.yml tell them.

Every pair stands for a class, in an API or framework of its own; what the scanners say of the two has to differ.
"""

from pathlib import Path

import msgspec
import msgspec.yaml

from scoring.scanners import Scan, dangerous, scanners
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


def weighty(scan: Scan, submission: Submission) -> list[Finding]:
    """What one scanner finds, low findings left out."""
    return [finding for finding in scan(submission) if finding.severity in WEIGHTY]


def submitted(text: str, path: str) -> Submission:
    """A change of one hunk, of lines that begin with their mark."""
    return Submission(change_of(marked_lines(text, path)))


def is_told_apart(scan: Scan, pair: WrittenPair) -> bool:
    """Whether a scanner says of the bad side what it does not say of the good one."""
    found = {finding.rule for finding in weighty(scan, submitted(pair.bad, pair.path))}
    return bool(found and found - {finding.rule for finding in weighty(scan, submitted(pair.good, pair.path))})


def test_bad_changes_are_found_and_their_benign_twins_are_not() -> None:
    """By the rules, whose word on the benign one counts alone; the other scanners are asked only where they miss it."""
    others = [scan for scan in scanners().values() if scan is not dangerous.scan]
    missed, flagged = [], []
    for pair in pairs():
        bad, good = (weighty(dangerous.scan, submitted(text, pair.path)) for text in (pair.bad, pair.good))
        flagged += [(pair.kind, pair.path, finding.rule) for finding in good]
        if not bad and not any(is_told_apart(scan, pair) for scan in others):
            missed.append((pair.kind, pair.path, pair.bad))
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
    submissions = [submitted(change.text, change.path) for change in honest_changes()]
    assert [found for scan in scanners().values() for one in submissions for found in weighty(scan, one)] == []
