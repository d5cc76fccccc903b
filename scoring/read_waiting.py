"""How first-timers fare beside regulars, read from a snapshot: which lane they are in, and how long they wait."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.transaction import Rows
from scoring.read_queue import KEY
from scoring.verdict import Lane

# What the audit drew stands with what waits for a review, as in the queue: a share must not tell its lane.
OPEN = f"""
with listed as (
  select {KEY} as lane, p.opened_at, coalesce(f.settled_here, 0) = 0 as first_timer
  from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
  left join features f on f.contributor_id = c.contributor_id and f.repository_id = c.repository_id where not c.own
)
select first_timer, count(*) as open, count(*) filter (lane = 'needs_human') as needs_human,
  count(*) filter (lane = 'normal_queue') as normal_queue, count(*) filter (lane = 'fast_lane') as fast_lane,
  quantile_disc(opened_at, 0.5) as median_opened_at, min(opened_at) as oldest_opened_at
from listed group by first_timer
"""
# Whoever had nothing merged or closed there before was a first-timer then, whatever has become of them since.
DECIDED = """
with past as (
  select p.opened_at, p.state_at, min(p.state_at) over (partition by p.author_id, p.repository_id) as first_at
  from pull_requests p semi join watched_repositories using (repository_id)
  anti join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
  where p.state in ('merged', 'closed') and p.state_at >= p.opened_at
)
select opened_at <= first_at as first_timer, count(*) as decided,
  median(epoch(state_at - opened_at)) / 86400 as median_days
from past where state_at > ? - interval 1 year group by first_timer
"""


@dataclass(frozen=True, slots=True)
class Fare:
    """First-timers, or regulars, in watched repositories; push-holders' own pull requests are in no count.

    `lanes` and the times are of what is open, `decided` and `median_days` of what was merged or closed within a year.
    """

    first_timers: bool
    lanes: Mapping[Lane, int]
    median_opened_at: datetime | None = None
    oldest_opened_at: datetime | None = None
    decided: int = 0
    median_days: float | None = None

    @property
    def open(self) -> int:
        """How many are open."""
        return sum(self.lanes.values())


def fares(rows: Rows) -> tuple[Fare, Fare]:
    """How first-timers fare, and how regulars do."""
    as_of = rows.value("select max(as_of) from current_scores")
    opened = {row["first_timer"]: row for row in rows.rows(OPEN)}
    decided = {row["first_timer"]: row for row in rows.rows(DECIDED, [as_of])} if as_of else {}
    return _fare(True, opened.get(True), decided.get(True)), _fare(False, opened.get(False), decided.get(False))


def _fare(first_timers: bool, opened: Mapping[str, Any] | None, decided: Mapping[str, Any] | None) -> Fare:
    lanes = {lane: opened[str(lane)] if opened else 0 for lane in Lane}
    times = (opened["median_opened_at"], opened["oldest_opened_at"]) if opened else (None, None)
    past = (decided["decided"], decided["median_days"]) if decided else (0, None)
    return Fare(first_timers, lanes, *times, *past)
