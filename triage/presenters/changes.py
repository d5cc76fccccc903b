"""The log of changes in words. Pure."""

from collections.abc import Mapping
from typing import Any

from scoring.formatting import bad_interval, percent_in_full
from triage.forms.settings import change_words

WORDS: Mapping[str, str] = {
    "action.approve": "Approved",
    "action.pull_for_review": "Assigned to themselves",
    "action.release": "Released",
    "action.outcome": "Saved an outcome",
    "action.note": "Added a note",
    "action.comment": "Commented",
    "action.request_changes": "Requested changes",
    "action.close": "Asked to close",
    "action.dismiss_finding": "Marked a finding as a false alarm",
    "action.restore_finding": "Marked a finding as a problem again",
    "action.undone": "Undid an action",
    "audit.answered": "Answered the audit",
    "incident.handled": "Handled an incident",
    "incident.reopened": "Opened an incident again",
    "lane.closed": "Closed the fast lane",
    "lane.opened": "Opened the fast lane again",
    "lane.estimated": "Opened the fast lane on an estimate",
    "lane.estimate_ended": "Ended an estimated fast lane",
    "leaderboard.left_out": "Left out of the leaderboard",
    "leaderboard.listed": "Listed on the leaderboard again",
    "link.made": "Created a private link",
    "link.revoked": "Revoked a private link",
    "objection.made": "Objected",
    "objection.accepted": "Accepted an objection",
    "objection.rejected": "Rejected an objection",
    "repository.watched": "Started to watch a repository",
    "role.changed": "Changed a role",
    "row.shown": "Showed a snoozed row again",
    "row.snoozed": "Snoozed a row",
    "settings.changed": "Changed settings",
    "token.made": "Created a token",
    "token.revoked": "Revoked a token",
}
NAMES: Mapping[str, str] = {
    "would_merge": "would have merged it as sent",
    "since": "now",
    "kind": "it was",
    "purpose": "for",
    "source": "from",
    "let_through": "would have let through",
    "bad": "bad ones of these",
    "cases": "settled pull requests",
    "bad_low": "true share of bad ones, in percent",
    "model": "counted with model",
}
VALUES: Mapping[object, str] = {True: "yes", False: "no", None: "none"}
# Words of ours that are stored as codes, by the name of the detail: elsewhere the same word may be somebody's own.
CODES: Mapping[str, Mapping[object, str]] = {
    "kind": {
        "approve": "an approval",
        "pull_for_review": "an assignment",
        "release": "a release",
        "outcome": "an outcome",
        "note": "a note",
        "comment": "a comment",
        "request_changes": "a request for changes",
        "close": "a request to close",
        "dismiss_finding": "a false alarm",
        "restore_finding": "a problem noted again",
    },
    "outcome": {"needed_fix": "needed a fix"},
    "purpose": {"data": "everything stored", "decision": "one decision"},
    "source": {
        "link": "a private link",
        "self": "the contributor, signed in",
        "record": "a record on the network",
        "maintainer": "a maintainer",
        "own": "the past of this site",
        "starter": "the past of the starter model's projects",
    },
}
SPEAKERS: Mapping[object, str] = {
    "link": "the contributor, by a private link",
    "record": "the contributor, by a record on the network",
}
# Identifiers that join tables and tell a reader nothing, and the end of an interval that stands beside its other end.
HIDDEN = frozenset({"key", "batch", "pull_uri", "bad_high"})


def what_words(what: str) -> str:
    """Return what was done; an unknown kind as it is stored."""
    return WORDS.get(what, what)


def nobody_words(details: Mapping[str, Any]) -> str:
    """Say who made a change that names no account: a contributor by their link or record, else nobody knows."""
    return SPEAKERS.get(details.get("source"), "the operator, or an erased account")


def told_details(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what it was before and is since, a clause each."""
    changes = details.get("changes")
    if isinstance(changes, dict):
        return change_words(changes)
    if "bad_high" in details:
        interval = bad_interval(details["bad_low"], details["bad_high"])
        details = {**details, "bad_low": interval, "threshold": percent_in_full(details["threshold"])}
    shown = ((name, value) for name, value in details.items() if name not in HIDDEN and value != "")
    return tuple(f"{NAMES.get(name, name)}: {_value(name, value)}" for name, value in shown)


def is_everywhere(what: str, details: Mapping[str, Any]) -> bool:
    """Return whether a change is about no repository: a link to all that is stored shows what is of every one."""
    return what.startswith("link.") and details.get("purpose") == "data"


def _value(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,g}"
    is_word = value is None or isinstance(value, bool | str)  # 1 is no True
    return {**VALUES, **CODES.get(name, {})}.get(value, str(value)) if is_word else str(value)
