"""Who may hear denounces: what is said against somebody is for those who have a reason to trust who says it."""

from ingest.transaction import Rows

# Whose denounces a viewer (three times the parameter) is shown with their reasons: their own, those of people who vouch
# for the viewer, and, for a viewer who is a seed, those of people whom that seed set trusts.
CIRCLE = """
select ?::integer union all
select voucher_id from vouches where subject_id = ? and kind = 'vouch' and superseded_at is null union all
select t.contributor_id from trust t join seeds s on s.repository_id = t.repository_id
where s.contributor_id = ? and t.structural_trust > 0
"""


def circle_of(rows: Rows, subject: int, viewer: str | None) -> int | None:
    """The number of a viewer, a DID, who may hear denounces of this subject: never the subject, nor nobody."""
    number = rows.value("select contributor_id from contributors where did = ?", [viewer]) if viewer else None
    return None if number == subject else number
