"""Show a review of a change, link its places to the diff, and draft texts about its findings.

The words are the What side of an open row. The expanded row and the diff use the same ids for places of findings and
flags.

A comment or a request for changes can begin with a draft about one finding. A link only names the finding, so that a
stranger's link cannot put words into a form. No draft is sent: a person edits and saves it.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2s
from html import escape

from scoring.explain.findings import finding_name
from scoring.explain.reasons import FLAG_NAMES, missing_words
from scoring.formatting import visible
from scoring.queries.read import ContentReview, ShownFinding, ShownFlag
from scoring.review.deterministic import NOT_FOUND, WHOLE, WORDS, place
from scoring.review.schema import DETERMINISTIC, EXPLANATION_LENGTH, LOCATION_LENGTH, plain_text

_COMMIT = re.compile(r"commit [0-9]{1,4}")
_PLACE = re.compile(r"(.{1,500}?)(?::([0-9]{1,9}))?( \(removed\))?", re.DOTALL)
Place = tuple[str, int | None, bool]  # path, line, whether it was removed
SEVERITIES = {"high": "high", "med": "medium", "low": "low"}
ORDER = ("high", "medium", "low")
COMPARED = 200  # characters by which two texts are compared: a column cuts a finding's text, scrubbing cuts a flag's
# Why Claude was asked or not, by the cost gate's code.
ASKED_WORDS = {
    "review_off": "Content review is off for this repository. The scanners' findings still count.",
    "claude_off": "This repository is reviewed by the scanners alone.",
    "no_key": "No key for Claude is set, so the scanners alone reviewed it.",
    "trusted": "The author is trusted enough here that Claude was not asked.",
    "trusted_but_sensitive": "The author is trusted, and the change touches sensitive paths, so Claude was asked.",
    "between_thresholds": "The author's trust is between the thresholds, so Claude was asked.",
    "below_t_low": "The author has little trust here, so Claude was asked for a concrete reason.",
    "fast_lane_shut": "The fast lane is shut, so trust does not skip a reading: Claude was asked.",
    "over_budget": "The day's budget for reviews is spent, so Claude was not asked.",
    "over_repository_budget": "The day's budget for reviews of this repository is spent, so Claude was not asked.",
    "base_elsewhere": "Its base may not be on the target branch, so a merge may bring more than this patch.",
    "review_failed": "The reviewer's program crashed on it each time, so a person must read it.",
}
KINDS = {"comment": "Comment", "request_changes": "Ask for a change"}
LENGTH = 600  # characters of a draft; most of a note's 2,000 are left to its writer
FINDING_GONE = "The latest round does not have this finding, so no text was prepared."


def place_anchor(path: str, line: int | None = None, removed: bool = False) -> str:
    """Return the id in a diff of notes on this file or line; short, and free of the path's characters."""
    name = "at-" + blake2s(path.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return name if line is None else f"{name}-{'old' if removed else ''}{line}"


def read_place(text: str) -> Place:
    """Return the place that a flag names, such as "a/b.py:12 (removed)"; path "" for no file."""
    match = _PLACE.fullmatch(text)
    if match is None or text in {WHOLE, *WORDS} or text.startswith(NOT_FOUND) or _COMMIT.fullmatch(text):
        return "", None, False
    return match[1], int(match[2]) if match[2] else None, bool(match[3])


def named_path(path: str) -> str:
    """Return a path as reviewers name it: their answers hold no invisible characters."""
    return place(path, None)


@dataclass(frozen=True, slots=True)
class NoteView:
    """A flag or a finding for display: its name, its place, and the quoted line ("" for none).

    `source` is the code of the scanner and its rule, or the model's name: pages show it as a tooltip. `path` is the
    file as reviewers name it, "" for the change as a whole; `line` counts in the new file, or in the old one where it
    was `removed`.
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
    digest: str = ""  # identifies the finding in this text; "" where the patch was not read
    dismissed: str = ""  # the person who called it a false alarm, and why

    @property
    def tone(self) -> str:
        """Return the class of its colour, "" for a low severity; the severity is also shown in words."""
        return {"high": "flag", "medium": "review"}.get(self.severity, "")

    @property
    def anchor(self) -> str:
        """Return the id of its place in the diff, "" for the change as a whole."""
        return place_anchor(self.path, self.line, self.removed) if self.path else ""


@dataclass(frozen=True, slots=True)
class NoteGroup:
    """Notes with one name in one file, strongest first."""

    notes: tuple[NoteView, ...]

    @property
    def first(self) -> NoteView:
        """Return the strongest note, which represents the group."""
        return self.notes[0]

    @property
    def place(self) -> str:
        """Return the place of a single note, else the file with the number of places."""
        if len(self.notes) == 1:
            return self.first.place
        return f"{visible(self.first.path) or 'the change as a whole'}, {len(self.notes):,} places"

    @property
    def digests(self) -> str:
        """Return what a form sends to name all notes; "" where one cannot be named."""
        digests_of_notes = dict.fromkeys(note.digest for note in self.notes)
        return "" if "" in digests_of_notes else " ".join(digests_of_notes)

    @property
    def dismissed(self) -> str:
        """Return the words on false alarms where all notes were dismissed; "" while one is open."""
        words = dict.fromkeys(note.dismissed for note in self.notes)
        return "" if "" in words else "; ".join(words)


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review for display."""

    risk: float
    summary: str
    state: str  # one sentence: the reader and the share read, or why there is no verdict
    asked: str
    notes: tuple[NoteView, ...]
    groups: tuple[NoteGroup, ...]
    cost: str


def review_view(
    review: ContentReview | None,
    quotes: Mapping[str, str] | None = None,
    patch_id: str | None = None,
    dismissed: Mapping[str, str] | None = None,
) -> ReviewView | None:
    """Return the review for display; None where there is none.

    `quotes` are lines that flags name, by the ids of their places. `dismissed` are words on false alarms by the digest
    of the finding.
    """
    if review is None:
        return None
    notes = with_dismissals(review_notes(review, patch_id), dismissed or {})
    notes = tuple(note if note.quote else replace(note, quote=(quotes or {}).get(note.anchor, "")) for note in notes)
    return ReviewView(
        review.risk,
        visible(review.summary),
        _state_sentence(review),
        ASKED_WORDS.get(review.asked_because, ""),
        notes,
        group_notes(notes),
        f"This reading cost ${review.dollars:.4f}." if review.dollars else "",
    )


def review_notes(review: ContentReview, patch_id: str | None = None) -> tuple[NoteView, ...]:
    """Return findings and flags, strongest first; a flag that repeats a finding is omitted.

    A scanner's finding becomes a flag with its text scrubbed, so texts are compared after scrubbing.
    """
    known_texts = {(_scrubbed(finding.explanation), _place(finding)) for finding in review.findings}
    flags = [flag for flag in review.flags if (_scrubbed(flag.explanation), flag.location) not in known_texts]
    notes = strongest_first([*finding_notes(review.findings), *_flag_notes(flags, review.reviewer)])
    return tuple(replace(note, digest=_digest(note, patch_id)) for note in notes) if patch_id else notes


def strongest_open(
    findings: Sequence[ShownFinding], patch_id: str | None, dismissed: Collection[str]
) -> ShownFinding | None:
    """Return the strongest of these findings that nobody called a false alarm; `dismissed` are digests."""
    notes = finding_notes(findings)
    pairs = zip(findings, notes, strict=True)
    return next((finding for finding, note in pairs if _digest(note, patch_id) not in dismissed), None)


def with_dismissals(notes: Iterable[NoteView], dismissed: Mapping[str, str]) -> tuple[NoteView, ...]:
    """Add the words on false alarms to the notes."""
    return tuple(replace(note, dismissed=dismissed.get(note.digest, "")) for note in notes)


def group_notes(notes: Iterable[NoteView]) -> tuple[NoteGroup, ...]:
    """Group the notes by name, file and severity, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[NoteView]] = {}
    for note in notes:
        groups.setdefault((note.kind, note.path, note.severity), []).append(note)
    return tuple(NoteGroup(tuple(group)) for group in groups.values())


def _scrubbed(text: str) -> str:
    return plain_text(text, EXPLANATION_LENGTH)[:COMPARED]


def _digest(note: NoteView, patch_id: str | None) -> str:
    """Identify a finding by its content, so that every pass over one patch gives equal digests."""
    content = repr((patch_id, note.source, note.kind, note.path, note.line, note.removed, note.quote or note.text))
    return blake2s(content.encode(), digest_size=8).hexdigest()


def strongest_first(notes: Iterable[NoteView]) -> tuple[NoteView, ...]:
    """Sort by severity, and keep the order within each."""
    return tuple(sorted(notes, key=lambda note: ORDER.index(note.severity)))


def reviewer_words(reviewer: str) -> str:
    """Return the name of the reader in words."""
    return "the deterministic reviewer (scanners only)" if reviewer == DETERMINISTIC else f"{reviewer} and the scanners"


def _state_sentence(review: ContentReview) -> str:
    share = "all" if review.coverage >= 1 else f"{int(100 * review.coverage)} %"
    sentence = f"Read by {reviewer_words(review.reviewer)}: {share} of the changed lines."
    if review.has_verdict:
        return sentence
    why = missing_words(review.missing) or "the review failed"
    return f"{sentence} No verdict: {why}."


def finding_notes(findings: Iterable[ShownFinding]) -> list[NoteView]:
    """Return findings for display."""
    return [
        NoteView(
            SEVERITIES[finding.severity],
            finding_name(finding.scanner, finding.rule, finding.type),
            _spelled_place(finding),
            visible(finding.explanation),
            visible(finding.quote),
            f"{finding.scanner}: {visible(finding.rule)}",
            named_path(finding.file) if finding.file is not None else "",
            finding.line,
            finding.removed,
        )
        for finding in findings
    ]


def _flag_notes(flags: Iterable[ShownFlag], reviewer: str) -> list[NoteView]:
    return [
        NoteView(
            SEVERITIES[flag.severity],
            FLAG_NAMES[flag.type],
            visible(flag.location),
            visible(flag.explanation),
            "",
            reviewer,
            *read_place(flag.location),
        )
        for flag in flags
    ]


def _spelled_place(finding: ShownFinding) -> str:
    """Return the place with invisible characters of its path spelled out.

    Without them it could be another file's name.
    """
    written = _place(finding)
    if finding.file is None or finding.file.isprintable():
        return written
    return visible(finding.file)[:LOCATION_LENGTH] + written.removeprefix(named_path(finding.file))


def _place(finding: ShownFinding) -> str:
    return place(finding.file, finding.line, finding.removed)


@dataclass(frozen=True, slots=True)
class Draft:
    """The initial text of the form of this kind."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class DraftLinks:
    """Links from a page's findings to a form: each an address up to the finding's digest, and its words.

    `in_pane`: htmx swaps the pane.
    """

    links: tuple[tuple[str, str], ...] = ()
    in_pane: bool = False

    def rendered(self, note: NoteView) -> str:
        """Return the links under one finding as safe HTML; "" for one that cannot be named or was dismissed."""
        if not note.digest or note.dismissed:
            return ""
        # The form opens with its line in sight; browsers do not apply autofocus where an address has a fragment.
        place = f"{note.digest}#{note.anchor}" if note.anchor else note.digest
        hidden_words = f'<span class="unseen">: {escape(note.kind)}, {escape(note.place)}</span>'
        return "".join(
            f' <a href="{escape(address)}{note.digest}"{self._swap(address + place)}>{words}{hidden_words}</a>'
            for address, words in self.links
        )

    def _swap(self, address: str) -> str:
        return f' hx-get="{escape(address)}" hx-target="#open" hx-swap="innerHTML"' if self.in_pane else ""


def draft_links(address: str, in_pane: bool, is_approved: bool) -> DraftLinks:
    """Return the links to the forms of the page at `address`; an approved round has no request for changes."""
    kinds = [kind for kind in KINDS if kind == "comment" or not is_approved]
    separator = "&" if "?" in address else "?"
    return DraftLinks(tuple((f"{address}{separator}say={kind}&about=", KINDS[kind]) for kind in kinds), in_pane)


def read_draft(values: Mapping[str, str], notes: Iterable[NoteView]) -> tuple[Draft | None, str]:
    """Return the draft that an address asks for, and a message where its finding is not among `notes`."""
    kind, about = values.get("say", ""), values.get("about", "")
    if kind not in KINDS or not about:
        return None, ""
    note = next((candidate for candidate in notes if candidate.digest == about), None)
    if note is None:
        return None, FINDING_GONE
    told = f"{note.place}: {note.kind}. {note.text}"
    return Draft(kind, told if len(told) <= LENGTH else f"{told[: LENGTH - 1]}…"), ""
