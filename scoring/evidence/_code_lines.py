"""Tells lines of code that runs from others, line by line and cautiously, since hunks begin anywhere. Pure."""

from collections.abc import Iterator

import re2

from scoring.content.budget import spend
from scoring.content.change import Change, FileChange, Line
from scoring.content.paths import role
from scoring.evidence._languages import language_of_file
from scoring.evidence._weight import cut

LINE_LENGTH = 2_000
COMMENT = re2.compile(r"^\s*(#|//|/\*|\*|<!--|--\s|;|\"\"\"|''')")
# Matches statements and hardly a sentence of a docstring. It rather misses a statement than takes a sentence for one.
STATEMENT = re2.compile(
    r"^\s*(async def |def |class \w+[(:{]|import [\w.{*]|from [\w.]+ import |return\b[^.]*$|raise [\w.]+\b|"
    r"(if|elif|for|while|with|except|else|try)\b.*:\s*$|(if|for|while|switch)\s*\(.*[{;]\s*$|const \w|let \w|var \w|"
    r"func [\w(]|pub |fn \w|use [\w:]+;|[\w.\[\]'\"]+(: [\w\[\], |]+)?\s*(=|\+=|-=|:=)\s*\S|[\w.]+\(.*[):,{(]?\s*;?$|"
    r"[})\]]+;?$|@\w)"
)


def is_code_file(file: FileChange) -> bool:
    """Return whether a file is code of the project itself, in a language that has rules."""
    return language_of_file(file) not in ("other", "config", "template", "sql") and role(file.path) == "code"


def code_files(change: Change) -> list[FileChange]:
    """Return the files of a change that are code of the project itself."""
    return [file for file in change.files if is_code_file(file)]


def changed_code(file: FileChange) -> Iterator[Line]:
    """Yield the added and removed lines that look like statements, without comments and blank lines."""
    for hunk in file.hunks:
        spend()
        for line in hunk.lines:
            if line.mark != " " and is_statement(line.text):
                yield line


def is_statement(text: str) -> bool:
    """Return whether a line looks like code that runs."""
    return STATEMENT.search(cut(text, LINE_LENGTH)) is not None and not is_comment(text)


def is_comment(text: str) -> bool:
    """Return whether a line is a comment, or begins or ends one."""
    return COMMENT.search(cut(text, LINE_LENGTH)) is not None
