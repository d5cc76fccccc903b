"""Names that a hunk changes where they get their value, and a line in the new names. Pure; linear in the hunk."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from scoring.diff.change import Hunk

LINE_LENGTH = 1_000
_WORD = re.compile(r"[A-Za-z_]\w*")
# What gives a value to a name: an assignment, a loop, the parameters of a function.
_BOUND = re.compile(r"\s*(?:(?:const|let|var|val)\s+)?([A-Za-z_]\w*)(?:\s*:\s*[\w\[\], |.]{1,80})?\s*:?=(?!=)")
_LOOP = re.compile(r"\s*(?:async\s+)?for\s*\(?(?:const |let |var )?([A-Za-z_]\w*)\s+(?:in|of)\b")
_HEAD = re.compile(r"\s*(?:[a-z]+\s+){0,3}(?:def|function|func|fn|fun)\s+\w+\(")


def renamed(hunk: Hunk) -> dict[str, str]:
    """Return the new names by the old ones, where the line that gives the value stays the same apart from the name.

    A new name that gets another value in an added line counts for nothing.
    """
    names: dict[str, str] = {}
    for old, new in _replaced(hunk):
        words, others = _WORD.findall(old), _WORD.findall(new)
        changed = {(word, other) for word, other in zip(words, others, strict=False) if word != other}
        if len(changed) == 1 and len(words) == len(others):
            [(word, other)] = changed
            is_bound = word == _bound(old) or (_HEAD.match(old) is not None and f"{word}(" not in old)
            if is_bound and in_new_names(old, {word: other}) == new:
                names[word] = other
    bound = Counter(_bound(line.text[:LINE_LENGTH]) for line in hunk.lines if line.mark == "+")
    return {word: other for word, other in names.items() if bound[other] <= 1}


def in_new_names(text: str, names: Mapping[str, str]) -> str:
    """Return a line with its names replaced."""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text) if names else text


def _bound(text: str) -> str | None:
    found = _BOUND.match(text) or _LOOP.match(text)
    return found[1] if found else None


def _replaced(hunk: Hunk) -> Iterator[tuple[str, str]]:
    """Yield each removed line with the added one in its place, where there are as many of both."""
    runs: tuple[list[str], list[str]] = ([], [])
    for line in (*hunk.lines, None):
        if line is not None and line.mark != " " and not (line.mark == "-" and runs[1]):
            runs[line.mark == "+"].append(line.text[:LINE_LENGTH])
            continue
        if len(runs[0]) == len(runs[1]):
            yield from zip(*runs, strict=True)
        runs = ([line.text[:LINE_LENGTH]] if line is not None and line.mark == "-" else [], [])
