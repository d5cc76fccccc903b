"""Render the lines of a change as table rows, within a bound of HTML, with the findings at their lines.

Rows hold numbers, marks and colours. A page of 3,000 lines is built here and not by a template, which would take ten
times as long. Every text of the change goes through `shown`, which escapes it and spells out invisible characters.

Placing findings on their lines is pure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

from django.utils.safestring import SafeString

from scoring.diff.change import Change, FileChange, Hunk, Line
from scoring.formatting import visible
from scoring.queries.read import ContentReview
from scoring.types import short_path
from triage.diff_page.facts import file_facts
from triage.diff_page.highlight import Allowance, Spans, colour, language
from triage.presenters.queue.review import ORDER, NoteView, named_path, place_anchor

Placed = Mapping[int, Mapping[str, Sequence[NoteView]]]  # number of the file, from 1 -> id of the place -> notes


def line_anchor(base: str, line: Line) -> str:
    """Return the id of a line in the file whose own id is `base`."""
    removed = line.mark == "-"
    return f"{base}-{'old' if removed else ''}{line.old if removed else line.new}"


def place_notes(files: Sequence[FileChange], notes: Sequence[NoteView]) -> tuple[Placed, tuple[NoteView, ...]]:
    """Return the notes by file and place, and the notes on no file of this change.

    A series may change one file several times: a note is placed where its line first occurs, else at the first part.
    """
    wanted = {note.path for note in notes if note.path}
    parts: dict[str, list[int]] = {}
    for number, file in enumerate(files, 1):
        if (path := named_path(file.path)) in wanted:
            parts.setdefault(path, []).append(number)
    anchors_by_part = {
        number: _anchors(path, files[number - 1]) for path, numbers in parts.items() for number in numbers
    }
    placed: dict[int, dict[str, list[NoteView]]] = {}
    for note in notes:
        numbers = parts.get(note.path, [])
        if numbers:
            number = next((part for part in numbers if note.anchor in anchors_by_part[part]), numbers[0])
            placed.setdefault(number, {}).setdefault(note.anchor, []).append(note)
    return placed, tuple(note for note in notes if note.path not in parts)


def with_ids(notes: Sequence[NoteView]) -> tuple[tuple[str, NoteView], ...]:
    """Return each note with the id of its place, which only the first note of a place has."""
    seen: set[str] = set()
    notes_with_ids = []
    for note in notes:
        notes_with_ids.append(("" if note.anchor in seen else note.anchor, note))
        seen.add(note.anchor)
    return tuple(notes_with_ids)


def _anchors(path: str, file: FileChange) -> frozenset[str]:
    base = place_anchor(path)
    return frozenset(line_anchor(base, line) for hunk in file.hunks for line in hunk.lines)


def masks(change: Change, review: ContentReview | None) -> dict[str, str]:
    """Return the masked text of each line in which a scanner found a secret, by the line's text."""
    quotes: dict[tuple[str, int | None, bool], str] = {
        (short_path(finding.file), finding.line, finding.removed): finding.quote
        for finding in (review.findings if review else ())
        if finding.type == "secret_leak" and finding.file is not None and finding.line is not None
    }
    if not quotes:
        return {}
    return {
        line.text: quotes[line_place]
        for line_place, line in _lines(change)
        if line_place in quotes and line.text.strip()
    }


def _lines(change: Change) -> list[tuple[tuple[str, int | None, bool], Line]]:
    return [
        ((short_path(file.path), line.old if line.mark == "-" else line.new, line.mark == "-"), line)
        for file in change.files
        for hunk in file.hunks
        for line in hunk.lines
    ]


HTML = 400_000  # bytes of rows on one page
FOLDED = 400  # lines of a file above which it is folded, and shown only where smaller files leave room
LINE = 1_000  # characters shown of a line
FILES = 300  # files listed on one page
TONES = {"+": "plus", "-": "minus", " ": ""}
# In a comparison: green lines are added only by the later round; red lines are removed, or no longer added, by it.
INNER_TONES = {"++": "plus", "+-": "minus", "-+": "minus"}
MARKS = {"+": "+", "-": "\N{MINUS SIGN}", " ": ""}


@dataclass(slots=True)
class Room:
    """The remaining room on one page."""

    html: int = HTML
    colours: Allowance = field(default_factory=Allowance)


@dataclass(frozen=True, slots=True)
class FileView:
    """One file's part for display. `rows` are table rows; `rest` counts lines that are not shown, `number` is from 1.

    `notes` are about the file, or about lines that are not shown.
    """

    number: int
    anchor: str
    path: str
    facts: tuple[str, ...]
    added: int
    removed: int
    notes: tuple[tuple[str, NoteView], ...]  # each with its id, "" where that id is already used
    rows: SafeString
    lines: int
    rest: int
    folded: bool


@dataclass(frozen=True, slots=True)
class How:
    """Options for showing lines: `masks` replaces line texts; `compared`: two rounds are compared.

    For files in `by_patch` the lines are a diff of two diffs. `acts` renders a person's actions on one finding.
    """

    masks: Mapping[str, str] = field(default_factory=dict)
    compared: bool = False
    by_patch: frozenset[str] = frozenset()
    acts: Callable[[NoteView], str] | None = None


def shown(text: str) -> str:
    """Return a text of the change as HTML: escaped, with invisible characters spelled out and tabs kept."""
    if text.endswith("\r"):
        text = text[:-1] + "\N{SYMBOL FOR CARRIAGE RETURN}"
    return escape(text if text.isprintable() else "\t".join(map(visible, text.split("\t"))))


def file_views(
    files: Sequence[FileChange], placed: Placed, how: How, only: int = 0, room: Room | None = None
) -> tuple[FileView, ...]:
    """Return the files, worst notes first; where not all fit, files with notes and small files get room first.

    `only` is the number of the one file to show, from 1; 0: the first FILES, and those with a note.
    """
    chosen = [only] if only else sorted({*range(1, min(len(files), FILES) + 1), *placed})
    sizes = {number: _size(files[number - 1]) for number in chosen}
    order = sorted(chosen, key=lambda number: (number not in placed, sizes[number] > FOLDED))
    room = room or Room()
    views = {number: _file_view(number, files[number - 1], placed.get(number, {}), how, room) for number in order}
    is_alone = len(files) == 1 or bool(only)
    return tuple(
        replace(views[number], folded=sizes[number] > FOLDED and number not in placed and not is_alone)
        for number in sorted(chosen, key=lambda number: _rank(placed.get(number, {})))
    )


def _rank(notes: Mapping[str, Sequence[NoteView]]) -> int:
    """Return a file's rank by its worst finding; files without a note come last."""
    return min((ORDER.index(note.severity) for notes_here in notes.values() for note in notes_here), default=len(ORDER))


def lines_of(files: Sequence[FileChange]) -> int:
    """Count the lines in the hunks of these files."""
    return sum(map(_size, files))


def _size(file: FileChange) -> int:
    return sum(len(hunk.lines) for hunk in file.hunks)


def _file_view(
    number: int, file: FileChange, notes: Mapping[str, Sequence[NoteView]], how: How, room: Room
) -> FileView:
    rows: list[str] = []
    on_lines: set[str] = set()
    shown_lines = 0
    for row, anchor, is_line in _rows(file, notes, how, room):
        room.html -= len(row.encode("utf-8", "replace"))
        if room.html < 0:
            break
        rows.append(row)
        on_lines.add(anchor)
        shown_lines += is_line
    lines = _size(file)
    return FileView(
        number,
        f"file-{number}",
        visible(file.path),
        file_facts(file, how.compared),
        sum(1 for _ in file.added()),
        sum(1 for _ in file.removed()),
        with_ids([note for anchor, notes_here in notes.items() if anchor not in on_lines for note in notes_here]),
        SafeString("".join(rows)),
        lines,
        lines - shown_lines,
        False,
    )


def _rows(
    file: FileChange, notes: Mapping[str, Sequence[NoteView]], how: How, room: Room
) -> Iterator[tuple[str, str, bool]]:
    """Yield one file's rows in order, each with the anchor of its notes and whether it is a line."""
    lexer, base = language(file.path), place_anchor(named_path(file.path))
    kinds: dict[tuple[str, str, str], str] = {}
    inner = file.path in how.by_patch
    for hunk in file.hunks:
        yield _hunk_row(hunk, inner), "", False
        for line, spans in zip(hunk.lines, _coloured(None if inner else lexer, hunk, room), strict=True):
            yield _line_row(line, spans, how.masks, inner), "", True
            anchor = line_anchor(base, line) if notes else ""
            if anchor in notes:
                yield _note_row(anchor, notes[anchor], how, kinds), anchor, False


def _hunk_row(hunk: Hunk, inner: bool) -> str:
    place = "" if inner else f"@@ \N{MINUS SIGN}{hunk.old_start} +{hunk.new_start} @@ "
    return f'<tr class="hunk"><td colspan="4">{place}{shown(hunk.section[:200]) or " "}</td></tr>'


def _coloured(lexer: str | None, hunk: Hunk, room: Room) -> Iterator[Spans]:
    """Yield the spans of each line of a hunk, read as two texts: the new side, and the old side for removed lines."""
    if lexer is None or room.html <= 0:
        yield from ([("", line.text)] for line in hunk.lines)
        return
    new = iter(colour(lexer, [line.text for line in hunk.lines if line.mark != "-"], room.colours))
    has_old = any(line.mark == "-" for line in hunk.lines)
    old_lines = [line.text for line in hunk.lines if line.mark != "+"] if has_old else []
    old = iter(colour(lexer, old_lines, room.colours))
    for line in hunk.lines:
        new_spans = next(new) if line.mark != "-" else []
        old_spans = next(old) if has_old and line.mark != "+" else []
        yield old_spans if line.mark == "-" else new_spans


def _line_row(line: Line, spans: Spans, masks: Mapping[str, str], inner: bool) -> str:
    mask = masks.get(line.text[1:] if inner else line.text)
    if mask is not None:
        spans = [("", (line.text[:1] if inner else "") + mask)]
    code = _code(spans)
    if line.ends_file:
        code += ' <em class="quiet">no line end</em>'
    tone = INNER_TONES.get(line.mark + line.text[:1], "") if inner else TONES[line.mark]
    return (
        f'<tr class="{tone}"><td>{line.old or ""}</td><td>{line.new or ""}</td>'
        f"<td>{MARKS[line.mark]}</td><td>{code}</td></tr>"
    )


def _code(spans: Spans) -> str:
    parts, left = [], LINE
    for name, text in spans:
        if left <= 0:
            break
        html = shown(text[:left])
        left -= len(text)
        parts.append(f'<span class="{name}">{html}</span>' if name else html)
    rest = sum(len(text) for _, text in spans) - LINE
    if rest > 0:
        parts.append(f' <em class="quiet">{rest:,} more characters</em>')
    return "".join(parts)


def _note_row(anchor: str, notes: Sequence[NoteView], how: How, kinds: dict[tuple[str, str, str], str]) -> str:
    html = "".join(_note(note, how, kinds) for note in notes)
    return f'<tr id="{anchor}" class="told"><td colspan="4">{html}</td></tr>'


def _note(note: NoteView, how: How, kinds: dict[tuple[str, str, str], str]) -> str:
    """Return one note; later notes of its kind in a file are a collapsed line. `kinds` are the kinds so far."""
    place = f"line {note.line}{' (removed)' if note.removed else ''}"
    first_place = kinds.setdefault((note.source, note.kind, note.severity), place)
    name = f"<strong>{note.severity.capitalize()}: {escape(note.kind)}"
    rest = f"{escape(note.text)}{how.acts(note) if how.acts else _dismissed(note)}"
    html = f"{name}.</strong> {rest}"
    if first_place != place and not note.dismissed:
        html = f"<details><summary>{name}</strong>, same as {first_place}</summary>{rest}</details>"
    return f'<div class="finding {note.tone}" title="{escape(note.source)}">{html}</div>'


def _dismissed(note: NoteView) -> str:
    return f' <span class="quiet">Not a problem, says {escape(note.dismissed)}</span>' if note.dismissed else ""
