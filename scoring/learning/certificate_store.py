"""What a store says of the cases of a certificate, as it was known when the certificate was made."""

from ingest.transaction import Rows
from scoring.learning.certificate import Certificate
from scoring.learning.certify import differences_to_store

# An audited outcome stands for a pull request before what was mined of it. Only this label is derived in the store.
FACTS = """
select p.pull_uri, p.author_id, o.contributor_id is not null as push_holder,
  coalesce(not a.would_merge, case when $label = 'label_clean' and l.known_from <= $made_at then not l.clean end) as bad
from pull_requests p
left join labels l using (pull_uri)
left join (select pull_uri, arg_min(would_merge, known_from) as would_merge from audits where known_from <= $made_at
  group by pull_uri) a using (pull_uri)
left join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
"""


def compare_with_store(rows: Rows, told: Certificate) -> tuple[list[str], int]:
    """In what a certificate differs from the store, and how many of its cases the store has."""
    found = rows.rows(FACTS, {"made_at": told.made_at, "label": told.label})
    facts = {row["pull_uri"]: (row["bad"], row["author_id"], row["push_holder"]) for row in found}
    return differences_to_store(told, facts)
