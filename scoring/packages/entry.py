"""Dependencies as manifests and lock files name them, and the usual sources of each ecosystem. Pure.

Any address that is not a usual source of the ecosystem counts as another source.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
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
    """Return whether one of the lines is added or removed."""
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
