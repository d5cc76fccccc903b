"""Reads a patch by the rules of `git apply`, into files, hunks and numbered lines, within bounds. Pure.

A hunk is as long as its header says; other text is words. Strangers write the text: limits bound how much is read, and
the result says if something was left out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import thread_time

from ingest.git.apply_check import GitReading, holds_nul, is_unsafe
from ingest.git.patch import is_converted, is_from_line, unpack
from scoring.diff.change import Change, FileChange, Mail
from scoring.diff.file_part import HUNK_HEADER, FilePart, OpenHunk
from scoring.diff.mails import encoding_header, ends_message, is_header, read_mail
from scoring.types import QUOTE_LENGTH, Finding, FlagType, Severity

SCANNER = "reading"
PROBLEMS = 20  # of one rule; more would not help a person


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one reading; text beyond them is not read, and a problem says so.

    `size` counts unpacked bytes, or characters of a text. A line is cut at `line_length` characters.
    """

    size: int = 5_000_000
    files: int = 2_000
    mails: int = 500
    lines: int = 100_000
    line_length: int = 10_000
    seconds: float = 3.0


DEFAULT_LIMITS = Limits()


_RULES: dict[str, tuple[FlagType, Severity, str]] = {
    "too_large": ("oversized", Severity.MED, "The patch is larger than what is read; the rest was left out."),
    "too_many_lines": ("oversized", Severity.MED, "The patch has more lines than are read; the rest was left out."),
    "too_many_files": ("oversized", Severity.MED, "The patch has more files than are read; the rest was left out."),
    "too_many_mails": ("oversized", Severity.MED, "The series has more mails than are read; the rest was left out."),
    "too_slow": ("oversized", Severity.MED, "Reading the patch took too long; the rest was left out."),
    "long_line": ("oversized", Severity.MED, "A line is longer than what is read of one; look at the end of it."),
    "cut_hunk": ("oversized", Severity.MED, "The patch ends inside a hunk, so lines of this file are missing."),
    "cut_file": ("oversized", Severity.MED, "A file's header promises content that does not follow."),
    "cut_text": ("oversized", Severity.MED, "The last line has no line end, so the patch may have been cut there."),
    "corrupt_hunk": ("other", Severity.MED, "A hunk does not hold the lines that its header counts; git refuses it."),
    "joined_lines": (
        "other",
        Severity.MED,
        "A line without an end comes before others of its hunk, so git joins them into a line that exists nowhere.",
    ),
    "stray_hunk": ("other", Severity.MED, "A hunk belongs to no file, so git does not apply it; see what it hides."),
    "text_outside": (
        "other",
        Severity.MED,
        "Lines that look like a change are outside every hunk, so git does not apply them; see what they hide.",
    ),
    "unreadable_file": ("other", Severity.MED, "A file's header is incomplete or contradicts itself; git refuses it."),
    "nul_in_name": (
        "other",
        Severity.MED,
        "A file's header holds a NUL, at which git ends the name; the change goes to a file of the shorter name.",
    ),
    "unsafe_path": ("other", Severity.MED, "A path leaves the repository or enters its .git folder; git refuses it."),
    "text_behind": (
        "other",
        Severity.MED,
        "Text behind a patch of the series is neither a signature nor a known trailer; see what it hides.",
    ),
    "encoded_mail": ("other", Severity.MED, "A mail is encoded or has several parts, so its patch was not read."),
    "other_format": (
        "other",
        Severity.MED,
        "The text begins as a patch of Mercurial or StGit, which git rewrites before it reads it.",
    ),
    "git_differs": (
        "other",
        Severity.MED,
        "git reads another change from this text, so what it would apply was not fully read.",
    ),
    "git_refuses": ("other", Severity.MED, "git cannot take this text apart, so it was not compared with its reading."),
    "git_unasked": (
        "other",
        Severity.MED,
        "git could not be asked how it reads this text, so the patch does not count as fully read.",
    ),
    "broken_gzip": ("other", Severity.MED, "The packed patch is damaged; what could be unpacked was read."),
    "not_utf8": ("other", Severity.LOW, "The patch is not UTF-8; bytes that are not were replaced."),
    "no_file": ("other", Severity.MED, "No changed file was found in the patch, so nothing was reviewed."),
}


class Problems:
    """Findings of the parser, at most PROBLEMS of each rule."""

    def __init__(self) -> None:
        self._found: dict[str, list[Finding]] = {}

    def add(
        self,
        rule: str,
        file: str | None = None,
        line: int | None = None,
        quote: str = "",
        removed: bool = False,
        text_line: int | None = None,
    ) -> None:
        """Note one problem; `rule` is one of the rules of this module, `text_line` a line of the patch's own text."""
        kind, severity, explanation = _RULES[rule]
        if text_line is not None:
            explanation = f"{explanation} See line {text_line} of the patch's text."
        noted = self._found.setdefault(rule, [])
        if len(noted) < PROBLEMS:
            noted.append(Finding(SCANNER, rule, kind, severity, explanation, file, line, quote[:QUOTE_LENGTH], removed))

    def all(self) -> tuple[Finding, ...]:
        """Return every problem, in the order of its rule's first one."""
        return tuple(finding for noted in self._found.values() for finding in noted)


# Lines after a patch in a mail: trailers of format-patch and b4, and separators of files in diffs of other tools.
_TRAILER = re.compile(r"(?:base-commit|change-id|prerequisite-[a-z-]{1,20}): |Index: |=+$|diff |Only in |-{2,3}$|$")
_SIGNATURE_LINES = 4  # after "-- "
_NO_CHANGE = ("-- ", "--- ", "+++ ")  # a signature, and headers of a file
_RULERS = ("--", "---")


class PatchReader:
    """Takes a patch line by line. `read` and `unread` count changed lines; `full` names the limit that was reached."""

    def __init__(self, limits: Limits, problems: Problems) -> None:
        self.files: list[FileChange] = []
        self.mails: list[Mail] = []
        self.read = self.unread = 0
        self.full: str | None = None
        self._limits, self._problems = limits, problems
        self._part: FilePart | None = None
        self._hunk: OpenHunk | None = None
        self._message: list[str] | None = None  # the lines of the open mail's header and message
        self._begun = False  # whether a file began, in a series: in this mail
        self._heading = False  # whether the mail's header continues
        self._mail_number = 0  # number of the mail's first line
        self._number = 0  # of the current line
        self._opening: list[str] = []  # the first non-empty line and the two after it
        self._fresh = True  # whether only blank lines were read so far
        self._signature = 0  # lines that may still belong to a signature
        self._ended = False  # whether the previous line was the last of a hunk
        self._hiding = False  # whether the previous line was a change outside all hunks
        self._path: str | None = None  # of the last file, for problems after it
        self._last = ("", "")  # the two previous lines outside hunks

    def line(self, line: str, flaw: str | None = None) -> None:
        """Take the next line, without its line end; `flaw` is the problem of an incomplete one."""
        if len(line) > self._limits.line_length:
            line, flaw = line[: self._limits.line_length], "long_line"
        self._number += 1
        if len(self._opening) < 3 and (self._opening or line.removesuffix("\r")):
            self._opening.append(line.removesuffix("\r"))
        if self._hunk is None or not self._hunk_line(self._hunk, line, flaw):
            self._outside(line, line.removesuffix("\r"))
            self._note(flaw, None, line)
        self._fresh = self._fresh and not line.strip()

    def finish(self, cut: bool) -> None:
        """Take the end of the text; `cut`: a limit ended it, which is its own problem."""
        if self._hunk is not None:
            self._close_hunk(self._hunk, None if cut else "cut_hunk")
        self._close_message()
        self._close_part()
        if is_converted([line.encode("utf-8", "replace") for line in self._opening]):
            self.unread += 1
            self._problems.add("other_format", quote=self._opening[0])

    def _hunk_line(self, hunk: OpenHunk, line: str, flaw: str | None) -> bool:
        """Take a line while a hunk is open; False if it does not belong to the hunk."""
        if line.startswith("\\ "):
            hunk.end_file()
            return True
        if hunk.joins(line):
            self.unread += 1
            self._problems.add("joined_lines", self._path, quote=line, text_line=self._number)
        numbered = hunk.take(line)
        if numbered is None:
            self._close_hunk(hunk, "corrupt_hunk")
            return False
        self.read += numbered.mark != " " and flaw is None
        self._note(flaw, numbered.new or numbered.old, line, removed=numbered.mark == "-")
        if hunk.full:
            self._close_hunk(hunk, None)
        return True

    def _note(self, flaw: str | None, number: int | None, line: str, removed: bool = False) -> None:
        if flaw is not None:
            self.unread += 1
            self._problems.add(flaw, self._path, number, line, removed)

    def _close_hunk(self, hunk: OpenHunk, rule: str | None) -> None:
        self._hunk, self._ended = None, hunk.full
        if rule is None and hunk.full and not hunk.changes:
            rule = "corrupt_hunk"
        if self._part is not None:
            self._part.hunks.append(hunk.close())
        if rule is not None:
            self.unread += max(hunk.old_left, hunk.new_left, 1)
            self._problems.add(rule, self._path)

    def _outside(self, line: str, header: str) -> None:
        """Take a line outside hunks; `header` is the line without a carriage return."""
        ended, self._ended = self._ended, False
        if header.startswith("diff --git "):
            part = FilePart.of_git(header.removeprefix("diff --git "))
            self._begin(part)
            self._check_name(part, header, self._number)
        elif hunk := HUNK_HEADER.match(line):
            self._hunk_header(hunk, ended)
        elif line.startswith("\\ "):
            self._ended = ended
            if ended and self._part is not None:
                self._part.end_file()
        elif self._part is not None and self._part.header(header):
            self._check_name(self._part, header, self._number)
        else:
            self._text(line, ended)
        self._last = (self._last[1], header)

    def _hunk_header(self, header: re.Match[str], ended: bool) -> None:
        part, (old_header, new_header) = self._part, self._last
        follows = part is not None and not part.binary and (ended or (part.headers and not part.hunks))
        if not follows:
            if not (old_header.startswith("--- ") and new_header.startswith("+++ ")):
                self._stray_hunk(header.string)
                return
            part = FilePart.of_lines(old_header[4:], new_header[4:], header)
            self._begin(part)
            self._check_name(part, old_header, self._number - 2)
            self._check_name(part, new_header, self._number - 1)
        if self._part is not None:
            self._path = self._part.path
            self._hunk = OpenHunk(header)
            if self._hunk.full:
                self._close_hunk(self._hunk, None)

    def _check_name(self, part: FilePart, header: str, number: int) -> None:
        """Note, once for a part, that git ends a name in its header early."""
        if not part.cut_name and holds_nul(header):
            part.cut_name = True
            self.unread += 1
            self._problems.add("nul_in_name", part.path, quote=header, text_line=number)

    def _stray_hunk(self, line: str) -> None:
        """Take a hunk without a file: words in a message, a problem elsewhere."""
        self._close_part()
        if self._message is not None:
            self._message.append(line)
            return
        self.unread += 1
        self._hiding = True
        self._problems.add("stray_hunk", self._path, quote=line)

    def _begin(self, part: FilePart) -> None:
        self._close_message()
        self._close_part()
        if len(self.files) >= self._limits.files:
            self.full = "too_many_files"
        self._part, self._begun, self._hiding, self._signature = part, True, False, 0

    def _close_part(self) -> None:
        part, self._part = self._part, None
        if part is None or not part.headers:  # git writes "diff --git" alone for a file without a change
            return
        self._path = part.path
        file = part.close()
        if file is None or not part.sound or part.cut:
            self.unread += 1
            self._problems.add("cut_file" if part.cut else "unreadable_file", part.path)
        if file is not None:
            self.files.append(file)
            self.unread += file.binary or file.submodule
            if is_unsafe(file.path) or is_unsafe(file.old_path):
                self._problems.add("unsafe_path", file.path)

    def _text(self, line: str, ended: bool) -> None:
        """Take a line outside all files: message, signature, separator, or hidden text."""
        self._close_part()
        if self._begins_mail(line):
            self._begin_mail(line.lstrip() if self._fresh else line)
        elif self._message is not None:
            self._message_line(self._message, line)
        else:
            self._judge_text(line, ended)

    def _begins_mail(self, line: str) -> bool:
        """Return whether a mail begins here, at "From " or at a header that begins the text, except "Index: "."""
        first = self._fresh and is_header(line.lstrip()) and not line.lstrip().startswith("Index: ")
        return first or (line.startswith("From ") and is_from_line(line.encode("utf-8", "replace")))

    def _judge_text(self, line: str, ended: bool) -> None:
        changes = line.startswith(("+", "-")) and not line.startswith(_NO_CHANGE) and line.rstrip() not in _RULERS
        unreadable = line.startswith("@@")
        hidden = unreadable or (changes and (self._begun or self._hiding)) or (ended and line.startswith(" "))
        behind = not hidden and self._begun and bool(self.mails) and not self._is_tail(line.rstrip())
        if hidden or behind:
            self.unread += 1
            if not self._hiding:
                rule = "stray_hunk" if unreadable else "text_behind" if behind else "text_outside"
                self._problems.add(rule, self._path, quote=line, text_line=self._number)
        self._hiding = hidden or behind

    def _is_tail(self, text: str) -> bool:
        """Return whether a line may follow a patch in a mail."""
        if text == "--":
            self._signature = _SIGNATURE_LINES
        elif self._signature and text:
            self._signature -= 1
            return True
        return _TRAILER.match(text) is not None

    def _begin_mail(self, line: str) -> None:
        self._close_message()
        if len(self.mails) >= self._limits.mails:
            self.full = "too_many_mails"
        self._message, self._heading, self._mail_number = [line], True, self._number
        self._begun, self._hiding, self._signature = False, False, 0

    def _message_line(self, message: list[str], line: str) -> None:
        """Take a line of a mail; a header counts as one even if it looks like a patch ("Index: ")."""
        self._heading = self._heading and (is_header(line) or line.startswith((" ", "\t")))
        if not self._heading and ends_message(line):
            self._close_message()
        else:
            message.append(line)

    def _close_message(self) -> None:
        message, self._message = self._message, None
        if message is None:
            return
        self.mails.append(read_mail(message))
        index = encoding_header(message)
        if index is not None:
            self.unread += 1
            self._problems.add("encoded_mail", quote=message[index], text_line=self._mail_number + index)


_STRIDE = 256  # lines between two checks of the clock


def read_change(text: str, limits: Limits = DEFAULT_LIMITS, clock: Callable[[], float] = thread_time) -> Change:
    """Read a plain unified diff or a format-patch series. No text makes it raise.

    Text that git would not apply, that is hidden beside the patch or that is beyond `limits` is a problem of the
    change, and unread lines lower the coverage. `clock` returns monotonic seconds, by default of this thread's CPU, so
    that a busy machine does not cut a reading short.
    """
    return _read_text(text, limits, clock, Problems(), unread=0)


def read_bytes(data: bytes, limits: Limits = DEFAULT_LIMITS, clock: Callable[[], float] = thread_time) -> Change:
    """Read a patch from bytes, which may be gzipped; at most `limits.size` bytes are unpacked."""
    problems = Problems()
    raw, is_whole, is_sound = unpack(data, limits.size)
    text = raw.decode("utf-8", "replace")
    if not is_sound:
        problems.add("broken_gzip")
    if "\ufffd" in text and not _is_utf8(raw):
        problems.add("not_utf8")
    if not is_whole:
        problems.add("too_large")
        text = text[: text.rfind("\n") + 1]
    return _read_text(text, limits, clock, problems, unread=int(not is_whole) + int(not is_sound))


def apply_git_reading(change: Change, reading: GitReading | None, text: str = "") -> Change:
    """Return the change in the light of git's own reading of its `text`: a difference lowers the coverage."""
    if reading is not None and (reading.state == "same" or (reading.state == "refused" and change.coverage < 1)):
        return change
    rule = "git_unasked" if reading is None else "git_differs" if reading.state == "different" else "git_refuses"
    line = reading.line if reading else None
    problems = Problems()
    problems.add(rule, quote=text.split("\n")[line - 1] if line and text else "", text_line=line)
    lines = sum(line.mark != " " for file in change.files for hunk in file.hunks for line in hunk.lines)
    coverage = min(change.coverage, lines / (lines + 1))
    return replace(change, problems=(*change.problems, *problems.all()), coverage=coverage)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _read_text(text: str, limits: Limits, clock: Callable[[], float], problems: Problems, unread: int) -> Change:
    size = len(text) if len(text) <= limits.size else text.rfind("\n", 0, limits.size) + 1
    *lines, last = text[:size].split("\n", limits.lines)
    reader = PatchReader(limits, problems)
    lines_taken, rule = _take_lines(lines, reader, limits, clock)
    if rule is None and last and len(lines) == limits.lines:
        rule = "too_many_lines"
    elif rule is None and last:
        reader.line(last, flaw="cut_text")
    if size < len(text):
        rule = rule or "too_large"
    if rule is not None:
        problems.add(rule)
        unread += max(
            1,
            _count_changed(lines[lines_taken:])
            + _count_changed([last])
            + text.count("\n+", size)
            + text.count("\n-", size),
        )
    reader.finish(cut=rule is not None)
    return _build_change(reader, problems, unread + reader.unread)


def _take_lines(
    lines: list[str], reader: PatchReader, limits: Limits, clock: Callable[[], float]
) -> tuple[int, str | None]:
    """Read until the end or a limit; return the number of lines taken and the limit."""
    deadline = clock() + limits.seconds
    for index, line in enumerate(lines):
        if index % _STRIDE == 0 and clock() > deadline:
            return index, "too_slow"
        reader.line(line)
        if reader.full:
            return index + 1, reader.full
    return len(lines), None


def _count_changed(texts: list[str]) -> int:
    """Count lines that look like changed ones."""
    return sum(text.startswith(("+", "-")) + text.count("\n+") + text.count("\n-") for text in texts)


def _build_change(reader: PatchReader, problems: Problems, unread: int) -> Change:
    if not reader.files:
        problems.add("no_file")
        unread += 1
    coverage = reader.read / (reader.read + unread) if unread else 1.0
    return Change(tuple(reader.files), tuple(reader.mails), problems.all(), coverage)
