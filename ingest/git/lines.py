"""The places of added lines now: followed from commit to commit through edits around them, moves and renames.

A line counts as changed when a commit takes it away and adds no line of the same text anywhere: moved, renamed and
re-indented lines live on. Lines without a letter or a digit are nobody's: a brace that moves is no fix.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from ingest.git.changes import FileChange, Hunk

LINES = 50_000  # of one owner that are followed

Place = tuple[bytes, int]

_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")


class Tracker:
    """The lines of every owner in one branch's newest state. An owner is any number."""

    def __init__(self) -> None:
        self._files: dict[bytes, dict[int, int]] = {}
        self._counts: dict[int, int] = defaultdict(int)

    def count(self, owner: int) -> int:
        """Count this owner's lines that are still there."""
        return sum(found == owner for lines in self._files.values() for found in lines.values())

    def forget(self, owners: Iterable[int]) -> None:
        """Follow these owners' lines no more."""
        gone = set(owners)
        for path, lines in list(self._files.items()):
            kept = {line: owner for line, owner in lines.items() if owner not in gone}
            self._put(path, kept)

    def apply(self, files: Sequence[FileChange], claim: Callable[[bytes], int | None]) -> Mapping[int, set[bytes]]:
        """Follow one commit. `claim` says whose an added text becomes; returns each owner's texts that were changed."""
        added = _added(files)
        moved: dict[bytes, dict[int, int]] = defaultdict(dict)
        lost: dict[int, set[bytes]] = defaultdict(set)
        taken = [(file, self._files.pop(file.before)) for file in files if file.before in self._files]
        for file, lines in taken:
            kept, gone = _shift(lines, file.hunks)
            if file.after:
                moved[file.after].update(kept)
            for text, owner in gone:
                if places := added.get(text):
                    path, line = places.pop(0)
                    moved[path][line] = owner
                else:
                    lost[owner].add(text)
        self._claim(added, moved, claim)
        for path, lines in moved.items():
            self._put(path, {**self._files.get(path, {}), **lines})
        return lost

    def _claim(
        self,
        added: Mapping[bytes, list[Place]],
        moved: dict[bytes, dict[int, int]],
        claim: Callable[[bytes], int | None],
    ) -> None:
        for text, places in added.items():
            for path, line in places:
                owner = claim(text)
                if owner is not None and self._counts[owner] < LINES:
                    self._counts[owner] += 1
                    moved[path][line] = owner

    def _put(self, path: bytes, lines: dict[int, int]) -> None:
        if lines:
            self._files[path] = lines
        else:
            self._files.pop(path, None)


def has_word(text: bytes) -> bool:
    """Tell whether a line has a letter or a digit; no other line is anybody's."""
    return _WORD.search(text) is not None


def _added(files: Sequence[FileChange]) -> dict[bytes, list[Place]]:
    """Every line that a commit adds, by its text, in the order of files and lines."""
    places: dict[bytes, list[Place]] = defaultdict(list)
    for file in files:
        for hunk in file.hunks:
            for offset, text in enumerate(hunk.new):
                if has_word(text):
                    places[text].append((file.after, hunk.into + offset))
    return places


def _shift(lines: Mapping[int, int], hunks: Sequence[Hunk]) -> tuple[dict[int, int], list[tuple[bytes, int]]]:
    """The lines that live on at their new numbers, and the (text, owner) of those that were taken away."""
    kept: dict[int, int] = {}
    gone: list[tuple[bytes, int]] = []
    shift, rest = 0, iter(hunks)
    hunk = next(rest, None)
    for line in sorted(lines):
        while hunk is not None and line > _last(hunk):
            shift += hunk.new_count - hunk.old_count
            hunk = next(rest, None)
        if hunk is not None and hunk.old_count and line >= hunk.start:
            offset = line - hunk.start
            gone.append((hunk.old[offset] if offset < len(hunk.old) else b"", lines[line]))
        else:
            kept[line + shift] = lines[line]
    return kept, gone


def _last(hunk: Hunk) -> int:
    """The last old line that comes before or in a hunk's own lines."""
    return hunk.start + hunk.old_count - 1 if hunk.old_count else hunk.start
