"""The lines that commits remove and add, and where added lines are now.

Diffs are read without context, white space ignored, renames found. Lines are followed from commit to commit through
edits around them, moves and renames. A line counts as changed when a commit takes it away and adds no line of the same
text anywhere: moved, renamed and re-indented lines live on. Lines without a letter or a digit are nobody's: a brace
that moves is no fix.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from ingest.errors import FetchProblem
from ingest.git.commits import DIFF
from ingest.git.process import Git

COMMIT_LINES = 200_000  # of one commit: what is beyond is read and not kept
PATHS_LIMIT = 50_000_000  # bytes of the paths at which two commits differ
LINE_LIMIT = 4_000  # bytes of a line that are kept
# White space alone is no change of a line, and leaves every other line where it was.
CHANGES = (*DIFF, "-p", "-U0", "-M", "-w", "--no-prefix")

_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")


@dataclass
class Hunk:
    """Lines that are replaced: `old` from line `start` on, by `new` from line `into` on, each without white space.

    Where `old` is empty, `start` is the line behind which `new` goes, as in a diff.
    """

    start: int
    old_count: int
    into: int
    new_count: int
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


@dataclass
class FileChange:
    """One file's part. Names are as git quotes them; empty where there is no such side."""

    before: bytes = b""
    after: bytes = b""
    hunks: list[Hunk] = field(default_factory=list)


def read_changes(
    git: Git, commits: Sequence[str], parents: Mapping[str, str], seconds: float
) -> Iterator[tuple[str, list[FileChange]]]:
    """Yield what each commit changes against `parents[commit]`, else against its one parent. Raises FetchProblem."""
    if not commits:
        return
    given = [f"{commit} {parents[commit]}" if commit in parents else commit for commit in commits]
    with git.stream(*CHANGES, given=given, seconds=seconds) as out:
        marks = [f"{commit}\n".encode() for commit in commits]
        if out.readline(100) != marks[0]:
            raise FetchProblem("git answered about another commit than asked")
        for commit, following in zip(commits, [*marks[1:], b""], strict=True):
            yield commit, _one_commit(out, following)


def changed_paths(git: Git, before: str, after: str) -> set[bytes]:
    """Return the paths at which two commits differ in content or mode. Raises FetchProblem."""
    told = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, limit=PATHS_LIMIT)
    return set(told.split(b"\0")) - {b""}


class _Reader:
    """Takes the lines of one commit's diff."""

    def __init__(self) -> None:
        self.files: list[FileChange] = []
        self.hunk = Hunk(0, 0, 0, 0)
        self.before = self.after = 0  # lines that the running hunk still needs
        self.kept = 0

    def line(self, line: bytes) -> None:
        if self.before or self.after:
            self._hunk_line(line)
        elif line.startswith(b"diff --git "):
            self.files.append(FileChange())
        elif self.files:
            self._header(self.files[-1], line)

    def _hunk_line(self, line: bytes) -> None:
        mark, text = line[:1], b"".join(line[1:].split())
        self.kept += 1
        if mark == b"-" and self.before:
            self.before -= 1
            self.hunk.old.append(text if self.kept < COMMIT_LINES else b"")
        elif mark == b"+" and self.after:
            self.after -= 1
            self.hunk.new.append(text if self.kept < COMMIT_LINES else b"")
        elif mark != b"\\":
            self.before = self.after = 0

    def _header(self, file: FileChange, line: bytes) -> None:
        if found := _HUNK.match(line):
            start, old, into, new = (int(count) if count is not None else 1 for count in found.groups())
            self.hunk, self.before, self.after = Hunk(start, old, into, new), old, new
            file.hunks.append(self.hunk)
        elif line.startswith((b"rename from ", b"copy from ")):
            file.before = line.split(b" ", 2)[2] if line.startswith(b"rename") else b""
        elif line.startswith(b"rename to "):
            file.after = line.split(b" ", 2)[2]
        elif line.startswith(b"--- ") and line != b"--- /dev/null":
            file.before = file.before or line[4:].rstrip(b"\t")
        elif line.startswith(b"+++ ") and line != b"+++ /dev/null":
            file.after = file.after or line[4:].rstrip(b"\t")


def _one_commit(out: IO[bytes], following: bytes) -> list[FileChange]:
    reader = _Reader()
    while line := out.readline(LINE_LIMIT):
        if line == following and not (reader.before or reader.after):
            return reader.files
        reader.line(line.rstrip(b"\n"))
        while line and not line.endswith(b"\n"):
            line = out.readline(65_536)
    if following:
        raise FetchProblem("git ended before its last commit")
    return reader.files


OWN_LINES = 50_000  # of one owner that are followed

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
                if owner is not None and self._counts[owner] < OWN_LINES:
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
