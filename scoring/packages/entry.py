"""Dependencies as manifests and lock files name them, the usual sources of each ecosystem, and versions. Pure.

Any address that is not a usual source of the ecosystem counts as another source. A text that is not a version of its
ecosystem has no order. Advisories are evaluated by OSV's own rules: https://ossf.github.io/osv-schema/#evaluation.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol
from urllib.parse import unquote, urlsplit

from scoring.diff.change import Line


@dataclass(frozen=True, slots=True)
class Package:
    """A dependency in one version. `ecosystem` as OSV spells it: PyPI, npm, crates.io, Go, RubyGems, Maven."""

    ecosystem: str
    name: str
    version: str | None


# `build` runs while something is installed or built; `unknown`: the fragment does not show the section.
Group = Literal["runtime", "build", "dev", "unknown"]
Source = Literal["registry", "git", "url", "path"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A dependency. `name` is normalised by its registry's rules; `line` holds its version, else its name.

    `version` is exact; `floor` is the lowest version that a range allows, equal to an exact one. `url` is its source as
    written, "" if the file does not name one.
    """

    name: str
    line: Line
    version: str | None = None
    floor: str | None = None
    group: Group = "runtime"
    source: Source = "registry"
    url: str = ""
    runs_on_install: bool = False  # by the lock file it has an install script
    touched: bool = False  # a line of it is added or removed


@dataclass(frozen=True, slots=True)
class Index:
    """A package index other than the ecosystem's usual one. `url` is as written."""

    line: Line
    url: str
    option: str  # the option that names it, one of our own words


@dataclass(frozen=True, slots=True)
class Digest:
    """A hash in a lock file. `of` names the hashed package with its version, "" if the part does not show it.

    `algorithm` is as written: hashes of two algorithms do not replace each other.
    """

    line: Line
    of: str
    algorithm: str
    value: str


Item = Entry | Index | Digest


@dataclass(frozen=True, slots=True)
class View:
    """One side of a hunk: its context with the added lines, or with the removed ones.

    `at_top`: the file begins here. `hint` is the section that git wrote after the second @@.
    """

    lines: tuple[Line, ...]
    at_top: bool = False
    hint: str = ""


Reader = Callable[[View], Iterator[Item]]


def any_touched(lines: Iterable[Line]) -> bool:
    return any(line.mark != " " for line in lines)


_USUAL = {
    "PyPI": {"pypi.org", "files.pythonhosted.org", "pypi.python.org", "download.pytorch.org"},
    "npm": {"registry.npmjs.org", "registry.yarnpkg.com"},
    "crates.io": {"crates.io", "index.crates.io", "static.crates.io"},
    "Go": {"proxy.golang.org"},
    "RubyGems": {"rubygems.org", "index.rubygems.org"},
}
# Repositories of the organisation that publishes the index of crates.io: nobody else can put one there.
_CRATES_ON_GITHUB = re.compile(r"https://github\.com/rust-lang/(?!\.+$)[A-Za-z0-9._-]{1,100}", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z+]{1,20}://")


def host_of(url: str) -> str:
    """Return the host of an address in lower case, without port and user; "" without one."""
    scheme = _PLAIN.search(url.lower())
    try:
        parts = urlsplit(url[scheme.start() :] if scheme else f"//{url}")
        return (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def is_usual(ecosystem: str, url: str) -> bool:
    """Return whether an address is a default source of the ecosystem's own tools, over https."""
    if url.lower().startswith("http://"):
        return False
    if ecosystem == "crates.io" and _CRATES_ON_GITHUB.fullmatch(url.removeprefix("registry+").partition("#")[0]):
        return True
    return host_of(url) in _USUAL.get(ecosystem, set())


def place_of(ecosystem: str, url: str) -> str:
    """Return the common part of addresses of one registry: the host, or the index of crates."""
    return url.partition("#")[0] if ecosystem == "crates.io" else host_of(url)


def is_unencrypted(url: str) -> bool:
    """Return whether a download from this address can be changed in transit."""
    return url.lower().startswith(("http://", "git://", "git+http://", "ftp://"))


def names_other_package(ecosystem: str, url: str, name: str) -> bool:
    """Return whether the address of a package on its usual registry is that of another package."""
    if ecosystem != "npm" or not is_usual(ecosystem, url):
        return False
    path = unquote(urlsplit(url).path).lstrip("/")
    return "/-/" in path and path.partition("/-/")[0] != name


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
