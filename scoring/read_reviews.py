"""What was found in the content of a pull request, read from a snapshot."""

from collections.abc import Mapping
from typing import Any

from ingest.transaction import Rows
from scoring.answers import ContentReview
from scoring.review_rows import shown_findings, shown_flags

# The review that the decision which is shown was made with.
REVIEW = """
select v.* from pull_requests p join content_reviews v on v.pull_uri = p.pull_uri and v.patch_ref = p.patch_ref
  and v.said = md5(concat_ws(chr(31), p.title, p.body)) and v.state <> 'running'
where p.pull_uri = ? order by v.reviewed_clock desc, v.rules limit 1
"""


# The newest of one round, whatever was said beside it.
ROUND_REVIEW = """
select * from content_reviews where pull_uri = ? and patch_ref = ? and state <> 'running'
order by reviewed_clock desc, rules limit 1
"""


def content_review(rows: Rows, uri: str) -> ContentReview | None:
    """The newest review of the round that stands; None where nobody has read it yet."""
    row = rows.row(REVIEW, [uri])
    return _review(row) if row else None


def round_review(rows: Rows, uri: str, patch_ref: str) -> ContentReview | None:
    """The newest review of the round with this patch; None where nobody read it."""
    row = rows.row(ROUND_REVIEW, [uri, patch_ref])
    return _review(row) if row else None


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
