"""What makes a decision on an open pull request: which ones are judged, what of them, and the row that comes of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from ingest.decoding import decode_json
from scoring.audit import NOT_DRAWN, Ballot, Judged
from scoring.figures import basis_points
from scoring.gate import GATE_VERSION
from scoring.inputs import Inputs, judge_inputs, write_inputs
from scoring.policy import Policy
from scoring.review_rows import content_of
from scoring.rules import Thresholds
from scoring.serving import Predictions
from scoring.starter import Borrowed
from scoring.verdict import Circumstances, Draw, Evidence, Reason, Verdict

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
