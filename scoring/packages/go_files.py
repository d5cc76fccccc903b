"""Files of Go modules: go.mod and go.sum."""

import re
from collections.abc import Iterator

from scoring.content.change import Line
from scoring.packages.entry import Digest, Entry, Item, View

_VERSION = r"v\d+\.\d+\.\d+[^\s]*"
_PATH = r'"?([^\s"()]++)"?'  # never taken apart again: a line of nothing but dots took a second
_REQUIRE = re.compile(rf"\s*(?:require\s+)?{_PATH}\s+({_VERSION})(?:\s*//\s*(indirect).*|\s*(?://.*)?)")
_REPLACE = re.compile(
    rf'\s*(?:replace\s+)?"?([^\s"()]+)"?(?:\s+{_VERSION})?\s+=>\s+"?([^\s"]+)"?(?:\s+({_VERSION}))?.*'
)
_EXCLUDED = re.compile(r"\s*(exclude|retract)\b")
_OPENED = re.compile(r"(require|exclude|replace|retract|tool|godebug)\s*\(\s*")
_SUM = re.compile(rf"(\S+)\s+({_VERSION})\s+(h\d):(\S+)")


def go_mod(view: View) -> Iterator[Item]:
    """go.mod: required modules in their versions, and what replaces them."""
    opened = _OPENED.fullmatch(view.hint.strip())
    block = opened[1] if opened else ""
    for line in view.lines:
        if begun := _OPENED.fullmatch(line.text.strip()):
            block = begun[1]
        elif line.text.strip() == ")":
            block = ""
        elif found := _REPLACE.fullmatch(line.text):
            yield _replaced(line, found)
        elif block in ("exclude", "retract") or _EXCLUDED.match(line.text):
            continue
        elif (found := _REQUIRE.fullmatch(line.text)) and "." in found[1][1:-1]:
            yield Entry(found[1], line, _bare(found[2]), _bare(found[2]), touched=line.mark != " ")


def _replaced(line: Line, found: re.Match[str]) -> Entry:
    target, version = found[2], found[3]
    if version is None:  # a folder
        return Entry(found[1], line, source="path", url=target, touched=line.mark != " ")
    source, url = ("registry", "") if target == found[1] else ("url", target)
    return Entry(target, line, _bare(version), _bare(version), source=source, url=url, touched=line.mark != " ")


def _bare(version: str) -> str:
    """Without the v that OSV does not write."""
    return version.removeprefix("v")


def go_sum(view: View) -> Iterator[Item]:
    """go.sum: hashes of modules and of their go.mod; a version is in use only where its whole module is hashed."""
    for line in view.lines:
        if found := _SUM.fullmatch(line.text.strip()):
            name, version = found[1], found[2]
            if not version.endswith("/go.mod"):
                yield Entry(name, line, _bare(version), _bare(version), touched=line.mark != " ")
            yield Digest(line, f"{name}@{version}", found[3], found[4])
