"""Where a finding or a flag stands in a diff: names of places that the expanded row and the diff agree on. Pure."""

import re
from hashlib import blake2s

from scoring.deterministic import WHOLE, place
from scoring.placing import NOT_FOUND, WORDS

_COMMIT = re.compile(r"commit [0-9]{1,4}")
_PLACE = re.compile(r"(.{1,500}?)(?::([0-9]{1,9}))?( \(removed\))?", re.DOTALL)
Place = tuple[str, int | None, bool]  # path, line, whether it was removed


def place_anchor(path: str, line: int | None = None, removed: bool = False) -> str:
    """The id in a diff of what is said of this file, or of this line of it; short and free of the path's characters."""
    name = "at-" + blake2s(path.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return name if line is None else f"{name}-{'old' if removed else ''}{line}"


def read_place(text: str) -> Place:
    """The place that a flag names, as `scoring.placing` writes it: "a/b.py:12 (removed)"; path "" for no file."""
    found = _PLACE.fullmatch(text)
    if found is None or text in {WHOLE, *WORDS} or text.startswith(NOT_FOUND) or _COMMIT.fullmatch(text):
        return "", None, False
    return found[1], int(found[2]) if found[2] else None, bool(found[3])


def named_path(path: str) -> str:
    """A path as reviewers name it: their answers hold no invisible characters."""
    return place(path, None)
