"""The conditions of the fast lane: the strength of every reason, and a check for each condition. Pure.

A condition only lowers. An unknown fact counts against the lane: it has a reason of its own, which never reads as a
doubt about a person.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from scoring.thresholds import AWAY_DAYS, KEY_DAYS, PEER_WEIGHT, Condition, Thresholds
from scoring.types import Circumstances, Content, Evidence, Lane, LaneClosed, Param, Reason

LaneAndReasons = tuple[Lane, tuple[Reason, ...]]

# Codes that send a change to a person, and all that keep one out of the fast lane: strongest first.
TO_A_PERSON: tuple[str, ...] = (
    *("denounced_by_seed", "low_probability", "high_flag", "content_risk_high"),
    *("attestation_missing", "attestation_expired", "attestation_revoked", "attestation_unverifiable"),
    *("audit_drawn", "peer_flagged"),
)
SHUT_LANE: tuple[str, ...] = (
    *("lane_alarm", "closed_by_outcomes", "estimated_lane_closed", "certificate_expired", "certificate_refused"),
    *("lane_unsteady", "too_little_traffic", "fast_lane_shut"),
)
STRENGTH: tuple[str, ...] = (
    *TO_A_PERSON,
    "objection_open",
    *("lane_closed", "approved_before", "tests_failed", "not_enough_evidence"),
    *(*SHUT_LANE, "certificate_required", "below_fast_lane"),
    *("no_trust_path", "trust_too_low", "one_account_path"),
    *("returned_differently", "signature_missing", "signing_key_unknown", "signing_key_new"),
    *("newer_round", "round_unknown", "account_changed", "account_unknown", "back_from_silence", "never_seen_before"),
    *("never_fast_path", "paths_unknown"),
    *("content_not_reviewed", "no_content_verdict", "content_partly_read", "content_risk_above", "review_recommended"),
    *(
        "signature_unchecked",
        "closures_unknown",
        "people_unknown",
        "enrichment_pending",
        "enrichment_unknown",
        "audit_not_drawn",
    ),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a condition may look at."""

    evidence: Evidence
    content: Content | None
    circumstances: Circumstances
    thresholds: Thresholds


def lane_conditions(
    lane: Lane, evidence: Evidence, content: Content | None, circumstances: Circumstances, thresholds: Thresholds
) -> LaneAndReasons:
    """Lower `lane`, which `gate.decide` gave, by the conditions that are not met; return these too, strongest first.

    needs_human where the tier asks for an attestation that is not valid, and for a change that the audit drew;
    normal_queue at best where anything else is not met. Only a change that meets all other conditions is drawn; in an
    estimated lane also where the condition `audit` is switched off. What peers say comes after the draw: else a peer
    that sends everything to a person would never be measured again.
    """
    facts = Facts(evidence, content, circumstances, thresholds)
    unmet = [*_trust(facts), *_closures(facts), *_people(facts)]
    if circumstances.tests_failed:
        unmet.append(Reason("tests_failed", {}))
    for name, check in CHECKS.items():
        if name in thresholds.conditions:
            unmet += check(facts)
    is_audited = "audit" in thresholds.conditions or thresholds.estimated is not None
    if lane is Lane.FAST_LANE and not unmet and is_audited:
        unmet += _audit(facts)
    unmet += _peers(facts)
    return lower_lane(lane, unmet), sort_by_strength(unmet)


def lower_lane(lane: Lane, reasons: list[Reason]) -> Lane:
    if lane is Lane.NEEDS_HUMAN or any(reason.code in TO_A_PERSON for reason in reasons):
        return Lane.NEEDS_HUMAN
    return Lane.NORMAL_QUEUE if reasons else lane


def sort_by_strength(reasons: list[Reason]) -> tuple[Reason, ...]:
    """Sort the reasons by STRENGTH; those of one code stay in their order."""
    return tuple(sorted(reasons, key=lambda reason: STRENGTH.index(reason.code)))


def _trust(facts: Facts) -> Iterator[Reason]:
    evidence, thresholds = facts.evidence, facts.thresholds
    if evidence.denounced_by_seed:
        return  # `decide` gives that reason
    if evidence.structural_trust <= 0:
        yield Reason("no_trust_path", {})
        return
    if evidence.structural_trust < thresholds.trust:
        params = {"structural_trust": evidence.structural_trust, "needed": thresholds.trust}
        yield Reason("trust_too_low", params)
    if thresholds.two_ways and evidence.one_account:
        yield Reason("one_account_path", {})


def closed_reason(closed: LaneClosed) -> Reason:
    return Reason("lane_closed", {"scope": closed.scope, "by": closed.by, "name": closed.name})


def _closures(facts: Facts) -> Iterator[Reason]:
    """A lane that a person closed stays closed, whatever conditions the operator chose."""
    closures = facts.circumstances.closures
    if closures is None:
        yield Reason("closures_unknown", {})
    yield from map(closed_reason, closures or ())


def _people(facts: Facts) -> Iterator[Reason]:
    """An objection and an approval of another round count, whatever conditions the operator chose."""
    if facts.circumstances.objected:
        yield Reason("objection_open", {"by": "maintainer"} if facts.circumstances.objected == "maintainer" else {})
    if facts.circumstances.outdated:
        yield Reason("approved_before", {})
    if None in (facts.circumstances.objected, facts.circumstances.outdated):
        yield Reason("people_unknown", {})


def _peers(facts: Facts) -> Iterator[Reason]:
    """A peer's word counts, whatever conditions the operator chose, as far as audits here agreed with it."""
    for flag in facts.circumstances.peer_flags:
        if flag.weight >= PEER_WEIGHT:
            params = {"peer": flag.name, "uri": flag.uri, "weight": flag.weight, "audits": flag.audits}
            yield Reason("peer_flagged", params)


def _certificate(facts: Facts) -> Iterator[Reason]:
    if facts.thresholds.t_high is not None and not facts.thresholds.certified:
        estimated = {} if facts.thresholds.estimated is None else {"estimated": True}
        yield Reason("certificate_required", {"t_high": facts.thresholds.t_high, **estimated})


def _verdict(facts: Facts) -> Iterator[Reason]:
    if facts.content is not None and not facts.content.has_verdict:
        yield Reason("no_content_verdict", {"missing": facts.content.missing})


def _coverage(facts: Facts) -> Iterator[Reason]:
    if facts.content is not None and facts.content.coverage < 1:
        yield Reason("content_partly_read", {"coverage": facts.content.coverage})


def _newest_round(facts: Facts) -> Iterator[Reason]:
    judged, newest = facts.circumstances.judged_round, facts.circumstances.newest_round
    if judged is None or newest is None:
        yield Reason("round_unknown", {})
    elif newest > judged:
        yield Reason("newer_round", {"judged": judged, "newest": newest})


def _account_changes(facts: Facts) -> Iterator[Reason]:
    changes, most = facts.circumstances.account_changes, facts.thresholds.account_change_days
    if changes is None:
        yield Reason("account_unknown", {})
    for change in changes or ():
        if change.days < most:
            params = {"who": change.who, "kind": change.kind, "name": change.name, "days": change.days, "needed": most}
            yield Reason("account_changed", params)


def _silence(facts: Facts) -> Iterator[Reason]:
    silent, most = facts.circumstances.silent_days, facts.thresholds.silent_days
    if silent is None:
        yield Reason("never_seen_before", {})
    elif silent >= most:
        params = {"days": silent, "most": most, "needed": facts.thresholds.account_change_days}
        yield Reason("back_from_silence", params)


def _signing(facts: Facts) -> Iterator[Reason]:
    signing, silent = facts.circumstances.signing, facts.circumstances.silent_days
    if signing is None:
        return
    habit: dict[str, Param] = {"signed": signing.signed, "checked": signing.checked}
    match signing.lacks:
        case "unsigned":
            yield Reason("signature_missing", habit)
        case "unknown_key":
            yield Reason("signing_key_unknown", habit)
        case "new_key":
            yield Reason("signing_key_new", {**habit, "key_days": signing.key_days, "needed": KEY_DAYS})
        case "unchecked":
            yield Reason("signature_unchecked", habit)
    if signing.has_moved and silent is not None and silent >= AWAY_DAYS:
        yield Reason("returned_differently", {"away_days": silent})


def _never_fast_paths(facts: Facts) -> Iterator[Reason]:
    touched = facts.circumstances.touched
    if touched is None:
        yield Reason("paths_unknown", {})
    elif touched:
        yield Reason("never_fast_path", {"kind": touched[0], "count": len(touched)})


def _enrichment(facts: Facts) -> Iterator[Reason]:
    if facts.circumstances.pending is None:
        yield Reason("enrichment_unknown", {})
    for lookup in facts.circumstances.pending or ():
        yield Reason("enrichment_pending", {"what": lookup})


def _tier(facts: Facts) -> Iterator[Reason]:
    state = facts.circumstances.attestation
    if facts.circumstances.tier == "sensitive" and state != "valid":
        yield Reason(f"attestation_{'missing' if state == 'not_asked' else state}", {})


def _audit(facts: Facts) -> Iterator[Reason]:
    draw = facts.circumstances.draw
    if draw is None:
        yield Reason("audit_not_drawn", {})
    elif draw.drawn:
        yield Reason("audit_drawn", {"odds": draw.odds})


CHECKS: Mapping[Condition, Callable[[Facts], Iterator[Reason]]] = {
    "certificate": _certificate,
    "verdict": _verdict,
    "coverage": _coverage,
    "newest_round": _newest_round,
    "account_changes": _account_changes,
    "silence": _silence,
    "signing": _signing,
    "never_fast_paths": _never_fast_paths,
    "enrichment": _enrichment,
    "tier": _tier,
}
