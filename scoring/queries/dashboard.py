"""Reads the figures of the dashboard from a snapshot: what is there, how the backlog moves, how soon people hear.

Backlog and waiting count pull requests of watched repositories, without those of people who may push there or whose
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
from scoring.queries.changes import SEALED
from scoring.queries.queue import KEY, LANE_KEYS, ON_AUTHOR
from scoring.queries.types import Bin, Dashboard
from scoring.review.cache import newest_costs
from scoring.thresholds import Thresholds

WEEKS, MONTHS = 12, 6
BETWEEN_PEOPLE = "superseded_at is null and voucher_id <> subject_id"  # a word for oneself has no effect
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
# Who had nothing merged or closed there before was a first-timer then. A stranger's comment is not an answer.
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
with told as (
  select *, coalesce(answered_at > $now, true) and pull_uri not in ({ON_AUTHOR}) as waits,
    -- Nobody is named as waiting longest whose author says that it was merged.
    pull_uri in (select pull_uri from pull_requests where merge_proof = 'unverified') as claimed
  from ({ANSWERS})
)
select first_timer, count(*) filter (waits) as waiting, count(*) filter (ended_at is null and not waits) as heard,
  min(opened_at) filter (waits and not claimed) as since,
  arg_min(pull_uri, (opened_at, pull_uri)) filter (waits and not claimed) as uri
from told group by first_timer
"""
AUTHOR = "select c.* from contributors c join pull_requests p on p.author_id = c.contributor_id where p.pull_uri = ?"


@dataclass(frozen=True, slots=True)
class Week:
    """The number of pull requests open at `at`, and of those that came and were decided in the seven days before."""

    at: datetime
    open: int
    came: int
    decided: int


@dataclass(frozen=True, slots=True)
class AnswerMonth:
    """Of `n` first answers in one month half came within `median` days; `low` and `high` are its 95 % interval."""

    month: datetime
    n: int
    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Answers:
    """The wait of first-timers, or regulars, for somebody who may push: a comment, a merge or a close.

    `all` is over all `months`, None without an answer. `waiting` have none yet, `heard` have one and are still open;
    the one that has waited longest was opened at `since`, by `author`. Without `has_comments` the snapshot holds no
    comment at all, and only merges and closes are known.
    """

    first_timers: bool
    months: tuple[AnswerMonth, ...]
    all: AnswerMonth | None
    waiting: int = 0
    since: datetime | None = None
    uri: str = ""
    author: str = ""
    heard: int = 0
    has_comments: bool = True


def weeks(rows: Rows, now: datetime, repository: str = "") -> tuple[Week, ...]:
    """The end of each of the last twelve weeks up to `now` (naive UTC), and of the week before, the oldest first.

    `repository` is the key of the only one that counts, "" for all.
    """
    ends = [now - timedelta(weeks=back) for back in range(WEEKS, -1, -1)]
    found = rows.rows(WEEKLY, {"ends": ends, "repository": repository})
    return tuple(Week(row["until"], row["open"], row["came"], row["decided"]) for row in found)


def answers(rows: Rows, now: datetime, repository: str = "") -> tuple[Answers, Answers]:
    """Return how soon first-timers heard back in the months up to `now`, and how soon regulars did.

    `repository` as above.
    """
    since = first_month(now)
    months = rows.rows(BY_MONTH, {"since": since, "now": now, "repository": repository})
    waiting = {row["first_timer"]: row for row in rows.rows(WAITING, {"now": now, "repository": repository})}
    has_comments = rows.value("select count(*) from comments") > 0

    def told(first_timers: bool) -> Answers:
        mine = [row for row in months if row["first_timer"] is first_timers]
        days = sorted(day for row in mine for day in row["days"])
        held = waiting.get(first_timers)
        shown = tuple(median_of(row["month"], row["days"]) for row in mine)
        whole = median_of(since, days) if days else None
        if held is None:
            return Answers(first_timers, shown, whole, has_comments=has_comments)
        person = rows.row(AUTHOR, [held["uri"]]) if held["uri"] else None
        name = display_name(person) if person else ""
        return Answers(
            first_timers,
            shown,
            whole,
            waiting=held["waiting"],
            since=held["since"],
            uri=held["uri"] or "",
            author=name,
            heard=held["heard"],
            has_comments=has_comments,
        )

    return told(True), told(False)


def first_month(now: datetime) -> datetime:
    """The beginning of the oldest of the MONTHS that end with the one under way."""
    months = 12 * now.year + now.month - MONTHS
    return datetime(months // 12, months % 12 + 1, 1)


def median_of(month: datetime, days: list[float]) -> AnswerMonth:
    """The median of sorted times with the order statistics between which it lies in 95 of 100 samples.

    Below six times the smallest and the largest hold it less often than that (five: 93.75 %).
    """
    from scipy.special import bdtrik  # .15 s, of which commands that draw nothing are spared

    count = len(days)
    low = max(0, ceil(bdtrik(0.025, count, 0.5)) - 1)
    median = (days[(count - 1) // 2] + days[count // 2]) / 2
    return AnswerMonth(month, count, median, days[low], days[count - 1 - low])


BELOW = f"""
select count(*) filter (probability < $chance) as below, count(probability) as numbered from current_decisions c
where not own and contributor_id not in (select c.contributor_id from current_decisions c where {SEALED})
"""


def open_below(rows: Rows, chance: float) -> tuple[int, int]:
    """Return how many open pull requests have a lower chance, and how many have one.

    Those of authors whose audit is due are left out: a count that moves by one of theirs would tell their chance.
    """
    counts = rows.row(BELOW, {"chance": chance}) or {"below": 0, "numbered": 0}
    return counts["below"], counts["numbered"]


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
        lanes={lane: lanes.get(lane, 0) for lane in LANE_KEYS},
        own=count("current_decisions where own"),
        histogram=histogram,
        scored=scored,
        not_enough_evidence=scored - sum(one.count for one in histogram),
        contributors=count("contributors where first_seen_at is not null"),
        vouches=count(f"vouches where {BETWEEN_PEOPLE} and kind = 'vouch'"),
        denounces=count(f"vouches where {BETWEEN_PEOPLE} and kind = 'denounce'"),
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
    """Return how many people have which P(clean) at the site, in tenths and by lane."""
    counted = rows.rows(
        "select least(floor(probability * 10), 9)::integer as bin, count(*) as n, "
        "count(*) filter (lane = 'needs_human') as flagged, count(*) filter (lane = 'fast_lane') as fast "
        "from current_scores where repository_id = 0 and probability is not null group by bin"
    )
    bins = {row["bin"]: (row["n"], row["flagged"], row["fast"]) for row in counted}
    return tuple(Bin(n / 10, (n + 1) / 10, *bins.get(n, (0, 0, 0))) for n in range(10))


def _site_thresholds(rows: Rows) -> Thresholds:
    """The thresholds of the newest pass; the defaults before the first one."""
    row = rows.row("select thresholds from current_scores where repository_id = 0 limit 1")
    return replace(read_thresholds(row), settled=read_settled(rows)) if row else Thresholds()
