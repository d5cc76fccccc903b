"""Which commits take a merge back, and which bring it again, judged by what they change and not by what they say alone.

A message that names a commit counts where the commit does take some of it back: whoever offers a pull request writes
its message.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.changes import FileChange


@dataclass(frozen=True)
class Step:
    """A commit of the branch, in the order of the branch."""

    commit_id: str
    place: int
    patch_id: str | None
    reverts: Sequence[str]


@dataclass
class Fate:
    """What became of one merge: the commits that carried it, again too, and those that took it back."""

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

    def follow(self, fate: Fate, takes_back: Callable[[str, Collection[str]], bool]) -> None:
        """Find what took a merge back, brought it again, and took that back, until nothing more is found.

        `takes_back(commit, others)` says whether a commit undoes some of what the others did.
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
        takes_back: Callable[[str, Collection[str]], bool],
    ) -> None:
        """Add to `found` what undoes `done`: by an exact inverse, or by its message and some of its lines."""
        if not done:
            return
        first = min(done.values())
        exact = [step for name in names for step in self.by_patch.get(name, ())]
        said = [step for step in self.naming if any(_names(step, commit) for commit in done)]
        for step in exact + said:
            fresh = step.commit_id not in found and step.commit_id not in known and step.place > first
            if fresh and (step in exact or takes_back(step.commit_id, [one for one in done if _names(step, one)])):
                found[step.commit_id] = step.place


def _names(step: Step, commit: str) -> bool:
    return any(commit.startswith(name) for name in step.reverts)


def undoes(change: Sequence[FileChange], other: Sequence[FileChange]) -> bool:
    """Whether one commit takes away a line that another added, or adds one that it took away."""
    if texts(change, "old") & texts(other, "new") or texts(change, "new") & texts(other, "old"):
        return True
    plain = not (texts(other, "old") or texts(other, "new"))  # modes, renames and binary files have no lines
    return plain and bool(_paths(change) & _paths(other))


def texts(change: Sequence[FileChange], side: str) -> set[bytes]:
    """Every line that a commit takes away ('old') or adds ('new'), without white space."""
    return {text for file in change for hunk in file.hunks for text in getattr(hunk, side) if text}


def _paths(change: Sequence[FileChange]) -> set[bytes]:
    return {name for file in change for name in (file.before, file.after) if name}
