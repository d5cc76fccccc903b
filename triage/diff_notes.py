"""What was found in a change, laid on the lines that it is about. Pure."""

from collections.abc import Mapping, Sequence

from scoring.content.change import Change, FileChange, Line
from scoring.content.finding import short_path
from scoring.read import ContentReview
from triage.diff_places import named_path, place_anchor
from triage.review_words import NoteView

Placed = Mapping[int, Mapping[str, Sequence[NoteView]]]  # number of the file, from 1 -> id of the place -> notes


def line_anchor(base: str, line: Line) -> str:
    """The id of a line in the file whose own id is `base`."""
    removed = line.mark == "-"
    return f"{base}-{'old' if removed else ''}{line.old if removed else line.new}"


def place_notes(files: Sequence[FileChange], notes: Sequence[NoteView]) -> tuple[Placed, tuple[NoteView, ...]]:
    """(notes by file and place, notes on no file of this change).

    A series may change one file several times: a note then stands where its line comes first, else at the first part.
    """
    wanted = {note.path for note in notes if note.path}
    parts: dict[str, list[int]] = {}
    for number, file in enumerate(files, 1):
        if (path := named_path(file.path)) in wanted:
            parts.setdefault(path, []).append(number)
    held = {number: _anchors(path, files[number - 1]) for path, numbers in parts.items() for number in numbers}
    placed: dict[int, dict[str, list[NoteView]]] = {}
    for note in notes:
        numbers = parts.get(note.path, [])
        if numbers:
            number = next((one for one in numbers if note.anchor in held[one]), numbers[0])
            placed.setdefault(number, {}).setdefault(note.anchor, []).append(note)
    return placed, tuple(note for note in notes if note.path not in parts)


def with_ids(notes: Sequence[NoteView]) -> tuple[tuple[str, NoteView], ...]:
    """Each note with the id of its place, which only the first of a place carries."""
    seen: set[str] = set()
    told = []
    for note in notes:
        told.append(("" if note.anchor in seen else note.anchor, note))
        seen.add(note.anchor)
    return tuple(told)


def _anchors(path: str, file: FileChange) -> frozenset[str]:
    base = place_anchor(path)
    return frozenset(line_anchor(base, line) for hunk in file.hunks for line in hunk.lines)


def masks(change: Change, review: ContentReview | None) -> dict[str, str]:
    """Lines in which a secret was found, by their text, as its scanner masked them."""
    quotes: dict[tuple[str, int | None, bool], str] = {
        (short_path(one.file), one.line, one.removed): one.quote
        for one in (review.findings if review else ())
        if one.type == "secret_leak" and one.file is not None and one.line is not None
    }
    if not quotes:
        return {}
    return {line.text: quotes[place] for place, line in _lines(change) if place in quotes and line.text.strip()}


def _lines(change: Change) -> list[tuple[tuple[str, int | None, bool], Line]]:
    return [
        ((short_path(file.path), line.old if line.mark == "-" else line.new, line.mark == "-"), line)
        for file in change.files
        for hunk in file.hunks
        for line in hunk.lines
    ]
