"""What was found in the content of a pull request, read from a snapshot."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ingest.transaction import Rows
from scoring.answers import ContentReview
from scoring.review_rows import shown_findings, shown_flags
from scoring.verdict import ShownFinding

# What the decision which is shown was made from.
STANDS = "select patch_ref, md5(concat_ws(chr(31), title, body)) as said from pull_requests where pull_uri = ?"
# The reviews of one round. The newest of these few is found in Python: to plan "order by … limit 1" takes DuckDB as
# long as all the rest, and so does a join with what stands.
OF_ROUND = """
select content_risk, recommended, coverage, state, missing, reviewer, asked_because, summary, flags, findings, dollars,
  reviewed_clock, rules
from content_reviews where pull_uri = ? and patch_ref = ? and state <> 'running'
"""

OF_STANDING = """
select r.pull_uri, r.findings, r.reviewed_clock from content_reviews r join pull_requests p
  on p.pull_uri = r.pull_uri and p.patch_ref = r.patch_ref and r.said = md5(concat_ws(chr(31), p.title, p.body))
where list_contains(?, p.pull_uri) and r.state <> 'running' order by r.rules
"""


def content_review(rows: Rows, uri: str) -> ContentReview | None:
    """The newest review of the round that stands; None where nobody has read it yet."""
    stands = rows.row(STANDS, [uri])
    if stands is None:
        return None
    return _newest(rows.rows(f"{OF_ROUND} and said = ?", [uri, stands["patch_ref"], stands["said"]]))


def standing_findings(rows: Rows, uris: Sequence[str]) -> dict[str, tuple[ShownFinding, ...]]:
    """The findings of the rounds that stand, by at-uri, strongest first; only where there are any."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in rows.rows(OF_STANDING, [list(uris)]) if uris else ():
        before = newest.get(row["pull_uri"])
        if before is None or (row["reviewed_clock"] or datetime.min) > (before["reviewed_clock"] or datetime.min):
            newest[row["pull_uri"]] = row
    return {uri: found for uri, row in newest.items() if (found := shown_findings(row))}


def round_review(rows: Rows, uri: str, patch_ref: str) -> ContentReview | None:
    """The newest review of the round with this patch; None where nobody read it."""
    return _newest(rows.rows(OF_ROUND, [uri, patch_ref]))


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
