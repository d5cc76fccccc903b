"""Everything that the scanners find in one submission, strongest first. Pure.

Findings that tell who the author is are kept for maintainers and withheld from every reviewer.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from time import thread_time

from scoring.diff.budget import BudgetSpent, budget, spend
from scoring.scanners import FINDINGS_LIMIT, Scan, scanners
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

# Raise it with every change of what reading a patch or a scanner makes of the same change: all open pull requests are
# then read anew. A test holds a table of changes and findings against it.
REVIEW_VERSION = "5"
# CPU seconds after which no piece of work is begun any more: 20,000 lines take 1 s, 5 MB of ordinary code 5 s. What is
# begun ends within some milliseconds, but for reading all added lines for secrets at once: 2 s for 4 MB.
# Pieces that no loop can divide take longer and are bounded by the size of what a parser is given: 1 MB for a tree
# (ordinary code 1 s, a list of 500,000 names 6 s), .2 MB for Python's own parser (.8 s).
SECONDS = 10.0
# What a fault in a scanner raises that some content meets: the other scanners still say what they find.
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
    """The findings, and the ids of the scanners that did not come to their end: cut off, too late, or faulty."""

    findings: tuple[Finding, ...]
    unfinished: tuple[str, ...] = ()


def examine(submission: Submission, clock: Callable[[], float] = thread_time) -> Examination:
    """Return what reading the change and every scanner found; equal findings once, by severity, file and line.

    A scanner that was cut off, or failed, is itself a finding. `clock` gives seconds that only grow, by default of this
    thread's CPU: a busy machine cuts nobody off.
    """
    found: dict[Finding, None] = dict.fromkeys(submission.change.problems)
    unfinished, ends = [], clock() + SECONDS
    with budget(lambda: clock() > ends):
        for name, scan in scanners().items():
            told: list[Finding] = []
            if problem := _tell(name, scan, submission, told):
                unfinished.append(name)
                told.append(problem)
            found |= dict.fromkeys(told)
    return Examination(tuple(in_order(_masked(found))), tuple(unfinished))


def _tell(name: str, scan: Scan, submission: Submission, told: list[Finding]) -> Finding | None:
    """Add to `told` what one scanner says within its bounds; a finding where that may not be all."""
    try:
        spend()
        for finding in scan(submission):
            spend()
            if len(told) == FINDINGS_LIMIT:
                return _cut_off(name)
            told.append(finding)
    except BudgetSpent as spent:
        told += spent.found[: FINDINGS_LIMIT - len(told)]
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


# (scanner, rule): findings that rest on who somebody is.
IDENTITY_RULES = frozenset(
    ("commit_author", rule) for rule in ("other-person", "other-name", "several-people", "two-people")
)
# Findings that a reviewer may read, but for the quote, which names another pull request and so its author.
QUOTES_A_PERSON = frozenset({("near_duplicates", "like-known-bad")})


def without_identity(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that may be handed to a reviewer, in their order; nothing in them says who the author is."""
    kept = (finding for finding in findings if (finding.scanner, finding.rule) not in IDENTITY_RULES)
    return [replace(one, quote="") if (one.scanner, one.rule) in QUOTES_A_PERSON else one for one in kept]
