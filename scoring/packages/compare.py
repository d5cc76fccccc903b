"""Lists the files that name dependencies, each with its reader, and compares them before and after a change.

A comparison finds new dependencies, other versions, other sources and other hashes.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import PurePosixPath

from scoring.diff.budget import spend
from scoring.diff.change import Change, FileChange, Hunk, Line
from scoring.packages import manifests, npm, python
from scoring.packages import manifests as go_files
from scoring.packages import manifests as registry_options
from scoring.packages import manifests as ruby_files
from scoring.packages import manifests as rust_files
from scoring.packages.entry import Digest, Entry, Index, Item, Package, Reader, View


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file; `manifests` is the pattern of file names from which a lock file is made."""

    ecosystem: str
    names: str  # a pattern for the whole file name
    read: Reader
    manifests: str = ""

    @property
    def is_lock(self) -> bool:
        return bool(self.manifests)


_REQUIREMENTS = r"(?:.*[-_.])?(?:requirements|constraints)(?:[-_.].*)?\.(?:txt|in|pip|lock)"
_PYTHON_MANIFESTS = rf"pyproject\.toml|setup\.cfg|setup\.py|{_REQUIREMENTS}"
FORMATS = (
    Format("PyPI", _REQUIREMENTS, python.requirements_file),
    Format("PyPI", r"pyproject\.toml", python.pyproject),
    Format("PyPI", r"setup\.cfg", python.setup_cfg),
    Format("PyPI", r"setup\.py", python.setup_py),
    Format("PyPI", r"Pipfile", python.pipfile),
    Format("PyPI", r"Pipfile\.lock", manifests.pipfile_lock, "Pipfile"),
    Format("PyPI", r"(?:poetry|uv|pdm)\.lock|pylock(?:\..*)?\.toml", manifests.python_lock, _PYTHON_MANIFESTS),
    Format("PyPI", r"pip\.conf|pip\.ini|\.pypirc", registry_options.pip_configuration),
    Format("npm", r"package\.json", npm.package_json),
    Format("npm", r"package-lock\.json|npm-shrinkwrap\.json", manifests.package_lock, r"package\.json"),
    Format("npm", r"yarn\.lock", npm.yarn_lock, r"package\.json|\.yarnrc\.yml"),
    Format("npm", r"pnpm-lock\.ya?ml", npm.pnpm_lock, r"package\.json|pnpm-workspace\.yaml"),
    Format("npm", r"bun\.lock", npm.bun_lock, r"package\.json"),
    Format("npm", r"deno\.jsonc?|import_map\.json", npm.deno_json),
    Format("npm", r"\.npmrc|\.yarnrc|\.yarnrc\.yml", registry_options.npm_configuration),
    Format("crates.io", r"Cargo\.toml", rust_files.cargo_toml),
    Format("crates.io", r"Cargo\.lock", manifests.cargo_lock, r"Cargo\.toml"),
    Format("Go", r"go\.(?:mod|work)", go_files.go_mod),
    Format("Go", r"go\.sum", go_files.go_sum, r"go\.mod"),
    Format("RubyGems", r"Gemfile|gems\.rb|.*\.gemspec", ruby_files.gemfile),
    Format("RubyGems", r"Gemfile\.lock|gems\.locked", ruby_files.gemfile_lock, r"Gemfile|gems\.rb|.*\.gemspec"),
)
_NAMES = [(re.compile(one.names, re.IGNORECASE), one) for one in FORMATS]
_CARGO_CONFIGURATION = Format("crates.io", "", rust_files.cargo_config)


def format_of(path: str) -> Format | None:
    file = PurePosixPath(path)
    if file.parts[-2:] in ((".cargo", "config.toml"), (".cargo", "config")):
        return _CARGO_CONFIGURATION
    if file.parts[-2:-1] in (("requirements",), ("constraints",)) and file.suffix in (".txt", ".in"):
        return FORMATS[0]
    return next((kind for pattern, kind in _NAMES if pattern.fullmatch(file.name)), None)


def sides_of_hunks(file: FileChange) -> Iterator[tuple[View, View]]:
    for hunk in file.hunks:
        yield _side(hunk, "+"), _side(hunk, "-")


def _side(hunk: Hunk, without: str) -> View:
    start = hunk.old_start if without == "+" else hunk.new_start
    lines = tuple(_without_return(line) for line in hunk.lines if line.mark != without)
    return View(lines, start <= 1, hunk.section)


def _without_return(line: Line) -> Line:
    return replace(line, text=line.text.rstrip("\r")) if line.text.endswith("\r") else line


ENTRIES = 20_000  # of one side of a file; more are not read, and `cut` says so
# Of all files of a change that name dependencies. At worst (only brackets and keys) they take 4 s of CPU; a lock file
# of 8,000 packages has as many.
CHARACTERS = 2_000_000


@dataclass(slots=True)
class Side:
    """The dependencies before or after the change, as far as its hunks show them."""

    entries: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    indexes: list[Index] = field(default_factory=list)
    digests: dict[tuple[str, str], dict[str, Digest]] = field(default_factory=lambda: defaultdict(dict))
    size: int = 0

    def add(self, items: Iterable[Item], view: View, part_number: int) -> None:
        """Add the items of one part of the file.

        A hash without its entry in the part counts only if nothing but hashes changes there: else it may belong to
        another version.
        """
        read_items = list(islice(items, ENTRIES + 1))
        hash_lines = {id(item.line) for item in read_items if isinstance(item, Digest)}
        only_hashes_change = all(id(line) in hash_lines for line in view.lines if line.mark != " ")
        for item in read_items:
            self.size += 1
            if self.size > ENTRIES:
                return
            if isinstance(item, Entry):
                self.entries[item.name].append(item)
            elif isinstance(item, Index):
                self.indexes.append(item)
            elif item.of or only_hashes_change:
                owner = item.of or f"part {part_number}"
                self.digests[owner, item.algorithm].setdefault(item.value, item)


@dataclass(frozen=True, slots=True)
class Move:
    """A dependency whose version changes; `before` and `after` are exact versions or the lowest allowed ones."""

    entry: Entry
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A file's dependencies before and after a change."""

    file: FileChange
    format: Format
    before: Side
    after: Side
    is_part: bool = False  # the file continues beyond CHARACTERS

    @property
    def cut(self) -> bool:
        """Return whether the file has more than ENTRIES, or more characters than are read."""
        return self.is_part or max(self.before.size, self.after.size) > ENTRIES

    def new(self) -> list[Entry]:
        """Return one entry of each name that no line had before the change."""
        touched_by_name = {name: self.touched(name) for name in self.after.entries if name not in self.before.entries}
        return [entries[0] for name, entries in touched_by_name.items() if name and entries]

    def touched(self, name: str) -> list[Entry]:
        """Return the entries of a name with an added line."""
        return [entry for entry in self.after.entries[name] if entry.touched]

    def changed(self) -> list[Entry]:
        """Return every entry with an added line, one for each name and version."""
        by_version: dict[tuple[str, str | None], Entry] = {}
        for name in self.after.entries:
            for entry in self.touched(name):
                if not self._stood_before(entry):
                    by_version.setdefault((name, entry.floor), entry)
        return list(by_version.values())

    def _stood_before(self, entry: Entry) -> bool:
        """Return whether the same name and version existed before: its lines only moved, or changed elsewhere."""
        earlier = self.before.entries.get(entry.name, ())
        return entry.floor is not None and any(
            old_entry.floor == entry.floor and old_entry.version == entry.version for old_entry in earlier
        )

    def moves(self) -> list[Move]:
        """Return the names with one version in touched lines before and another one after."""
        changed_versions = []
        for name, entries in self.after.entries.items():
            after = {entry.floor for entry in entries if entry.touched and entry.floor}
            before = {
                old_entry.floor
                for old_entry in self.before.entries.get(name, ())
                if old_entry.touched and old_entry.floor
            }
            if len(after) == len(before) == 1 and after != before:
                entry = next(entry for entry in entries if entry.touched and entry.floor in after)
                changed_versions.append(Move(entry, before.pop() or "", after.pop() or ""))
        return changed_versions

    def new_indexes(self) -> list[Index]:
        earlier_urls = {index.url for index in self.before.indexes}
        return [index for index in self.after.indexes if index.line.mark == "+" and index.url not in earlier_urls]

    def other_hashes(self) -> list[Digest]:
        """Return the hashes that replace another hash of the same version."""
        return [
            digest
            for key, values in self.after.digests.items()
            for digest in _replacements(self.before.digests.get(key, {}), values)
        ]


def _replacements(before: Mapping[str, Digest], after: Mapping[str, Digest]) -> list[Digest]:
    removed = before.keys() - after.keys()
    return [digest for value, digest in after.items() if value not in before][:1] if removed else []


def compare(file: FileChange, format: Format) -> Comparison:
    """Read both sides of a file; no content makes it raise."""
    before, after = Side(), Side()
    for number, (old_view, new_view) in enumerate(sides_of_hunks(file)):
        spend()
        before.add(format.read(old_view), old_view, number)
        after.add(format.read(new_view), new_view, number)
    return Comparison(file, format, before, after)


def comparisons(change: Change) -> list[Comparison]:
    """Compare the files of a change that name dependencies, except deleted ones."""
    formats = [(file, format_of(file.path)) for file in change.files if file.kind != "deleted"]
    characters_left, compared = CHARACTERS, []
    for file, format in formats:
        if format is not None:
            hunks, characters_left = _cut_hunks(file.hunks, characters_left)
            readable_file = replace(file, hunks=hunks)
            compared.append(replace(compare(readable_file, format), file=file, is_part=hunks != file.hunks))
    return compared


def _cut_hunks(hunks: Sequence[Hunk], characters: int) -> tuple[tuple[Hunk, ...], int]:
    """Cut the hunks to a number of characters; also return the characters left."""
    for index, hunk in enumerate(hunks):
        line_ends = list(accumulate(len(line.text) + 1 for line in hunk.lines))
        size = line_ends[-1] if line_ends else 0
        if size > characters:
            return (*hunks[:index], replace(hunk, lines=hunk.lines[: bisect_right(line_ends, characters)])), 0
        characters -= size
    return tuple(hunks), characters


def named_packages(files: Iterable[Comparison]) -> list[tuple[Comparison, Entry, Package]]:
    """Return each registry package that a change adds or touches, in its exact or lowest version."""
    changed = [
        (comparison, entry) for comparison in files for entry in comparison.changed() if entry.source == "registry"
    ]
    return [
        (comparison, entry, Package(comparison.format.ecosystem, entry.name, entry.version or entry.floor))
        for comparison, entry in changed
    ]
