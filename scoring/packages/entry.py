"""A dependency as a manifest or lock file names it, its place in the file, and its usual sources. Pure data.

The usual sources are kept by ecosystem; any other address is recognised as another place.
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
    """Return whether one of the lines is added or removed."""
    return any(line.mark != " " for line in lines)


_USUAL = {
    "PyPI": {"pypi.org", "files.pythonhosted.org", "pypi.python.org", "download.pytorch.org"},
    "npm": {"registry.npmjs.org", "registry.yarnpkg.com"},
    "crates.io": {"crates.io", "index.crates.io", "static.crates.io"},
    "Go": {"proxy.golang.org"},
    "RubyGems": {"rubygems.org", "index.rubygems.org"},
}
_CRATES_ON_GITHUB = ("github.com", "/rust-lang/crates.io-index")
_PLAIN = re.compile(r"[a-z+]{1,20}://")


def host_of(url: str) -> str:
    """The host of an address in lower case, without port and user; empty where it names none."""
    scheme = _PLAIN.search(url.lower())
    try:
        parts = urlsplit(url[scheme.start() :] if scheme else f"//{url}")
        return (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def is_usual(ecosystem: str, url: str) -> bool:
    """Return whether an address is one that the ecosystem's own tools would use by themselves, over https."""
    if url.lower().startswith("http://"):
        return False
    host = host_of(url)
    if ecosystem == "crates.io" and host == _CRATES_ON_GITHUB[0]:
        return urlsplit(url.removeprefix("registry+")).path == _CRATES_ON_GITHUB[1]
    return host in _USUAL.get(ecosystem, set())


def place_of(ecosystem: str, url: str) -> str:
    """Return what two addresses of one registry have in common: the host; a whole index of crates, which lie on one
    host.
    """
    return url.partition("#")[0] if ecosystem == "crates.io" else host_of(url)


def is_unencrypted(url: str) -> bool:
    """Return whether what comes from there can be changed on the way."""
    return url.lower().startswith(("http://", "git://", "git+http://", "ftp://"))


def names_other_package(ecosystem: str, url: str, name: str) -> bool:
    """Return whether the address of a package on its usual registry is that of another package."""
    if ecosystem != "npm" or not is_usual(ecosystem, url):
        return False
    path = unquote(urlsplit(url).path).lstrip("/")
    return "/-/" in path and path.partition("/-/")[0] != name
