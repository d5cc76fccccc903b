"""Explain the reasons about a change: conditions that hold it back, and the meaning of its review. Pure.

A condition says what is required and never suspects a person: an account that moved has moved.
"""

from collections.abc import Callable, Mapping

from scoring.diff.paths import PATTERN
from scoring.formatting import count_of, number_of, percent, percent_in_full, risk_percent, things, visible_name
from scoring.types import Param

Params = Mapping[str, Param]

CHANGE_WORDS: Mapping[str, str] = {
    "key_rotations": "got new keys",
    "pds_moves": "moved to another data server",
    "handle_changes": "changed its handle",
    "recoveries": "was recovered with a recovery key",
    "tombstoned": "was deleted by its owner",
    "returns": "came back after it was gone",
    "identity": "changed its identity document",
}
KIND_WORDS: Mapping[str, str] = {
    "ci": "what runs in CI",
    "release": "how releases are made",
    "install_hook": "what runs at installation",
    "build": "how the project is built",
    "dependencies": "dependencies",
    "binary": "a binary file",
    "submodule": "a submodule",
    "symlink": "a symbolic link",
    "executable": "which files can run",
}
PENDING_WORDS: Mapping[str, str] = {
    "identity": "the contributor's identity",
    "patch": "the patch",
    "ci": "the result of CI",
    "push_holders": "the people with push access",
}
ATTESTATION_WORDS: Mapping[str, str] = {
    "attestation_missing": "there is none",
    "attestation_expired": "it has expired",
    "attestation_revoked": "it was revoked",
    "attestation_unverifiable": "it could not be verified",
}
# The lanes of assessments that other sites publish, as said of a pull request.
PEER_DECISIONS: Mapping[str, str] = {
    "fast_lane": "it is in the fast lane",
    "normal_queue": "it needs a review",
    "needs_human": "it needs a person",
    "withdrawn": "it is not judged any more",
}
# What would meet the condition; None: nothing would, because a person always looks at such a change.
WOULD_LIFT: Mapping[str, str | None] = {
    "objection_open": "an answer to the objection",
    "peer_flagged": None,
    "approved_before": "an approval of its latest round",
    "tests_failed": "tests that pass",
    "people_unknown": "an answer to what people said about it here",
    "certificate_required": "a certified threshold",
    "newer_round": "a review of the newest round",
    "round_unknown": "a review of the newest round",
    "account_changed": "some time without a change of the accounts behind it",
    "account_unknown": "a look-up of the accounts behind it",
    "back_from_silence": "time since the contributor's return",
    "never_seen_before": "time since the contributor was first seen",
    "returned_differently": "a signature with the contributor's earlier key",
    "signature_missing": "a signature with a key that the contributor declares",
    "signing_key_unknown": "a signature with a key that the contributor declares",
    "signing_key_new": "a signature with an earlier key, or time",
    "signature_unchecked": "a look at its commits' signatures",
    "never_fast_path": None,
    "paths_unknown": "a list of the files it touches",
    "enrichment_pending": "the end of the look-ups",
    "enrichment_unknown": "the end of the look-ups",
    "lane_closed": "a person who opens the lane again",
    "closures_unknown": "a check whether somebody closed the lane",
    "audit_not_drawn": "the audit draw",
}


def _say_newer(params: Params) -> str:
    judged, newest = count_of(params["judged"]), count_of(params["newest"])
    return f"Round {newest} arrived; only round {judged} is judged so far."


def _say_changed(params: Params) -> str:
    return f"{_whose_account(params)} {_change(params)}; fast lane again after {_days(params['needed'])}."


def _whose_account(params: Params) -> str:
    if params["who"] == "author":
        return "The contributor's account"
    name = visible_name(params["name"])
    return f"The account of {'the seed ' if params['who'] == 'seed' else ''}{name}, which the trust path needs,"


def _change(params: Params) -> str:
    days = count_of(params["days"])
    when = f"{_days(days)} ago" if days else "less than a day ago"
    return f"{CHANGE_WORDS.get(str(params['kind']), 'changed')} {when}"


def _days(days: Param) -> str:
    return things(count_of(days), "day")


def _say_silence(params: Params) -> str:
    days, needed = _days(params["days"]), _days(params["needed"])
    return f"Sent right after {days} away; a round that they send {needed} after the return can be fast lane."


def _say_usually(params: Params) -> str:
    signed, checked = count_of(params["signed"]), count_of(params["checked"])
    return f"They usually sign their commits ({signed} of the last {checked})"


def _say_new_key(params: Params) -> str:
    return (
        f"{_say_usually(params)}; this is signed with a key that was first seen {days_ago(params['key_days'])}. A key "
        f"counts after {_days(params['needed'])}."
    )


def days_ago(days: Param) -> str:
    """Return how long ago a day was: today, yesterday, or a number of days."""
    count = count_of(days)
    return ("today", "yesterday")[count] if count < 2 else f"{count:,} days ago"


def _touched(params: Params) -> str:
    kind, count = str(params["kind"]), count_of(params["count"])
    pattern = visible_name(kind.removeprefix(PATTERN))
    first = f"files that match “{pattern}”" if kind.startswith(PATTERN) else KIND_WORDS.get(kind, "such files")
    return f"{first} and {things(count - 1, 'more kind')} of such files" if count > 1 else first


def _say_attestation(code: str) -> Callable[[Params], str]:
    return lambda params: (
        "This repository is in the sensitive tier, so contributors need an attestation of their jurisdiction: "
        f"{ATTESTATION_WORDS[code]}."
    )


def _closed_for(params: Params) -> str:
    name = visible_name(params["name"])
    return {
        "author": f"for pull requests by {name}",
        "voucher": f"for people vouched for by {name}",
        "repository": "in this repository",
    }.get(str(params["scope"]), "in every repository")


def _objector(params: Params) -> str:
    if params.get("by") == "maintainer":
        return "A maintainer of this repository objects in the contributor's name"
    return "The contributor objects"


CONDITION_SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "objection_open": lambda params: f"{_objector(params)} to this judgement, so a person decides.",
    "peer_flagged": lambda params: (
        f"{visible_name(params['peer'])}, another site, sends it to a person; on "
        f"{things(count_of(params['audits']), 'audited pull request')} here its word weighs "
        f"{percent(number_of(params['weight']))}."
    ),
    "approved_before": lambda params: "It changed after it was approved. Nobody approved the latest round.",
    "tests_failed": lambda params: "Its tests fail.",
    "people_unknown": lambda params: "We do not know yet whether somebody objected to this or approved another round.",
    "certificate_required": lambda params: (
        f"The threshold {percent_in_full(number_of(params['t_high']))} "
        f"{'is estimated' if params.get('estimated') else 'was set by hand'}; the fast lane here needs a "
        "certificate."
    ),
    "newer_round": _say_newer,
    "round_unknown": lambda params: "We do not know yet which round is the latest.",
    "account_changed": _say_changed,
    "account_unknown": lambda params: "We do not know yet whether an account behind this changed lately.",
    "back_from_silence": _say_silence,
    "returned_differently": lambda params: (
        f"Back after {_days(params['away_days'])} without their earlier key, and from another time zone than before: "
        "worth a look."
    ),
    "signature_missing": lambda params: f"{_say_usually(params)}; at least one commit here has no valid signature.",
    "signing_key_unknown": lambda params: (
        f"{_say_usually(params)}; this is signed with a key that they do not declare."
    ),
    "signing_key_new": _say_new_key,
    "signature_unchecked": lambda params: f"{_say_usually(params)}; the commits here could not be checked yet.",
    "never_seen_before": lambda params: "This site had seen nothing by this contributor when this pull request came.",
    "never_fast_path": lambda params: f"The change touches {_touched(params)}; a person always reads that.",
    "paths_unknown": lambda params: "We do not know yet which files the change touches.",
    "enrichment_pending": lambda params: (
        f"Look-up under way: {PENDING_WORDS.get(str(params['what']), 'something about this change')}."
    ),
    "enrichment_unknown": lambda params: "We do not know yet whether all look-ups about this change have ended.",
    "lane_closed": lambda params: (
        f"The fast lane is closed {_closed_for(params)}; {visible_name(params['by'])} closed it, "
        "and only a person opens it again."
    ),
    "closures_unknown": lambda params: "We do not know yet whether somebody closed the fast lane.",
    "audit_not_drawn": lambda params: "The audit draw has not happened yet.",
    "audit_drawn": lambda params: "Random audit: read it as if nothing were known.",
    **{code: _say_attestation(code) for code in ATTESTATION_WORDS},
}


# The words of a flag by its type, as in "The review found …".
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
# The name of a finding of that type.
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
NO_RULES = "no_rules:"  # prefix of the languages without rules, separated by commas


def missing_words(code: str | None) -> str | None:
    """Return why there is no content verdict, in words; None for an unknown code."""
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
