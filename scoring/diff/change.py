"""A change as git would apply it: files, hunks, numbered lines, and the mails that brought it. Pure data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scoring.types import Finding

Kind = Literal["modified", "added", "deleted", "renamed", "copied", "mode"]
Mark = Literal["+", "-", " "]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk, without mark and line end. `old` and `new` count from 1; None where that side lacks it.

    `ends_file`: the patch says that no line end follows, as only a file's last line can have it.
    """

    mark: Mark
    old: int | None
    new: int | None
    text: str
    ends_file: bool = False


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that change together. `whole` is false where the text ended before the hunk did."""

    old_start: int
    new_start: int
    section: str  # what git writes behind the second @@
    lines: tuple[Line, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file's part. `path` is its new name (its old one where it is deleted), unquoted, with slashes, no a/ or b/.

    A hostile name keeps its characters: whoever shows it escapes it, nobody opens it. `submodule` and `symlink` follow
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
        """The lines that the change adds."""
        return (line for hunk in self.hunks for line in hunk.lines if line.mark == "+")

    def removed(self) -> Iterator[Line]:
        """The lines that it takes away."""
        return (line for hunk in self.hunks for line in hunk.lines if line.mark == "-")


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail of a format-patch series; what `git mailinfo` would print. `date` as written, never trusted."""

    author: str
    email: str
    date: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Change:
    """Everything that was read of one patch.

    `problems` are findings of the reading itself (cut, oversized, unreadable, text outside hunks). `coverage` is the
    share in [0, 1] of the patch's changed lines that were read whole: 1 only where nothing was cut, skipped or opaque
    (a binary file is opaque).
    """

    files: tuple[FileChange, ...]
    mails: tuple[Mail, ...]
    problems: tuple[Finding, ...]
    coverage: float
