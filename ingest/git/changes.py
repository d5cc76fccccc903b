"""The lines that a commit removes and adds, by file: diffs without context, white space ignored, renames found."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from ingest.errors import FetchProblem
from ingest.git.commits import DIFF
from ingest.git.process import Git

LINES = 200_000  # of one commit: what is beyond is read and not kept
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
            self.hunk.old.append(text if self.kept < LINES else b"")
        elif mark == b"+" and self.after:
            self.after -= 1
            self.hunk.new.append(text if self.kept < LINES else b"")
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
