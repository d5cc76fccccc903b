"""Patches as strangers send them: unpacked within bounds, read as git reads them, kept under the hash of their text."""

import gzip
import hashlib
import os
import re
import tempfile
import zlib
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from ingest.durable import sync

_GZIP = b"\x1f\x8b"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HUNK = re.compile(rb"@@ -[0-9]{1,9}(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@")
_MAIL = re.compile(rb"From [0-9a-f]{40,64} ")
_BASE85 = re.compile(rb"[A-Za-z]\S{5,65}")
_SPACE = b" \t\n\v\f\r"
# Lines that git writes between "diff --git" and the first hunk.
_HEADERS = tuple(
    b"--- |+++ |old mode |new mode |new file mode |deleted file mode |copy from |copy to |rename from |rename to |"
    b"similarity index |dissimilarity index |index |GIT binary patch|Binary files ".split(b"|")
)


class PatchProblem(Exception):
    """A kept patch cannot be read back, in one sentence."""


@dataclass(frozen=True)
class Patch:
    """A patch that was read. `text` is cut at the limit where `state` is 'oversized', and then has no `patch_id`."""

    text: str
    state: str  # 'read', 'malformed', 'oversized'
    patch_id: str | None
    files: int
    added: int
    removed: int


def read_patch(data: bytes, limit: int) -> Patch:
    """Unpack and read a format-patch series or a plain diff, gzipped or not. Never raises, whatever the bytes are.

    At most `limit` bytes are unpacked; what goes beyond is 'oversized', what git would not apply is 'malformed'.
    """
    raw, whole, sound = _unpack(data, limit)
    if not whole:
        raw = raw[: raw.rfind(b"\n") + 1]
    reader = _read(raw)
    state = "oversized" if not whole else "read" if sound and reader.sound and reader.files else "malformed"
    text = raw.decode("utf-8", "replace")
    identity = reader.identity() if state == "read" else None
    return Patch(text, state, identity, len(reader.files), reader.added, reader.removed)


def patch_id(text: str) -> str | None:
    """A hash of the change alone, in the spirit of `git patch-id --stable`; None for what cannot be read as a patch.

    Positions, white space inside lines, object names, the order of files, and everything outside the diffs (author,
    date, message) do not count; paths, modes, context, added and removed lines do.
    """
    reader = _read(text.encode("utf-8", "replace"))
    return reader.identity() if reader.sound and reader.files else None


def store_patch(folder: Path, text: str) -> str:
    """Keep a patch below `folder` and return the SHA-256 of its text, which alone names the file. Again: no change."""
    data = text.encode("utf-8", "replace")
    name = hashlib.sha256(data).hexdigest()
    place = _place(folder, name)
    if place.exists():
        return name
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(gzip.compress(data, compresslevel=6, mtime=0))
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(place)
    finally:
        Path(draft).unlink(missing_ok=True)
    sync(place.parent)
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


def _unpack(data: bytes, limit: int) -> tuple[bytes, bool, bool]:
    """(bytes, whether that is all of them, whether the packing was sound); never more than `limit` bytes."""
    if not data.startswith(_GZIP):
        return data[:limit], len(data) <= limit, True
    pieces, size, rest = [], 0, data
    while rest.startswith(_GZIP):
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


@dataclass
class _Section:
    """One file's part of a patch."""

    name: bytes
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    index: bytes = b""
    binary: bool = False
    hunks: int = 0

    def feed(self, mark: bytes, line: bytes) -> None:
        self.digest.update(mark + line.translate(None, _SPACE) + b"\n")

    def close(self) -> bytes:
        if self.binary:  # nothing but the object names tells two binary changes apart
            self.digest.update(self.index)
        return self.digest.digest()


class _Reader:
    """Reads a patch line by line by the rules of `git apply`: a hunk is as long as its header says, no line longer."""

    def __init__(self) -> None:
        self.sound = True
        self.files: set[bytes] = set()
        self.added = self.removed = 0
        self.digests: list[bytes] = []
        self.section: _Section | None = None
        self.before = self.after = 0  # lines that the running hunk still needs of the old and of the new side
        self.just_ended = False  # whether the line before was the last of a hunk
        self.in_message = False  # whether the line is between a mail's "From" line and its first file
        self.last = (b"", b"")  # the two lines before, where they were outside hunks

    def line(self, line: bytes) -> None:
        """Take the next line, without its line end."""
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
        """Take the end of the text."""
        self.sound = self.sound and not (self.before or self.after)
        self._close()

    def identity(self) -> str:
        """The hash of every file's part, in an order of their own."""
        return hashlib.sha256(b"".join(sorted(self.digests))).hexdigest()

    def _open(self, name: bytes) -> _Section:
        self._close()
        self.in_message = False
        self.section = section = _Section(name)
        section.feed(b"d", name)
        return section

    def _close(self) -> None:
        if self.section is not None:
            self.files.add(self.section.name)
            self.digests.append(self.section.close())
            self.section = None

    def _outside(self, line: bytes, ended: bool) -> None:
        """A line that belongs to no file's part: message, signature, separator."""
        stray = line.startswith((b"+", b"-", b" ")) and not line.startswith((b"-- ", b"--- ")) and line != b"--"
        unread = line.startswith(b"@@") and not self.in_message
        if (ended and stray) or unread:  # lines hidden behind a hunk that claims to be shorter, or to be none
            self.sound = False
        if not line.startswith((b"--- ", b"+++ ")):
            self._close()
            self.in_message = _MAIL.match(line) is not None or (self.in_message and line != b"---")

    def _header_line(self, section: _Section, line: bytes) -> bool:
        """Take a line between a file's first line and its first hunk; False if it is none."""
        if section.binary and (not line or _BASE85.fullmatch(line) or line.startswith((b"literal ", b"delta "))):
            section.feed(b"b", line)
        elif not line.startswith(_HEADERS):
            return False
        elif line.startswith(b"index "):
            section.index = line.split(b" ")[1]
        else:
            section.binary = section.binary or line.startswith((b"GIT binary patch", b"Binary files "))
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
        self.before, self.after = (int(count) if count is not None else 1 for count in hunk.groups())
        self.just_ended = not (self.before or self.after)

    def _open_plain(self, old: bytes, new: bytes) -> _Section:
        """Start the part of a file that has no "diff --git" line."""
        section = self._open(old if new.startswith(b"+++ /dev/null") else new)
        section.feed(b"h", old)
        section.feed(b"h", new)
        return section

    def _hunk_line(self, line: bytes) -> None:
        mark = line[:1] or b" "  # mail programs strip the blank of an empty context line
        if mark == b"\\":
            return
        self.before -= mark in b"- "
        self.after -= mark in b"+ "
        if mark not in b"+- " or self.before < 0 or self.after < 0 or self.section is None:
            self.sound, self.before, self.after = False, 0, 0
            return
        self.added += mark == b"+"
        self.removed += mark == b"-"
        self.section.feed(mark, line[1:])
        self.just_ended = not (self.before or self.after)


def _read(raw: bytes) -> _Reader:
    reader = _Reader()
    for line in BytesIO(raw):
        reader.line(line.rstrip(b"\n"))
    reader.finish()
    return reader
