"""The log of changes in words. Pure."""

from collections.abc import Mapping
from typing import Any

from triage.settings_form import change_words

WORDS: Mapping[str, str] = {
    "action.approve": "Approved",
    "action.pull_for_review": "Pulled into review",
    "action.release": "Released",
    "action.outcome": "Marked how it turned out",
    "action.note": "Kept a note",
    "action.undone": "Undid an action",
    "audit.answered": "Answered the audit",
    "lane.closed": "Closed the fast lane",
    "lane.opened": "Opened the fast lane again",
    "lane.estimated": "Opened the fast lane on an estimate",
    "lane.estimate_ended": "Ended an estimated fast lane",
    "leaderboard.left_out": "Left out of the leaderboard",
    "leaderboard.listed": "Listed on the leaderboard again",
    "link.made": "Handed a link",
    "link.revoked": "Took a link back",
    "objection.made": "Objected",
    "objection.accepted": "Accepted an objection",
    "objection.rejected": "Rejected an objection",
    "repository.watched": "Had a repository watched",
    "role.changed": "Changed a role",
    "settings.changed": "Changed settings",
    "token.made": "Made a token",
    "token.revoked": "Revoked a token",
}
NAMES: Mapping[str, str] = {"would_merge": "would have merged it as sent", "since": "now", "kind": "what"}
VALUES: Mapping[object, str] = {True: "yes", False: "no", None: "none", "needed_fix": "needed a fix"}
HIDDEN = frozenset({"key", "batch", "pull_uri"})  # identifiers that join tables and tell a reader nothing


def what_words(what: str) -> str:
    """What was done; an unknown kind as it is stored."""
    return WORDS.get(what, what)


def told_details(details: Mapping[str, Any]) -> tuple[str, ...]:
    """What it was before and is since, a clause each."""
    changes = details.get("changes")
    if isinstance(changes, dict):
        return change_words(changes)
    shown = ((name, value) for name, value in details.items() if name not in HIDDEN and value != "")
    return tuple(f"{NAMES.get(name, name)}: {_value(value)}" for name, value in shown)


def _value(value: Any) -> str:
    is_word = value is None or isinstance(value, bool | str)  # 1 is no True
    return VALUES.get(value, str(value)) if is_word else str(value)
