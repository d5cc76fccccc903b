"""Patches and diffs line by line as git reads them: what changes, how much, and a name for the change alone.

Patches that strangers send and the commits of a mirror go through this one reader, so that a change that landed has
the name under which it was offered. A stranger's patch is unpacked within bounds and kept under the hash of its text.
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
_MEANT = (b"old mode ", b"rename from ", b"copy from ")  # headers that change something without a line of text


def change_id(line: bytes) -> str | None:
    """The Change-Id that a line of a message, a mail header or a commit header claims."""
    found = _CHANGE_ID.fullmatch(line[:200])
    return found[1].decode() if found else None


def is_from_line(line: bytes) -> bool:
    """Tell whether `git mailsplit` begins a mail at this line, given without its line end (builtin/mailsplit.c).

    Sender and length do not count: the last colon outside the last two bytes must be that of a time, with a year after
    1990 or 90 behind it.
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
    """Tell whether `git am` takes a text for Mercurial's or StGit's, which it rewrites first (builtin/am.c).

    `opening` holds the first line that is not empty and the two behind it, without line ends.
    """
    first, second, third = (*opening, b"-", b"-", b"-")[:3]
    if first.startswith((b"From ", b"From: ")):
        return False
    if first.startswith(b"# This series applies on GIT commit") or first == b"# HG changeset patch":
        return True
    return bool(first) and not second and third.startswith((b"From:", b"Author:", b"Date:"))


def change_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that belong to files' parts with their numbers from 1; what stands between them changes nothing.

    A part without "diff --git" is known only at its first hunk: its two lines before that come then.
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
    """The lines of each mail of a series; of a plain diff, its lines. A line inside a hunk begins no mail."""
    reader, mails = DiffReader(), [[]]
    for line in text.removesuffix("\n").split("\n"):
        data = line.encode("utf-8", "replace")
        if not (reader.before or reader.after) and is_from_line(data) and mails[-1]:
            mails.append([])
        reader.line(data)
        mails[-1].append(line)
    return mails


class Part(NamedTuple):
    """A file's part after its end: lines added and removed, its first line, and the headers that name or change it."""

    added: int
    removed: int
    first: bytes
    headers: tuple[bytes, ...]


@dataclass
class _Section:
    name: bytes
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    # Text taken away and text added, without white space: where they are equal, white space is all that changes.
    gone: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    come: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    payload: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    index: bytes = b""
    headers: list[bytes] = field(default_factory=list)  # those that may name the file or change it
    binary: bool = False
    meant: bool = False
    hunks: int = 0
    added: int = 0
    removed: int = 0

    def feed(self, mark: bytes, line: bytes) -> None:
        text = line.translate(None, _SPACE)
        self.digest.update(mark + text + b"\n")
        if mark == b"+":
            self.added += 1
            self.come.update(text)
        elif mark == b"-":
            self.removed += 1
            self.gone.update(text)

    def close(self) -> bytes:
        """The hash of this file's part. What is binary is named by its two objects where they are named in full.

        `git apply` refuses a binary part whose content is not the object that it names, and one without full names.
        """
        if self.binary:
            self.digest.update(b"binary" + self.index)
            if not _FULL_INDEX.fullmatch(self.index):
                self.digest.update(self.payload.digest())
        return self.digest.digest()

    @property
    def proves(self) -> bool:
        return self.binary or self.meant or self.gone.digest() != self.come.digest()


class DiffReader:
    """Reads a patch line by line by the rules of `git apply`: a hunk is as long as its header says, no line longer."""

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
        self.endless = b""  # marks of lines that would continue one without an end
        self.just_ended = False  # whether the line before was the last of a hunk
        self.in_message = False  # whether the line is between a mail's "From" line and its first file
        self.last = (b"", b"")  # the two lines before, where they were outside hunks

    def line(self, line: bytes) -> None:
        if self.before or self.after:
            self._hunk_line(line)
            return
        ended, self.just_ended = self.just_ended, False
        if line.startswith(b"diff --git "):
            self._open(line)
        elif hunk := _HUNK.match(line):
            self._hunk_header(hunk, ended)
        elif line.startswith(b"\\ "):
            self.just_ended = ended
        elif self.section is not None and not self.section.hunks and self._header_line(self.section, line):
            pass
        else:
            self._outside(line, ended)
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
        """The hash of every file's part, in an order of their own."""
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

    def _outside(self, line: bytes, ended: bool) -> None:
        stray = line.startswith((b"+", b"-", b" ")) and not line.startswith((b"-- ", b"--- ")) and line != b"--"
        unread = line.startswith(b"@@") and not self.in_message
        if (ended and stray) or unread:  # lines hidden behind a hunk that claims to be shorter, or to be none
            self.sound = False
        if not line.startswith((b"--- ", b"+++ ")):
            self._close()
            self._message_line(line)

    def _message_line(self, line: bytes) -> None:
        if is_from_line(line):
            self.in_message = True
            if self.mails[-1]:
                self.mails.append([])
        else:
            self.in_message = self.in_message and line != b"---"
        claimed = change_id(line) if self.in_message else None
        if claimed and claimed not in self.change_ids and len(self.change_ids) < CHANGE_IDS:
            self.change_ids.append(claimed)

    def _header_line(self, section: _Section, line: bytes) -> bool:
        """Take a line between a file's first line and its first hunk; False if it is none."""
        if section.binary and (not line or _BASE85.fullmatch(line) or line.startswith((b"literal ", b"delta "))):
            section.payload.update(line + b"\n")
        elif not line.startswith(_HEADERS):
            return False
        elif line.startswith(b"index "):
            section.index = line.split(b" ")[1]
        elif line.startswith((b"GIT binary patch", b"Binary files ")):
            section.binary = True
        else:
            section.meant = section.meant or line.startswith(_MEANT)
            section.headers.append(line)
            section.feed(b"h", line)
        return True

    def _hunk_header(self, hunk: re.Match[bytes], ended: bool) -> None:
        old, new = self.last
        named = old.startswith(b"--- ") and new.startswith(b"+++ ")
        follows = self.section is not None and (ended or (named and not self.section.hunks))
        if not follows and not named:  # a hunk of no file: text in a message, a lie anywhere else
            self.sound = self.sound and self.in_message
            return
        section = self.section if follows else None
        section = section or self._open_plain(old, new)
        section.hunks += 1
        self.endless = b""
        self.before, self.after = (int(count) if count is not None else 1 for count in hunk.groups())
        self.just_ended = not (self.before or self.after)

    def _open_plain(self, old: bytes, new: bytes) -> _Section:
        """Start the part of a file that has no "diff --git" line."""
        section = self._open(old if new.startswith(b"+++ /dev/null") else new)
        section.headers += [old, new]
        section.feed(b"h", old)
        section.feed(b"h", new)
        return section

    def _hunk_line(self, line: bytes) -> None:
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
_MEMBERS = 100  # of one gzip file: each costs a copy of what follows, and 50,000 empty ones fit into 1 MB
_SHA256 = re.compile(r"[0-9a-f]{64}")


class PatchProblem(Exception):
    """A kept patch cannot be read back, in one sentence."""


@dataclass(frozen=True)
class Patch:
    """A patch that was read. `text` is cut at the limit where `state` is 'oversized', and then has no `patch_id`.

    `series` holds the patch-id of each mail of a series, in order; a plain diff is a series of one. `change_ids` are
    claims. `proves` is false where nothing but white space changes, so that finding the change again means nothing.
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
    """Unpack and read a format-patch series or a plain diff, gzipped or not. Never raises, whatever the bytes are.

    At most `limit` bytes are unpacked; what goes beyond is 'oversized', what git would not apply is 'malformed'.
    """
    raw, whole, sound = unpack(data, limit)
    if not whole:
        raw = raw[: raw.rfind(b"\n") + 1]
    reader = _read(raw)
    state = "oversized" if not whole else "read" if sound and reader.sound and reader.files else "malformed"
    text = raw.decode("utf-8", "replace")
    counts = (len(reader.files), reader.added, reader.removed)
    if state != "read":
        return Patch(text, state, None, *counts)
    return Patch(text, state, reader.identity(), *counts, reader.series(), tuple(reader.change_ids), reader.proves)


def unpack(data: bytes, limit: int) -> tuple[bytes, bool, bool]:
    """(bytes, whether that is all of them, whether the packing was sound) of plain or gzipped data; at most `limit`."""
    if not data.startswith(_GZIP):
        return data[:limit], len(data) <= limit, True
    pieces, size, rest = [], 0, data
    for _ in range(_MEMBERS):
        if not rest.startswith(_GZIP):
            break
        member = zlib.decompressobj(wbits=31)
        try:
            piece = member.decompress(rest, limit - size + 1)
        except zlib.error:
            return b"".join(pieces)[:limit], True, False
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(pieces)[:limit], False, True
        if not member.eof:
            return b"".join(pieces), True, False
        rest = member.unused_data
    return b"".join(pieces), True, not rest.strip(b"\0")


def patch_id(text: str) -> str | None:
    """A hash of the change alone, in the spirit of `git patch-id --stable`; None for what cannot be read as a patch.

    Positions, white space inside lines, object names, the order of files, and everything outside the diffs (author,
    date, message) do not count; paths, modes, context, added and removed lines do. Binary files count by their object
    names, which git proves when it applies them.
    """
    reader = _read(text.encode("utf-8", "replace"))
    return reader.identity() if reader.sound and reader.files else None


def store_patch(folder: Path, text: str) -> str:
    """Keep a patch below `folder` and return the SHA-256 of its text, which alone names the file. Again: no change."""
    data = text.encode("utf-8", "replace")
    name = hashlib.sha256(data).hexdigest()
    place = _place(folder, name)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, gzip.compress(data, compresslevel=6, mtime=0))
    return name


def load_patch(folder: Path, sha256: str) -> str:
    """The text of a kept patch, checked against its name. Raises PatchProblem."""
    if not _SHA256.fullmatch(sha256):
        raise PatchProblem("a patch is named by 64 hexadecimal digits")
    try:
        data = gzip.decompress(_place(folder, sha256).read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise PatchProblem(f"patch {sha256} cannot be read: {type(error).__name__}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise PatchProblem(f"patch {sha256} holds another text than it was stored with")
    return data.decode("utf-8")


def _place(folder: Path, sha256: str) -> Path:
    return folder / sha256[:2] / f"{sha256}.patch.gz"


def _read(raw: bytes) -> DiffReader:
    reader = DiffReader()
    for line in BytesIO(raw):
        reader.line(line.rstrip(b"\n"))
    reader.finish()
    return reader
