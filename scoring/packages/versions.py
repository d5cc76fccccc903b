"""Versions in the order of their ecosystem. Where a text is no version there, nothing is said of its order."""

import re
from functools import lru_cache
from typing import Any, Protocol

LONGEST = 200
_SEMANTIC = re.compile(r"v?\d{1,18}(?:\.\d{1,18}){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


class Version(Protocol):
    """Comparable with versions of the same ecosystem."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether it comes before."""

    def __le__(self, other: Any, /) -> bool:
        """Whether it does not come after."""


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


def is_lower(ecosystem: str, one: str | None, other: str | None) -> bool:
    """Whether `one` certainly comes before `other`."""
    if not one or not other:
        return False
    first, second = parse_version(ecosystem, one), parse_version(ecosystem, other)
    return first is not None and second is not None and first < second
