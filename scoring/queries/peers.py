"""Reads the opinions of peers, other sites of Sunstead, on pull requests, and how far audits here agree with each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ingest.store.transaction import Rows
from scoring.formatting import display_name
from scoring.pipeline.peers import OWN_WORD, STALE, Agreement, read_agreements
from scoring.thresholds import PEER_WEIGHT
from scoring.types import Person

# Proven assessments of these pull requests, each with whether it is of the version that stands and says anything of its
# own.
OPINIONS = f"""
select a.subject_uri as pull_uri, a.uri, a.author_id, c.did, c.handle, c.handle_verified, a.decision, a.second_hand,
  a.since, a.checked_at, coalesce(a.subject_cid = p.record_cid or a.patch_id = k.patch_id, false) as is_current,
  o.uri is not null as is_own_word
from peer_assessments a join contributors c on c.contributor_id = a.author_id
join pull_requests p on p.pull_uri = a.subject_uri
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join ({OWN_WORD}) o on o.uri = a.uri
where list_contains($pulls, a.subject_uri) and a.proof = 'proven' and a.checked_cid is not distinct from a.record_cid
order by a.subject_uri, c.did
"""
PEERS = """
select a.author_id, c.did, c.handle, c.handle_verified, count(*) filter (a.proof = 'proven') as proven,
  count(*) filter (a.proof = 'refused') as refused
from (
  select author_id, proof from peer_assessments union all select distinct author_id, null from peer_outcomes
) a join contributors c on c.contributor_id = a.author_id group by all order by c.did
"""


@dataclass(frozen=True, slots=True)
class PeerOpinion:
    """One peer's proven assessment of a pull request.

    `is_current`: of the version that stands now. `is_own_word`: it neither rests on others' assessments nor repeats
    this site's. `lowers`: it sends the pull request to a person here; otherwise it only informs.
    """

    peer: Person
    uri: str
    decision: str
    since: datetime
    is_current: bool
    is_own_word: bool
    agreement: Agreement
    lowers: bool


@dataclass(frozen=True, slots=True)
class PeerStanding:
    """A peer with the number of its assessments that are proven and refused here, and its agreement with audits."""

    peer: Person
    proven: int
    refused: int
    agreement: Agreement


def peer_opinions(rows: Rows, pulls: Sequence[str], now: datetime) -> dict[str, tuple[PeerOpinion, ...]]:
    """Return what peers say about these pull requests, by address; those about which nobody says anything are left
    out.
    """
    opinions: dict[str, tuple[PeerOpinion, ...]] = {}
    found = rows.rows(OPINIONS, {"pulls": list(pulls)})
    agreements = read_agreements(rows) if found else {}
    for row in found:
        agreement = agreements.get(row["author_id"], Agreement())
        counts = row["is_current"] and row["is_own_word"] and row["checked_at"] > now - STALE
        opinion = PeerOpinion(
            peer=Person(row["did"], display_name(row)),
            uri=row["uri"],
            decision=row["decision"],
            since=row["since"],
            is_current=row["is_current"],
            is_own_word=row["is_own_word"],
            agreement=agreement,
            lowers=counts and row["decision"] == "needs_human" and agreement.weight >= PEER_WEIGHT,
        )
        opinions[row["pull_uri"]] = (*opinions.get(row["pull_uri"], ()), opinion)
    return opinions


def peer_standings(rows: Rows) -> tuple[PeerStanding, ...]:
    """Return every peer that has written an assessment, by DID."""
    agreements = read_agreements(rows)
    return tuple(
        PeerStanding(
            Person(row["did"], display_name(row)),
            row["proven"],
            row["refused"],
            agreements.get(row["author_id"], Agreement()),
        )
        for row in rows.rows(PEERS)
    )
