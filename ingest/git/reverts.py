"""Follows the lines of a merge, and finds the commits that take it back and those that bring it again.

Diffs are read without context, white space ignored, renames found. Lines are followed from commit to commit through
edits around them, moves and renames. A line counts as changed when a commit takes it away and adds no line of the same
text anywhere: moved, renamed and re-indented lines live on. Lines without a letter or a digit are nobody's: a brace
that moves is no fix.

A message or an inverse patch-id finds a candidate; the candidate counts where most lines of the merge go. Both are
written by whoever offers a pull request: a message may name any commit, and a copy of somebody's lines that is removed
again has the patch-id that removes the original. So a message that is not known to be by somebody who may push counts
only where the commit is an inverse but for details: nearly all lines of the merge go, and next to nothing comes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from ingest.errors import FetchProblem
from ingest.git.history import DIFF
from ingest.git.process import Git

COMMIT_LINES = 200_000  # of one commit: what is beyond is read and not kept
PATHS_LIMIT = 50_000_000  # bytes of the paths at which two commits differ
LINE_LIMIT = 4_000  # bytes of a line that are kept
# White space alone is no change of a line, and leaves every other line where it was.
CHANGES = (*DIFF, "-p", "-U0", "-M", "-w", "--no-prefix")

_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")


@dataclass
class Hunk:
    """Lines that are replaced: `old` from line `start` on, by `new` from line `into` on, each without white space.

    Where `old` is empty, `start` is the line behind which `new` goes, as in a diff.
    """

    start: int
    old_count: int
    into: int
    new_count: int
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)


@dataclass
class FileChange:
    """One file's part. Names are as git quotes them; empty where there is no such side."""

    before: bytes = b""
    after: bytes = b""
    hunks: list[Hunk] = field(default_factory=list)


def read_changes(
    git: Git, commits: Sequence[str], parents: Mapping[str, str], seconds: float
) -> Iterator[tuple[str, list[FileChange]]]:
    """Yield what each commit changes against `parents[commit]`, else against its one parent. Raises FetchProblem."""
    if not commits:
        return
    given = [f"{commit} {parents[commit]}" if commit in parents else commit for commit in commits]
    with git.stream(*CHANGES, given=given, seconds=seconds) as out:
        marks = [f"{commit}\n".encode() for commit in commits]
        if out.readline(100) != marks[0]:
            raise FetchProblem("git answered about another commit than asked")
        for commit, following in zip(commits, [*marks[1:], b""], strict=True):
            yield commit, _one_commit(out, following)


def changed_paths(git: Git, before: str, after: str) -> set[bytes]:
    """Return the paths at which two commits differ in content or mode. Raises FetchProblem."""
    told = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, limit=PATHS_LIMIT)
    return set(told.split(b"\0")) - {b""}


class _Reader:
    def __init__(self) -> None:
        self.files: list[FileChange] = []
        self.hunk = Hunk(0, 0, 0, 0)
        self.before = self.after = 0  # lines that the running hunk still needs
        self.kept = 0

    def line(self, line: bytes) -> None:
        if self.before or self.after:
            self._hunk_line(line)
        elif line.startswith(b"diff --git "):
            self.files.append(FileChange())
        elif self.files:
            self._header(self.files[-1], line)

    def _hunk_line(self, line: bytes) -> None:
        mark, text = line[:1], b"".join(line[1:].split())
        self.kept += 1
        if mark == b"-" and self.before:
            self.before -= 1
            self.hunk.old.append(text if self.kept < COMMIT_LINES else b"")
        elif mark == b"+" and self.after:
            self.after -= 1
            self.hunk.new.append(text if self.kept < COMMIT_LINES else b"")
        elif mark != b"\\":
            self.before = self.after = 0

    def _header(self, file: FileChange, line: bytes) -> None:
        if found := _HUNK.match(line):
            start, old, into, new = (int(count) if count is not None else 1 for count in found.groups())
            self.hunk, self.before, self.after = Hunk(start, old, into, new), old, new
            file.hunks.append(self.hunk)
        elif line.startswith((b"rename from ", b"copy from ")):
            file.before = line.split(b" ", 2)[2] if line.startswith(b"rename") else b""
        elif line.startswith(b"rename to "):
            file.after = line.split(b" ", 2)[2]
        elif line.startswith(b"--- ") and line != b"--- /dev/null":
            file.before = file.before or line[4:].rstrip(b"\t")
        elif line.startswith(b"+++ ") and line != b"+++ /dev/null":
            file.after = file.after or line[4:].rstrip(b"\t")


def _one_commit(out: IO[bytes], following: bytes) -> list[FileChange]:
    reader = _Reader()
    while line := out.readline(LINE_LIMIT):
        if line == following and not (reader.before or reader.after):
            return reader.files
        reader.line(line.rstrip(b"\n"))
        while line and not line.endswith(b"\n"):
            line = out.readline(65_536)
    if following:
        raise FetchProblem("git ended before its last commit")
    return reader.files


OWN_LINES = 50_000  # of one owner that are followed

Place = tuple[bytes, int]

_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")


class Tracker:
    """The lines of every owner in one branch's newest state. An owner is any number."""

    def __init__(self) -> None:
        self._files: dict[bytes, dict[int, int]] = {}
        self._counts: dict[int, int] = defaultdict(int)

    def count(self, owner: int) -> int:
        return sum(found == owner for lines in self._files.values() for found in lines.values())

    def forget(self, owners: Iterable[int]) -> None:
        gone = set(owners)
        for path, lines in list(self._files.items()):
            kept = {line: owner for line, owner in lines.items() if owner not in gone}
            self._put(path, kept)

    def apply(self, files: Sequence[FileChange], claim: Callable[[bytes], int | None]) -> Mapping[int, set[bytes]]:
        """Follow one commit. `claim` says whose an added text becomes; returns each owner's texts that were changed."""
        added = _added(files)
        moved: dict[bytes, dict[int, int]] = defaultdict(dict)
        lost: dict[int, set[bytes]] = defaultdict(set)
        taken = [(file, self._files.pop(file.before)) for file in files if file.before in self._files]
        for file, lines in taken:
            kept, gone = _shift(lines, file.hunks)
            if file.after:
                moved[file.after].update(kept)
            for text, owner in gone:
                if places := added.get(text):
                    path, line = places.pop(0)
                    moved[path][line] = owner
                else:
                    lost[owner].add(text)
        self._claim(added, moved, claim)
        for path, lines in moved.items():
            self._put(path, {**self._files.get(path, {}), **lines})
        return lost

    def _claim(
        self,
        added: Mapping[bytes, list[Place]],
        moved: dict[bytes, dict[int, int]],
        claim: Callable[[bytes], int | None],
    ) -> None:
        for text, places in added.items():
            for path, line in places:
                owner = claim(text)
                if owner is not None and self._counts[owner] < OWN_LINES:
                    self._counts[owner] += 1
                    moved[path][line] = owner

    def _put(self, path: bytes, lines: dict[int, int]) -> None:
        if lines:
            self._files[path] = lines
        else:
            self._files.pop(path, None)


def has_word(text: bytes) -> bool:
    """Tell whether a line has a letter or a digit; no other line is anybody's."""
    return _WORD.search(text) is not None


def _added(files: Sequence[FileChange]) -> dict[bytes, list[Place]]:
    places: dict[bytes, list[Place]] = defaultdict(list)
    for file in files:
        for hunk in file.hunks:
            for offset, text in enumerate(hunk.new):
                if has_word(text):
                    places[text].append((file.after, hunk.into + offset))
    return places


def _shift(lines: Mapping[int, int], hunks: Sequence[Hunk]) -> tuple[dict[int, int], list[tuple[bytes, int]]]:
    """The lines that live on at their new numbers, and the (text, owner) of those that were taken away."""
    kept: dict[int, int] = {}
    gone: list[tuple[bytes, int]] = []
    shift, rest = 0, iter(hunks)
    hunk = next(rest, None)
    for line in sorted(lines):
        while hunk is not None and line > _last(hunk):
            shift += hunk.new_count - hunk.old_count
            hunk = next(rest, None)
        if hunk is not None and hunk.old_count and line >= hunk.start:
            offset = line - hunk.start
            gone.append((hunk.old[offset] if offset < len(hunk.old) else b"", lines[line]))
        else:
            kept[line + shift] = lines[line]
    return kept, gone


def _last(hunk: Hunk) -> int:
    """The last old line that comes before or in a hunk's own lines."""
    return hunk.start + hunk.old_count - 1 if hunk.old_count else hunk.start


MOST = 0.5  # of the own lines of a commit, above which it counts as undone
# For a claim: of 124 commits of curl that name an earlier one 102 take more than this share of it back and add no more
# than the rest of it to its files, of 80 near ones none. A small merge that is written anew adds as much as it takes.
NEARLY_ALL = 0.9
TakesBack = Callable[[str, Collection[str], bool], bool]


@dataclass(frozen=True)
class Step:
    commit_id: str
    place: int
    patch_id: str | None
    reverts: Sequence[str]


@dataclass
class Fate:
    """The fate of one merge: the commits that carried it, again too, and those that took it back."""

    carriers: dict[str, int]  # commit to its place
    inverses: set[str]  # patch-ids that take it back
    patches: set[str]  # patch-ids that bring it
    reverters: dict[str, int] = field(default_factory=dict)


class Branch:
    def __init__(self, steps: Iterable[Step]) -> None:
        self.places: dict[str, int] = {}
        self.naming: list[Step] = []
        self.by_patch: dict[str, list[Step]] = {}
        for step in steps:
            self.places[step.commit_id] = step.place
            if step.reverts:
                self.naming.append(step)
            if step.patch_id:
                self.by_patch.setdefault(step.patch_id, []).append(step)

    def follow(self, fate: Fate, takes_back: TakesBack) -> None:
        """Find what took a merge back, brought it again, and took that back, until nothing more is found.

        `takes_back(commit, others, is_said)` says whether a commit undoes what one of the others did; with `is_said`
        its message alone says so.
        """
        before = -1
        while before != len(fate.carriers) + len(fate.reverters):
            before = len(fate.carriers) + len(fate.reverters)
            self._find(fate.carriers, fate.inverses, fate.reverters, fate.carriers, takes_back)
            self._find(fate.reverters, fate.patches, fate.carriers, fate.reverters, takes_back)

    def _find(
        self,
        done: Mapping[str, int],
        names: Iterable[str],
        found: dict[str, int],
        known: Mapping[str, int],
        takes_back: TakesBack,
    ) -> None:
        """Add to `found` what undoes `done`: a commit with the inverse patch-id, or one whose message names it."""
        exact = {step.commit_id: step for name in names for step in self.by_patch.get(name, ())}
        said = {step.commit_id: step for step in self.naming if any(_names(step, commit) for commit in done)}
        for commit, step in {**said, **exact}.items():
            before = [one for one, place in done.items() if place < step.place]
            others = before if commit in exact else [one for one in before if _names(step, one)]
            is_new = commit not in found and commit not in known
            if is_new and others and takes_back(commit, others, commit not in exact):
                found[commit] = step.place


def _names(step: Step, commit: str) -> bool:
    return any(commit.startswith(name) for name in step.reverts)


@dataclass(frozen=True)
class OwnLines:
    """The lines by which a commit is judged, each without white space, with how often it has it.

    Lines that it adds and does not move from elsewhere; where it only moves, those; where it only takes away, those
    that it took. Lines without a letter or a digit weigh nothing. `kind` is 'added', 'moved', 'removed' or 'none'.
    """

    kind: str
    counts: Counter[bytes]

    @classmethod
    def of(cls, change: Sequence[FileChange]) -> "OwnLines":
        added, removed = _counts(change, "new"), _counts(change, "old")
        kinds = {"added": added - removed, "moved": added, "removed": removed}
        kind = next((kind for kind, counts in kinds.items() if counts), "none")
        return cls(kind, kinds.get(kind, Counter()))

    def may_go(self, change: Sequence[FileChange]) -> bool:
        """Tell whether a change has enough of these lines to undo most of them, wherever it has them."""
        other = _counts(change, "new" if self.kind == "removed" else "old")
        return (self.counts & other).total() > MOST * self.counts.total()


def share_undone(change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]) -> float:
    """Return the share of the own lines of `other` that `change` undoes where they are by then, 0 if it has none.

    `between` leads from the state behind `other` to the one before `change`, so that lines are followed through edits
    around them, moves and renames: the same text in another place is not the line.
    """
    own = OwnLines.of(other)
    if own.kind == "none":
        return 0.0
    if own.kind == "removed":
        return _come_back(change, between, other) / own.counts.total()
    tracker, left = Tracker(), Counter(own.counts)

    def claim(text: bytes) -> int | None:
        left[text] -= 1
        return 0 if left[text] >= 0 else None

    tracker.apply(other, claim)
    whole = tracker.count(0)
    tracker.apply(between, lambda _: None)
    before = tracker.count(0)
    # A move that is taken back moves the lines once more; of any other change a line that moves lives on.
    tracker.apply(_removals(change) if own.kind == "moved" else change, lambda _: None)
    gone = before - tracker.count(0)
    if own.kind == "added":
        # Of equal lines a diff may name any as the one that went: what was copied since and goes again is no loss.
        gone = min(gone, (own.counts & _fewer(change, between, other)).total())
    return gone / whole if whole else 0.0


def adds_little(change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]) -> bool:
    """Tell whether `change` brings the files of `other` next to nothing but what that one took from them."""
    own = OwnLines.of(other)
    touched = _touching(change, between, {file.before for file in other} | {file.after for file in other})
    added = _counts(touched, "new") - _counts(touched, "old") - _counts(other, "old")
    return added.total() <= (1 - NEARLY_ALL) * own.counts.total()


def _touching(
    change: Sequence[FileChange], between: Sequence[FileChange], names: Collection[bytes]
) -> list[FileChange]:
    """The files of a change that had these names before `between`, or have them now."""
    later = {*names, *(file.after for file in between if file.before in names)} - {b""}
    return [file for file in change if file.before in later or file.after in later]


def _fewer(change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]) -> Counter[bytes]:
    """Return how many copies of each line the files of `other` have lost since, `change` included."""
    touched = _touching((*between, *change), between, {file.after for file in other})
    return _counts(touched, "old") - _counts(touched, "new")


def _come_back(change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]) -> int:
    """Return how many lines that `other` took away `change` adds to the same files, by their names then."""
    names = {file.before: file.after for file in between if file.before and file.after}
    back: dict[bytes, Counter[bytes]] = {}
    for file in change:
        back.setdefault(file.after, Counter()).update(_counts([file], "new") - _counts([file], "old"))
    taken: dict[bytes, Counter[bytes]] = {}
    for file in other:
        name = file.after or file.before
        taken.setdefault(names.get(name, name), Counter()).update(_counts([file], "old"))
    return sum((lines & back.get(name, Counter())).total() for name, lines in taken.items())


def _removals(change: Sequence[FileChange]) -> list[FileChange]:
    """The same change, without the text of the lines that it adds."""
    return [
        FileChange(
            file.before,
            file.after,
            [Hunk(hunk.start, hunk.old_count, hunk.into, hunk.new_count, hunk.old) for hunk in file.hunks],
        )
        for file in change
    ]


def _counts(change: Sequence[FileChange], side: str) -> Counter[bytes]:
    lines = (text for file in change for hunk in file.hunks for text in getattr(hunk, side))
    return Counter(text for text in lines if has_word(text))


def texts(change: Sequence[FileChange], side: str) -> set[bytes]:
    """Return every line that a commit takes away ('old') or adds ('new'), without white space."""
    return {text for file in change for hunk in file.hunks for text in getattr(hunk, side) if text}
