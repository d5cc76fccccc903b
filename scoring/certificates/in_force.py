"""The thresholds in force in each repository: the certificates', where nothing speaks against them. Pure.

A certificate is pooled over all repositories. What happens in one of them, or in the audit of all, can only shut a
lane. Where none holds, the lane that a maintainer opened on an estimate stands until its outcomes break its budget.
Where neither holds, a threshold that an operator set by hand stands and is named as such; outcomes shut it too. In
shadow mode, without any of these, the threshold is that of the lane that could be opened on an estimate.
A certified T_LOW that sends more clean work to people than its budget is 0 from then on: a low P(clean) sends nobody.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from scoring.certificates.certificate import Certificate
from scoring.certificates.drift import AlarmRule, watch
from scoring.certificates.lane_offer import Offer
from scoring.thresholds import Thresholds
from scoring.types import Param, Reason


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """The outcome of a pull request that the lane let through, or would have, and the time when it became known.

    `weight` is for how many it stands: 1 / odds of one that the audit drew among others, else 1.
    """

    known_from: datetime
    bad: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Opening:
    """A lane that a maintainer opened on these figures, and its results since.

    `audited` holds the answers of its own audit, `outcomes` those of the pull requests that it let through.
    """

    offer: Offer
    since: datetime
    audited: tuple[LaneOutcome, ...] = ()
    outcomes: tuple[LaneOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class RepositoryOutcomes:
    """The outcomes in one repository that bear on the lane; push-holders' own pull requests are left out.

    `budget` and `alarm_budget` are its own, None for the operator's. `settled` counts its settled pull requests of the
    last year, in the lane or not. `lane` are the settled ones that scored high enough for the lane. `clean` are all
    clean ones by people with a record, of which those count as bad that a low P(clean) sent to a person; of what the
    fast lane let through only what the audit asked about. `opening` is the estimated lane that stands there, `offer`
    the one that could be opened in shadow mode. `lane` leaves out what an estimated lane let through.
    """

    budget: float | None = None
    settled: int = 0
    lane: tuple[LaneOutcome, ...] = ()
    clean: tuple[LaneOutcome, ...] = ()
    alarm_budget: float | None = None
    opening: Opening | None = None
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The facts of one pass: the serving model, the answers of audits, and each repository's outcomes by its number.

    `audited` leaves out the answers about lanes that a maintainer opened on an estimate.

    With fewer than `traffic` settled pull requests a year a repository has no certified lane: one that went wrong would
    be found out after years.
    """

    model: str
    traffic: int
    repositories: Mapping[int, RepositoryOutcomes] = field(default_factory=dict)
    audited: tuple[LaneOutcome, ...] = ()


def thresholds_from(
    certificates: Iterable[Certificate], policy: Thresholds, known: Known, now: datetime
) -> dict[int, Thresholds]:
    """The thresholds of each repository at this moment, by its number; `shut` says why one that had a lane has none.

    Of the attempts with the serving model's scores and a budget within the repository's, the one with the largest
    budget counts, then the newest: a certificate speaks for its own budget and every larger one.
    """
    attempts = [one for one in certificates if one.model == known.model and one.made_at <= now]
    high, low = ([one for one in attempts if one.side == side] for side in ("high", "low"))
    valid = [one for one in low if one.is_valid(now)]
    everywhere = [one for its in known.repositories.values() for one in its.clean]
    over = {one.made_at for one in valid if _bothers(everywhere, one, policy)}
    return {
        number: _of_repository(high, _with_low(valid, over, policy, its), known, its, now)
        for number, its in known.repositories.items()
    }


def _bothers(clean: Iterable[LaneOutcome], standing: Certificate, policy: Thresholds) -> bool:
    """Return whether more clean work was sent to people since than a certified T_LOW promises."""
    return _raised(clean, AlarmRule(standing.budget, policy.delta), standing.made_at) is not None


def _with_low(
    valid: list[Certificate], over: Collection[datetime], policy: Thresholds, its: RepositoryOutcomes
) -> Thresholds:
    """The operator's thresholds with the certified T_LOW in its place; a T_HIGH set by hand is never below it.

    `over` are the moments of those that send too much clean work to people, all repositories together.
    """
    budget = policy.low_budget if its.alarm_budget is None else its.alarm_budget
    policy = replace(policy, low_budget=budget)
    standing = max((one for one in valid if one.budget <= budget), key=_preference, default=None)
    if standing is None:
        return policy
    if standing.made_at in over or _bothers(its.clean, standing, policy):
        return replace(policy, t_low=0.0)
    t_low = standing.found.threshold or 0.0
    t_high = None if policy.t_high is None else max(policy.t_high, t_low)
    return replace(policy, t_low=t_low, t_high=t_high, low_certified=True, low_budget=standing.budget)


def _of_repository(
    attempts: list[Certificate], policy: Thresholds, known: Known, its: RepositoryOutcomes, now: datetime
) -> Thresholds:
    budget = policy.budget if its.budget is None else its.budget
    base = replace(policy, budget=budget, certified=False)
    fitting = [one for one in attempts if one.budget <= budget and one.found.threshold is not None]
    standing = max((one for one in fitting if one.is_valid(now)), key=_preference, default=None)
    withheld = _withheld(standing, [one for one in attempts if one.budget == budget], known, its, now)
    is_certified = standing is not None and not withheld
    if its.opening is not None and not is_certified:
        return _opened(base, its.opening)
    since = standing.made_at if standing else datetime.min
    if against := _against(known, its, budget, policy.delta, since):
        return replace(base, t_high=None, shut=against.reason, since=against.at)
    if standing is not None and is_certified:
        t_high = max(standing.found.threshold or 0.0, base.t_low)
        return replace(base, t_high=t_high, certified=True, since=standing.made_at)
    if base.t_high is not None:
        return base
    return _estimated(base, its.offer) if its.offer else replace(base, shut=withheld)


def _opened(base: Thresholds, opening: Opening) -> Thresholds:
    """Return the thresholds of a lane opened on an estimate; it is shut once the bet against its budget is won."""
    base = replace(base, budget=opening.offer.bad_high, since=opening.since)
    rule = AlarmRule(base.budget, base.delta)
    for by, outcomes in (("audit", opening.audited), ("outcomes", opening.outcomes)):
        if raised := _raised(outcomes, rule, datetime.min):
            reason = Reason("estimated_lane_closed", {"by": by, **raised.counts})
            return replace(base, t_high=None, shut=reason, since=raised.at)
    return _estimated(base, opening.offer)


def _estimated(base: Thresholds, offer: Offer) -> Thresholds:
    return replace(base, t_high=max(offer.threshold, base.t_low), estimated=(offer.bad_low, offer.bad_high))


def _preference(one: Certificate) -> tuple[float, datetime]:
    return one.budget, one.made_at


def _withheld(
    standing: Certificate | None,
    attempts: list[Certificate],
    known: Known,
    its: RepositoryOutcomes,
    now: datetime,
) -> Reason | None:
    """Return why a certificate opens nothing here, or what the newest attempt at this budget lacked."""
    if standing is None:
        last = max(attempts, key=lambda one: one.made_at, default=None)
        return _of_attempt(last, now) if last else None
    if its.settled < known.traffic:
        return Reason("too_little_traffic", {"needed": known.traffic, "have": its.settled})
    return None


def _of_attempt(last: Certificate, now: datetime) -> Reason:
    need = last.found.need
    if last.found.threshold is not None:
        return Reason("certificate_expired", {"days": (now - last.expires_at).days})
    if need is None:
        return Reason("lane_unsteady", {"budget": last.budget})
    told = {"threshold": need.threshold, "weeks": need.weeks, "authors": int(need.authors)}
    return Reason("certificate_refused", {"needed": need.needed, "have": need.have, **told})


class _Against(NamedTuple):
    """The reason why a lane is shut, and the moment of the outcome that shut it."""

    reason: Reason
    at: datetime


class _Raised(NamedTuple):
    """The counts at which an alarm was raised, and when."""

    counts: dict[str, Param]
    at: datetime


def _against(known: Known, its: RepositoryOutcomes, budget: float, delta: float, since: datetime) -> _Against | None:
    """Return what outcomes that became known since then say against the lane, or None."""
    rule = AlarmRule(budget, delta)
    if raised := _raised(known.audited, rule, since):
        return _Against(Reason("lane_alarm", raised.counts), raised.at)
    if raised := _raised(its.lane, rule, since):
        return _Against(Reason("closed_by_outcomes", raised.counts), raised.at)
    return None


def _raised(outcomes: Iterable[LaneOutcome], rule: AlarmRule, since: datetime) -> _Raised | None:
    """Return the alarm that these outcomes raised; None where they did not raise one."""
    counted = sorted((one.known_from, one.bad, one.weight) for one in outcomes if one.known_from >= since)
    raised_at = watch((bad for _, bad, _ in counted), rule, [weight for *_, weight in counted]).raised_at
    if raised_at is None:
        return None
    bad = sum(bad for _, bad, _ in counted[:raised_at])
    return _Raised({"bad": bad, "count": raised_at, "budget": rule.budget}, counted[raised_at - 1][0])
