"""Small changes, cases and reviewers for tests of the content review."""

from collections.abc import Sequence
from typing import Any

from scoring.diff.change import Change, FileChange, Hunk, Line
from scoring.review.anthropic_client import Access, Claude
from scoring.review.cache import Ledger, MemoryLedger
from scoring.review.costs import Call, Price
from scoring.review.payload import Case
from scoring.review.reviewer import Models, Reviewer
from scoring.review.schema import Assessment, Review
from scoring.scanners.submission import Submission
from scoring.types import Finding, FlagType, Severity
from tests.standins.claude import CALM, KEY, Answer, ClaudeStandIn, message

SONNET, HAIKU, OPUS = "claude-sonnet-4-6", "claude-haiku-4-5-20251001", "claude-opus-4-8"
PRICES = {
    SONNET: Price(3, 15, 3.75, 0.3),
    HAIKU: Price(1, 5, 1.25, 0.1),
    OPUS: Price(5, 25, 6.25, 0.5),
}
USAGE = {"input_tokens": 1000, "output_tokens": 100}
SITE_KEY = b"a key of this site"


def a_file(path: str, added: Sequence[str] = ("x = 1",), removed: Sequence[str] = (), **more: object) -> FileChange:
    """A file whose one hunk removes and then adds these lines."""
    gone = [Line("-", number, None, text) for number, text in enumerate(removed, 1)]
    new = [Line("+", None, number, text) for number, text in enumerate(added, 1)]
    return FileChange(path, path, "modified", (Hunk(1, 1, "", (*gone, *new)),), **more)  # ty: ignore[invalid-argument-type]


def a_change(*files: FileChange, coverage: float = 1.0, problems: tuple[Finding, ...] = ()) -> Change:
    return Change(files or (a_file("src/pear.py"),), (), problems, coverage)


def a_finding(
    severity: Severity = Severity.MED,
    kind: FlagType = "other",
    file: str | None = "src/pear.py",
    line: int | None = 1,
    source: tuple[str, str] = ("planted", "rule"),
) -> Finding:
    return Finding(*source, kind, severity, f"A planted {severity.value} finding.", file, line)


def a_case(change: Change | None = None, *findings: Finding, title: str = "", description: str = "") -> Case:
    """A case that had nothing to scrub."""
    submission = Submission(change or a_change(), title, description)
    return Case(submission, submission, findings, lambda text: text)


def a_reviewer(
    stand_in: ClaudeStandIn,
    slept: list[float] | None = None,
    ledger: Ledger | None = None,
    input_tokens: int = 60_000,
    seconds: float = 20.0,
    screens: bool = False,
    key: bytes = SITE_KEY,
) -> Reviewer:
    claude = Claude(Access(KEY, stand_in.base_url, seconds), (slept if slept is not None else []).append)
    models = Models(SONNET, OPUS, HAIKU if screens else None, PRICES, input_tokens)
    return Reviewer(claude, models, key, ledger or MemoryLedger(1000.0))


def an_assessment(risk: float = 0.05, *flags: dict[str, str], summary: str = "Fine.", asks: bool = False) -> Assessment:
    return Assessment.model_validate(
        {"content_risk": risk, "flags": flags, "summary": summary, "review_recommended": asks}
    )


def a_flag(
    location: str = "F1:L1", severity: str = "med", kind: str = "security", says: str = "Wrong."
) -> dict[str, str]:
    return {"type": kind, "severity": severity, "location": location, "explanation": says}


def says(**changes: object) -> Answer:
    """A message whose assessment is calm but for these changes."""
    return message(SONNET, {**CALM, **changes}, USAGE)


def worded(change: Change | None = None) -> Case:
    return a_case(change, title="Faster pears", description="Sorts pears.")


def reviewed(claude: ClaudeStandIn, *answers: Answer, **more: Any) -> Review:
    claude.script(*answers)
    return a_reviewer(claude, **more).review(a_case(), Call.CLAUDE)
