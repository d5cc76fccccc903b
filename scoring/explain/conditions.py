"""Explains the conditions that hold a change back besides P(clean) and its content, in plain words. Pure.

A condition says what is asked for and never what a person might be up to: an account that moved has moved.
"""

from collections.abc import Callable, Mapping

from scoring.diff.paths import PATTERN
from scoring.formatting import count_of, number_of, percent_in_full, things, visible_name
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
# What would have to come for the condition to be met; None: nothing would, a person looks at such a change.
WOULD_LIFT: Mapping[str, str | None] = {
    "objection_open": "an answer to the objection",
    "approved_before": "an approval of its latest round",
    "people_unknown": "an answer to what people said about it here",
    "certificate_required": "a certified threshold",
    "newer_round": "a review of the newest round",
    "round_unknown": "a review of the newest round",
    "account_changed": "some time without a change of the accounts behind it",
    "account_unknown": "a look-up of the accounts behind it",
    "back_from_silence": "time since the contributor's return",
    "never_seen_before": "time since the contributor was first seen",
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
    return f"Back after {_days(params['days'])} away; fast lane again {_days(params['needed'])} after the return."


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
    "approved_before": lambda params: "It changed after it was approved. Nobody approved the latest round.",
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
