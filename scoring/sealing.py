"""What is shown of a pull request that the audit drew: before somebody answered nothing of its decision. Pure."""

from dataclasses import replace

from scoring.answers import AuditAnswer, QueueRow
from scoring.verdict import Estimate, Lane, Reason, Verdict

DRAWN_CLAUSE = "Random audit"
ASKED = f"{DRAWN_CLAUSE}: read it, then say whether you would have merged it as sent"
UNKNOWN = Estimate(None, 0.0, 1.0, 0)


def is_drawn(verdict: Verdict) -> bool:
    """Whether a verdict is that of a pull request that the audit drew."""
    return any(reason.code == "audit_drawn" for reason in verdict.reasons)


def seal(row: QueueRow, answer: AuditAnswer | None) -> QueueRow:
    """The row with the answer, or without everything that its decision tells while there is none.

    The one reason that stays is that of the draw: its odds are the same whatever the change is.
    """
    if answer is not None:
        return replace(row, audited=answer)
    drawn = next(reason for reason in row.verdict.reasons if reason.code == "audit_drawn")
    return replace(
        row,
        verdict=Verdict(Lane.NEEDS_HUMAN, UNKNOWN, (Reason(drawn.code, drawn.params),), ()),
        structural_trust=0.0,
        eigentrust=0.0,
        content_risk=None,
        path=(),
        sentence=ASKED,
        decided=DRAWN_CLAUSE,
        would_change="",
        is_sealed=True,
        borrowed_from=None,
    )
