"""Reads lock files in TOML or JSON of Python, npm and Rust: entries with version, address and hashes.

Values are grouped by their table or object, which is an entry of the lock file.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ingest.lookups.osv import normalised
from scoring.diff.change import Line
from scoring.packages.entry import Digest, Entry, Index, Item, Source, View, any_touched
from scoring.packages.fragments import Keys, Leaf, json_leaves, toml_leaves
from scoring.packages.python import source_of


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
        """Return every value of a key."""
        return self.lists.get(name, [])

    def line(self, *names: str) -> Line:
        """Return the line of the first existing key of `names`, else the first line."""
        return next((self.values[name].line for name in names if name in self.values), self.lines[0])

    @property
    def touched(self) -> bool:
        """Return whether a line of the entry is added or removed."""
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
