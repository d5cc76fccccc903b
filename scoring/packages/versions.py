"""Orders the versions of each ecosystem, and decides whether one falls under an advisory. Pure.

Where a text is no version of its ecosystem, nothing is said of its order. An advisory is evaluated over that order by
OSV's own rules. Algorithm: https://ossf.github.io/osv-schema/#evaluation.
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
        """Return whether it comes before."""

    def __le__(self, other: Any, /) -> bool:
        """Return whether it does not come after."""


@lru_cache(maxsize=20_000)
def parse_version(ecosystem: str, text: str) -> Version | None:
    """The version that a text stands for, None where the ecosystem knows no such version.

    npm, crates.io and Go: semantic versions, of which the build part has no place in the order; a missing minor or
    patch number is 0. PyPI: PEP 440. RubyGems and Maven: their own order.
    """
    from univers import versions  # .2 s, and needed only where versions are compared

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
    """Return whether `one` certainly comes before `other`."""
    if not lower or not higher:
        return False
    first, second = parse_version(ecosystem, lower), parse_version(ecosystem, higher)
    return first is not None and second is not None and first < second


Kind = Literal["introduced", "fixed", "last_affected", "limit"]
BEFORE_ALL = "0"  # as introduced: before every version, also those that the ecosystem would put before 0


@dataclass(frozen=True, slots=True)
class Event:
    """One bound of a range."""

    kind: Kind
    version: str


Range = Sequence[Event]


def is_affected(ecosystem: str, version: str | None, ranges: Iterable[Range], versions: Iterable[str]) -> bool:
    """Return whether a version stands in the list or in one of the ranges.

    A text that is no version of the ecosystem is in no range, and in the list where it stands there literally; a range
    with a bound that is none says nothing. Without a version: whether every version there is and will be is affected.
    """
    if version is None:
        return any(_covers_all(bounds) for bounds in ranges)
    parsed = parse_version(ecosystem, version)
    if parsed is not None and any(_is_within(ecosystem, parsed, bounds) for bounds in ranges):
        return True
    listed = tuple(versions)
    return version in listed or (parsed is not None and any(parsed == parse_version(ecosystem, listed_version) for listed_version in listed))


def _covers_all(bounds: Range) -> bool:
    begun = any(event.kind == "introduced" and event.version == BEFORE_ALL for event in bounds)
    return begun and all(event.kind == "introduced" for event in bounds)


def _is_within(ecosystem: str, version: Version, bounds: Range) -> bool:
    """Walk the events in their order; the state after the last one that is not beyond the version counts."""
    dated: list[tuple[Event, Version | None]] = []
    for event in bounds:
        parsed = None if _is_open(event) else parse_version(ecosystem, event.version)
        if parsed is None and not _is_open(event):
            return False
        dated.append((event, parsed))
    limits = [parsed for event, parsed in dated if event.kind == "limit"]
    if limits and not any(limit is None or version < limit for limit in limits):
        return False
    introductions = [parsed for event, parsed in dated if event.kind == "introduced" and (parsed is None or parsed <= version)]
    return any(not _is_ended(version, begin, dated) for begin in introductions)


def _is_open(event: Event) -> bool:
    """Return whether an event has no version of its own: from the beginning, or without a limit."""
    return (event.kind == "introduced" and event.version == BEFORE_ALL) or (
        event.kind == "limit" and event.version == "*"
    )


def _is_ended(version: Version, begin: Version | None, dated: Sequence[tuple[Event, Version | None]]) -> bool:
    """Return whether what began there ended at or before the version."""
    for event, end in dated:
        if end is None or (begin is not None and end < begin):
            continue
        if event.kind == "fixed" and end <= version and (begin is None or begin < end):
            return True
        if event.kind == "last_affected" and end < version:
            return True
    return False
