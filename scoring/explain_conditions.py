"""What holds a change back besides P(clean) and its content, in plain words. Pure.

A condition says what is asked for and never what a person might be up to: an account that moved has moved.
"""

from collections.abc import Callable, Mapping

from scoring.content.touched import PATTERN
from scoring.figures import count_of, number_of, percent_in_full, things, visible_name
from scoring.verdict import Param

Params = Mapping[str, Param]

CHANGE_WORDS: Mapping[str, str] = {
    "key_rotations": "was given other keys",
    "pds_moves": "moved to another data server",
    "handle_changes": "took another handle",
    "recoveries": "was taken back with a recovery key",
    "tombstoned": "was ended by whoever holds its keys",
    "returns": "came back after it had been gone",
    "identity": "changed the document that says who it is",
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
    "executable": "which files may be run",
}
PENDING_WORDS: Mapping[str, str] = {
    "identity": "the contributor's identity",
    "patch": "the patch",
    "ci": "the result of CI",
    "push_holders": "who may push to the repository",
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
    "approved_before": "an approval or a close look at what it is now",
    "people_unknown": "a look at what people said of it here",
    "certificate_required": "a certified threshold",
    "newer_round": "a review of the newest round",
    "round_unknown": "a review of the newest round",
    "account_changed": "time without another change of the accounts behind it",
    "account_unknown": "an answer about the accounts behind it",
    "back_from_silence": "time since the contributor's return",
    "never_seen_before": "time since the contributor was first seen",
    "never_fast_path": None,
    "paths_unknown": "a list of the files that it touches",
    "enrichment_pending": "an end of the look-ups",
    "enrichment_unknown": "an end of the look-ups",
    "lane_closed": "a person's word that opens the lane again",
    "closures_unknown": "an answer whether somebody closed the lane",
    "audit_not_drawn": "the draw for the audit",
}


def _say_newer(params: Params) -> str:
    judged, newest = count_of(params["judged"]), count_of(params["newest"])
    return f"Round {newest} arrived after round {judged}, which was judged."


def _say_changed(params: Params) -> str:
    return f"{_whose_account(params)} {_change(params)}; the fast lane asks for {_days(params['needed'])} since."


def _whose_account(params: Params) -> str:
    if params["who"] == "author":
        return "The contributor's account"
    name = visible_name(params["name"])
    return f"The account of {'the seed ' if params['who'] == 'seed' else ''}{name}, on which the trust path rests,"


def _change(params: Params) -> str:
    days = count_of(params["days"])
    when = f"{_days(days)} ago" if days else "less than a day ago"
    return f"{CHANGE_WORDS.get(str(params['kind']), 'changed')} {when}"


def _days(days: Param) -> str:
    return things(count_of(days), "day")


def _say_silence(params: Params) -> str:
    return (
        f"Nothing was seen of this contributor for {_days(params['days'])} until lately; after "
        f"{_days(params['most'])} or more of silence the fast lane asks for {_days(params['needed'])} since the return."
    )


def _touched(params: Params) -> str:
    kind, count = str(params["kind"]), count_of(params["count"])
    pattern = visible_name(kind.removeprefix(PATTERN))
    first = f"files that match “{pattern}”" if kind.startswith(PATTERN) else KIND_WORDS.get(kind, "such files")
    return f"{first} and {things(count - 1, 'more kind')} of such files" if count > 1 else first


def _say_attestation(code: str) -> Callable[[Params], str]:
    return lambda params: (
        "This repository is in the sensitive tier, which asks for an attestation of the contributor's jurisdiction: "
        f"{ATTESTATION_WORDS[code]}."
    )


def _closed_for(params: Params) -> str:
    name = visible_name(params["name"])
    return {
        "author": f"for what {name} sends",
        "voucher": f"for trust that comes through {name}",
        "repository": "in this repository",
    }.get(str(params["scope"]), "in every repository")


def _objector(params: Params) -> str:
    if params.get("by") == "maintainer":
        return "A maintainer of this repository objects in the contributor's name"
    return "The contributor objects"


CONDITION_SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "objection_open": lambda params: f"{_objector(params)} to how this is judged, so a person decides.",
    "approved_before": lambda params: "It changed after somebody approved it: what it is now was approved by nobody.",
    "people_unknown": lambda params: "Whether somebody objected to this or approved another round of it is not known.",
    "certificate_required": lambda params: (
        f"The threshold {percent_in_full(number_of(params['t_high']))} "
        f"{'is estimated' if params.get('estimated') else 'was set by hand'}, and the fast lane opens here only by a "
        "certificate."
    ),
    "newer_round": _say_newer,
    "round_unknown": lambda params: "Which round of this pull request is the newest is not known.",
    "account_changed": _say_changed,
    "account_unknown": lambda params: "It is not known yet whether the accounts behind this change changed lately.",
    "back_from_silence": _say_silence,
    "never_seen_before": lambda params: "Nothing of this contributor was seen before this pull request.",
    "never_fast_path": lambda params: f"The change touches {_touched(params)}, which a person always reads.",
    "paths_unknown": lambda params: "Which files the change touches is not known yet.",
    "enrichment_pending": lambda params: (
        f"Still being looked up: {PENDING_WORDS.get(str(params['what']), 'something about this change')}."
    ),
    "enrichment_unknown": lambda params: "Whether every look-up about this change has ended is not known.",
    "lane_closed": lambda params: (
        f"The fast lane was closed {_closed_for(params)} by {visible_name(params['by'])}; only a person opens it again."
    ),
    "closures_unknown": lambda params: "Whether somebody closed the fast lane is not known.",
    "audit_not_drawn": lambda params: "Whether this one is audited was not drawn yet.",
    "audit_drawn": lambda params: (
        f"Drawn for the audit, with odds of {100 * number_of(params['odds']):.3g} %: a person reads such samples "
        "whatever they are."
    ),
    **{code: _say_attestation(code) for code in ATTESTATION_WORDS},
}
