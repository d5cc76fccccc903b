"""Finds the thresholds of each repository in one pass, by certificates, estimated lanes and outcomes.

An estimated lane is one that a maintainer opened on an estimate; it is read with the outcomes of the pull requests that
it let through since.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.store.transaction import Rows
from scoring.certificates.certificate import Certificate, read_certificates
from scoring.certificates.in_force import LaneFacts, LaneOutcome, Opening, RepositoryOutcomes, thresholds_from
from scoring.certificates.lane_counts import Offer
from scoring.certificates.lane_curve import present_offer
from scoring.config.policy import Policy
from scoring.config.repository import RepositorySettings, thresholds_under
from scoring.pipeline.stored import People
from scoring.thresholds import Thresholds
from scoring.types import Person

CERTIFICATES = "certificates"  # their folder, below that of the models
# Outcomes of pull requests that the fast lane let through, or would have but for the audit. Push-holders' own do not
# count, nor do those of an estimated lane (ESTIMATED_OUTCOMES).
LANE_OUTCOMES = """
select l.pull_uri, l.repository_id, l.known_from, not l.clean as bad
from labels l semi join (
  from scores where pull_uri is not null and (lane = 'fast_lane' or contains(reasons, '{"code":"audit_drawn"'))
    and not contains(reasons, '{"code":"threshold_estimated"')
) s using (pull_uri)
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.known_from <= $now
"""
SETTLED_COUNTS = """
select l.repository_id, count(*) as settled from labels l
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.known_from <= $now and l.known_from > $now - interval 1 year group by all
"""
# Clean pull requests by people who had a record when they sent it: bad where a low P(clean) sent them to a person.
# Those that the fast lane let through count where the audit asked about them, with its answer and a weight of 1 / odds.
CLEAN_OUTCOMES = """
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
OFFER_DATA = """
select (select count(*) from imported_pulls) as imported,
  (select count(*) from audits where known_from <= $now) as audited,
  (select count(*) from labels where known_from <= $now) as settled,
  (select bit_xor(hash(pull_uri, clean, known_from)) from labels where known_from <= $now) as labels
"""
logger = logging.getLogger(__name__)
AUDIT_ANSWERS = "select known_from, not would_merge as bad from audits where known_from <= $now and estimated is null"
FIGURES = ("threshold", "source", "cases", "let_through", "bad", "bad_low", "bad_high")
# The newest opening of each repository by the web's clock, whatever the order of messages, unless it was ended.
STANDING = """
select * from (
  from estimated_lanes where known_from <= $now
  qualify row_number() over (partition by repository_id order by opened_at desc, opening_key desc) = 1
) e anti join (from estimated_ends where known_from <= $now) using (opening_key)
"""
STANDING_WITH_KEYS = f"""
select e.*, r.repo_key from ({STANDING}) e join repositories r using (repository_id) order by opened_at, opening_key
"""
# Answers of the audit about changes that an estimated lane let through. Answers from before a lane was opened anew do
# not count against it. Both are compared by the web's clock, since the stream's may stand still between them.
ESTIMATED_ANSWERS = """
select e.repository_id, 'audited' as kind, a.answered_at as at, not a.would_merge as bad
from audits a join standing e on a.repository_id = e.repository_id and a.answered_at >= e.opened_at
where a.estimated and a.known_from <= $now
"""
# Outcomes of pull requests that such a lane let through or its audit drew: each has a row in audit_draws. Push-holders'
# own do not count.
ESTIMATED_OUTCOMES = """
select l.pull_uri, l.repository_id, l.known_from, not l.clean as bad
from labels l semi join (from audit_draws where estimated) d using (pull_uri)
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.known_from <= $now
"""
# Answers of the audit, and outcomes, since the standing lanes were opened.
SINCE_OPENING = f"""
with standing as ({STANDING})
{ESTIMATED_ANSWERS}
union all
select e.repository_id, 'outcomes', o.known_from, o.bad
from ({ESTIMATED_OUTCOMES}) o join standing e on o.repository_id = e.repository_id and o.known_from > e.known_from
"""


class CertificateFolder:
    """The certificates of one folder, read again when a file came or went; unusable files are logged once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: frozenset[Path] | None = None
        self._certificates: tuple[Certificate, ...] = ()

    def read(self) -> tuple[Certificate, ...]:
        """Return every certificate whose name is the hash of its bytes."""
        names = frozenset(self._folder.iterdir()) if self._folder.is_dir() else frozenset()
        if names != self._names:
            certificates, problems = read_certificates(self._folder)
            for problem in problems:
                logger.warning("%s", problem)
            self._names, self._certificates = names, tuple(certificates.values())
        return self._certificates


class Offers:
    """The lanes that could be opened on an estimate as of the last midnight, by budget.

    They are cached while the day, the rules and the data known by that midnight stay the same: a changed offer has
    everybody judged anew.
    """

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._offers: dict[float, Offer | None] = {}

    def read(
        self, rows: Rows, policy: Policy, model: str, budgets: Iterable[float], now: datetime
    ) -> dict[float, Offer | None]:
        """Return the offer for each of these budgets under the serving model; None where nothing can be offered."""
        wanted = set(budgets)
        if not wanted:
            return {}
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        basis = (rows.row(OFFER_DATA, {"now": midnight}), replace(policy, audit_key=b""), model, midnight)
        if basis != self._basis:
            self._basis, self._offers = basis, {}
        for budget in wanted - self._offers.keys():
            offer = present_offer(rows, policy, budget, midnight)
            is_borrowed = offer is not None and offer.source == "starter" and policy.starter is None
            self._offers[budget] = None if is_borrowed else offer
        return {budget: self._offers[budget] for budget in wanted}


OFFERS = Offers()


def find_thresholds(
    rows: Rows,
    certificates: Iterable[Certificate],
    model: str,
    policy: Policy,
    settings: Mapping[int, RepositorySettings],
    now: datetime,
) -> dict[int, Thresholds]:
    """Return the thresholds of each watched repository as of now by its number, and those of the site as 0.

    `model` is the name of the serving model, empty where the shrunk rate serves, which no certificate speaks for.
    """
    certificates = tuple(certificates)
    low = [item.made_at for item in certificates if item.side == "low" and item.model == model and item.is_valid(now)]
    known = read_outcomes(rows, model, settings, policy.lane_traffic, now, min(low, default=None))
    known = replace(known, repositories=_with_offers(rows, known, policy, settings, now))
    thresholds = thresholds_from(certificates, policy.thresholds, known, now)
    budgets = {number: theirs.budget for number, theirs in settings.items()}
    return {number: thresholds_under(in_force, budgets.get(number)) for number, in_force in thresholds.items()}


def _with_offers(
    rows: Rows, known: LaneFacts, policy: Policy, settings: Mapping[int, RepositorySettings], now: datetime
) -> dict[int, RepositoryOutcomes]:
    """Add the lane that may be opened on an estimate to each repository in shadow mode, unless T_HIGH was set."""
    outcomes = dict(known.repositories)
    if policy.thresholds.t_high is not None:
        return outcomes
    closed = [number for number, theirs in settings.items() if theirs.shadow and outcomes[number].opening is None]
    budgets = {number: outcomes[number].budget or policy.thresholds.budget for number in closed}
    offers = OFFERS.read(rows, policy, known.model, budgets.values(), now)
    return outcomes | {number: replace(outcomes[number], offer=offers[budget]) for number, budget in budgets.items()}


def thresholds_basis(thresholds: Mapping[int, Thresholds]) -> dict[str, list[object]]:
    """Return the fields that decide lanes: a change of these, but not of a shown count, has everybody judged anew."""
    return {
        str(number): [
            *(theirs.t_low, theirs.low_certified, theirs.low_budget, theirs.t_high, theirs.certified, theirs.budget),
            *(theirs.shut and theirs.shut.code, theirs.estimated, theirs.since),
        ]
        for number, theirs in thresholds.items()
    }


def read_outcomes(
    rows: Rows,
    model: str,
    settings: Mapping[int, RepositorySettings],
    traffic: int,
    now: datetime,
    low_since: datetime | None = None,
) -> LaneFacts:
    """Read the outcomes that bear on the lane of each repository; those that bear on T_LOW only since `low_since`."""
    lanes = _by_repository(rows, LANE_OUTCOMES, {"now": now})
    clean = _by_repository(rows, CLEAN_OUTCOMES, {"now": now, "since": low_since}) if low_since else {}
    settled = {row["repository_id"]: row["settled"] for row in rows.rows(SETTLED_COUNTS, {"now": now})}
    audited = tuple(LaneOutcome(row["known_from"], row["bad"]) for row in rows.rows(AUDIT_ANSWERS, {"now": now}))
    openings = read_openings(rows, now)
    repositories = {
        number: RepositoryOutcomes(
            budget=theirs.budget,
            settled=settled.get(number, 0),
            lane=lanes.get(number, ()),
            clean=clean.get(number, ()),
            alarm_budget=theirs.alarm_budget,
            opening=openings.get(number),
        )
        for number, theirs in settings.items()
    }
    everywhere = RepositoryOutcomes(None, traffic)  # the site has no lane of its own that could be too quiet
    return LaneFacts(model, traffic, {**repositories, 0: everywhere}, audited)


def _by_repository(
    rows: Rows, statement: str, parameters: Mapping[str, datetime]
) -> dict[int, tuple[LaneOutcome, ...]]:
    outcomes: dict[int, list[LaneOutcome]] = {}
    for row in rows.rows(statement, parameters):
        outcome = LaneOutcome(row["known_from"], row["bad"], row.get("weight", 1.0))
        outcomes.setdefault(row["repository_id"], []).append(outcome)
    return {number: tuple(theirs) for number, theirs in outcomes.items()}


@dataclass(frozen=True, slots=True)
class EstimatedLane:
    """A standing estimated lane: who opened it, on which offer, and the counts since.

    `opener` is None where they were erased; `audited` counts answers of the audit, `settled` outcomes of what the lane
    let through.
    """

    key: str
    repository: str  # repo_key
    offer: Offer
    opener: Person | None
    opened_at: datetime
    audited: int
    audited_bad: int
    settled: int
    settled_bad: int


def read_openings(rows: Rows, now: datetime) -> dict[int, Opening]:
    """Return the standing opening of each repository by its number, with its outcomes since."""
    standing = rows.rows(STANDING, {"now": now})
    outcomes = _outcomes_since_opening(rows, now) if standing else {}
    return {
        row["repository_id"]: Opening(offer_of_row(row), row["opened_at"], **outcomes.get(row["repository_id"], {}))
        for row in standing
    }


def estimated_lanes(rows: Rows, now: datetime) -> tuple[EstimatedLane, ...]:
    """Return every standing opening, the oldest first, even where outcomes have shut the lane since."""
    standing = rows.rows(STANDING_WITH_KEYS, {"now": now})
    if not standing:
        return ()
    outcomes = _outcomes_since_opening(rows, now)
    people = People(rows, (row["actor_id"] for row in standing if row["actor_id"])).persons
    return tuple(_estimated_lane(row, outcomes.get(row["repository_id"], {}), people) for row in standing)


def opening_keys(rows: Rows, now: datetime) -> dict[str, str]:
    return {row["repo_key"]: row["opening_key"] for row in rows.rows(STANDING_WITH_KEYS, {"now": now})}


def offer_of_row(row: Mapping[str, Any]) -> Offer:
    """Return the figures on which an opening was made."""
    return Offer(**{name: row[name] for name in FIGURES}, model=row.get("model") or "")


def _outcomes_since_opening(rows: Rows, now: datetime) -> dict[int, dict[str, tuple[LaneOutcome, ...]]]:
    outcomes: dict[int, dict[str, list[LaneOutcome]]] = {}
    for row in rows.rows(SINCE_OPENING, {"now": now}):
        of_kind = outcomes.setdefault(row["repository_id"], {}).setdefault(row["kind"], [])
        of_kind.append(LaneOutcome(row["at"], row["bad"]))
    return {number: {kind: tuple(some) for kind, some in kinds.items()} for number, kinds in outcomes.items()}


def _estimated_lane(
    row: Mapping[str, Any], outcomes: Mapping[str, tuple[LaneOutcome, ...]], people: Mapping[int, Person]
) -> EstimatedLane:
    audited, settled = outcomes.get("audited", ()), outcomes.get("outcomes", ())
    return EstimatedLane(
        row["opening_key"],
        row["repo_key"],
        offer_of_row(row),
        people.get(row["actor_id"]),
        row["opened_at"],
        len(audited),
        sum(outcome.bad for outcome in audited),
        len(settled),
        sum(outcome.bad for outcome in settled),
    )
