"""The gate: which lane, and why. Pure functions of the evidence and the thresholds; they inform and route, never block.

Comparisons are exact on the unrounded probability: P >= T_HIGH is at the threshold, P < T_LOW is below it.
"""

from dataclasses import dataclass

from scoring.estimators import factors, shrunk_rate
from scoring.threshold import items_needed
from scoring.verdict import Estimate, Evidence, Lane, Param, Reason, Verdict


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the lanes begin. `t_high` None: the fast lane is shut.

    `certified` says that a certificate stands behind `t_high`; an operator's own value has none. `budget` is the rate
    of false approvals that may happen, `delta` the chance that it is exceeded all the same. `settled` is how many
    settled pull requests could count towards a certificate so far, None where nobody counted. Raises ValueError for
    NaN, for values outside their range, and for a `t_high` below `t_low`.
    """

    t_low: float = 0.30
    t_high: float | None = None
    certified: bool = False
    budget: float = 0.05
    delta: float = 0.05
    settled: int | None = None

    def __post_init__(self) -> None:
        _check_unit("T_LOW", self.t_low)
        if self.t_high is not None:
            _check_unit("T_HIGH", self.t_high)
            if self.t_high < self.t_low:
                raise ValueError(f"T_HIGH ({self.t_high}) must not be below T_LOW ({self.t_low})")
        items_needed(self.budget, self.delta)


def judge(
    evidence: Evidence, thresholds: Thresholds, prior: float, strength: float, content_reviewed: bool = False
) -> Verdict:
    """The whole judgement of one contributor or pull request: estimate, factors, lane and reasons."""
    estimate = shrunk_rate(evidence.clean, evidence.not_clean, prior, strength)
    lane, reasons = decide(evidence, estimate, thresholds, content_reviewed)
    return Verdict(lane, estimate, reasons, factors(evidence, prior, strength))


def decide(
    evidence: Evidence, estimate: Estimate, thresholds: Thresholds, content_reviewed: bool = False
) -> tuple[Lane, tuple[Reason, ...]]:
    """The lane with its reasons: what decided first, then what held it back, then what is known; never empty.

    needs_human: a seed denounced this contributor, or P < T_LOW. fast_lane: P >= T_HIGH and trust from a seed.
    Everything else, not enough evidence included, is normal_queue. Raises ValueError for NaN or values outside [0, 1].
    """
    _check_unit("structural trust", evidence.structural_trust)
    if estimate.probability is not None:
        _check_unit("P(clean)", estimate.probability)
    deciding = _needs_human(evidence, estimate, thresholds)
    if deciding:
        lane = Lane.NEEDS_HUMAN
    else:
        deciding = _held_back(evidence, estimate, thresholds)
        lane = Lane.NORMAL_QUEUE if deciding else Lane.FAST_LANE
    return lane, (*deciding, *_known(evidence), *_caveats(lane, thresholds, content_reviewed))


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
    if evidence.structural_trust <= 0:
        reasons.append(Reason("no_trust_path", {}))
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


def _caveats(lane: Lane, thresholds: Thresholds, content_reviewed: bool) -> tuple[Reason, ...]:
    """What the reader must know about the lane itself."""
    reasons = []
    if lane is Lane.FAST_LANE and not thresholds.certified:
        reasons.append(Reason("threshold_not_certified", {"t_high": thresholds.t_high}))
    if not content_reviewed:
        reasons.append(Reason("content_not_reviewed", {}))
    return tuple(reasons)


def _check_unit(name: str, value: float) -> None:
    """Refuse what is not a number in [0, 1]."""
    if not 0 <= value <= 1:  # also true of NaN
        raise ValueError(f"{name} must be a number in [0, 1], not {value}")
