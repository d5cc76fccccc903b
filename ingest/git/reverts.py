"""Follow the lines of a merge, and find the commits that revert it and those that bring it again.

Diffs are read without context; white space is ignored and renames are found. Lines are followed from commit to commit
through edits around them, moves and renames. A line counts as changed when a commit removes it and adds no line with
the same text anywhere: moved, renamed and re-indented lines live on. Lines without a letter or a digit have no owner:
moving a brace is not a fix.

A message or an inverse patch-id makes a commit a candidate; the candidate counts if most lines of the merge go. Authors
of pull requests control both: a message may name any commit, and somebody may copy lines and remove the copy again,
which has the patch-id that removes the original. So a message counts only if its author is known to have push rights,
or if the commit is almost an exact inverse: nearly all lines of the merge go, and next to nothing comes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from ingest.errors import FetchProblem
from ingest.git.history import DIFF
from ingest.git.process import Git

COMMIT_LINES = 200_000  # of one commit: later lines are read and dropped
PATHS_LIMIT = 50_000_000  # bytes of the paths at which two commits differ
LINE_LIMIT = 4_000  # bytes of a line that are kept
# A change of white space alone does not change a line, and leaves every other line where it was.
CHANGES = (*DIFF, "-p", "-U0", "-M", "-w", "--no-prefix")

_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")


@dataclass
class Hunk:
    """Replaced lines: `old` from line `start` on becomes `new` from line `into` on, each without white space.

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
    """One file's part of a change. Names are quoted as git quotes them, and empty where a side does not exist."""

    before: bytes = b""
    after: bytes = b""
    hunks: list[Hunk] = field(default_factory=list)


def read_changes(
    git: Git, commits: Sequence[str], parents: Mapping[str, str], seconds: float
) -> Iterator[tuple[str, list[FileChange]]]:
    """Yield the changes of each commit against `parents[commit]`, or else its only parent. Raises FetchProblem."""
    if not commits:
        return
    requests = [f"{commit} {parents[commit]}" if commit in parents else commit for commit in commits]
    with git.stream(*CHANGES, given=requests, seconds=seconds) as output:
        marks = [f"{commit}\n".encode() for commit in commits]
        if output.readline(100) != marks[0]:
            raise FetchProblem("git answered about another commit than asked")
        for commit, following in zip(commits, [*marks[1:], b""], strict=True):
            yield commit, _read_commit_changes(output, following)


def changed_paths(git: Git, before: str, after: str) -> set[bytes]:
    """Return the paths at which two commits differ in content or mode. Raises FetchProblem."""
    output = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, limit=PATHS_LIMIT)
    return set(output.split(b"\0")) - {b""}


class _Reader:
    def __init__(self) -> None:
        self.files: list[FileChange] = []
        self.hunk = Hunk(0, 0, 0, 0)
        self.before = self.after = 0  # lines that the running hunk still needs
        self.kept = 0

    def line(self, line: bytes) -> None:
        if self.before or self.after:
            self._read_hunk_line(line)
        elif line.startswith(b"diff --git "):
            self.files.append(FileChange())
        elif self.files:
            self._read_header(self.files[-1], line)

    def _read_hunk_line(self, line: bytes) -> None:
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

    def _read_header(self, file: FileChange, line: bytes) -> None:
        if match := _HUNK.match(line):
            start, old_count, into, new_count = (int(count) if count is not None else 1 for count in match.groups())
            self.hunk, self.before, self.after = Hunk(start, old_count, into, new_count), old_count, new_count
            file.hunks.append(self.hunk)
        elif line.startswith((b"rename from ", b"copy from ")):
            file.before = line.split(b" ", 2)[2] if line.startswith(b"rename") else b""
        elif line.startswith(b"rename to "):
            file.after = line.split(b" ", 2)[2]
        elif line.startswith(b"--- ") and line != b"--- /dev/null":
            file.before = file.before or line[4:].rstrip(b"\t")
        elif line.startswith(b"+++ ") and line != b"+++ /dev/null":
            file.after = file.after or line[4:].rstrip(b"\t")


def _read_commit_changes(output: IO[bytes], following: bytes) -> list[FileChange]:
    reader = _Reader()
    while line := output.readline(LINE_LIMIT):
        if line == following and not (reader.before or reader.after):
            return reader.files
        reader.line(line.rstrip(b"\n"))
        while line and not line.endswith(b"\n"):
            line = output.readline(65_536)
    if following:
        raise FetchProblem("git ended before its last commit")
    return reader.files


OWN_LINES = 50_000  # lines of one owner that are followed

Place = tuple[bytes, int]

_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")


class Tracker:
    """The lines of every owner in the newest state of one branch. An owner is any number."""

    def __init__(self) -> None:
        self._files: dict[bytes, dict[int, int]] = {}
        self._count_lines: dict[int, int] = defaultdict(int)

    def count(self, owner: int) -> int:
        return sum(line_owner == owner for lines in self._files.values() for line_owner in lines.values())

    def forget(self, owners: Iterable[int]) -> None:
        forgotten = set(owners)
        for path, lines in list(self._files.items()):
            remaining = {line: owner for line, owner in lines.items() if owner not in forgotten}
            self._set_lines(path, remaining)

    def apply(self, files: Sequence[FileChange], claim: Callable[[bytes], int | None]) -> Mapping[int, set[bytes]]:
        """Follow one commit. `claim` gives the owner of an added text; returns the changed texts of each owner."""
        added = _locate_added_lines(files)
        moved: dict[bytes, dict[int, int]] = defaultdict(dict)
        lost: dict[int, set[bytes]] = defaultdict(set)
        changed_files = [(file, self._files.pop(file.before)) for file in files if file.before in self._files]
        for file, lines in changed_files:
            remaining, removed = _shift_lines(lines, file.hunks)
            if file.after:
                moved[file.after].update(remaining)
            for text, owner in removed:
                if places := added.get(text):
                    path, line = places.pop(0)
                    moved[path][line] = owner
                else:
                    lost[owner].add(text)
        self._claim(added, moved, claim)
        for path, lines in moved.items():
            self._set_lines(path, {**self._files.get(path, {}), **lines})
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
                if owner is not None and self._count_lines[owner] < OWN_LINES:
                    self._count_lines[owner] += 1
                    moved[path][line] = owner

    def _set_lines(self, path: bytes, lines: dict[int, int]) -> None:
        if lines:
            self._files[path] = lines
        else:
            self._files.pop(path, None)


def has_word(text: bytes) -> bool:
    """Tell if a line has a letter or a digit; other lines have no owner."""
    return _WORD.search(text) is not None


def _locate_added_lines(files: Sequence[FileChange]) -> dict[bytes, list[Place]]:
    places: dict[bytes, list[Place]] = defaultdict(list)
    for file in files:
        for hunk in file.hunks:
            for offset, text in enumerate(hunk.new):
                if has_word(text):
                    places[text].append((file.after, hunk.into + offset))
    return places


def _shift_lines(lines: Mapping[int, int], hunks: Sequence[Hunk]) -> tuple[dict[int, int], list[tuple[bytes, int]]]:
    """Return the remaining lines at their new numbers, and the (text, owner) pairs of the removed lines."""
    remaining: dict[int, int] = {}
    removed: list[tuple[bytes, int]] = []
    shift, later_hunks = 0, iter(hunks)
    hunk = next(later_hunks, None)
    for line in sorted(lines):
        while hunk is not None and line > _last_old_line(hunk):
            shift += hunk.new_count - hunk.old_count
            hunk = next(later_hunks, None)
        if hunk is not None and hunk.old_count and line >= hunk.start:
            offset = line - hunk.start
            removed.append((hunk.old[offset] if offset < len(hunk.old) else b"", lines[line]))
        else:
            remaining[line + shift] = lines[line]
    return remaining, removed


def _last_old_line(hunk: Hunk) -> int:
    """Return the last old line before or in a hunk's own lines."""
    return hunk.start + hunk.old_count - 1 if hunk.old_count else hunk.start


MOST = 0.5  # of the own lines of a commit, above which it counts as undone
# For a claim. Of 124 commits of curl that name an earlier one, 102 remove more than this share of it and add no more
# than the rest to its files; of 80 nearby ones none does. A small merge that is rewritten adds as much as it removes.
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
    """The fate of one merge: the commits that carried it, also later ones, and the commits that reverted it."""

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
        """Find the commits that revert a merge, bring it again, revert that, and so on, until nothing more is found.

        `takes_back(commit, others, is_said)` tells if a commit undoes the change of one of the others; `is_said` means
        that only its message claims it.
        """
        before = -1
        while before != len(fate.carriers) + len(fate.reverters):
            before = len(fate.carriers) + len(fate.reverters)
            self._find_undoing(fate.carriers, fate.inverses, fate.reverters, fate.carriers, takes_back)
            self._find_undoing(fate.reverters, fate.patches, fate.carriers, fate.reverters, takes_back)

    def _find_undoing(
        self,
        done: Mapping[str, int],
        names: Iterable[str],
        undoing: dict[str, int],
        listed: Mapping[str, int],
        takes_back: TakesBack,
    ) -> None:
        """Add to `undoing` the commits that undo `done`, by an inverse patch-id or by naming one in the message."""
        exact = {step.commit_id: step for name in names for step in self.by_patch.get(name, ())}
        by_message = {step.commit_id: step for step in self.naming if any(_names(step, commit) for commit in done)}
        for commit, step in {**by_message, **exact}.items():
            earlier = [earlier_commit for earlier_commit, place in done.items() if place < step.place]
            others = (
                earlier
                if commit in exact
                else [earlier_commit for earlier_commit in earlier if _names(step, earlier_commit)]
            )
            is_new = commit not in undoing and commit not in listed
            if is_new and others and takes_back(commit, others, commit not in exact):
                undoing[commit] = step.place


def _names(step: Step, commit: str) -> bool:
    return any(commit.startswith(name) for name in step.reverts)


@dataclass(frozen=True)
class OwnLines:
    """The lines by which a commit is judged, each without white space, with their counts.

    These are the lines that the commit adds and does not move from elsewhere; if it only moves lines, the moved ones;
    if it only removes lines, the removed ones. Lines without a letter or a digit do not count. `kind` is 'added',
    'moved', 'removed' or 'none'.
    """

    kind: str
    counts: Counter[bytes]

    @classmethod
    def of(cls, change: Sequence[FileChange]) -> "OwnLines":
        added, removed = _count_lines(change, "new"), _count_lines(change, "old")
        kinds = {"added": added - removed, "moved": added, "removed": removed}
        kind = next((kind for kind, counts in kinds.items() if counts), "none")
        return cls(kind, kinds.get(kind, Counter()))

    def may_go(self, change: Sequence[FileChange]) -> bool:
        """Tell if a change has enough of these lines to undo most of them, in whatever files."""
        other = _count_lines(change, "new" if self.kind == "removed" else "old")
        return (self.counts & other).total() > MOST * self.counts.total()


def share_undone(change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]) -> float:
    """Return the share of the own lines of `other` that `change` undoes; 0 if `other` has none.

    `between` leads from the state after `other` to the state before `change`, so that lines are followed through edits
    around them, moves and renames: equal text in another place is not the same line.
    """
    own = OwnLines.of(other)
    if own.kind == "none":
        return 0.0
    if own.kind == "removed":
        return _count_restored_lines(change, between, other) / own.counts.total()
    tracker, unclaimed = Tracker(), Counter(own.counts)

    def claim(text: bytes) -> int | None:
        unclaimed[text] -= 1
        return 0 if unclaimed[text] >= 0 else None

    tracker.apply(other, claim)
    total = tracker.count(0)
    tracker.apply(between, lambda _: None)
    before = tracker.count(0)
    # A reverted move moves the lines once more; in any other change a line that moves lives on.
    tracker.apply(_without_added_text(change) if own.kind == "moved" else change, lambda _: None)
    lost = before - tracker.count(0)
    if own.kind == "added":
        # A diff may name any of several equal lines as the removed one: a later copy that goes again is not a loss.
        lost = min(lost, (own.counts & _count_lost_copies(change, between, other)).total())
    return lost / total if total else 0.0


def adds_little(change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]) -> bool:
    """Tell if `change` adds next to nothing to the files of `other` except the lines that `other` removed."""
    own = OwnLines.of(other)
    touched = _select_touching(change, between, {file.before for file in other} | {file.after for file in other})
    added = _count_lines(touched, "new") - _count_lines(touched, "old") - _count_lines(other, "old")
    return added.total() <= (1 - NEARLY_ALL) * own.counts.total()


def _select_touching(
    change: Sequence[FileChange], between: Sequence[FileChange], names: Collection[bytes]
) -> list[FileChange]:
    """Return the files of a change that had these names before `between`, or have them now."""
    later = {*names, *(file.after for file in between if file.before in names)} - {b""}
    return [file for file in change if file.before in later or file.after in later]


def _count_lost_copies(
    change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]
) -> Counter[bytes]:
    """Return how many copies of each line the files of `other` have lost since, `change` included."""
    touched = _select_touching((*between, *change), between, {file.after for file in other})
    return _count_lines(touched, "old") - _count_lines(touched, "new")


def _count_restored_lines(
    change: Sequence[FileChange], between: Sequence[FileChange], other: Sequence[FileChange]
) -> int:
    """Return how many lines that `other` removed `change` adds to the same files, under their later names."""
    names = {file.before: file.after for file in between if file.before and file.after}
    added: dict[bytes, Counter[bytes]] = {}
    for file in change:
        added.setdefault(file.after, Counter()).update(_count_lines([file], "new") - _count_lines([file], "old"))
    removed: dict[bytes, Counter[bytes]] = {}
    for file in other:
        name = file.after or file.before
        removed.setdefault(names.get(name, name), Counter()).update(_count_lines([file], "old"))
    return sum((lines & added.get(name, Counter())).total() for name, lines in removed.items())


def _without_added_text(change: Sequence[FileChange]) -> list[FileChange]:
    """Return the change without the text of its added lines."""
    return [
        FileChange(
            file.before,
            file.after,
            [Hunk(hunk.start, hunk.old_count, hunk.into, hunk.new_count, hunk.old) for hunk in file.hunks],
        )
        for file in change
    ]


def _count_lines(change: Sequence[FileChange], side: str) -> Counter[bytes]:
    lines = (text for file in change for hunk in file.hunks for text in getattr(hunk, side))
    return Counter(text for text in lines if has_word(text))


def texts(change: Sequence[FileChange], side: str) -> set[bytes]:
    """Return every line that a commit removes ('old') or adds ('new'), without white space."""
    return {text for file in change for hunk in file.hunks for text in getattr(hunk, side) if text}
