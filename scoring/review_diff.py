"""One diff by hand: reviewed as a pull request's would be, without an author and without a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingest.git_reading import compare_with_git
from ingest.patches import unpack
from scoring.assessment import Review
from scoring.content.examine import examine
from scoring.content.finding import Finding
from scoring.content.limits import DEFAULT_LIMITS
from scoring.content.reading import compared, read_bytes
from scoring.content.submission import Knowledge, Submission
from scoring.cost_gate import Call
from scoring.deterministic import review_without_model
from scoring.rendering import Case
from scoring.review import Reviewer
from scoring.review_rows import finding_json


@dataclass(frozen=True, slots=True)
class Artefact:
    """What is to be reviewed: the bytes of a patch, gzipped or not, and what is said beside it."""

    diff: bytes
    title: str = ""
    description: str = ""
    discussion: tuple[str, ...] = ()

    def submission(self, knowledge: Knowledge) -> Submission:
        """As the scanners are given it; who speaks in a discussion is not asked."""
        said = tuple((f"reviewer-{place}", text) for place, text in enumerate(self.discussion, 1))
        text, whole, _ = unpack(self.diff, DEFAULT_LIMITS.size)
        change = read_bytes(self.diff)
        change = compared(change, compare_with_git(text), text.decode("utf-8", "replace")) if whole else change
        return Submission(change, self.title, self.description, said, knowledge)


def review_artefact(
    artefact: Artefact, knowledge: Knowledge, reviewer: Reviewer | None = None
) -> tuple[Review, tuple[Finding, ...]]:
    """The review and the findings, strongest first; by the scanners alone where there is no `reviewer`."""
    submission = artefact.submission(knowledge)
    examined = examine(submission)
    if reviewer is None:
        return review_without_model(submission.change, examined.findings, examined.unfinished), examined.findings
    return reviewer.review(Case.of(submission, examined.findings), Call.CLAUDE, examined.unfinished), examined.findings


def told(review: Review, findings: Sequence[Finding]) -> dict[str, Any]:
    """What programs are told: the schema's object, and findings, coverage and reviewer beside it."""
    kept = ("scanner", "severity", "file", "line", "quote", "explanation")
    return {
        **review.assessment.model_dump(mode="json"),
        "findings": [{name: finding_json(one)[name] for name in kept} for one in findings],
        "coverage": review.coverage,
        "reviewer": review.reviewer,
    }
