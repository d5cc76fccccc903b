"""Statements of a text, each as one line with the functions that it stands in, in any language. Pure and bounded.

A statement goes on while a bracket is open, behind an operator and before a row that begins with one; a condition is
read with the rows that depend on it, as far as they are indented. What opens a block ends a statement.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from scoring.content.budget import spend
from scoring.evidence._code_lines import is_comment

ROWS, BODY_ROWS = 14, 5  # of one statement; of those that depend on a condition
CHARACTERS = 1_500  # of one statement
NEAR = 25  # rows around a statement that are searched for a safeguard
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")
_GOES_ON = re.compile(r"(?:[-+*/%.,=?&|\\(\[]|\b(?:and|or|not|in|return))\s*$")
_CONTINUES = re.compile(r"\s*(?:\?\.|\.\w|->|::|\+(?!\+)|\|\||&&|\.\.|\?\s|:\s|and\b|or\b|\|>)")
_OPENS = re.compile(r"(?:\{|=>|\bdo(?:\s*\|[^|]*\|)?|\bthen)\s*$")
_CONDITION = re.compile(r"\s*(?:\}?\s*else\s+|el)?(?:if|elsif|elseif|unless|when|case|switch|guard|while)\b")
_HEAD = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|final|async|override|local|pub(?:\(\w+\))?|virtual|"
    r"@\w+)\s+)*(?:(?:def|func|function|fn|fun|sub|class|struct|impl|trait|interface|module|resource|it|test)\b.*|"
    r"(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:function\b|\(?[\w\s,{}:]*\)?\s*=>).*|"
    r"(?:[\w<>\[\],.?*&:]+\s+)+[\w:~]+\s*\([^;]*\{\s*$|[\w$]+\s*\([^;()]*\)\s*\{\s*$|"
    r".*(?:=>|\bfunction\s*\w*\([^)]*\))\s*\{\s*$)"
)
_NOT_A_HEAD = re.compile(r"\s*(?:\}?\s*else|if|for|while|switch|catch|return|foreach|using|lock|synchronized|try|do)\b")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text in one line, its first and last row from 0, and the heads of the functions around it."""

    text: str
    first: int
    last: int
    heads: str


def statements(text: str, wanted: set[int]) -> Iterator[Statement]:
    """Yield the statements that hold one of the wanted rows, in order; those of one condition once more alone."""
    rows = text.split("\n")
    near = {close for row in wanted for close in range(row - ROWS, row + 1)}
    heads: list[tuple[int, str]] = []
    row = 0
    while row < len(rows):
        spend()
        bare = rows[row].strip()
        if not bare or is_comment(rows[row]):
            row += 1
            continue
        indent = _indent(rows[row])
        if bare[0] not in "})]":
            heads = [one for one in heads if one[0] < indent]
        last = _last(rows, row) if row in near else row
        body = _body(rows, last, indent) if row in near and _CONDITION.match(rows[row]) else last
        if not wanted.isdisjoint(range(row, body + 1)):
            whole = " ".join(one.strip() for one in rows[row : body + 1] if not is_comment(one))
            yield Statement(whole[:CHARACTERS], row, body, "\n".join(head for _, head in heads))
        if _HEAD.match(rows[row][:300]) and not _NOT_A_HEAD.match(rows[row]):
            heads.append((indent, bare[:300]))
        row = last + 1


def rows_near(text: str, statement: Statement) -> str:
    """Return the rows around a statement in which a safeguard of it would stand."""
    rows = text.split("\n")
    return "\n".join(rows[max(statement.first - NEAR, 0) : statement.last + NEAR])


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _last(rows: list[str], first: int) -> int:
    """Return the last row of the statement that begins at a row."""
    depth = 0
    end = min(first + ROWS, len(rows))
    for row, following in pairwise([*range(first, end), end]):
        bare = _TEXT.sub("0", rows[row][:CHARACTERS])
        depth += sum(bare.count(sign) for sign in "([") - sum(bare.count(sign) for sign in ")]")
        if _OPENS.search(bare):
            return row
        goes_on = depth > 0 or _GOES_ON.search(bare) or (following < len(rows) and _CONTINUES.match(rows[following]))
        if not goes_on:
            return row
    return end - 1


def _body(rows: list[str], last: int, indent: int) -> int:
    """Return the last of the rows below a condition that are indented deeper than it."""
    body = last
    while body + 1 < len(rows) and body - last < BODY_ROWS:
        row = rows[body + 1]
        if row.strip() and _indent(row) <= indent:
            break
        body += 1
    return body
