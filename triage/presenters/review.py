"""Shows a review of a change in words apart from the site's own, names places in its diff, and drafts texts about them.

The words are the What side of an open row. The expanded row and the diff agree on the names of places where a finding
or a flag stands.

A comment or a request for changes can begin with a draft about one finding. An address only names the finding, so that
no link of a stranger can put words into a form. A draft is sent to nobody: a person edits and saves it.
"""

import re
from collections.abc import Iterable, Mapping
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
COMPARED = 200  # characters of two texts that are one: a column cuts a finding's text, scrubbing a flag's
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
LENGTH = 600  # characters of a draft, so that most of a note's 2,000 are left to its writer
FINDING_GONE = "The latest round does not have this finding, so no text was prepared."


def place_anchor(path: str, line: int | None = None, removed: bool = False) -> str:
    """The id in a diff of what is said of this file, or of this line of it; short and free of the path's characters."""
    name = "at-" + blake2s(path.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return name if line is None else f"{name}-{'old' if removed else ''}{line}"


def read_place(text: str) -> Place:
    """The place that a flag names, such as "a/b.py:12 (removed)"; path "" for no file."""
    found = _PLACE.fullmatch(text)
    if found is None or text in {WHOLE, *WORDS} or text.startswith(NOT_FOUND) or _COMMIT.fullmatch(text):
        return "", None, False
    return found[1], int(found[2]) if found[2] else None, bool(found[3])


def named_path(path: str) -> str:
    """A path as reviewers name it: their answers hold no invisible characters."""
    return place(path, None)


@dataclass(frozen=True, slots=True)
class NoteView:
    """A flag or a finding as shown: its name, where it is, and the line it quotes ("" for none).

    `source` is the code of the scanner and its rule, or the model that says so: pages show it as a tooltip. `path` is
    the file as reviewers name it, "" for the change as a whole; `line` counts in the new file, in the old one where it
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
    digest: str = ""  # names the finding in this text; "" where the patch was not read
    dismissed: str = ""  # who called it a false alarm, and why

    @property
    def tone(self) -> str:
        """The class of its colour, "" for a low one; the severity stands beside it in words."""
        return {"high": "flag", "medium": "review"}.get(self.severity, "")

    @property
    def anchor(self) -> str:
        """The id of its place in the diff, "" for the change as a whole."""
        return place_anchor(self.path, self.line, self.removed) if self.path else ""


@dataclass(frozen=True, slots=True)
class NoteGroup:
    """Notes of one name in one file, strongest first."""

    notes: tuple[NoteView, ...]

    @property
    def first(self) -> NoteView:
        """The strongest, which stands for all of them."""
        return self.notes[0]

    @property
    def place(self) -> str:
        """The place of a single note, else the file with the number of places."""
        if len(self.notes) == 1:
            return self.first.place
        return f"{visible(self.first.path) or 'the change as a whole'}, {len(self.notes):,} places"

    @property
    def digests(self) -> str:
        """Return what a form sends to name all of them; "" where one cannot be named."""
        named = dict.fromkeys(note.digest for note in self.notes)
        return "" if "" in named else " ".join(named)

    @property
    def dismissed(self) -> str:
        """Return who called all of them a false alarm, and why; "" while one is open."""
        said = dict.fromkeys(note.dismissed for note in self.notes)
        return "" if "" in said else "; ".join(said)


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review as shown."""

    risk: float
    summary: str
    state: str  # one sentence: who read how much, or why there is no verdict
    asked: str
    notes: tuple[NoteView, ...]
    groups: tuple[NoteGroup, ...]
    cost: str


def review_view(
    found: ContentReview | None,
    quotes: Mapping[str, str] | None = None,
    patch_id: str | None = None,
    dismissed: Mapping[str, str] | None = None,
) -> ReviewView | None:
    """The review as shown; None where there is none. `quotes` are lines that flags name, by the ids of their places.

    `dismissed` are words on false alarms by the digest of the finding.
    """
    if found is None:
        return None
    notes = with_dismissals(review_notes(found, patch_id), dismissed or {})
    notes = tuple(note if note.quote else replace(note, quote=(quotes or {}).get(note.anchor, "")) for note in notes)
    return ReviewView(
        found.risk,
        visible(found.summary),
        _state(found),
        ASKED_WORDS.get(found.asked_because, ""),
        notes,
        group_notes(notes),
        f"This reading cost ${found.dollars:.4f}." if found.dollars else "",
    )


def review_notes(found: ContentReview, patch_id: str | None = None) -> tuple[NoteView, ...]:
    """Findings and flags, strongest first; a flag that repeats a finding is told once.

    A scanner's finding becomes a flag with its text scrubbed, so texts are compared as they are then.
    """
    told = {(_scrubbed(finding.explanation), _place(finding)) for finding in found.findings}
    flags = [flag for flag in found.flags if (_scrubbed(flag.explanation), flag.location) not in told]
    notes = strongest_first([*finding_notes(found.findings), *_from_flags(flags, found.reviewer)])
    return tuple(replace(note, digest=_digest(note, patch_id)) for note in notes) if patch_id else notes


def with_dismissals(notes: Iterable[NoteView], dismissed: Mapping[str, str]) -> tuple[NoteView, ...]:
    """The notes, each with the words on it where somebody called it a false alarm."""
    return tuple(replace(note, dismissed=dismissed.get(note.digest, "")) for note in notes)


def group_notes(notes: Iterable[NoteView]) -> tuple[NoteGroup, ...]:
    """The notes by name, file and severity, in the order of the first of each."""
    found: dict[tuple[str, str, str], list[NoteView]] = {}
    for note in notes:
        found.setdefault((note.kind, note.path, note.severity), []).append(note)
    return tuple(NoteGroup(tuple(some)) for some in found.values())


def _scrubbed(text: str) -> str:
    return plain_text(text, EXPLANATION_LENGTH)[:COMPARED]


def _digest(note: NoteView, patch_id: str | None) -> str:
    """Name a finding by the content that it is about: another patch has other findings, another pass the same."""
    named = repr((patch_id, note.source, note.kind, note.path, note.line, note.removed, note.quote or note.text))
    return blake2s(named.encode(), digest_size=8).hexdigest()


def strongest_first(notes: Iterable[NoteView]) -> tuple[NoteView, ...]:
    """In order of severity, else as given."""
    return tuple(sorted(notes, key=lambda note: ORDER.index(note.severity)))


def reviewer_words(reviewer: str) -> str:
    """Return who read, named as what it is."""
    return "the deterministic reviewer (scanners only)" if reviewer == DETERMINISTIC else f"{reviewer} and the scanners"


def _state(found: ContentReview) -> str:
    share = "all" if found.coverage >= 1 else f"{int(100 * found.coverage)} %"
    read = f"Read by {reviewer_words(found.reviewer)}: {share} of the changed lines."
    if found.has_verdict:
        return read
    why = missing_words(found.missing) or "the review failed"
    return f"{read} No verdict: {why}."


def finding_notes(findings: Iterable[ShownFinding]) -> list[NoteView]:
    """Findings as shown."""
    return [
        NoteView(
            SEVERITIES[one.severity],
            finding_name(one.scanner, one.rule, one.type),
            _spelled_place(one),
            visible(one.explanation),
            visible(one.quote),
            f"{one.scanner}: {visible(one.rule)}",
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
            FLAG_NAMES[one.type],
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


@dataclass(frozen=True, slots=True)
class Draft:
    """The text with which the form of this kind begins."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class DraftLinks:
    """Links of a page from its findings to a form: each an address up to the finding's digest, and its words.

    `in_pane`: htmx swaps the pane.
    """

    links: tuple[tuple[str, str], ...] = ()
    in_pane: bool = False

    def rendered(self, note: NoteView) -> str:
        """The links under one finding as safe HTML; "" for one that cannot be named or is called a false alarm."""
        if not note.digest or note.dismissed:
            return ""
        # The form opens with its line in sight; a browser gives no field the focus where an address names a place.
        place = f"{note.digest}#{note.anchor}" if note.anchor else note.digest
        about = f'<span class="unseen">: {escape(note.kind)}, {escape(note.place)}</span>'
        return "".join(
            f' <a href="{escape(address)}{note.digest}"{self._swap(address + place)}>{words}{about}</a>'
            for address, words in self.links
        )

    def _swap(self, address: str) -> str:
        return f' hx-get="{escape(address)}" hx-target="#open" hx-swap="innerHTML"' if self.in_pane else ""


def draft_links(address: str, in_pane: bool, is_approved: bool) -> DraftLinks:
    """Return the links to the forms of the page at `address`; an approved round has no request for changes."""
    kinds = [kind for kind in KINDS if kind == "comment" or not is_approved]
    step = "&" if "?" in address else "?"
    return DraftLinks(tuple((f"{address}{step}say={kind}&about=", KINDS[kind]) for kind in kinds), in_pane)


def read_draft(values: Mapping[str, str], notes: Iterable[NoteView]) -> tuple[Draft | None, str]:
    """Return the draft that an address asks for, and why there is none where its finding is not among `notes`."""
    kind, about = values.get("say", ""), values.get("about", "")
    if kind not in KINDS or not about:
        return None, ""
    note = next((one for one in notes if one.digest == about), None)
    if note is None:
        return None, FINDING_GONE
    told = f"{note.place}: {note.kind}. {note.text}"
    return Draft(kind, told if len(told) <= LENGTH else f"{told[: LENGTH - 1]}…"), ""
