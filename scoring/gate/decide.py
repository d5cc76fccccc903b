"""The gate: which lane, and why. Pure functions of the evidence and the thresholds; they inform and route, never block.

`decide` weighs P(clean) and the content; `scoring.gate.conditions.lane_conditions` can only lower what it says.
Comparisons are exact on the unrounded probability: P >= T_HIGH is at the threshold, P < T_LOW is below it.
"""

from collections.abc import Sequence

from scoring.gate.conditions import NO_CHANGE, ORDINARY, TO_A_PERSON, lane_conditions, strongest_first
from scoring.models.registry import SHRUNK_RATE, factors, shrunk_rate
from scoring.thresholds import Thresholds, check_unit, items_needed
from scoring.types import Circumstances, Content, Estimate, Evidence, Lane, Param, Prediction, Reason, Verdict

# Raise it with every change of what the gate, its conditions, the shrunk rate or the thresholds make of their inputs:
# all open pull requests are then decided anew. A test holds a table of inputs and outputs against it.
GATE_VERSION = "1"


def judge(
    evidence: Evidence,
    thresholds: Thresholds,
    prior: float,
    strength: float,
    prediction: Prediction | None = None,
) -> Verdict:
    """The whole judgement of one contributor, whatever they send next: estimate, factors, lane and reasons.

    `prediction` is that of the model that serves; without one the shrunk rate is the estimate.
    """
    said = prediction or shrunk(evidence, prior, strength)
    lane, reasons = decide_person(evidence, said.estimate, thresholds)
    return Verdict(lane, said.estimate, reasons, said.factors)


def judge_change(
    evidence: Evidence,
    content: Content | None,
    circumstances: Circumstances,
    thresholds: Thresholds,
    prior: float,
    strength: float,
    prediction: Prediction | None = None,
) -> Verdict:
    """The whole judgement of one change of theirs; `content` is None while nobody has reviewed it."""
    said = prediction or shrunk(evidence, prior, strength)
    lane, reasons = decide_change(evidence, said.estimate, content, circumstances, thresholds)
    return Verdict(lane, said.estimate, reasons, said.factors)


def shrunk(evidence: Evidence, prior: float, strength: float) -> Prediction:
    """The shrunk rate as a prediction: what serves where no model does."""
    estimate = shrunk_rate(evidence.clean, evidence.not_clean, prior, strength)
    return Prediction(estimate, factors(evidence, prior, strength), SHRUNK_RATE)


def decide(
    evidence: Evidence, estimate: Estimate, content: Content | None, thresholds: Thresholds
) -> tuple[Lane, tuple[Reason, ...]]:
    """The lane by P(clean) and content alone, and why it is no better one; strongest first.

    needs_human: a seed denounced this contributor, P < T_LOW, a risk >= R_HIGH or any high flag. fast_lane: P >= T_HIGH
    and a review with a risk <= R_LOW that recommends no other. Everything else, not enough evidence included, is
    normal_queue. Raises ValueError for NaN or values outside [0, 1].
    """
    _check(evidence, estimate, content)
    held = [*_of_person(evidence, estimate, thresholds), *_of_content(content, thresholds)]
    if any(reason.code in TO_A_PERSON for reason in held):
        return Lane.NEEDS_HUMAN, strongest_first(held)
    return (Lane.NORMAL_QUEUE if held else Lane.FAST_LANE), strongest_first(held)


def decide_change(
    evidence: Evidence,
    estimate: Estimate,
    content: Content | None,
    circumstances: Circumstances,
    thresholds: Thresholds,
) -> tuple[Lane, tuple[Reason, ...]]:
    """The lane of one change with its reasons: all that held it back, strongest first, then what is known.

    `decide`, lowered by `lane_conditions`. Raises ValueError as `decide` does.
    """
    lane, held = decide(evidence, estimate, content, thresholds)
    lane, more = lane_conditions(lane, evidence, content, circumstances, thresholds)
    reasons = strongest_first([*held, *more])
    return lane, (*reasons, *_known(evidence), *_uncertified(lane, reasons, thresholds))


def decide_person(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> tuple[Lane, tuple[Reason, ...]]:
    """The best lane that a change by this contributor could have: `decide_change` of one that nothing speaks against.

    The last reason says that there is no change whose content was reviewed.
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


def _of_person(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> list[Reason]:
    """Return what the contributor's side says against a better lane; empty where nothing does."""
    probability, reasons = estimate.probability, []
    if evidence.denounced_by_seed:
        reasons.append(Reason("denounced_by_seed", {}))
    low = probability is not None and probability < thresholds.t_low
    if probability is None or (low and evidence.clean + evidence.not_clean == 0):  # lack of history flags nobody
        reasons.append(Reason("not_enough_evidence", {"waiting": evidence.waiting}))
    elif low:
        bound = {"budget": thresholds.low_budget} if thresholds.low_certified else {}
        reasons.append(Reason("low_probability", {"probability": probability, "t_low": thresholds.t_low} | bound))
    if thresholds.t_high is None:
        reasons.append(shut_reason(thresholds))
    elif probability is not None and thresholds.t_low <= probability < thresholds.t_high:
        reasons.append(Reason("below_fast_lane", {"probability": probability, "t_high": thresholds.t_high}))
    return reasons


def shut_reason(thresholds: Thresholds) -> Reason:
    """Return why the fast lane is shut: what shut it, or that no threshold was certified yet."""
    if thresholds.shut is not None:
        return thresholds.shut
    needed = items_needed(thresholds.budget, thresholds.delta)
    return Reason("fast_lane_shut", {"needed": needed, "have": thresholds.settled})


def _of_content(content: Content | None, thresholds: Thresholds) -> list[Reason]:
    """Return what the change's review says against a better lane; empty where nothing does."""
    if content is None:
        return [Reason("content_not_reviewed", {})]
    reasons = []
    if content.high_flags:
        told = {"count": content.high_flags, "type": content.worst, "place": content.place}
        reasons.append(Reason("high_flag", told))
    if content.risk >= thresholds.r_high:
        reasons.append(Reason("content_risk_high", {"risk": content.risk, "r_high": thresholds.r_high}))
    elif content.risk > thresholds.r_low:
        reasons.append(Reason("content_risk_above", {"risk": content.risk, "r_low": thresholds.r_low}))
    if content.recommended and not content.high_flags:
        reasons.append(Reason("review_recommended", {"type": content.worst, "place": content.place}))
    return reasons


def _known(evidence: Evidence) -> tuple[Reason, ...]:
    """Return what is known: who vouches, who denounces, and what became of earlier contributions."""
    return (*_trust(evidence), *_denounces(evidence), _track_record(evidence))


def _trust(evidence: Evidence) -> tuple[Reason, ...]:
    """The trust path as a reason; empty where there is none, or where a seed's denounce outweighs it."""
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
    """A path of at least one vouch in short; `merges` and `seed_merges` where the last or first vouch is merges."""
    params: dict[str, Param] = {"seed": evidence.path[0], "voucher": evidence.path[-2], "hops": len(evidence.path) - 1}
    if any(evidence.path_merges):
        params |= {"merges": evidence.path_merges[-1], "seed_merges": evidence.path_merges[0]}
    return params


def _denounces(evidence: Evidence) -> tuple[Reason, ...]:
    """Return how many trusted people denounce: they take trust, and open and shut no lane by themselves."""
    count = evidence.trusted_denouncers
    return (Reason("trusted_denouncers", {"count": count}),) if count else ()


def _track_record(evidence: Evidence) -> Reason:
    """The counts behind P(clean), here and everywhere that counts."""
    counts = {
        "merged_here": evidence.merged_here,
        "settled_here": evidence.settled_here,
        "clean": evidence.clean,
        "cases": evidence.clean + evidence.not_clean,
        "waiting": evidence.waiting,
    }
    return Reason("track_record", counts)


def _uncertified(lane: Lane, held: Sequence[Reason], thresholds: Thresholds) -> tuple[Reason, ...]:
    """Return the reason that no certificate backs the chosen fast lane; empty for another lane.

    What the audit drew from an estimated lane has it too.
    """
    is_drawn = any(reason.code == "audit_drawn" for reason in held)
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
