"""Weighs what other sites say about pull requests, and reads which of them send a change to a person.

A peer's weight is how much better than chance its word told bad from clean among the pull requests that a person
audited here: the share of the bad ones that it had flagged, minus that of the clean ones. Both shares are shrunk by
SHRINKAGE imagined audits that the peer flags at its usual rate. So a peer begins at 0, a few hits weigh little, and one
that flags everything, nothing or at random stays at 0.

Only its own, first word on a version counts: proven before the pull request was settled and the audit answered, not
resting on others' assessments, and not what this site had said before in public. What the audit drew was not public, so
nobody can repeat that. A word is noted with the next pass and stays, whatever the peer does to its record: else it
could take back its misses once people's comments or the merge show how the answer will be.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.formatting import display_name
from scoring.thresholds import PEER_WEIGHT
from scoring.types import PeerFlag

SHRINKAGE = 10  # imagined audits of bad pull requests, and as many of clean ones
MEMORY = 300  # newest audits of each peer that count: one that turns bad is at 0 after as many
STALE = timedelta(days=7)  # an assessment whose proof could not be renewed for so long counts no longer

# Assessments that say something of their own about a version: `pull_uri` joins what it is compared with. A site repeats
# another if it gives the same lane for no reason that the other had not given before it.
OWN_WORD = """
select a.uri, a.author_id, a.subject_uri as pull_uri, a.subject_cid, a.patch_id, a.decision, a.since, a.checked_at
from peer_assessments a
where a.proof = 'proven' and a.checked_cid is not distinct from a.record_cid and not a.second_hand
  and a.decision <> 'withdrawn' and not exists (
    select 1 from (
      select arg_max(s.lane, s.as_of) as lane, arg_max(s.reasons, s.as_of) as reasons
      from scores s where s.pull_uri = a.subject_uri and s.as_of < a.since
    ) t where t.lane = a.decision and not contains(t.reasons, '"audit_drawn"')
      and list_has_all(json_extract_string(t.reasons, '$[*].code'), a.reasons)
  )
"""
# The first answer counts: it was given before lane and score were shown.
ANSWERED = """
select pull_uri, arg_min(would_merge, known_from) as would_merge, arg_min(record_cid, known_from) as record_cid,
  arg_min(patch_id, known_from) as patch_id, min(known_from) as known_from
from audits where known_from <= $now group by pull_uri
"""
NEW_WORDS = f"""
select a.author_id, a.pull_uri, coalesce(p.record_cid, '') as record_cid, k.patch_id,
  a.decision = 'needs_human' as flagged, a.since
from ({OWN_WORD}) a join pull_requests p on p.pull_uri = a.pull_uri
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
anti join peer_words w
  on (w.author_id, w.pull_uri, w.record_cid) = (a.author_id, a.pull_uri, coalesce(p.record_cid, ''))
where (a.subject_cid = p.record_cid or a.patch_id = k.patch_id) and (p.state = 'open' or a.since < p.state_at)
"""
NEW_OUTCOMES = f"""
select a.author_id, a.pull_uri, arg_min(a.flagged, a.since) as flagged, any_value(not v.would_merge) as bad,
  any_value(v.known_from) as known_from
from peer_words a join ({ANSWERED}) v on v.pull_uri = a.pull_uri
left join pull_requests p on p.pull_uri = a.pull_uri
anti join peer_outcomes o on o.author_id = a.author_id and o.pull_uri = a.pull_uri
where (a.record_cid = v.record_cid or a.patch_id = v.patch_id)
  and a.since < least(v.known_from, coalesce(p.state_at, v.known_from))
group by a.author_id, a.pull_uri
"""
FLAGGED = f"""
select a.uri, a.author_id, a.pull_uri, c.did, c.handle, c.handle_verified
from ({OWN_WORD}) a join pull_requests v on v.pull_uri = a.pull_uri and v.state = 'open'
left join patches k on k.pull_uri = v.pull_uri and k.patch_ref = v.patch_ref
join contributors c on c.contributor_id = a.author_id
where a.decision = 'needs_human' and a.checked_at > $since
  and (a.subject_cid = v.record_cid or a.patch_id = k.patch_id)
order by a.pull_uri, a.uri
"""
TALLIES = """
select author_id, count(*) filter (bad) as bad, count(*) filter (not bad) as clean,
  count(*) filter (bad and flagged) as flagged_bad, count(*) filter (not bad and flagged) as flagged_clean
from (
  from peer_outcomes qualify row_number() over (partition by author_id order by known_from desc, pull_uri) <= $memory
) group by author_id
"""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a peer's word compares with the audited pull requests that it had judged: how many were bad and clean, and
    how many of each it had sent to a person.
    """

    bad: int = 0
    clean: int = 0
    flagged_bad: int = 0
    flagged_clean: int = 0

    @property
    def audits(self) -> int:
        return self.bad + self.clean

    @property
    def weight(self) -> float:
        """Return the weight in [0, 1), 0 without an audit."""
        flagged = self.flagged_bad + self.flagged_clean
        imagined = SHRINKAGE * flagged / self.audits if self.audits else 0.0
        hits = (self.flagged_bad + imagined) / (self.bad + SHRINKAGE)
        false_alarms = (self.flagged_clean + imagined) / (self.clean + SHRINKAGE)
        return max(0.0, hits - false_alarms)


def tally_peers(store: Store, now: datetime) -> int:
    """Note peers' new words, and compare those noted with the audits answered since; return how many were compared.

    Work is first looked for outside the writer's transaction, since mostly there is none.
    """
    with store.read() as rows:
        if not rows.value("select exists (from peer_assessments) or exists (from peer_words)"):
            return 0
        if not rows.rows(NEW_WORDS) and not rows.rows(NEW_OUTCOMES, {"now": now}):
            return 0
    with store.write() as txn:
        txn.append_new("peer_words", txn.rows(NEW_WORDS))
        outcomes = txn.rows(NEW_OUTCOMES, {"now": now})
        txn.append_new("peer_outcomes", outcomes)
        if outcomes:
            txn.inputs_changed()
    return len(outcomes)


def read_agreements(rows: Rows) -> dict[int, Agreement]:
    """Return the agreement of each peer with an audited outcome, by its number."""
    return {row.pop("author_id"): Agreement(**row) for row in rows.rows(TALLIES, {"memory": MEMORY})}


def read_peer_flags(rows: Rows, now: datetime) -> dict[str, tuple[PeerFlag, ...]]:
    """Return the flags of peers whose word weighs enough, by the address of the open pull request."""
    agreements = read_agreements(rows)
    heavy = {number: agreement for number, agreement in agreements.items() if agreement.weight >= PEER_WEIGHT}
    flags: dict[str, tuple[PeerFlag, ...]] = {}
    for row in rows.rows(FLAGGED, {"since": now - STALE}) if heavy else ():
        agreement = heavy.get(row["author_id"])
        if agreement is not None:
            flag = PeerFlag(display_name(row), row["uri"], agreement.weight, agreement.audits)
            flags[row["pull_uri"]] = (*flags.get(row["pull_uri"], ()), flag)
    return flags
