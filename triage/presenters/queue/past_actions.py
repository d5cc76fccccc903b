"""Past actions on a pull request, in words for its history. Pure."""

from scoring.queries.read import PastAction

DONE = {
    "approve": "approved it",
    "pull_for_review": "assigned it to themselves",
    "release": "released it",
    "note": "noted",
    "comment": "commented",
    "request_changes": "asked for changes",
    "close": "asked to close it",
    "dismiss_finding": "marked a finding as a false alarm",
    "restore_finding": "marked a finding as a problem again",
    "confirm_merge": "said that it was merged",
    "deny_merge": "said that it was not merged",
    "answer": "answered",
}
OUTCOMES = {"clean": "clean", "needed_fix": "needing a fix", "reverted": "reverted"}
BECAME = {
    "in force": "not merged yet",
    "released": "revoked since",
    "merged as approved": "merged as approved",
    "merged something else": "but something else was merged",
}
NOT_READ = "but Git found more in its patch than we read here"
VOIDED = {
    "changed_before": "void: the patch changed before the approval took effect",
    "changed_after": "void: the patch changed later",
    "closed": "void: it was closed",
    "gone": "void: the pull request is gone",
    "own": "void: nobody approves what they sent",
}


SENDABLE = ("comment", "request_changes", "close")


def action_words(action: PastAction, with_note: bool, sent: str) -> str:
    """Describe an action and, for an approval, its result; notes are for maintainers only.

    `sent` says of what can be sent to the forge whether it was.
    """
    words = DONE.get(action.kind) or f"marked it as {OUTCOMES[action.outcome or 'clean']}"
    if action.state:
        result = VOIDED[action.reason or "gone"] if action.state == "voided" else BECAME[action.state]
        result = NOT_READ if action.reason == "not_read" else result
        commit = f" in {action.evidence[:12]}" if action.evidence else ""
        words = f"{words}; {result}{commit}"
    words += f", {sent}" if action.kind in SENDABLE else ""
    return f"{words}: {' '.join(action.note.split())}" if action.note and with_note else words
