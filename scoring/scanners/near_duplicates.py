"""Changes whose added lines are nearly those of a change that is known to be bad."""

from collections.abc import Iterator

from scoring.scanners.submission import Submission
from scoring.types import QUOTE_LENGTH, Finding, Severity

SCANNER = "near_duplicates"
# Cosine. Of copies with 5 % of their words changed 97 % reach it, of those with 10 % 88 %; of pairs of two different
# changes of real projects less than .01 %, mostly the same work sent twice (tests/bench/bench_content.py).
NEAR = 0.85


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield one finding at most. Its quote, the other pull request, names the author: see scoring.scanners.run."""
    found = submission.knowledge.likeness(submission.change)
    if found is None or not found[0] >= NEAR:
        return
    message = f"The added lines are those of a change that turned out bad, at a likeness of {found[0]:.0%}."
    yield Finding(SCANNER, "like-known-bad", "slop", Severity.MED, message, quote=found[1][:QUOTE_LENGTH])
