"""What one manifest or lock file says of one dependency, and the part of a file that it is read from. Pure data."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from scoring.content.change import Line


@dataclass(frozen=True, slots=True)
class Package:
    """A dependency in one version. `ecosystem` as OSV spells it: PyPI, npm, crates.io, Go, RubyGems, Maven."""

    ecosystem: str
    name: str
    version: str | None


# `build` is run while something is installed or built; `unknown` where the fragment does not show its section.
Group = Literal["runtime", "build", "dev", "unknown"]
Source = Literal["registry", "git", "url", "path"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A dependency. `name` is normalised as its registry does; `line` is where it, or best its version, is written.

    `version` is exact; `floor` is the lowest version that a range allows, the same where it allows one only. `url` is
    where it comes from, as written; empty where the file does not say.
    """

    name: str
    line: Line
    version: str | None = None
    floor: str | None = None
    group: Group = "runtime"
    source: Source = "registry"
    url: str = ""
    runs_on_install: bool = False  # the lock file says that it brings a script of its own
    touched: bool = False  # a line of it is added or removed


@dataclass(frozen=True, slots=True)
class Index:
    """A place that packages are taken from, other than the ecosystem's usual one. `url` as written."""

    line: Line
    url: str
    option: str  # what names it, one of our own words


@dataclass(frozen=True, slots=True)
class Digest:
    """A hash that a lock file promises. `of` names what it is of, version included; empty where the part shows none.

    `algorithm` as written: a hash of another kind is no other hash of the same thing.
    """

    line: Line
    of: str
    algorithm: str
    value: str


Item = Entry | Index | Digest


@dataclass(frozen=True, slots=True)
class View:
    """One side of a hunk: its context with the added lines, or with the removed ones.

    `at_top`: the file begins here. `hint` is the section that git wrote behind the second @@.
    """

    lines: tuple[Line, ...]
    at_top: bool = False
    hint: str = ""


Reader = Callable[[View], Iterator[Item]]


def any_touched(lines: Iterable[Line]) -> bool:
    """Whether one of the lines is added or removed."""
    return any(line.mark != " " for line in lines)
