"""The gate: which lane, and why. Pure functions of the evidence and the thresholds; they inform and route, never block.

Comparisons are exact on the unrounded probability: P >= T_HIGH is at the threshold, P < T_LOW is below it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from scoring.estimators import factors, shrunk_rate
from scoring.threshold import items_needed
from scoring.verdict import Content, Estimate, Evidence, Lane, Param, Reason, Verdict

LaneAndReasons = tuple[Lane, tuple[Reason, ...]]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the lanes begin. `t_high` None: the fast lane is shut.

    `certified` says that a certificate stands behind `t_high`; an operator's own value has none. `budget` is the rate
    of false approvals that may happen, `delta` the chance that it is exceeded all the same. `settled` is how many
    settled pull requests could count towards a certificate so far, None where nobody counted. `trust` is the s that the
    fast lane asks for, `two_ways` whether it also asks that no single account but a seed can end that trust. `r_low` is
    the highest content risk of the fast lane, `r_high` the one from which a person looks. Raises ValueError for NaN,
    for values outside their range, for a `t_high` below `t_low` and for an `r_high` at or below `r_low`.
    """

    t_low: float = 0.30
    t_high: float | None = None
    certified: bool = False
    budget: float = 0.05
    delta: float = 0.05
    settled: int | None = None
    trust: float = 0.5
    two_ways: bool = True
    r_low: float = 0.20
    r_high: float = 0.60

    def __post_init__(self) -> None:
        _check_unit("T_LOW", self.t_low)
        _check_unit("TRUST_FAST_LANE", self.trust)
        _check_unit("R_LOW", self.r_low)
        _check_unit("R_HIGH", self.r_high)
        if self.r_high <= self.r_low:
            raise ValueError(f"R_HIGH ({self.r_high}) must be above R_LOW ({self.r_low})")
        if self.t_high is not None:
            _check_unit("T_HIGH", self.t_high)
            if self.t_high < self.t_low:
                raise ValueError(f"T_HIGH ({self.t_high}) must not be below T_LOW ({self.t_low})")
        items_needed(self.budget, self.delta)


def judge(evidence: Evidence, thresholds: Thresholds, prior: float, strength: float) -> Verdict:
    """The whole judgement of one contributor, whatever they send next: estimate, factors, lane and reasons."""
    return _judged(evidence, thresholds, prior, strength, decide)


def judge_change(
    evidence: Evidence, content: Content | None, thresholds: Thresholds, prior: float, strength: float
) -> Verdict:
    """The whole judgement of one change of theirs; `content` is None while nobody has reviewed it."""
    return _judged(evidence, thresholds, prior, strength, partial(decide_change, content=content))


def decide(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> tuple[Lane, tuple[Reason, ...]]:
    """The lane of a contributor with its reasons: what decided first, then what held it back, then what is known.

    needs_human: a seed denounced this contributor, or P < T_LOW. fast_lane: P >= T_HIGH, and trust from the seeds of at
    least `thresholds.trust` which the loss of no single account but a seed would end: whoever a stolen account brings
    hangs on it, whatever their number and their records (`scoring.worth`). Everything else, not enough evidence
    included, is normal_queue. Raises ValueError for NaN or values outside [0, 1].
    """
    _check(evidence, estimate)
    deciding = _needs_human(evidence, estimate, thresholds)
    held_back = _held_back(evidence, estimate, thresholds)
    return _decided(evidence, thresholds, deciding, held_back, (Reason("content_not_reviewed", {}),))


def decide_change(
    evidence: Evidence, estimate: Estimate, thresholds: Thresholds, content: Content | None
) -> tuple[Lane, tuple[Reason, ...]]:
    """The lane of one change with its reasons: what `decide` says of the contributor, and what its content adds.

    Content can only lower. needs_human also for a risk >= R_HIGH or any high flag; fast_lane also asks for a content
    verdict on the whole change with a risk <= R_LOW and no review recommended. Raises ValueError as `decide` does.
    """
    _check(evidence, estimate)
    if content is not None:
        _check_unit("content risk", content.risk)
        _check_unit("coverage", content.coverage)
    deciding = (*_needs_human(evidence, estimate, thresholds), *_alarming(content, thresholds))
    held_back = (*_held_back(evidence, estimate, thresholds), *_unclear(content, thresholds))
    return _decided(evidence, thresholds, deciding, held_back, ())


def _judged(
    evidence: Evidence, thresholds: Thresholds, prior: float, strength: float, lane_of: Callable[..., LaneAndReasons]
) -> Verdict:
    estimate = shrunk_rate(evidence.clean, evidence.not_clean, prior, strength)
    lane, reasons = lane_of(evidence, estimate, thresholds)
    return Verdict(lane, estimate, reasons, factors(evidence, prior, strength))


def _decided(
    evidence: Evidence,
    thresholds: Thresholds,
    deciding: tuple[Reason, ...],
    held_back: tuple[Reason, ...],
    caveats: tuple[Reason, ...],
) -> LaneAndReasons:
    lane = Lane.NEEDS_HUMAN if deciding else Lane.NORMAL_QUEUE if held_back else Lane.FAST_LANE
    return lane, (*(deciding or held_back), *_known(evidence), *_uncertified(lane, thresholds), *caveats)


def _check(evidence: Evidence, estimate: Estimate) -> None:
    _check_unit("structural trust", evidence.structural_trust)
    if estimate.probability is not None:
        _check_unit("P(clean)", estimate.probability)


def _alarming(content: Content | None, thresholds: Thresholds) -> tuple[Reason, ...]:
    """What in the change asks for a person's eyes; empty if nothing does."""
    if content is None:
        return ()
    if content.high_flags:
        told = {"count": content.high_flags, "type": content.worst, "place": content.place}
        return (Reason("high_flag", told),)
    if content.risk >= thresholds.r_high:
        return (Reason("content_risk_high", {"risk": content.risk, "r_high": thresholds.r_high}),)
    return ()


def _unclear(content: Content | None, thresholds: Thresholds) -> tuple[Reason, ...]:
    """What the change's review lacks for the fast lane; empty where it is enough."""
    if content is None:
        return (Reason("content_not_reviewed", {}),)
    reasons = []
    if not content.has_verdict:
        reasons.append(Reason("no_content_verdict", {"missing": content.missing}))
    if content.coverage < 1:
        reasons.append(Reason("content_partly_read", {"coverage": content.coverage}))
    if content.risk > thresholds.r_low:
        reasons.append(Reason("content_risk_above", {"risk": content.risk, "r_low": thresholds.r_low}))
    if content.recommended:
        reasons.append(Reason("review_recommended", {"type": content.worst, "place": content.place}))
    return tuple(reasons)


def _needs_human(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> tuple[Reason, ...]:
    """What asks for a person's eyes; empty if nothing does."""
    reasons = []
    if evidence.denounced_by_seed:
        reasons.append(Reason("denounced_by_seed", {}))
    if estimate.probability is not None and estimate.probability < thresholds.t_low:
        reasons.append(Reason("low_probability", {"probability": estimate.probability, "t_low": thresholds.t_low}))
    return tuple(reasons)


def _held_back(evidence: Evidence, estimate: Estimate, thresholds: Thresholds) -> tuple[Reason, ...]:
    """What keeps this out of the fast lane, strongest first; empty if nothing does."""
    reasons = []
    if estimate.probability is None:
        reasons.append(Reason("not_enough_evidence", {"waiting": evidence.waiting}))
    if thresholds.t_high is None:
        needed = items_needed(thresholds.budget, thresholds.delta)
        reasons.append(Reason("fast_lane_shut", {"needed": needed, "have": thresholds.settled}))
    elif estimate.probability is not None and estimate.probability < thresholds.t_high:
        reasons.append(Reason("below_fast_lane", {"probability": estimate.probability, "t_high": thresholds.t_high}))
    return (*reasons, *_too_weak(evidence, thresholds))


def _too_weak(evidence: Evidence, thresholds: Thresholds) -> tuple[Reason, ...]:
    """What the trust lacks for the fast lane; empty where it is enough."""
    if evidence.structural_trust <= 0:
        return (Reason("no_trust_path", {}),)
    reasons = []
    if evidence.structural_trust < thresholds.trust:
        params = {"structural_trust": evidence.structural_trust, "needed": thresholds.trust}
        reasons.append(Reason("trust_too_low", params))
    if thresholds.two_ways and evidence.one_account:
        reasons.append(Reason("one_account_path", {}))
    return tuple(reasons)


def _known(evidence: Evidence) -> tuple[Reason, ...]:
    """What is known: who vouches, who denounces, and what became of earlier contributions."""
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
    """How many trusted people denounce: they take trust, and open and shut no lane by themselves."""
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


def _uncertified(lane: Lane, thresholds: Thresholds) -> tuple[Reason, ...]:
    """That no certificate stands behind the fast lane that was chosen; empty for another lane."""
    if lane is Lane.FAST_LANE and not thresholds.certified:
        return (Reason("threshold_not_certified", {"t_high": thresholds.t_high}),)
    return ()


def _check_unit(name: str, value: float) -> None:
    """Refuse what is not a number in [0, 1]."""
    if not 0 <= value <= 1:  # also true of NaN
        raise ValueError(f"{name} must be a number in [0, 1], not {value}")
