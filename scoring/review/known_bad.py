"""The diffs that a later change must not repeat: those of merges that were taken back on the target branch."""

from collections.abc import Collection

from ingest.store.transaction import Transaction
from scoring.review.store import NOT_KEPT, shown_findings
from scoring.types import QUOTE_LENGTH

RULE = "like-known-bad"
# Its maintainers may say that a merge was clean after all: their mark outranks what was mined.
FOLLOW = """
update diff_vectors set known_bad = not known_bad
where known_bad <> (pull_uri in (select pull_uri from pull_followups where kind = 'reverted')
  and pull_uri not in (select pull_uri from marks where outcome = 'clean'))
returning pull_uri, known_bad
"""
LIKE = f"""
select pull_uri, patch_ref, said, rules, findings from content_reviews
semi join (from pull_requests where state = 'open') using (pull_uri)
where contains(findings, '{RULE}') or contains(findings, '{NOT_KEPT}')
"""
FORGET = "delete from content_reviews where (pull_uri, patch_ref, said, rules) = (?, ?, ?, ?)"


def follow_known_bad(txn: Transaction) -> None:
    """Bring `diff_vectors.known_bad` up to date; open changes that were held for one that is cleared are read anew."""
    cleared_pulls = {row["pull_uri"][:QUOTE_LENGTH] for row in txn.rows(FOLLOW) if not row["known_bad"]}
    if cleared_pulls:
        _forget_reviews(txn, cleared_pulls)


def _forget_reviews(txn: Transaction, cleared_pulls: Collection[str]) -> None:
    for row in txn.rows(LIKE):
        # A finding that did not fit into the row may be the one that is sought.
        if any(
            finding.rule == NOT_KEPT or (finding.rule == RULE and finding.quote in cleared_pulls)
            for finding in shown_findings(row)
        ):
            txn.execute(FORGET, [row[name] for name in ("pull_uri", "patch_ref", "said", "rules")])
            txn.inputs_changed()
