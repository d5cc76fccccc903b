"""Find titles that claim less than the change does.

They claim documentation, formatting, tests or a version, while code changes.
"""

from collections.abc import Iterable, Iterator
from functools import cache

import re2

from scoring.diff.change import Change, FileChange, Line
from scoring.scanners._finding_helpers import cut, quoted
from scoring.scanners._text import changed_code, code_files
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

SCANNER = "intent"
STATEMENTS = 3  # changed statements from which a claim counts as wrong
SHARE = 0.3  # least share of statements among changed lines of code files; fewer may be examples in a docstring

LINE_LENGTH = 2_000
_REMARK = re2.compile(r"\s(?:#|//)\s")

# Matches a whole title: a longer one ("… and refactor", "fix docs build") makes no clear claim.
_SCOPE = r"(\([\w./ -]*\))?:\s"
_DID = r"(add|fix|correct|update|improve)(e?[sd])?\s+((an?|some|more|minor|missing|the|unit|flaky|failing)\s+)*"
_PLACE = r"( (in|to|for|of) [\w .`'/_-]+)?"
CLAIMS = {
    "documentation": (
        rf"^docs?{_SCOPE}|^\[docs?\]",
        rf"^{_DID}(typos?|spelling|grammar|readme(\.md)?|changelog|documentation|docstrings?){_PLACE}[.!]?$",
        r"^typos?\b[^,;&]*$",
    ),
    "formatting": (
        rf"^style{_SCOPE}|^reformat( code)?[.!]?$",
        r"^(run|apply|fix)\s+(black|prettier|gofmt|rustfmt|ruff|isort|formatting|white ?space|indentation)[.!]?$",
        r"\b(no functional changes?|white ?space only|no behaviou?r changes?)\b",
    ),
    "tests": (rf"^tests?{_SCOPE}", rf"^{_DID}tests?( for [\w .`()_-]+)?[.!]?$"),
    "a version": (rf"^((chore|build){_SCOPE})?bump [\w@./ -]+ from v?\d\S* to v?\d\S*( in [\w/.-]+)?$",),
}


@cache
def _claims() -> dict[str, "re2._Regexp"]:
    return {claim: re2.compile(f"(?i){'|'.join(expressions)}") for claim, expressions in CLAIMS.items()}


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield at most one finding: the title claims one thing, but statements of the project's own code change."""
    title = cut(submission.title.strip(), 300)
    claim = next((claim for claim, pattern in _claims().items() if pattern.search(title)), None)
    if claim is None:
        return
    statements = _statements_against(claim, submission.change)
    if statements >= STATEMENTS:
        message = f"The title speaks of {claim} only, and {statements} statements of code change."
        yield Finding(SCANNER, "title-claims-less", "intent_mismatch", Severity.MED, message, quote=quoted(title))


def _statements_against(claim: str, change: Change) -> int:
    """Count the changed statements that the claim does not cover."""
    return sum(_changed(file, claim) for file in code_files(change))


def _changed(file: FileChange, claim: str) -> int:
    lines = _without_remarks(changed_code(file))
    total = sum(line.mark != " " and bool(line.text.strip()) for hunk in file.hunks for line in hunk.lines)
    if not lines or len(lines) < SHARE * total:
        return 0
    if claim == "formatting":
        return _rewritten(file)
    return len(lines)


def _without_remarks(lines: Iterable[Line]) -> list[Line]:
    """Return the changed statements except those of which only the remark behind them changes; a moved one stays."""
    codes = [(line, _REMARK.split(cut(line.text, LINE_LENGTH), 1)[0].strip()) for line in lines]
    kept, moved = _on_both_sides(codes), _on_both_sides((line, line.text.strip()) for line, _ in codes)
    return [line for line, code in codes if code not in kept or line.text.strip() in moved]


def _on_both_sides(texts: Iterable[tuple[Line, str]]) -> set[str]:
    sides: dict[str, set[str]] = {"-": set(), "+": set()}
    for line, text in texts:
        sides[line.mark].add(text)
    return sides["-"] & sides["+"]


def _rewritten(file: FileChange) -> int:
    """Count the statements on one side only, ignoring white space, quotes, commas and brackets."""
    gone = {_bare(line.text) for line in changed_code(file) if line.mark == "-"}
    come = {_bare(line.text) for line in changed_code(file) if line.mark == "+"}
    # A line that was broken into several is found in the joined text.
    before, after = (
        "".join(_bare(line.text) for line in file.removed()),
        "".join(_bare(line.text) for line in file.added()),
    )
    if before == after or (len(before) == len(after) and sorted(before) == sorted(after)):
        return 0
    return len(
        {line for line in come - gone if line not in before} | {line for line in gone - come if line not in after}
    )


def _bare(text: str) -> str:
    return "".join(sign for sign in text[:LINE_LENGTH] if sign.isalnum() or sign in "_+-*/%<>=!&|^~.")
