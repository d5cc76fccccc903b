"""The thresholds of each repository in one pass: certificates from their folder, outcomes from the store."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ingest.store.transaction import Rows
from scoring.certificates.certificate import Certificate, read_certificates
from scoring.certificates.in_force import LaneFacts, LaneOutcome, RepositoryOutcomes, thresholds_from
from scoring.certificates.lane_curve import present_offer
from scoring.certificates.lane_offer import Offer
from scoring.config.policy import Policy
from scoring.config.repository import RepositorySettings, thresholds_under
from scoring.pipeline.estimated_lanes import openings
from scoring.thresholds import Thresholds

CERTIFICATES = "certificates"  # their folder, below that of the models
# Outcomes of what the fast lane let through, or would have but for the audit. Push-holders' own pull requests do not
# count, nor does what an estimated lane let through (`scoring.pipeline.estimated_lanes.OUTCOMES`).
LANE = """
select l.pull_uri, l.repository_id, l.known_from, not l.clean as bad
from labels l semi join (
  from scores where pull_uri is not null and (lane = 'fast_lane' or contains(reasons, '{"code":"audit_drawn"'))
    and not contains(reasons, '{"code":"threshold_estimated"')
) s using (pull_uri)
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.known_from <= $now
"""
SETTLED = """
select l.repository_id, count(*) as settled from labels l
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.known_from <= $now and l.known_from > $now - interval 1 year group by all
"""
# All that came out clean of people who had a record when it was offered: whether a low P(clean) sent it to a person.
# What the fast lane let through counts where the audit asked, and then as what was answered, for 1 / odds of them.
CLEAN = """
with answers as (
  select pull_uri, arg_min(odds, a.known_from) as odds, arg_min(would_merge, a.known_from) as clean,
    min(a.known_from) as known_from
  from audits a where a.known_from <= $now group by pull_uri
), judged as (
  select pull_uri, pull_uri in (select pull_uri from waved_through) as waved,
    bool_or(lane = 'needs_human' and contains(reasons, '{"code":"low_probability"')) as sent
  from scores where pull_uri is not null group by pull_uri
), known as (
  select p.repository_id, p.author_id, p.seen_at, coalesce(s.sent, false) as bad, coalesce(1 / a.odds, 1.0) as weight,
    if(a.pull_uri is null, l.known_from, a.known_from) as known_from
  from pull_requests p
  left join answers a using (pull_uri)
  left join (from labels where known_from <= $now) l using (pull_uri)
  left join judged s using (pull_uri)
  where if(a.pull_uri is null, l.clean and not coalesce(s.waved, false), a.clean)
), records as (
  select author_id, min(known_from) as recorded_from from labels where known_from <= $now group by author_id
)
select k.repository_id, k.known_from, k.bad, k.weight
from known k join records r using (author_id)
anti join own_people o on o.repository_id = k.repository_id and o.contributor_id = k.author_id
where k.known_from >= $since and r.recorded_from < k.seen_at
"""
# A fingerprint of the data behind an offer: other data hardly ever has the same.
LEARNED = """
select (select count(*) from imported_pulls) as imported,
  (select count(*) from audits where known_from <= $now) as audited,
  (select count(*) from labels where known_from <= $now) as settled,
  (select bit_xor(hash(pull_uri, clean, known_from)) from labels where known_from <= $now) as labels
"""
logger = logging.getLogger(__name__)
AUDITED = "select known_from, not would_merge as bad from audits where known_from <= $now and estimated is null"


class Certificates:
    """The certificates of one folder, read again when a file came or went; one that does not count is told once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: frozenset[Path] | None = None
        self._held: tuple[Certificate, ...] = ()

    def all(self) -> tuple[Certificate, ...]:
        """Every certificate whose name is that of its bytes."""
        names = frozenset(self._folder.iterdir()) if self._folder.is_dir() else frozenset()
        if names != self._names:
            found, problems = read_certificates(self._folder)
            for problem in problems:
                logger.warning("%s", problem)
            self._names, self._held = names, tuple(found.values())
        return self._held


class Offers:
    """The lanes that could be opened on an estimate as of the last midnight, by budget.

    They are held while the day, the rules and the data known by that midnight stay the same, since a changed offer has
    everybody judged anew.
    """

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._held: dict[float, Offer | None] = {}

    def of(
        self, rows: Rows, policy: Policy, model: str, budgets: Iterable[float], now: datetime
    ) -> dict[float, Offer | None]:
        """Return the offer for each of these budgets under the serving model; None where nothing can be offered."""
        wanted = set(budgets)
        if not wanted:
            return {}
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        basis = (rows.row(LEARNED, {"now": midnight}), replace(policy, audit_key=b""), model, midnight)
        if basis != self._basis:
            self._basis, self._held = basis, {}
        for budget in wanted - self._held.keys():
            offer = present_offer(rows, policy, budget, midnight)
            is_lent = offer is not None and offer.source == "starter" and policy.starter is None
            self._held[budget] = None if is_lent else offer
        return {budget: self._held[budget] for budget in wanted}


OFFERS = Offers()


def thresholds_of(
    rows: Rows,
    certificates: Iterable[Certificate],
    model: str,
    policy: Policy,
    own: Mapping[int, RepositorySettings],
    now: datetime,
) -> dict[int, Thresholds]:
    """The thresholds of each watched repository as of now by its number, and under 0 those of the site.

    `model` is the name of the model that serves, empty where the shrunk rate does, of which there is no certificate.
    """
    certificates = tuple(certificates)
    low = [one.made_at for one in certificates if one.side == "low" and one.model == model and one.is_valid(now)]
    found = known(rows, model, own, policy.lane_traffic, now, min(low, default=None))
    found = replace(found, repositories=_with_offers(rows, found, policy, own, now))
    held = thresholds_from(certificates, policy.thresholds, found, now)
    under = {number: its.budget for number, its in own.items()}
    return {number: thresholds_under(one, under.get(number)) for number, one in held.items()}


def _with_offers(
    rows: Rows, known: LaneFacts, policy: Policy, own: Mapping[int, RepositorySettings], now: datetime
) -> dict[int, RepositoryOutcomes]:
    """Add the lane that may be opened on an estimate in each repository in shadow mode, unless T_HIGH was set."""
    told = dict(known.repositories)
    if policy.thresholds.t_high is not None:
        return told
    shadowed = [number for number, its in own.items() if its.shadow and told[number].opening is None]
    budgets = {number: told[number].budget or policy.thresholds.budget for number in shadowed}
    offers = OFFERS.of(rows, policy, known.model, budgets.values(), now)
    return told | {number: replace(told[number], offer=offers[budget]) for number, budget in budgets.items()}


def basis_of(thresholds: Mapping[int, Thresholds]) -> dict[str, list[object]]:
    """Return what of them decides lanes: a change of it has everybody judged anew, and a count that only is told
    has not.
    """
    return {
        str(number): [
            *(one.t_low, one.low_certified, one.low_budget, one.t_high, one.certified, one.budget),
            *(one.shut and one.shut.code, one.estimated, one.since),
        ]
        for number, one in thresholds.items()
    }


def known(
    rows: Rows,
    model: str,
    own: Mapping[int, RepositorySettings],
    traffic: int,
    now: datetime,
    low_since: datetime | None = None,
) -> LaneFacts:
    """Return what the store has to say of the lane in these repositories, and since `low_since` of a certified
    T_LOW.
    """
    lanes = _by_repository(rows, LANE, {"now": now})
    clean = _by_repository(rows, CLEAN, {"now": now, "since": low_since}) if low_since else {}
    settled = {row["repository_id"]: row["settled"] for row in rows.rows(SETTLED, {"now": now})}
    audited = tuple(LaneOutcome(row["known_from"], row["bad"]) for row in rows.rows(AUDITED, {"now": now}))
    opened = openings(rows, now)
    repositories = {
        number: RepositoryOutcomes(
            budget=its.budget,
            settled=settled.get(number, 0),
            lane=lanes.get(number, ()),
            clean=clean.get(number, ()),
            alarm_budget=its.alarm_budget,
            opening=opened.get(number),
        )
        for number, its in own.items()
    }
    everywhere = RepositoryOutcomes(None, traffic)  # the site has no lane of its own that could be too quiet
    return LaneFacts(model, traffic, {**repositories, 0: everywhere}, audited)


def _by_repository(rows: Rows, statement: str, given: Mapping[str, datetime]) -> dict[int, tuple[LaneOutcome, ...]]:
    found: dict[int, list[LaneOutcome]] = {}
    for row in rows.rows(statement, given):
        found.setdefault(row["repository_id"], []).append(
            LaneOutcome(row["known_from"], row["bad"], row.get("weight", 1.0))
        )
    return {number: tuple(outcomes) for number, outcomes in found.items()}
