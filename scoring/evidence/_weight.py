"""What scanners share: how a line is quoted, how a severity is lowered, and that the worst comes first. Pure."""

from collections.abc import Iterable

from scoring.content.budget import BudgetSpent, spend
from scoring.content.finding import QUOTE_LENGTH, Finding, Severity

_RANK = {Severity.HIGH: 0, Severity.MED: 1, Severity.LOW: 2}
_LOWER = {Severity.HIGH: Severity.MED, Severity.MED: Severity.LOW, Severity.LOW: None}


def cut(text: str, length: int) -> str:
    """The beginning of a text, at most `length` characters, as something that can be encoded.

    JSON can carry half of a surrogate pair into a string; RE2 and the parser refuse it.
    """
    kept = text[:length]
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def quoted(text: str) -> str:
    """The line as a finding quotes it."""
    return cut(text.strip(), QUOTE_LENGTH)


def lowered(severity: Severity) -> Severity | None:
    """One step down, for code that nobody runs in earnest; None where it is no longer worth telling."""
    return _LOWER[severity]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """By severity, else in their order: of a cut list the worst stay, however many of little weight were planted.

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
