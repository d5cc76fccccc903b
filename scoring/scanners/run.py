"""All findings of the scanners in one submission, strongest first. Pure.

Findings that reveal the author's identity are kept for maintainers and withheld from every reviewer.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from time import thread_time

from scoring.diff.budget import BudgetSpent, budget, spend
from scoring.scanners import FINDINGS_LIMIT, Scan, scanners
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

# Raise it with every change to the results of reading a patch or of a scanner: then all open pull requests are read
# again. A test compares it with a table of changes and findings.
REVIEW_VERSION = "8"
# CPU seconds after which no new piece of work begins: 20,000 lines take 1 s, 5 MB of ordinary code 5 s. A running piece
# ends within some milliseconds, except the search of all added lines for secrets: 2 s for 4 MB. Indivisible pieces take
# longer and are bounded by the size of a parser's input: 1 MB for a tree (ordinary code 1 s, a list of 500,000 names 6
# s), .2 MB for Python's own parser (.8 s).
SECONDS = 10.0
# Exceptions of a faulty scanner on some content: the other scanners still report their findings.
FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
log = logging.getLogger(__name__)
ORDER = (Severity.HIGH, Severity.MED, Severity.LOW)


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings, and the ids of the unfinished scanners: cut off, too late, or faulty."""

    findings: tuple[Finding, ...]
    unfinished: tuple[str, ...] = ()


def examine(submission: Submission, clock: Callable[[], float] = thread_time) -> Examination:
    """Return the findings of reading the change and of every scanner, without duplicates, by severity, file and line.

    A scanner that was cut off, or failed, is itself a finding. `clock` gives increasing seconds, by default of this
    thread's CPU, so that a busy machine cuts nothing off.
    """
    findings: dict[Finding, None] = dict.fromkeys(submission.change.problems)
    unfinished, ends = [], clock() + SECONDS
    with budget(lambda: clock() > ends):
        for name, scan in scanners().items():
            of_scanner: list[Finding] = []
            if problem := _run_scanner(name, scan, submission, of_scanner):
                unfinished.append(name)
                of_scanner.append(problem)
            findings |= dict.fromkeys(of_scanner)
    return Examination(tuple(in_order(_masked(findings))), tuple(unfinished))


def _run_scanner(name: str, scan: Scan, submission: Submission, collected: list[Finding]) -> Finding | None:
    """Add one scanner's findings to `collected` within its bounds; return a finding where they may be incomplete."""
    try:
        spend()
        for finding in scan(submission):
            spend()
            if len(collected) == FINDINGS_LIMIT:
                return _cut_off(name)
            collected.append(finding)
    except BudgetSpent as spent:
        collected += spent.found[: FINDINGS_LIMIT - len(collected)]
        return _cut_off(name)
    except FAULTS:
        log.exception("the scanner %s failed", name)
        words = f"The scanner {name} failed at this change, a fault of its own: what it looks for may be in here."
        return Finding("reading", "scan_failed", "other", Severity.MED, words)
    return None


def _cut_off(scanner: str) -> Finding:
    words = f"The scanner {scanner} was cut off before it had looked at all of the change: read it by hand."
    return Finding("reading", "scan_cut_off", "oversized", Severity.MED, words)


def _masked(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, with quotes of lines with a secret as the secrets scanner masked them."""
    finding_list = list(findings)
    masks = {
        _line_of(finding): finding.quote for finding in finding_list if finding.type == "secret_leak" and finding.quote
    }
    for finding in finding_list:
        yield (
            replace(finding, quote=masks[_line_of(finding)])
            if finding.quote and _line_of(finding) in masks
            else finding
        )


def _line_of(finding: Finding) -> tuple[object, ...]:
    return finding.file, finding.line, finding.removed


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort strongest first, then by file and line; findings on the whole change come before those on a line."""
    return sorted(
        findings,
        key=lambda finding: (ORDER.index(finding.severity), finding.file or "", finding.line or 0, finding.scanner),
    )


# (scanner, rule) of findings about somebody's identity.
IDENTITY_RULES = frozenset(
    ("commit_author", rule) for rule in ("other-person", "other-name", "several-people", "two-people")
)
# Findings that a reviewer may read without the quote, which names another pull request and so its author.
QUOTES_A_PERSON = frozenset({("near_duplicates", "like-known-bad")})


def without_identity(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that a reviewer may get, in their order; nothing in them identifies the author."""
    allowed = (finding for finding in findings if (finding.scanner, finding.rule) not in IDENTITY_RULES)
    return [
        replace(allowed_finding, quote="")
        if (allowed_finding.scanner, allowed_finding.rule) in QUOTES_A_PERSON
        else allowed_finding
        for allowed_finding in allowed
    ]
