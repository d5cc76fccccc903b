"""Quote a line or a name, lower a severity, put the worst finding first; shared by scanners. Pure."""

from collections.abc import Iterable

from scoring.diff.budget import BudgetSpent, spend
from scoring.diff.change import Line
from scoring.types import QUOTE_LENGTH, Finding, Severity

SHOWN = 80  # characters of a name
_RANK = {Severity.HIGH: 0, Severity.MED: 1, Severity.LOW: 2}
_LOWER = {Severity.HIGH: Severity.MED, Severity.MED: Severity.LOW, Severity.LOW: None}


def cut(text: str, length: int) -> str:
    """Return the first `length` characters of a text, without invalid surrogates.

    JSON can carry half of a surrogate pair into a string; RE2 and the parser refuse it.
    """
    shortened = text[:length]
    return shortened if shortened.isascii() else shortened.encode("utf-8", "replace").decode()


def quoted(text: str) -> str:
    """Return the line as a finding quotes it."""
    return cut(text.strip(), QUOTE_LENGTH)


def shown(name: str) -> str:
    """Format a name from a change for a sentence: printable ASCII, everything else as escapes, cut to SHOWN."""
    plain = name.encode("ascii", "backslashreplace").decode()
    plain = "".join(character if character.isprintable() else repr(character)[1:-1] for character in plain)
    return plain if len(plain) <= SHOWN else f"{plain[:SHOWN]}…"


def number_of(line: Line) -> int | None:
    """Return the line's number in the new file, or in the old one where it is removed."""
    return line.old if line.mark == "-" else line.new


def lowered(severity: Severity) -> Severity | None:
    """Return the next lower severity, for code outside of production; None below low."""
    return _LOWER[severity]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, else keep the order: a cut list keeps the worst findings, however many light ones were planted.

    Raises BudgetSpent with the findings so far.
    """
    collected: list[Finding] = []
    try:
        for finding in findings:
            collected.append(finding)
        spend()
    except BudgetSpent:
        raise BudgetSpent(_sorted(collected)) from None
    return _sorted(collected)


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _RANK[finding.severity])
