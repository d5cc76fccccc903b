"""Everything that the scanners find in one submission, strongest first."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from scoring.content.finding import Finding, Severity
from scoring.content.submission import Submission
from scoring.evidence import FINDINGS_LIMIT, scanners

ORDER = (Severity.HIGH, Severity.MED, Severity.LOW)


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found, and the ids of the scanners that found more than FINDINGS_LIMIT and were cut off there."""

    findings: tuple[Finding, ...]
    unfinished: tuple[str, ...] = ()


def examine(submission: Submission) -> Examination:
    """What reading the change and every scanner found; equal findings once, by severity, file and line."""
    found: dict[Finding, None] = dict.fromkeys(submission.change.problems)
    unfinished = []
    for name, scan in scanners().items():
        told = list(islice(scan(submission), FINDINGS_LIMIT + 1))
        if len(told) > FINDINGS_LIMIT:
            unfinished.append(name)
        found |= dict.fromkeys(told[:FINDINGS_LIMIT])
    return Examination(tuple(in_order(_masked(found))), tuple(unfinished))


def _masked(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings with the quote of a line that holds a secret as the scanner of secrets masked it."""
    told = list(findings)
    masks = {_line_of(one): one.quote for one in told if one.type == "secret_leak" and one.quote}
    for one in told:
        yield replace(one, quote=masks[_line_of(one)]) if one.quote and _line_of(one) in masks else one


def _line_of(one: Finding) -> tuple[object, ...]:
    return one.file, one.line, one.removed


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Strongest first, then by file and line; findings on the whole change before those on a line."""
    return sorted(findings, key=lambda one: (ORDER.index(one.severity), one.file or "", one.line or 0, one.scanner))
