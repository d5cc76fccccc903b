"""Split a text in any language into statements, each as one line with its enclosing functions. Pure and bounded.

A statement continues while a bracket is open, after an operator and before a row that begins with one; a condition is
read with the indented rows below it. The head of a function or a block ends a statement; an object passed to a call
does not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scoring.diff.budget import spend
from scoring.scanners._text import is_comment as _is_comment

ROWS, BODY_ROWS = 14, 5  # of one statement; below a condition
CHARACTERS = 1_500  # of one statement
HEAD_CHARACTERS, HEAD_ROWS = 300, 12  # of the head of a function
FUNCTION_ROWS = 200  # above a row, searched for the head of its function
NEAR = 25  # rows around a statement that are searched for a safeguard
_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`")
_ADDS = re.compile(r"\s*(?:\+|\.\.?|<>)\s*")
_GOES_ON = re.compile(r"(?:[-+*/%.=&|\\(\[]|\s\?|\b(?:and|or|not|in|return))\s*$")
_CONTINUES = re.compile(r"\s*(?:\?\.|\.\w|->|::|\+(?!\+)|\|\||&&|\.\.|\?\s|:\s|and\b|or\b|\|>)")
_OPENS = re.compile(r"(?:=>\s*\{?|\)\s*\{|\bdo(?:\s*\|[^|]*\|)?|\bthen)\s*$")
_CONDITION = re.compile(
    r"\s*(?:\}?\s*else\s+|\}\s*|el)?(?:if|elsif|elseif|unless|when|case|switch|guard|while|catch|except|rescue)\b"
)
HEAD = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|final|async|override|local|pub(?:\(\w+\))?|virtual|"
    r"@\w+)\s+)*(?:(?:def|func|function|fn|fun|sub|class|struct|impl|trait|interface|module|resource|it|test)\b.*|"
    r"(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:function\b|\(?[\w\s,{}:]*\)?\s*=>).*|"
    r"(?:[\w<>\[\],.?*&:]+\s+)+[\w:~]+\s*\([^;]*\{\s*$|[\w$]+\s*\([^;()]*\)\s*\{\s*$|"
    r".*(?:=>|\bfunction\s*\w*\([^)]*\))\s*\{\s*$)"
)
_POINTER = re.compile(r"\s*\*+\w")  # a C assignment through a pointer, which looks like a comment
NOT_A_HEAD = re.compile(r"\s*(?:\}?\s*else|if|for|while|switch|catch|return|foreach|using|lock|synchronized|try|do)\b")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text in one line, its first and last row from 0, and the heads of the functions around it."""

    text: str
    first: int
    last: int
    heads: str


def statements(text: str, wanted: set[int]) -> Iterator[Statement]:
    """Yield the statements that contain a wanted row, in order.

    Those below a condition are also yielded by themselves.
    """
    rows = text.split("\n")
    around = _Around(rows)
    near = sorted({close for row in wanted for close in range(max(row - ROWS, 0), row + 1)})
    following = 0
    for row in near:
        spend()
        if row < following or not rows[row].strip() or is_comment(rows[row]):
            continue
        last = _last(rows, row)
        body = _body(rows, last, _indent(rows[row])) if _CONDITION.match(rows[row]) else last
        if not wanted.isdisjoint(range(row, body + 1)):
            whole = " ".join(
                row_text.strip() for row_text in rows[row : body + 1] if row_text.strip() and not is_comment(row_text)
            )
            yield Statement(whole[:CHARACTERS], row, body, "\n".join(around.heads(row)))
        following = last + 1


def is_comment(row: str) -> bool:
    """Return whether a row is a comment, and not a C statement that begins with a pointer."""
    return _is_comment(row) and not _POINTER.match(row)


class _Around:
    """The heads of the functions around each row, by indentation."""

    def __init__(self, rows: list[str]) -> None:
        self._rows = rows
        self._known: dict[int, tuple[str, ...]] = {-1: ()}

    def heads(self, row: int) -> tuple[str, ...]:
        """Return the heads around a row, outermost first."""
        outer = self._outer(row)
        if outer not in self._known:
            bare = self._head(outer)
            if bare == "{" and outer > 0:
                bare = f"{self._rows[outer - 1].strip()[:HEAD_CHARACTERS]} {{"
            is_head = HEAD.match(bare) and not NOT_A_HEAD.match(bare)
            self._known[outer] = (*self.heads(outer), bare) if is_head else self.heads(outer)
        return self._known[outer]

    def _head(self, row: int) -> str:
        """Return a row joined with the rows inside its open brackets, since parameters may be written one a row."""
        head = self._rows[row].strip()
        for below in self._rows[row + 1 : row + HEAD_ROWS]:
            if head.count("(") <= head.count(")") or head.endswith(("{", "=>")) or len(head) > HEAD_CHARACTERS:
                break
            head = f"{head} {below.strip()}"
        return head[:HEAD_CHARACTERS]

    def _outer(self, row: int) -> int:
        """Return the nearest row above with less indentation that closes nothing, -1 for none."""
        indent, above = _indent(self._rows[row]), row - 1
        while above >= max(row - FUNCTION_ROWS, 0):
            text = self._rows[above]
            bare = text.lstrip()
            if bare and bare[0] not in "})]#/*" and len(text) - len(bare) < indent:
                return above
            above -= 1
        return -1


def put_together(text: str) -> str:
    """Return a statement with added quoted texts joined into one."""
    pieces: list[str] = []
    position, previous_quote = 0, ""
    for quoted_text in _TEXT.finditer(text):
        between = text[position : quoted_text.start()]
        if previous_quote == quoted_text[0][0] and _ADDS.fullmatch(between):
            pieces[-1] = pieces[-1][:-1] + quoted_text[0][1:]
        else:
            pieces += [between, quoted_text[0]]
        position, previous_quote = quoted_text.end(), quoted_text[0][0]
    return "".join([*pieces, text[position:]])


def rows_near(rows: Sequence[str], first: int, last: int) -> str:
    """Return the rows around a statement in which a safeguard would be."""
    return "\n".join(rows[max(first - NEAR, 0) : last + NEAR])


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _last(rows: list[str], first: int) -> int:
    """Return the last row of the statement that begins at a row."""
    depth = 0
    end = min(first + ROWS, len(rows))
    for row, following in pairwise([*range(first, end), end]):
        bare = _TEXT.sub("0", rows[row][:CHARACTERS])
        depth += sum(bare.count(sign) for sign in "([") - sum(bare.count(sign) for sign in ")]")
        if _OPENS.search(bare) or (depth <= 0 and bare.rstrip().endswith("{")):
            return row
        goes_on = depth > 0 or _GOES_ON.search(bare) or (following < len(rows) and _CONTINUES.match(rows[following]))
        if not goes_on:
            return row
    return end - 1


def _body(rows: list[str], last: int, indent: int) -> int:
    """Return the last of the rows below a condition that are indented deeper than it."""
    body, left = last, BODY_ROWS
    for row_index in range(last + 1, min(last + ROWS, len(rows))):
        row = rows[row_index]
        if not row.strip() or is_comment(row):
            continue
        is_brace = row.strip() == "{" and left == BODY_ROWS
        if left == 0 or (_indent(row) <= indent and not is_brace):
            break
        body, left = row_index, left - 1
    return body
