"""Compares two rounds of a pull request file by file: a diff of two diffs. Pure.

Positions are ignored. A rebase moves lines and changes their context; rounds that add and remove the same lines count
as a rebase, and no line is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from scoring.diff.change import Change, FileChange, Hunk, Line, Mark

FILE_LINES = (
    1_500  # of one file's part: comparing may take time in the square; the slowest pair found took .03 s of CPU
)
ALL_LINES = 20_000  # of all parts that are compared
CONTEXT = 3
Verdict = Literal["same", "rebased", "changed"]
Parts = Mapping[str, Sequence[FileChange]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two rounds.

    `files` are those that differ: a line's mark says which round has it, and its text begins with its mark there.
    `same` counts files with equal edits, `opaque` binary files in both, which cannot be compared; `too_long` names
    files that differ and were not compared line by line.
    """

    verdict: Verdict
    files: tuple[FileChange, ...] = ()
    same: int = 0
    opaque: int = 0
    too_long: tuple[str, ...] = ()


def compare_rounds(before: Change, after: Change) -> Comparison:
    """Compare the changes of two rounds. FILE_LINES and ALL_LINES bound the time for any content."""
    old_parts, new_parts = _by_path(before.files), _by_path(after.files)
    all_paths = dict.fromkeys((*new_parts, *old_parts))
    differing = {path: None for path in all_paths if _edits(old_parts.get(path)) != _edits(new_parts.get(path))}
    opaque = sum(any(part.binary for part in new_parts[path]) for path in all_paths if path not in differing)
    same_count = len(all_paths) - len(differing) - opaque
    if not differing:
        is_same = all(_texts(_lines(old_parts[path])) == _texts(_lines(new_parts[path])) for path in all_paths)
        return Comparison("same" if is_same else "rebased", same=same_count, opaque=opaque)
    differences, too_long = _differences(differing, old_parts, new_parts)
    return Comparison("changed", tuple(differences), same_count, opaque, tuple(too_long))


def _differences(paths: Iterable[str], old_parts: Parts, new_parts: Parts) -> tuple[list[FileChange], list[str]]:
    """Return the parts that differ, and the paths of those that are too long to compare."""
    differences: list[FileChange] = []
    too_long: list[str] = []
    lines_left = ALL_LINES
    for path in paths:
        old_lines, new_lines = _lines(old_parts.get(path)), _lines(new_parts.get(path))
        lines_left -= len(old_lines) + len(new_lines)
        if lines_left < 0 or max(len(old_lines), len(new_lines)) > FILE_LINES:
            too_long.append(path)
        else:
            differences.append(_difference(path, (old_parts.get(path), new_parts.get(path)), old_lines, new_lines))
    return differences, too_long


def _by_path(files: Iterable[FileChange]) -> dict[str, list[FileChange]]:
    """Group the parts by path; a series may change one file several times."""
    parts: dict[str, list[FileChange]] = {}
    for file in files:
        parts.setdefault(file.path, []).append(file)
    return parts


def _edits(parts: Sequence[FileChange] | None) -> object:
    """Return a round's edits of one path, without context; None if it does not touch the path."""
    if parts is None:
        return None
    edits = _texts(line for line in _lines(parts) if line.mark != " ")
    return edits, [(part.kind, part.old_path, part.old_mode, part.new_mode, part.binary) for part in parts]


def _lines(parts: Sequence[FileChange] | None) -> list[Line]:
    return [line for part in parts or () for hunk in part.hunks for line in hunk.lines]


def _texts(lines: Iterable[Line]) -> list[str]:
    return [f"{line.mark}{line.text}" for line in lines]


def _difference(
    path: str,
    parts: tuple[Sequence[FileChange] | None, Sequence[FileChange] | None],
    old_lines: list[Line],
    new_lines: list[Line],
) -> FileChange:
    """Compare one file; the kind says whether the newer round began or ceased to touch it."""
    matcher = SequenceMatcher(None, _texts(old_lines), _texts(new_lines))
    hunks = tuple(
        Hunk(group[0][1] + 1, group[0][3] + 1, "", tuple(_difference_lines(group, old_lines, new_lines)))
        for group in matcher.get_grouped_opcodes(CONTEXT)
    )
    newest_part = next(part for side in reversed(parts) if side for part in side)
    binary = any(part.binary for side in parts if side for part in side)
    kind = "added" if parts[0] is None else "deleted" if parts[1] is None else "modified"
    return FileChange(
        path, path, kind, hunks, binary=binary, submodule=newest_part.submodule, symlink=newest_part.symlink
    )


def _difference_lines(
    group: Iterable[tuple[str, int, int, int, int]], old_lines: list[Line], new_lines: list[Line]
) -> Iterable[Line]:
    for operation, since, until, start, end in group:
        if operation == "equal":
            pairs = zip(old_lines[since:until], new_lines[start:end], strict=True)
            yield from (
                _marked_line(" ", _line_number(old_line), _line_number(new_line), new_line)
                for old_line, new_line in pairs
            )
            continue
        yield from (_marked_line("-", _line_number(old_line), None, old_line) for old_line in old_lines[since:until])
        yield from (_marked_line("+", None, _line_number(old_line), old_line) for old_line in new_lines[start:end])


def _marked_line(mark: Mark, before: int | None, after: int | None, line: Line) -> Line:
    return Line(mark, before, after, line.mark + line.text, line.ends_file)


def _line_number(line: Line) -> int | None:
    return line.new or line.old
