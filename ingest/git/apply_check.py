"""Compare this project's reading of a patch with git's: `git mailsplit`, `git mailinfo` and `git apply --numstat`.

A knot merges a series by `git am` and a plain diff by `git apply`. Both must find exactly the lines that are read here;
otherwise a merge could contain lines that nobody saw. Nothing is applied: git takes the text apart in a temporary
folder outside any repository, as a guarded child.

File names in headers are read as git reads them: quoted or not, with a prefix, with a time behind them. git keeps a
name as a C string, so a name ends at its first NUL, a raw byte or the escape \\000.
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
    """Return the name in a `---` or `+++` line without its first folder (`git apply -p1`); None for /dev/null."""
    name = _raw_name(text)
    return None if name == NULL else _strip_first_folder(name)


def plain_name(text: str) -> str:
    """Return the name in a `rename` or `copy` line."""
    quoted = _QUOTED.match(text)
    return _clean_name(_unquote(quoted[1]) if quoted else text.partition("\r")[0])


def timed_name(text: str) -> str | None:
    """Return the name in a `---` or `+++` line of a diff that git did not write: a time may follow the name."""
    time = _TIME.search(text)
    return prefixed_name(text[: time.start()].rstrip() if time else text)


def plain_names(old: str, new: str) -> tuple[str | None, str | None]:
    """Return both names of a part without `diff --git` from its `---` and `+++` lines; None for /dev/null."""
    before, after = timed_name(old), timed_name(new)
    if before and after and after.startswith(before):  # name and name.orig: git takes the shorter one
        after = before
    return before and (after or before), after


def changed_path(first: str, headers: Sequence[str]) -> str | None:
    """Return the path that a part changes, given its first line and its header lines, or None if it names none."""
    if not first.startswith("diff --git "):
        old, new = plain_names(headers[0][4:], headers[1][4:])
        return old if new is None else new
    names: dict[str, str | None] = {}
    for line in headers:
        if line.startswith(("--- ", "+++ ")):
            names[line[:3]] = prefixed_name(line[4:])
        elif line.startswith(("rename to ", "copy to ")):
            names["+++"] = plain_name(line.partition(" to ")[2])
    new_names = (name for name in (names.get("+++"), names.get("---")) if name is not None)
    return next(new_names, None) or common_name(first.removeprefix("diff --git "))


def holds_nul(header: str) -> bool:
    """Tell if a header line holds a NUL: git ends the name there, so the text behind it does not belong to the path."""
    return "\0" in header or "\0" in _unquote(header)


def common_name(text: str) -> str | None:
    """Return the name behind `diff --git`, or None if the two names differ or cannot be told apart."""
    if text.startswith('"'):
        quoted = _QUOTED.match(text)
        return _common_of(_unquote(quoted[1]), text[quoted.end() :].lstrip()) if quoted else None
    if text.endswith('"'):
        quoted, _, second = text.partition(' "')
        return _common_of(quoted, f'"{second}')
    return _split_equal_names(text)


def is_unsafe(path: str) -> bool:
    """Return True if git refuses to write to a path, whatever the file contains."""
    return any(piece.lower() in _UNSAFE for piece in path.split("/"))


def _raw_name(text: str) -> str:
    quoted = _QUOTED.match(text)
    return _unquote(quoted[1]) if quoted else text.partition("\t")[0].partition("\r")[0]


def _common_of(first: str, second: str) -> str | None:
    name = _strip_first_folder(first)
    return name if _strip_first_folder(_raw_name(second)) == name else None


def _split_equal_names(text: str) -> str | None:
    """Split `a/name b/name` with equal names, which may hold blanks. Compares lengths first, to stay linear."""
    begin = text.find("/") + 1
    blank = text.find(" ", begin)
    while begin and blank >= 0:
        second = text.find("/", blank) + 1
        if not second:
            return None
        if blank - begin == len(text) - second and text.startswith(text[begin:blank], second):
            return _clean_name(text[begin:blank])
        blank = text.find(" ", blank + 1)
    first, _, second = text.partition(" ")
    return first if first == second and first else None


def _strip_first_folder(name: str) -> str:
    """Return a name without the folder before its first slash; a name without a slash stays whole."""
    return _clean_name(name.partition("/")[2] or name)


def _clean_name(name: str) -> str:
    return _SLASHES.sub("/", name.partition("\0")[0])


def _unquote(text: str) -> str:
    """Decode a name in quotes, whose octal escapes are bytes of UTF-8."""
    if "\\" not in text:
        return text
    pieces = [piece.encode("utf-8", "replace") for piece in _ESCAPE.split(text)]
    pieces[1::2] = [bytes([int(code, 8)]) if len(code) == 3 else _ESCAPED.get(code, code) for code in pieces[1::2]]
    return b"".join(pieces).decode("utf-8", "replace")


State = Literal["same", "different", "refused"]
MAILS = 500  # of one series, as many as are reviewed; each costs one git process
SECONDS = 20.0  # for one text: 4 MB of mail take .2
OUTPUT = 20_000_000  # bytes that a child may print or write
_MAY_CHANGE = (b"diff ", b"--- ", b"@@ ")  # every text in which `git apply` finds a change has such a line


@dataclass(frozen=True)
class GitReading:
    """'same' if git reads the same change; otherwise `line` of the text, from 1, is where the difference begins."""

    state: State
    line: int | None = None


@dataclass(frozen=True)
class _Workspace:
    git: Git
    folder: Path
    ends: float

    def run(self, *arguments: str, given: Path | tuple[()] = ()) -> bytes:
        """Return the output of git. Raises FetchProblem, also when the time is over."""
        seconds = max(self.ends - time.monotonic(), 0.0)
        return self.git.run(*arguments, given=given, limit=OUTPUT, seconds=seconds)


@dataclass(frozen=True)
class _Mail:
    """A mail as git decoded it: the line of the text at which it begins, and the file that holds its patch."""

    line: int
    patch: Path


def compare_with_git(text: bytes, watch: Watch = watch_nothing) -> GitReading | None:
    """Compare git's reading of a patch's text with this project's; None if git gave no answer, so ask again later.

    'refused' means that git itself complained or that its answer was too long. A child that ran out of time or was
    killed gives no answer about the text.
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
            workspace = _Workspace(git, Path(folder), time.monotonic() + SECONDS)
            try:
                return _compare(workspace, text, lines, starts)
            except FetchProblem as problem:
                if not (isinstance(problem, GitRefusal) or problem.too_large):
                    raise
                git.run("version", seconds=SECONDS)  # git works, so it refuses this text
                return GitReading("refused")
    except (FetchProblem, OSError):
        return None


def _mail_starts(lines: Sequence[bytes]) -> list[int]:
    """Return the numbers of the lines at which `git mailsplit` begins a mail; the first mail begins with the text."""
    begin = next((place for place, line in enumerate(lines) if line.strip()), 0)
    return [begin + 1, *(place + 1 for place in range(begin + 1, len(lines)) if is_from_line(lines[place]))]


def _compare(workspace: _Workspace, text: bytes, lines: Sequence[bytes], starts: Sequence[int]) -> GitReading:
    """Compare the mails, then the counts. Raises FetchProblem where git fails, for any reason."""
    text_file = workspace.folder / "text"
    text_file.write_bytes(text)
    mails = list(_decode_mails(workspace, text_file, starts))
    if len(mails) != len(starts):
        return GitReading("different", starts[0])
    line = _first_difference(lines, mails)
    if line is not None:
        return GitReading("different", line)
    return _compare_counts(workspace, lines, text_file, [mail.patch for mail in mails])


def _decode_mails(workspace: _Workspace, text_file: Path, starts: Sequence[int]) -> Iterator[_Mail]:
    """Yield each mail of the text as `git am` decodes it. Raises FetchProblem."""
    split = workspace.folder / "mails"
    split.mkdir()
    workspace.run("mailsplit", "-b", f"-o{split}", "--", str(text_file))
    for place, mail in enumerate(sorted(split.iterdir())):
        patch = workspace.folder / f"{mail.name}.patch"
        workspace.run("mailinfo", str(workspace.folder / "message"), str(patch), given=mail)
        yield _Mail(starts[min(place, len(starts) - 1)], patch)


def _first_difference(lines: Sequence[bytes], mails: Sequence[_Mail]) -> int | None:
    """Return the number of the first changed line that git reads differently, or of the mail that holds it."""
    git_lines = ((mail.line, line) for mail in mails for _, line in change_lines(_read_lines(mail.patch)))
    for own_line, git_line in zip_longest(change_lines(lines), git_lines):
        if own_line is None or git_line is None or own_line[1].removesuffix(b"\r") != git_line[1].removesuffix(b"\r"):
            return (git_line or own_line or (1,))[0]
    return None


def _read_lines(patch: Path) -> list[bytes]:
    return patch.read_bytes().removesuffix(b"\n").split(b"\n")


def _compare_counts(
    workspace: _Workspace, lines: Sequence[bytes], text_file: Path, patches: Sequence[Path]
) -> GitReading:
    """Compare `git apply`'s counts for the whole text, for its mails one by one, and the counts made here."""
    changing = [patch for patch in patches if any(line.startswith(_MAY_CHANGE) for line in _read_lines(patch))]
    if not changing:
        return GitReading("same")
    counts = workspace.run("apply", "--numstat", "-z", "--", str(text_file), *map(str, changing))
    half = len(counts) // 2
    reader = DiffReader()
    for line in lines:
        reader.line(line)
    reader.finish()
    is_same = (
        reader.sound
        and counts[:half] == counts[half:]
        and _parse_counts(counts[:half]) == [_part_row(part) for part in reader.parts]
    )
    return GitReading("same" if is_same else "different")


_Row = tuple[int, int, str | None]  # lines added, lines removed, and the path of the file


def _parse_counts(output: bytes) -> list[_Row]:
    """Parse one row for each file from `git apply --numstat -z`; a binary file has no line counts."""
    fields = (row.split(b"\t", 2) for row in output.split(b"\0")[:-1])
    return [
        (_parse_count(added), _parse_count(removed), path.decode("utf-8", "replace")) for added, removed, path in fields
    ]


def _parse_count(text: bytes) -> int:
    return int(text) if text.isdigit() else 0


def _part_row(part: Part) -> _Row:
    first, *headers = (line.decode("utf-8", "replace").removesuffix("\r") for line in (part.first, *part.headers))
    return part.added, part.removed, changed_path(first, headers)
