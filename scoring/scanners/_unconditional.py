"""Rows that run whatever somebody chose: no branch around them, and no name that says what they do. Pure."""

import re
from collections.abc import Sequence

ROWS = 60  # above a row that are read
ROW_CHARACTERS = 500
_BRANCH = re.compile(r"\s*[})]*\s*(?:if|elif|elsif|else|unless|when|case|switch|match|except|catch|default)\b|.*\?\s*$")
_CHOICE = re.compile(r"\?[^?:]{1,80}:|\bif\b.{1,80}\belse\b|&&|\|\||\s(?:if|unless)\s|\bor\b")
_HEAD = re.compile(
    r"\s*(?:[\w@<>\[\]]+\s+){0,5}(?:def|func|function|fn|fun|sub|class)\b|.*\)\s*(?:=>|->)?\s*[\w<>: ]*\{\s*$"
)
# A function, class or option that tells its caller that nothing is checked.
_TOLD = re.compile(
    r"(?i)un_?(?:verified|safe|checked|trusted)|in_?secure|(?:no|skip|disable|without|ignor\w*)_?(?:ssl|tls|cert|verif|check)|"
    r"self_?signed|trust_?all|allow_?invalid|dangerous"
)
# A row that leaves the function because somebody wants the check: `if verify: return checked()`.
_ASKED = re.compile(
    r"(?i)\s*[})]*\s*(?:if|unless|switch|case|guard)\b.*(?:verif|secure|ssl|tls|cert|trust|check|debug)"
)


def is_unconditional(rows: Sequence[str], row: int) -> bool:
    """Return whether the visible rows above a row, up to its function, neither decide about it nor announce it."""
    depth = _depth(rows[row])
    if _CHOICE.search(rows[row][:ROW_CHARACTERS]):
        return False
    for above in reversed(rows[max(row - ROWS, 0) : row]):
        text = above[:ROW_CHARACTERS]
        is_around = bool(text.strip()) and _depth(text) < depth
        if _ASKED.match(text) or (is_around and _BRANCH.match(text)):
            return False
        depth = _depth(text) if is_around else depth
        if is_around and _HEAD.match(text) and _TOLD.search(text):
            return False
    return True


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
