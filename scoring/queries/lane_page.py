"""Reads what the fast-lane page shows of one repository from a snapshot: its past, the offer and the rows."""

from dataclasses import dataclass
from datetime import datetime

from ingest.store.transaction import Rows
from scoring.certificates.lane_curve import borrowed_curve, choose_curve, offer_of, read_curve, served_model
from scoring.certificates.lane_offer import LaneCurve, Offer
from scoring.certificates.sample_size import Need, earliest_need
from scoring.certificates.threshold import DEFAULT
from scoring.config.policy import Policy
from scoring.config.repository import WatchedRepository, watched_repository
from scoring.pipeline.lane_history import LaneHistory, read_open_history, read_shadow_history
from scoring.pipeline.lane_thresholds import STANDING
from scoring.pipeline.stored import read_thresholds
from scoring.queries.audit import SEALED
from scoring.queries.lanes import Basis, basis_of
from scoring.thresholds import Thresholds, items_needed

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
    """Return what the lane would have let through in shadow mode."""
    return read_shadow_history(rows, past.repository.number, now)


def opened_lane(rows: Rows, past: LanePast, opening: str, now: datetime) -> tuple[LaneHistory, AuditCount]:
    """Return what the lane of this opening let through, and its audit; nothing until the opening is stored."""
    since = rows.value("select known_from from estimated_lanes where opening_key = ?", [opening])
    if since is None:
        return LaneHistory((), None), AuditCount(0, 0, 0, 0)
    given = {"repository": past.repository.number, "since": since}
    return read_open_history(rows, past.repository.number, since, now), AuditCount(**rows.row(DRAWN, given) or {})
