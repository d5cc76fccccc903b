"""Files after the change: the text at the base with the hunks applied, and the change's line of each row. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scoring.diff.change import Change, FileChange, Hunk, Line

# Bytes of all new sides of known files together: 400 parts of one file of 1 MB would be 400 MB.
SIDES_BYTES = 20_000_000
ROW_BYTES = 8  # of a row besides its text
SHIFT = 100  # lines by which a hunk may have moved since the patch was made


@dataclass(frozen=True, slots=True)
class NewSide:
    """The new side of a file or of a hunk, with the removed text.

    `lines` gives for each row of `text` the line of the change, else None.
    """

    text: str
    lines: tuple[Line | None, ...]
    removed: str = ""

    def added(self, first: int, last: int) -> Line | None:
        """Return the first added line among the rows `first` to `last` (both included, from 0)."""
        rows = self.lines[first : last + 1]
        return next((line for line in rows if line is not None and line.mark == "+"), None)


def whole_files(change: Change, base: Mapping[str, str]) -> tuple[NewSide | None, ...]:
    """Return the new side of each file of the change, in order; None where it is unknown.

    `base` maps paths to texts before the change. An added file is known without it. Parts of a series build on each
    other. A part whose context does not match is None, as are later parts of that file, and parts with which all sides
    together would exceed SIDES_BYTES.
    """
    texts: dict[str, str] = dict(base)
    sides: list[NewSide | None] = []
    left = SIDES_BYTES
    for file in change.files:
        before = "" if file.kind == "added" else texts.pop(file.old_path, None)
        if file.kind == "copied" and before is not None:
            texts[file.old_path] = before
        side = _applied(before, file) if before is not None and (not before or _weight(before) <= left) else None
        if side is not None:
            texts[file.path] = side.text
            left -= _weight(side.text)
        sides.append(side)
    return tuple(sides)


def _weight(text: str) -> int:
    return len(text) + ROW_BYTES * text.count("\n")


def _applied(before: str, file: FileChange) -> NewSide | None:
    if file.kind == "deleted" or file.binary or not file.hunks:
        return None
    old = before.removesuffix("\n").split("\n") if before else []
    rows: list[tuple[str, Line | None]] = []
    next_row = shift = 0
    for hunk in file.hunks:
        start = _find(old, hunk, next_row, shift) if hunk.whole else None
        if start is None:
            return None
        rows += [(text, None) for text in old[next_row:start]]
        rows += [(line.text, line) for line in hunk.lines if line.mark != "-"]
        next_row = start + sum(line.mark != "+" for line in hunk.lines)
        shift = start - _promised(hunk)
    rows += [(text, None) for text in old[next_row:]]
    removed = removed_lines(file.hunks)
    return NewSide("\n".join([*(text for text, _ in rows), ""]), tuple(line for _, line in rows), removed)


def removed_lines(hunks: Iterable[Hunk]) -> str:
    """Return the removed lines of hunks as one text."""
    return "\n".join(line.text for hunk in hunks for line in hunk.lines if line.mark == "-")


def _promised(hunk: Hunk) -> int:
    """Return the row, from 0, at which the hunk claims to begin; a hunk without old lines names the line before it."""
    return hunk.old_start - 1 if any(line.mark != "+" for line in hunk.lines) else hunk.old_start


def _find(old: Sequence[str], hunk: Hunk, first: int, shift: int) -> int | None:
    """Return the row at which the hunk's old lines are, nearest to its claim; None where they are not found."""
    old_lines = [line.text for line in hunk.lines if line.mark != "+"]
    expected = _promised(hunk) + shift
    if not old_lines:
        return expected if first <= expected <= len(old) else None
    for distance in range(SHIFT + 1):
        for start in (expected - distance, expected + distance):
            if first <= start and old[start : start + len(old_lines)] == old_lines:
                return start
    return None
