"""Orders the versions of each ecosystem, and decides whether an advisory affects one. Pure.

A text that is not a version of its ecosystem has no order. Advisories are evaluated by OSV's own rules. Algorithm: https://ossf.github.io/osv-schema/#evaluation.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

LONGEST = 200
_SEMANTIC = re.compile(r"v?\d{1,18}(?:\.\d{1,18}){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


class Version(Protocol):
    """Comparable with versions of the same ecosystem."""

    def __lt__(self, other: Any, /) -> bool:
        """Return whether it is lower."""

    def __le__(self, other: Any, /) -> bool:
        """Return whether it is lower or equal."""


@lru_cache(maxsize=20_000)
def parse_version(ecosystem: str, text: str) -> Version | None:
    """Parse a version; None if it is not one of the ecosystem.

    npm, crates.io and Go: semantic versions, ordered without the build part; a missing minor or patch number is 0.
    PyPI: PEP 440. RubyGems and Maven: their own order.
    """
    from univers import versions  # .2 s, only for comparing versions

    kinds: dict[str, Any] = {
        "PyPI": versions.PypiVersion,
        "npm": versions.SemverVersion,
        "crates.io": versions.SemverVersion,
        "Go": versions.SemverVersion,
        "RubyGems": versions.RubygemsVersion,
        "Maven": versions.MavenVersion,
    }
    kind, text = kinds.get(ecosystem), text.strip()
    if kind is None or not text or len(text) > LONGEST:
        return None
    if kind is versions.SemverVersion:
        if _SEMANTIC.fullmatch(text) is None:
            return None
        text = text.partition("+")[0].removeprefix("v")
    try:
        return kind(text)
    except (versions.InvalidVersion, ValueError, TypeError):
        return None


def is_lower(ecosystem: str, lower: str | None, higher: str | None) -> bool:
    """Return whether `lower` is certainly below `higher`."""
    if not lower or not higher:
        return False
    first, second = parse_version(ecosystem, lower), parse_version(ecosystem, higher)
    return first is not None and second is not None and first < second


Kind = Literal["introduced", "fixed", "last_affected", "limit"]
BEFORE_ALL = "0"  # as introduced: before every version, also those that the ecosystem orders below 0


@dataclass(frozen=True, slots=True)
class Event:
    """One bound of a range."""

    kind: Kind
    version: str


Range = Sequence[Event]


def is_affected(ecosystem: str, version: str | None, ranges: Iterable[Range], versions: Iterable[str]) -> bool:
    """Return whether a version is in the list or in one of the ranges.

    A text that is not a version of the ecosystem is in no range, and in the list only literally; a range with an
    invalid bound is ignored. Without a version: whether all past and future versions are affected.
    """
    if version is None:
        return any(_covers_all(bounds) for bounds in ranges)
    parsed = parse_version(ecosystem, version)
    if parsed is not None and any(_is_within(ecosystem, parsed, bounds) for bounds in ranges):
        return True
    listed = tuple(versions)
    return version in listed or (
        parsed is not None and any(parsed == parse_version(ecosystem, listed_version) for listed_version in listed)
    )


def _covers_all(bounds: Range) -> bool:
    begun = any(event.kind == "introduced" and event.version == BEFORE_ALL for event in bounds)
    return begun and all(event.kind == "introduced" for event in bounds)


def _is_within(ecosystem: str, version: Version, bounds: Range) -> bool:
    """Return whether a version is within a range: introduced at or below it, and not ended since."""
    dated: list[tuple[Event, Version | None]] = []
    for event in bounds:
        parsed = None if _is_open(event) else parse_version(ecosystem, event.version)
        if parsed is None and not _is_open(event):
            return False
        dated.append((event, parsed))
    limits = [parsed for event, parsed in dated if event.kind == "limit"]
    if limits and not any(limit is None or version < limit for limit in limits):
        return False
    introductions = [
        parsed for event, parsed in dated if event.kind == "introduced" and (parsed is None or parsed <= version)
    ]
    return any(not _is_ended(version, begin, dated) for begin in introductions)


def _is_open(event: Event) -> bool:
    """Return whether an event has no version: introduced before all, or without a limit."""
    return (event.kind == "introduced" and event.version == BEFORE_ALL) or (
        event.kind == "limit" and event.version == "*"
    )


def _is_ended(version: Version, begin: Version | None, dated: Sequence[tuple[Event, Version | None]]) -> bool:
    """Return whether the range that begins at `begin` ended at or before the version."""
    for event, end in dated:
        if end is None or (begin is not None and end < begin):
            continue
        if event.kind == "fixed" and end <= version and (begin is None or begin < end):
            return True
        if event.kind == "last_affected" and end < version:
            return True
    return False
