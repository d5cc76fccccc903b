"""The scoring hop: everything known now becomes a score of everyone and a decision on every open pull request.

Reads first, judges outside any lock, writes people in groups, then decisions and its position in one transaction: one
that a kill cut short is made anew and finds those whom it had written as they are. Its position is the number of the
inputs that it read, so whatever changed meanwhile leaves work for the next pass. What follows by set-based statements
(seeds, trust, labels, features) is found anew in each pass and written where it differs; of the people only those are
judged whose evidence has another fingerprint than the one that they were judged from: of 20,000 a vouch or a pull
request touches a few, and only those of whom something was written are looked at (`scoring.pipeline.changed_people`).
`scores` gets a row where a judgement changed in substance (`scoring.pipeline.decisions`); `current_*` always hold what
a pass over everything would write.

The settings, the model that serves, the starter model and the thresholds that follow judge in a pass. Model files are
read once and kept; a new one is found by the next pass without a restart.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ingest.clock import Clock
from ingest.records.pull_state import settle_changed
from ingest.store.database import Store
from ingest.store.transaction import Keys, Rows, Transaction
from scoring.config.policy import Policy
from scoring.config.repository import RepositorySettings, read_settings, rules_under
from scoring.derived import GROUP, changed_people, find_outcomes, read_evidence, rebuild
from scoring.gate.attestations import STALE
from scoring.gate.decide import GATE_VERSION, judge
from scoring.models.serving import Serving, predict, version_of
from scoring.models.starter import Borrowing, Starter, borrow
from scoring.pipeline.changed_people import StandingPeople
from scoring.pipeline.circumstances import Moment, attestation_states, read_circumstances
from scoring.pipeline.decisions import (
    OPEN_PULLS,
    Pass,
    decision_row,
    judged_columns,
    keep_draws,
    keep_people,
    keep_pulls,
    read_ballot,
    to_json,
)
from scoring.pipeline.lane_certificates import CERTIFICATES, Certificates, basis_of, thresholds_of
from scoring.pipeline.stored import SETTLED
from scoring.thresholds import Thresholds
from scoring.trust.incremental import StandingTrust
from scoring.trust.table import read_graph
from scoring.types import Circumstances, Evidence, Pair, Prediction

SERVING: dict[Path, Serving] = {}  # by the folder of models
BORROWING: dict[Path, Borrowing] = {}  # by the file of the starter model
STANDING_CERTIFICATES: dict[Path, Certificates] = {}  # by their folder


@dataclass(frozen=True, slots=True)
class Ruling:
    """The policy, the model that serves (None: the shrunk rate does), and the starter model that orders the queue
    (None: a model of one's own serves, or there is none)."""

    policy: Policy
    served: Any
    starter: Starter | None

    @classmethod
    def of(cls, policy: Policy) -> "Ruling":
        """Return what judges now."""
        served = None if policy.models is None else SERVING.setdefault(policy.models, Serving(policy.models)).model()
        if served is not None or policy.starter is None:
            return cls(policy, served, None)
        return cls(policy, None, BORROWING.setdefault(policy.starter, Borrowing(policy.starter)).starter())

    def of_judgements(self) -> str:
        """Everything but what is known that a judgement depends on, in 16 hex digits."""
        settings = replace(self.policy, audit_key=b"", models=None, starter=None)
        told = [settings, version_of(self.served), GATE_VERSION]
        return hashlib.sha256(to_json(told).encode()).hexdigest()[:16]

    def of_pass(self) -> str:
        """Return what a whole pass depends on: the rules of every judgement, and what its order is borrowed from."""
        return f"{self.of_judgements()}{self.starter.name if self.starter else ''}"

    def thresholds(self, rows: Rows, own: Mapping[int, RepositorySettings], now: datetime) -> dict[int, Thresholds]:
        """The thresholds of each watched repository and of the site (0)."""
        if self.policy.models is None or self.served is None:
            return thresholds_of(rows, (), "", self.policy, own, now)
        folder = self.policy.models / CERTIFICATES
        standing = STANDING_CERTIFICATES.setdefault(folder, Certificates(folder))
        return thresholds_of(rows, standing.all(), self.served.name, self.policy, own, now)


# What the last pass over a store computed; the store's rows follow from its log whether or not this is there.
STANDING: WeakKeyDictionary[Store, StandingTrust] = WeakKeyDictionary()
PEOPLE: WeakKeyDictionary[Store, StandingPeople] = WeakKeyDictionary()

INPUTS = "select position_seq from hops where name = 'inputs'"
LATEST = timedelta(days=1)  # windows close and vouches age without any event
# What no event tells: an attestation begins or ends, or its proof becomes too old.
ATTESTED_SINCE = """
select exists (from attestation_checks where proof = 'proven' and (
  $judged < valid_from and valid_from <= $now or $judged < valid_until and valid_until <= $now
  or $judged - $stale <= checked_at and checked_at < $now - $stale))
"""
JUDGED_OTHERWISE = (
    "select exists (from current_scores) and not exists (from meta where key = 'judged_by' and value = ?)"
)
GONE = """
delete from current_scores c where not exists (
  from features f where (f.contributor_id, f.repository_id) = (c.contributor_id, c.repository_id))
"""


def has_work(rows: Rows, now: datetime) -> bool:
    """Return whether something changed since the last pass, with time alone too, or that pass is a day old."""
    if rows.value(f"select ({INPUTS}) > (select position_seq from hops where name = 'score')"):
        return True
    judged_at = rows.value("select max(as_of) from current_scores")
    if judged_at is None or now - judged_at >= LATEST:
        return judged_at is not None
    return rows.value(ATTESTED_SINCE, {"judged": judged_at, "now": now, "stale": STALE})


def score(store: Store, clock: Clock, policy: Policy) -> int:
    """Judge everyone anew if anything changed; returns how many people were scored (0: nothing to do).

    A process that begins on a filled store judges at once: the first event then finds in memory what a pass keeps
    there, which for 52,000 people takes three seconds to compute.
    """
    with store.read() as rows:
        ruling = Ruling.of(policy)
        is_cold = store not in PEOPLE and rows.value("select exists (from current_scores)")
        otherwise = rows.value(JUDGED_OTHERWISE, [ruling.of_pass()])
        if not (is_cold or otherwise or has_work(rows, clock.now())):
            return 0
        position = rows.value(INPUTS)
    settle_changed(store)
    people = PEOPLE.setdefault(store, StandingPeople())
    with store.whole:
        try:
            return _pass(store, people, ruling, clock.now(), position)
        except BaseException:
            people.forget()
            raise


@dataclass(frozen=True, slots=True)
class _Read:
    """The input of a pass, all of one state of the store: people by evidence, open pull requests by address."""

    passes: Mapping[int, Pass]  # by repository, 0 the site
    settled: int
    fingerprints: Mapping[Pair, str]
    evidence: Mapping[Pair, Evidence]
    opened: Mapping[str, Mapping[str, Any]]  # rows of OPEN_PULLS
    authors: Mapping[str, Pair]
    offered: Mapping[Pair, Evidence]
    around: Mapping[str, Circumstances]


def _pass(store: Store, held: StandingPeople, ruling: Ruling, now: datetime, position: int) -> int:
    """Judge as of now, from the inputs up to `position`, whom and what they changed."""
    _rebuild_structure(store, held, now, ruling.policy)
    with store.read() as rows:
        found = _read(rows, store.wall(), held, ruling, now, position)
    one = found.passes[0]
    people = [
        _score_row(pair, found.fingerprints[pair], columns)
        for pair, columns in _judge_all(found.passes, found.evidence).items()
    ]
    pulls = _judge_pulls(found)
    _keep_people(store, one, people)
    with store.write() as txn:
        keep_draws(txn, one)
        keep_pulls(txn, one, pulls)
        txn.execute(GONE)
        txn.execute("update current_scores set as_of = $now where as_of <> $now", {"now": one.now})
        _replace(txn, "current_decisions", pulls)
        txn.execute("update hops set position_seq = ?, ran_clock = ? where name = 'score'", [position, one.wall])
        told = {"judged_by": ruling.of_pass(), SETTLED: str(found.settled)}
        txn.upsert("meta", [{"key": key, "value": value} for key, value in told.items()])
        scored = txn.value("select count(distinct contributor_id) from current_scores")
    held.settle()
    return scored


def _read(rows: Rows, wall: datetime, held: StandingPeople, ruling: Ruling, now: datetime, position: int) -> _Read:
    """Return whom and what the inputs up to `position` changed, and what is known of them."""
    policy, own = ruling.policy, read_settings(rows)
    settled, under = _settled(rows), ruling.thresholds(rows, own, now)
    # What a model weighs moves with time alone: everybody is judged anew once a day.
    basis = to_json([ruling.of_judgements(), ruling.served and str(now.date()), basis_of(under)])
    fingerprints = changed_people(rows, basis, held.look(rows, basis))
    evidence = read_evidence(rows, fingerprints)
    opened = {row["pull_uri"]: row for row in rows.rows(OPEN_PULLS)}
    authors = {uri: (row["author_id"], row["repository_id"]) for uri, row in opened.items()}
    rules = {number: rules_under(policy.repository, its) for number, its in own.items()}
    moment = Moment(now, policy.thresholds.account_change_days, policy.parameters.hops)
    around = read_circumstances(rows, moment, rules, policy.repository, attestation_states(rows, now))
    said = predict(rows, ruling.served, evidence, authors, under, now, policy.window_days)
    others = [uri for uri, row in opened.items() if not row["own"]]
    borrowed = borrow(rows, ruling.starter, others, now, policy.window_days)
    one = Pass(position, now, wall, policy, under[0], read_ballot(rows, now, policy), said, borrowed)
    shadowed = {number for number, its in own.items() if its.shadow}
    passes = {
        number: replace(one, thresholds=replace(its, settled=settled), shadow=number in shadowed)
        for number, its in under.items()
    }
    offered = read_evidence(rows, set(authors.values()))
    return _Read(passes, settled, fingerprints, evidence, opened, authors, offered, around)


def _judge_pulls(found: _Read) -> list[dict[str, Any]]:
    """A decision on each open pull request of a watched repository.

    Whoever was erased meanwhile has no evidence any more, and no decision; nor has what was closed meanwhile.
    """
    return [
        decision_row(found.passes[pair[1]], found.opened[uri], found.offered[pair], found.around[uri])
        for uri, pair in found.authors.items()
        if pair in found.offered and uri in found.around and pair[1] in found.passes
    ]


def _rebuild_structure(store: Store, people: StandingPeople, now: datetime, policy: Policy) -> None:
    """Seeds, trust, marks, labels and features, each from the ones before; `people` is told whom they touch."""
    with store.write() as txn:
        seeds = rebuild(txn, "seeds", now, policy.window_days)
    people.touch(seeds)
    people.touch(_rebuild_trust(store, now, policy))
    with store.write() as txn:
        find_outcomes(txn, now, policy.window_days)
        for table in ("marks", "labels"):
            rebuild(txn, table, now, policy.window_days)
        features = rebuild(txn, "features", now, policy.window_days)
    people.touch(features)


def _rebuild_trust(store: Store, now: datetime, policy: Policy) -> Keys:
    """Bring `trust` up to date from the seeds and the vouches that stand; returns whose rows changed."""
    held = STANDING.setdefault(store, StandingTrust())
    with store.read() as rows:
        graph = read_graph(rows, now, policy)
        sets = _seed_sets(rows)
        others = rows.rows("select distinct repository_id from trust")
    parts, replaced = held.update(graph, sets, (now.date(), policy))
    replaced += [row["repository_id"] for row in others if row["repository_id"] not in sets]
    try:
        with store.write() as txn:
            return txn.replace("trust", parts, ("repository_id", "contributor_id"), ("repository_id", replaced))
    except BaseException:
        held.forget()
        raise


def _seed_sets(rows: Rows) -> dict[int, tuple[int, ...]]:
    """The seeds of each watched repository and of the site."""
    found = rows.rows(
        "select repository_id, list(contributor_id order by contributor_id) as seeds from seeds group by 1"
    )
    return {row["repository_id"]: tuple(row["seeds"]) for row in found}


def _settled(rows: Rows) -> int:
    """Return how many settled pull requests could count towards a certificate.

    Those of push-holders never do: theirs are a group of their own.
    """
    return rows.value(
        "select count(*) from labels l anti join own_people o on o.repository_id = l.repository_id "
        "and o.contributor_id = l.author_id"
    )


def _judge_all(passes: Mapping[int, Pass], evidence: Mapping[Pair, Evidence]) -> dict[Pair, dict[str, Any]]:
    """The columns that every judgement has. Equal evidence is judged once for each budget: of most nothing is known.

    How many pull requests settled is left to who shows a judgement: each that settles would else touch everyone's.
    """
    one = passes[0]
    thresholds = {number: replace(each.thresholds, settled=None) for number, each in passes.items()}
    stored = {number: to_json(each) for number, each in thresholds.items()}
    known: dict[tuple[Evidence, str, Prediction | None], dict[str, Any]] = {}
    judged: dict[Pair, dict[str, Any]] = {}
    for pair, found in evidence.items():
        number = pair[1] if pair[1] in thresholds else 0
        key = (found, stored[number], one.predictions.people.get(pair))
        if key not in known:
            verdict = judge(found, thresholds[number], one.policy.prior, one.policy.strength, key[2])
            known[key] = judged_columns(one, found, verdict) | {"content_risk": None, "thresholds": stored[number]}
        judged[pair] = known[key]
    return judged


def _score_row(pair: Pair, fingerprint: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"contributor_id": pair[0], "repository_id": pair[1], "fingerprint": fingerprint, **columns}


def _keep_people(store: Store, one: Pass, people: list[dict[str, Any]]) -> None:
    """Write the scores of whoever was judged, a transaction a group: what it replaces stays in memory until its end."""
    for begin in range(0, len(people), GROUP):
        group = people[begin : begin + GROUP]
        with store.write() as txn:
            keep_people(txn, one, group)
            txn.exchange("current_scores", group, ("contributor_id", "repository_id"))


def _replace(txn: Transaction, table: str, rows: list[dict[str, Any]]) -> None:
    """Make a table of open pull requests hold these; rows taken out and put in again stay in memory until published."""
    uris = [row["pull_uri"] for row in rows]
    txn.execute(f"delete from {table} where pull_uri not in (select unnest(?::varchar[]))", [uris])
    for begin in range(0, len(rows), GROUP):
        txn.exchange(table, rows[begin : begin + GROUP], ("pull_uri",))
