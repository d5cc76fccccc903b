"""What was found in the content of a pull request, read from a snapshot."""

from ingest.transaction import Rows
from scoring.answers import ContentReview
from scoring.review_rows import shown_findings, shown_flags

# The review that the decision which is shown was made with.
REVIEW = """
select v.* from pull_requests p join content_reviews v on v.pull_uri = p.pull_uri and v.patch_ref = p.patch_ref
  and v.said = md5(concat_ws(chr(31), p.title, p.body)) and v.state <> 'running'
where p.pull_uri = ? order by v.reviewed_clock desc, v.rules limit 1
"""


def content_review(rows: Rows, uri: str) -> ContentReview | None:
    """The newest review of the round that stands; None where nobody has read it yet."""
    row = rows.row(REVIEW, [uri])
    if row is None:
        return None
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
