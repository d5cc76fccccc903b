"""Put judgements into plain words: a sentence for each reason, and changes of lane. Pure.

Names come from the network. They are inserted as values, never read as templates, and lose invisible characters and
those that change the writing direction. The caller must still escape a sentence. Unknown is not bad: without a path and
a history the words say what is missing and nothing about the person.

It also explains why the fast lane is shut, and its basis while it is open.

For people who are not maintainers no reason names a threshold, since somebody who knows the exact mark could aim at it.
"""

from collections.abc import Callable, Mapping
from functools import cache

from scoring.certificates.sample_size import Need, say_need
from scoring.dataset.catalogue import FEATURES
from scoring.dataset.track_record import RECORD
from scoring.explain.decided import path_words
from scoring.explain.reasons import (
    ALARMS,
    ATTESTATION_WORDS,
    CONDITION_SENTENCES,
    CONTENT_SENTENCES,
    UNCLEAR,
    WOULD_LIFT,
)
from scoring.explain.what_would_change import ways
from scoring.formatting import (
    bad_interval,
    budget_percent,
    count_of,
    number_of,
    percent,
    percent_in_full,
    percent_interval,
    things,
    trust_bound,
    trust_figure,
    visible_name,
)
from scoring.gate.decide import Inputs, estimated_reason, shut_reason
from scoring.thresholds import Thresholds, items_needed
from scoring.types import Evidence, Lane, Param, Reason, Verdict

Params = Mapping[str, Param]


def _share(value: Param) -> str:
    return budget_percent(number_of(value))


def _counted(params: Params) -> str:
    return f"{count_of(params['bad']):,} of {count_of(params['count']):,}"


def _say_expired(params: Params) -> str:
    days = count_of(params["days"])
    when = f"{things(days, 'day')} ago" if days else "today"
    return f"The fast lane is shut: its certificate expired {when}, and there is no new one."


def _say_refused(params: Params) -> str:
    threshold, weeks = params["threshold"], params["weeks"]
    need = Need(
        count_of(params["needed"]),
        count_of(params["have"]),
        None if threshold is None else number_of(threshold),
        None if weeks is None else count_of(weeks),
        bool(params["authors"]),
    )
    return f"The fast lane is shut: {say_need(need)}."


def _say_estimated(params: Params) -> str:
    threshold = percent_in_full(number_of(params["t_high"]))
    bad = bad_interval(number_of(params["bad_low"]), number_of(params["bad_high"]))
    return (
        f"The fast lane's threshold {threshold} is estimated: of past pull requests like these {bad} % needed work. "
        "It is not certified."
    )


def _say_estimate_closed(params: Params) -> str:
    if params["by"] == "audit":
        cause = f"{_counted(params)} audited pull requests were bad"
    else:
        cause = f"{_counted(params)} pull requests that it let through turned out bad"
    return (
        f"The estimated fast lane shut itself in this repository: {cause}. Its limit was {_share(params['budget'])}. "
        "A person can open it again."
    )


CERTIFICATE_SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "lane_alarm": lambda params: (
        f"The fast lane is shut: {_counted(params)} audited pull requests were bad. "
        f"The budget is {_share(params['budget'])}."
    ),
    "closed_by_outcomes": lambda params: (
        f"The fast lane is shut in this repository: {_counted(params)} of its high-scored pull requests were bad. "
        f"The budget is {_share(params['budget'])}."
    ),
    "threshold_estimated": _say_estimated,
    "estimated_lane_closed": _say_estimate_closed,
    "certificate_expired": _say_expired,
    "certificate_refused": _say_refused,
    "lane_unsteady": lambda params: (
        f"The fast lane is shut: a threshold keeps the budget of {_share(params['budget'])} over the whole window, "
        "but not in every part of it."
    ),
    "too_little_traffic": lambda params: (
        f"The fast lane is shut in this repository: {things(count_of(params['have']), 'pull request')} settled here in "
        f"a year. A lane needs {count_of(params['needed'])}, so that mistakes are noticed."
    ),
}


TOO_WEAK = {"no_trust_path", "trust_too_low", "one_account_path"}  # reason codes that a seed's vouch would lift

FACTOR_LABELS: Mapping[str, str] = {
    "clean": "Merged and stayed clean",
    "not_clean": "Not merged, or needed a fix",
    "structural_trust": "Trust from the seeds",
    "eigentrust": "EigenTrust (for comparison)",
    "distance": "Steps from the nearest seed",
    "waiting": "Merged, not counted yet",
    "trusted_denouncers": "Trusted people who warn",
}


def sentence(reason: Reason) -> str:
    """Return the reason as one whole sentence; an unknown code is named as such."""
    write = SENTENCES.get(reason.code)
    return write(reason.params) if write else f"Reason “{visible_name(reason.code)}”; this version has no words for it."


def told_reasons(verdict: Verdict) -> tuple[Reason, ...]:
    """Return the reasons for display: one with P(clean) also gets its interval, which the gate does not weigh."""
    interval = {"low": verdict.estimate.low, "high": verdict.estimate.high}
    return tuple(
        Reason(reason.code, {**interval, **reason.params}) if "probability" in reason.params else reason
        for reason in verdict.reasons
    )


# What would move a change whose reasons have one of these codes; the first one counts.
ONLY_A_PERSON: Mapping[str, str] = {
    "objection_open": "An answer to the objection lifts this; then it is judged like any other.",
    "audit_drawn": "Nothing: it is a random audit, and a person reads it.",
    "peer_flagged": "A person decides: a site whose word audits here have confirmed sends this to one.",
}


def would_change(verdict: Verdict, evidence: Evidence, thresholds: Thresholds, inputs: Inputs | None = None) -> str:
    """Return what would move this to another lane, in one to three sentences.

    It promises nothing about the content.

    With the `inputs` of the decision it also says how much is needed, where P(clean) is too low.
    """
    if evidence.denounced_by_seed:
        return "Only the seed who warned about this contributor can lift this, by withdrawing the warning."
    alarm = next((reason for reason in verdict.reasons if reason.code in ALARMS), None)
    if alarm is not None:
        return "A new round without these findings is judged again. A good record does not lift this."
    codes = {reason.code for reason in verdict.reasons}
    if decisive := next((code for code in ONLY_A_PERSON if code in codes), None):
        return ONLY_A_PERSON[decisive]
    if "low_probability" not in codes and codes & set(ATTESTATION_WORDS):
        return "A valid attestation of the contributor's jurisdiction lifts this; then it is judged like any other."
    if verdict.lane is Lane.NEEDS_HUMAN:
        low = percent_in_full(thresholds.t_low)
        towards = f"Pull requests that stay clean raise the chance; from {low} on this needs review."
        return towards + _how_much(inputs, verdict, thresholds.t_low)
    if verdict.lane is Lane.FAST_LANE:
        high = percent_in_full(thresholds.t_high or 0.0)
        return f"A chance below {high}, a warning by a seed or lost trust would end the fast lane."
    if thresholds.t_high is None:
        if thresholds.shut is not None:
            return "Nothing in this change: the fast lane is shut here." + _first_steps(verdict, evidence)
        return _what_opens(thresholds) + _first_steps(verdict, evidence)
    return _towards_fast_lane(verdict, thresholds.t_high, _how_much(inputs, verdict, thresholds.t_high))


def _what_opens(thresholds: Thresholds) -> str:
    """Return what a lane without a threshold still needs: more settled ones, or a score that is proven."""
    needed = items_needed(thresholds.budget, thresholds.delta)
    if thresholds.settled is None or thresholds.settled < needed:
        return f"{_settled(needed)} {_need(needed)} before a fast lane can open."
    return (
        f"A fast lane opens from a score above which nearly all stay clean: {needed:,} settled ones there without a "
        "bad one, or more with a few."
    )


def _how_much(inputs: Inputs | None, verdict: Verdict, target: float) -> str:
    steps = ways(inputs, verdict.estimate.probability, target) if inputs else ""
    return f" {steps}" if steps else ""


def lane_notice(thresholds: Thresholds) -> str:
    """Return the sentence on every page while the fast lane is shut or its threshold not certified; else empty."""
    reason = lane_reason(thresholds)
    return sentence(reason) if reason else ""


def lane_reason(thresholds: Thresholds) -> Reason | None:
    """Return why the fast lane is shut, or its basis without a certificate; None where a certificate holds."""
    if thresholds.t_high is None:
        return shut_reason(thresholds)
    if thresholds.estimated is not None:
        return estimated_reason(thresholds)
    return None if thresholds.certified else Reason("threshold_not_certified", {"t_high": thresholds.t_high})


def factor_label(name: str) -> str:
    """Return a factor's name in plain words, with its unit where it is a column of a model."""
    return FACTOR_LABELS.get(name) or _catalogued().get(name) or name.replace("_", " ").capitalize()


@cache
def _catalogued() -> Mapping[str, str]:
    """Return the words of every column that a model may weigh; numpy is imported only where a model is used."""
    return {column.name: f"{_capital(column.words)} ({column.unit})" for column in (*FEATURES, *RECORD)}


def _settled(count: int) -> str:
    return f"{things(count, 'settled pull request')}, {'a clean one' if count == 1 else 'all of them clean'},"


def _need(count: int) -> str:
    return "is needed" if count == 1 else "are needed"


def _say_record(params: Params) -> str:
    """Count every settled pull request by outcome; one that was not merged is not called unclean."""
    merged, settled = count_of(params["merged_here"]), count_of(params["settled_here"])
    clean, cases, waiting = count_of(params["clean"]), count_of(params["cases"]), count_of(params["waiting"])
    parts = [f"{merged} merged" if settled else "no settled pull request"]
    if settled == cases and merged > clean:
        parts[0] += f", {merged - clean} needed a fix"
    parts += [f"{settled - merged} not merged"] if settled > merged else []
    rest = "" if clean == cases else ", the others not merged or in need of a fix"
    parts += [f"{clean} of {cases} clean overall{rest}"] if cases != settled else []
    parts += [f"{waiting} merged, not counted yet"] if waiting else []
    return f"Here: {'; '.join(parts)}."


def _first_steps(verdict: Verdict, evidence: Evidence) -> str:
    """Return what would give somebody a first path or a first score."""
    steps = []
    if evidence.structural_trust <= 0:
        steps.append("A vouch by a seed gives a trust path.")
    if verdict.estimate.probability is None:
        steps.append("A first pull request like it that settles gives a score.")
    return "".join(f" {step}" for step in steps)


def _towards_fast_lane(verdict: Verdict, t_high: float, how_much: str) -> str:
    """Return what separates the normal queue from the fast lane; a seed's own vouch is enough trust."""
    codes, probability = list(dict.fromkeys(reason.code for reason in verdict.reasons)), verdict.estimate.probability
    if "never_fast_path" in codes:
        return "Such files always need a person."
    wanted = ["a vouch by a seed"] if TOO_WEAK.intersection(codes) else []
    wanted += ["a clear review of its content"] if UNCLEAR.intersection(codes) else []
    wanted += dict.fromkeys(step for code in codes if (step := WOULD_LIFT.get(code)))
    if probability is not None and probability >= t_high:
        return f"{_capital(' and '.join(wanted))} would put this in the fast lane."
    together = f" together with {' and '.join(wanted)}" if wanted else ""
    return (
        f"A chance of {percent_in_full(t_high)} or more{together} would put this in the fast lane; "
        f"pull requests that stay clean raise it.{how_much}"
    )


def _say_shut(params: Params) -> str:
    needed, have = count_of(params["needed"]), params["have"]
    if have is not None and count_of(have) >= needed:
        return (
            f"The fast lane is shut: {count_of(have):,} pull requests by people without push access have settled, but "
            "those of the last year prove no score yet above which nearly all stay clean."
        )
    so_far = "" if have is None else f"; so far there {'is' if count_of(have) == 1 else 'are'} {count_of(have)}"
    return f"The fast lane is shut: {_settled(needed)} {_need(needed)} to set its threshold{so_far}."


def _say_low(params: Params) -> str:
    low = number_of(params["t_low"])
    budget = params.get("budget")  # None where the threshold has no certificate
    few = "" if budget is None else f", where at most {budget_percent(number_of(budget))} of all clean work is"
    chance = f"{percent(number_of(params['probability']))}{_within(params)}"
    return f"Stays clean: {chance}, below {percent_in_full(low)}{few}."


def _say_below(params: Params) -> str:
    high = number_of(params["t_high"])
    return (
        f"Stays clean: {percent(number_of(params['probability']))}{_within(params)}; "
        f"the fast lane starts at {percent_in_full(high)}."
    )


def _within(params: Params) -> str:
    """Return the interval in brackets, where there is one."""
    return f" ({percent_interval(number_of(params['low']), number_of(params['high']))})" if "low" in params else ""


def _say_too_low(params: Params) -> str:
    needed = number_of(params["needed"])
    return (
        f"Structural trust is {trust_figure(number_of(params['structural_trust']))}; "
        f"the fast lane asks for {trust_bound(needed)}."
    )


def _say_denounced(params: Params) -> str:
    count = count_of(params["count"])
    return f"{count} trusted {'person warns' if count == 1 else 'people warn'} about them"


def _say_unknown(params: Params) -> str:
    waiting = count_of(params["waiting"])
    rest = f": {things(waiting, 'merged pull request')} not counted yet" if waiting else ""
    if "probability" in params:
        chance = percent(number_of(params["probability"]))
        if "clean" in params:
            clean = f"{count_of(params['clean']):,} of {count_of(params['record']):,} settled ones stayed clean"
            return f"{clean.capitalize()}, so a low chance ({chance}) alone flags nobody."
        return f"No record yet{rest}. A low chance ({chance}) flags nobody without one."
    if "record" in params:
        return "No score: nothing like it has settled yet."
    return f"No score yet{rest}."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "denounced_by_seed": lambda params: "Someone trusted here warns about them.",
    "low_probability": _say_low,
    "not_enough_evidence": _say_unknown,
    "fast_lane_shut": _say_shut,
    "below_fast_lane": _say_below,
    "no_trust_path": lambda params: "Nobody trusted here vouches for them yet.",
    "trust_too_low": _say_too_low,
    "one_account_path": lambda params: (
        "All trust runs through one account; the fast lane needs a second path or a seed's own vouch."
    ),
    "is_seed": lambda params: "This contributor is a seed here.",
    "trust_path": lambda params: f"{_capital(path_words(params))}.",
    "trust_reaches": lambda params: (
        f"Trust from the seeds reaches this contributor ({trust_figure(number_of(params['structural_trust']))})."
    ),
    "trusted_denouncers": lambda params: f"{_capital(_say_denounced(params))}.",
    "track_record": _say_record,
    "threshold_not_certified": lambda params: (
        f"The fast lane's threshold {percent_in_full(number_of(params['t_high']))} was set by hand. "
        "It is not certified."
    ),
    **CERTIFICATE_SENTENCES,
    **CONDITION_SENTENCES,
    **CONTENT_SENTENCES,
}


# Parameters that are thresholds or state exactly what is missing; the others are facts about the change or its author.
THRESHOLD_PARAMS = frozenset(
    {
        *("t_low", "t_high", "r_low", "r_high", "bad_low", "bad_high"),
        *("needed", "have", "budget", "delta", "limit", "least", "most", "days"),
    }
)
ANY_OTHER = "A condition that the maintainers set decided this."
PLAIN_SENTENCES: Mapping[str, str] = {
    "low_probability": "The chance to stay clean is low, so a person looks.",
    "fast_lane_shut": "The fast lane is shut: no threshold is certified yet.",
    "lane_alarm": "The fast lane is shut: too many audited pull requests were bad.",
    "closed_by_outcomes": "The fast lane is shut here: too many pull requests that it let through were bad.",
    "estimated_lane_closed": "The estimated fast lane shut itself here: too many pull requests that it let "
    "through were bad.",
    "certificate_refused": "The fast lane is shut: no threshold could be certified yet.",
    "lane_unsteady": "The fast lane is shut: lately no threshold kept the budget all the time.",
    "certificate_expired": "The fast lane is shut: its certificate has expired.",
    "too_little_traffic": "The fast lane is shut here: too few pull requests settle to notice mistakes.",
    "objection_open": "A person was asked to decide here.",
    "below_fast_lane": "The chance to stay clean is below the fast lane's limit.",
    "trust_too_low": "Trust is below the fast lane's limit.",
    "threshold_not_certified": "The fast lane's threshold was set by hand. It is not certified.",
    "threshold_estimated": "The fast lane's threshold is estimated, not certified.",
    "certificate_required": "The fast lane here needs a certificate, and there is none.",
    "account_changed": "An account behind this change changed lately.",
    "back_from_silence": "Sent right after a long absence.",
    "returned_differently": "Back after some time, and not quite as before: worth a look.",
    "signature_missing": "The contributor usually signs commits; this is not signed.",
    "signing_key_unknown": "The contributor usually signs commits; this is signed with another key.",
    "signing_key_new": "The contributor usually signs commits; this is signed with a new key.",
    "signature_unchecked": "Look-up under way: the signatures of its commits.",
    "content_risk_high": "Content risk is high.",
    "content_risk_above": "Content risk is above the fast lane's limit.",
    "peer_flagged": "Another site that reads this forge sends it to a person.",
}
SHUT, BY_HAND = PLAIN_SENTENCES["fast_lane_shut"], PLAIN_SENTENCES["threshold_not_certified"]


def plain_sentence(reason: Reason) -> str:
    """Return the reason as one sentence without a threshold.

    A code with a threshold and without plain words stays general.
    """
    if reason.code in PLAIN_SENTENCES:
        return PLAIN_SENTENCES[reason.code]
    return ANY_OTHER if reason.params.keys() & THRESHOLD_PARAMS else sentence(reason)


def _say_own_attestation(words: str) -> Callable[[Params], str]:
    return lambda params: (
        f"This repository is in the sensitive tier, so you need an attestation of your jurisdiction: {words}."
    )


# Sentences to the author where the plain sentence speaks about them.
OWN_SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "denounced_by_seed": lambda params: "Somebody whom the maintainers trust warns about you.",
    "no_trust_path": lambda params: "Nobody whom the maintainers trust vouches for you yet.",
    "is_seed": lambda params: "You are a seed here.",
    "trust_reaches": lambda params: (
        f"Trust from the seeds reaches you ({trust_figure(number_of(params['structural_trust']))})."
    ),
    "trust_path": lambda params: (
        f"{'Your work was' if path_words(params).startswith('merged') else 'You are'} {path_words(params)}."
    ),
    "trusted_denouncers": lambda params: f"{_capital(_say_denounced(params)).removesuffix('about them')}about you.",
    "tests_failed": lambda params: "The tests of your pull request fail.",
    "never_seen_before": lambda params: "You were never seen here before this pull request.",
    "back_from_silence": lambda params: "You are back after a long time away.",
    "returned_differently": lambda params: "You are back after some time, without your earlier key.",
    "signature_missing": lambda params: "You usually sign your commits; this is not signed.",
    "signing_key_unknown": lambda params: (
        "You usually sign your commits; this is signed with a key you do not declare."
    ),
    "signing_key_new": lambda params: "You usually sign your commits; this is signed with a new key.",
    "objection_open": lambda params: (
        f"{'A maintainer objects in your name' if params.get('by') == 'maintainer' else 'You object'} to this "
        "judgement, so a person decides."
    ),
    **{code: _say_own_attestation(words) for code, words in ATTESTATION_WORDS.items()},
    "lane_closed": lambda params: "The fast lane is closed for this pull request. Only a person opens it again.",
    "enrichment_pending": lambda params: (
        "Look-up under way: your identity." if params["what"] == "identity" else SENTENCES["enrichment_pending"](params)
    ),
}


def own_sentence(reason: Reason) -> str:
    """Return the reason as one sentence to the author of the change, without a threshold."""
    write = OWN_SENTENCES.get(reason.code)
    return write(reason.params) if write else plain_sentence(reason)


def plain_notice(is_open: bool, notice: str) -> str:
    """Return every page's notice of a fast lane that is shut or not certified, without a figure.

    "" where there is none.
    """
    if not notice:
        return ""
    return BY_HAND if is_open else SHUT
