"""The gate: which lane, and why. Pure functions of the evidence and the thresholds; they inform and route, never block.

`Inputs` holds everything that a decision on a pull request is made from: it is stored beside the decision and can be
judged again. `decide` weighs P(clean) and the content; `lane_conditions` can only lower the result. Comparisons are
exact on the unrounded probability: P >= T_HIGH is at the threshold, P < T_LOW is below it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ingest.json_decoding import decode_json
from scoring.gate.conditions import LaneAndReasons, lane_conditions, lower_lane, sort_by_strength
from scoring.models.registry import SHRUNK_RATE, factors, shrunk_rate
from scoring.thresholds import Thresholds, check_unit, items_needed
from scoring.types import (
    NO_ESTIMATE,
    Circumstances,
    Content,
    Draw,
    Estimate,
    Evidence,
    Lane,
    Measure,
    Param,
    Prediction,
    Reason,
    Verdict,
)

# The circumstances of a change without any fault: by these the conditions are checked where a contributor is judged
# alone.
ORDINARY = Circumstances(
    judged_round=0,
    newest_round=0,
    pending=(),
    account_changes=(),
    silent_days=0,
    touched=(),
    draw=Draw(False, 0.0),
    closures=(),
    objected=False,
    outdated=False,
)
NO_CHANGE = Content(risk=0.0, recommended=False)


# Raise it with every change of what the gate, its conditions, the shrunk rate or the thresholds make of their inputs:
# all open pull requests are then decided anew. A test holds a table of inputs and outputs against it.
GATE_VERSION = "8"
FEWEST_IN_RECORD = 5  # settled ones: with fewer a bad record may be chance
NOTABLE = 0.005  # a smaller change of a figure alone, as vouches age, is not worth a row
# Versions of the rules were once hashes of their sources: version 1 had these. Stored decisions keep what they were
# written with, since the id of a decision is a hash of its inputs.
HASHES_OF_VERSIONS = {"27687f2edd8ccd78": "1", "1beeb51dfe147950": "1"}
# Fields that are shown, but cause no new decision by themselves: the number of settled pull requests, which would touch
# all open ones, and a model's factors and what would raise P(clean), which move with every day that passes.
SHOWN_ONLY = frozenset({"settled", "factors", "ways"})


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision on one change: its facts, the thresholds and rules, and where those came from.

    `content` is None while nobody has reviewed the change; `prior` and `strength` are those of the shrunk rate, and
    `prediction` is a trained model's, which takes its place. A field that later rules add has a default, so that every
    stored row can be read.
    """

    evidence: Evidence
    content: Content | None
    thresholds: Thresholds
    prior: float
    strength: float
    measure: Measure = "first_passage"
    model_version: str = ""
    gate_version: str = ""  # of the rules that chose the lane
    review_version: str | None = None  # of the rules by which the change was read
    circumstances: Circumstances = field(default_factory=Circumstances)
    prediction: Prediction | None = None


def judge_inputs(inputs: Inputs) -> Verdict:
    """Judge one change; the same inputs by the same rules give the same verdict."""
    around, thresholds = inputs.circumstances, inputs.thresholds
    rate = (inputs.prior, inputs.strength)
    return judge_change(inputs.evidence, inputs.content, around, thresholds, *rate, inputs.prediction)


def read_inputs(stored: str) -> Inputs:
    """Read the inputs of a stored row, also of an older version; raises msgspec.ValidationError for other JSON."""
    inputs = decode_json(stored, Inputs)
    return replace(
        inputs,
        gate_version=HASHES_OF_VERSIONS.get(inputs.gate_version, inputs.gate_version),
        review_version=HASHES_OF_VERSIONS.get(inputs.review_version or "", inputs.review_version),
    )


def differ_notably(before: object, after: object) -> bool:
    """Return whether two stored inputs, decoded to plain values, differ by more than figures that drift by
    themselves.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = (before.keys() | after.keys()) - SHOWN_ONLY
        return any(differ_notably(before.get(name), after.get(name)) for name in names)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return any(map(differ_notably, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return HASHES_OF_VERSIONS.get(before, before) != after
    if isinstance(before, float) and isinstance(after, float):
        return abs(before - after) >= NOTABLE
    return before != after


def judge(
    evidence: Evidence,
    thresholds: Thresholds,
    prior: float,
    strength: float,
    prediction: Prediction | None = None,
) -> Verdict:
    """Judge one contributor, whatever they send next: estimate, factors, lane and reasons.

    `prediction` is that of the model that serves; without one the shrunk rate is the estimate.
    """
    prediction = _without_guess(prediction or predict_shrunk_rate(evidence, prior, strength), evidence, thresholds)
    lane, reasons = decide_person(evidence, prediction.estimate, thresholds)
    return Verdict(lane, prediction.estimate, reasons, prediction.factors)


def judge_change(
    evidence: Evidence,
    content: Content | None,
    circumstances: Circumstances,
    thresholds: Thresholds,
    prior: float,
    strength: float,
    prediction: Prediction | None = None,
) -> Verdict:
    """Judge one change by a contributor; `content` is None while nobody has reviewed it."""
    prediction = _without_guess(prediction or predict_shrunk_rate(evidence, prior, strength), evidence, thresholds)
    lane, reasons = decide_change(evidence, prediction.estimate, content, circumstances, thresholds)
    return Verdict(lane, prediction.estimate, reasons, prediction.factors)


def _without_guess(prediction: Prediction, evidence: Evidence, thresholds: Thresholds) -> Prediction:
    """Return the prediction without a number where no settled case had one near: it was never seen to hold there.

    A low one beside a bad record of FEWEST_IN_RECORD stays: whoever did worse than anybody before is not unknown.
    """
    probability = prediction.estimate.probability
    if probability is None or prediction.estimate.cases:
        return prediction
    if (
        probability < thresholds.t_low
        and _has_bad_record(evidence)
        and evidence.clean + evidence.not_clean >= FEWEST_IN_RECORD
    ):
        return prediction
    return replace(prediction, estimate=NO_ESTIMATE, factors=(), ways=())


def _has_bad_record(evidence: Evidence) -> bool:
    return 0 < evidence.clean + evidence.not_clean <= 2 * evidence.not_clean


def predict_shrunk_rate(evidence: Evidence, prior: float, strength: float) -> Prediction:
    """Return the shrunk rate as a prediction; it serves where no model does."""
    estimate = shrunk_rate(evidence.clean, evidence.not_clean, prior, strength)
    return Prediction(estimate, factors(evidence, prior, strength), SHRUNK_RATE)


def decide(evidence: Evidence, estimate: Estimate, content: Content | None, thresholds: Thresholds) -> LaneAndReasons:
    """Return the lane by P(clean) and content alone, and the reasons against a better one, the strongest first.

    needs_human: a seed denounced this contributor, P < T_LOW of somebody of whose settled work at least half was not
    clean, a risk >= R_HIGH or any high flag. fast_lane: P >= T_HIGH and a review with a risk <= R_LOW that recommends
    no further review. Everything else, not enough evidence included, is normal_queue. Raises ValueError for NaN or
    values outside [0, 1].
    """
    _check(evidence, estimate, content)
    reasons = [*_person_reasons(evidence, estimate, thresholds), *_content_reasons(content, thresholds)]
    return lower_lane(Lane.FAST_LANE, reasons), sort_by_strength(reasons)


def decide_change(
    evidence: Evidence,
    estimate: Estimate,
    content: Content | None,
    circumstances: Circumstances,
    thresholds: Thresholds,
) -> LaneAndReasons:
    """Return the lane of one change: `decide`, lowered by `lane_conditions`; and its reasons.

    The reasons against a better lane come first, the strongest first, then what is known. Raises ValueError as `decide`
    does.
    """
    lane, reasons = decide(evidence, estimate, content, thresholds)
    lane, unmet = lane_conditions(lane, evidence, content, circumstances, thresholds)
    against = sort_by_strength([*reasons, *unmet])
    known = (*_trust_reasons(evidence), *_denounce_reasons(evidence), _track_record(evidence))
    return lane, (*against, *known, *_certificate_reasons(lane, against, thresholds))


def decide_person(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> LaneAndReasons:
    """Return the best lane that a change by this contributor could have: that of a change without any fault.

    The last reason says that no content was reviewed.
    """
    lane, reasons = decide_change(evidence, estimate, NO_CHANGE, ORDINARY, thresholds)
    return lane, (*reasons, Reason("content_not_reviewed", {}))


def _check(evidence: Evidence, estimate: Estimate, content: Content | None) -> None:
    check_unit("structural trust", evidence.structural_trust)
    if estimate.probability is not None:
        check_unit("P(clean)", estimate.probability)
    if content is not None:
        check_unit("content risk", content.risk)
        check_unit("coverage", content.coverage)


def _person_reasons(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> list[Reason]:
    probability, reasons = estimate.probability, []
    if evidence.denounced_by_seed:
        reasons.append(Reason("denounced_by_seed", {}))
    low = probability is not None and probability < thresholds.t_low
    # A low chance flags only beside a bad record: neither lack of history nor what a change looks like flags alone.
    if probability is None or (low and not _has_bad_record(evidence)):
        told = {} if probability is None else {"probability": probability}
        record = evidence.clean + evidence.not_clean
        known = {"record": record, "clean": evidence.clean} if record else {}
        reasons.append(Reason("not_enough_evidence", {"waiting": evidence.waiting} | told | known))
    elif low:
        bound = {"budget": thresholds.low_budget} if thresholds.low_certified else {}
        reasons.append(Reason("low_probability", {"probability": probability, "t_low": thresholds.t_low} | bound))
    if thresholds.t_high is None:
        reasons.append(shut_reason(thresholds))
    elif probability is not None and thresholds.t_low <= probability < thresholds.t_high:
        reasons.append(Reason("below_fast_lane", {"probability": probability, "t_high": thresholds.t_high}))
    return reasons


def shut_reason(thresholds: Thresholds) -> Reason:
    """Return why the fast lane is shut: the reason that shut it, or that no threshold was certified yet."""
    if thresholds.shut is not None:
        return thresholds.shut
    needed = items_needed(thresholds.budget, thresholds.delta)
    return Reason("fast_lane_shut", {"needed": needed, "have": thresholds.settled})


def _content_reasons(content: Content | None, thresholds: Thresholds) -> list[Reason]:
    if content is None:
        return [Reason("content_not_reviewed", {})]
    reasons = []
    if content.high_flags:
        params = {"count": content.high_flags, "type": content.worst, "place": content.place}
        reasons.append(Reason("high_flag", params))
    if content.risk >= thresholds.r_high:
        reasons.append(Reason("content_risk_high", {"risk": content.risk, "r_high": thresholds.r_high}))
    elif content.risk > thresholds.r_low:
        reasons.append(Reason("content_risk_above", {"risk": content.risk, "r_low": thresholds.r_low}))
    if content.recommended and not content.high_flags:
        reasons.append(Reason("review_recommended", {"type": content.worst, "place": content.place}))
    return reasons


def _trust_reasons(evidence: Evidence) -> tuple[Reason, ...]:
    """Return the trust path as a reason; empty where there is none, or where a seed's denounce outweighs it."""
    if evidence.denounced_by_seed:
        return ()
    if evidence.is_seed:
        return (Reason("is_seed", {}),)
    if evidence.structural_trust <= 0:
        return ()
    if len(evidence.path) < 2:
        return (Reason("trust_reaches", {"structural_trust": evidence.structural_trust}),)
    return (Reason("trust_path", path_params(evidence)),)


def path_params(evidence: Evidence) -> dict[str, Param]:
    """Return the ends of a path of at least one vouch; `merges` and `seed_merges` where a vouch on it is merges."""
    params: dict[str, Param] = {"seed": evidence.path[0], "voucher": evidence.path[-2], "hops": len(evidence.path) - 1}
    if any(evidence.path_merges):
        params |= {"merges": evidence.path_merges[-1], "seed_merges": evidence.path_merges[0]}
    return params


def _denounce_reasons(evidence: Evidence) -> tuple[Reason, ...]:
    """Return how many trusted people denounce: they take trust, but neither open nor shut a lane by themselves."""
    count = evidence.trusted_denouncers
    return (Reason("trusted_denouncers", {"count": count}),) if count else ()


def _track_record(evidence: Evidence) -> Reason:
    counts = {
        "merged_here": evidence.merged_here,
        "settled_here": evidence.settled_here,
        "clean": evidence.clean,
        "cases": evidence.clean + evidence.not_clean,
        "waiting": evidence.waiting,
    }
    return Reason("track_record", counts)


def _certificate_reasons(lane: Lane, against: Sequence[Reason], thresholds: Thresholds) -> tuple[Reason, ...]:
    """Return the reason that no certificate backs the chosen fast lane; empty for another lane.

    A change that the audit drew from an estimated lane has it too.
    """
    is_drawn = any(reason.code == "audit_drawn" for reason in against)
    if thresholds.estimated is not None and (lane is Lane.FAST_LANE or is_drawn):
        return (estimated_reason(thresholds),)
    if lane is Lane.FAST_LANE and not thresholds.certified:
        return (Reason("threshold_not_certified", {"t_high": thresholds.t_high}),)
    return ()


def estimated_reason(thresholds: Thresholds) -> Reason:
    """Return the reason that T_HIGH is an estimate, with the interval of the bad share; ValueError without one."""
    if thresholds.estimated is None:
        raise ValueError("these thresholds rest on no estimate")
    low, high = thresholds.estimated
    return Reason("threshold_estimated", {"t_high": thresholds.t_high, "bad_low": low, "bad_high": high})
