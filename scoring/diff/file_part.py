"""Reads one file's part of a patch: its header lines, then its hunks, line by line."""

import re
from collections.abc import Callable
from dataclasses import replace

from ingest.git.apply_check import common_name, plain_name, plain_names, prefixed_name
from scoring.diff.change import FileChange, Hunk, Kind, Line, Mark

HUNK_HEADER = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_MODE = re.compile(r"[0-7]{5,6}")
_INDEX = re.compile(r"([0-9a-f]+)\.\.([0-9a-f]+)(?: ([0-7]{6}))?\s*")
_EMPTY = ("e69de29", "473a0f4")  # first digits of the empty file's object name: SHA-1, SHA-256
_PAYLOAD = re.compile(r"[A-Za-z]\S{5,65}|(?:literal|delta) [0-9]+|")
_MARKS: dict[str, Mark] = {"+": "+", "-": "-", " ": " ", "": " "}  # mail programs strip a single blank


class OpenHunk:
    """A hunk while it is read: `old_left` and `new_left` count the lines that its header still promises."""

    def __init__(self, header: re.Match[str]) -> None:
        self._start = int(header[1]), int(header[3])
        self._section = header.string[header.end() :].removeprefix(" ")
        self._lines: list[Line] = []
        self._old, self._new = max(self._start[0], 1), max(self._start[1], 1)
        self.changes = 0  # lines other than context
        self._ended: set[Mark] = set()  # marks of lines that would continue one without an end
        self.old_left, self.new_left = (1 if count is None else int(count) for count in (header[2], header[4]))

    @property
    def full(self) -> bool:
        """Return whether every promised line was read."""
        return not (self.old_left or self.new_left)

    def take(self, line: str) -> Line | None:
        """Take the next line and return it with its numbers; None if it cannot belong to this hunk."""
        mark = _MARKS.get(line[:1])
        is_old, is_new = mark != "+", mark != "-"
        if mark is None or (is_old and not self.old_left) or (is_new and not self.new_left):
            return None
        numbered = Line(mark, self._old if is_old else None, self._new if is_new else None, line[1:])
        self._old += is_old
        self._new += is_new
        self.changes += mark != " "
        self.old_left -= is_old
        self.new_left -= is_new
        self._lines.append(numbered)
        return numbered

    def end_file(self) -> None:
        """Mark the last line as one without a line end."""
        if self._lines:
            self._lines[-1] = replace(self._lines[-1], ends_file=True)
            self._ended |= {" ", self._lines[-1].mark} if self._lines[-1].mark != " " else {" ", "+", "-"}

    def joins(self, line: str) -> bool:
        """Return whether git would join this line to one without an end."""
        return _MARKS.get(line[:1]) in self._ended

    def close(self) -> Hunk:
        """Return the hunk."""
        return Hunk(*self._start, self._section, tuple(self._lines), self.full)


class FilePart:
    """A file's part from its first header line on. `sound` is false if its header contradicts itself."""

    def __init__(self, name: str | None) -> None:
        self._name = name  # if no other header names the file
        self._names: dict[str, str | None] = {}
        self._modes: dict[str, str] = {}
        self._kind: Kind = "modified"
        self._objects: tuple[str, ...] = ()
        self._similarity = "100%"
        self.sound = True
        self.cut_name = False  # whether git ends a name of its header before the header does
        self.binary = False
        self.headers = 0
        self.hunks: list[Hunk] = []

    @classmethod
    def of_git(cls, names: str) -> "FilePart":
        """Begin a part at a `diff --git` line; `names` is the rest of that line."""
        return cls(common_name(names))

    @classmethod
    def of_lines(cls, old_header: str, new_header: str, header: re.Match[str]) -> "FilePart":
        """Begin a part at `---` and `+++` lines (given without these marks), as tools other than git write it."""
        part = cls(None)
        before, after = plain_names(old_header, new_header)
        part._names = {"old": before, "new": after}
        empty = header[1] == "0" and header[2] == "0"
        part._kind = "added" if before is None or empty else "deleted" if after is None else "modified"
        part.headers = 2
        return part

    @property
    def path(self) -> str | None:
        """Return the new name, or the old one of a deleted file; None if no header has it."""
        old_name, new_name = (self._names.get(side, self._name) for side in ("old", "new"))
        return old_name if self._kind == "deleted" else new_name if new_name is not None else old_name

    @property
    def cut(self) -> bool:
        """Return whether the header promises content that does not follow."""
        if self.hunks or self.binary:
            return False
        if self._kind in ("added", "deleted"):
            return not any(name.startswith(_EMPTY) for name in self._objects)
        return self._similarity != "100%"

    def header(self, line: str) -> bool:
        """Take a line between the first line and the first hunk; False if it is no header."""
        if self.hunks:
            return False
        if self.binary and _PAYLOAD.fullmatch(line):
            return True
        for prefix, take in _HEADERS.items():
            if line.startswith(prefix):
                take(self, line.removeprefix(prefix))
                self.headers += 1
                return True
        return False

    def end_file(self) -> None:
        """Mark the last line of a finished hunk as one without an end; only once, since it copies the hunk's lines."""
        lines = self.hunks[-1].lines if self.hunks else ()
        if lines and not lines[-1].ends_file:
            self.hunks[-1] = replace(self.hunks[-1], lines=(*lines[:-1], replace(lines[-1], ends_file=True)))

    def close(self) -> FileChange | None:
        """Return the file's change; None if git would find no name or no change."""
        path, old_name = self.path, self._names.get("old", self._name)
        if path is None or not (self.hunks or self.binary or self._changes_without_lines()):
            return None
        modes = {self._modes.get("old"), self._modes.get("new")}
        return FileChange(
            path=path,
            old_path=path if old_name is None or self._kind == "added" else old_name,
            kind="mode" if self._kind == "modified" and not self.hunks and not self.binary else self._kind,
            hunks=tuple(self.hunks),
            old_mode=None if self._kind == "added" else self._modes.get("old"),
            new_mode=None if self._kind == "deleted" else self._modes.get("new"),
            binary=self.binary,
            submodule="160000" in modes,
            symlink="120000" in modes,
        )

    def _changes_without_lines(self) -> bool:
        return self._kind != "modified" or self._modes.get("old") != self._modes.get("new")

    def _old_name(self, text: str) -> None:
        self._side("old", prefixed_name(text), without="added")

    def _new_name(self, text: str) -> None:
        self._side("new", prefixed_name(text), without="deleted")

    def _side(self, side: str, name: str | None, without: Kind) -> None:
        """Take a side's name; None, from /dev/null, means that the side has no file."""
        if name is None:
            self._become(without)
        elif self._kind == without:
            self.sound = False
        else:
            self._claim(side, name)

    def _claim(self, side: str, name: str) -> None:
        """Take a side's name; a repeated one must be equal."""
        self.sound = self._names.setdefault(side, name) == name and self.sound

    def _become(self, kind: Kind) -> None:
        self.sound = self.sound and self._kind in ("modified", kind)
        self._kind = kind

    def _moved(self, text: str, kind: Kind, side: str) -> None:
        self._become(kind)
        self._claim(side, plain_name(text))

    def _mode(self, text: str, side: str, kind: Kind = "modified") -> None:
        mode = text.strip()
        self.sound = self.sound and _MODE.fullmatch(mode) is not None
        self._modes[side] = mode[:6]
        if kind != "modified":
            self._become(kind)

    def _index(self, text: str) -> None:
        match = _INDEX.fullmatch(text)
        if match:
            self._objects = match.group(1, 2)
            self._modes = (dict.fromkeys(("old", "new"), match[3]) if match[3] else {}) | self._modes

    def _similar(self, text: str) -> None:
        self._similarity = text.strip()

    def _opaque(self, _text: str) -> None:
        self.binary = True


_HEADERS: dict[str, Callable[[FilePart, str], None]] = {
    "--- ": FilePart._old_name,
    "+++ ": FilePart._new_name,
    "old mode ": lambda part, text: part._mode(text, "old"),
    "new mode ": lambda part, text: part._mode(text, "new"),
    "new file mode ": lambda part, text: part._mode(text, "new", kind="added"),
    "deleted file mode ": lambda part, text: part._mode(text, "old", kind="deleted"),
    "rename from ": lambda part, text: part._moved(text, "renamed", "old"),
    "rename to ": lambda part, text: part._moved(text, "renamed", "new"),
    "copy from ": lambda part, text: part._moved(text, "copied", "old"),
    "copy to ": lambda part, text: part._moved(text, "copied", "new"),
    "similarity index ": FilePart._similar,
    "dissimilarity index ": lambda _part, _text: None,
    "index ": FilePart._index,
    "GIT binary patch": FilePart._opaque,
    "Binary files ": FilePart._opaque,
    "Files ": FilePart._opaque,
}
