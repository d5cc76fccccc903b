"""A patch as strangers send it, read into files, hunks and numbered lines by git's rules and within bounds."""

from collections.abc import Callable
from dataclasses import replace
from time import thread_time

from ingest.git_reading import GitReading
from ingest.patches import unpack
from scoring.content.change import Change
from scoring.content.limits import DEFAULT_LIMITS, Limits, Problems
from scoring.content.patch_reader import PatchReader

__all__ = ["Limits", "compared", "read_bytes", "read_change"]

_STRIDE = 256  # lines between two looks at the clock


def read_change(text: str, limits: Limits = DEFAULT_LIMITS, clock: Callable[[], float] = thread_time) -> Change:
    """Read a plain unified diff or a format-patch series. Never raises, whatever the text is.

    What git would not apply, what is hidden beside the patch and what lies beyond `limits` is a problem of the change,
    and what was not read lowers its coverage. `clock` gives seconds that only grow, by default of this
    thread's CPU: a busy machine cuts nobody off.
    """
    return _read(text, limits, clock, Problems(), unread=0)


def read_bytes(data: bytes, limits: Limits = DEFAULT_LIMITS, clock: Callable[[], float] = thread_time) -> Change:
    """The same of bytes that may be gzipped; no more than `limits.size` bytes are unpacked. Never raises."""
    problems = Problems()
    raw, whole, sound = unpack(data, limits.size)
    text = raw.decode("utf-8", "replace")
    if not sound:
        problems.add("broken_gzip")
    if "\ufffd" in text and not _is_utf8(raw):
        problems.add("not_utf8")
    if not whole:
        problems.add("too_large")
        text = text[: text.rfind("\n") + 1]
    return _read(text, limits, clock, problems, unread=int(not whole) + int(not sound))


def compared(change: Change, reading: GitReading | None, text: str = "") -> Change:
    """The change where git's own reading of its `text` is known: what git reads otherwise was not read."""
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


def _read(text: str, limits: Limits, clock: Callable[[], float], problems: Problems, unread: int) -> Change:
    size = len(text) if len(text) <= limits.size else text.rfind("\n", 0, limits.size) + 1
    *lines, last = text[:size].split("\n", limits.lines)
    reader = PatchReader(limits, problems)
    taken, rule = _take(lines, reader, limits, clock)
    if rule is None and last and len(lines) == limits.lines:
        rule = "too_many_lines"
    elif rule is None and last:
        reader.line(last, flaw="cut_text")
    if size < len(text):
        rule = rule or "too_large"
    if rule is not None:
        problems.add(rule)
        unread += max(1, _changes(lines[taken:]) + _changes([last]) + text.count("\n+", size) + text.count("\n-", size))
    reader.finish(cut=rule is not None)
    return _change(reader, problems, unread + reader.unread)


def _take(lines: list[str], reader: PatchReader, limits: Limits, clock: Callable[[], float]) -> tuple[int, str | None]:
    """Read until the end or a limit: (how many lines were taken, the limit)."""
    deadline = clock() + limits.seconds
    for place, line in enumerate(lines):
        if place % _STRIDE == 0 and clock() > deadline:
            return place, "too_slow"
        reader.line(line)
        if reader.full:
            return place + 1, reader.full
    return len(lines), None


def _changes(texts: list[str]) -> int:
    """Lines that look like changed ones."""
    return sum(text.startswith(("+", "-")) + text.count("\n+") + text.count("\n-") for text in texts)


def _change(reader: PatchReader, problems: Problems, unread: int) -> Change:
    if not reader.files:
        problems.add("no_file")
        unread += 1
    coverage = reader.read / (reader.read + unread) if unread else 1.0
    return Change(tuple(reader.files), tuple(reader.mails), problems.all(), coverage)
