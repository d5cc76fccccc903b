"""Read the lanes from a snapshot: open pull requests, monthly outcomes, first-timers' waits, one repository's lane.

The lanes of open pull requests are public. First-timers are compared with regulars: their lanes and waiting times. For
one repository the fast-lane page shows the lane's past, the offer and the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from ingest.store.transaction import Rows
from scoring.certificates.lane_counts import LaneCurve, Offer
from scoring.certificates.lane_curve import borrowed_curve, choose_curve, offer_of, read_curve, served_model
from scoring.certificates.sample_size import Need, earliest_need
from scoring.certificates.threshold import DEFAULT
from scoring.config.policy import Policy
from scoring.config.repository import WatchedRepository, in_shadow, watched_repository
from scoring.explain.sentences import lane_reason, plain_sentence, sentence
from scoring.models.base import wilson_interval
from scoring.pipeline.lane_history import PASSED, LaneHistory, read_open_history, read_shadow_history
from scoring.pipeline.lane_thresholds import STANDING
from scoring.pipeline.stored import read_thresholds, reason_codes
from scoring.queries.changes import SEALED
from scoring.queries.queue import KEY, LANE_KEYS, TOLD_LANE
from scoring.queries.types import GroupKey
from scoring.thresholds import Thresholds, items_needed

# The key of its group in the queue, not its lane: a drawn pull request is listed with those that wait for a review.
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
DRAWN_ONLY = ("audit_drawn",)


@dataclass(frozen=True, slots=True)
class Standing:
    """An open pull request of a watched repository, push-holders' own apart.

    `lane` is its group in the queue, `codes` are those of its reasons; for an unanswered audit both say only that it
    was drawn. `shadow`: the lane is hypothetical.
    """

    uri: str
    repository: str  # repo_key
    round: int
    lane: str
    is_sealed: bool
    shadow: bool
    reasons: str  # as stored; never show it for a sealed pull request

    @property
    def codes(self) -> tuple[str, ...]:
        return DRAWN_ONLY if self.is_sealed else reason_codes(self.reasons)


Basis = Literal["certified", "estimated", "by_hand", "shut"]


@dataclass(frozen=True, slots=True)
class LaneState:
    """The gate's fast lane in one repository; with `shadow`, as it would be outside shadow mode.

    `because` is the code of the reason why it is shut, "" where it is open; `bad` is the 95 % interval of the share of
    bad pull requests where the lane is estimated, else None. `since` is naive UTC, None where unknown. `notice` says
    all this in one sentence with exact figures, `plain` without a threshold; both are "" where a certificate holds.
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
    budget: float = 0.0  # the share of bad ones allowed through; an estimated lane has the budget of its opening


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
    """Return the fast lane's state in every watched repository with open pull requests."""
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
    """Return what keeps the fast lane open, or "shut"."""
    if thresholds.t_high is None:
        return "shut"
    if thresholds.certified:
        return "certified"
    return "by_hand" if thresholds.estimated is None else "estimated"


MONTHS = 13  # the newest: a year and the current month
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
    """The fast lane's `n` >= 1 outcomes that became known in one month ("2026-03"); `bad` of them were not clean.

    `low` and `high` are the 95 % interval of their share, as if they were independent; `budget` is the share allowed to
    be bad, on average over the lanes through which they went at that time.
    """

    month: str
    n: int
    bad: int
    low: float
    high: float
    budget: float


def lane_results(rows: Rows) -> tuple[LaneMonth, ...]:
    """Return the newest months in which fast-lane outcomes became known, oldest first; empty where none has."""
    now = rows.value("select max(as_of) from current_scores")
    month_rows = rows.rows(BY_MONTH, {"now": now}) if now else []
    return tuple(_lane_month(month, list(same_month)) for month, same_month in groupby(month_rows, itemgetter("month")))


def _lane_month(month: str, rows: Sequence[Mapping[str, Any]]) -> LaneMonth:
    n, bad = (sum(row[name] for row in rows) for name in ("n", "bad"))
    allowed = sum(row["n"] * read_thresholds(row).budget for row in rows)
    return LaneMonth(month, n, bad, *share_interval(bad, n), round(allowed / n, 9))


AUDITED = """
select count(distinct pull_uri) as answered, count(distinct pull_uri) filter (not would_merge) as bad from audits
"""


def lane_audits(rows: Rows) -> tuple[int, int]:
    """Return how many pull requests of fast lanes were audited, and how many of these would not be merged as sent."""
    counts = rows.row(AUDITED) or {"answered": 0, "bad": 0}
    return counts["answered"], counts["bad"]


def share_interval(bad: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of n >= 1, within [0, 1].

    It avoids SciPy, which pages need not import.
    """
    low, high = wilson_interval(np.array(bad / n), np.array(n))
    return round(float(low), 9), round(float(high), 9)


# A first-timer had nothing merged or closed there when they opened it; later events do not change that.
PAST = """
select p.author_id, p.repository_id, p.opened_at, p.state_at,
  min(p.state_at) over (partition by p.author_id, p.repository_id) as first_at
from pull_requests p semi join watched_repositories using (repository_id)
anti join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
where p.state in ('merged', 'closed') and p.state_at >= p.opened_at
"""
# Drawn pull requests are listed with those that wait for a review, as in the queue: a share must not reveal their lane.
WAITING = f"""
with known as (select distinct author_id, repository_id, first_at from ({PAST})), listed as (
  select {KEY} as lane, p.opened_at, coalesce(p.opened_at <= k.first_at, true) as first_timer
  from current_decisions c join pull_requests p on p.pull_uri = c.pull_uri
  left join known k on k.author_id = p.author_id and k.repository_id = p.repository_id where not c.own
)
select first_timer, count(*) as open, count(*) filter (lane = 'needs_human') as needs_human,
  count(*) filter (lane = 'normal_queue') as normal_queue, count(*) filter (lane = 'fast_lane') as fast_lane,
  count(*) filter (lane = 'would_be_fast_lane') as would_be_fast_lane,
  quantile_disc(opened_at, 0.5) as median_opened_at, min(opened_at) as oldest_opened_at
from listed group by first_timer
"""
DECIDED = f"""
select opened_at <= first_at as first_timer, count(*) as decided,
  median(epoch(state_at - opened_at)) / 86400 as median_days
from ({PAST}) where state_at > ? - interval 1 year group by first_timer
"""


@dataclass(frozen=True, slots=True)
class Fare:
    """First-timers, or regulars, in watched repositories; push-holders' own pull requests are not counted.

    `lanes` and the times are about open pull requests, `decided` and `median_days` about those merged or closed within
    a year.
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
    """The audit of an estimated lane: how many were drawn, answered, answered with no, and are still due."""

    drawn: int
    answered: int
    bad: int
    due: int


@dataclass(frozen=True, slots=True)
class LanePast:
    """The past of one repository's lane, and the offer that it supports under the repository's budget.

    `own` and `starter` are curves, and either may be missing; `offer` rests on one of them. `need` is the least that a
    certificate still lacks, None where enough have settled. `a_month` is how many pull requests settle here in thirty
    days. `model` is the trained model that serves, "" without one: then no certificate is possible. `opening` is the
    key of the estimated lane in force, "" without one.
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
        """Return the curve behind the offer."""
        return choose_curve(self.own, self.starter)

    @property
    def basis(self) -> Basis:
        """Return the basis of the present lane, or "shut"."""
        return basis_of(self.thresholds)

    @property
    def shut_itself(self) -> bool:
        """Return whether an estimated lane was open here until its test showed too many bad outcomes."""
        return _shut_itself(self.thresholds)


def lane_past(rows: Rows, key: str, policy: Policy, now: datetime) -> LanePast | None:
    """Return the past of this repository's lane as of the last midnight; None where the repository is not watched.

    The offer is computed once a day, as for decisions in shadow mode (`scoring.pipeline.lane_thresholds.Offers`). After
    a lane shut itself, the outcomes that shut it count at once.
    """
    watched = watched_repository(rows, key)
    if watched is None:
        return None
    row = rows.row(THRESHOLDS, [watched.number])
    thresholds = read_thresholds(row) if row else policy.thresholds
    as_of = now if _shut_itself(thresholds) else now.replace(hour=0, minute=0, second=0, microsecond=0)
    budget = watched.settings.budget or policy.thresholds.budget
    own = read_curve(rows, policy.models, policy.prior, policy.strength, as_of)
    starter = borrowed_curve(policy.models) if policy.starter is not None else None
    curve = choose_curve(own, starter)
    offer = offer_of(curve, budget) if curve else None
    return LanePast(
        repository=watched,
        thresholds=thresholds,
        budget=budget,
        own=own,
        starter=starter,
        offer=offer,
        need=_need(own, offer, budget, policy.thresholds.delta),
        a_month=rows.value(A_MONTH, {"repository": watched.number, "now": now}) or 0.0,
        model=served_model(policy.models),
        opening=rows.value(OPENING, {"repository": watched.number, "now": now}) or "",
    )


def _shut_itself(thresholds: Thresholds) -> bool:
    return thresholds.shut is not None and thresholds.shut.code == "estimated_lane_closed"


def _need(own: LaneCurve | None, offer: Offer | None, budget: float, delta: float) -> Need | None:
    """Return the least that a certificate still lacks for a lane at the offer's threshold or above."""
    least = Need(items_needed(budget, delta / len(DEFAULT.starts)), 0)
    if own is None or offer is None:
        return least
    lanes = [
        (point.threshold, point.let_through, point.bad) for point in own.points if point.threshold >= offer.threshold
    ]
    weeks, longest = max(own.days / 7, 1.0), DEFAULT.window_days / 7
    return earliest_need(lanes, weeks, longest, budget, delta, len(DEFAULT.starts)) if lanes else least


def watched_lane(rows: Rows, repository: WatchedRepository, now: datetime) -> LaneHistory:
    return read_shadow_history(rows, repository.number, now)


def opened_lane(rows: Rows, past: LanePast, opening: str, now: datetime) -> tuple[LaneHistory, AuditCount]:
    """Return what the lane of this opening let through, and its audit; empty until the opening is stored."""
    since = rows.value("select known_from from estimated_lanes where opening_key = ?", [opening])
    if since is None:
        return LaneHistory((), None), AuditCount(0, 0, 0, 0)
    parameters = {"repository": past.repository.number, "since": since}
    return read_open_history(rows, past.repository.number, since, now), AuditCount(**rows.row(DRAWN, parameters) or {})
