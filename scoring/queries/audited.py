"""Hides from a row what its audit asks about: nothing of the decision is shown before somebody answered. Pure."""

from dataclasses import replace
from typing import Any

from scoring.explain.decided import CHANGE_CLAUSES, CLAUSES, joined
from scoring.queries.types import AuditAnswer, DueAudit, QueueRow
from scoring.types import NO_ESTIMATE, Lane, Reason, Verdict

DRAWN_CLAUSE = CHANGE_CLAUSES["audit_drawn"]({})
ASKED = f"{DRAWN_CLAUSE} Read it as it was sent, then answer"
PASSED, FAILED = "A maintainer read this and would merge", "A maintainer read this, would not merge"

CHANCE_HIDDEN = "Chance hidden until an audit is answered"
NO_CHANCE: dict[str, Any] = {"would_change": "", "borrowed_from": None, "graph": None}


def is_drawn(verdict: Verdict) -> bool:
    return any(reason.code == "audit_drawn" for reason in verdict.reasons)


def seal(row: QueueRow, answer: AuditAnswer | None) -> QueueRow:
    """The row with the answer, or without everything that its decision tells while there is none.

    With the answer nothing says any more how to read it before one, or that a person has to. Without, the one reason
    that stays is that of the draw: its odds are the same whatever the change is.
    """
    if answer is not None:
        told = FAILED if not answer.would_merge else PASSED
        sentence = joined([told, *row.sentence.split("; ")[1:]])
        rest = tuple(reason for reason in row.verdict.reasons if reason.code != "audit_drawn")
        return replace(
            row,
            audited=answer,
            verdict=replace(row.verdict, reasons=rest),
            decided=told,
            decided_exact=told,
            sentence=sentence,
            would_change="",
        )
    drawn = next(reason for reason in row.verdict.reasons if reason.code == "audit_drawn")
    return replace(
        row,
        verdict=Verdict(Lane.NEEDS_HUMAN, NO_ESTIMATE, (Reason(drawn.code, drawn.params),), ()),
        structural_trust=0.0,
        eigentrust=0.0,
        content_risk=None,
        path=(),
        sentence=ASKED,
        decided=DRAWN_CLAUSE,
        decided_exact=DRAWN_CLAUSE,
        would_help="",
        is_sealed=True,
        **NO_CHANCE,
    )


def hide_row(row: QueueRow, audit: DueAudit) -> QueueRow:
    """Return the row without the chance of its author; its lane, which is about the change too, stays."""
    if row.is_sealed:
        return row
    telling = [one for one in row.verdict.reasons if "probability" in one.params]
    words = {CLAUSES[one.code](one.params).lower() for one in telling}

    def tells(part: str) -> bool:
        return part.lower() in words or part.lower().startswith("chance ")

    first = CHANCE_HIDDEN if tells(row.decided) else row.decided
    rest = [part for part in row.sentence.split("; ")[1:] if not tells(part)]
    reasons = tuple(one for one in row.verdict.reasons if one not in telling)
    return replace(
        row,
        verdict=Verdict(row.verdict.lane, NO_ESTIMATE, reasons, ()),
        decided=first,
        decided_exact=first,
        sentence=joined([first, *rest]),
        hidden_by=audit,
        **NO_CHANCE,
    )
