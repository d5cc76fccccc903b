"""Cuts features.sql, once and by its text, into a part for each repository and a part for each author. Pure.

A row of features needs what lies in its repository and what lies with its author, and nothing else. `project` is the
only expression that reads a repository whole; all others read an author, wherever that author was. So two passes over
shards give what the one query gives: shards of whole repositories for `project`, then shards of whole authors for the
rest, where `project` is a table.
"""

import re
from typing import NamedTuple

OF_REPOSITORY = "project"
_COMMENT = re.compile(r"--.*")
_BEGIN = re.compile(r"^(?:with |\), )(\w+) as \(", re.MULTILINE)
_END = re.compile(r"^\)\n(?=select\b)", re.MULTILINE)


class Cut(NamedTuple):
    """Two queries over the tables of one shard: one gives `key` and the columns of the repository, one the features."""

    by_repository: str
    by_author: str


def expressions(query: str) -> tuple[dict[str, str], str]:
    """Return the named expressions of a query in their order, and what is selected from them; without comments."""
    text = _COMMENT.sub("", query)
    end = _END.search(text)
    begins = [*_BEGIN.finditer(text)]
    if end is None or not begins:
        raise ValueError("features.sql has another shape: no expression begins a line, or nothing is selected")
    ends = [*(begin.start() for begin in begins[1:]), end.start()]
    named = {begin[1]: text[begin.end() : end] for begin, end in zip(begins, ends, strict=True)}
    return named, text[end.end() :]


def cut(query: str) -> Cut:
    """Cut the query at OF_REPOSITORY. Raises ValueError where another expression needs a repository's whole rows."""
    named, selected = expressions(query)
    of_repository = _needed(named, named[OF_REPOSITORY])
    rest = {name: body for name, body in named.items() if name != OF_REPOSITORY}
    of_author = _needed(rest, selected)
    if unread := named.keys() - of_repository - of_author - {OF_REPOSITORY}:
        raise ValueError(f"no part of features.sql reads {', '.join(sorted(unread))}")
    first = _with({name: named[name] for name in named if name in of_repository or name == OF_REPOSITORY})
    return Cut(
        f"{first}\nselect d.key, p.* exclude (place) from {OF_REPOSITORY} p join dated d using (place)",
        f"{_with({name: named[name] for name in named if name in of_author})}\n{selected}",
    )


def _needed(named: dict[str, str], text: str) -> set[str]:
    """Return the expressions that this text names, and those that they name."""
    found: set[str] = set()
    waiting = [text]
    while waiting:
        words = {*re.findall(r"\w+", waiting.pop())}
        waiting += [named[name] for name in named if name in words - found]
        found |= words & named.keys()
    return found


def _with(named: dict[str, str]) -> str:
    return "with " + ", ".join(f"{name} as ({body})" for name, body in named.items())
