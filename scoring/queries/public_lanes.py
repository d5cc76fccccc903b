"""Read which pull requests of publishing repositories may be told to everybody, and what of them.

Never a chance, a trust or a voucher: a lane to which only the person sent the change is told to nobody, since its
reasons would be left out and their absence would name them. Never anything that the audit drew and nobody answered, and
nothing that rests on a peer's word. Of open pull requests only those that need a human are told, in repositories that
chose `delayed`, one fixed time after their newest version came: all others wait until they are decided, so that what is
missing does not show the draw. Closing counts only where somebody who may push closed it: authors can close theirs,
read whether it was drawn, and open it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from ingest.atproto.syntax import is_did
from ingest.store.transaction import Rows
from scoring.certificates.certificate import read_certificates
from scoring.config.repository import Publish
from scoring.pipeline.interventions import LEFT_OUT
from scoring.pipeline.stored import read_thresholds, reason_codes
from scoring.queries.changes import DRAWN, WOULD_MERGE
from scoring.thresholds import Thresholds

PublicLaneName = Literal["fast_lane", "normal_queue", "needs_human", "withdrawn"]
PUBLIC_LANES: tuple[PublicLaneName, ...] = get_args(PublicLaneName)
DELAY = timedelta(hours=24)
KEPT = timedelta(days=365)  # after the decision; then what was told is taken back
# What sends a change to a human whoever sent it.
ABOUT_THE_CHANGE = frozenset({"high_flag", "content_risk_high"})
# The codes that are told: about the change, its look-ups or the lane of its repository, and about no person.
PUBLIC_REASONS = ABOUT_THE_CHANGE | {
    *("content_not_reviewed", "no_content_verdict", "content_partly_read", "content_risk_above", "review_recommended"),
    *("never_fast_path", "paths_unknown", "newer_round", "round_unknown", "enrichment_pending", "enrichment_unknown"),
    *("lane_alarm", "closed_by_outcomes", "estimated_lane_closed", "certificate_expired", "certificate_refused"),
    *("lane_unsteady", "too_little_traffic", "fast_lane_shut", "certificate_required", "approved_before"),
    *("threshold_estimated", "threshold_not_certified", "tests_failed"),
}
# Authors who are not on the network now, wish not to be listed, may push here, or objected, whatever was answered.
TELLABLE = f"""
p.author_id not in (select contributor_id from hidden_people) and p.author_id not in ({LEFT_OUT})
and not exists (from own_people o where o.repository_id = p.repository_id and o.contributor_id = p.author_id)
and not exists (from objections o where o.contributor_id = p.author_id
  and (o.pull_uri is null or o.pull_uri = p.pull_uri)
  and (o.repository_id is null or o.repository_id = p.repository_id))
and not exists (from declarations d where d.kind = 'objection' and d.deleted_at is null and d.author_id = p.author_id
  and (d.subject is null or d.subject = p.pull_uri))
"""
NAMES = """
p.pull_uri, p.state, p.state_at, p.merge_proof, r.repo_key, a.did as author, c.record_cid, c.round, c.patch_id,
c.reasons, c.thresholds, c.model_version, c.inputs ->> '$.gate_version' as gate_version,
c.inputs ->> '$.review_version' as review_version, coalesce(x.shadow, true) as shadow
"""
SOURCES = """
join pull_requests p on p.pull_uri = c.pull_uri
join repository_settings x on x.repository_id = p.repository_id
semi join watched_repositories w on w.repository_id = p.repository_id
join repositories r on r.repository_id = p.repository_id join contributors a on a.contributor_id = p.author_id
"""
OPEN = f"""
select {NAMES}, c.lane, null::boolean as would_merge, p.changed_at as since
from current_decisions c {SOURCES}
where x.publish = 'delayed' and p.state = 'open' and c.lane = 'needs_human' and not {DRAWN}
  and p.changed_at <= $now - $delay and {TELLABLE}
"""
# Closed by somebody who may push, and not opened again since.
CLOSED_BY_OTHERS = """
select pull_uri from statuses where deleted_at is null and authority <> 'stranger' group by pull_uri
having coalesce(max((seen_at, event_seq)) filter (status = 'closed' and authority = 'push_holder')
  > coalesce(max((seen_at, event_seq)) filter (status = 'open'), (timestamp '1970-01-01', 0)), false)
"""
# The last decision on each pull request that was merged, closed by others or deleted since its repository publishes.
SETTLED = f"""
with settled as (
  select p.pull_uri from pull_requests p join repository_settings x using (repository_id)
  where x.publish <> 'off' and p.state <> 'open' and p.state_at >= x.publish_since and p.state_at > $now - $kept
    and (p.state <> 'merged' or coalesce(p.merge_proof, 'verified') = 'verified')
    and (p.state <> 'closed' or p.pull_uri in ({CLOSED_BY_OTHERS}))
), last as (
  from scores s semi join settled using (pull_uri) qualify row_number() over (
    partition by pull_uri order by data_version desc nulls last, as_of desc, decided_clock desc) = 1
)
select {NAMES}, c.lane, {WOULD_MERGE} as would_merge, p.state_at as since
from last c {SOURCES}
where (not {DRAWN} or {WOULD_MERGE} is not null) and {TELLABLE}
"""


PUBLISHES = "select publish from repository_settings semi join watched_repositories using (repository_id)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pull request ended, and when that was seen (naive UTC)."""

    state: Literal["merged", "closed"]
    at: datetime


@dataclass(frozen=True, slots=True)
class PublicLane:
    """One pull request and what may be told of it to everybody.

    `uri` and `cid` name the version that was judged, `repo` is the repository's DID ("" where it has none yet),
    `repository` its key here. `reasons` are codes of PUBLIC_REASONS. `certificate` is the SHA-256 of the certificate
    behind a fast lane, `budget` the allowed share of false approvals in permille; `shadow`: the lane is what it would
    have been. `outcome` is None for open ones, and for `withdrawn`: its author deleted it, so nothing is judged any
    more. Tell that only where something else was told before. `since` is when this became public (naive UTC).
    """

    uri: str
    cid: str
    round: int
    patch_id: str | None
    repository: str
    repo: str
    author: str
    lane: PublicLaneName
    reasons: tuple[str, ...]
    certificate: str | None
    budget: int
    shadow: bool
    evaluator: str
    outcome: Outcome | None
    since: datetime


def public_lanes(rows: Rows, certificates: Path, now: datetime) -> tuple[PublicLane, ...]:
    """Return what may be told at this moment, by at-uri; `certificates` is their folder."""
    found = [
        *rows.rows(OPEN, {"now": now, "delay": DELAY}),
        *rows.rows(SETTLED, {"now": now, "kept": KEPT}),
    ]
    if not found:
        return ()
    names = frozenset(certificates.iterdir()) if certificates.is_dir() else frozenset()
    made = _certificates_by_moment(certificates, names)
    told = (_public_lane(row, made) for row in sorted(found, key=lambda row: row["pull_uri"]))
    return tuple(lane for lane in told if lane is not None)


def publishes(rows: Rows) -> Publish:
    """Return the most that any watched repository tells to everybody."""
    chosen = {row["publish"] for row in rows.rows(PUBLISHES)}
    return "delayed" if "delayed" in chosen else "decided" if "decided" in chosen else "off"


def _public_lane(row: Mapping[str, Any], certificates: Mapping[datetime, str]) -> PublicLane | None:
    """Return what may be told of a row; None where it has no CID, or where only its author explains its lane.

    The answer of an audit explains a lane by itself.
    """
    codes = reason_codes(row["reasons"])
    lane = _told_lane(row)
    if row["record_cid"] is None or lane not in PUBLIC_LANES:
        return None
    explains = {"needs_human": ABOUT_THE_CHANGE, "normal_queue": PUBLIC_REASONS}.get(lane)
    if explains is not None and row["would_merge"] is None and explains.isdisjoint(codes):
        return None
    is_withdrawn, thresholds = lane == "withdrawn", read_thresholds(row)
    repo_key = row["repo_key"]
    return PublicLane(
        uri=row["pull_uri"],
        cid=row["record_cid"],
        round=row["round"] or 0,
        patch_id=row["patch_id"],
        repository=repo_key,
        repo=repo_key if is_did(repo_key) else "",
        author=row["author"],
        lane=lane,
        reasons=() if is_withdrawn else tuple(code for code in codes if code in PUBLIC_REASONS)[:20],
        certificate=_certificate(thresholds, certificates) if lane == "fast_lane" else None,
        budget=round(thresholds.budget * 1000),
        shadow=row["shadow"],
        evaluator=_evaluator(row),
        outcome=None if row["state"] in ("open", "abandoned") else Outcome(row["state"], row["since"]),
        since=row["since"],
    )


def _told_lane(row: Mapping[str, Any]) -> PublicLaneName:
    """Return the lane; of one that the audit drew, the lane that it was drawn from, or what its answer made of it."""
    if row["state"] == "abandoned":
        return "withdrawn"
    if row["would_merge"] is None:
        return row["lane"]
    return "fast_lane" if row["would_merge"] else "needs_human"


def _evaluator(row: Mapping[str, Any]) -> str:
    """Return the versions of the rules and the model that judged."""
    versions = {"gate": row["gate_version"], "review": row["review_version"], "model": row["model_version"]}
    return " ".join(["sunstead", *(f"{name}/{value}" for name, value in versions.items() if value)])[:128]


def _certificate(thresholds: Thresholds, certificates: Mapping[datetime, str]) -> str | None:
    return certificates.get(thresholds.since) if thresholds.certified and thresholds.since else None


@lru_cache(2)
def _certificates_by_moment(folder: Path, names: frozenset[Path]) -> Mapping[datetime, str]:
    """Return the names of the certificates for the fast lane by the moment at which each was made.

    They are read again when a file came or went (`names`). A successor with later outcomes is left out: its name would
    change with each of them.
    """
    found, _ = read_certificates(folder)
    return {made.made_at: name for name, made in found.items() if made.side == "high" and not made.later}
