"""The scoring hop: everything known now becomes a score of everyone and a decision on every open pull request.

Reads first, judges outside any lock, writes people in groups, then decisions and its position in one transaction: one
that a kill cut short is made anew and finds those whom it had written as they are. Its position is the number of the
inputs that it read, so whatever changed meanwhile leaves work for the next pass. What follows by set-based statements
(seeds, trust, labels, features) is found anew in each pass and written where it differs; of the people only those are
judged whose evidence has another fingerprint than the one that they were judged from: of 20,000 a vouch or a pull
request touches a few, and only those of whom something was written are looked at (`scoring.standing_people`). `scores`
gets a row where a judgement changed in substance (`scoring.decision_log`); `current_*` always hold what a pass over
everything would write.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ingest.clock import Clock
from ingest.settle import settle_changed
from ingest.store import Store
from ingest.transaction import Keys, Rows, Transaction
from scoring.attestations import STALE
from scoring.audit_draws import keep_draws, read_ballot
from scoring.circumstances import Moment, read_circumstances
from scoring.decision_log import keep_people, keep_pulls
from scoring.decisions import OPEN_PULLS, Pass, decision_row, gate_version, judged_columns, to_json
from scoring.derived import GROUP, Pair, changed_people, find_outcomes, read_evidence, rebuild
from scoring.gate import judge
from scoring.lane_certificates import CERTIFICATES, Certificates, basis_of, thresholds_of
from scoring.own_rules import rules_under
from scoring.policy import Policy
from scoring.read_attestations import attestation_states
from scoring.read_repositories import read_settings
from scoring.repository_settings import RepositorySettings
from scoring.rules import Thresholds
from scoring.serving import Serving, predict, version_of
from scoring.shaping import SETTLED
from scoring.standing import StandingTrust
from scoring.standing_people import StandingPeople
from scoring.starter import Borrowing, Starter, borrow
from scoring.structure import read_graph
from scoring.verdict import Evidence, Prediction

# What the last pass over a store computed; the store's rows follow from its log whether or not this is there.
STANDING: WeakKeyDictionary[Store, StandingTrust] = WeakKeyDictionary()
PEOPLE: WeakKeyDictionary[Store, StandingPeople] = WeakKeyDictionary()
SERVING: dict[Path, Serving] = {}  # by the folder of models
BORROWING: dict[Path, Borrowing] = {}  # by the file of the starter model
STANDING_CERTIFICATES: dict[Path, Certificates] = {}  # by their folder

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
    """Whether something changed since the last pass, with time alone too, or that pass is a day old."""
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
        served = _served(policy)
        starter = _starter(policy, served)
        is_cold = store not in PEOPLE and rows.value("select exists (from current_scores)")
        otherwise = _was_judged_otherwise(rows, _judged_by(policy, served, starter))
        if not (is_cold or otherwise or has_work(rows, clock.now())):
            return 0
        position = rows.value(INPUTS)
    settle_changed(store)
    people = PEOPLE.setdefault(store, StandingPeople())
    with store.whole:
        try:
            return _pass(store, people, clock.now(), policy, position, served, starter)
        except BaseException:
            people.forget()
            raise


def _was_judged_otherwise(rows: Rows, rules: str) -> bool:
    """Whether what stands was judged by other settings, rules or another model than today's."""
    return rows.value(JUDGED_OTHERWISE, [rules])


def _served(policy: Policy) -> Any:
    """The model that serves now, None where the shrunk rate does."""
    if policy.models is None:
        return None
    return SERVING.setdefault(policy.models, Serving(policy.models)).model()


def _starter(policy: Policy, served: Any) -> Starter | None:
    """The starter model that orders the queue now, None where a model of one's own serves or there is none."""
    if served is not None or policy.starter is None:
        return None
    return BORROWING.setdefault(policy.starter, Borrowing(policy.starter)).starter()


def _judged_by(policy: Policy, served: Any, starter: Starter | None) -> str:
    """What a whole pass depends on: the rules of every judgement, and what its order is borrowed from."""
    return f"{_rules_of(policy, served)}{starter.name if starter else ''}"


def _rules_of(policy: Policy, served: Any) -> str:
    """Everything but what is known that a judgement depends on, in 16 hex digits."""
    told = [replace(policy, audit_key=b"", models=None, starter=None), version_of(served), gate_version()]
    return hashlib.sha256(to_json(told).encode()).hexdigest()[:16]


def _pass(
    store: Store,
    held: StandingPeople,
    now: datetime,
    policy: Policy,
    position: int,
    served: Any,
    starter: Starter | None,
) -> int:
    """Judge as of now, from the inputs up to `position`, whom and what they changed."""
    rules_of_all = _rules_of(policy, served)
    _rebuild_structure(store, held, now, policy)
    with store.read() as rows:
        own, attested = read_settings(rows), attestation_states(rows, now)
        settled, under = _settled(rows), _thresholds(rows, policy, served, own, now)
        # What a model weighs moves with time alone: everybody is judged anew once a day.
        basis = to_json([rules_of_all, served and str(now.date()), basis_of(under)])
        fingerprints = changed_people(rows, basis, held.look(rows, basis))
        evidence = read_evidence(rows, fingerprints)
        opened = {row["pull_uri"]: row for row in rows.rows(OPEN_PULLS)}
        authors = {uri: (row["author_id"], row["repository_id"]) for uri, row in opened.items()}
        offered = read_evidence(rows, set(authors.values()))
        rules = {number: rules_under(policy.repository, its) for number, its in own.items()}
        around = read_circumstances(rows, _moment(policy, now), rules, policy.repository, attested)
        said = predict(rows, served, evidence, authors, under, now, policy.window_days)
        others = [uri for uri, row in opened.items() if not row["own"]]
        borrowed = borrow(rows, starter, others, now, policy.window_days)
        one = Pass(position, now, store.wall(), policy, under[0], read_ballot(rows, now, policy), said, borrowed)
    passes = {number: replace(one, thresholds=replace(its, settled=settled)) for number, its in under.items()}
    judged = _judge_all(one, passes, evidence)
    people = [_score_row(pair, fingerprints[pair], columns) for pair, columns in judged.items()]
    # Whoever was erased meanwhile has no evidence any more, and no decision; nor has what was closed meanwhile.
    standing = [uri for uri in opened if authors[uri] in offered and uri in around and authors[uri][1] in own]
    pulls = [decision_row(passes[authors[uri][1]], opened[uri], offered[authors[uri]], around[uri]) for uri in standing]
    _keep_people(store, one, people)
    with store.write() as txn:
        keep_draws(txn, one)
        keep_pulls(txn, one, pulls)
        txn.execute(GONE)
        txn.execute("update current_scores set as_of = $now where as_of <> $now", {"now": one.now})
        _replace(txn, "current_decisions", pulls)
        txn.execute("update hops set position_seq = ?, ran_clock = ? where name = 'score'", [position, one.wall])
        told = {"judged_by": _judged_by(policy, served, starter), SETTLED: str(settled)}
        txn.upsert("meta", [{"key": key, "value": value} for key, value in told.items()])
        scored = txn.value("select count(distinct contributor_id) from current_scores")
    held.settle()
    return scored


def _thresholds(
    rows: Rows, policy: Policy, served: Any, own: Mapping[int, RepositorySettings], now: datetime
) -> dict[int, Thresholds]:
    """The thresholds of each watched repository and of the site (0)."""
    if policy.models is None or served is None:
        return thresholds_of(rows, (), "", policy, own, now)
    folder = policy.models / CERTIFICATES
    standing = STANDING_CERTIFICATES.setdefault(folder, Certificates(folder))
    return thresholds_of(rows, standing.all(), served.name, policy, own, now)


def _moment(policy: Policy, now: datetime) -> Moment:
    return Moment(now, policy.thresholds.account_change_days, policy.parameters.hops)


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
    """How many settled pull requests could count towards a certificate.

    Those of push-holders never do: theirs are a group of their own.
    """
    return rows.value(
        "select count(*) from labels l anti join own_people o on o.repository_id = l.repository_id "
        "and o.contributor_id = l.author_id"
    )


def _judge_all(one: Pass, passes: Mapping[int, Pass], evidence: Mapping[Pair, Evidence]) -> dict[Pair, dict[str, Any]]:
    """The columns that every judgement has. Equal evidence is judged once for each budget: of most nothing is known.

    How many pull requests settled is left to who shows a judgement: each that settles would else touch everyone's.
    """
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
