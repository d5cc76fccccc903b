"""The scoring hop: everything known now becomes a score of everyone and a decision on every open pull request.

Reads first, judges outside any lock, writes in one transaction. Its position is the number of the inputs that it read,
so whatever changed meanwhile leaves work for the next pass. `scores` gets a row where a judgement changed in substance
(lane, reasons, what was judged, or P by half a point); `current_*` always hold the newest pass.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ingest.clock import Clock
from ingest.settle import settle
from ingest.store import Store
from ingest.transaction import Rows, Transaction
from scoring.features import names, read_evidence, rebuild
from scoring.figures import basis_points
from scoring.gate import Thresholds, judge, judge_change
from scoring.policy import Policy
from scoring.review_rows import content_of
from scoring.standing import StandingTrust
from scoring.structure import read_graph
from scoring.verdict import Evidence, Reason, Verdict

MODEL_VERSION = "shrunk-rate-1"
# What the last pass over a store computed; the store's rows follow from its log whether or not this is there.
STANDING: WeakKeyDictionary[Store, StandingTrust] = WeakKeyDictionary()
NOTABLE = 0.005  # a smaller change of P alone, as vouches age, is no event worth a row

OPEN_PULLS = """
select p.pull_uri, p.author_id, p.repository_id, p.record_cid, p.round, t.patch_id,
  exists (from seeds s where s.repository_id = p.repository_id and s.contributor_id = p.author_id
          and s.role <> 'maintainer') as own,
  -- Where content review is off no content opens a lane, and what was found in it before still counts.
  if(w.review = 'off' and c.state is not null, 'no content verdict', c.state) as state,
  if(w.review = 'off', 'review_off', c.missing) as missing,
  c.content_risk, c.recommended, c.coverage, c.high_flags, c.worst, c.place
from pull_requests p join watched_repositories w using (repository_id)
-- What arrived while this pass was under way has no features yet: the next pass finds it.
semi join features f on f.contributor_id = p.author_id and f.repository_id = p.repository_id
left join patches t on t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref
-- The newest review of the round and the words that stand; after an update of the rules the old one until it is anew.
left join (
  from content_reviews where state <> 'running'
  qualify row_number() over (partition by pull_uri, patch_ref, said order by reviewed_clock desc, rules) = 1
) c on c.pull_uri = p.pull_uri and c.patch_ref = p.patch_ref and c.said = md5(concat_ws(chr(31), p.title, p.body))
where p.state = 'open'
"""
INPUTS = "select position_seq from hops where name = 'inputs'"
LATEST = timedelta(days=1)  # windows close and vouches age without any event
SUBSTANCE = ("lane", "record_cid", "round", "patch_id", "model_version", "trust_measure", "cases")
COMPARED = "contributor_id, repository_id, lane, model_version, trust_measure, cases, reasons, probability"
BEFORE = f"""
select null as pull_uri, null as record_cid, null as round, null as patch_id, {COMPARED} from current_scores
union all select pull_uri, record_cid, round, patch_id, {COMPARED} from current_decisions
"""

Pair = tuple[int, int]  # contributor_id, repository_id


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of the hop: the number of the inputs it read, its moment and its rules."""

    position: int
    now: datetime
    wall: datetime
    policy: Policy
    thresholds: Thresholds


def has_work(rows: Rows, now: datetime) -> bool:
    """Whether something changed since the last pass, or that pass is a day old."""
    if rows.value(f"select ({INPUTS}) > (select position_seq from hops where name = 'score')"):
        return True
    judged_at = rows.value("select max(as_of) from current_scores")
    return judged_at is not None and now - judged_at >= LATEST


def score(store: Store, clock: Clock, policy: Policy) -> int:
    """Judge everyone anew if anything changed; returns how many people were scored (0: nothing to do)."""
    with store.read() as rows:
        if not has_work(rows, clock.now()) and not _was_judged_otherwise(rows, policy):
            return 0
        position = rows.value(INPUTS)
    settle(store)
    with store.whole:
        return _pass(store, clock.now(), policy, position)


def _was_judged_otherwise(rows: Rows, policy: Policy) -> bool:
    """Whether what stands was judged by another measure of trust than the operator now wants."""
    return bool(rows.value("select bool_or(trust_measure <> ?) from current_scores", [policy.measure]))


def _pass(store: Store, now: datetime, policy: Policy, position: int) -> int:
    """Judge everyone as of now from the inputs up to `position`."""
    _rebuild_structure(store, now, policy)
    with store.read() as rows:
        one = Pass(position, now, store.wall(), policy, _counted(rows, policy.thresholds))
        evidence = read_evidence(rows, names(rows))
        opened = rows.rows(OPEN_PULLS)
    judged = _judge_all(one, evidence)
    thresholds = _json(one.thresholds)
    people = [{"contributor_id": pair[0], "repository_id": pair[1]} | columns for pair, columns in judged.items()]
    pulls = [_decision_row(one, row, evidence) | {"thresholds": thresholds} for row in opened]
    with store.write() as txn:
        _keep_history(txn, one, people, pulls)
        _replace(txn, "current_scores", people)
        _replace(txn, "current_decisions", pulls)
        txn.execute("update hops set position_seq = ?, ran_clock = ? where name = 'score'", [position, one.wall])
    return len({row["contributor_id"] for row in people})


def _rebuild_structure(store: Store, now: datetime, policy: Policy) -> None:
    """Seeds, trust, labels and features, each from the ones before."""
    with store.write() as txn:
        rebuild(txn, "seeds", now, policy.window_days)
    _rebuild_trust(store, now, policy)
    with store.write() as txn:
        rebuild(txn, "outcomes", now, policy.window_days)
        rebuild(txn, "labels", now, policy.window_days)
        rebuild(txn, "features", now, policy.window_days)


def _rebuild_trust(store: Store, now: datetime, policy: Policy) -> int:
    """Bring `trust` up to date from the seeds and the vouches that stand; returns how many rows were written."""
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


def _counted(rows: Rows, thresholds: Thresholds) -> Thresholds:
    """The thresholds with the number of settled pull requests that could count towards a certificate.

    Those of push-holders never do: theirs are a group of their own.
    """
    settled = rows.value(
        "select count(*) from labels l anti join seeds s on s.repository_id = l.repository_id "
        "and s.contributor_id = l.author_id and s.role <> 'maintainer'"
    )
    return Thresholds(**asdict(thresholds) | {"settled": settled})


def _judge_all(one: Pass, evidence: Mapping[Pair, Evidence]) -> dict[Pair, dict[str, Any]]:
    """The columns that every judgement has. Equal evidence is judged once: of most people nothing is known."""
    thresholds = _json(one.thresholds)
    known: dict[Evidence, dict[str, Any]] = {}
    for found in evidence.values():
        if found not in known:
            policy = one.policy
            verdict = judge(found, one.thresholds, policy.prior, policy.strength)
            known[found] = _judged(one, found, verdict) | {"content_risk": None, "thresholds": thresholds}
    return {pair: known[found] for pair, found in evidence.items()}


def _judged(one: Pass, evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
    probability = verdict.estimate.probability
    return {
        "as_of": one.now,
        "probability": probability,
        "probability_bp": None if probability is None else basis_points(probability),
        "low": verdict.estimate.low,
        "high": verdict.estimate.high,
        "cases": verdict.estimate.cases,
        "structural_trust": evidence.structural_trust,
        "eigentrust": evidence.eigentrust,
        "lane": str(verdict.lane),
        "reasons": reasons_json(verdict.reasons),
        "factors": _json(verdict.factors),
        "model_version": MODEL_VERSION,
        "trust_measure": one.policy.measure,
    }


def _decision_row(one: Pass, pull: Mapping[str, Any], evidence: Mapping[Pair, Evidence]) -> dict[str, Any]:
    named = {name: pull[name] for name in ("pull_uri", "repository_id", "record_cid", "round", "patch_id", "own")}
    found = evidence[pull["author_id"], pull["repository_id"]]
    content = content_of(pull) if pull["state"] else None
    verdict = judge_change(found, content, one.thresholds, one.policy.prior, one.policy.strength)
    risk = None if content is None else content.risk
    return named | {"contributor_id": pull["author_id"], "content_risk": risk} | _judged(one, found, verdict)


def _replace(txn: Transaction, table: str, rows: list[dict[str, Any]]) -> None:
    txn.execute(f"delete from {table}")
    txn.append(table, rows)


def _keep_history(txn: Transaction, one: Pass, people: list[dict[str, Any]], pulls: list[dict[str, Any]]) -> None:
    """Append to `scores` what differs in substance from the current rows, before those are replaced."""
    before = {_subject(row): row for row in txn.rows(BEFORE)}
    changed = [row for row in (*people, *pulls) if _differs(before.get(_subject(row)), row)]
    txn.append("scores", [_history_row(row, one.position, one.wall) for row in changed])


def _subject(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row.get("pull_uri"), row["contributor_id"], row["repository_id"]


def _differs(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    if before is None:
        return True
    if any(before[name] != after.get(name) for name in SUBSTANCE):
        return True
    if before["reasons"] != after["reasons"] and reason_codes(before["reasons"]) != reason_codes(after["reasons"]):
        return True
    return abs((before["probability"] or 0.0) - (after["probability"] or 0.0)) >= NOTABLE


def _history_row(row: Mapping[str, Any], position: int, wall: datetime) -> dict[str, Any]:
    """A row of `scores`; its id names subject, moment, inputs, outcome: a pass repeated after a kill has the same."""
    named = {name: row.get(name) for name in ("pull_uri", "record_cid", "round", "patch_id")}
    kept = {name: value for name, value in row.items() if name != "own"} | named
    written = _json([position, [str(value) for value in kept.values()]])
    score_id = hashlib.blake2b(written.encode(), digest_size=16).hexdigest()
    return kept | {"score_id": score_id, "decided_clock": wall}


def reasons_json(reasons: Iterable[Reason]) -> str:
    """The reasons as stored: a JSON list of {code, params}."""
    return _json(tuple(reasons))


def read_reasons(stored: str) -> tuple[Reason, ...]:
    """The reasons of a stored row."""
    return tuple(Reason(item["code"], item["params"]) for item in msgspec.json.decode(stored))


def reason_codes(stored: str) -> tuple[str, ...]:
    """Only their codes."""
    return tuple(reason.code for reason in read_reasons(stored))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
