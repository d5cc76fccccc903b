"""Compares the dependencies of a file before and after: new ones, other versions, other sources, other hashes."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from scoring.diff.budget import spend
from scoring.diff.change import Change, FileChange, Hunk
from scoring.packages.entry import Digest, Entry, Index, Item, Package, View
from scoring.packages.files import Format, format_of, views

ENTRIES = 20_000  # of one side of a file: more are not read, and that is said
# Of all files of a change that name dependencies. At worst (nothing but brackets and keys) they take 4 s of CPU; a lock
# file of 8,000 packages has as many.
CHARACTERS = 2_000_000


@dataclass(slots=True)
class Side:
    """The dependencies before the change, or after it, as far as its hunks show."""

    entries: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    indexes: list[Index] = field(default_factory=list)
    digests: dict[tuple[str, str], dict[str, Digest]] = field(default_factory=lambda: defaultdict(dict))
    size: int = 0

    def add(self, items: Iterable[Item], view: View, part: int) -> None:
        """Take what one part of the file names.

        A hash whose entry the part does not show counts only where hashes are all that changes there: else it may
        belong to another version.
        """
        found = list(islice(items, ENTRIES + 1))
        hashes = {id(item.line) for item in found if isinstance(item, Digest)}
        alone = all(id(line) in hashes for line in view.lines if line.mark != " ")
        for item in found:
            self.size += 1
            if self.size > ENTRIES:
                return
            if isinstance(item, Entry):
                self.entries[item.name].append(item)
            elif isinstance(item, Index):
                self.indexes.append(item)
            elif item.of or alone:
                of = item.of or f"part {part}"
                self.digests[of, item.algorithm].setdefault(item.value, item)


@dataclass(frozen=True, slots=True)
class Move:
    """A dependency whose version changes; `before` and `after` are exact versions or the lowest that are allowed."""

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
    is_part: bool = False  # the file goes on beyond CHARACTERS

    @property
    def cut(self) -> bool:
        """Return whether the file names more than ENTRIES, or is longer than what is read."""
        return self.is_part or max(self.before.size, self.after.size) > ENTRIES

    def new(self) -> list[Entry]:
        """One entry of each name that no line before the change named."""
        found = {name: self.touched(name) for name in self.after.entries if name not in self.before.entries}
        return [entries[0] for name, entries in found.items() if name and entries]

    def touched(self, name: str) -> list[Entry]:
        """The entries of a name with a line that the change adds."""
        return [entry for entry in self.after.entries[name] if entry.touched]

    def changed(self) -> list[Entry]:
        """Every entry with a line that the change adds, one for each name and version."""
        found: dict[tuple[str, str | None], Entry] = {}
        for name in self.after.entries:
            for entry in self.touched(name):
                if not self._stood_before(entry):
                    found.setdefault((name, entry.floor), entry)
        return list(found.values())

    def _stood_before(self, entry: Entry) -> bool:
        """Return whether the same name stood in the same version: its lines were moved, or changed beside it."""
        same = self.before.entries.get(entry.name, ())
        return entry.floor is not None and any(
            one.floor == entry.floor and one.version == entry.version for one in same
        )

    def moves(self) -> list[Move]:
        """Names that had one version in touched lines and have one other now."""
        found = []
        for name, entries in self.after.entries.items():
            after = {entry.floor for entry in entries if entry.touched and entry.floor}
            before = {one.floor for one in self.before.entries.get(name, ()) if one.touched and one.floor}
            if len(after) == len(before) == 1 and after != before:
                entry = next(entry for entry in entries if entry.touched and entry.floor in after)
                found.append(Move(entry, before.pop() or "", after.pop() or ""))
        return found

    def new_indexes(self) -> list[Index]:
        """Places to take packages from that stood on no line before."""
        known = {one.url for one in self.before.indexes}
        return [one for one in self.after.indexes if one.line.mark == "+" and one.url not in known]

    def other_hashes(self) -> list[Digest]:
        """Hashes that replace another hash of the same thing in the same version."""
        return [
            new
            for key, values in self.after.digests.items()
            for new in _replacing(self.before.digests.get(key, {}), values)
        ]


def _replacing(before: Mapping[str, Digest], after: Mapping[str, Digest]) -> list[Digest]:
    gone = before.keys() - after.keys()
    return [digest for value, digest in after.items() if value not in before][:1] if gone else []


def compare(file: FileChange, format: Format) -> Comparison:
    """Read both sides of a file. Never raises, whatever its lines hold."""
    before, after = Side(), Side()
    for part, (old, new) in enumerate(views(file)):
        spend()
        before.add(format.read(old), old, part)
        after.add(format.read(new), new, part)
    return Comparison(file, format, before, after)


def comparisons(change: Change) -> list[Comparison]:
    """The files of a change that name dependencies, before and after; those that go are left out."""
    formats = [(file, format_of(file.path)) for file in change.files if file.kind != "deleted"]
    left, found = CHARACTERS, []
    for file, format in formats:
        if format is not None:
            hunks, left = _within(file.hunks, left)
            part = replace(file, hunks=hunks)
            found.append(replace(compare(part, format), file=file, is_part=hunks != file.hunks))
    return found


def _within(hunks: Sequence[Hunk], left: int) -> tuple[tuple[Hunk, ...], int]:
    """The hunks as far as so many characters go, and how many are left after them."""
    for place, hunk in enumerate(hunks):
        ends = list(accumulate(len(line.text) + 1 for line in hunk.lines))
        size = ends[-1] if ends else 0
        if size > left:
            return (*hunks[:place], replace(hunk, lines=hunk.lines[: bisect_right(ends, left)])), 0
        left -= size
    return tuple(hunks), left


def named_packages(files: Iterable[Comparison]) -> list[tuple[Comparison, Entry, Package]]:
    """Every package of a registry that a change adds or touches, in the version that it names or the lowest."""
    changed = [(one, entry) for one in files for entry in one.changed() if entry.source == "registry"]
    return [
        (one, entry, Package(one.format.ecosystem, entry.name, entry.version or entry.floor)) for one, entry in changed
    ]
