"""The report of shadow mode: the rounds that would have been fast lane, and what people did with these rounds.

The worker updates it after each scoring pass. A round counts under the UTC day on which it would first have been fast
lane while its repository was in shadow mode; its later outcome changes the row of that day. Push-holders' own are left
out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction
from scoring.config.repository import watched_repository

DAYS = 30  # of a report, the newest

# A change that the audit drew was fast lane but for the draw; all of the first ones are drawn.
WOULD = """(d.lane = 'fast_lane' or contains(d.reasons, '"code":"audit_drawn"'))"""

NEWLY_DECIDED = f"""
insert or ignore into shadow_rounds
select d.pull_uri, coalesce(d.round, 0), coalesce(d.patch_id, ''), d.repository_id, d.as_of, 'open', null
from current_decisions d join watched_repositories w using (repository_id)
left join repository_settings x using (repository_id)
where {WOULD} and not d.own and coalesce(x.shadow, true)
"""
# A round that landed was merged as it was sent, even if other rounds follow; another round or patch in its place is a
# change.
NEW_OUTCOMES = """
with newest as (
  select s.pull_uri, s.round, s.patch_id, p.state, p.state_at, p.changed_at,
    p.round = s.round and coalesce(k.patch_id, '') = s.patch_id as same,
    (select min(l.landed_at) from landings l
      where l.pull_uri = s.pull_uri and l.proven and l.round = s.round and p.round = s.round) as landed_at
  from shadow_rounds s join pull_requests p using (pull_uri)
  left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
), became as (
  select pull_uri, round, patch_id,
    case when same and (state = 'merged' or landed_at is not null) then 'merged_as_sent'
         when not same then 'changed'
         when state in ('closed', 'abandoned') then 'closed' else 'open' end as outcome,
    case outcome when 'open' then null when 'changed' then changed_at else coalesce(landed_at, state_at) end as at
  from newest
)
select b.* from became b join shadow_rounds s using (pull_uri, round, patch_id) where s.outcome <> b.outcome
"""
DAY_COUNTS = """
select repository_id, date_trunc('day', decided_at)::timestamp as day, count(*)::integer as would,
  count(*) filter (outcome = 'merged_as_sent')::integer as merged_as_sent,
  count(*) filter (outcome = 'changed')::integer as changed,
  count(*) filter (outcome = 'closed')::integer as closed, count(*) filter (outcome = 'open')::integer as still_open
from shadow_rounds group by repository_id, day
"""
# A day whose rounds were erased since keeps its counts.
CHANGED_DAYS = f"""
select c.* from ({DAY_COUNTS}) c left join shadow_days d using (repository_id, day)
where d.day is null or c.would >= d.would and (c.would, c.merged_as_sent, c.changed, c.closed, c.still_open)
  <> (d.would, d.merged_as_sent, d.changed, d.closed, d.still_open)
"""
HAS_NEWS = f"""
select count(*) from current_decisions d join watched_repositories w using (repository_id)
left join repository_settings x using (repository_id)
where {WOULD} and not d.own and coalesce(x.shadow, true)
  and not exists (from shadow_rounds s where (s.pull_uri, s.round, s.patch_id)
    = (d.pull_uri, coalesce(d.round, 0), coalesce(d.patch_id, '')))
"""


@dataclass(frozen=True, slots=True)
class ShadowDay:
    """Rounds that would have been fast lane on one day (None: on all days), by their outcome."""

    day: date | None
    would: int
    merged_as_sent: int
    changed: int
    closed: int
    still_open: int


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """The days of one repository with such rounds, newest first, and their sum."""

    key: str
    name: str
    shadow: bool
    days: tuple[ShadowDay, ...]
    total: ShadowDay


def record_shadow(store: Store) -> int:
    """Bring rounds and days up to date with the current decisions; return how many days were written."""
    with store.read() as rows:
        if not rows.value(HAS_NEWS) and not rows.rows(f"{NEW_OUTCOMES} limit 1"):
            return 0
    with store.write() as txn:
        txn.execute(NEWLY_DECIDED)
        _settle(txn)
        days = txn.rows(CHANGED_DAYS)
        txn.upsert("shadow_days", [row | {"written_clock": txn.wall()} for row in days])
    return len(days)


def _settle(txn: Transaction) -> None:
    for row in txn.rows(NEW_OUTCOMES):
        txn.execute(
            "update shadow_rounds set outcome = $outcome, outcome_at = $at "
            "where pull_uri = $pull_uri and round = $round and patch_id = $patch_id",
            row,
        )


def shadow_report(rows: Rows, key: str, days: int = DAYS) -> ShadowReport | None:
    """Return the last `days` days up to the newest row; None where no watched repository has this key."""
    repository = watched_repository(rows, key)
    if repository is None:
        return None
    sql = "select * exclude (repository_id, written_clock) from shadow_days where repository_id = ? order by day desc"
    stored = [ShadowDay(**row | {"day": row["day"].date()}) for row in rows.rows(sql, [repository.number])]
    since = stored[0].day - timedelta(days=days) if stored and stored[0].day else date.min
    shown = tuple(day for day in stored if day.day and day.day > since)
    return ShadowReport(repository.key, repository.name, repository.settings.shadow, shown, _sum(shown))


def _sum(days: Sequence[ShadowDay]) -> ShadowDay:
    names = ("would", "merged_as_sent", "changed", "closed", "still_open")
    return ShadowDay(None, *(sum(getattr(day, name) for day in days) for name in names))
