"""Diffs line by line as git reads them: what changes, how much, and a name for the change alone.

Patches that strangers send and the commits of a mirror go through this one reader, so that a change that landed has
the name under which it was offered.
"""

import hashlib
import re
from dataclasses import dataclass, field

CHANGE_IDS = 200  # of one series: more are not looked at

_HUNK = re.compile(rb"@@ -[0-9]{1,9}(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@")
_MAIL = re.compile(rb"From [0-9a-f]{40,64} ")
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


def split_mails(text: str) -> list[list[str]]:
    """The lines of each mail of a series; of a plain diff, its lines. A line inside a hunk begins no mail."""
    reader, mails = DiffReader(), [[]]
    for line in text.removesuffix("\n").split("\n"):
        data = line.encode("utf-8", "replace")
        if not (reader.before or reader.after) and _MAIL.match(data) and mails[-1]:
            mails.append([])
        reader.line(data)
        mails[-1].append(line)
    return mails


@dataclass
class _Section:
    """One file's part of a diff."""

    name: bytes
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    # Text taken away and text added, without white space: where they are equal, white space is all that changes.
    gone: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    come: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    payload: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    index: bytes = b""
    binary: bool = False
    meant: bool = False
    hunks: int = 0

    def feed(self, mark: bytes, line: bytes) -> None:
        text = line.translate(None, _SPACE)
        self.digest.update(mark + text + b"\n")
        if mark == b"+":
            self.come.update(text)
        elif mark == b"-":
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
        """Whether more than white space changes."""
        return self.binary or self.meant or self.gone.digest() != self.come.digest()


class DiffReader:
    """Reads a patch line by line by the rules of `git apply`: a hunk is as long as its header says, no line longer."""

    def __init__(self) -> None:
        self.sound = True
        self.proves = False
        self.files: set[bytes] = set()
        self.added = self.removed = 0
        self.mails: list[list[bytes]] = [[]]  # hashes of the files' parts, mail by mail
        self.change_ids: list[str] = []
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
        return _identity([digest for mail in self.mails for digest in mail])

    def series(self) -> tuple[str, ...]:
        """The same for each mail that changes files, in order."""
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
            self.proves = self.proves or self.section.proves
            self.section = None

    def _outside(self, line: bytes, ended: bool) -> None:
        """A line that belongs to no file's part: message, signature, separator."""
        stray = line.startswith((b"+", b"-", b" ")) and not line.startswith((b"-- ", b"--- ")) and line != b"--"
        unread = line.startswith(b"@@") and not self.in_message
        if (ended and stray) or unread:  # lines hidden behind a hunk that claims to be shorter, or to be none
            self.sound = False
        if not line.startswith((b"--- ", b"+++ ")):
            self._close()
            self._message_line(line)

    def _message_line(self, line: bytes) -> None:
        if _MAIL.match(line):
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


def _identity(digests: list[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()
