"""Actions in words. Pure."""

from scoring.read import PastAction

DONE = {
    "approve": "approved it",
    "pull_for_review": "assigned it to themselves",
    "release": "released it",
    "note": "noted",
    "comment": "commented, not sent to Tangled",
    "request_changes": "asked for changes, not sent to Tangled",
    "close": "asked to close it, not sent to Tangled",
    "dismiss_finding": "marked a finding as a false alarm",
    "restore_finding": "marked a finding as a problem again",
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


def action_words(action: PastAction, with_note: bool) -> str:
    """Say how somebody acted and, for an approval, how it went on; notes are for maintainers alone."""
    said = DONE.get(action.kind) or f"marked it as {OUTCOMES[action.outcome or 'clean']}"
    if action.state:
        became = VOIDED[action.reason or "gone"] if action.state == "voided" else BECAME[action.state]
        became = NOT_READ if action.reason == "not_read" else became
        commit = f" in {action.evidence[:12]}" if action.evidence else ""
        said = f"{said}; {became}{commit}"
    return f"{said}: {action.note}" if action.note and with_note else said
