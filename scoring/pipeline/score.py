"""The scoring hop: judges everybody and every open pull request by everything known now.

A pass reads first, judges outside any lock, then writes scores of people in groups, and last the decisions and its
position in one transaction: a pass that was killed is repeated and finds the people whom it wrote before unchanged. Its
position is the number of the inputs that it read, so later changes leave work for the next pass. Seeds, trust, labels
and features are rebuilt first, and people are judged again only where their evidence has another fingerprint than at
their last judgement (`scoring.pipeline.evidence`), pull requests only where the basis of their decision is another
one than at the last pass. `scores` gets a row where a judgement changed in substance (`scoring.pipeline.decisions`);
the tables `current_*` always hold what a pass over everything would write.

A pass judges by the settings, the serving model, the starter model and the thresholds that follow from them. Model
files are read once and cached; the next pass finds a new one without a restart.
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
from ingest.store.transaction import Rows, Transaction
from scoring.config.policy import Policy
from scoring.config.repository import RepositorySettings, read_settings, rules_under
from scoring.gate.decide import GATE_VERSION, judge
from scoring.graph.checkpoint import GraphModel
from scoring.graph.serving import GraphShelf, graph_chances
from scoring.models.serving import ServingModel, predict, version_of
from scoring.models.starter import Starter, StarterFile, borrow
from scoring.pipeline.circumstances import STALE, Moment, read_attestation_states, read_circumstances
from scoring.pipeline.decisions import (
    OPEN_PULLS,
    Basis,
    Pass,
    append_decisions,
    append_draws,
    append_scores,
    decide_pull,
    read_sampler,
    to_json,
    verdict_columns,
)
from scoring.pipeline.evidence import GROUP, ChangedPeople, find_stale_people, read_evidence, rebuild_tables
from scoring.pipeline.lane_thresholds import CERTIFICATES, CertificateFolder, find_thresholds, thresholds_basis
from scoring.pipeline.stored import SETTLED
from scoring.thresholds import Thresholds
from scoring.types import Circumstances, Evidence, Pair, Prediction

SERVING_MODELS: dict[Path, ServingModel] = {}  # by the folder of models
STARTER_FILES: dict[Path, StarterFile] = {}  # by the file of the starter model
GRAPH_SHELVES: dict[Path, GraphShelf] = {}  # by the folder of models
CERTIFICATE_FOLDERS: dict[Path, CertificateFolder] = {}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a pass: the policy, the serving model (None: the shrunk rate), the starter model that orders the
    queue (None: a model of one's own serves, or there is none), and the graph network that is only shown."""

    policy: Policy
    served: Any
    starter: Starter | None
    graph: GraphModel | None = None

    @classmethod
    def load(cls, policy: Policy) -> "RuleSet":
        served = graph = None
        if policy.models is not None and policy.graph is not None:
            graph = GRAPH_SHELVES.setdefault(policy.models, GraphShelf(policy.models, policy.graph)).model()
        if policy.models is not None:
            served = SERVING_MODELS.setdefault(policy.models, ServingModel(policy.models)).model()
        if served is not None or policy.starter is None:
            return cls(policy, served, None, graph)
        return cls(policy, None, STARTER_FILES.setdefault(policy.starter, StarterFile(policy.starter)).starter(), graph)

    def judgement_version(self) -> str:
        """Hash all that a judgement depends on besides the evidence, in 16 hex digits."""
        settings = replace(self.policy, audit_key=b"", models=None, starter=None, graph=None)
        rules = [settings, version_of(self.served), GATE_VERSION]
        return hashlib.sha256(to_json(rules).encode()).hexdigest()[:16]

    def basis(self, thresholds: Mapping[int, Thresholds], now: datetime) -> str:
        """Hash what the judgements of a pass have in common: each person's fingerprint hashes this again.

        Of 1,000 repositories the thresholds alone have 80 kB. What a model weighs moves with time: everybody is judged
        anew once a day.
        """
        common = [self.judgement_version(), self.served and str(now.date()), thresholds_basis(thresholds)]
        return hashlib.sha256(to_json(common).encode()).hexdigest()

    def pass_version(self) -> str:
        """Name all that a whole pass depends on: the rules of every judgement, starter model and graph network."""
        shown = (part.name for part in (self.starter, self.graph) if part is not None)
        return f"{self.judgement_version()}{''.join(shown)}"

    def thresholds(
        self, rows: Rows, settings: Mapping[int, RepositorySettings], now: datetime
    ) -> dict[int, Thresholds]:
        if self.policy.models is None or self.served is None:
            return find_thresholds(rows, (), "", self.policy, settings, now)
        path = self.policy.models / CERTIFICATES
        certificates = CERTIFICATE_FOLDERS.setdefault(path, CertificateFolder(path)).read()
        return find_thresholds(rows, certificates, self.served.name, self.policy, settings, now)


CHANGED_PEOPLE: WeakKeyDictionary[Store, ChangedPeople] = WeakKeyDictionary()  # since the last pass over a store
# The bases of its decisions by address, which hold for the next one unless that reads everybody again.
DECIDED: WeakKeyDictionary[Store, Mapping[str, Basis]] = WeakKeyDictionary()

INPUTS = "select position_seq from hops where name = 'inputs'"
LATEST = timedelta(days=1)  # windows close and vouches age without any event
# An attestation begins or ends, or its proof becomes too old, without any event.
ATTESTED_SINCE = """
select exists (from attestation_checks where proof = 'proven' and (
  $judged < valid_from and valid_from <= $now or $judged < valid_until and valid_until <= $now
  or $judged - $stale <= checked_at and checked_at < $now - $stale))
"""
JUDGED_BY_OTHER_RULES = (
    "select exists (from current_scores) and not exists (from meta where key = 'judged_by' and value = ?)"
)
DELETE_SCORES_WITHOUT_FEATURES = """
delete from current_scores c where not exists (
  from features f where (f.contributor_id, f.repository_id) = (c.contributor_id, c.repository_id))
"""


def has_work(rows: Rows, now: datetime) -> bool:
    """Return whether inputs or attestations changed since the last pass, or that pass is a day old."""
    if rows.value(f"select ({INPUTS}) > (select position_seq from hops where name = 'score')"):
        return True
    judged_at = rows.value("select max(as_of) from current_scores")
    if judged_at is None or now - judged_at >= LATEST:
        return judged_at is not None
    return rows.value(ATTESTED_SINCE, {"judged": judged_at, "now": now, "stale": STALE})


def score(store: Store, clock: Clock, policy: Policy) -> int:
    """Run a pass if anything changed; return how many people have scores (0: nothing to do).

    A process that begins on a filled store judges at once: the first event then finds in memory what a pass caches,
    which for 52,000 people takes three seconds to compute.
    """
    with store.read() as rows:
        rules = RuleSet.load(policy)
        is_cold = store not in CHANGED_PEOPLE and rows.value("select exists (from current_scores)")
        has_other_rules = rows.value(JUDGED_BY_OTHER_RULES, [rules.pass_version()])
        if not (is_cold or has_other_rules or has_work(rows, clock.now())):
            return 0
        position = rows.value(INPUTS)
    settle_changed(store)
    changed = CHANGED_PEOPLE.setdefault(store, ChangedPeople())
    with store.whole:
        try:
            return _run_pass(store, changed, rules, clock.now(), position)
        except BaseException:
            changed.forget()
            raise


@dataclass(frozen=True, slots=True)
class _PassInputs:
    """The input of a pass, all of one state of the store: people by pair, open pull requests by address."""

    passes: Mapping[int, Pass]  # by repository, 0 the site
    settled: int
    fingerprints: Mapping[Pair, str]
    evidence: Mapping[Pair, Evidence]  # of the people to judge
    bases: Mapping[str, Basis]  # of every decision
    decided: Mapping[str, Basis]  # of the decisions that stand, if they are the same


def _run_pass(store: Store, changed: ChangedPeople, rules: RuleSet, now: datetime, position: int) -> int:
    """Judge as of now the people and pull requests that the inputs up to `position` changed."""
    for keys in rebuild_tables(store, now, rules.policy):
        changed.add(keys)
    with store.read() as rows:
        decided = DECIDED.get(store, {})
        inputs = _read_inputs(rows, store.wall(), changed, decided, rules, now, position)
    site = inputs.passes[0]
    scores = _judge_people(inputs)
    decisions = [
        decide_pull(inputs.passes[basis.pull["repository_id"]], basis)
        for uri, basis in inputs.bases.items()
        if inputs.decided.get(uri) != basis
    ]
    # What a transaction replaces stays in memory until its end.
    for begin in range(0, len(scores), GROUP):
        group = scores[begin : begin + GROUP]
        with store.write() as txn:
            append_scores(txn, site, group)
            txn.exchange("current_scores", group, ("contributor_id", "repository_id"))
    with store.write() as txn:
        append_draws(txn, site)
        append_decisions(txn, site, decisions)
        txn.execute(DELETE_SCORES_WITHOUT_FEATURES)
        txn.execute("update current_scores set as_of = $now where as_of <> $now", {"now": site.now})
        _replace_decisions(txn, site, list(inputs.bases), decisions)
        txn.execute("update hops set position_seq = ?, ran_clock = ? where name = 'score'", [position, site.wall])
        notes = {"judged_by": rules.pass_version(), SETTLED: str(inputs.settled)}
        txn.upsert("meta", [{"key": key, "value": value} for key, value in notes.items()])
        scored = txn.value("select count(distinct contributor_id) from current_scores")
    changed.clear()
    DECIDED[store] = inputs.bases
    return scored


def _read_inputs(
    rows: Rows,
    wall: datetime,
    changed: ChangedPeople,
    decided: Mapping[str, Basis],
    rules: RuleSet,
    now: datetime,
    position: int,
) -> _PassInputs:
    """Read the people whose evidence changed, the open pull requests, and the facts to judge both by."""
    policy, settings = rules.policy, read_settings(rows)
    settled, thresholds = _count_settled(rows), rules.thresholds(rows, settings, now)
    among = changed.to_read(rows, basis := rules.basis(thresholds, now))
    decided = {} if among is None else decided
    fingerprints = find_stale_people(rows, basis, among)
    evidence = read_evidence(rows, fingerprints)
    pulls = {row["pull_uri"]: row for row in rows.rows(OPEN_PULLS)}
    authors = {uri: _author(row) for uri, row in pulls.items()}
    repository_rules = {number: rules_under(policy.repository, theirs) for number, theirs in settings.items()}
    moment = Moment(now, policy.thresholds.account_change_days)
    attestations = read_attestation_states(rows, now)
    circumstances = read_circumstances(rows, moment, repository_rules, policy.repository, attestations)
    predictions = predict(rows, rules.served, evidence, authors, thresholds, now, policy.window_days)
    not_own = [uri for uri, row in pulls.items() if not row["own"]]
    borrowed = borrow(rows, rules.starter, not_own, now, policy.window_days)
    graph = graph_chances(rows, rules.graph, authors, now, policy.window_days)
    sampler = read_sampler(rows, now, policy)
    site = Pass(position, now, wall, policy, thresholds[0], sampler, predictions, borrowed, graph)
    passes = {
        number: replace(
            site,
            thresholds=replace(theirs, settled=settled),
            shadow=number in settings and settings[number].shadow,
        )
        for number, theirs in thresholds.items()
    }
    last = {_author(basis.pull): basis.evidence for basis in decided.values()}
    kept = {pair: last[pair] for pair in last.keys() - set(among or ())}
    theirs = kept | read_evidence(rows, set(authors.values()) - kept.keys())
    bases = _find_bases(passes, pulls, theirs, circumstances)
    return _PassInputs(passes, settled, fingerprints, evidence, bases, decided)


def _author(pull: Mapping[str, Any]) -> Pair:
    return pull["author_id"], pull["repository_id"]


def _find_bases(
    passes: Mapping[int, Pass],
    pulls: Mapping[str, Mapping[str, Any]],
    evidence: Mapping[Pair, Evidence],
    circumstances: Mapping[str, Circumstances],
) -> dict[str, Basis]:
    """Return the basis of a decision on each open pull request of a watched repository.

    An author who was erased meanwhile has no evidence, and a pull request that was closed meanwhile no circumstances.
    """
    return {
        uri: Basis.of(passes[pull["repository_id"]], pull, evidence[_author(pull)], circumstances[uri])
        for uri, pull in pulls.items()
        if _author(pull) in evidence and uri in circumstances and pull["repository_id"] in passes
    }


def _judge_people(inputs: _PassInputs) -> list[dict[str, Any]]:
    """Return rows of `current_scores`. Equal evidence is judged once for each set of thresholds: most of it is empty.

    The number of settled pull requests is added where a judgement is shown: each new one would else change every row.
    """
    site = inputs.passes[0]
    thresholds = {number: replace(each.thresholds, settled=None) for number, each in inputs.passes.items()}
    stored = {number: to_json(each) for number, each in thresholds.items()}
    judged: dict[tuple[Evidence, str, Prediction | None], dict[str, Any]] = {}
    scores = []
    for pair, evidence in inputs.evidence.items():
        number = pair[1] if pair[1] in thresholds else 0
        prediction = site.predictions.people.get(pair)
        key = (evidence, stored[number], prediction)
        if key not in judged:
            verdict = judge(evidence, thresholds[number], site.policy.prior, site.policy.strength, prediction)
            columns = verdict_columns(site, evidence, verdict)
            judged[key] = columns | {"content_risk": None, "thresholds": stored[number]}
        keys = {"contributor_id": pair[0], "repository_id": pair[1], "fingerprint": inputs.fingerprints[pair]}
        scores.append(keys | judged[key])
    return scores


def _count_settled(rows: Rows) -> int:
    """Return how many settled pull requests could count towards a certificate; those of push-holders never do."""
    return rows.value(
        "select count(*) from labels l anti join own_people o on o.repository_id = l.repository_id "
        "and o.contributor_id = l.author_id"
    )


def _replace_decisions(txn: Transaction, site: Pass, uris: list[str], rows: list[dict[str, Any]]) -> None:
    """Write these rows and keep those of the other `uris`; replaced rows stay in memory until published."""
    txn.execute("delete from current_decisions where pull_uri not in (select unnest(?::varchar[]))", [uris])
    for begin in range(0, len(rows), GROUP):
        txn.exchange("current_decisions", rows[begin : begin + GROUP], ("pull_uri",))
    txn.execute("update current_decisions set as_of = $now where as_of <> $now", {"now": site.now})
