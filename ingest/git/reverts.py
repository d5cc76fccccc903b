"""Find the commits that take a merge back and those that bring it again.

A message or an inverse patch-id finds a candidate; the candidate counts where most lines of the merge go. Both are
written by whoever offers a pull request: a message may name any commit, and a copy of somebody's lines that is removed
again has the patch-id that removes the original. So a message that is not known to be by somebody who may push counts
only where the commit is an inverse but for details: nearly all lines of the merge go, and next to nothing comes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.git.lines import FileChange, Hunk, Tracker, has_word

MOST = 0.5  # of the own lines of a commit, above which it counts as undone
# For a claim: of 124 commits of curl that name an earlier one 102 take more than this share of it back and add no more
# than the rest of it to its files, of 80 near ones none. A small merge that is written anew adds as much as it takes.
NEARLY_ALL = 0.9
TakesBack = Callable[[str, Collection[str], bool], bool]


@dataclass(frozen=True)
class Step:
    """A commit of the branch, in the order of the branch."""

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
    """The commits of a branch by what they carry and name."""

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
