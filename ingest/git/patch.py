"""Read patches and diffs line by line as git reads them: the changes, their size, and an identity of the change alone.

Patches from strangers and commits of a mirror go through this one reader, so that a change that landed has the same
identity as when it was offered. A stranger's patch is unpacked within bounds and stored under the hash of its text.
"""

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from ingest.files import write_whole

CHANGE_IDS = 200  # of one series: more are not looked at

_HUNK = re.compile(rb"@@ -[0-9]{1,9}(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@")
_YEAR = re.compile(rb"[ \t\n\v\f\r]*\+?0*([0-9]+)")
_BASE85 = re.compile(rb"[A-Za-z]\S{5,65}")
_FULL_INDEX = re.compile(rb"(?:[0-9a-f]{40}\.\.[0-9a-f]{40}|[0-9a-f]{64}\.\.[0-9a-f]{64})")
_CHANGE_ID = re.compile(rb"change-id:[ \t]*([!-~]{1,100})\s*", re.IGNORECASE)
_SPACE = b" \t\n\v\f\r"
# Lines that git writes between "diff --git" and the first hunk.
_HEADERS = tuple(
    b"--- |+++ |old mode |new mode |new file mode |deleted file mode |copy from |copy to |rename from |rename to |"
    b"similarity index |dissimilarity index |index |GIT binary patch|Binary files ".split(b"|")
)
_MEANT = (b"old mode ", b"rename from ", b"copy from ")  # headers that are a change without a changed line


def change_id(line: bytes) -> str | None:
    """Return the Change-Id that a line of a message, a mail header or a commit header claims."""
    match = _CHANGE_ID.fullmatch(line[:200])
    return match[1].decode() if match else None


def is_from_line(line: bytes) -> bool:
    """Tell if `git mailsplit` begins a mail at this line, given without its line end (builtin/mailsplit.c).

    Sender and length do not count: the last colon outside the last two bytes must belong to a time, followed by a year
    after 1990 or 90.
    """
    if not line.startswith(b"From ") or len(line) < 19:
        return False
    colon = line.rfind(b":", 4, len(line) - 1)
    digits = [line[place : place + 1] for place in (colon - 4, colon - 2, colon - 1, colon + 1, colon + 2)]
    if colon < 5 or not all(b"0" <= digit <= b"9" for digit in digits):
        return False
    year = _YEAR.match(line, colon + 3)
    return year is not None and (len(year[1]) > 2 or int(year[1]) > 90)


def is_converted(opening: Sequence[bytes]) -> bool:
    """Tell if `git am` takes a text for Mercurial's or StGit's, which it rewrites first (builtin/am.c).

    `opening` holds the first line that is not empty and the two lines after it, without line ends.
    """
    first, second, third = (*opening, b"-", b"-", b"-")[:3]
    if first.startswith((b"From ", b"From: ")):
        return False
    if first.startswith(b"# This series applies on GIT commit") or first == b"# HG changeset patch":
        return True
    return bool(first) and not second and third.startswith((b"From:", b"Author:", b"Date:"))


def change_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that belong to files' parts, with their numbers from 1; lines between parts change nothing.

    A part without "diff --git" is recognised at its first hunk; its two lines before that are yielded then.
    """
    reader, plain = DiffReader(), list[tuple[int, bytes]]()
    for number, line in enumerate(lines, 1):
        before = reader.section
        reader.line(line)
        if reader.section is None:
            plain = [*plain[-1:], (number, line)]
            continue
        if reader.section is not before and not line.startswith(b"diff --git "):
            yield from plain[-2:]
        yield number, line
        plain = []


def split_mails(text: str) -> list[list[str]]:
    """Return the lines of each mail of a series; a plain diff is one mail. A line inside a hunk begins no mail."""
    reader, mails = DiffReader(), [[]]
    for line in text.removesuffix("\n").split("\n"):
        data = line.encode("utf-8", "replace")
        if not (reader.before or reader.after) and is_from_line(data) and mails[-1]:
            mails.append([])
        reader.line(data)
        mails[-1].append(line)
    return mails


class Part(NamedTuple):
    """The finished part of one file: lines added and removed, its first line, and its headers with names or changes."""

    added: int
    removed: int
    first: bytes
    headers: tuple[bytes, ...]


@dataclass
class _Section:
    name: bytes
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    # Removed and added text without white space: if both are equal, only white space changes.
    removed_text: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    added_text: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    payload: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    index: bytes = b""
    headers: list[bytes] = field(default_factory=list)  # those that may name the file or change it
    binary: bool = False
    is_change: bool = False
    hunks: int = 0
    added: int = 0
    removed: int = 0

    def feed(self, mark: bytes, line: bytes) -> None:
        text = line.translate(None, _SPACE)
        self.digest.update(mark + text + b"\n")
        if mark == b"+":
            self.added += 1
            self.added_text.update(text)
        elif mark == b"-":
            self.removed += 1
            self.removed_text.update(text)

    def close(self) -> bytes:
        """Return the hash of this file's part. A binary file counts by its two object names if they are complete.

        `git apply` refuses a binary part whose content does not match its object name, and one without full names.
        """
        if self.binary:
            self.digest.update(b"binary" + self.index)
            if not _FULL_INDEX.fullmatch(self.index):
                self.digest.update(self.payload.digest())
        return self.digest.digest()

    @property
    def proves(self) -> bool:
        return self.binary or self.is_change or self.removed_text.digest() != self.added_text.digest()


class DiffReader:
    """Read a patch line by line by the rules of `git apply`: a hunk has exactly the lines that its header announces."""

    def __init__(self) -> None:
        self.sound = True
        self.proves = False
        self.files: set[bytes] = set()
        self.counts: list[tuple[int, int]] = []  # lines added and removed, of each part that changes any
        self.parts: list[Part] = []  # those that change a file
        self.mails: list[list[bytes]] = [[]]  # hashes of the files' parts, mail by mail
        self.change_ids: list[str] = []
        self.section: _Section | None = None
        self.before = self.after = 0  # lines that the running hunk still needs of the old and of the new side
        self.mark = b" "  # of the line before, within a hunk
        self.endless = b""  # marks of lines that may not follow a line without a newline
        self.just_ended = False  # True if the line before was the last of a hunk
        self.in_message = False  # True between a mail's "From" line and its first file
        self.last = (b"", b"")  # the two lines before, where they were outside hunks

    def line(self, line: bytes) -> None:
        if self.before or self.after:
            self._read_hunk_line(line)
            return
        ended, self.just_ended = self.just_ended, False
        if line.startswith(b"diff --git "):
            self._open(line)
        elif hunk := _HUNK.match(line):
            self._read_hunk_header(hunk, ended)
        elif line.startswith(b"\\ "):
            self.just_ended = ended
        elif self.section is not None and not self.section.hunks and self._read_header_line(self.section, line):
            pass
        else:
            self._read_outside_line(line, ended)
        self.last = (self.last[1], line)

    def finish(self) -> None:
        self.sound = self.sound and not (self.before or self.after)
        self._close()

    @property
    def added(self) -> int:
        return sum(added for added, _ in self.counts)

    @property
    def removed(self) -> int:
        return sum(removed for _, removed in self.counts)

    def identity(self) -> str:
        """Return the hash of all files' parts, in sorted order."""
        return _identity([digest for mail in self.mails for digest in mail])

    def series(self) -> tuple[str, ...]:
        return tuple(_identity(mail) for mail in self.mails if mail)

    def _open(self, name: bytes) -> _Section:
        self._close()
        self.in_message = False
        self.section = section = _Section(name)
        section.feed(b"d", name)
        return section

    def _close(self) -> None:
        if self.section is not None:
            self.files.add(self.section.name)
            self.mails[-1].append(self.section.close())
            part = Part(self.section.added, self.section.removed, self.section.name, tuple(self.section.headers))
            if part.added or part.removed:
                self.counts.append(part[:2])
            if part.headers or self.section.binary:
                self.parts.append(part)
            self.proves = self.proves or self.section.proves
            self.section = None

    def _read_outside_line(self, line: bytes, ended: bool) -> None:
        stray = line.startswith((b"+", b"-", b" ")) and not line.startswith((b"-- ", b"--- ")) and line != b"--"
        lone_hunk = line.startswith(b"@@") and not self.in_message
        if (ended and stray) or lone_hunk:  # lines hidden behind a hunk whose header claims fewer lines, or none
            self.sound = False
        if not line.startswith((b"--- ", b"+++ ")):
            self._close()
            self._read_message_line(line)

    def _read_message_line(self, line: bytes) -> None:
        if is_from_line(line):
            self.in_message = True
            if self.mails[-1]:
                self.mails.append([])
        else:
            self.in_message = self.in_message and line != b"---"
        claimed = change_id(line) if self.in_message else None
        if claimed and claimed not in self.change_ids and len(self.change_ids) < CHANGE_IDS:
            self.change_ids.append(claimed)

    def _read_header_line(self, section: _Section, line: bytes) -> bool:
        """Take a line between a file's first line and its first hunk; return False for any other line."""
        if section.binary and (not line or _BASE85.fullmatch(line) or line.startswith((b"literal ", b"delta "))):
            section.payload.update(line + b"\n")
        elif not line.startswith(_HEADERS):
            return False
        elif line.startswith(b"index "):
            section.index = line.split(b" ")[1]
        elif line.startswith((b"GIT binary patch", b"Binary files ")):
            section.binary = True
        else:
            section.is_change = section.is_change or line.startswith(_MEANT)
            section.headers.append(line)
            section.feed(b"h", line)
        return True

    def _read_hunk_header(self, hunk: re.Match[bytes], ended: bool) -> None:
        old_line, new_line = self.last
        has_names = old_line.startswith(b"--- ") and new_line.startswith(b"+++ ")
        follows = self.section is not None and (ended or (has_names and not self.section.hunks))
        if not follows and not has_names:  # a hunk without a file: text in a message, hostile anywhere else
            self.sound = self.sound and self.in_message
            return
        section = self.section if follows else None
        section = section or self._open_plain(old_line, new_line)
        section.hunks += 1
        self.endless = b""
        self.before, self.after = (int(count) if count is not None else 1 for count in hunk.groups())
        self.just_ended = not (self.before or self.after)

    def _open_plain(self, old_line: bytes, new_line: bytes) -> _Section:
        """Start the part of a file that has no "diff --git" line."""
        section = self._open(old_line if new_line.startswith(b"+++ /dev/null") else new_line)
        section.headers += [old_line, new_line]
        section.feed(b"h", old_line)
        section.feed(b"h", new_line)
        return section

    def _read_hunk_line(self, line: bytes) -> None:
        mark = line[:1] or b" "  # mail programs strip the blank of an empty context line
        if mark == b"\\":
            self.endless += self.mark + b" " if self.mark != b" " else b" +-"
            return
        self.mark = mark
        self.before -= mark in b"- "
        self.after -= mark in b"+ "
        if mark not in b"+- " or mark in self.endless or self.before < 0 or self.after < 0 or self.section is None:
            self.sound, self.before, self.after = False, 0, 0
            return
        self.section.feed(mark, line[1:])
        self.just_ended = not (self.before or self.after)


def _identity(digests: list[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


_GZIP = b"\x1f\x8b"
_MEMBERS = 100  # of one gzip file: each costs a copy of the rest, and 50,000 empty ones fit into 1 MB
_SHA256 = re.compile(r"[0-9a-f]{64}")


class PatchProblem(Exception):
    """A stored patch cannot be read back, in one sentence."""


@dataclass(frozen=True)
class Patch:
    """A patch that was read. If `state` is 'oversized', `text` is cut at the limit and there is no `patch_id`.

    `series` holds the patch-id of each mail of a series, in order; a plain diff is a series of one. `change_ids` are
    claims. `proves` is false if only white space changes, so that finding the change again means nothing.
    """

    text: str
    state: str  # 'read', 'malformed', 'oversized'
    patch_id: str | None
    files: int
    added: int
    removed: int
    series: tuple[str, ...] = ()
    change_ids: tuple[str, ...] = ()
    proves: bool = False


def read_patch(data: bytes, limit: int) -> Patch:
    """Unpack and read a format-patch series or a plain diff, gzipped or not. Never raises.

    At most `limit` bytes are unpacked; a longer patch is 'oversized', one that git would not apply is 'malformed'.
    """
    raw, is_whole, sound = unpack(data, limit)
    if not is_whole:
        raw = raw[: raw.rfind(b"\n") + 1]
    reader = _read_lines(raw)
    state = "oversized" if not is_whole else "read" if sound and reader.sound and reader.files else "malformed"
    text = raw.decode("utf-8", "replace")
    counts = (len(reader.files), reader.added, reader.removed)
    if state != "read":
        return Patch(text, state, None, *counts)
    return Patch(text, state, reader.identity(), *counts, reader.series(), tuple(reader.change_ids), reader.proves)


def unpack(data: bytes, limit: int) -> tuple[bytes, bool, bool]:
    """Unpack plain or gzipped data to at most `limit` bytes; return (bytes, True if complete, True if valid)."""
    if not data.startswith(_GZIP):
        return data[:limit], len(data) <= limit, True
    pieces, size, remaining = [], 0, data
    for _ in range(_MEMBERS):
        if not remaining.startswith(_GZIP):
            break
        member = zlib.decompressobj(wbits=31)
        try:
            piece = member.decompress(remaining, limit - size + 1)
        except zlib.error:
            return b"".join(pieces)[:limit], True, False
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(pieces)[:limit], False, True
        if not member.eof:
            return b"".join(pieces), True, False
        remaining = member.unused_data
    return b"".join(pieces), True, not remaining.strip(b"\0")


def patch_id(text: str) -> str | None:
    """Return a hash of the change alone, similar to `git patch-id --stable`, or None if the text is not a valid patch.

    Positions, white space inside lines, object names, the order of files, and all text outside the diffs (author, date,
    message) do not count; paths, modes, context, added and removed lines do. Binary files count by their object names,
    which git checks when it applies them.
    """
    reader = _read_lines(text.encode("utf-8", "replace"))
    return reader.identity() if reader.sound and reader.files else None


def store_patch(folder: Path, text: str) -> str:
    """Store a patch below `folder`; return the SHA-256 of its text, which is its file name. Repeating is harmless."""
    data = text.encode("utf-8", "replace")
    name = hashlib.sha256(data).hexdigest()
    path = _patch_path(folder, name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, gzip.compress(data, compresslevel=6, mtime=0))
    return name


def load_patch(folder: Path, sha256: str) -> str:
    """Return the text of a stored patch, checked against its name. Raises PatchProblem."""
    if not _SHA256.fullmatch(sha256):
        raise PatchProblem("a patch is named by 64 hexadecimal digits")
    try:
        data = gzip.decompress(_patch_path(folder, sha256).read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise PatchProblem(f"patch {sha256} cannot be read: {type(error).__name__}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise PatchProblem(f"patch {sha256} holds another text than it was stored with")
    return data.decode("utf-8")


def _patch_path(folder: Path, sha256: str) -> Path:
    return folder / sha256[:2] / f"{sha256}.patch.gz"


def _read_lines(raw: bytes) -> DiffReader:
    reader = DiffReader()
    for line in BytesIO(raw):
        reader.line(line.rstrip(b"\n"))
    reader.finish()
    return reader
