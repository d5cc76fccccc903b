"""Reads manifests of Python: requirements files, pyproject.toml, setup.cfg, setup.py, Pipfile.

A requirement is a name with a version or a range of versions, and a source.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ingest.lookups.osv import normalised
from scoring.diff.change import Line
from scoring.packages.entry import Digest, Entry, Group, Index, Item, Source, View, any_touched
from scoring.packages.fragments import Keys, Leaf, toml_leaves

LONGEST = 2_000  # characters of a requirement that are read
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?)\s*(?:\[[^\]]{0,300}\])?\s*(.*)", re.DOTALL)
_CLAUSE = re.compile(r"\s*(===|==|~=|!=|>=|<=|>|<|\^|~>|~|=)?\s*v?([A-Za-z0-9*][A-Za-z0-9.*+!_-]*)\s*")
_LOWEST = ("", "^", "~", "~>", "~=", ">=", ">", "=", "==", "===")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Range:
    """The versions that a constraint allows: exactly one, or from `floor` on; both None if it names neither."""

    version: str | None = None
    floor: str | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A PEP 508 requirement, or a bare address (then `name` is "")."""

    name: str
    allowed: Range = Range()
    source: Source = "registry"
    url: str = ""
    constrained: bool = False  # it names a version or an address, so it is surely a requirement


def range_of(constraint: str, bare_is_exact: bool = False) -> Range:
    """Parse a constraint such as `^1.2`, `>=1,<2` or `==1.0`; `bare_is_exact`: a version alone is exact."""
    clauses = [match for part in re.split(r"[,|]| (?=[<>=~^!])", constraint[:LONGEST]) if (match := _clause(part))]
    for sign, version in clauses:
        exact = sign in ("==", "===", "=") or (sign == "" and bare_is_exact)
        if exact and "*" not in version:
            return Range(version, version)
    floors = [version for sign, version in clauses if sign in _LOWEST and _DIGIT.match(version)]
    return Range(None, floors[0].removesuffix(".*") if len(floors) == 1 else None)


def _clause(text: str) -> tuple[str, str] | None:
    match = _CLAUSE.fullmatch(text)
    return (match[1] or "", match[2]) if match else None


def parse_requirement(text: str) -> Requirement | None:
    """Parse a requirement of PEP 508 or pip; None if the text is not one."""
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
    """Return the kind of source that an address names; `registry` if it is not an address."""
    lowered = text[:200].lower()
    if lowered.startswith(("git+", "git://", "git@", "ssh://", "hg+", "svn+", "bzr+", "github:", "gitlab:", "gist:")):
        return "git"
    if lowered.startswith(("http://", "https://", "ftp://")):
        return "git" if lowered.split("#", 1)[0].rstrip("/").endswith(".git") else "url"
    if lowered.startswith(("file:", "./", "../", "/", "~/", "link:", "portal:", "workspace:", ".\\", "..\\")):
        return "path"
    return "registry"


_OPTION = re.compile(r"\s*(-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host)[\s=]+(\S+).*")
_EDITABLE = re.compile(r"\s*(?:-e|--editable)[\s=]+(\S+).*")
_HASH = re.compile(r"--hash[=\s]([a-z0-9]+):([A-Za-z0-9+/=]+)")
_SECTION = re.compile(r"\s*\[([^\]]{1,200})\]\s*")
_CFG_KEY = re.compile(r"([A-Za-z0-9_.-]+)\s*[=:]\s*(.*)")
_LITERAL = re.compile(r"""["']([^"']{0,300})["']\s*([:=]?)""")  # followed by a colon it is a key
_CFG_GROUPS: dict[str, Group] = {"install_requires": "runtime", "setup_requires": "build", "tests_require": "dev"}
_CALL_KEY = re.compile(r"\b(install_requires|setup_requires|tests_require|extras_require|requires)\b")
_UNSEEN: dict[Keys, Group] = {("dependencies",): "runtime", ("requires",): "build"}
# Keys that are not packages, for fragments that do not show their table.
_OTHER_KEYS = """python version requires-python target-version line-length minversion python-version name description
readme license edition build-backend backend-path timeout fail_under max-complexity"""
_NO_PACKAGE = frozenset(_OTHER_KEYS.split())


def requirements_file(view: View) -> Iterator[Item]:
    """Read requirements*.txt: one requirement a line, options, hashes on continued lines."""
    lines = iter(_joined(view.lines))
    for parts in lines:
        text = " ".join(line.text.rstrip().removesuffix("\\") for line in parts)
        first = parts[0]
        if option := _OPTION.fullmatch(text):
            yield Index(first, option[2], option[1])
            continue
        editable = _EDITABLE.fullmatch(text)
        requirement_text = editable[1] if editable else re.split(r"\s--|\s#|^\s*#|^\s*-", text, maxsplit=1)[0]
        requirement = parse_requirement(requirement_text) if requirement_text.strip() else None
        if requirement is None and editable:
            requirement = Requirement("", source="path", url=editable[1], constrained=True)
        if requirement is not None:
            yield from _entries(requirement, first, "runtime", parts)
            digest_owner = (
                f"{normalised('PyPI', requirement.name)}=={requirement.allowed.version}"
                if requirement.allowed.version
                else ""
            )
            for line in parts:
                yield from (Digest(line, digest_owner, *digest) for digest in _HASH.findall(line.text))


def _joined(lines: tuple[Line, ...]) -> Iterator[list[Line]]:
    """Yield groups of lines joined by backslashes."""
    parts: list[Line] = []
    for line in lines:
        parts.append(line)
        if not line.text.rstrip().endswith("\\"):
            yield parts
            parts = []
    if parts:
        yield parts


def _entries(requirement: Requirement, line: Line, group: Group, lines: list[Line]) -> Iterator[Entry]:
    if requirement.name or requirement.url:
        yield Entry(
            name=normalised("PyPI", requirement.name),
            line=line,
            version=requirement.allowed.version,
            floor=requirement.allowed.floor,
            group=group,
            source=requirement.source,
            url=requirement.url,
            touched=any_touched(lines),
        )


def pyproject(view: View) -> Iterator[Item]:
    """Read pyproject.toml: PEP 621, dependency groups, build-system, poetry, uv, pdm, hatch."""
    for leaf in toml_leaves(view.lines, view.at_top, view.hint):
        if _is_index(leaf):
            yield Index(leaf.line, leaf.value, leaf.path[-2])
            continue
        if leaf.path[:3] == ("tool", "uv", "sources"):
            yield from _table_entry(leaf, leaf.path[3:], "runtime")
            continue
        group, is_table, keys = _group_and_keys(leaf)
        if group is None:
            continue
        if is_table:
            yield from _table_entry(leaf, keys, group)
        elif (
            leaf.quoted
            and (requirement := parse_requirement(leaf.value))
            and (group != "unknown" or (requirement.constrained and requirement.source != "path"))
        ):
            yield from _entries(requirement, leaf.line, group, [leaf.line])


def _is_index(leaf: Leaf) -> bool:
    """Return whether a value is the address of an index: [[tool.uv.index]], [[tool.poetry.source]]."""
    tools = ("poetry", "uv", "pdm")
    return (
        leaf.path[:1] == ("tool",)
        and leaf.path[1:2] in {(tool,) for tool in tools}
        and leaf.path[-2:] in (("index", "url"), ("source", "url"))
        and source_of(leaf.value) != "registry"
    )


def _group_and_keys(leaf: Leaf) -> tuple[Group | None, bool, Keys]:
    """Return a value's group (None: not a dependency), whether keys are names in its table, and these keys."""
    path = leaf.path
    if not leaf.rooted:
        return _guess_group_and_keys(leaf)
    match path:
        case ("build-system", "requires"):
            return "build", False, ()
        case ("project", "dependencies"):
            return "runtime", False, ()
        case ("project", "optional-dependencies", _):
            return "runtime", False, ()
        case ("dependency-groups", _) | ("tool", "pdm" | "uv", "dev-dependencies", *_):
            return "dev", False, ()
        case ("tool", "hatch", "envs", _, "dependencies" | "extra-dependencies"):
            return "dev", False, ()
        case ("tool", "poetry", "dependencies", *keys):
            return "runtime", True, tuple(keys)
        case ("tool", "poetry", "dev-dependencies", *keys) | ("tool", "poetry", "group", _, "dependencies", *keys):
            return "dev", True, tuple(keys)
    return None, False, ()


def _guess_group_and_keys(leaf: Leaf) -> tuple[Group | None, bool, Keys]:
    """Guess group and keys if the part does not show the table; what looks like a dependency counts as one."""
    if not leaf.path or leaf.path in (("dependencies",), ("requires",)):
        return _UNSEEN.get(leaf.path, "unknown"), False, ()
    if leaf.path[0] in _NO_PACKAGE:
        return None, False, ()
    if len(leaf.path) == 1 and leaf.quoted and re.match(r"[\^~<>=*]", leaf.value) and leaf.path[0] != "exclude":
        return "unknown", True, leaf.path
    if len(leaf.path) == 2 and leaf.path[1] in ("version", "git", "url", "path"):
        return "unknown", True, leaf.path
    return "unknown", False, ()


def _table_entry(leaf: Leaf, keys: Keys, group: Group) -> Iterator[Item]:
    """Read `name = "^1.0"`, `name = {version = …, git = …}`, and the same as separate tables."""
    if not keys or keys[0].lower() in ("python", ""):
        return
    name, field = normalised("PyPI", keys[0]), keys[1] if len(keys) > 1 else "version"
    touched = leaf.line.mark != " "
    if field == "version":
        allowed = range_of(leaf.value, bare_is_exact=True)
        yield Entry(name, leaf.line, allowed.version, allowed.floor, group, touched=touched)
    elif field in ("git", "url", "path"):
        source = {"git": "git", "url": "url", "path": "path"}[field]
        yield Entry(name, leaf.line, group=group, source=source, url=leaf.value, touched=touched)


def setup_cfg(view: View) -> Iterator[Item]:
    """Read setup.cfg: install_requires and similar keys, one requirement a line."""
    section, key = None, ""
    for line in view.lines:
        if header := _SECTION.fullmatch(line.text):
            section, key = header[1].strip(), ""
            continue
        value = line.text
        if assigned := _CFG_KEY.fullmatch(line.text):
            key, value = assigned[1], assigned[2]
        elif not line.text[:1].isspace():
            key = ""
        if (group := _cfg_group(section, key)) is None:
            continue
        requirement = parse_requirement(value) if value.strip() and not value.lstrip().startswith("#") else None
        if requirement and (group != "unknown" or requirement.constrained):
            yield from _entries(requirement, line, group, [line])


def _cfg_group(section: str | None, key: str) -> Group | None:
    if section == "options.extras_require":
        return "runtime"
    if section in (None, "options") and key in _CFG_GROUPS:
        return _CFG_GROUPS[key]
    return "unknown" if section is None and not key else None


def setup_py(view: View) -> Iterator[Item]:
    """Read setup.py: strings in the lists of setup(); elsewhere only those with a name and a version or an address."""
    key = hinted[1] if (hinted := _CALL_KEY.search(view.hint)) and "[" in view.hint else ""
    for line in view.lines:
        text, start = line.text.split(" #", 1)[0], 0
        if named := _CALL_KEY.search(text):
            start = named.end()
            key = named[1] if re.search(r"[\[{(]", text[start:]) else ""
        group = _CFG_GROUPS.get(key, "unknown")
        for literal, is_key in _LITERAL.findall(text, start):
            requirement = None if is_key else parse_requirement(literal)
            if requirement and requirement.name and (requirement.constrained or key):
                yield from _entries(requirement, line, group, [line])
        if "]" in text[start:]:
            key = ""


def pipfile(view: View) -> Iterator[Item]:
    """Read Pipfile: tables of packages, and sources."""
    for leaf in toml_leaves(view.lines, view.at_top, view.hint):
        match leaf.path:
            case ("source", "url"):
                yield Index(leaf.line, leaf.value, "source")
            case ("packages", *keys):
                yield from _table_entry(leaf, tuple(keys), "runtime")
            case ("dev-packages", *keys):
                yield from _table_entry(leaf, tuple(keys), "dev")
            case (_, *_) if not leaf.rooted:
                group, is_table, keys = _guess_group_and_keys(leaf)
                if group and is_table:
                    yield from _table_entry(leaf, keys, group)
