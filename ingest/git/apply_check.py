"""Git's own reading of a patch: split by `git mailsplit`, decoded by `git mailinfo`, counted by `git apply`.

A knot merges a series by `git am` and a plain diff by `git apply`. Both readings must find the very lines that are read
here, else something would be merged that nobody saw. Nothing is applied: git takes the text apart in a folder of its
own, outside any repository, as a guarded child.

File names in headers are read as git reads them: quoted or not, prefixed, with a time behind them. git keeps a name as
a C string, so a name ends at its first NUL, whether that is a raw byte or the escape \\000.
"""

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from ingest.errors import FetchProblem
from ingest.git.patch import DiffReader, Part, change_lines, is_converted, is_from_line
from ingest.git.process import Git, GitRefusal, Watch, watch_nothing

NULL = "/dev/null"
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[^0-9])", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SLASHES = re.compile(r"/{2,}")
_TIME = re.compile(r"[ \t][0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}[0-9:.]{0,20}(?: [+-][0-9]{2}:?[0-9]{2})?$")
_UNSAFE = {"", ".", "..", ".git"}


def prefixed_name(text: str) -> str | None:
    """The name in a `---` or `+++` line without its first folder (`git apply -p1`); None for /dev/null."""
    name = _bare(text)
    return None if name == NULL else _stripped(name)


def plain_name(text: str) -> str:
    """The name in a `rename` or `copy` line."""
    quoted = _QUOTED.match(text)
    return _cleaned(_unquoted(quoted[1]) if quoted else text.partition("\r")[0])


def timed_name(text: str) -> str | None:
    """The same as `prefixed_name` in a diff that git did not write: a time may follow the name."""
    time = _TIME.search(text)
    return prefixed_name(text[: time.start()].rstrip() if time else text)


def plain_names(old: str, new: str) -> tuple[str | None, str | None]:
    """Both names of a part without `diff --git`, given its two lines without `---` and `+++`; None for /dev/null."""
    before, after = timed_name(old), timed_name(new)
    if before and after and after.startswith(before):  # name and name.orig: git takes the shorter one
        after = before
    return before and (after or before), after


def changed_path(first: str, headers: Sequence[str]) -> str | None:
    """The path that git changes by a part, given its first line and its header lines; None where none is named."""
    if not first.startswith("diff --git "):
        old, new = plain_names(headers[0][4:], headers[1][4:])
        return old if new is None else new
    names: dict[str, str | None] = {}
    for line in headers:
        if line.startswith(("--- ", "+++ ")):
            names[line[:3]] = prefixed_name(line[4:])
        elif line.startswith(("rename to ", "copy to ")):
            names["+++"] = plain_name(line.partition(" to ")[2])
    found = (name for name in (names.get("+++"), names.get("---")) if name is not None)
    return next(found, None) or common_name(first.removeprefix("diff --git "))


def holds_nul(header: str) -> bool:
    """Tell whether a header line holds a NUL, at which git ends a name: what follows is no part of the path."""
    return "\0" in header or "\0" in _unquoted(header)


def common_name(text: str) -> str | None:
    """The one name behind `diff --git`; None where the two differ or cannot be told apart."""
    if text.startswith('"'):
        first = _QUOTED.match(text)
        return _same(_unquoted(first[1]), text[first.end() :].lstrip()) if first else None
    if text.endswith('"'):
        first, _, second = text.partition(' "')
        return _same(first, f'"{second}')
    return _halved(text)


def is_unsafe(path: str) -> bool:
    """Return whether git refuses to write to a path, whatever it holds."""
    return any(piece.lower() in _UNSAFE for piece in path.split("/"))


def _bare(text: str) -> str:
    quoted = _QUOTED.match(text)
    return _unquoted(quoted[1]) if quoted else text.partition("\t")[0].partition("\r")[0]


def _same(first: str, second: str) -> str | None:
    name = _stripped(first)
    return name if _stripped(_bare(second)) == name else None


def _halved(text: str) -> str | None:
    """Split `a/name b/name` where both names are equal; names may hold blanks. Lengths first: linear in the text."""
    begin = text.find("/") + 1
    blank = text.find(" ", begin)
    while begin and blank >= 0:
        second = text.find("/", blank) + 1
        if not second:
            return None
        if blank - begin == len(text) - second and text.startswith(text[begin:blank], second):
            return _cleaned(text[begin:blank])
        blank = text.find(" ", blank + 1)
    first, _, second = text.partition(" ")
    return first if first == second and first else None


def _stripped(name: str) -> str:
    """A name without what stands before its first slash; one without a slash is taken whole."""
    return _cleaned(name.partition("/")[2] or name)


def _cleaned(name: str) -> str:
    return _SLASHES.sub("/", name.partition("\0")[0])


def _unquoted(text: str) -> str:
    """The name in quotes, whose octal escapes are bytes of UTF-8."""
    if "\\" not in text:
        return text
    pieces = [piece.encode("utf-8", "replace") for piece in _ESCAPE.split(text)]
    pieces[1::2] = [bytes([int(code, 8)]) if len(code) == 3 else _ESCAPED.get(code, code) for code in pieces[1::2]]
    return b"".join(pieces).decode("utf-8", "replace")


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
