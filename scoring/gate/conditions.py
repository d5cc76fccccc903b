"""Conditions of the fast lane besides P(clean) and content risk. Pure; a condition only ever lowers a lane.

Whatever is not known counts against the lane: it says so in a reason of its own and never as a doubt about a person.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from scoring.thresholds import Condition, Thresholds
from scoring.types import Circumstances, Content, Draw, Evidence, Lane, LaneClosed, Reason

LaneAndReasons = tuple[Lane, tuple[Reason, ...]]

# A change about which nothing is to be said: what the conditions are asked with where a contributor is judged alone.
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

# Codes that send a change to a person, and all others that hold one back: strongest first.
TO_A_PERSON: tuple[str, ...] = (
    "objection_open",
    *("denounced_by_seed", "low_probability", "high_flag", "content_risk_high"),
    *("attestation_missing", "attestation_expired", "attestation_revoked", "attestation_unverifiable"),
    "audit_drawn",
)
SHUT_LANE: tuple[str, ...] = (
    *("lane_alarm", "closed_by_outcomes", "estimated_lane_closed", "certificate_expired", "certificate_refused"),
    *("lane_unsteady", "too_little_traffic", "fast_lane_shut"),
)
STRENGTH: tuple[str, ...] = (
    *TO_A_PERSON,
    *("lane_closed", "approved_before", "not_enough_evidence", *SHUT_LANE, "certificate_required", "below_fast_lane"),
    *("no_trust_path", "trust_too_low", "one_account_path"),
    *("newer_round", "round_unknown", "account_changed", "account_unknown", "back_from_silence", "never_seen_before"),
    *("never_fast_path", "paths_unknown"),
    *("content_not_reviewed", "no_content_verdict", "content_partly_read", "content_risk_above", "review_recommended"),
    *("closures_unknown", "people_unknown", "enrichment_pending", "enrichment_unknown", "audit_not_drawn"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """All that a condition may look at."""

    evidence: Evidence
    content: Content | None
    circumstances: Circumstances
    thresholds: Thresholds


def lane_conditions(
    lane: Lane, evidence: Evidence, content: Content | None, circumstances: Circumstances, thresholds: Thresholds
) -> LaneAndReasons:
    """The lane that is left of `lane`, which `gate.decide` gave, and each condition that is not met, strongest first.

    Never a better lane than `lane`. needs_human where the tier asks for an attestation that is not valid, and for what
    the audit drew; normal_queue at best where anything else is not met. Only what is otherwise fast-laned is drawn,
    where the lane rests on an estimate also without the condition.
    """
    asked = Asked(evidence, content, circumstances, thresholds)
    held = [*_trust(asked), *_closures(asked), *_people(asked)]
    for name, check in CHECKS.items():
        if name in thresholds.conditions:
            held += check(asked)
    is_audited = "audit" in thresholds.conditions or thresholds.estimated is not None
    if lane is Lane.FAST_LANE and not held and is_audited:
        held += _audit(asked)
    return lowered(lane, held), strongest_first(held)


def lowered(lane: Lane, held: list[Reason]) -> Lane:
    """Return what these reasons leave of a lane."""
    if lane is Lane.NEEDS_HUMAN or any(reason.code in TO_A_PERSON for reason in held):
        return Lane.NEEDS_HUMAN
    return Lane.NORMAL_QUEUE if held else lane


def strongest_first(reasons: list[Reason]) -> tuple[Reason, ...]:
    """The reasons in the order of STRENGTH, those of one code as they come."""
    return tuple(sorted(reasons, key=lambda reason: STRENGTH.index(reason.code)))


def _trust(asked: Asked) -> Iterator[Reason]:
    """Yield what the trust lacks; a seed's denounce says all of it."""
    evidence, thresholds = asked.evidence, asked.thresholds
    if evidence.denounced_by_seed:
        return
    if evidence.structural_trust <= 0:
        yield Reason("no_trust_path", {})
        return
    if evidence.structural_trust < thresholds.trust:
        params = {"structural_trust": evidence.structural_trust, "needed": thresholds.trust}
        yield Reason("trust_too_low", params)
    if thresholds.two_ways and evidence.one_account:
        yield Reason("one_account_path", {})


def closed_reason(closed: LaneClosed) -> Reason:
    """Return why a change is not fast-laned where a person closed the lane."""
    return Reason("lane_closed", {"scope": closed.scope, "by": closed.by, "name": closed.name})


def _closures(asked: Asked) -> Iterator[Reason]:
    """Yield what a person closed stays closed whatever conditions the operator chose."""
    closures = asked.circumstances.closures
    if closures is None:
        yield Reason("closures_unknown", {})
    yield from map(closed_reason, closures or ())


def _people(asked: Asked) -> Iterator[Reason]:
    """Yield what its author says of the judgement, and what somebody approved, whatever conditions the operator
    chose.
    """
    if asked.circumstances.objected:
        yield Reason("objection_open", {"by": "maintainer"} if asked.circumstances.objected == "maintainer" else {})
    if asked.circumstances.outdated:
        yield Reason("approved_before", {})
    if None in (asked.circumstances.objected, asked.circumstances.outdated):
        yield Reason("people_unknown", {})


def _certificate(asked: Asked) -> Iterator[Reason]:
    if asked.thresholds.t_high is not None and not asked.thresholds.certified:
        told = {} if asked.thresholds.estimated is None else {"estimated": True}
        yield Reason("certificate_required", {"t_high": asked.thresholds.t_high, **told})


def _verdict(asked: Asked) -> Iterator[Reason]:
    if asked.content is not None and not asked.content.has_verdict:
        yield Reason("no_content_verdict", {"missing": asked.content.missing})


def _coverage(asked: Asked) -> Iterator[Reason]:
    if asked.content is not None and asked.content.coverage < 1:
        yield Reason("content_partly_read", {"coverage": asked.content.coverage})


def _newest_round(asked: Asked) -> Iterator[Reason]:
    judged, newest = asked.circumstances.judged_round, asked.circumstances.newest_round
    if judged is None or newest is None:
        yield Reason("round_unknown", {})
    elif newest > judged:
        yield Reason("newer_round", {"judged": judged, "newest": newest})


def _account_changes(asked: Asked) -> Iterator[Reason]:
    changes, most = asked.circumstances.account_changes, asked.thresholds.account_change_days
    if changes is None:
        yield Reason("account_unknown", {})
    for change in changes or ():
        if change.days < most:
            told = {"who": change.who, "kind": change.kind, "name": change.name, "days": change.days, "needed": most}
            yield Reason("account_changed", told)


def _silence(asked: Asked) -> Iterator[Reason]:
    silent, most = asked.circumstances.silent_days, asked.thresholds.silent_days
    if silent is None:
        yield Reason("never_seen_before", {})
    elif silent >= most:
        params = {"days": silent, "most": most, "needed": asked.thresholds.account_change_days}
        yield Reason("back_from_silence", params)


def _never_fast_paths(asked: Asked) -> Iterator[Reason]:
    touched = asked.circumstances.touched
    if touched is None:
        yield Reason("paths_unknown", {})
    elif touched:
        yield Reason("never_fast_path", {"kind": touched[0], "count": len(touched)})


def _enrichment(asked: Asked) -> Iterator[Reason]:
    if asked.circumstances.pending is None:
        yield Reason("enrichment_unknown", {})
    for what in asked.circumstances.pending or ():
        yield Reason("enrichment_pending", {"what": what})


def _tier(asked: Asked) -> Iterator[Reason]:
    state = asked.circumstances.attestation
    if asked.circumstances.tier == "sensitive" and state != "valid":
        yield Reason(f"attestation_{'missing' if state == 'not_asked' else state}", {})


def _audit(asked: Asked) -> Iterator[Reason]:
    draw = asked.circumstances.draw
    if draw is None:
        yield Reason("audit_not_drawn", {})
    elif draw.drawn:
        yield Reason("audit_drawn", {"odds": draw.odds})


CHECKS: Mapping[Condition, Callable[[Asked], Iterator[Reason]]] = {
    "certificate": _certificate,
    "verdict": _verdict,
    "coverage": _coverage,
    "newest_round": _newest_round,
    "account_changes": _account_changes,
    "silence": _silence,
    "never_fast_paths": _never_fast_paths,
    "enrichment": _enrichment,
    "tier": _tier,
}
