"""Converts reviews to rows of `content_reviews` and back, and drops reviews whose known bad diff was cleared.

The diffs of reverted merges are known bad; a later change must not repeat them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ingest.json_decoding import decode_json
from ingest.store.long_texts import fitting
from ingest.store.transaction import Transaction
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
    return msgspec.structs.asdict(ShownFinding.of(finding))


def _findings_to_store(findings: Sequence[Finding]) -> list[ShownFinding]:
    """Return the strongest findings that fit into a column, and last one that counts the omitted ones."""
    stored = fitting(_shorten(ShownFinding.of(finding)) for finding in findings[:FINDINGS_KEPT])
    if omitted := len(findings) - len(stored):
        words = f"{omitted:,} further findings, none of them stronger, are not listed."
        stored.append(ShownFinding("review", NOT_KEPT, "other", "low", words, None, None, False, ""))
    return stored


def _shorten(finding: ShownFinding) -> ShownFinding:
    return msgspec.structs.replace(
        finding,
        explanation=finding.explanation[:EXPLANATION_LENGTH],
        file=None if finding.file is None else short_path(finding.file),
        quote=finding.quote[:QUOTE_LENGTH],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


RULE = "like-known-bad"
# A maintainer's mark that a merge was clean outranks the mined revert.
UPDATE_KNOWN_BAD = """
update diff_vectors set known_bad = not known_bad
where known_bad <> (pull_uri in (select pull_uri from pull_followups where kind = 'reverted')
  and pull_uri not in (select pull_uri from marks where outcome = 'clean'))
returning pull_uri, known_bad
"""
REVIEWS_WITH_RULE = f"""
select pull_uri, patch_ref, said, rules, findings from content_reviews
semi join (from pull_requests where state = 'open') using (pull_uri)
where contains(findings, '{RULE}') or contains(findings, '{NOT_KEPT}')
"""
DELETE_REVIEW = "delete from content_reviews where (pull_uri, patch_ref, said, rules) = (?, ?, ?, ?)"


def follow_known_bad(txn: Transaction) -> None:
    """Update `diff_vectors.known_bad`; open changes with a finding about a diff no longer bad are reviewed again."""
    cleared_pulls = {row["pull_uri"][:QUOTE_LENGTH] for row in txn.rows(UPDATE_KNOWN_BAD) if not row["known_bad"]}
    if cleared_pulls:
        _forget_reviews(txn, cleared_pulls)


def _forget_reviews(txn: Transaction, cleared_pulls: Collection[str]) -> None:
    for row in txn.rows(REVIEWS_WITH_RULE):
        # A finding that did not fit into the row may be about a cleared diff.
        if any(
            finding.rule == NOT_KEPT or (finding.rule == RULE and finding.quote in cleared_pulls)
            for finding in shown_findings(row)
        ):
            txn.execute(DELETE_REVIEW, [row[name] for name in ("pull_uri", "patch_ref", "said", "rules")])
            txn.inputs_changed()
