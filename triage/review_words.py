"""The What side of an open row: what the review of a change found, in words apart from the site's own. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from scoring.assessment import DETERMINISTIC
from scoring.deterministic import place
from scoring.explain_content import FLAG_WORDS, MISSING_WORDS
from scoring.read import ContentReview, ShownFinding, ShownFlag
from triage.words import visible

SEVERITIES = {"high": "high", "med": "medium", "low": "low"}
# Why Claude was asked or not, by the cost gate's code.
ASKED_WORDS = {
    "review_off": "Content review is off for this repository: what the scanners find counts all the same.",
    "claude_off": "This repository is reviewed by the scanners alone.",
    "no_key": "No key for Claude is set, so the scanners alone reviewed it.",
    "trusted": "The author is trusted enough here that Claude was not asked.",
    "trusted_but_sensitive": "The author is trusted, and the change touches sensitive paths, so Claude was asked.",
    "between_thresholds": "The author's trust is between the thresholds, so Claude was asked.",
    "below_t_low": "The author has little trust here, so Claude was asked for a concrete reason.",
    "fast_lane_shut": "The fast lane is shut, so no trust spares a reading: Claude was asked.",
    "over_budget": "Claude would have been asked; the day's budget for reviews is spent.",
    "review_failed": "Its reading ended the reviewer's program each time, so a person is asked.",
}


@dataclass(frozen=True, slots=True)
class NoteView:
    """A flag or a finding as shown: what it is, where, and the line it quotes ("" for none)."""

    severity: str
    kind: str
    place: str
    text: str
    quote: str
    source: str


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review as shown."""

    risk: float
    summary: str
    state: str  # one sentence: who read how much, or why there is no verdict
    asked: str
    notes: tuple[NoteView, ...]
    cost: str


def review_view(found: ContentReview | None) -> ReviewView | None:
    """The review as shown; None where there is none."""
    if found is None:
        return None
    told = {(finding.explanation, _place(finding)) for finding in found.findings}
    flags = [flag for flag in found.flags if (flag.explanation, flag.location) not in told]
    return ReviewView(
        found.risk,
        visible(found.summary),
        _state(found),
        ASKED_WORDS.get(found.asked_because, ""),
        (*_from_findings(found.findings), *_from_flags(flags, found.reviewer)),
        f"This reading cost ${found.dollars:.4f}." if found.dollars else "",
    )


def reviewer_words(reviewer: str) -> str:
    """Who read, named as what it is."""
    return "the deterministic reviewer (scanners only)" if reviewer == DETERMINISTIC else f"{reviewer} and the scanners"


def _state(found: ContentReview) -> str:
    share = "all" if found.coverage >= 1 else f"{int(100 * found.coverage)} %"
    read = f"Read by {reviewer_words(found.reviewer)}: {share} of the changed lines."
    if found.has_verdict:
        return read
    why = MISSING_WORDS.get(found.missing or "", "the review did not end as it should")
    return f"{read} There is no verdict: {why}."


def _from_findings(findings: Iterable[ShownFinding]) -> list[NoteView]:
    return [
        NoteView(
            SEVERITIES[one.severity],
            FLAG_WORDS[one.type],
            visible(_place(one)),
            visible(one.explanation),
            visible(one.quote),
            one.scanner,
        )
        for one in findings
    ]


def _from_flags(flags: Iterable[ShownFlag], reviewer: str) -> list[NoteView]:
    return [
        NoteView(
            SEVERITIES[one.severity],
            FLAG_WORDS[one.type],
            visible(one.location),
            visible(one.explanation),
            "",
            reviewer,
        )
        for one in flags
    ]


def _place(one: ShownFinding) -> str:
    return place(one.file, one.line, one.removed)
