"""A change as git would apply it: files, hunks, numbered lines, and its mails. Pure data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scoring.types import Finding

Kind = Literal["modified", "added", "deleted", "renamed", "copied", "mode"]
Mark = Literal["+", "-", " "]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk, without mark and line end. `old` and `new` count from 1; None if that side lacks it.

    `ends_file`: no line end follows, which only a file's last line can have.
    """

    mark: Mark
    old: int | None
    new: int | None
    text: str
    ends_file: bool = False


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that change together. `whole` is false if the text ended before the hunk."""

    old_start: int
    new_start: int
    section: str  # git's text after the second @@
    lines: tuple[Line, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file's part. `path` is its new name (the old one if deleted), unquoted, with slashes, without a/ or b/.

    A hostile name keeps its characters: pages must escape it, and nothing may open it. `submodule` and `symlink` follow
    from the modes 160000 and 120000.
    """

    path: str
    old_path: str
    kind: Kind
    hunks: tuple[Hunk, ...] = ()
    old_mode: str | None = None
    new_mode: str | None = None
    binary: bool = False
    submodule: bool = False
    symlink: bool = False

    def added(self) -> Iterator[Line]:
        """Yield the added lines."""
        return (line for hunk in self.hunks for line in hunk.lines if line.mark == "+")

    def removed(self) -> Iterator[Line]:
        """Yield the removed lines."""
        return (line for hunk in self.hunks for line in hunk.lines if line.mark == "-")


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail of a format-patch series, as `git mailinfo` prints it. `date` is as written and untrusted."""

    author: str
    email: str
    date: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Change:
    """The content of one patch.

    `problems` are findings of the parser (cut, oversized, unreadable, text outside hunks). `coverage` is the share in
    [0, 1] of the patch's changed lines that were read whole: 1 only if nothing was cut, skipped or opaque (as a binary
    file is).
    """

    files: tuple[FileChange, ...]
    mails: tuple[Mail, ...]
    problems: tuple[Finding, ...]
    coverage: float
