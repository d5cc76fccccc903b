"""Decides on open pull requests: selects them, builds the inputs of the gate, draws for the audit, writes the history.

The history has a row of `scores` for every judgement that differs in substance from the last one of the same subject.
For a person that is the lane, the codes of the reasons, the number of cases, or P by half a point. For a pull request
it is also the round and patch, and anything in its inputs but figures that drift by less than that
(`scoring.gate.decide.differ_notably`). The id of a decision is a hash of the decision before it, the round and patch,
and the inputs: the same inputs judged again write nothing, and a pass repeated after a kill gives the same ids.

The audit draw is a sample of the fast-laned pull requests that a person checks all the same: a keyed hash of the
round, which without the key cannot be told from chance and with it can be repeated. Each round is drawn anew, else
somebody who saw that a round was not drawn could send anything as the next one; a pull request that was drawn once
stays drawn, else another round would be a way out. So the odds that are stored with a round are those of a draw of it
or of one before it: an audited outcome weighs 1 / odds.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ingest.store.transaction import Rows, Transaction
from scoring.config.policy import AuditRules, Policy
from scoring.formatting import basis_points
from scoring.gate.decide import GATE_VERSION, NOTABLE, Inputs, differ_notably, judge_inputs
from scoring.models.serving import Predictions
from scoring.models.starter import BorrowedOrder
from scoring.pipeline.stored import reason_codes
from scoring.thresholds import Thresholds, check_unit
from scoring.types import Circumstances, Content, Draw, Evidence, Prediction, Verdict

PURPOSE = b"audit draw\x00"  # the key serves other purposes too
UNIT = 2.0**-64


def audit_odds(rules: AuditRules, drawn_from: int, daily: float) -> float:
    """Return the odds in [0, 1] of the next pull request, after `drawn_from` others took part, `daily` a day."""
    if drawn_from < rules.first:
        return 1.0
    daily_share = rules.per_day / daily if daily > 0 else float(rules.per_day > 0)
    return min(max(rules.share, daily_share), 1.0)


class RoundKey(NamedTuple):
    """One round of a pull request as a decision names it; "" for a part that is not known."""

    pull_uri: str
    round: int
    record_cid: str
    patch_id: str


def draw_audit(key: bytes, round_key: RoundKey, odds: float) -> Draw:
    """Draw this round with these odds; equal arguments give an equal draw. ValueError without a key."""
    if not key:
        raise ValueError("the audit draw needs a key: without one its outcome could be foretold")
    check_unit("the odds of the audit", odds)
    digest = hmac.digest(key, PURPOSE + "\x00".join(map(str, round_key)).encode(), "sha256")
    return Draw(int.from_bytes(digest[:8], "big") * UNIT < odds, odds)


NOT_DRAWN = Draw(False, 0.0)


@dataclass(slots=True)
class AuditSampler:
    """Draws the rounds of one pass into `draws`, after `drawn_from` pull requests in all and `daily` a day.

    `earlier` is the newest draw of each open pull request that took part before. Its further rounds take no turn from
    another one: else many rounds of one pull request would use up the first turns, which are all audited.
    """

    rules: AuditRules
    key: bytes
    drawn_from: int
    daily: float
    earlier: Mapping[str, Draw] = field(default_factory=dict)  # by pull_uri
    draws: dict[RoundKey, tuple[int, Draw, bool]] = field(
        default_factory=dict
    )  # values: repository_id, draw, estimated
    turns: int = 0

    def draw(self, round_key: RoundKey, repository_id: int, estimated: bool = False) -> Draw:
        """Draw a round that has no draw yet, with the odds of its turn and of the rounds before it.

        A change that an `estimated` lane lets through takes no turn: its odds are the same from the first one on.
        """
        before = self.earlier.get(round_key.pull_uri, NOT_DRAWN)
        odds = self.rules.estimated if estimated else audit_odds(self.rules, self.drawn_from + self.turns, self.daily)
        alone = draw_audit(self.key, round_key, odds)
        draw = Draw(before.drawn or alone.drawn, min(before.odds + (1 - before.odds) * alone.odds, 1.0))
        self.turns += not estimated and round_key.pull_uri not in self.earlier
        self.draws[round_key] = repository_id, draw, estimated
        return draw


OPEN_PULLS = """
select p.pull_uri, p.author_id, p.repository_id, p.record_cid, p.round, t.patch_id,
  exists (from own_people o where o.repository_id = p.repository_id and o.contributor_id = p.author_id) as own,
  -- Where content review is off no content opens a lane, but earlier findings still count.
  if(w.review = 'off' and c.state is not null, 'no content verdict', c.state) as state,
  if(w.review = 'off', 'review_off', c.missing) as missing,
  c.content_risk, c.recommended, c.coverage, c.high_flags, c.worst, c.place, c.rules as review_version
from pull_requests p join watched_repositories w using (repository_id)
-- A pull request that arrived during this pass has no features yet: the next pass finds it.
semi join features f on f.contributor_id = p.author_id and f.repository_id = p.repository_id
left join patches t on t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref
-- The newest review of this round, title and body; after an update of the rules the old one until it is read anew.
left join (
  from content_reviews where state <> 'running'
  qualify row_number() over (partition by pull_uri, patch_ref, said order by reviewed_clock desc, rules) = 1
) c on c.pull_uri = p.pull_uri and c.patch_ref = p.patch_ref and c.said = md5(concat_ws(chr(31), p.title, p.body))
where p.state = 'open'
"""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass in one repository: the number of the inputs that it read, its moment and its rules."""

    position: int
    now: datetime
    wall: datetime
    policy: Policy
    thresholds: Thresholds
    sampler: AuditSampler | None = None  # None: nothing is drawn in this pass
    predictions: Predictions = field(default_factory=Predictions)
    borrowed: BorrowedOrder = field(default_factory=BorrowedOrder)  # for the order of the queue alone
    graph: Mapping[str, float] = field(default_factory=dict)  # P(clean) by the graph network, only shown, by address
    shadow: bool = False  # lanes are shown as what they would be


class Basis(NamedTuple):
    """All that a decision on an open pull request rests on besides the rules of the whole site.

    By the same rules equal bases give equal rows but for `as_of`. `is_audited`: a draw can be made.
    """

    pull: Mapping[str, Any]  # a row of OPEN_PULLS
    evidence: Evidence
    around: Circumstances
    thresholds: Thresholds
    shadow: bool
    is_audited: bool
    prediction: Prediction | None
    shown: Mapping[str, Any]  # columns that no decision rests on

    @classmethod
    def of(cls, scoring_pass: "Pass", pull: Mapping[str, Any], evidence: Evidence, around: Circumstances) -> "Basis":
        """Gather it for one row of OPEN_PULLS."""
        uri = pull["pull_uri"]
        shown = {**scoring_pass.borrowed.columns(uri), "graph": scoring_pass.graph.get(uri)}
        repository = (scoring_pass.thresholds, scoring_pass.shadow, scoring_pass.sampler is not None)
        return cls(pull, evidence, around, *repository, scoring_pass.predictions.changes.get(uri), shown)


def verdict_columns(scoring_pass: Pass, evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
    probability = verdict.estimate.probability
    return {
        "as_of": scoring_pass.now,
        "probability": probability,
        "probability_bp": None if probability is None else basis_points(probability),
        "low": verdict.estimate.low,
        "high": verdict.estimate.high,
        "cases": verdict.estimate.cases,
        "structural_trust": evidence.structural_trust,
        "eigentrust": evidence.eigentrust,
        "lane": str(verdict.lane),
        "reasons": to_json(verdict.reasons),
        "factors": to_json(verdict.factors),
        "model_version": scoring_pass.predictions.model,
        "trust_measure": scoring_pass.policy.measure,
    }


def decide_pull(scoring_pass: Pass, basis: Basis) -> dict[str, Any]:
    """Judge one open pull request; return a row of `current_decisions`.

    A change that is fast-laned but for the audit is drawn here.
    """
    pull = basis.pull
    named = {name: pull[name] for name in ("pull_uri", "repository_id", "record_cid", "round", "patch_id", "own")}
    around = replace(basis.around, judged_round=pull["round"])  # they were read later, perhaps of a newer round
    inputs = _build_inputs(scoring_pass, basis, around)
    verdict = judge_inputs(inputs)
    if any(reason.code == "audit_not_drawn" for reason in verdict.reasons):
        inputs = replace(inputs, circumstances=replace(around, draw=_draw(scoring_pass, pull)))
        verdict = judge_inputs(inputs)
    columns = {
        "contributor_id": pull["author_id"],
        "content_risk": inputs.content and inputs.content.risk,
        "thresholds": to_json(inputs.thresholds),
        "inputs": to_json(inputs),
        **basis.shown,
    }
    return named | columns | verdict_columns(scoring_pass, inputs.evidence, verdict)


def _draw(scoring_pass: Pass, pull: Mapping[str, Any]) -> Draw | None:
    """Draw one round for the audit; None without a sampler.

    Push-holders' own changes are never audited, nor those of an estimated lane that nobody has opened.
    """
    estimated = scoring_pass.thresholds.estimated is not None
    if pull["own"] or (estimated and scoring_pass.shadow):
        return NOT_DRAWN
    if scoring_pass.sampler is None:
        return None
    round_key = RoundKey(pull["pull_uri"], pull["round"], pull["record_cid"] or "", pull["patch_id"] or "")
    return scoring_pass.sampler.draw(round_key, pull["repository_id"], estimated)


def _build_inputs(scoring_pass: Pass, basis: Basis, around: Circumstances) -> Inputs:
    pull = basis.pull
    return Inputs(
        evidence=basis.evidence,
        content=read_content(pull) if pull["state"] else None,
        thresholds=basis.thresholds,
        prior=scoring_pass.policy.prior,
        strength=scoring_pass.policy.strength,
        measure=scoring_pass.policy.measure,
        model_version=scoring_pass.predictions.model,
        gate_version=GATE_VERSION,
        review_version=pull["review_version"],
        circumstances=around,
        prediction=basis.prediction,
    )


def read_content(pull: Mapping[str, Any]) -> Content:
    """Return the result of a review that has ended."""
    return Content(
        risk=pull["content_risk"],
        recommended=pull["recommended"],
        coverage=pull["coverage"],
        high_flags=pull["high_flags"],
        worst=pull["worst"],
        place=pull["place"],
        has_verdict=pull["state"] == "content verdict",
        missing=pull["missing"],
    )


def to_json(value: object) -> str:
    """Return a value as it is stored: JSON in one line, every number to its last digit."""
    return msgspec.json.encode(value).decode()


TURNOUT_DAYS = 14
# How many pull requests took part in the draw; those of an estimated lane take no turn.
TURNOUT = """
select count(*) as all_time, count(*) filter (first_at > $now - to_days($days)) as lately, min(first_at) as first_at
from (select min(drawn_at) as first_at from audit_draws where estimated is null group by pull_uri)
"""
# The draws of open pull requests so far: the odds of a round are never below those of the round before it.
EARLIER_DRAWS = """
select pull_uri, bool_or(drawn) as drawn, max(odds) as odds
from audit_draws semi join (from pull_requests where state = 'open') using (pull_uri) group by pull_uri
"""


def read_sampler(rows: Rows, now: datetime, policy: Policy) -> AuditSampler | None:
    """Read the state of the audit; None without a key: then a change that needs a draw is not fast-laned."""
    if not policy.audit_key:
        return None
    turnout = rows.row(TURNOUT, {"now": now, "days": TURNOUT_DAYS}) or {}
    first = turnout.get("first_at") or now
    days = min(max((now - first).total_seconds() / 86_400, 1.0), TURNOUT_DAYS)
    daily = (turnout.get("lately") or 0) / days
    earlier = {row["pull_uri"]: Draw(row["drawn"], row["odds"]) for row in rows.rows(EARLIER_DRAWS)}
    return AuditSampler(policy.audit, policy.audit_key, turnout.get("all_time") or 0, daily, earlier)


def append_draws(txn: Transaction, scoring_pass: Pass) -> None:
    if scoring_pass.sampler is None:
        return
    txn.append_new(
        "audit_draws",
        [
            {
                **round_key._asdict(),
                "repository_id": repository_id,
                "odds": draw.odds,
                "drawn": draw.drawn,
                "drawn_at": scoring_pass.now,
                "drawn_clock": scoring_pass.wall,
                "estimated": estimated or None,
            }
            for round_key, (repository_id, draw, estimated) in scoring_pass.sampler.draws.items()
        ],
    )


SUBSTANCE = ("lane", "record_cid", "round", "patch_id", "model_version", "trust_measure", "cases")
NO_HISTORY = ("own", "fingerprint", "borrowed", "borrowed_from", "graph")  # columns that no decision rests on
JUDGED = ("pull_uri", "record_cid", "round", "patch_id", "inputs")  # null in a row about a person
COMPARED = "lane, model_version, trust_measure, cases, reasons, probability"
CURRENT_SCORES = f"""
select contributor_id, repository_id, {COMPARED} from current_scores where contributor_id in (select unnest(?))
"""
CURRENT_DECISIONS = f"select {', '.join(JUDGED)} from current_decisions where pull_uri in (select unnest(?))"
LAST_DECISIONS = f"""
select pull_uri, record_cid, round, patch_id, inputs, score_id, {COMPARED} from scores
where pull_uri in (select unnest(?))
qualify row_number() over (
  partition by pull_uri order by data_version desc nulls last, as_of desc, decided_clock desc) = 1
"""
Row = Mapping[str, Any]


def append_scores(txn: Transaction, scoring_pass: Pass, people: Sequence[Row]) -> None:
    """Append the scores of people that differ in substance, before the current rows are replaced."""
    current = txn.rows(CURRENT_SCORES, [[row["contributor_id"] for row in people]]) if people else []
    before = {(row["contributor_id"], row["repository_id"]): row for row in current}
    changed = [row for row in people if _differs(before.get((row["contributor_id"], row["repository_id"])), row)]
    txn.append("scores", [_history_row(row, scoring_pass, _person_id(row, scoring_pass.position)) for row in changed])


def append_decisions(txn: Transaction, scoring_pass: Pass, pulls: Sequence[Row]) -> None:
    """Append the decisions that differ in substance, before the current rows are replaced."""
    changed = _changed_decisions(txn, pulls)
    txn.append("scores", [_history_row(row, scoring_pass, score_id) for row, score_id in changed])


def _changed_decisions(txn: Transaction, pulls: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield the decisions that differ from the last one on the pull request, each with its id."""
    current = {tuple(row.values()) for row in txn.rows(CURRENT_DECISIONS, [[row["pull_uri"] for row in pulls]])}
    others = [row for row in pulls if tuple(row[name] for name in JUDGED) not in current]
    if not others:
        return
    last = {row["pull_uri"]: row for row in txn.rows(LAST_DECISIONS, [[row["pull_uri"] for row in others]])}
    for row in others:
        before = last.get(row["pull_uri"])
        if _differs(before, row) or (before and _inputs_differ(before["inputs"], row["inputs"])):
            yield row, decision_id(before["score_id"] if before else None, row)


def decision_id(before: str | None, row: Row) -> str:
    """Hash a decision on a pull request: the id of the one before it (None for the first), round and inputs."""
    return _digest([before, *(row[name] for name in JUDGED)])


def _person_id(row: Row, position: int) -> str:
    return _digest([position, [str(value) for value in row.values()]])


def _digest(value: object) -> str:
    return hashlib.blake2b(to_json(value).encode(), digest_size=16).hexdigest()


def _history_row(row: Row, scoring_pass: Pass, score_id: str) -> dict[str, Any]:
    columns = dict.fromkeys(JUDGED) | {name: value for name, value in row.items() if name not in NO_HISTORY}
    return columns | {"data_version": scoring_pass.position, "decided_clock": scoring_pass.wall, "score_id": score_id}


def _differs(before: Row | None, after: Row) -> bool:
    if before is None:
        return True
    if any(before.get(name) != after.get(name) for name in SUBSTANCE):
        return True
    if before["reasons"] != after["reasons"] and reason_codes(before["reasons"]) != reason_codes(after["reasons"]):
        return True
    return abs((before["probability"] or 0.0) - (after["probability"] or 0.0)) >= NOTABLE


def _inputs_differ(before: str | None, after: str) -> bool:
    """Return whether two stored inputs differ notably; a row of an older version has none, and counts as different."""
    if before is None or before == after:
        return before is None
    return differ_notably(msgspec.json.decode(before), msgspec.json.decode(after))
