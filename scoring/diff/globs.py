"""Path patterns as .gitignore writes them, matched in time linear in the length of the path. Pure.

`*` and `?` stop at a slash, `**` crosses it, `[a-z]` and `[!a-z]` are sets, a backslash escapes the next character. A
pattern with a slash before its end begins at the top of the repository, one without matches at any depth; one that ends
in a slash matches files below such a folder. A pattern that matches a folder matches all its files. `!` in front takes
back, and the last matching pattern decides; unlike in git, a file can be taken back below a folder. Empty patterns and
those that begin with `#` are ignored.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import re2

PATTERN_LENGTH = 300  # characters of one pattern
PATTERNS = 500  # of one list


class PatternProblem(ValueError):
    """A list of patterns that cannot be used, in one sentence."""


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise PatternProblem for a list that `matching_pattern` cannot use."""
    if len(patterns) > PATTERNS:
        raise PatternProblem(f"a list holds at most {PATTERNS} path patterns, not {len(patterns)}")
    for pattern in patterns:
        if len(pattern) > PATTERN_LENGTH:
            raise PatternProblem(f"a path pattern has at most {PATTERN_LENGTH} characters, not {len(pattern)}")
        _compile_pattern(pattern)


def matching_pattern(patterns: Sequence[str], path: str) -> str | None:
    """Return the pattern that selects `path`, or None. Raises PatternProblem like `check_patterns`."""
    clean = clean_path(path)
    for pattern in reversed(patterns):
        compiled = _compile_pattern(pattern)
        if compiled is not None and compiled.search(clean):
            return None if pattern.startswith("!") else pattern
    return None


def first_match(patterns: Iterable[str], path: str) -> bool:
    """Return whether any pattern matches a clean path; the patterns must not begin with `!`."""
    return bool(_compile_together(tuple(patterns)).search(path))


def clean_path(path: str) -> str:
    """Return the path without empty, `.` and `..` parts, so that no spelling avoids a pattern."""
    parts: list[str] = []
    for part in path.encode("utf-8", "replace").decode().split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def expression(pattern: str) -> str:
    """Translate the pattern to a regular expression for a whole clean path."""
    is_folder = pattern.endswith("/") and not pattern.endswith("\\/")
    body = pattern[:-1] if is_folder else pattern
    is_anchored = "/" in body
    start = "^" if is_anchored else "^(?:.*/)?"
    return start + _translate(body.removeprefix("/")) + ("/" if is_folder else "(?:/|$)")


@lru_cache(maxsize=4096)
def _compile_pattern(pattern: str) -> "re2._Regexp | None":
    body = pattern.removeprefix("!")
    if not body.strip("/") or pattern.startswith("#"):
        return None
    return _compile(expression(body), pattern)


@lru_cache(maxsize=64)
def _compile_together(patterns: tuple[str, ...]) -> "re2._Regexp":
    return _compile("|".join(f"(?:{expression(pattern)})" for pattern in patterns), "of our own")


def _compile(text: str, pattern: str) -> "re2._Regexp":
    options = re2.Options()
    options.dot_nl = True  # a line break in a hostile name is a character like any other
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise PatternProblem(f"the path pattern {pattern!r} cannot be read") from error


_TOKENS = re.compile(r"\\.|\[[!^]?\]?[^]]*\]|/\*\*/|^\*\*/|/\*\*$|\*+|.", re.DOTALL)


def _translate(body: str) -> str:
    return "".join(_translate_token(token) for token in _TOKENS.findall(body))


def _translate_token(token: str) -> str:
    if token in _WILD:
        return _WILD[token]
    if token.startswith("*"):
        return "[^/]*"
    if token.startswith("[") and token.endswith("]") and len(token) > 2:
        return _character_set(token[1:-1])
    return re2.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token)


_WILD = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


def _character_set(inner: str) -> str:
    """Translate a set such as `!a-c`; a negated one excludes the slash, like every wildcard."""
    is_not = inner.startswith(("!", "^"))
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner[1:] if is_not else inner)
    return f"[^/{escaped}]" if is_not else f"[{escaped}]"
