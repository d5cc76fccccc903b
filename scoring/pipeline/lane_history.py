"""Lists the pull requests that the fast lane let through, or would have in shadow mode, with their outcomes.

The worker counts the rounds of shadow mode after each scoring pass. A round counts under the UTC day on which it would
first have been fast lane; its later outcome changes the row of that day. Push-holders' own are left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal, get_args

from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction
from scoring.config.repository import watched_repository
from scoring.pipeline.stored import People
from scoring.types import Estimate, Person

DAYS = 30  # of a report

# Rounds that would have been fast lane in shadow mode, and those that an estimated lane let through. A round that the
# audit drew is listed only once it is answered, since the person who answers must not know lane or score.
SHADOW = "select pull_uri, round, patch_id, repository_id, decided_at from shadow_rounds"
OPEN = """
select pull_uri, round, coalesce(patch_id, '') as patch_id, repository_id, drawn_at as decided_at from audit_draws
where estimated and not drawn
"""
# A round that landed was merged as it was sent, even if other rounds follow. Only the first round of a pull request
# counts: it would have gone through unread.
ROWS = """
with taken as (
  from ({rounds}) where repository_id = $repository and decided_at >= $since and decided_at <= $now
  qualify row_number() over (partition by pull_uri order by decided_at, round, patch_id) = 1
), given as (
  select s.pull_uri, arg_min(s.probability, s.as_of) as probability, arg_min(s.low, s.as_of) as low,
    arg_min(s.high, s.as_of) as high
  from scores s join taken t
    on t.pull_uri = s.pull_uri and t.round = coalesce(s.round, 0) and t.patch_id = coalesce(s.patch_id, '')
  where s.lane = 'fast_lane' group by s.pull_uri
)
select t.pull_uri, t.decided_at, p.title, p.author_id, p.state, g.number, v.probability, v.low, v.high, l.clean,
  p.round = t.round and (coalesce(k.patch_id, '') = t.patch_id or exists (from landings a
    where a.pull_uri = t.pull_uri and a.proven and a.round = t.round)) as as_sent
from taken t join pull_requests p using (pull_uri)
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join labels l on l.pull_uri = t.pull_uri
left join given v on v.pull_uri = t.pull_uri
left join pull_pages g on g.pull_uri = t.pull_uri
anti join hidden_people h on h.contributor_id = p.author_id
anti join (from audit_draws anti join audits using (pull_uri) where drawn) w on w.pull_uri = t.pull_uri
order by t.decided_at desc, t.pull_uri
"""
Happened = Literal[
    "merged_as_sent", "fixed_after_merge", "changed_and_merged", "changed_and_open", "changed_and_closed", "closed",
    "withdrawn", "open",
]  # fmt: skip
# HAPPENED names what people did with a row; AGREEMENTS, given the later outcome, what that says of the lane.
HAPPENED: tuple[Happened, ...] = get_args(Happened)
Agreement = Literal["agrees", "agrees_so_far", "stricter", "wrong", "unknown"]
AGREEMENTS: tuple[Agreement, ...] = get_args(Agreement)
SETTLED: frozenset[Agreement] = frozenset({"agrees", "stricter", "wrong"})


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One pull request that the lane let through, or would have; `estimate` is P(clean) at that time, if known."""

    uri: str
    decided_at: datetime
    title: str
    number: int | None
    author: Person
    estimate: Estimate | None
    happened: Happened
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class LaneHistory:
    """The rows of one repository since a moment, the newest first; `began` is when its very first row was decided."""

    rows: tuple[LaneRow, ...]
    began: datetime | None

    def count(self, agreement: Agreement) -> int:
        return sum(row.agreement == agreement for row in self.rows)

    @property
    def settled(self) -> int:
        """Return how many rows are settled: no later event changes their agreement."""
        return sum(row.agreement in SETTLED for row in self.rows)


@dataclass(frozen=True, slots=True)
class LaneSum:
    """The totals of a lane; `offered` counts every pull request of the same days except push-holders' own."""

    offered: int
    let_through: int
    clean: int
    bad: int


def read_shadow_history(rows: Rows, repository: int, now: datetime) -> LaneHistory:
    """Read the rows that the lane of this repository would have let through in the last days of shadow mode."""
    return _read_history(rows, SHADOW, repository, now - timedelta(days=DAYS), now)


def read_open_history(rows: Rows, repository: int, since: datetime, now: datetime) -> LaneHistory:
    """Read the rows that the estimated lane of this repository let through without a person since that moment."""
    return _read_history(rows, OPEN, repository, since, now)


def _read_history(rows: Rows, rounds: str, repository: int, since: datetime, now: datetime) -> LaneHistory:
    parameters = {"repository": repository, "since": since, "now": now}
    pulls = rows.rows(ROWS.replace("{rounds}", rounds), parameters)
    people = People(rows, (row["author_id"] for row in pulls)).persons
    began = rows.value(f"select min(decided_at) from ({rounds}) where repository_id = ?", [repository])
    return LaneHistory(tuple(_lane_row(row, people) for row in pulls), began)


def _lane_row(row: Mapping[str, Any], people: Mapping[int, Person]) -> LaneRow:
    happened = _happened(row["state"], row["as_sent"], row["clean"])
    return LaneRow(
        row["pull_uri"],
        row["decided_at"],
        row["title"] or "(no title)",
        row["number"],
        people[row["author_id"]],
        None if row["probability"] is None else Estimate(row["probability"], row["low"], row["high"], 0),
        happened,
        _agreement(happened, row["clean"]),
    )


def _happened(state: str, as_sent: bool, clean: bool | None) -> Happened:
    if state == "merged" and clean is False:
        return "fixed_after_merge"
    if state == "merged":
        return "merged_as_sent" if as_sent else "changed_and_merged"
    if state == "abandoned":
        return "withdrawn"
    if state == "closed":
        return "closed" if as_sent else "changed_and_closed"
    return "open" if as_sent else "changed_and_open"


def _agreement(happened: Happened, clean: bool | None) -> Agreement:
    """Return whether a row agrees with the lane: closed is not clean, as in every count; withdrawn is unknown."""
    if happened in ("fixed_after_merge", "closed", "changed_and_closed"):
        return "wrong"
    if happened == "changed_and_merged":
        return "stricter"
    if happened == "merged_as_sent":
        return "agrees" if clean else "agrees_so_far"
    return "unknown"


# Pull requests that lanes let through without a person, each once, by the first decision that did so. Every count of
# what a lane let through is over these; push-holders' own and those that the audit drew are not among them.
PASSED = """
select s.pull_uri, s.repository_id, min(s.as_of) as passed_at, arg_min(s.thresholds, s.as_of) as thresholds
from scores s semi join waved_through w on w.pull_uri = s.pull_uri and w.as_of = s.as_of
anti join (from audit_draws where drawn) d on d.pull_uri = s.pull_uri
anti join own_people o on o.repository_id = s.repository_id and o.contributor_id = s.contributor_id
where s.lane = 'fast_lane' group by s.pull_uri, s.repository_id
"""
# The pull requests decided on in the last days, without push-holders' own; how many of them went through, or would have
# in shadow mode; and the outcomes of those.
MONTH = f"""
with decided as (
  select distinct s.pull_uri from scores s
  join repositories r on r.repository_id = s.repository_id and list_contains($repositories, r.repo_key)
  anti join own_people o on o.repository_id = s.repository_id and o.contributor_id = s.contributor_id
  where s.pull_uri is not null and s.as_of > $since
), taken as (
  select pull_uri from ({PASSED}) where passed_at > $since and not $shadow
  union select distinct pull_uri from shadow_rounds where decided_at > $since and $shadow
)
select count(*) as offered, count(t.pull_uri) as let_through, count(t.pull_uri) filter (l.clean) as clean,
  count(t.pull_uri) filter (not l.clean) as bad
from decided d left join taken t using (pull_uri) left join labels l using (pull_uri)
"""


def lane_sum(rows: Rows, repositories: Iterable[str], shadow: bool, now: datetime) -> LaneSum:
    """Count the pull requests that the lanes of these repositories (repo_key) let through lately, or would have in
    `shadow` mode."""
    parameters = {"repositories": sorted(repositories), "since": now - timedelta(days=DAYS), "shadow": shadow}
    return LaneSum(**rows.row(MONTH, parameters) or {})


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
