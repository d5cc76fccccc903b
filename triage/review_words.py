"""The What side of an open row: what the review of a change found, in words apart from the site's own. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from scoring.assessment import DETERMINISTIC, LOCATION_LENGTH
from scoring.deterministic import place
from scoring.explain_content import FLAG_WORDS, missing_words
from scoring.read import ContentReview, ShownFinding, ShownFlag
from triage.diff_places import named_path, place_anchor, read_place
from triage.words import visible

SEVERITIES = {"high": "high", "med": "medium", "low": "low"}
ORDER = ("high", "medium", "low")
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
    "over_repository_budget": "Claude would have been asked; the day's budget for reviews of this repository is spent.",
    "base_elsewhere": "Its base is not known to be on the target branch, so its patch may not be all that is merged.",
    "review_failed": "Its reading ended the reviewer's program each time, so a person is asked.",
}


@dataclass(frozen=True, slots=True)
class NoteView:
    """A flag or a finding as shown: what it is, where, and the line it quotes ("" for none).

    `path` is the file as reviewers name it, "" for the change as a whole; `line` counts in the new file, in the old one
    where it was `removed`.
    """

    severity: str
    kind: str
    place: str
    text: str
    quote: str
    source: str
    path: str = ""
    line: int | None = None
    removed: bool = False

    @property
    def tone(self) -> str:
        """The class of its colour, "" for a low one; the severity stands beside it in words."""
        return {"high": "flag", "medium": "review"}.get(self.severity, "")

    @property
    def anchor(self) -> str:
        """The id of its place in the diff, "" for the change as a whole."""
        return place_anchor(self.path, self.line, self.removed) if self.path else ""


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review as shown."""

    risk: float
    summary: str
    state: str  # one sentence: who read how much, or why there is no verdict
    asked: str
    notes: tuple[NoteView, ...]
    cost: str


def review_view(found: ContentReview | None, quotes: Mapping[str, str] | None = None) -> ReviewView | None:
    """The review as shown; None where there is none. `quotes` are lines that flags name, by the ids of their places."""
    if found is None:
        return None
    return ReviewView(
        found.risk,
        visible(found.summary),
        _state(found),
        ASKED_WORDS.get(found.asked_because, ""),
        tuple(note if note.quote else _quoted(note, quotes or {}) for note in review_notes(found)),
        f"This reading cost ${found.dollars:.4f}." if found.dollars else "",
    )


def _quoted(note: NoteView, quotes: Mapping[str, str]) -> NoteView:
    return replace(note, quote=quotes.get(note.anchor, ""))


def review_notes(found: ContentReview) -> tuple[NoteView, ...]:
    """Findings and flags, strongest first; a flag that repeats a finding is told once."""
    told = {(finding.explanation, _place(finding)) for finding in found.findings}
    flags = [flag for flag in found.flags if (flag.explanation, flag.location) not in told]
    return strongest_first([*finding_notes(found.findings), *_from_flags(flags, found.reviewer)])


def strongest_first(notes: Iterable[NoteView]) -> tuple[NoteView, ...]:
    """In order of severity, else as given."""
    return tuple(sorted(notes, key=lambda note: ORDER.index(note.severity)))


def reviewer_words(reviewer: str) -> str:
    """Who read, named as what it is."""
    return "the deterministic reviewer (scanners only)" if reviewer == DETERMINISTIC else f"{reviewer} and the scanners"


def _state(found: ContentReview) -> str:
    share = "all" if found.coverage >= 1 else f"{int(100 * found.coverage)} %"
    read = f"Read by {reviewer_words(found.reviewer)}: {share} of the changed lines."
    if found.has_verdict:
        return read
    why = missing_words(found.missing) or "the review did not end as it should"
    return f"{read} There is no verdict: {why}."


def finding_notes(findings: Iterable[ShownFinding]) -> list[NoteView]:
    """Findings as shown."""
    return [
        NoteView(
            SEVERITIES[one.severity],
            FLAG_WORDS[one.type],
            _spelled_place(one),
            visible(one.explanation),
            visible(one.quote),
            one.scanner,
            named_path(one.file) if one.file is not None else "",
            one.line,
            one.removed,
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
            *read_place(one.location),
        )
        for one in flags
    ]


def _spelled_place(one: ShownFinding) -> str:
    """The place with what nobody can see in its path spelled out: without it another file may bear that name."""
    whole = _place(one)
    if one.file is None or one.file.isprintable():
        return whole
    return visible(one.file)[:LOCATION_LENGTH] + whole.removeprefix(named_path(one.file))


def _place(one: ShownFinding) -> str:
    return place(one.file, one.line, one.removed)
