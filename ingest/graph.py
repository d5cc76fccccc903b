"""The shape of a branch: the chain of its own states, and which of them brought each commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingest.git import Git
from ingest.history import COMMITS


@dataclass(frozen=True)
class Graph:
    """A branch's commits. A state is what the branch was after one push: its first parents, from the tip back."""

    places: Mapping[str, int]  # parents before children
    parents: Mapping[str, Sequence[str]]
    states: Sequence[str]  # oldest first
    brought_by: Mapping[str, str]  # each commit's state; a state brings itself
    brings: Mapping[str, Sequence[str]]  # of a state that is a merge, what came with it, without merges

    @property
    def first_parents(self) -> dict[str, str]:
        """The parent against which a merge is compared."""
        return {commit: parents[0] for commit, parents in self.parents.items() if len(parents) > 1}


def read_graph(git: Git, tip: str) -> Graph:
    """The graph behind a branch's newest commit, at most 200,000 commits of it. Raises FetchProblem."""
    options = ("--topo-order", "--parents", f"--max-count={COMMITS}", "--stdin")
    lines = git.run("rev-list", *options, given=[tip], limit=COMMITS * 300).decode("ascii").splitlines()
    parents = {line.split(" ", 1)[0]: line.split(" ")[1:] for line in reversed(lines)}
    states, commit = [], tip
    while commit in parents:
        states.append(commit)
        commit = parents[commit][0] if parents[commit] else ""
    states.reverse()
    brought_by: dict[str, str] = {}
    brings: dict[str, list[str]] = {}
    for state in states:
        came = _behind(state, parents, brought_by)
        if len(came) > 1:
            brings[state] = [commit for commit in came if len(parents[commit]) < 2]
    return Graph({commit: place for place, commit in enumerate(parents)}, parents, states, brought_by, brings)


def _behind(state: str, parents: Mapping[str, Sequence[str]], brought_by: dict[str, str]) -> list[str]:
    """The commits that this state is the first to have, itself among them."""
    waiting, came = [state], []
    while waiting:
        commit = waiting.pop()
        if commit in parents and commit not in brought_by:
            brought_by[commit] = state
            came.append(commit)
            waiting.extend(parents[commit])
    return came
