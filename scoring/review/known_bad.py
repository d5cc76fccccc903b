"""Marks the diffs of reverted merges as known bad; a later change must not repeat them."""

from collections.abc import Collection

from ingest.store.transaction import Transaction
from scoring.review.store import NOT_KEPT, shown_findings
from scoring.types import QUOTE_LENGTH

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
