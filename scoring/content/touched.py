"""Which files a change touches, for what no lane may wave through. Pure."""

from dataclasses import dataclass

from scoring.content.change import Change
from scoring.content.globs import matching_pattern
from scoring.content.paths import touched_kinds

PATHS = 5_000  # of one change; each is at most as long as the patch reader takes
CHARACTERS = 500_000
PATTERN = "path:"  # in front of a repository's own pattern among the kinds that were touched


@dataclass(frozen=True, slots=True)
class Touched:
    """The files of one change: kinds of `paths.NEVER_FAST` and `paths` in order, new and old names.

    `whole` is false where they are more than PATHS or CHARACTERS, or where not all of the change could be read.
    """

    kinds: tuple[str, ...]
    paths: tuple[str, ...]
    whole: bool


def touched_files(change: Change) -> Touched:
    """What a change touches; a path is left out whole, never cut, since a cut one could slip by a pattern."""
    named = sorted({_stored(path) for file in change.files for path in (file.path, file.old_path)})
    kept: list[str] = []
    size = 0
    for path in named[:PATHS]:
        size += len(path)
        if size > CHARACTERS:
            break
        kept.append(path)
    is_whole = len(kept) == len(named) and change.coverage >= 1
    return Touched(tuple(sorted(touched_kinds(change))), tuple(kept), is_whole)


def never_fast_kinds(touched: Touched, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    """The kinds and patterns that keep a change out of the fast lane; None where that cannot be said of all its files.

    Raises PatternProblem as `globs.matching_pattern` does.
    """
    matched = {f"{PATTERN}{found}" for path in touched.paths if (found := matching_pattern(patterns, path))}
    held = (*touched.kinds, *sorted(matched))
    return held if held or touched.whole else None


def _stored(path: str) -> str:
    """The path as UTF-8 can hold it; what cannot be written stays visible as a question mark."""
    return path.encode("utf-8", "replace").decode()
