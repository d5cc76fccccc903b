"""Actions in words. Pure."""

from scoring.read import PastAction

DONE = {
    "approve": "approved it",
    "pull_for_review": "pulled it into their review",
    "release": "released it",
    "note": "noted",
    "comment": "commented, not sent to Tangled",
    "request_changes": "asked for changes, not sent to Tangled",
    "close": "would close it, not sent to Tangled",
    "dismiss_finding": "called a finding a false alarm",
    "restore_finding": "called a finding a problem again",
}
OUTCOMES = {"clean": "clean", "needed_fix": "needing a fix", "reverted": "reverted"}
BECAME = {
    "in force": "not merged yet",
    "released": "taken back since",
    "merged as approved": "merged as approved",
    "merged something else": "but something else was merged",
}
NOT_READ = "but git reads more from its patch than was read here, which may have been merged too"
VOIDED = {
    "changed_before": "void: it had changed before the approval took effect",
    "changed_after": "void: it changed after the approval",
    "closed": "void: it was closed",
    "gone": "void: what it named is gone",
    "own": "void: nobody approves what they sent",
}


def action_words(action: PastAction) -> str:
    """What was done and, for an approval, what became of it."""
    said = DONE.get(action.kind) or f"marked it as {OUTCOMES[action.outcome or 'clean']}"
    if action.state:
        became = VOIDED[action.reason or "gone"] if action.state == "voided" else BECAME[action.state]
        became = NOT_READ if action.reason == "not_read" else became
        commit = f" in {action.evidence[:12]}" if action.evidence else ""
        said = f"{said}; {became}{commit}"
    return f"{said}: {action.note}" if action.note else said
