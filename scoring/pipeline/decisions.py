"""Makes decisions on open pull requests: chooses those to judge, draws for the audit, and writes the history.

Draws of the audit are read from the store: how many there were, and those of one pass. The history has a row of
`scores` for every judgement that differs in substance from the last one of the same subject. Of a person that is the
lane, the reasons' codes, the number of cases or P by half a point. Of a pull request it is also what was judged and
anything that its inputs say, but for figures that drift by less than that (`scoring.gate.inputs`). Its id names the row
before it, what was judged and the inputs: judged again from the same inputs there is nothing to write, and a pass
repeated after a kill gives the same ids.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from ingest.json_decoding import decode_json
from ingest.store.transaction import Rows, Transaction
from scoring.config.policy import Policy
from scoring.formatting import basis_points
from scoring.gate.audit import NOT_DRAWN, Ballot, Judged
from scoring.gate.decide import GATE_VERSION
from scoring.gate.inputs import NOTABLE, Inputs, differ_notably, judge_inputs, write_inputs
from scoring.models.serving import Predictions
from scoring.models.starter import Borrowed
from scoring.review.store import content_of
from scoring.thresholds import Thresholds
from scoring.types import Circumstances, Draw, Evidence, Reason, Verdict

OPEN_PULLS = """
select p.pull_uri, p.author_id, p.repository_id, p.record_cid, p.round, t.patch_id,
  exists (from own_people o where o.repository_id = p.repository_id and o.contributor_id = p.author_id) as own,
  -- Where content review is off no content opens a lane, and what was found in it before still counts.
  if(w.review = 'off' and c.state is not null, 'no content verdict', c.state) as state,
  if(w.review = 'off', 'review_off', c.missing) as missing,
  c.content_risk, c.recommended, c.coverage, c.high_flags, c.worst, c.place, c.rules as review_version
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


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of the hop: the number of the inputs it read, its moment and its rules."""

    position: int
    now: datetime
    wall: datetime
    policy: Policy
    thresholds: Thresholds
    ballot: Ballot | None = None  # of the audit; None: nothing is drawn in this pass
    predictions: Predictions = field(default_factory=Predictions)
    borrowed: Borrowed = field(default_factory=Borrowed)  # nothing but the order of the queue
    shadow: bool = False  # the repository's lanes are what they would be


def judged_columns(one: Pass, evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
    """The columns that every judgement has."""
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
        "factors": to_json(verdict.factors),
        "model_version": one.predictions.model,
        "trust_measure": one.policy.measure,
    }


def decision_row(one: Pass, pull: Mapping[str, Any], evidence: Evidence, around: Circumstances) -> dict[str, Any]:
    """The row of `current_decisions` of one row of OPEN_PULLS; draws for the audit what is fast-laned but for it."""
    named = {name: pull[name] for name in ("pull_uri", "repository_id", "record_cid", "round", "patch_id", "own")}
    around = replace(around, judged_round=pull["round"])  # it was read after the pull request, perhaps of a newer round
    inputs = inputs_of(one, pull, evidence, around)
    verdict = judge_inputs(inputs)
    if any(reason.code == "audit_not_drawn" for reason in verdict.reasons):
        inputs = replace(inputs, circumstances=replace(around, draw=_draw(one, pull)))
        verdict = judge_inputs(inputs)
    told = {
        "contributor_id": pull["author_id"],
        "content_risk": inputs.content and inputs.content.risk,
        "thresholds": to_json(inputs.thresholds),
        "inputs": write_inputs(inputs),
        **one.borrowed.columns(pull["pull_uri"]),
    }
    return named | told | judged_columns(one, inputs.evidence, verdict)


def _draw(one: Pass, pull: Mapping[str, Any]) -> Draw | None:
    """The draw of one round; None without a ballot. The push-holders' own are never audited.

    Nor is what an estimated lane would let through if somebody opened it.
    """
    estimated = one.thresholds.estimated is not None
    if pull["own"] or (estimated and one.shadow):
        return NOT_DRAWN
    judged = Judged(pull["pull_uri"], pull["round"], pull["record_cid"] or "", pull["patch_id"] or "")
    return None if one.ballot is None else one.ballot.draw(judged, pull["repository_id"], estimated)


def inputs_of(one: Pass, pull: Mapping[str, Any], evidence: Evidence, around: Circumstances) -> Inputs:
    """All that one row of OPEN_PULLS is judged from."""
    return Inputs(
        evidence=evidence,
        content=content_of(pull) if pull["state"] else None,
        thresholds=one.thresholds,
        prior=one.policy.prior,
        strength=one.policy.strength,
        measure=one.policy.measure,
        model_version=one.predictions.model,
        gate_version=GATE_VERSION,
        review_version=pull["review_version"],
        circumstances=around,
        prediction=one.predictions.changes.get(pull["pull_uri"]),
    )


def reasons_json(reasons: Iterable[Reason]) -> str:
    """The reasons as stored: a JSON list of {code, params}."""
    return to_json(tuple(reasons))


def read_reasons(stored: str) -> tuple[Reason, ...]:
    """The reasons of a stored row."""
    return decode_json(stored, tuple[Reason, ...])


def reason_codes(stored: str) -> tuple[str, ...]:
    """Only their codes."""
    return tuple(reason.code for reason in read_reasons(stored))


def to_json(value: object) -> str:
    """A value as stored: JSON in one line."""
    return msgspec.json.encode(value).decode()


SPAN = 14  # days over which the turnout is counted
# What an estimated lane lets through takes no turn of the others.
TURNOUT = """
select count(*) as all_time, count(*) filter (first_at > $now - to_days($span)) as lately, min(first_at) as first_at
from (select min(drawn_at) as first_at from audit_draws where estimated is null group by pull_uri)
"""
# The odds of a round are never below those of the one before it.
EARLIER = """
select pull_uri, bool_or(drawn) as drawn, max(odds) as odds
from audit_draws semi join (from pull_requests where state = 'open') using (pull_uri) group by pull_uri
"""


def read_ballot(rows: Rows, now: datetime, policy: Policy) -> Ballot | None:
    """The ballot of a pass at this moment; None without a key: what asks for a draw is not fast-laned then."""
    if not policy.audit_key:
        return None
    told = rows.row(TURNOUT, {"now": now, "span": SPAN}) or {}
    first = told.get("first_at") or now
    days = min(max((now - first).total_seconds() / 86_400, 1.0), SPAN)
    earlier = {row["pull_uri"]: Draw(row["drawn"], row["odds"]) for row in rows.rows(EARLIER)}
    return Ballot(policy.audit, policy.audit_key, told.get("all_time") or 0, (told.get("lately") or 0) / days, earlier)


def keep_draws(txn: Transaction, one: Pass) -> None:
    """Write the draws of a pass, with their odds."""
    if one.ballot is None:
        return
    txn.append_new(
        "audit_draws",
        [
            {
                **judged._asdict(),
                "repository_id": repository_id,
                "odds": draw.odds,
                "drawn": draw.drawn,
                "drawn_at": one.now,
                "drawn_clock": one.wall,
                "estimated": estimated or None,
            }
            for judged, (repository_id, draw, estimated) in one.ballot.draws.items()
        ],
    )


SUBSTANCE = ("lane", "record_cid", "round", "patch_id", "model_version", "trust_measure", "cases")
NO_HISTORY = ("own", "fingerprint", "borrowed", "borrowed_from")  # columns of what stands that no decision rests on
JUDGED = ("pull_uri", "record_cid", "round", "patch_id", "inputs")  # null in a row about a person
COMPARED = "lane, model_version, trust_measure, cases, reasons, probability"
PEOPLE = f"""
select contributor_id, repository_id, {COMPARED} from current_scores where contributor_id in (select unnest(?))
"""
STANDING = f"select {', '.join(JUDGED)} from current_decisions"
LAST = f"""
select pull_uri, record_cid, round, patch_id, inputs, score_id, {COMPARED} from scores
where pull_uri in (select unnest(?))
qualify row_number() over (
  partition by pull_uri order by data_version desc nulls last, as_of desc, decided_clock desc) = 1
"""
Row = Mapping[str, Any]


def keep_people(txn: Transaction, one: Pass, people: Sequence[Row]) -> None:
    """Append the scores of people that differ in substance, before the current rows are replaced."""
    changed = _changed_people(txn, people)
    txn.append("scores", [_row(row, one) | {"score_id": _person_id(row, one.position)} for row in changed])


def keep_pulls(txn: Transaction, one: Pass, pulls: Sequence[Row]) -> None:
    """Append the decisions that differ in substance, before the current rows are replaced."""
    changed = _changed_pulls(txn, pulls)
    txn.append("scores", [_row(row, one) | {"score_id": score_id} for row, score_id in changed])


def _changed_people(txn: Transaction, people: Sequence[Row]) -> Iterator[Row]:
    found = txn.rows(PEOPLE, [[row["contributor_id"] for row in people]]) if people else []
    stood = {(row["contributor_id"], row["repository_id"]): row for row in found}
    return (row for row in people if _differs(stood.get((row["contributor_id"], row["repository_id"])), row))


def _changed_pulls(txn: Transaction, pulls: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Those to be decided anew, with the new decision's id."""
    standing = {tuple(row.values()) for row in txn.rows(STANDING)}
    others = [row for row in pulls if tuple(row[name] for name in JUDGED) not in standing]
    last = {row["pull_uri"]: row for row in txn.rows(LAST, [[row["pull_uri"] for row in others]])} if others else {}
    for row in others:
        before = last.get(row["pull_uri"])
        if _differs(before, row) or (before and _judged_from_else(before["inputs"], row["inputs"])):
            yield row, decision_id(before["score_id"] if before else None, row)


def decision_id(before: str | None, row: Row) -> str:
    """The id of a decision on a pull request: of the one before it, None for the first, what was judged and inputs."""
    return _digest([before, *(row[name] for name in JUDGED)])


def _person_id(row: Row, position: int) -> str:
    return _digest([position, [str(value) for value in row.values()]])


def _digest(value: object) -> str:
    return hashlib.blake2b(to_json(value).encode(), digest_size=16).hexdigest()


def _row(row: Row, one: Pass) -> dict[str, Any]:
    """A row of `scores` but for its id."""
    kept = dict.fromkeys(JUDGED) | {name: value for name, value in row.items() if name not in NO_HISTORY}
    return kept | {"data_version": one.position, "decided_clock": one.wall}


def _differs(before: Row | None, after: Row) -> bool:
    if before is None:
        return True
    if any(before.get(name) != after.get(name) for name in SUBSTANCE):
        return True
    if before["reasons"] != after["reasons"] and reason_codes(before["reasons"]) != reason_codes(after["reasons"]):
        return True
    return abs((before["probability"] or 0.0) - (after["probability"] or 0.0)) >= NOTABLE


def _judged_from_else(before: str | None, after: str) -> bool:
    """Return whether two stored inputs differ notably; a row of an older version has none."""
    if before is None or before == after:
        return before is None
    return differ_notably(msgspec.json.decode(before), msgspec.json.decode(after))
