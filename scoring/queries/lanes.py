"""Reads the lanes from a snapshot: open pull requests, outcomes by month, first-timers' waits, one repository's lane.

The lanes of open pull requests are what everybody may know. First-timers are shown beside regulars: the lane they are
in, and how long they wait. Of one repository the fast-lane page shows the past, the offer and the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from math import sqrt
from operator import itemgetter
from typing import Any, Literal

from ingest.store.transaction import Rows
from scoring.certificates.lane_counts import LaneCurve, Offer
from scoring.certificates.lane_curve import borrowed_curve, choose_curve, offer_of, read_curve, served_model
from scoring.certificates.sample_size import Need, earliest_need
from scoring.certificates.threshold import DEFAULT
from scoring.config.policy import Policy
from scoring.config.repository import WatchedRepository, in_shadow, watched_repository
from scoring.explain.sentences import lane_reason, plain_sentence, sentence
from scoring.pipeline.lane_history import PASSED, LaneHistory, read_open_history, read_shadow_history
from scoring.pipeline.lane_thresholds import STANDING
from scoring.pipeline.stored import read_thresholds, reason_codes
from scoring.queries.changes import SEALED
from scoring.queries.queue import KEY, LANE_KEYS, TOLD_LANE
from scoring.queries.types import GroupKey
from scoring.thresholds import Thresholds, items_needed

# The key of its group in the queue, not its lane: what the audit drew stands with what waits for a review.
OPEN = f"""
select c.pull_uri, c.repository_id, r.repo_key, c.round, {TOLD_LANE} as lane, {SEALED} as is_sealed, c.reasons
from current_decisions c join repositories r using (repository_id) semi join watched_repositories using (repository_id)
where not c.own
"""
LANES = """
select r.repo_key, any_value(c.thresholds) as thresholds, coalesce(any_value(x.shadow), true) as shadow
from current_decisions c join repositories r using (repository_id)
semi join watched_repositories using (repository_id)
left join repository_settings x using (repository_id) group by r.repo_key order by r.repo_key
"""
DUE = f"""
select c.pull_uri from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
semi join watched_repositories w on w.repository_id = c.repository_id
where {SEALED} order by p.opened_at, c.pull_uri
"""
DRAWN_ONLY = ("audit_drawn",)


@dataclass(frozen=True, slots=True)
class Standing:
    """An open pull request of a watched repository, push-holders' own apart.

    `lane` is the group of the queue in which it is shown, `codes` are those of its reasons; of what the audit drew and
    nobody answered both say only that. `shadow`: the lane is what it would be.
    """

    uri: str
    repository: str  # repo_key
    round: int
    lane: str
    is_sealed: bool
    shadow: bool
    reasons: str  # as stored; not to be told of what is sealed

    @property
    def codes(self) -> tuple[str, ...]:
        return DRAWN_ONLY if self.is_sealed else reason_codes(self.reasons)


Basis = Literal["certified", "estimated", "by_hand", "shut"]


@dataclass(frozen=True, slots=True)
class LaneState:
    """The gate's fast lane in one repository; with `shadow`, as it would be outside shadow mode.

    `because` is the code of what shut it, "" where it is open; `bad` the 95 % interval of the share of bad ones where
    it is estimated, else None. `since` is naive UTC, None where nobody knows. `notice` says all this in one sentence
    with exact figures, `plain` without a threshold; both are "" where a certificate holds.
    """

    repository: str  # repo_key
    is_open: bool
    because: str
    basis: Basis = "shut"
    shadow: bool = False
    t_high: float | None = None
    bad: tuple[float, float] | None = None
    since: datetime | None = None
    notice: str = ""
    plain: str = ""
    budget: float = 0.0  # the share of bad ones that may go through; an estimated lane has that of its opening


def standings(rows: Rows) -> tuple[Standing, ...]:
    shadowed = in_shadow(rows)
    return tuple(
        Standing(
            uri=row["pull_uri"],
            repository=row["repo_key"],
            round=row["round"] or 0,
            lane=row["lane"],
            is_sealed=row["is_sealed"],
            shadow=row["repository_id"] in shadowed,
            reasons=row["reasons"],
        )
        for row in rows.rows(OPEN)
    )


def lane_states(rows: Rows) -> tuple[LaneState, ...]:
    """The gate's fast lane in every watched repository that has something open, by what that was decided by."""
    return tuple(_lane_state(row["repo_key"], row["shadow"], read_thresholds(row)) for row in rows.rows(LANES))


def _lane_state(repository: str, shadow: bool, thresholds: Thresholds) -> LaneState:
    reason = lane_reason(thresholds)
    is_open = thresholds.t_high is not None
    return LaneState(
        repository,
        is_open,
        "" if is_open or reason is None else reason.code,
        basis_of(thresholds),
        shadow,
        thresholds.t_high,
        thresholds.estimated,
        thresholds.since,
        sentence(reason) if reason else "",
        plain_sentence(reason) if reason else "",
        thresholds.budget,
    )


def basis_of(thresholds: Thresholds) -> Basis:
    """Return what the fast lane is open on, or "shut"."""
    if thresholds.t_high is None:
        return "shut"
    if thresholds.certified:
        return "certified"
    return "by_hand" if thresholds.estimated is None else "estimated"


def audits_due(rows: Rows) -> tuple[str, ...]:
    """The at-uris of what the audit drew and nobody answered, the oldest first."""
    return tuple(row["pull_uri"] for row in rows.rows(DUE))


MONTHS = 13  # the newest: a year and the month under way
SIGMAS = 1.959964  # of a normal distribution on either side of a 95 % interval
BY_MONTH = f"""
with known as (
  select p.thresholds, not l.clean as bad, strftime(l.known_from, '%Y-%m') as month
  from ({PASSED}) p join labels l using (pull_uri) where l.known_from <= $now
)
select month, thresholds, count(*) as n, count(*) filter (bad) as bad from known
where month in (select distinct month from known order by month desc limit {MONTHS})
group by month, thresholds order by month
"""


@dataclass(frozen=True, slots=True)
class LaneMonth:
    """Of `n` >= 1 that lanes let through and whose outcome became known in one month ("2026-03"), `bad` were not clean.

    `low` and `high` are a 95 % interval of their share that takes each for itself; `budget` is the share that might be
    bad, by the lanes through which they went at that moment, on average.
    """

    month: str
    n: int
    bad: int
    low: float
    high: float
    budget: float


def lane_results(rows: Rows) -> tuple[LaneMonth, ...]:
    """The newest months in which outcomes of the fast lane became known, the oldest first; empty where none has."""
    now = rows.value("select max(as_of) from current_scores")
    found = rows.rows(BY_MONTH, {"now": now}) if now else []
    return tuple(_lane_month(month, list(some)) for month, some in groupby(found, itemgetter("month")))


def _lane_month(month: str, found: Sequence[Mapping[str, Any]]) -> LaneMonth:
    n, bad = (sum(row[name] for row in found) for name in ("n", "bad"))
    allowed = sum(row["n"] * read_thresholds(row).budget for row in found)
    return LaneMonth(month, n, bad, *share_interval(bad, n), round(allowed / n, 9))


def share_interval(bad: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n >= 1, within [0, 1]; it needs no SciPy, of which pages are spared."""
    share, spread = bad / n, SIGMAS**2 / n
    middle = share + spread / 2
    half = SIGMAS * sqrt(share * (1 - share) / n + spread / (4 * n))
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return max(0.0, round(low, 9)), min(1.0, round(high, 9))


# What the audit drew stands with what waits for a review, as in the queue: a share must not tell its lane.
WAITING = f"""
with listed as (
  select {KEY} as lane, p.opened_at, coalesce(f.settled_here, 0) = 0 as first_timer
  from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
  left join features f on f.contributor_id = c.contributor_id and f.repository_id = c.repository_id where not c.own
)
select first_timer, count(*) as open, count(*) filter (lane = 'needs_human') as needs_human,
  count(*) filter (lane = 'normal_queue') as normal_queue, count(*) filter (lane = 'fast_lane') as fast_lane,
  count(*) filter (lane = 'would_be_fast_lane') as would_be_fast_lane,
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
    lanes: Mapping[GroupKey, int]
    median_opened_at: datetime | None = None
    oldest_opened_at: datetime | None = None
    decided: int = 0
    median_days: float | None = None

    @property
    def open(self) -> int:
        return sum(self.lanes.values())


def fares(rows: Rows) -> tuple[Fare, Fare]:
    as_of = rows.value("select max(as_of) from current_scores")
    opened = {row["first_timer"]: row for row in rows.rows(WAITING)}
    decided = {row["first_timer"]: row for row in rows.rows(DECIDED, [as_of])} if as_of else {}
    return _fare(True, opened.get(True), decided.get(True)), _fare(False, opened.get(False), decided.get(False))


def _fare(first_timers: bool, opened: Mapping[str, Any] | None, decided: Mapping[str, Any] | None) -> Fare:
    lanes: dict[GroupKey, int] = {lane: opened[lane] if opened else 0 for lane in LANE_KEYS}
    times = (opened["median_opened_at"], opened["oldest_opened_at"]) if opened else (None, None)
    past = (decided["decided"], decided["median_days"]) if decided else (0, None)
    return Fare(first_timers, lanes, *times, *past)


THRESHOLDS = "select thresholds from current_scores where repository_id = ? limit 1"
A_MONTH = """
select count(*) * 30.0 / greatest(least(datediff('day', min(p.seen_at), $now::timestamp), 365), 30)
from labels l join pull_requests p using (pull_uri)
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.repository_id = $repository and l.known_from <= $now and l.known_from > $now - interval 1 year
"""
DRAWN = f"""
select count(distinct d.pull_uri) as drawn, count(distinct a.pull_uri) as answered,
  count(distinct a.pull_uri) filter (not a.would_merge) as bad,
  count(distinct c.pull_uri) filter (a.pull_uri is null) as due
from audit_draws d left join audits a on a.pull_uri = d.pull_uri and a.estimated and a.known_from >= $since
left join (select c.pull_uri from current_decisions c where {SEALED}) c on c.pull_uri = d.pull_uri
where d.repository_id = $repository and d.estimated and d.drawn and d.drawn_at >= $since
"""
OPENING = f"select opening_key from ({STANDING}) where repository_id = $repository"


@dataclass(frozen=True, slots=True)
class AuditCount:
    """The audit of an estimated lane: how many were drawn and answered, would not have been merged, or wait."""

    drawn: int
    answered: int
    bad: int
    due: int


@dataclass(frozen=True, slots=True)
class LanePast:
    """The past of one repository's lane, and the offer that it supports under the repository's budget.

    `own` and `starter` are curves, and either may be missing; `offer` rests on one of them. `need` is the least that a
    certificate still lacks, None where enough have settled. `a_month` is how many pull requests settle here in thirty
    days. `model` is the trained model that serves, "" without one: then nothing is ever certified. `opening` is the key
    of the estimated lane that stands, "" without one.
    """

    repository: WatchedRepository
    thresholds: Thresholds
    budget: float
    own: LaneCurve | None
    starter: LaneCurve | None
    offer: Offer | None
    need: Need | None
    a_month: float
    model: str
    opening: str

    @property
    def spoken(self) -> LaneCurve | None:
        """The curve that an offer rests on."""
        return choose_curve(self.own, self.starter)

    @property
    def basis(self) -> Basis:
        """The basis of the present lane, or "shut"."""
        return basis_of(self.thresholds)

    @property
    def shut_itself(self) -> bool:
        """Return whether an estimated lane was open here until the bet against it was won."""
        return _shut_itself(self.thresholds)


def lane_past(rows: Rows, key: str, policy: Policy, now: datetime) -> LanePast | None:
    """Return the past of this repository's lane as of the last midnight; None where the repository is not watched.

    The offer is counted once a day, as it is for decisions in shadow mode
    (`scoring.pipeline.lane_thresholds.Offers`). After a lane shut itself, the outcomes that shut it count at once.
    """
    found = watched_repository(rows, key)
    if found is None:
        return None
    row = rows.row(THRESHOLDS, [found.number])
    thresholds = read_thresholds(row) if row else policy.thresholds
    as_of = now if _shut_itself(thresholds) else now.replace(hour=0, minute=0, second=0, microsecond=0)
    budget = found.settings.budget or policy.thresholds.budget
    own = read_curve(rows, policy.models, policy.prior, policy.strength, as_of)
    starter = borrowed_curve(policy.models) if policy.starter is not None else None
    curve = choose_curve(own, starter)
    offer = offer_of(curve, budget) if curve else None
    return LanePast(
        repository=found,
        thresholds=thresholds,
        budget=budget,
        own=own,
        starter=starter,
        offer=offer,
        need=_need(own, offer, budget, policy.thresholds.delta),
        a_month=rows.value(A_MONTH, {"repository": found.number, "now": now}) or 0.0,
        model=served_model(policy.models),
        opening=rows.value(OPENING, {"repository": found.number, "now": now}) or "",
    )


def _shut_itself(thresholds: Thresholds) -> bool:
    return thresholds.shut is not None and thresholds.shut.code == "estimated_lane_closed"


def _need(own: LaneCurve | None, offer: Offer | None, budget: float, delta: float) -> Need | None:
    """Return the least that a certificate still lacks for a lane at the offer's threshold or above."""
    nothing = Need(items_needed(budget, delta / len(DEFAULT.starts)), 0)
    if own is None or offer is None:
        return nothing
    lanes = [(one.threshold, one.let_through, one.bad) for one in own.points if one.threshold >= offer.threshold]
    weeks, longest = max(own.days / 7, 1.0), DEFAULT.window_days / 7
    return earliest_need(lanes, weeks, longest, budget, delta, len(DEFAULT.starts)) if lanes else nothing


def watched_lane(rows: Rows, past: LanePast, now: datetime) -> LaneHistory:
    return read_shadow_history(rows, past.repository.number, now)


def opened_lane(rows: Rows, past: LanePast, opening: str, now: datetime) -> tuple[LaneHistory, AuditCount]:
    """Return what the lane of this opening let through, and its audit; nothing until the opening is stored."""
    since = rows.value("select known_from from estimated_lanes where opening_key = ?", [opening])
    if since is None:
        return LaneHistory((), None), AuditCount(0, 0, 0, 0)
    given = {"repository": past.repository.number, "since": since}
    return read_open_history(rows, past.repository.number, since, now), AuditCount(**rows.row(DRAWN, given) or {})
