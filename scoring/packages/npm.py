"""Reads files of npm, Yarn, pnpm, Bun and Deno: package.json, yarn.lock, pnpm-lock.yaml, bun.lock, deno.json."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from scoring.diff.change import Line
from scoring.packages.entry import Digest, Entry, Group, Item, View, any_touched
from scoring.packages.fragments import Leaf, json_leaves
from scoring.packages.python import range_of, source_of

_GROUPS: dict[str, Group] = {
    "dependencies": "runtime",
    "devDependencies": "dev",
    "peerDependencies": "runtime",
    "optionalDependencies": "runtime",
    "overrides": "runtime",
    "resolutions": "runtime",
    "catalog": "runtime",
}
_NO_PACKAGE = frozenset({"node", "npm", "yarn", "pnpm", "vscode", "version", "name", "start", "build", "test", "lint"})
_NAME = re.compile(r"(?:@[a-zA-Z0-9~._-]+/)?[a-zA-Z0-9~._-]+")
_VERSION = re.compile(r"[\^~]?v?\d+\.(?:\d+|x|\*)(?:\.[\w.*+-]+)?|[<>]=?\s?\d.*|\*|latest|next")
_YARN_FIELD = re.compile(r'  (version|resolved|integrity|resolution|checksum):? "?([^"\s]+)"?')
_BUN_ENTRY = re.compile(
    r'\s*"[^"]{1,300}": \["((?:@[^/"@]{1,100}/)?[^/"@]{1,200})@([^"]{1,300})"(?:, "([^"]{0,500})")?'
)
_BUN_HASH = re.compile(r'"(sha[0-9]{1,3})-([A-Za-z0-9+/=]{20,200})"')
_DENO = re.compile(r'"npm:/?((?:@[\w.-]{1,100}/)?[\w.-]{1,200})(?:@([^"/]{1,100}))?(?:/[^"]{0,200})?"')
_PNPM_HEAD = re.compile(r"  ['\"]?/?((?:@[^@/\s'\"]+/)?[^@/\s'\"()]+)[@/](\d[^\s'\"():]*)(?:\([^'\"\s]*)?['\"]?:")
_PNPM_HASH = re.compile(r"integrity: ([a-z0-9]+)-([A-Za-z0-9+/=]+)")
_PNPM_TARBALL = re.compile(r"tarball: ['\"]?([^\s'\",}]+)")


def package_json(view: View) -> Iterator[Item]:
    """Read package.json: tables of dependencies; in a part that hides the table, values that look like dependencies."""
    for leaf in json_leaves(view.lines, view.at_top):
        group = _group(leaf)
        if group is not None and leaf.quoted and _NAME.fullmatch(leaf.path[-1]):
            yield _entry(leaf, group)


def bun_lock(view: View) -> Iterator[Item]:
    """Read bun.lock: an entry a line, `"name": ["name@version", "address", {…}, "sha512-…"]`."""
    for line in view.lines:
        match = _BUN_ENTRY.match(line.text)
        if match is None:
            continue
        name, version = match[1], match[2]
        source = source_of(version)
        exact = version if source == "registry" else None
        url = match[3] if source == "registry" else version
        yield Entry(name, line, exact, exact, source=source, url=url, touched=line.mark != " ")
        for algorithm, value in _BUN_HASH.findall(line.text):
            yield Digest(line, f"{name}@{version}", algorithm, value)


def deno_json(view: View) -> Iterator[Item]:
    """Read deno.json and import maps: the packages of npm among the imports."""
    for line in view.lines:
        for name, constraint in _DENO.findall(line.text):
            allowed = range_of(constraint, bare_is_exact=True)
            yield Entry(name, line, allowed.version, allowed.floor, touched=line.mark != " ")


def _group(leaf: Leaf) -> Group | None:
    """Return the group of a value of package.json; None if it is not a dependency."""
    tables = [key for key in leaf.path[:-1] if key in _GROUPS]
    if tables and (leaf.rooted or leaf.path[0] in _GROUPS):
        return _GROUPS[tables[0]]
    looks_like_dependency = _VERSION.fullmatch(leaf.value) is not None or source_of(leaf.value) in ("git", "url")
    if leaf.rooted or len(leaf.path) != 1 or leaf.path[0] in _NO_PACKAGE or not looks_like_dependency:
        return None
    return "unknown" if _is_nested(leaf.line) else None


def _is_nested(line: Line) -> bool:
    """Return whether a line is indented as in a table: at the top of the file one level, in its tables two."""
    indent = len(line.text) - len(line.text.lstrip())
    return indent >= 4 or line.text.startswith("\t\t")


def _entry(leaf: Leaf, group: Group) -> Entry:
    name, constraint = leaf.path[-1], leaf.value
    if constraint.startswith("npm:"):  # another package under this name
        name, _, constraint = constraint[4:].rpartition("@") if "@" in constraint[5:] else (constraint[4:], "", "")
    source = source_of(constraint)
    if source == "registry" and re.fullmatch(r"[\w.-]+/[\w.-]+(?:#.*)?", constraint):  # npm's short form of GitHub
        source = "git"
    allowed = range_of(constraint, bare_is_exact=True) if source == "registry" else range_of("")
    touched = leaf.line.mark != " "
    url = "" if source == "registry" else constraint
    return Entry(name, leaf.line, allowed.version, allowed.floor, group, source, url, touched=touched)


@dataclass(slots=True)
class _LockEntry:
    """An entry of a lock file while it is read."""

    name: str = ""
    version: str | None = None
    url: str = ""
    lines: list[Line] = field(default_factory=list)
    version_line: Line | None = None
    digests: list[tuple[Line, str, str]] = field(default_factory=list)
    runs_on_install: bool = False

    def items(self) -> Iterator[Item]:
        """Yield the entry and its hashes."""
        if self.name and self.version:
            exact, line = self.version, self.version_line or self.lines[0]
            source = source_of(self.url)
            yield Entry(
                name=self.name,
                line=line,
                version=exact,
                floor=exact,
                source="registry" if source == "url" else source,
                url=self.url,
                runs_on_install=self.runs_on_install,
                touched=any_touched(self.lines),
            )
        owner = f"{self.name}@{self.version}" if self.name and self.version else ""
        yield from (Digest(line, owner, algorithm, value) for line, algorithm, value in self.digests)


def yarn_lock(view: View) -> Iterator[Item]:
    """Read yarn.lock of Yarn 1 and of later versions."""
    locked = _LockEntry()
    for line in view.lines:
        if line.text.endswith(":") and line.text[:1] not in ("", " ", "#", "_"):
            yield from locked.items()
            locked = _LockEntry(_yarn_name(line.text), lines=[line])
        elif match := _YARN_FIELD.fullmatch(line.text):
            locked.lines.append(line)
            _yarn_field(locked, match[1], match[2], line)
        elif not line.text.strip():
            yield from locked.items()
            locked = _LockEntry()
    yield from locked.items()


def _yarn_name(text: str) -> str:
    """Return the name: @a/b for `"@a/b@^1", "@a/b@^2":` and for `"x@npm:@a/b@^1":`."""
    first = text.split(",", 1)[0].strip().strip('":')
    if aliased := re.fullmatch(r".+@npm:((?:@[^/@]+/)?[A-Za-z][^@]*)@.*", first):
        return aliased[1]
    return first[: first.find("@", 1)] if "@" in first[1:] else first


def _yarn_field(locked: _LockEntry, name: str, value: str, line: Line) -> None:
    if name == "version":
        locked.version, locked.version_line = value, line
    elif name == "resolved":
        locked.url = value
        if "#" in value:
            locked.digests.append((line, "sha1", value.rpartition("#")[2]))
    elif name == "resolution":
        reference = value[value.find("@", 1) + 1 :]
        locked.url = "" if reference.startswith("npm:") else reference
    else:  # Yarn writes the version of its cache before the checksum
        algorithm, _, digest = value.partition("/" if name == "checksum" else "-")
        locked.digests.append((line, algorithm, digest))


def pnpm_lock(view: View) -> Iterator[Item]:
    """Read pnpm-lock.yaml: the entries of `packages`."""
    locked = _LockEntry()
    for line in view.lines:
        if head := _PNPM_HEAD.fullmatch(line.text):
            yield from locked.items()
            locked = _LockEntry(head[1], head[2], lines=[line])
            continue
        if not line.text.startswith("    "):
            yield from locked.items()
            locked = _LockEntry()
            continue
        locked.lines.append(line)
        locked.digests += [(line, *digest) for digest in _PNPM_HASH.findall(line.text)]
        if tarball := _PNPM_TARBALL.search(line.text):
            locked.url = tarball[1]
        locked.runs_on_install |= line.text.strip() == "requiresBuild: true"
    yield from locked.items()
