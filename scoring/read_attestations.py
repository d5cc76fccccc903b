"""The state of attestation of every author of an open pull request in a repository of the tier 'sensitive'."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ingest.ask_attestations import ATTESTATION
from ingest.transaction import Rows
from scoring.attestations import Accepted, Attested, State, attestation_state

AUTHORS = """
select distinct p.author_id, p.repository_id, c.did, x.accepted_issuers, x.organisation_domains,
  coalesce(f.outcome = 'found', false) as document_stands
from pull_requests p join repository_settings x using (repository_id)
semi join watched_repositories w on w.repository_id = p.repository_id
join contributors c on c.contributor_id = p.author_id
left join fetches f on f.kind = 'identity' and f.subject = c.did
where p.state = 'open' and x.tier = 'sensitive'
"""
# A record that its author deleted before anybody proved it was never an attestation. An issuer whose revocation the
# stream told is believed at once: no lane opens on it.
CHECKS = f"""
select d.author_id, k.issuer, k.valid_from, k.valid_until,
  case when s.deleted_at is not null or json_extract_string(s.value, '$.revoked') = 'true' then 'revoked'
       else coalesce(k.proof, 'unverifiable') end as proof,
  coalesce(k.checked_at, d.changed_at) as checked_at, d.deleted_at is not null as withdrawn
from declarations d left join attestation_checks k on k.uri = d.uri
left join declarations s on s.uri = k.statement_uri
where d.kind = '{ATTESTATION}' and (d.deleted_at is null or k.was_proven)
"""
Pair = tuple[int, int]  # contributor_id, repository_id


def attestation_states(rows: Rows, now: datetime) -> dict[Pair, State]:
    """By contributor and repository; whoever is not in it offers nothing where an attestation is asked for."""
    authors = rows.rows(AUTHORS)
    checked: dict[int, list[Attested]] = defaultdict(list)
    for row in rows.rows(CHECKS) if authors else ():
        checked[row.pop("author_id")].append(Attested(**row))
    return {(row["author_id"], row["repository_id"]): _state(row, checked, now) for row in authors}


def _state(row: Mapping[str, Any], checked: Mapping[int, list[Attested]], now: datetime) -> State:
    accepted = Accepted(frozenset(row["accepted_issuers"]), frozenset(row["organisation_domains"]))
    return attestation_state(row["did"], checked.get(row["author_id"], ()), accepted, row["document_stands"], now)
