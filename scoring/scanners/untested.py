"""Find changes of code without a change of a test."""

from collections.abc import Iterator
from itertools import islice

from scoring.diff.paths import role
from scoring.scanners._text import changed_code, code_files
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

SCANNER = "untested"
LINES = 10  # statements: a smaller change is often a fix that tests already cover


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield at most one finding, on the change as a whole."""
    change = submission.change
    if any(role(file.path) == "tests" for file in change.files):
        return
    statements = (line for file in code_files(change) for line in changed_code(file) if line.mark == "+")
    if sum(1 for _ in islice(statements, LINES)) == LINES:
        message = f"{LINES} statements or more are added and no test is touched."
        yield Finding(SCANNER, "no-test-touched", "untested", Severity.LOW, message)
