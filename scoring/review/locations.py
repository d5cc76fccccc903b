"""Translates places in a change between the model's form (F1:L12) and people's (path:line).

F counts the files of the change and L the lines of all hunks of one file, both from 1: the author cannot choose either,
and every line has its own number, removed ones too.
"""

import re
from collections.abc import Iterator

from scoring.diff.change import Change, FileChange, Line
from scoring.review.deterministic import place
from scoring.review.schema import LOCATION_LENGTH, Flag, plain_text
from scoring.types import Finding

WORDS = frozenset({"title", "description", "discussion"})
_COMMIT = re.compile(r"commit ([1-9][0-9]{0,3})")
NOT_FOUND = "not found in the change: "
_PLACE = re.compile(r"F([0-9]{1,6})(?::L([0-9]{1,7})(?: ?- ?(?:F([0-9]{1,6}):)?L?([0-9]{1,7}))?)?")


def number_lines(file: FileChange) -> Iterator[tuple[int, Line]]:
    """Yield each line of a file's hunks with its number L."""
    return enumerate((line for hunk in file.hunks for line in hunk.lines), 1)


def finding_place(finding: Finding, change: Change) -> str:
    """Return the place of a finding in the model's form: F1:L12, F1, or "change"."""
    for index, file in enumerate(change.files, 1):
        if finding.file == file.path:
            return _line_place(index, file, finding)
    return "change"


def _line_place(index: int, file: FileChange, finding: Finding) -> str:
    if finding.line is not None:
        for number, line in number_lines(file):
            line_number = line.old if finding.removed else line.new
            if line_number == finding.line and (line.mark == "-") == finding.removed:
                return f"F{index}:L{number}"
    return f"F{index}"


def resolve_flag_place(flag: Flag, change: Change) -> Flag:
    """Return the flag with a readable place; a place that is not in the change stays and says so."""
    place_text = _readable_place(flag.location.strip(), change)
    if place_text is None:
        place_text = NOT_FOUND + (plain_text(flag.location, LOCATION_LENGTH - len(NOT_FOUND)) or "nothing readable")
    return flag.model_copy(update={"location": place_text})


def _readable_place(location: str, change: Change) -> str | None:
    commit = _COMMIT.fullmatch(location)
    if location in WORDS or (commit and int(commit[1]) <= len(change.mails)):
        return location
    match = _PLACE.fullmatch(location)
    if match is None or not 1 <= int(match[1]) <= len(change.files):
        return None
    file = change.files[int(match[1]) - 1]
    if match[2] is None:
        return place(file.path, None)
    return _readable_lines(match, file)


def _readable_lines(match: re.Match[str], file: FileChange) -> str | None:
    """Return the first line of a range; None unless both ends are in this file and in order."""
    first, last = int(match[2]), int(match[4] or match[2])
    lines = dict(number_lines(file))
    if int(match[3] or match[1]) != int(match[1]) or not (first <= last and first in lines and last in lines):
        return None
    line = lines[first]
    removed = line.mark == "-"
    return place(file.path, line.old if removed else line.new, removed)
