"""Reviews as rows of `content_reviews`, and back to what a person is shown."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ingest.json_decoding import decode_json
from ingest.store.long_texts import fitting
from scoring.review.schema import DETERMINISTIC, EXPLANATION_LENGTH, Review
from scoring.types import QUOTE_LENGTH, Finding, FlagType, Severity, ShownFinding, short_path

RUNNING = "running"
FINDINGS_KEPT = 100  # the strongest, as far as they fit into a column; the risk was reckoned from all
NOT_KEPT = "findings-not-kept"  # rule of the finding that counts the others
# A review that has begun and says nothing yet.
BEGUN: Mapping[str, Any] = {
    "state": RUNNING,
    "missing": None,
    "asked": "",
    "asked_because": "",
    "reviewer": DETERMINISTIC,
    "content_risk": 0.0,
    "recommended": True,
    "coverage": 0.0,
    "high_flags": 0,
    "worst": None,
    "place": None,
    "summary": "",
    "flags": "[]",
    "findings": "[]",
    "left_out": "[]",
    "prompt_version": None,
    "temperature_sent": None,
    "dollars": 0.0,
}


class ShownFlag(msgspec.Struct, frozen=True):
    """A flag of a review as stored; its texts may come from a model or from the change: whoever shows it escapes it."""

    type: FlagType
    severity: Literal["low", "med", "high"]
    location: str
    explanation: str


def review_columns(review: Review, findings: Sequence[Finding]) -> dict[str, Any]:
    """The columns of a review that has ended; the findings strongest first."""
    told = review.assessment
    high = [flag for flag in told.flags if flag.severity is Severity.HIGH]
    worst = (high or list(told.flags) or [None])[0]
    return {
        "state": review.state,
        "missing": review.reason,
        "reviewer": review.reviewer,
        "content_risk": told.content_risk,
        "recommended": told.review_recommended,
        "coverage": review.coverage,
        "high_flags": len(high),
        "worst": worst.type if worst else None,
        "place": worst.location if worst else None,
        "summary": told.summary,
        "flags": _json(fitting(flag.model_dump(mode="json") for flag in told.flags)),
        "findings": _json(_kept(findings)),
        "left_out": _json(fitting(map(short_path, review.left_out))),
        "prompt_version": review.prompt_version,
        "temperature_sent": review.temperature_sent,
        "dollars": review.dollars,
    }


def shown_flags(row: Mapping[str, Any]) -> tuple[ShownFlag, ...]:
    """The flags of a row, strongest first."""
    return decode_json(row["flags"], tuple[ShownFlag, ...])


def shown_findings(row: Mapping[str, Any]) -> tuple[ShownFinding, ...]:
    """The findings of a row, strongest first."""
    return decode_json(row["findings"], tuple[ShownFinding, ...])


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as told to programs: {scanner, severity, file, line, quote, explanation} and what else is known."""
    return msgspec.structs.asdict(_shown(finding))


def _kept(findings: Sequence[Finding]) -> list[ShownFinding]:
    """The strongest findings that a column takes, and last how many there were besides."""
    kept = fitting(_stored(_shown(one)) for one in findings[:FINDINGS_KEPT])
    if left := len(findings) - len(kept):
        words = f"{left:,} further findings, none of them stronger, are not listed."
        kept.append(ShownFinding("review", NOT_KEPT, "other", "low", words, None, None, False, ""))
    return kept


def _shown(one: Finding) -> ShownFinding:
    return ShownFinding(
        one.scanner, one.rule, one.type, one.severity.value, one.explanation, one.file, one.line, one.removed, one.quote
    )


def _stored(one: ShownFinding) -> ShownFinding:
    return msgspec.structs.replace(
        one,
        explanation=one.explanation[:EXPLANATION_LENGTH],
        file=None if one.file is None else short_path(one.file),
        quote=one.quote[:QUOTE_LENGTH],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
