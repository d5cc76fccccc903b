"""Explains what a change's review means for its lane, in plain words. Pure."""

from collections.abc import Callable, Mapping

from scoring.formatting import count_of, number_of, percent, percent_in_full, risk_percent, things, visible_name
from scoring.types import Param

Params = Mapping[str, Param]

# What a flag says, by its type, behind "A reviewer's flag says:".
FLAG_WORDS: Mapping[str, str] = {
    "subtle_bug": "a possible bug",
    "slop": "filler in place of work",
    "security": "a security problem",
    "secret_leak": "a secret in the code",
    "license": "a licence problem",
    "intent_mismatch": "a change that does more than it says",
    "untested": "code without a test",
    "oversized": "a change too large to read at once",
    "other": "something for a person to check",
}
# The same as the name of a finding.
FLAG_NAMES: Mapping[str, str] = {
    "subtle_bug": "Possible bug",
    "slop": "Filler in place of work",
    "security": "Security problem",
    "secret_leak": "Secret in the code",
    "license": "Licence problem",
    "intent_mismatch": "Does more than it says",
    "untested": "Code without a test",
    "oversized": "Too large to review at once",
    "other": "Needs a close look",
}
# Why there is no content verdict, by its code.
MISSING_WORDS: Mapping[str, str] = {
    "findings_incomplete": "not all of the change could be scanned",
    "refused": "the model refused to review it",
    "cut": "the model's answer was cut off",
    "malformed": "the model's answer could not be read",
    "out_of_range": "the model's answer was out of its range",
    "echoed_nonce": "the model's answer repeated a secret of the request",
    "timeout": "the model did not answer in time",
    "unreachable": "the model could not be reached",
    "rate_limited": "the model's rate limit was reached",
    "overloaded": "the model was overloaded",
    "server_error": "the model's server failed",
    "rejected": "the model's server rejected the request",
    "no_access": "the key for the model is not accepted",
    "no_such_model": "the configured model does not exist",
    "too_large": "the change is too large for the model",
    "over_budget": "the day's budget for reviews on this site is spent",
    "over_repository_budget": "the day's budget for reviews of this repository is spent",
    "over_own_budget": "the day's budget for diffs that you send by hand is spent",
    "review_off": "content review is off for this repository",
    "under_way": "the same content is being reviewed",
    "abandoned": "the scan was cut off",
    "review_failed": "its review failed",
    "base_elsewhere": "the base commit of the change was not found on the target branch",
    "on_trial": "a new model or prompt is still being tried beside the old one",
}
NO_RULES = "no_rules:"  # before the languages that no rule reads, separated by commas


def missing_words(code: str | None) -> str | None:
    """Return why there is no content verdict, in words; None for a code that is not known here."""
    if code and code.startswith(NO_RULES):
        return f"no scanner has rules for {code.removeprefix(NO_RULES)}"
    return MISSING_WORDS.get(code or "")


ALARMS = {"high_flag", "content_risk_high"}  # codes that send a change to a person whoever sent it
UNCLEAR = {  # codes by which a change's review holds it back
    "content_not_reviewed",
    "no_content_verdict",
    "content_partly_read",
    "content_risk_above",
    "review_recommended",
}


def _say_high(params: Params) -> str:
    count = count_of(params["count"])
    more = f", and {things(count - 1, 'more finding')} of high severity" if count > 1 else ""
    return f"The review found {_flag(params)}{more}."


def _flag(params: Params) -> str:
    """Return what the strongest flag says and where, in words."""
    place = f" ({visible_name(params['place'])})" if params.get("place") else ""
    return FLAG_WORDS.get(str(params.get("type")), FLAG_WORDS["other"]) + place


def _say_risk(params: Params) -> str:
    high = number_of(params["r_high"])
    return f"Content risk {risk_percent(number_of(params['risk']))}, limit {percent_in_full(high)}."


def _say_risk_above(params: Params) -> str:
    risk, low = number_of(params["risk"]), number_of(params["r_low"])
    return f"Content risk {risk_percent(risk)}; the fast lane takes {percent_in_full(low)} at most."


def _say_no_verdict(params: Params) -> str:
    why = missing_words(str(params["missing"]))
    return f"There is no verdict on the content{f': {why}' if why else ''}."


def _say_partly(params: Params) -> str:
    return f"Only {percent(number_of(params['coverage']))} of the changed lines could be read."


def _say_recommended(params: Params) -> str:
    what = f": {_flag(params)}" if params.get("type") else ""
    return f"The review asks for a person{what}."


CONTENT_SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "content_not_reviewed": lambda params: "The content is not reviewed yet.",
    "high_flag": _say_high,
    "content_risk_high": _say_risk,
    "no_content_verdict": _say_no_verdict,
    "content_partly_read": _say_partly,
    "content_risk_above": _say_risk_above,
    "review_recommended": _say_recommended,
}
