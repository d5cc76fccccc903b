"""Find changes whose added lines are nearly those of a known bad change."""

from collections.abc import Iterator

from scoring.scanners.submission import Submission
from scoring.types import QUOTE_LENGTH, Finding, Severity

SCANNER = "near_duplicates"
# Cosine. 97 % of copies with 5 % of their words changed reach it, and 88 % of those with 10 %; of pairs of different
# changes in real projects less than .01 % do, mostly the same work sent twice (tests/bench/bench_content.py).
NEAR = 0.85


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield one finding at most. Its quote, the other pull request, names the author: see scoring.scanners.run."""
    likeness_and_pull = submission.knowledge.likeness(submission.change)
    if likeness_and_pull is None or not likeness_and_pull[0] >= NEAR:
        return
    message = f"The added lines are those of a change that turned out bad, at a likeness of {likeness_and_pull[0]:.0%}."
    yield Finding(SCANNER, "like-known-bad", "slop", Severity.MED, message, quote=likeness_and_pull[1][:QUOTE_LENGTH])
