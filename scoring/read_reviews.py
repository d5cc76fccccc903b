"""What was found in the content of a pull request, read from a snapshot."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ingest.transaction import Rows
from scoring.answers import ContentReview
from scoring.review_rows import shown_findings, shown_flags

COLUMNS = """v.content_risk, v.recommended, v.coverage, v.state, v.missing, v.reviewer, v.asked_because, v.summary,
  v.flags, v.findings, v.dollars, v.reviewed_clock, v.rules"""
# The reviews that the decision which is shown can have been made with. The newest of these few is found in Python: to
# plan "order by … limit 1" takes DuckDB as long as everything else here.
REVIEWS = f"""
select {COLUMNS} from pull_requests p join content_reviews v on v.pull_uri = p.pull_uri and v.patch_ref = p.patch_ref
  and v.said = md5(concat_ws(chr(31), p.title, p.body)) and v.state <> 'running'
where p.pull_uri = ?
"""
# Those of one round, whatever was said beside it.
ROUND_REVIEWS = f"""
select {COLUMNS} from content_reviews v where pull_uri = ? and patch_ref = ? and state <> 'running'
"""


def content_review(rows: Rows, uri: str) -> ContentReview | None:
    """The newest review of the round that stands; None where nobody has read it yet."""
    return _newest(rows.rows(REVIEWS, [uri]))


def round_review(rows: Rows, uri: str, patch_ref: str) -> ContentReview | None:
    """The newest review of the round with this patch; None where nobody read it."""
    return _newest(rows.rows(ROUND_REVIEWS, [uri, patch_ref]))


def _newest(found: list[dict[str, Any]]) -> ContentReview | None:
    """The one that was made last, of several at once the first by its rules."""
    by_rules = sorted(found, key=lambda row: row["rules"])
    return _review(max(by_rules, key=lambda row: row["reviewed_clock"] or datetime.min)) if found else None


def _review(row: Mapping[str, Any]) -> ContentReview:
    return ContentReview(
        risk=row["content_risk"],
        recommended=row["recommended"],
        coverage=row["coverage"],
        has_verdict=row["state"] == "content verdict",
        missing=row["missing"],
        reviewer=row["reviewer"],
        asked_because=row["asked_because"],
        summary=row["summary"],
        flags=shown_flags(row),
        findings=shown_findings(row),
        dollars=row["dollars"],
    )
