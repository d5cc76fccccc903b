"""Reasons in words without a threshold, for whoever is no maintainer: who knew the exact mark would aim at it. Pure."""

from collections.abc import Mapping

from scoring.explain import sentence
from scoring.verdict import Reason

# Parameters that are a threshold or say exactly what is missing; the others are facts about the change or its author.
THRESHOLD_PARAMS = frozenset(
    {
        *("t_low", "t_high", "r_low", "r_high", "bad_low", "bad_high"),
        *("needed", "have", "budget", "delta", "limit", "least", "most", "days"),
    }
)
ANY_OTHER = "One of the conditions that maintainers set for this lane decided."
PLAIN_SENTENCES: Mapping[str, str] = {
    "low_probability": "The chance to stay clean is low, so a person looks.",
    "fast_lane_shut": "The fast lane is shut: no threshold is certified yet.",
    "lane_alarm": "The fast lane is shut: more of what the audit drew was bad than is borne.",
    "closed_by_outcomes": "The fast lane is shut here: more of what it let through was bad than is borne.",
    "estimated_lane_closed": "The estimated fast lane shut itself here: more of what it let through was bad than is "
    "borne.",
    "certificate_refused": "The fast lane is shut: too little is known yet to certify a threshold.",
    "lane_unsteady": "The fast lane is shut: lately no threshold kept what is borne in every part of the time.",
    "certificate_expired": "The fast lane is shut: its certificate has expired.",
    "too_little_traffic": "The fast lane is shut here: too few pull requests settle here to notice if it went wrong.",
    "below_fast_lane": "The chance to stay clean is below what the fast lane asks for.",
    "trust_too_low": "Structural trust is below what the fast lane asks for.",
    "threshold_not_certified": "The fast lane's threshold was set by hand: no certificate says how many bad changes it "
    "lets through.",
    "threshold_estimated": "The fast lane's threshold is estimated: no certificate says how many bad changes it lets "
    "through.",
    "certificate_required": "The fast lane opens here only by a certificate, and there is none.",
    "account_changed": "An account behind this change changed lately.",
    "back_from_silence": "Nothing was seen of this contributor for a long time until lately.",
    "content_risk_high": "Content risk is high.",
    "content_risk_above": "Content risk is above what the fast lane takes.",
}
SHUT, BY_HAND = PLAIN_SENTENCES["fast_lane_shut"], PLAIN_SENTENCES["threshold_not_certified"]


def plain_sentence(reason: Reason) -> str:
    """The reason as one sentence that names no threshold; a code with one that has no words here stays general."""
    if reason.code in PLAIN_SENTENCES:
        return PLAIN_SENTENCES[reason.code]
    return ANY_OTHER if reason.params.keys() & THRESHOLD_PARAMS else sentence(reason)


def plain_notice(is_open: bool, notice: str) -> str:
    """What every page says of a fast lane that is shut or not certified, without a figure; "" where nothing is said."""
    if not notice:
        return ""
    return BY_HAND if is_open else SHUT
