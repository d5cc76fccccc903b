"""Finds the thresholds in force in each repository, and raises the alarm on bad outcomes of the fast lane. Pure.

A certificate counts for all repositories together. The outcomes of one repository, and the audits of all, can only shut
a lane. Without a valid certificate, a lane that a maintainer opened on an estimate is in force until its outcomes break
its budget. Without either, a threshold that an operator set by hand is in force and is named as such; outcomes shut it
too. Without any of these, shadow mode uses the threshold of the lane that could be opened on an estimate.
A certified T_LOW that sends more clean work to people than its budget becomes 0: a low P(clean) then sends nobody.

The alarm is valid at every moment. A pull request of the fast lane that nobody checked does not count as clean because
nobody complained: it does not count at all. An audited one stands for 1 / odds of them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import repeat
from math import ceil, log, log1p
from typing import NamedTuple

import numpy as np

from scoring.certificates.certificate import Certificate
from scoring.certificates.lane_counts import Offer
from scoring.thresholds import Thresholds
from scoring.types import Param, Reason

AUDITS_LIMIT = 5_000  # simulated audits of a lane; a lane twice as bad as its budget of 1 % takes 604
MONTH_DAYS = 365.25 / 12
ANSWERS = 12_175  # audits a year, if 100 pull requests a day go through and 1 in 3 is audited


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """The rule by which outcomes shut the lane: a bet against the budget grows 1 / `delta` times.

    The bet is tuned to a rate of `times` the budget. The part `start` is placed at once and the rest in equal parts
    over `answers` outcomes, and as much over each `answers` after them, so that an old lane that turns bad is detected
    nearly as soon as a new one. A lane exactly at its budget is shut wrongly within n outcomes with a chance of at most
    `delta` times the part placed by then (docs/method.md). Raises ValueError for impossible values.
    """

    budget: float
    delta: float
    times: float = 2.0
    start: float = 0.8
    answers: int = ANSWERS

    def __post_init__(self) -> None:
        if not (0 < self.budget < 1 and 0 < self.delta < 1):
            raise ValueError("budget and delta must lie between 0 and 1")
        if not (self.times > 1 and 0 < self.start <= 1 and self.answers > 0):
            raise ValueError("times must be above 1, start in (0, 1] and answers above 0")

    @property
    def stake(self) -> float:
        """Return the share of the bet at stake per case, limited so that a clean one cannot end the bet."""
        worse = min(self.times * self.budget, (1 + self.budget) / 2)
        return (worse - self.budget) / (self.budget * (1 - self.budget))

    @property
    def part(self) -> float:
        """Return the part of the bet placed before each outcome."""
        return (1 - self.start) / self.answers


@dataclass(frozen=True, slots=True)
class Alarm:
    """The `value` of the bet, and the number (from 1) of the outcome that raised the alarm, or None.

    An alarm stays raised until a person or the next certificate opens the lane again.
    """

    value: float
    raised_at: int | None = None


def watch(bad: Iterable[bool], rule: AlarmRule, weights: Iterable[float] | None = None) -> Alarm:
    """Return the alarm after these outcomes, in the order in which they became known.

    Audits alone need no weights: each is a random draw, so its chance of being bad is that of the lane, at any odds.
    If audits are mixed with outcomes that everybody sees, `weights` are 1 / odds for an audit, else 1: a bet of so many
    times the stake stays fair. The bet never falls below 0.
    """
    value, raised_at, limit = rule.start, None, 1 / rule.delta
    for number, (outcome, weight) in enumerate(zip(bad, weights or repeat(1.0), strict=False), 1):
        value = (value + rule.part) * max(1 + weight * rule.stake * (float(outcome) - rule.budget), 0.0)
        if raised_at is None and value >= limit:
            raised_at = number
    return Alarm(value, raised_at)


def bad_to_shut(rule: AlarmRule, settled: int, bad: int) -> int:
    """Return how many bad outcomes in a row would raise the alarm next, after `bad` among `settled`; at least 1.

    The part placed later is left out: it can only bring the alarm forward.
    """
    gain = log1p(rule.stake * (1 - rule.budget))
    value = log(rule.start) + bad * gain + (settled - bad) * log1p(-rule.stake * rule.budget)
    return max(ceil((-log(rule.delta) - value) / gain - 1e-9), 1)


def audits_to_shut(rule: AlarmRule, rate: float, chance: float = 0.5) -> int | None:
    """Return the audits after which a lane with this rate is shut with this chance; None beyond AUDITS_LIMIT.

    `rate` is its share of bad cases. The result is exact for the part placed at the start; the rest can only bring the
    alarm forward. The alarm depends only on the number of bad ones among n audits, so the loop carries the chance of
    each such number from audit to audit.
    """
    log_loss, log_gain = log1p(-rule.stake * rule.budget), log1p(rule.stake * (1 - rule.budget))
    open_by_bad, shut = np.array([1.0]), 0.0
    for number in range(1, AUDITS_LIMIT + 1):
        by_bad = np.zeros(len(open_by_bad) + 1)
        by_bad[:-1] += open_by_bad * (1 - rate)
        by_bad[1:] += open_by_bad * rate
        # The fewest bad ones that raise the alarm; slightly less, since the bet is a product of floats.
        fewest_bad = max(ceil((-log(rule.delta * rule.start) - number * log_loss) / (log_gain - log_loss) - 1e-9), 0)
        shut += float(by_bad[fewest_bad:].sum())
        open_by_bad = by_bad[:fewest_bad]
        if shut >= chance:
            return number
    return None


def days_to_shut(
    budget: float, per_month: float, audit_share: float, delta: float = 0.05, times: float = 2.0
) -> float | None:
    """Return the days until half of all lanes `times` as bad as their budget are shut; None beyond AUDITS_LIMIT.

    `per_month` pull requests a month reach the lane, the share `audit_share` of them is audited, and answers come at
    once. Raises ValueError unless both are above 0.
    """
    if per_month <= 0 or audit_share <= 0:
        raise ValueError("without traffic or an audit nobody finds out how bad a lane is")
    audits = audits_to_shut(AlarmRule(budget, delta), min(times * budget, 1.0))
    return None if audits is None else audits * MONTH_DAYS / (per_month * audit_share)


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """The outcome of a pull request that the lane let through, or would have, and the moment when it became known.

    `weight` says how many pull requests it stands for: 1 / odds of the draw for an audited one, else 1.
    """

    known_from: datetime
    bad: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Opening:
    """A lane that a maintainer opened on the figures of an offer, with its results since.

    `audited` holds the answers of its own audit, `outcomes` the outcomes of pull requests that it let through.
    """

    offer: Offer
    since: datetime
    audited: tuple[LaneOutcome, ...] = ()
    outcomes: tuple[LaneOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class RepositoryOutcomes:
    """The outcomes in one repository that matter for the lane, without push-holders' own pull requests.

    `budget` and `alarm_budget` are its own, None for the operator's. `settled` counts all settled pull requests of the
    last year. `lane` holds the settled ones that scored high enough for the lane, without those that an estimated lane
    let through. `clean` holds all clean ones by people with a record, of the fast lane only the audited ones; those
    that a low P(clean) sent to a person count as bad. `opening` is the estimated lane in force, `offer` the one that
    could be opened in shadow mode.
    """

    budget: float | None = None
    settled: int = 0
    lane: tuple[LaneOutcome, ...] = ()
    clean: tuple[LaneOutcome, ...] = ()
    alarm_budget: float | None = None
    opening: Opening | None = None
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The facts of one pass: the serving model, audited outcomes, and each repository's outcomes by its number.

    `audited` excludes answers about lanes opened on an estimate. A repository with fewer than `traffic` settled pull
    requests a year has no certified lane: a fault in it would be detected only after years.
    """

    model: str
    traffic: int
    repositories: Mapping[int, RepositoryOutcomes] = field(default_factory=dict)
    audited: tuple[LaneOutcome, ...] = ()


def thresholds_from(
    certificates: Iterable[Certificate], policy: Thresholds, facts: LaneFacts, now: datetime
) -> dict[int, Thresholds]:
    """Return the thresholds of each repository by its number; `shut` says why a lane is shut.

    Among valid certificates of the serving model within the repository's budget the largest budget counts, then the
    newest: a certificate holds for its own budget and every larger one.
    """
    attempts = [
        certificate for certificate in certificates if certificate.model == facts.model and certificate.made_at <= now
    ]
    high, low = ([certificate for certificate in attempts if certificate.side == side] for side in ("high", "low"))
    valid = [certificate for certificate in low if certificate.is_valid(now)]
    all_clean = [outcome for outcomes in facts.repositories.values() for outcome in outcomes.clean]
    over_budget = {certificate.made_at for certificate in valid if _exceeds_low_budget(all_clean, certificate, policy)}
    return {
        number: _thresholds_of_repository(
            high, _with_certified_low(valid, over_budget, policy, outcomes), facts, outcomes, now
        )
        for number, outcomes in facts.repositories.items()
    }


def _exceeds_low_budget(clean: Iterable[LaneOutcome], certificate: Certificate, policy: Thresholds) -> bool:
    return _find_alarm(clean, AlarmRule(certificate.budget, policy.delta), certificate.made_at) is not None


def _with_certified_low(
    valid: list[Certificate], over_budget: Collection[datetime], policy: Thresholds, outcomes: RepositoryOutcomes
) -> Thresholds:
    """Return the operator's thresholds with a certified T_LOW; a T_HIGH set by hand is raised to at least that.

    `over_budget` names certificates, by their moments, that exceed their budget over all repositories together.
    """
    budget = policy.low_budget if outcomes.alarm_budget is None else outcomes.alarm_budget
    policy = replace(policy, low_budget=budget)
    certificate = max((candidate for candidate in valid if candidate.budget <= budget), key=_preference, default=None)
    if certificate is None:
        return policy
    if certificate.made_at in over_budget or _exceeds_low_budget(outcomes.clean, certificate, policy):
        return replace(policy, t_low=0.0)
    t_low = certificate.found.threshold or 0.0
    t_high = None if policy.t_high is None else max(policy.t_high, t_low)
    return replace(policy, t_low=t_low, t_high=t_high, low_certified=True, low_budget=certificate.budget)


def _thresholds_of_repository(
    attempts: list[Certificate], policy: Thresholds, facts: LaneFacts, outcomes: RepositoryOutcomes, now: datetime
) -> Thresholds:
    budget = policy.budget if outcomes.budget is None else outcomes.budget
    uncertified = replace(policy, budget=budget, certified=False)
    fitting = [
        candidate for candidate in attempts if candidate.budget <= budget and candidate.found.threshold is not None
    ]
    certificate = max((candidate for candidate in fitting if candidate.is_valid(now)), key=_preference, default=None)
    withheld = _reason_to_withhold(
        certificate, [candidate for candidate in attempts if candidate.budget == budget], facts, outcomes, now
    )
    is_certified = certificate is not None and not withheld
    if outcomes.opening is not None and not is_certified:
        return _thresholds_of_opening(uncertified, outcomes.opening)
    since = certificate.made_at if certificate else datetime.min
    rule = AlarmRule(budget, policy.delta)
    if alarm := _find_alarm(facts.audited, rule, since):
        return replace(uncertified, t_high=None, shut=Reason("lane_alarm", alarm.counts), since=alarm.at)
    if alarm := _find_alarm(outcomes.lane, rule, since):
        return replace(uncertified, t_high=None, shut=Reason("closed_by_outcomes", alarm.counts), since=alarm.at)
    if certificate is not None and is_certified:
        t_high = max(certificate.found.threshold or 0.0, uncertified.t_low)
        return replace(uncertified, t_high=t_high, certified=True, since=certificate.made_at)
    if uncertified.t_high is not None:
        return uncertified
    return _with_estimate(uncertified, outcomes.offer) if outcomes.offer else replace(uncertified, shut=withheld)


def _thresholds_of_opening(policy: Thresholds, opening: Opening) -> Thresholds:
    """Return the thresholds of a lane opened on an estimate; a won bet against its budget shuts it."""
    policy = replace(policy, budget=opening.offer.bad_high, since=opening.since)
    rule = AlarmRule(policy.budget, policy.delta)
    for source, outcomes in (("audit", opening.audited), ("outcomes", opening.outcomes)):
        if alarm := _find_alarm(outcomes, rule, datetime.min):
            reason = Reason("estimated_lane_closed", {"by": source, **alarm.counts})
            return replace(policy, t_high=None, shut=reason, since=alarm.at)
    return _with_estimate(policy, opening.offer)


def _with_estimate(policy: Thresholds, offer: Offer) -> Thresholds:
    return replace(policy, t_high=max(offer.threshold, policy.t_low), estimated=(offer.bad_low, offer.bad_high))


def _preference(certificate: Certificate) -> tuple[float, datetime]:
    return certificate.budget, certificate.made_at


def _reason_to_withhold(
    certificate: Certificate | None,
    attempts: list[Certificate],
    facts: LaneFacts,
    outcomes: RepositoryOutcomes,
    now: datetime,
) -> Reason | None:
    """Return why no certificate opens a lane here: too little traffic, or what the newest attempt lacked."""
    if certificate is None:
        last = max(attempts, key=lambda attempt: attempt.made_at, default=None)
        return _reason_of_attempt(last, now) if last else None
    if outcomes.settled < facts.traffic:
        return Reason("too_little_traffic", {"needed": facts.traffic, "have": outcomes.settled})
    return None


def _reason_of_attempt(attempt: Certificate, now: datetime) -> Reason:
    need = attempt.found.need
    if attempt.found.threshold is not None:
        return Reason("certificate_expired", {"days": (now - attempt.expires_at).days})
    if need is None:
        return Reason("lane_unsteady", {"budget": attempt.budget})
    details = {"threshold": need.threshold, "weeks": need.weeks, "authors": int(need.authors)}
    return Reason("certificate_refused", {"needed": need.needed, "have": need.have, **details})


class _RaisedAlarm(NamedTuple):
    """The counts and the moment at which an alarm was raised."""

    counts: dict[str, Param]
    at: datetime


def _find_alarm(outcomes: Iterable[LaneOutcome], rule: AlarmRule, since: datetime) -> _RaisedAlarm | None:
    counted = sorted(
        (outcome.known_from, outcome.bad, outcome.weight) for outcome in outcomes if outcome.known_from >= since
    )
    raised_at = watch((bad for _, bad, _ in counted), rule, [weight for *_, weight in counted]).raised_at
    if raised_at is None:
        return None
    bad = sum(bad for _, bad, _ in counted[:raised_at])
    return _RaisedAlarm({"bad": bad, "count": raised_at, "budget": rule.budget}, counted[raised_at - 1][0])
