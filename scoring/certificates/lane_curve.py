"""Counts what the fast lane would have let through on past pull requests, and derives the offer to open it.

The past is the site's own, or that of the projects behind the starter model (`starter_curve.json`, beside this file).
Thresholds are whole hundredths, so that an offer is stable from pass to pass while few cases settle.
"""

import logging
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from ingest.store.transaction import Rows
from scoring.certificates.lane_counts import (
    STEP,
    Floats,
    Group,
    LaneCurve,
    LanePoint,
    Offer,
    ScoredCases,
    Source,
)
from scoring.certificates.threshold import DEFAULT, upper_bound
from scoring.certificates.threshold_queries import QuestionProblem, StoredGroup, Table, read_table, table_of
from scoring.config.policy import Policy
from scoring.dataset.labels import WINDOW_DAYS
from scoring.models.serving import LABEL
from scoring.models.storage import ModelProblem, serving_name

FILE = Path(__file__).with_name("starter_curve.json")
FEWEST_SETTLED = 30  # settled pull requests; from this number on the site's own past is used
# The past year and the next are both samples, and the past one chose the threshold. In recorded history 25 % of the
# following years were above the upper end of the plain interval; with twice the variance 10 %, and 2 % on other
# projects.
VARIANCE = 2.0
WORST_BAD_HIGH = 0.3  # highest upper end of an offer: a bet against more would hardly ever shut the lane
TAIL = 0.025  # on either side of a 95 % interval
UNREADABLE = "(unreadable)"
GRID = np.arange(STEP + 1) / STEP
logger = logging.getLogger(__name__)

# Pull requests that settled within a year, with their authors' records as known at the opening. Those that an open lane
# let through count only if audited, and then for 1 / odds of them (`scoring.dataset.labels`).
SETTLED_CASES = f"""
with answers as (
  select pull_uri, arg_min(odds, known_from) as odds, arg_min(would_merge, known_from) as clean,
    min(known_from) as known_from
  from audits where known_from <= $now group by pull_uri
), settled as (
  select p.pull_uri, p.author_id, p.seen_at, coalesce(a.clean, l.clean) as clean, coalesce(1 / a.odds, 1.0) as weight,
    o.contributor_id is not null as may_push
  from pull_requests p
  left join (from labels where known_from <= $now) l using (pull_uri)
  left join answers a using (pull_uri)
  left join own_people o on o.repository_id = p.repository_id and o.contributor_id = p.author_id
  where coalesce(a.known_from, l.known_from) > $now - interval 1 year
    and (a.pull_uri is not null or p.pull_uri not in (select pull_uri from waved_through where as_of <= $now))
), imported as (
  select author_id, merged_at is not null and bad_at is null as clean,
    coalesce(bad_at, merged_at + to_days({WINDOW_DAYS})) as known_from
  from (
    select *, merged_at + to_days({WINDOW_DAYS}) as quiet_at,
      least(case when reverted_at <= quiet_at then reverted_at end,
        case when patched_at <= quiet_at then patched_at end, case when merged_at is null then refused_at end) as bad_at
    from imported_pulls where author_id > 0 and usable and not push_holder and not is_bot
  ) where coalesce(bad_at, quiet_at) <= observed_until
), record as (
  select author_id, clean, known_from from labels union all from imported
)
select s.author_id, s.seen_at, any_value(not s.clean)::double as bad, any_value(s.weight) as weight,
  any_value(s.may_push) as may_push,
  count(*) filter (r.clean)::double as clean, count(*) filter (not r.clean)::double as not_clean
from settled s left join record r on r.author_id = s.author_id and r.known_from <= s.seen_at
group by s.pull_uri, s.author_id, s.seen_at order by s.seen_at, s.pull_uri
"""
FIRST_SEEN = """
select least((select min(seen_at) from pull_requests), (select min(opened_at) from imported_pulls where usable))
"""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class StoredPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `LanePoint` as a file stores it."""

    threshold: Share
    let_through: Amount
    bad: Amount
    authors: Annotated[int, msgspec.Meta(ge=0)]
    bad_low: Share
    bad_high: Share


class StoredCurve(msgspec.Struct, frozen=True):
    """The starter's curve as its file stores it, without its origin."""

    format: Literal[1]
    cases: Amount
    days: Amount
    points: Annotated[tuple[StoredPoint, ...], msgspec.Meta(min_length=1, max_length=STEP + 1)]
    newcomers: StoredGroup
    everybody: StoredGroup


def read_curve(rows: Rows, models: Path | None, prior: float, strength: float, now: datetime) -> LaneCurve | None:
    """Return the curve of the pull requests that settled in the site's last year; None without any.

    With a serving model it comes from the model's table of thresholds, else from the shrunk rate at each opening with
    this prior.
    """
    days = _observed_days(rows, now)
    if models is not None and is_served(models):
        return _curve_of_model(models, days)
    settled_columns = rows.columns(SETTLED_CASES, {"now": now})
    columns = {name: np.asarray(column) for name, column in settled_columns.items()}
    outside = ~columns["may_push"].astype(bool)
    scores = given_rate(columns["clean"], columns["not_clean"], prior, strength)
    case_columns = (scores, columns["bad"], columns["author_id"], columns["seen_at"], columns["weight"])
    scored_outside = outside & np.isfinite(scores)
    curve = curve_of(
        table_of(ScoredCases.of(*(column[scored_outside] for column in case_columns))),
        "own",
        float(columns["weight"][outside].sum()),
        days,
    )
    newcomers = outside & (columns["clean"] + columns["not_clean"] == 0)
    return curve and replace(
        curve,
        newcomers=group_of(scores[newcomers], columns["bad"][newcomers], columns["weight"][newcomers]),
        everybody=group_of(scores, columns["bad"], columns["weight"]),
    )


def given_rate(clean: Floats, not_clean: Floats, prior: float, strength: float) -> Floats:
    """Return the shrunk rate of each record as the gate computes it; NaN without a settled pull request."""
    cases = clean + not_clean
    return np.where(cases > 0, prior + (clean - prior * cases) / (strength + cases), np.nan)


def curve_of(table: Table, source: Source, cases: float, days: float) -> LaneCurve | None:
    """Return the curve of a table at whole hundredths; None without any case.

    `cases` counts settled pull requests with and without a score. Intervals are those of half as many independent cases
    (docs/method.md). A lane without a bad case does not show how similar one author's pull requests are, so each author
    counts once there.
    """
    if not len(table) or cases <= 0:
        return None
    grid = np.arange(STEP, -1, -1) / STEP
    last_rows = np.searchsorted(-table.thresholds, -(grid - 1e-9), side="right") - 1
    rows, first = np.unique(last_rows[last_rows >= 0], return_index=True)
    thresholds = grid[last_rows >= 0][first]
    sizes, bad, authors = table.sizes[rows], table.bad[rows], table.authors[rows]
    effective = np.where(bad > 0, table.effective[rows], np.minimum(table.effective[rows], authors)) / VARIANCE
    low, high = interval_of(bad / sizes * effective, effective)
    columns = (thresholds, sizes, bad, authors.astype(int), low, high)
    points = zip(*(column.tolist() for column in columns), strict=True)
    return LaneCurve(source, cases, days, tuple(LanePoint(*point) for point in points))


def group_of(scores: Floats, bad: Floats, weights: Floats) -> Group:
    """Return the lane of one group at each hundredth; cases without a score (NaN) do not go through."""
    threshold_counts = np.searchsorted(
        np.round(GRID, 9), np.round(scores, 9), side="right"
    )  # thresholds that the score reaches
    threshold_counts = np.where(np.isfinite(scores), threshold_counts, 0)
    let_through, bad_let_through = (
        np.bincount(threshold_counts, weights=counted, minlength=STEP + 2)[::-1].cumsum()[::-1][1:]
        for counted in (weights, weights * bad)
    )
    return Group(float(weights.sum()), tuple(let_through.round(6).tolist()), tuple(bad_let_through.round(6).tolist()))


def interval_of(bad: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the two-sided 95 % Clopper-Pearson interval of shares; counts need not be whole."""
    return 1 - upper_bound(sizes - bad, sizes, TAIL), upper_bound(bad, sizes, TAIL)


def starter_curve() -> LaneCurve | None:
    """Return the curve of the starter's projects; None, with a log line, if its file is missing or damaged."""
    return _read_starter_curve(FILE)


@cache
def _read_starter_curve(path: Path) -> LaneCurve | None:
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=StoredCurve)
    except (OSError, msgspec.DecodeError) as problem:
        logger.warning("The starter's curve cannot be read: %s.", problem)
        return None
    points = tuple(LanePoint(**msgspec.structs.asdict(record)) for record in stored.points)
    newcomers, everybody = (Group(**msgspec.structs.asdict(record)) for record in (stored.newcomers, stored.everybody))
    return LaneCurve("starter", stored.cases, stored.days, points, newcomers, everybody)


def offer_of(curve: LaneCurve, budget: float) -> Offer | None:
    """Return the loosest lane whose share of bad ones was within `budget`; None without one."""
    within = [
        point
        for point in curve.points
        if point.bad <= budget * point.let_through and 0 < point.bad_high <= WORST_BAD_HIGH
    ]
    if not within:
        return None
    best = max(within, key=lambda point: point.let_through)
    counted = {name: value for name, value in asdict(best).items() if name != "authors"}
    return Offer(source=curve.source, cases=curve.cases, model=curve.model, **counted)


def choose_curve(own: LaneCurve | None, starter: LaneCurve | None) -> LaneCurve | None:
    """Return the curve for an offer: the site's own if enough is settled, else the starter's."""
    return own if own is not None and own.cases >= FEWEST_SETTLED else starter


def present_offer(rows: Rows, policy: Policy, budget: float, now: datetime) -> Offer | None:
    """Return the lane that may be opened now on an estimate under this budget; None without one."""
    own = read_curve(rows, policy.models, policy.prior, policy.strength, now)
    curve = choose_curve(own, borrowed_curve(policy.models))
    return offer_of(curve, budget) if curve else None


def borrowed_curve(models: Path | None) -> LaneCurve | None:
    """Return the starter's curve; None if a model serves, since its scores differ."""
    return None if is_served(models) else starter_curve()


def is_served(models: Path | None) -> bool:
    """Return whether a model in this folder is selected to serve, even if it cannot be read."""
    return bool(served_model(models))


def served_model(models: Path | None) -> str:
    """Return the name of the model selected to serve, "" without one, UNREADABLE if its pointer is damaged."""
    try:
        return (models is not None and serving_name(models, LABEL)) or ""
    except ModelProblem:
        return UNREADABLE


def _curve_of_model(models: Path, days: float) -> LaneCurve | None:
    """Return the curve of the serving model's table of thresholds; None if it is empty or unreadable."""
    try:
        name = serving_name(models, LABEL) or ""
        stored = read_table(models, name)
    except (ModelProblem, QuestionProblem) as problem:
        logger.warning("No curve of the fast lane: %s", problem)
        return None
    table = Table(*(np.array(getattr(stored, name), dtype=np.float64) for name in Table.__dataclass_fields__))
    curve = curve_of(table, "own", stored.sizes[-1], days) if len(table) else None
    groups = [group and Group(**msgspec.structs.asdict(group)) for group in (stored.newcomers, stored.everybody)]
    return curve and replace(curve, newcomers=groups[0], everybody=groups[1], model=name)


def _observed_days(rows: Rows, now: datetime) -> float:
    """Return the days since the first pull request was seen: at least one, at most a year."""
    begun = rows.value(FIRST_SEEN)
    return min(max((now - begun).total_seconds() / 86_400, 1.0), float(DEFAULT.window_days)) if begun else 1.0
