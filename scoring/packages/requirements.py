"""One requirement as it is written: a name with a version or a range of versions, and where it comes from."""

import re
from dataclasses import dataclass

from scoring.packages.entry import Source

LONGEST = 2_000  # characters of a requirement that are read
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?)\s*(?:\[[^\]]{0,300}\])?\s*(.*)", re.DOTALL)
_CLAUSE = re.compile(r"\s*(===|==|~=|!=|>=|<=|>|<|\^|~>|~|=)?\s*v?([A-Za-z0-9*][A-Za-z0-9.*+!_-]*)\s*")
_LOWEST = ("", "^", "~", "~>", "~=", ">=", ">", "=", "==", "===")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Range:
    """Which versions a constraint allows: exactly one, or from `floor` on; neither where it says nothing of these."""

    version: str | None = None
    floor: str | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of Python's PEP 508, or a bare address (`name` is empty then)."""

    name: str
    allowed: Range = Range()
    source: Source = "registry"
    url: str = ""
    constrained: bool = False  # it names a version or an address, so it cannot be some other text


def range_of(constraint: str, bare_is_exact: bool = False) -> Range:
    """What a constraint such as `^1.2`, `>=1,<2` or `==1.0` allows; `bare_is_exact`: so does a version alone."""
    found = [match for part in re.split(r"[,|]| (?=[<>=~^!])", constraint[:LONGEST]) if (match := _clause(part))]
    for sign, version in found:
        exact = sign in ("==", "===", "=") or (sign == "" and bare_is_exact)
        if exact and "*" not in version:
            return Range(version, version)
    floors = [version for sign, version in found if sign in _LOWEST and _DIGIT.match(version)]
    return Range(None, floors[0].removesuffix(".*") if len(floors) == 1 else None)


def _clause(text: str) -> tuple[str, str] | None:
    match = _CLAUSE.fullmatch(text)
    return (match[1] or "", match[2]) if match else None


def parse_requirement(text: str) -> Requirement | None:
    """A requirement as PEP 508 and pip write it; None where the text is none."""
    text = text[:LONGEST].strip()
    if (bare := source_of(text)) != "registry":
        named = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", text)
        return Requirement(named[1] if named else "", source=bare, url=text, constrained=True)
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    name, rest = match[1], match[2].split(";", 1)[0].split(" #", 1)[0].strip()
    if rest.startswith("@"):
        url = rest[1:].strip()
        source = source_of(url)
        return Requirement(name, source="url" if source == "registry" else source, url=url, constrained=True)
    rest = rest.strip("()").strip()
    if rest and not rest.startswith(("==", "<", ">", "!=", "~=")):
        return None
    return Requirement(name, range_of(rest), constrained=bool(rest))


def source_of(text: str) -> Source:
    """Where an address says that it leads; `registry` for what is none."""
    lowered = text[:200].lower()
    if lowered.startswith(("git+", "git://", "git@", "ssh://", "hg+", "svn+", "bzr+", "github:", "gitlab:", "gist:")):
        return "git"
    if lowered.startswith(("http://", "https://", "ftp://")):
        return "git" if lowered.split("#", 1)[0].rstrip("/").endswith(".git") else "url"
    if lowered.startswith(("file:", "./", "../", "/", "~/", "link:", "portal:", "workspace:", ".\\", "..\\")):
        return "path"
    return "registry"
