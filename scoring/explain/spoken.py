"""A decision to be read aloud: at most three sentences of our own words and numbers. Pure.

They contain nothing written by other people: no name, path, address or word of the change. So a voice that reads them
to a maintainer cannot be made to spell out a link or to speak an author's words.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from scoring.explain.reasons import ATTESTATION_WORDS, FLAG_WORDS, missing_words
from scoring.formatting import count_of, number_of, percent_ends, percents, things
from scoring.types import Estimate, Lane, Param, Reason, Verdict

Params = Mapping[str, Param]

Subject = Literal["change", "person"]
LANE_WORDS: Mapping[Subject, Mapping[Lane, str]] = {
    "change": {
        Lane.NEEDS_HUMAN: "This pull request needs a person",
        Lane.NORMAL_QUEUE: "This pull request waits for review",
        Lane.FAST_LANE: "This pull request is in the fast lane",
    },
    "person": {
        Lane.NEEDS_HUMAN: "The next pull request of this contributor would need a person",
        Lane.NORMAL_QUEUE: "The next pull request of this contributor would wait for review",
        Lane.FAST_LANE: "The next pull request of this contributor could be in the fast lane",
    },
}
SHADOW_WORDS = "This pull request would be in the fast lane"
SAMPLED = "This pull request is a random audit: please read it and say whether you would have merged it as it was sent."
NO_PROBABILITY = "There is no score yet."


def briefing(verdict: Verdict, of: Subject = "change", shadow: bool = False) -> tuple[str, ...]:
    """Return one to three sentences: the lane with its reason, a known fact, and what P(clean) means.

    `of`: a decision about a change, or the best decision possible for a person's next change (`gate.decide_person`). In
    `shadow` mode the lane is hypothetical. For a pending audit the text says only that, since the person who answers
    must not know the judgement.
    """
    if any(reason.code == "audit_drawn" for reason in verdict.reasons):
        return (SAMPLED,)
    reason_words = next((words for reason in verdict.reasons if (words := _word_reason(reason, HELD))), "")
    fact = next((words for reason in verdict.reasons if (words := _word_reason(reason, KNOWN))), "")
    lane = (
        SHADOW_WORDS if of == "change" and shadow and verdict.lane is Lane.FAST_LANE else LANE_WORDS[of][verdict.lane]
    )
    lane_sentence = f"{lane}{f', because {reason_words}' if reason_words else ''}."
    return tuple(line for line in (lane_sentence, fact, calibrated(verdict.estimate)) if line)


def calibrated(estimate: Estimate) -> str:
    """Return the meaning of P(clean), as a count of such contributions with its interval and its cases."""
    if estimate.probability is None:
        return NO_PROBABILITY
    about, (low, high) = percents(estimate.probability), percent_ends(estimate.low, estimate.high)
    cases = f"{estimate.cases:,} settled {'one' if estimate.cases == 1 else 'ones'}"
    stays = f"About {about} percent of such pull requests stay clean, between {low} and {high} percent"
    return f"{stays}, judged from {cases}."


def _word_reason(reason: Reason, words: Mapping[str, Callable[[Params], str]]) -> str:
    say = words.get(reason.code)
    return say(reason.params) if say else ""


def _flag(params: Params) -> str:
    return FLAG_WORDS.get(str(params.get("type")), FLAG_WORDS["other"])


def _missing(params: Params) -> str:
    why = missing_words(str(params.get("missing")))
    return f"there is no verdict on its content{f', because {why}' if why else ''}"


def _path(params: Params) -> str:
    hops = count_of(params["hops"])
    by = "A maintainer" if hops == 1 else f"A chain of {hops} vouches from a maintainer"
    return f"{by} {'vouches for' if hops == 1 else 'leads to'} the contributor."


def _record(params: Params) -> str:
    cases, waiting = count_of(params["cases"]), count_of(params["waiting"])
    if cases:
        return f"{count_of(params['clean'])} of their {things(cases, 'settled pull request')} stayed clean."
    return f"{things(waiting, 'merged pull request')} not counted yet." if waiting else ""


# Why it is not in a better lane, as a clause after "because"; codes without words are shown only on the page.
HELD: Mapping[str, Callable[[Params], str]] = {
    "objection_open": lambda params: "a person was asked to decide",
    "denounced_by_seed": lambda params: "a maintainer warns about its contributor",
    "low_probability": lambda params: "few pull requests like it stay clean",
    "high_flag": lambda params: f"its review found {_flag(params)}",
    "content_risk_high": lambda params: "its content risk is high",
    "peer_flagged": lambda params: "another site sends it to a person",
    **dict.fromkeys(ATTESTATION_WORDS, lambda params: "there is no valid attestation for it"),
    "lane_closed": lambda params: "somebody closed the fast lane for it",
    "approved_before": lambda params: "it changed after it was approved",
    "tests_failed": lambda params: "its tests fail",
    "not_enough_evidence": lambda params: (
        "a low chance alone flags nobody"
        if "clean" in params and "probability" in params
        else "it has no record yet"
        if "probability" in params
        else "it has no score yet"
    ),
    "lane_alarm": lambda params: "too many audited pull requests were bad, so the fast lane is shut",
    "closed_by_outcomes": lambda params: "too many fast lane pull requests went wrong here, so it is shut",
    "estimated_lane_closed": lambda params: (
        "too many pull requests of the estimated fast lane were bad, so it shut itself"
    ),
    "certificate_expired": lambda params: "the certificate of the fast lane has expired",
    "certificate_refused": lambda params: "the fast lane's threshold could not be certified yet",
    "lane_unsteady": lambda params: "the fast lane's threshold could not be certified yet",
    "too_little_traffic": lambda params: "too few pull requests settle here in a year for a fast lane",
    "fast_lane_shut": lambda params: "the fast lane is shut until a threshold is certified",
    "certificate_required": lambda params: "the fast lane here needs a certificate",
    "below_fast_lane": lambda params: "its chance to stay clean is below the fast lane's limit",
    "no_trust_path": lambda params: "nobody that the maintainers trust vouches for its contributor yet",
    "trust_too_low": lambda params: "its contributor has too little trust for the fast lane",
    "one_account_path": lambda params: "all trust in its contributor runs through one account",
    "newer_round": lambda params: "a newer round arrived",
    "round_unknown": lambda params: "its latest round is not known yet",
    "account_changed": lambda params: "an account behind it changed lately",
    "account_unknown": lambda params: "the accounts behind it are still being looked up",
    "back_from_silence": lambda params: "its contributor is back after a long silence",
    "returned_differently": lambda params: "its contributor is back with another key and from another time zone",
    "signature_missing": lambda params: "its contributor usually signs and this is not signed",
    "signing_key_unknown": lambda params: "its contributor usually signs and this has another key",
    "signing_key_new": lambda params: "its contributor signed it with a new key",
    "signature_unchecked": lambda params: "its signatures are not checked yet",
    "never_seen_before": lambda params: "its contributor is new here",
    "never_fast_path": lambda params: "it touches files that a person always reads",
    "paths_unknown": lambda params: "the files that it touches are not known yet",
    "content_not_reviewed": lambda params: "its content was not reviewed yet",
    "no_content_verdict": _missing,
    "content_partly_read": lambda params: f"only {percents(number_of(params['coverage']))} percent of it could be read",
    "content_risk_above": lambda params: "its content is not clearly safe",
    "review_recommended": lambda params: "its review asks for a person",
    "closures_unknown": lambda params: "we do not know yet whether the lane is closed for it",
    "people_unknown": lambda params: "we do not know yet what people said about it",
    "enrichment_pending": lambda params: "look-ups about it are under way",
    "enrichment_unknown": lambda params: "look-ups about it are under way",
    "audit_not_drawn": lambda params: "the audit draw has not happened yet",
}
# A known fact about its contributor, as a sentence; the first one among the reasons is used.
KNOWN: Mapping[str, Callable[[Params], str]] = {
    "is_seed": lambda params: "The contributor is trusted as a maintainer here.",
    "trust_path": _path,
    "trust_reaches": lambda params: "Trust from the maintainers reaches the contributor.",
    "trusted_denouncers": lambda params: f"{things(count_of(params['count']), 'warning')} by trusted people.",
    "track_record": _record,
}
