"""Git's own reading of a patch: split by `git mailsplit`, decoded by `git mailinfo`, counted by `git apply`.

A knot merges a series by `git am` and a plain diff by `git apply`. Both readings must find the very lines that are read
here, else something would be merged that nobody saw. Nothing is applied: git takes the text apart in a folder of its
own, outside any repository, as a guarded child.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from ingest.errors import FetchProblem
from ingest.git.header_names import changed_path
from ingest.git.patch import DiffReader, Part, change_lines, is_converted, is_from_line
from ingest.git.process import Git, GitRefusal, Watch, watch_nothing

State = Literal["same", "different", "refused"]
MAILS = 500  # of one series, as many as are reviewed; each costs a child
SECONDS = 20.0  # for one text: 4 MB of mail take .2
OUTPUT = 20_000_000  # bytes that a child may say or write
_MAY_CHANGE = (b"diff ", b"--- ", b"@@ ")  # one of these lines is in every text in which `git apply` finds a change


@dataclass(frozen=True)
class GitReading:
    """'same' where git reads the same change; else `line` of the text, from 1, shows where the difference begins."""

    state: State
    line: int | None = None


@dataclass(frozen=True)
class _Asked:
    """git in a folder of its own, and when its time for this text is over."""

    git: Git
    folder: Path
    ends: float

    def run(self, *arguments: str, given: Path | tuple[()] = ()) -> bytes:
        """Return the output of git. Raises FetchProblem, also where the time is over."""
        seconds = max(self.ends - time.monotonic(), 0.0)
        return self.git.run(*arguments, given=given, limit=OUTPUT, seconds=seconds)


@dataclass(frozen=True)
class _Mail:
    """A mail as git decoded it: the line of the text that it begins with, and the patch in it."""

    line: int
    patch: Path


def compare_with_git(text: bytes, watch: Watch = watch_nothing) -> GitReading | None:
    """Compare git's reading of a patch's text with this project's; None where git gave no answer, to be asked later.

    'refused' is git's own complaint, or an answer beyond the limit: a child whose time ran out, or that was killed,
    has said nothing of the text.
    """
    lines = text.removesuffix(b"\n").split(b"\n")
    starts = _mail_starts(lines)
    if len(starts) > MAILS:
        return GitReading("different", starts[MAILS])
    opening = next((place for place, line in enumerate(lines) if line.removesuffix(b"\r")), 0)
    if is_converted([line.removesuffix(b"\r") for line in lines[opening : opening + 3]]):
        return GitReading("different", opening + 1)
    try:
        with tempfile.TemporaryDirectory(prefix="sunstead-mail-") as folder:
            git = Git(Path(folder) / "nothing", watch)
            asked = _Asked(git, Path(folder), time.monotonic() + SECONDS)
            try:
                return _compare(asked, text, lines, starts)
            except FetchProblem as problem:
                if not (isinstance(problem, GitRefusal) or problem.too_large):
                    raise
                git.run("version", seconds=SECONDS)  # git is there, so it is this text that it refuses
                return GitReading("refused")
    except (FetchProblem, OSError):
        return None


def _mail_starts(lines: Sequence[bytes]) -> list[int]:
    """The numbers of the lines at which `git mailsplit` begins a mail; the first is wherever the text begins."""
    begin = next((place for place, line in enumerate(lines) if line.strip()), 0)
    return [begin + 1, *(place + 1 for place in range(begin + 1, len(lines)) if is_from_line(lines[place]))]


def _compare(asked: _Asked, text: bytes, lines: Sequence[bytes], starts: Sequence[int]) -> GitReading:
    """Raises FetchProblem where git fails, whether or not that is for the text."""
    whole = asked.folder / "text"
    whole.write_bytes(text)
    mails = list(_decoded(asked, whole, starts))
    if len(mails) != len(starts):
        return GitReading("different", starts[0])
    line = _first_difference(lines, mails)
    if line is not None:
        return GitReading("different", line)
    return _counted(asked, lines, whole, [mail.patch for mail in mails])


def _decoded(asked: _Asked, whole: Path, starts: Sequence[int]) -> Iterator[_Mail]:
    """Each mail of the text as `git am` would have it. Raises FetchProblem."""
    split = asked.folder / "mails"
    split.mkdir()
    asked.run("mailsplit", "-b", f"-o{split}", "--", str(whole))
    for place, mail in enumerate(sorted(split.iterdir())):
        patch = asked.folder / f"{mail.name}.patch"
        asked.run("mailinfo", str(asked.folder / "message"), str(patch), given=mail)
        yield _Mail(starts[min(place, len(starts) - 1)], patch)


def _first_difference(lines: Sequence[bytes], mails: Sequence[_Mail]) -> int | None:
    """The number of the first line of a file's part that git reads otherwise, or of the mail that holds it."""
    theirs = ((mail.line, line) for mail in mails for _, line in change_lines(_lines_of(mail.patch)))
    for ours, other in zip_longest(change_lines(lines), theirs):
        if ours is None or other is None or ours[1].removesuffix(b"\r") != other[1].removesuffix(b"\r"):
            return (other or ours or (1,))[0]
    return None


def _lines_of(patch: Path) -> list[bytes]:
    return patch.read_bytes().removesuffix(b"\n").split(b"\n")


def _counted(asked: _Asked, lines: Sequence[bytes], whole: Path, patches: Sequence[Path]) -> GitReading:
    """Compare by `git apply`'s own parser: the text as a whole, its mails one by one, and what is counted here."""
    changing = [patch for patch in patches if any(line.startswith(_MAY_CHANGE) for line in _lines_of(patch))]
    if not changing:
        return GitReading("same")
    told = asked.run("apply", "--numstat", "-z", "--", str(whole), *map(str, changing))
    half = len(told) // 2
    reader = DiffReader()
    for line in lines:
        reader.line(line)
    reader.finish()
    same = (
        reader.sound and told[:half] == told[half:] and _told_rows(told[:half]) == [_row(part) for part in reader.parts]
    )
    return GitReading("same" if same else "different")


_Row = tuple[int, int, str | None]  # lines added and removed, and the path that they go to


def _told_rows(told: bytes) -> list[_Row]:
    """Each file's row as `git apply` tells it; of a binary file no lines are counted."""
    rows = (row.split(b"\t", 2) for row in told.split(b"\0")[:-1])
    return [(_count(added), _count(removed), path.decode("utf-8", "replace")) for added, removed, path in rows]


def _count(text: bytes) -> int:
    return int(text) if text.isdigit() else 0


def _row(part: Part) -> _Row:
    first, *headers = (line.decode("utf-8", "replace").removesuffix("\r") for line in (part.first, *part.headers))
    return part.added, part.removed, changed_path(first, headers)
