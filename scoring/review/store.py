"""Converts reviews to rows of `content_reviews`, and rows to what the gate and pages need."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ingest.json_decoding import decode_json
from ingest.store.long_texts import fitting
from scoring.review.schema import DETERMINISTIC, EXPLANATION_LENGTH, Review
from scoring.types import QUOTE_LENGTH, Finding, FlagType, Severity, ShownFinding, short_path

RUNNING = "running"
FINDINGS_KEPT = 100  # the strongest that fit into a column; the risk counts all
NOT_KEPT = "findings-not-kept"  # rule of the finding that counts the omitted ones
# Columns of a review that has begun and not ended.
UNFINISHED: Mapping[str, Any] = {
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
    """A flag of a review as stored; its texts may come from a model or from the change: pages must escape them."""

    type: FlagType
    severity: Literal["low", "med", "high"]
    location: str
    explanation: str


def review_columns(review: Review, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the columns of an ended review; `findings` come strongest first."""
    assessment = review.assessment
    high_flags = [flag for flag in assessment.flags if flag.severity is Severity.HIGH]
    worst_flag = (high_flags or list(assessment.flags) or [None])[0]
    return {
        "state": review.state,
        "missing": review.reason,
        "reviewer": review.reviewer,
        "content_risk": assessment.content_risk,
        "recommended": assessment.review_recommended,
        "coverage": review.coverage,
        "high_flags": len(high_flags),
        "worst": worst_flag.type if worst_flag else None,
        "place": worst_flag.location if worst_flag else None,
        "summary": assessment.summary,
        "flags": _json(fitting(flag.model_dump(mode="json") for flag in assessment.flags)),
        "findings": _json(_findings_to_store(findings)),
        "left_out": _json(fitting(map(short_path, review.left_out))),
        "prompt_version": review.prompt_version,
        "temperature_sent": review.temperature_sent,
        "dollars": review.dollars,
    }


def shown_flags(row: Mapping[str, Any]) -> tuple[ShownFlag, ...]:
    """Return the flags of a row, strongest first."""
    return decode_json(row["flags"], tuple[ShownFlag, ...])


def shown_findings(row: Mapping[str, Any]) -> tuple[ShownFinding, ...]:
    """Return the findings of a row, strongest first."""
    return decode_json(row["findings"], tuple[ShownFinding, ...])


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return all fields of a finding as JSON for programs."""
    return msgspec.structs.asdict(_shown_finding(finding))


def _findings_to_store(findings: Sequence[Finding]) -> list[ShownFinding]:
    """Return the strongest findings that fit into a column, and last one that counts the omitted ones."""
    stored = fitting(_shorten(_shown_finding(finding)) for finding in findings[:FINDINGS_KEPT])
    if omitted := len(findings) - len(stored):
        words = f"{omitted:,} further findings, none of them stronger, are not listed."
        stored.append(ShownFinding("review", NOT_KEPT, "other", "low", words, None, None, False, ""))
    return stored


def _shown_finding(finding: Finding) -> ShownFinding:
    return ShownFinding(
        finding.scanner,
        finding.rule,
        finding.type,
        finding.severity.value,
        finding.explanation,
        finding.file,
        finding.line,
        finding.removed,
        finding.quote,
    )


def _shorten(finding: ShownFinding) -> ShownFinding:
    return msgspec.structs.replace(
        finding,
        explanation=finding.explanation[:EXPLANATION_LENGTH],
        file=None if finding.file is None else short_path(finding.file),
        quote=finding.quote[:QUOTE_LENGTH],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
