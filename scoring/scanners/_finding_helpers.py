"""Shared by scanners: quoting a line, lowering a severity, putting the worst finding first. Pure."""

from collections.abc import Iterable

from scoring.diff.budget import BudgetSpent, spend
from scoring.types import QUOTE_LENGTH, Finding, Severity

_RANK = {Severity.HIGH: 0, Severity.MED: 1, Severity.LOW: 2}
_LOWER = {Severity.HIGH: Severity.MED, Severity.MED: Severity.LOW, Severity.LOW: None}


def cut(text: str, length: int) -> str:
    """Return the first `length` characters of a text, fit to be encoded.

    JSON can carry half of a surrogate pair into a string; RE2 and the parser refuse it.
    """
    kept = text[:length]
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def quoted(text: str) -> str:
    """Return the line as a finding quotes it."""
    return cut(text.strip(), QUOTE_LENGTH)


def lowered(severity: Severity) -> Severity | None:
    """Return the next lower severity, for code that is not run in earnest; None below low."""
    return _LOWER[severity]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, else keep the order: of a cut list the worst stay, however many light ones were planted.

    Raises BudgetSpent with those that were found in time.
    """
    told: list[Finding] = []
    try:
        for finding in findings:
            told.append(finding)
        spend()
    except BudgetSpent:
        raise BudgetSpent(_sorted(told)) from None
    return _sorted(told)


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _RANK[finding.severity])
