"""Which files a change touches, for what no lane may wave through. Pure."""

from dataclasses import dataclass

from ingest.long_texts import fitting
from scoring.content.change import Change
from scoring.content.globs import matching_pattern
from scoring.content.paths import touched_kinds

PATTERNS_TOLD = 10  # of one repository; one of them is enough to hold a change
PATTERN = "path:"  # in front of a repository's own pattern among the kinds that were touched


@dataclass(frozen=True, slots=True)
class Touched:
    """The files of one change: kinds of `paths.NEVER_FAST` and `paths` in order, new and old names.

    `whole` is false where they are more than a column takes, or where not all of the change could be read.
    """

    kinds: tuple[str, ...]
    paths: tuple[str, ...]
    whole: bool


def touched_files(change: Change) -> Touched:
    """What a change touches; a path is left out whole, never cut, since a cut one could slip by a pattern."""
    named = sorted({_stored(path) for file in change.files for path in (file.path, file.old_path)})
    kept = fitting(named)
    is_whole = len(kept) == len(named) and change.coverage >= 1
    return Touched(tuple(sorted(touched_kinds(change))), tuple(kept), is_whole)


def never_fast_kinds(touched: Touched, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    """The kinds and patterns that keep a change out of the fast lane; None where that cannot be said of all its files.

    Raises PatternProblem as `globs.matching_pattern` does.
    """
    matched = {f"{PATTERN}{found}" for path in touched.paths if (found := matching_pattern(patterns, path))}
    held = (*touched.kinds, *sorted(matched)[:PATTERNS_TOLD])
    return held if held or touched.whole else None


def _stored(path: str) -> str:
    """The path as UTF-8 can hold it; what cannot be written stays visible as a question mark."""
    return path.encode("utf-8", "replace").decode()
