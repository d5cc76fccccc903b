"""Read the dashboard's figures from a snapshot: totals, the backlog, and times to a first answer.

Backlog and waiting count pull requests of watched repositories, without those by people who may push there or whose
account is hidden.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil

from ingest.clock import from_microseconds
from ingest.store.archive import COUNT
from ingest.store.transaction import Rows
from scoring.config.repository import in_shadow
from scoring.explain.sentences import lane_notice
from scoring.formatting import display_name
from scoring.pipeline.stored import read_settled, read_thresholds
from scoring.queries.queue import KEY
from scoring.queries.types import Bin, Dashboard
from scoring.review.cache import newest_costs
from scoring.thresholds import Thresholds
from scoring.types import Lane

WEEKS, MONTHS = 12, 6
GAP_REASON = "select arg_max(reason, (found_clock, from_us)) from gaps where filled_clock is null"
COUNTED = """
select p.pull_uri, p.author_id, p.repository_id, p.title, p.opened_at,
  case when p.state <> 'open' then coalesce(p.state_at, p.deleted_at, p.changed_at) end as ended_at,
  p.state in ('merged', 'closed') and p.state_at >= p.opened_at as decided
from pull_requests p semi join watched_repositories using (repository_id)
anti join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
anti join hidden_people h on h.contributor_id = p.author_id
where $repository = '' or p.repository_id in (select repository_id from repositories where repo_key = $repository)
"""
WEEKLY = f"""
with counted as ({COUNTED})
select until, count(*) filter (opened_at <= until and (ended_at is null or ended_at > until)) as open,
  count(*) filter (opened_at <= until and opened_at > until - interval 7 day) as came,
  count(*) filter (ended_at <= until and ended_at > until - interval 7 day) as decided
from counted, (select unnest($ends::timestamp[]) as until) group by until order by until
"""
# A first-timer had nothing merged or closed there before. A comment by somebody without push access is not an answer.
ANSWERS = f"""
with counted as ({COUNTED}), replied as (
  select c.subject_uri as pull_uri, min(c.written_at) as replied_at
  from comments c join counted p on p.pull_uri = c.subject_uri
  join own_people o on o.repository_id = p.repository_id and o.contributor_id = c.author_id
  where c.deleted_at is null and c.written_at >= p.opened_at group by 1
), known as (
  select p.*, least(case when decided then ended_at end, r.replied_at) as answered_at,
    min(case when decided then ended_at end) over (partition by author_id, repository_id) as first_at
  from counted p left join replied r using (pull_uri)
)
select *, coalesce(opened_at <= first_at, true) as first_timer from known
where ended_at is null or answered_at is not null
"""
BY_MONTH = f"""
select first_timer, date_trunc('month', answered_at)::timestamp as month,
  list(epoch(answered_at - opened_at) / 86400 order by answered_at - opened_at) as days
from ({ANSWERS}) where answered_at > $since and answered_at <= $now group by all order by month
"""
WAITING = f"""
with told as (select *, coalesce(answered_at > $now, true) as waits from ({ANSWERS}))
select first_timer, count(*) filter (waits) as waiting, count(*) filter (ended_at is null and not waits) as heard,
  min(opened_at) filter (waits) as since, arg_min(pull_uri, (opened_at, pull_uri)) filter (waits) as uri
from told group by first_timer
"""
AUTHOR = "select c.* from contributors c join pull_requests p on p.author_id = c.contributor_id where p.pull_uri = ?"
ACTABLE = f"""
select count(*) from current_decisions c join repository_settings x using (repository_id)
where {KEY} = 'fast_lane' and not x.shadow
"""


@dataclass(frozen=True, slots=True)
class Week:
    """The number of pull requests open at `at`, and of those that came and were decided in the seven days before."""

    at: datetime
    open: int
    came: int
    decided: int


@dataclass(frozen=True, slots=True)
class AnswerMonth:
    """First answers in one month: half of `n` came within `median` days; `low` and `high` are its 95 % interval."""

    month: datetime
    n: int
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Answers:
    """How long first-timers, or regulars, wait for a comment, merge or close by somebody who may push.

    `all` covers all `months`; it is None without an answer. `waiting` have no answer, `heard` have one and are still
    open; the one that has waited longest was opened at `since`, by `author`.
    """

    first_timers: bool
    months: tuple[AnswerMonth, ...]
    all: AnswerMonth | None
    waiting: int = 0
    since: datetime | None = None
    uri: str = ""
    author: str = ""
    heard: int = 0


def weeks(rows: Rows, now: datetime, repository: str = "") -> tuple[Week, ...]:
    """Return weekly counts up to `now` (naive UTC): the last twelve weeks and the one before, oldest first.

    `repository` is the key of the only one that counts, "" for all.
    """
    ends = [now - timedelta(weeks=back) for back in range(WEEKS, -1, -1)]
    week_rows = rows.rows(WEEKLY, {"ends": ends, "repository": repository})
    return tuple(Week(row["until"], row["open"], row["came"], row["decided"]) for row in week_rows)


def answers(rows: Rows, now: datetime, repository: str = "") -> tuple[Answers, Answers]:
    """Return how soon first-timers, then regulars, got an answer in the months up to `now`.

    `repository` is the key of the only one that counts, "" for all.
    """
    since = first_month(now)
    months = rows.rows(BY_MONTH, {"since": since, "now": now, "repository": repository})
    waiting = {row["first_timer"]: row for row in rows.rows(WAITING, {"now": now, "repository": repository})}

    def summarize(first_timers: bool) -> Answers:
        group_months = [row for row in months if row["first_timer"] is first_timers]
        days = sorted(day for row in group_months for day in row["days"])
        longest_wait = waiting.get(first_timers)
        medians = tuple(median_of(row["month"], row["days"]) for row in group_months)
        overall = median_of(since, days) if days else None
        if longest_wait is None:
            return Answers(first_timers, medians, overall)
        person = rows.row(AUTHOR, [longest_wait["uri"]]) if longest_wait["uri"] else None
        name = display_name(person) if person else ""
        return Answers(
            first_timers,
            medians,
            overall,
            longest_wait["waiting"],
            longest_wait["since"],
            longest_wait["uri"] or "",
            name,
            longest_wait["heard"],
        )

    return summarize(True), summarize(False)


def first_month(now: datetime) -> datetime:
    """Return the beginning of the oldest of the MONTHS that end with the current one."""
    months = 12 * now.year + now.month - MONTHS
    return datetime(months // 12, months % 12 + 1, 1)


def median_of(month: datetime, days: list[float]) -> AnswerMonth:
    """Return the median of sorted times, and the order statistics that enclose it in 95 of 100 samples.

    Below six times, the smallest and the largest enclose it less often than that (five: 93.75 %).
    """
    from scipy.special import bdtrik  # .15 s, which commands without charts do not need

    count = len(days)
    low = max(0, ceil(bdtrik(0.025, count, 0.5)) - 1)
    median = (days[(count - 1) // 2] + days[count // 2]) / 2
    return AnswerMonth(month, count, median, days[low], days[count - 1 - low])


def actable(rows: Rows) -> int:
    return rows.value(ACTABLE)


def dashboard(rows: Rows) -> Dashboard:
    open_pulls = rows.rows(f"select {KEY} as lane, count(*) as n from current_decisions c where not own group by all")
    lanes = {row["lane"]: row["n"] for row in open_pulls}
    histogram = _histogram(rows)
    scored = rows.value("select count(*) from current_scores where repository_id = 0")
    cursor = rows.value("select max(cursor_us) from ingest_state")
    thresholds, costs = _site_thresholds(rows), newest_costs(rows)

    def count(table: str) -> int:
        return rows.value(f"select count(*) from {table}")

    return Dashboard(
        lanes={lane: lanes.get(str(lane), 0) for lane in Lane},
        own=count("current_decisions where own"),
        histogram=histogram,
        scored=scored,
        not_enough_evidence=scored - sum(bar.count for bar in histogram),
        contributors=count("contributors where first_seen_at is not null"),
        vouches=count("vouches where superseded_at is null and kind = 'vouch'"),
        denounces=count("vouches where superseded_at is null and kind = 'denounce'"),
        seeds=count("seeds where repository_id = 0"),
        events=rows.value(COUNT),
        pull_requests=count("pull_requests"),
        repositories=count("repositories where owner_id is not null"),
        watched=count("watched_repositories"),
        dead_letters=count("dead_letters"),
        dropped_strangers=rows.value("select coalesce(sum(dropped_strangers), 0)::bigint from ingest_state"),
        gaps_open=count("gaps where filled_clock is null"),
        gap_reason=rows.value(GAP_REASON) or "",
        unknown_shapes=count("unknown_shapes"),
        newest_event_at=from_microseconds(cursor) if cursor else None,
        t_low=thresholds.t_low,
        t_high=thresholds.t_high,
        lane_notice=lane_notice(thresholds),
        has_threshold=thresholds.t_high is not None,
        reviewed=count("current_decisions where content_risk is not null"),
        readings=costs.reviews,
        reading_dollars=costs.dollars,
        reading_median=costs.median,
        reading_p95=costs.p95,
        shadow=len(in_shadow(rows)),
        asks_claude=count("watched_repositories where review = 'claude'"),
    )


def _histogram(rows: Rows) -> tuple[Bin, ...]:
    """Count people by P(clean) at the site, in tenths and by lane."""
    tenths = rows.rows(
        "select least(floor(probability * 10), 9)::integer as bin, count(*) as n, "
        "count(*) filter (lane = 'needs_human') as flagged, count(*) filter (lane = 'fast_lane') as fast "
        "from current_scores where repository_id = 0 and probability is not null group by bin"
    )
    bins = {row["bin"]: (row["n"], row["flagged"], row["fast"]) for row in tenths}
    return tuple(Bin(n / 10, (n + 1) / 10, *bins.get(n, (0, 0, 0))) for n in range(10))


def _site_thresholds(rows: Rows) -> Thresholds:
    """Return the thresholds of the newest pass; the defaults before the first one."""
    row = rows.row("select thresholds from current_scores where repository_id = 0 limit 1")
    return replace(read_thresholds(row), settled=read_settled(rows)) if row else Thresholds()
