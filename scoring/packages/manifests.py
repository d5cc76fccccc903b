"""Reads manifests of Go, Ruby and Rust, configuration of package sources, and lock files in TOML or JSON.

The files are go.mod and go.sum; pip.conf, .npmrc, .yarnrc.yml and similar; Gemfile, *.gemspec and Gemfile.lock;
Cargo.toml and .cargo/config.toml; lock files of Python, npm and Rust, whose entries have version, address and hashes.
Values of a lock file are grouped by their table or object, which is an entry.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ingest.lookups.osv import normalised
from scoring.diff.change import Line
from scoring.packages.entry import Digest, Entry, Group, Index, Item, Source, View, any_touched
from scoring.packages.fragments import Keys, Leaf, json_leaves, toml_leaves
from scoring.packages.python import range_of, source_of


@dataclass(slots=True)
class LockBlock:
    """The values of one entry by their last key, and by their last two with a dot; the first value of each counts.

    `path` are the keys above its first value.
    """

    path: Keys
    values: dict[str, Leaf] = field(default_factory=dict)
    lists: dict[str, list[Leaf]] = field(default_factory=dict)  # every value of a key, in order
    lines: list[Line] = field(default_factory=list)

    def text(self, *names: str) -> str | None:
        """Return the value of the first existing key of `names`, or None."""
        return next((self.values[name].value for name in names if name in self.values), None)

    def all(self, name: str) -> list[Leaf]:
        return self.lists.get(name, [])

    def line(self, *names: str) -> Line:
        """Return the line of the first existing key of `names`, else the first line."""
        return next((self.values[name].line for name in names if name in self.values), self.lines[0])

    @property
    def touched(self) -> bool:
        return any_touched(self.lines)


def group_leaves(leaves: Iterable[Leaf]) -> Mapping[int, LockBlock]:
    """Group values into blocks, by number in order."""
    blocks: dict[int, LockBlock] = {}
    for leaf in leaves:
        block = blocks.setdefault(leaf.block, LockBlock(leaf.path[:-1]))
        for name in {".".join(leaf.path[-1:]), ".".join(leaf.path[-2:])}:
            block.values.setdefault(name, leaf)
            block.lists.setdefault(name, []).append(leaf)
        block.lines.append(leaf.line)
    return blocks


_KINDS: dict[str, Source] = {"git": "git", "url": "url", "directory": "path", "editable": "path", "virtual": "path"}


def python_lock(view: View) -> Iterator[Item]:
    """poetry.lock, uv.lock and pdm.lock: [[package]] with name, version and hashes; pylock.toml: [[packages]]."""
    for block in group_leaves(toml_leaves(view.lines, view.at_top, view.hint)).values():
        name, version = block.text("name"), block.text("version")
        if name and version and block.path[:1] in (("package",), ("packages",)):
            source, url = _python_source(block)
            named = normalised("PyPI", name)
            yield Entry(named, block.line("version"), version, version, source=source, url=url, touched=block.touched)
        file = block.text("sdist.url", "file", "url")
        for leaf in block.all("hash"):
            yield from _digests(leaf, (file or "").rpartition("/")[2])


def _python_source(block: LockBlock) -> tuple[Source, str]:
    """Return the source of a package in a lock file: uv's `source = {git = …}`, poetry's [package.source]."""
    for name, source in _KINDS.items():
        if (url := block.text(f"source.{name}")) is not None:
            return _KINDS.get(block.text("source.type") or "", source if name != "url" else source_of(url)), url
    return "registry", block.text("source.registry") or ""


def _digests(leaf: Leaf, owner: str) -> Iterator[Digest]:
    """`sha256:abc`, `sha512-abc sha1-abc` or a bare hash."""
    for text in leaf.value.split()[:20]:
        for candidate in (":", "-", "/"):
            algorithm, separator, value = text.partition(candidate)
            if separator and len(algorithm) <= 12:
                yield Digest(leaf.line, owner, algorithm, value)
                break
        else:
            yield Digest(leaf.line, owner, "", text)


def pipfile_lock(view: View) -> Iterator[Item]:
    """Pipfile.lock: objects by package name, and sources."""
    for block in group_leaves(json_leaves(view.lines, view.at_top)).values():
        if block.path[-1:] == ("sources",) and (url := block.text("url")):
            yield Index(block.line("url"), url, "sources")
        elif block.path and (version := block.text("version") or block.text("git", "ref", "file")):
            yield from _pipfile_entry(block, version)


def _pipfile_entry(block: LockBlock, version: str) -> Iterator[Item]:
    name, git = normalised("PyPI", block.path[-1]), block.text("git", "file")
    exact = version.removeprefix("==") if version.startswith("==") else None
    group = "dev" if block.path[:1] == ("develop",) else "runtime"
    source: Source = "git" if block.text("git") else "url" if git else "registry"
    line = block.line("version", "ref")
    yield Entry(name, line, exact, exact, group, source, git or "", touched=block.touched)
    for leaf in block.all("hashes"):
        yield from _digests(leaf, f"{name}=={exact}" if exact else name)


def cargo_lock(view: View) -> Iterator[Item]:
    """Cargo.lock: [[package]] with name, version, source and checksum.

    A package without a source is in the repository itself. The source of a fragment's last one may be beyond its end.
    """
    blocks = list(group_leaves(toml_leaves(view.lines, view.at_top, view.hint)).values())
    for number, block in enumerate(blocks, 1):
        name, version, url = block.text("name"), block.text("version"), block.text("source") or ""
        named = normalised("crates.io", name or "")
        if name and version:
            is_own = not url and number < len(blocks)
            source: Source = "path" if is_own else "git" if url.startswith("git+") else "registry"
            yield Entry(named, block.line("version"), version, version, source=source, url=url, touched=block.touched)
        for leaf in block.all("checksum"):
            yield Digest(leaf.line, f"{named}@{version}" if name and version else "", "sha256", leaf.value)


def package_lock(view: View) -> Iterator[Item]:
    """package-lock.json and npm-shrinkwrap.json of every version."""
    for block in group_leaves(json_leaves(view.lines, view.at_top)).values():
        name = _npm_name(block)
        version, url = block.text("version"), block.text("resolved") or ""
        if name and version and (url or block.text("integrity") or "node_modules" in block.path[-1]):
            yield from _npm_entry(block, name, version, url)
        for leaf in block.all("integrity"):
            yield from _digests(leaf, f"{name}@{version}" if name and version else url)


def _npm_entry(block: LockBlock, name: str, version: str, url: str) -> Iterator[Entry]:
    source = source_of(version if source_of(version) != "registry" else url)
    is_tarball = source == "url"
    yield Entry(
        name=name,
        line=block.line("version"),
        version=version if source_of(version) == "registry" else None,
        floor=version if source_of(version) == "registry" else None,
        group="dev" if block.text("dev") == "true" else "runtime",
        source="registry" if is_tarball and source_of(version) == "registry" else source,
        url=url or version if source_of(version) != "registry" else url,
        runs_on_install=block.text("hasInstallScript") == "true",
        touched=block.touched,
    )


def _npm_name(block: LockBlock) -> str:
    """Return the package name: @a/b for `node_modules/@a/b`, unless `name` differs; "" for a fragment's top object."""
    if not block.path or block.path[-1] in ("packages", "dependencies", "requires", "engines", ""):
        return ""
    named = block.text("name") if "node_modules/" in block.path[-1] else None
    return named or block.path[-1].rpartition("node_modules/")[2]


_VERSION = r"v\d+\.\d+\.\d+[^\s]*"
_PATH = r'"?([^\s"()]++)"?'  # possessive: backtracking on a line of dots took a second
_REQUIRE = re.compile(rf"\s*(?:require\s+)?{_PATH}\s+({_VERSION})(?:\s*//\s*(indirect).*|\s*(?://.*)?)")
_REPLACE = re.compile(
    rf'\s*(?:replace\s+)?"?([^\s"()]+)"?(?:\s+{_VERSION})?\s+=>\s+"?([^\s"]+)"?(?:\s+({_VERSION}))?.*'
)
_EXCLUDED = re.compile(r"\s*(exclude|retract)\b")
_OPENED = re.compile(r"(require|exclude|replace|retract|tool|godebug)\s*\(\s*")
_SUM = re.compile(rf"(\S+)\s+({_VERSION})\s+(h\d):(\S+)")


def go_mod(view: View) -> Iterator[Item]:
    """Read go.mod: required modules with versions, and replacements."""
    opened = _OPENED.fullmatch(view.hint.strip())
    block = opened[1] if opened else ""
    for line in view.lines:
        if opener := _OPENED.fullmatch(line.text.strip()):
            block = opener[1]
        elif line.text.strip() == ")":
            block = ""
        elif match := _REPLACE.fullmatch(line.text):
            yield _replacement(line, match)
        elif block in ("exclude", "retract") or _EXCLUDED.match(line.text):
            continue
        elif (match := _REQUIRE.fullmatch(line.text)) and "." in match[1][1:-1]:
            yield Entry(match[1], line, _without_v(match[2]), _without_v(match[2]), touched=line.mark != " ")


def _replacement(line: Line, match: re.Match[str]) -> Entry:
    target, version = match[2], match[3]
    if version is None:  # a folder
        return Entry(match[1], line, source="path", url=target, touched=line.mark != " ")
    source, url = ("registry", "") if target == match[1] else ("url", target)
    return Entry(
        target, line, _without_v(version), _without_v(version), source=source, url=url, touched=line.mark != " "
    )


def _without_v(version: str) -> str:
    """Drop the v, which OSV does not use."""
    return version.removeprefix("v")


def go_sum(view: View) -> Iterator[Item]:
    """Read go.sum: hashes of modules and of their go.mod; only a version with its whole module hashed is in use."""
    for line in view.lines:
        if match := _SUM.fullmatch(line.text.strip()):
            name, version = match[1], match[2]
            if not version.endswith("/go.mod"):
                yield Entry(name, line, _without_v(version), _without_v(version), touched=line.mark != " ")
            yield Digest(line, f"{name}@{version}", match[3], match[4])


_PIP = re.compile(r"\s*(index-url|extra-index-url|find-links|trusted-host|index|repository)\s*[=:]\s*(\S+).*")
_NPM = re.compile(
    r"\s*[\"']?((?:@[\w.-]+:)?registry|npmRegistryServer|yarn-registry)[\"']?\s*[=:]?\s*[\"']?(\S+?)[\"']?\s*"
)


def pip_configuration(view: View) -> Iterator[Item]:
    """Read the options of pip.conf that name an index."""
    for line in view.lines:
        if match := _PIP.fullmatch(line.text):
            yield Index(line, match[2], match[1])


def npm_configuration(view: View) -> Iterator[Item]:
    """Read the options of .npmrc, .yarnrc and .yarnrc.yml that name a registry, for all packages or a scope."""
    for line in view.lines:
        if match := _NPM.fullmatch(line.text):
            yield Index(line, match[2], "registry")


_GEM = re.compile(r"""\s*gem[\s(]+["']([A-Za-z0-9._-]+)["'](.*)""")
_SPEC = re.compile(r"""\s*\w+\.add_(?:(development|runtime)_)?dependency[\s(]+["']([A-Za-z0-9._-]+)["'](.*)""")
_SOURCE = re.compile(r"""\s*source[\s(]+["']([^"']+)["'].*""")
_OPTION = re.compile(r"""(?::(git|github|path|source)\s*=>|\b(git|github|path|source):)\s*["']([^"']+)["']""")
_CONSTRAINT = re.compile(r"""["']((?:[<>=~!]+\s*)?\d[\w.]*)["']""")
_LOCK_SECTION = re.compile(r"([A-Z][A-Z ]+)")
_LOCK_GEM = re.compile(r"    ([A-Za-z0-9._-]+) \(([^()\s]+)\)")
_LOCK_REMOTE = re.compile(r"  remote: (\S+)")
_CHECKSUM = re.compile(r"  ([A-Za-z0-9._-]+) \(([^()\s]+)\) ([a-z0-9]+)=([0-9a-f]+)")
_PLATFORM = re.compile(r"-(?:x86|x64|arm|aarch64|java|universal|mswin|mingw)[\w.-]*$")


def gemfile(view: View) -> Iterator[Item]:
    """Read Gemfile and *.gemspec: gems with constraints, and sources."""
    group: Group = "runtime" if view.at_top else "unknown"
    for line in view.lines:
        text = line.text.split(" #", 1)[0]
        if text.lstrip().startswith("group"):
            group = "dev" if re.search(r":(?:development|test)\b", text) else "runtime"
        elif text.strip() == "end":
            group = "runtime"
        elif match := _SOURCE.fullmatch(text):
            yield Index(line, match[1], "source")
        elif match := _GEM.fullmatch(text):
            yield from _ruby_entry(line, match[1], match[2], group)
        elif match := _SPEC.fullmatch(text):
            yield from _ruby_entry(line, match[2], match[3], "dev" if match[1] == "development" else "runtime")


def _ruby_entry(line: Line, name: str, rest: str, group: Group) -> Iterator[Item]:
    options = {option[0] or option[1]: option[2] for option in _OPTION.findall(rest)}
    source: Source = "path" if "path" in options else "git" if options.keys() & {"git", "github"} else "registry"
    if "source" in options:
        yield Index(line, options["source"], "source")
    constraints = _CONSTRAINT.findall(_OPTION.sub("", rest))
    allowed = range_of(",".join(constraints), bare_is_exact=True)
    url = options.get("path") or options.get("git") or options.get("github") or ""
    yield Entry(name, line, allowed.version, allowed.floor, group, source, url, touched=line.mark != " ")


def gemfile_lock(view: View) -> Iterator[Item]:
    """Read Gemfile.lock: gems under GEM, GIT and PATH with their remote, and CHECKSUMS."""
    source: Source = "registry"
    remote = ""
    for line in view.lines:
        if match := _LOCK_SECTION.fullmatch(line.text):
            source, remote = {"GIT": "git", "PATH": "path"}.get(match[1], "registry"), ""  # ty: ignore[invalid-assignment]
        elif match := _LOCK_REMOTE.fullmatch(line.text):
            remote = match[1]
            if source == "registry":
                yield Index(line, remote, "remote")
        elif match := _CHECKSUM.fullmatch(line.text):
            yield Digest(line, f"{match[1]}@{match[2]}", match[3], match[4])
        elif match := _LOCK_GEM.fullmatch(line.text):
            version = _PLATFORM.sub("", match[2])
            kind = source if source != "registry" or source_of(remote) in ("registry", "url") else source_of(remote)
            yield Entry(match[1], line, version, version, source=kind, url=remote, touched=line.mark != " ")


_TABLES: dict[str, Group] = {"dependencies": "runtime", "dev-dependencies": "dev", "build-dependencies": "build"}
_FIELDS = frozenset({"version", "git", "path", "registry", "registry-index", "package"})
# Keys of Cargo.toml that hold a version or a text and name no package.
_OTHER_KEYS = """
name version edition rust-version authors description license license-file documentation readme homepage
repository categories keywords resolver opt-level lto codegen-units panic strip links default-run path debug harness
crate-type required-features publish workspace members exclude include build profile"""
_NO_PACKAGE = frozenset(_OTHER_KEYS.split())


def cargo_toml(view: View) -> Iterator[Item]:
    """Read Cargo.toml: every table of dependencies, also of targets and of the workspace, and [patch]."""
    for leaf in toml_leaves(view.lines, view.at_top, view.hint):
        if leaf.path[:1] in (("patch",), ("replace",)) and leaf.path[-1] in ("git", "path"):
            yield _from_elsewhere(leaf, leaf.path[-2], "runtime")
            continue
        group, keys = _group_and_keys(leaf)
        if group is not None and keys:
            yield from _rust_entry(leaf, keys, group)


def _group_and_keys(leaf: Leaf) -> tuple[Group | None, Keys]:
    """Return the group of a value (None: not a dependency), and the keys from the name of the package on."""
    for index, key in enumerate(leaf.path):
        if key in _TABLES and (index == 0 or leaf.path[0] in ("target", "workspace")):
            return _TABLES[key], leaf.path[index + 1 :]
    if leaf.rooted or not leaf.path or leaf.path[0] in _NO_PACKAGE or len(leaf.path) > 2:
        return None, ()
    is_version = len(leaf.path) == 1 and leaf.quoted and leaf.value[:1] in "0123456789^~=<>*" and leaf.value != ""
    is_field = len(leaf.path) == 2 and leaf.path[1] in _FIELDS
    return ("unknown", leaf.path) if is_version or is_field else (None, ())


def _rust_entry(leaf: Leaf, keys: Keys, group: Group) -> Iterator[Item]:
    name, field = normalised("crates.io", keys[0]), keys[1] if len(keys) > 1 else "version"
    touched = leaf.line.mark != " "
    if field == "version" and leaf.quoted:
        allowed = range_of(leaf.value)
        yield Entry(name, leaf.line, allowed.version, allowed.floor, group, touched=touched)
    elif field in ("git", "path"):
        yield _from_elsewhere(leaf, keys[0], group)
    elif field in ("registry", "registry-index"):
        yield Index(leaf.line, leaf.value, field)
    elif field == "package":
        yield Entry(normalised("crates.io", leaf.value), leaf.line, group=group, touched=touched)


def _from_elsewhere(leaf: Leaf, name: str, group: Group) -> Entry:
    source: Source = "git" if leaf.path[-1] == "git" else "path"
    named, touched = normalised("crates.io", name), leaf.line.mark != " "
    return Entry(named, leaf.line, group=group, source=source, url=leaf.value, touched=touched)


def cargo_config(view: View) -> Iterator[Item]:
    """Read .cargo/config.toml: registries, and sources that replace the usual one."""
    for leaf in toml_leaves(view.lines, view.at_top, view.hint):
        if not leaf.path or leaf.path[-1] not in ("registry", "index", "replace-with"):
            continue
        if leaf.path[-1] == "replace-with" or source_of(leaf.value.removeprefix("sparse+")) != "registry":
            yield Index(leaf.line, leaf.value, leaf.path[-1])
