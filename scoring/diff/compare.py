"""Compares two rounds of a pull request file by file. Pure.

Of a file that both rounds change from the same text, what it is after one round is compared with what it is after the
other: the hunks of both hold every line that differs. Of another one the two patches are compared, a diff of two diffs.
Positions are ignored. A rebase moves lines and changes their context; rounds that add and remove the same lines count
as a rebase, and no line is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

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

    `files` are those that differ: a line's mark says which round has it. Of those in `by_patch` its text begins with
    its mark in that round's patch; of the others a line is one of the file, with its number after each round.
    `same` counts files with equal edits, `opaque` binary files in both, which cannot be compared; `too_long` names
    files that differ and were not compared line by line.
    """

    verdict: Verdict
    files: tuple[FileChange, ...] = ()
    same: int = 0
    opaque: int = 0
    too_long: tuple[str, ...] = ()
    by_patch: frozenset[str] = frozenset()


class Edits(NamedTuple):
    """What a round does to one file, by the number of the line before it: `base` are the lines that its hunks show."""

    base: dict[int, Line]
    removed: set[int]
    added: dict[int, list[Line]]


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
    differences, too_long, by_patch = _differences(differing, old_parts, new_parts)
    return Comparison("changed", tuple(differences), same_count, opaque, tuple(too_long), frozenset(by_patch))


def _differences(
    paths: Iterable[str], old_parts: Parts, new_parts: Parts
) -> tuple[list[FileChange], list[str], list[str]]:
    """Return the parts that differ, and the paths of those too long to compare and of those compared by patch."""
    differences: list[FileChange] = []
    too_long: list[str] = []
    by_patch: list[str] = []
    lines_left = ALL_LINES
    for path in paths:
        old_lines, new_lines = _lines(old_parts.get(path)), _lines(new_parts.get(path))
        lines_left -= len(old_lines) + len(new_lines)
        if lines_left < 0 or max(len(old_lines), len(new_lines)) > FILE_LINES:
            too_long.append(path)
            continue
        parts = old_parts.get(path), new_parts.get(path)
        hunks = _compare_results(*parts)
        if not hunks:
            by_patch.append(path)
            hunks = _hunks([_in_patch(line) for line in old_lines], [_in_patch(line) for line in new_lines])
        differences.append(_difference(path, parts, tuple(hunks)))
    return differences, too_long, by_patch


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


def _compare_results(old: Sequence[FileChange] | None, new: Sequence[FileChange] | None) -> list[Hunk]:
    """Compare the file after each round; [] where its lines are not known, or do not differ."""
    before, after = _read_edits(old), _read_edits(new)
    if before is None or after is None or (old and new and old[0].old_path != new[0].old_path):
        return []
    if any(before.base[number].text != after.base[number].text for number in before.base.keys() & after.base.keys()):
        return []
    base = before.base | after.base
    windows = _windows(base, [*before.added, *after.added])
    sides = zip(_results(base, before, windows), _results(base, after, windows), strict=True)
    return [hunk for old_lines, new_lines in sides for hunk in _hunks(old_lines, new_lines)]


def _read_edits(parts: Sequence[FileChange] | None) -> Edits | None:
    """Read the edits of one file; None where it is changed in several steps, or a hunk is cut or out of order."""
    edits = Edits({}, set(), {})
    if parts is not None and (len(parts) > 1 or not all(hunk.whole for hunk in parts[0].hunks)):
        return None
    for hunk in parts[0].hunks if parts else ():
        at = hunk.old_start - any(line.mark != "+" for line in hunk.lines)
        for line in hunk.lines:
            if line.mark == "+":
                edits.added.setdefault(at, []).append(line)
                continue
            at += 1
            if at in edits.base:
                return None
            edits.base[at] = line
            if line.mark == "-":
                edits.removed.add(at)
    return edits


def _windows(base: Mapping[int, Line], inserts: Iterable[int]) -> list[list[int]]:
    """Return the runs of line numbers between which no line is unknown."""
    windows: list[list[int]] = []
    for number in sorted({*base, *inserts}):
        if windows and number == windows[-1][-1] + 1 and number in base:
            windows[-1].append(number)
        else:
            windows.append([number])
    return windows


def _results(base: Mapping[int, Line], edits: Edits, windows: Sequence[Sequence[int]]) -> list[list[Line]]:
    """Return the lines of each window after one round, with their numbers then."""
    results: list[list[Line]] = []
    shift = 0
    for window in windows:
        lines: list[Line] = []
        for number in window:
            if number in edits.removed:
                shift -= 1
            elif number in base:
                lines.append(_result(base[number], number + shift))
            for line in edits.added.get(number, ()):
                shift += 1
                lines.append(_result(line, number + shift))
        results.append(lines)
    return results


def _result(line: Line, number: int) -> Line:
    return Line(" ", None, number, line.text, line.ends_file)


def _in_patch(line: Line) -> Line:
    return Line(" ", None, line.new or line.old, line.mark + line.text, line.ends_file)


def _difference(
    path: str, parts: tuple[Sequence[FileChange] | None, Sequence[FileChange] | None], hunks: tuple[Hunk, ...]
) -> FileChange:
    """Describe one file that differs; the kind says whether the newer round began or ceased to touch it."""
    newest_part = next(part for side in reversed(parts) if side for part in side)
    binary = any(part.binary for side in parts if side for part in side)
    kind = "added" if parts[0] is None else "deleted" if parts[1] is None else "modified"
    return FileChange(
        path, path, kind, hunks, binary=binary, submodule=newest_part.submodule, symlink=newest_part.symlink
    )


def _hunks(old_lines: Sequence[Line], new_lines: Sequence[Line]) -> list[Hunk]:
    matcher = SequenceMatcher(None, [line.text for line in old_lines], [line.text for line in new_lines])
    found = [tuple(_difference_lines(group, old_lines, new_lines)) for group in matcher.get_grouped_opcodes(CONTEXT)]
    return [
        Hunk(
            next((line.old for line in lines if line.old), 0),
            next((line.new for line in lines if line.new), 0),
            "",
            lines,
        )
        for lines in found
    ]


def _difference_lines(
    group: Iterable[tuple[str, int, int, int, int]], old_lines: Sequence[Line], new_lines: Sequence[Line]
) -> Iterable[Line]:
    for operation, since, until, start, end in group:
        if operation == "equal":
            pairs = zip(old_lines[since:until], new_lines[start:end], strict=True)
            yield from (_marked_line(" ", old_line.new, new_line.new, new_line) for old_line, new_line in pairs)
            continue
        yield from (_marked_line("-", line.new, None, line) for line in old_lines[since:until])
        yield from (_marked_line("+", None, line.new, line) for line in new_lines[start:end])


def _marked_line(mark: Mark, before: int | None, after: int | None, line: Line) -> Line:
    return Line(mark, before, after, line.text, line.ends_file)
