"""Shares of lines that real reverts take back: `python -m tests.bench.bench_reverts [GIT_DIR]`.

One line of JSON. Of every commit whose message names an earlier one ("This reverts commit"), the share of the named
commit's own lines that go, and how many count whoever says so. Beside it the same where nobody reverts anything, for
pairs of a commit and one of the next 30 that takes away at least one line of the same text, which one line alone would
have counted as a revert. The default is this project's own history, which has few.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from ingest.git.history import Graph, read_commits, read_graph
from ingest.git.process import Git
from ingest.git.reverts import MOST, NEARLY_ALL, FileChange, OwnLines, adds_little, read_changes, share_undone, texts
from tests.ingest.git.git_world import GIT

PAIRS, NEAR, DRAWS, SECONDS = 200, 30, 2_000, 600.0


class History:
    """One branch, from which shares are read."""

    def __init__(self, folder: Path) -> None:
        self.git = Git(folder)
        tip = self.git.run("rev-parse", "HEAD").decode().strip()
        self.graph: Graph = read_graph(self.git, tip)

    def change(self, commit: str, against: str | None = None) -> list[FileChange]:
        parents = {commit: against} if against else self.graph.first_parents
        return dict(read_changes(self.git, [commit], parents, SECONDS))[commit]

    def share(self, commit: str, other: str) -> tuple[float, bool] | None:
        """The share of the lines of `other` that `commit` takes back, and if it adds little; None without lines."""
        if not self.graph.parents[commit]:
            return None
        own, change, before = self.change(other), self.change(commit), self.graph.parents[commit][0]
        if OwnLines.of(own).kind == "none":
            return None
        between = self.change(before, other)
        return share_undone(change, between, own), adds_little(change, between, own)

    def named(self) -> Iterable[tuple[str, str]]:
        """(commit, the earlier one that its message names)."""
        ids = sorted(self.graph.places)
        for commit in read_commits(self.git, list(self.graph.places)):
            for name in commit.reverts:
                found = [one for one in ids if one.startswith(name)]
                if len(found) == 1 and self.graph.places[found[0]] < self.graph.places[commit.commit_id]:
                    yield commit.commit_id, found[0]

    def others(self) -> Iterable[tuple[str, str]]:
        """Pairs of commits near each other of which the later takes away a line of the earlier one's text."""
        draw, states = random.Random(1), self.graph.states
        for _ in range(DRAWS if len(states) > 2 * NEAR else 0):
            place = draw.randrange(1, len(states) - NEAR)
            other, commit = states[place], states[place + draw.randrange(1, NEAR)]
            if texts(self.change(commit), "old") & texts(self.change(other), "new"):
                yield commit, other


def summary(shares: Sequence[tuple[float, bool]]) -> dict[str, object]:
    bounds = (0.0, 0.1, 0.25, MOST, 0.75, 0.9)
    claims = {"as a claim": sum(share > NEARLY_ALL and is_pure for share, is_pure in shares)}
    above = {f"above {bound:g}": sum(share > bound for share, _ in shares) for bound in bounds}
    return {"pairs": len(shares)} | above | claims


def main(folder: Path) -> None:
    history = History(folder)
    named = [share for pair in history.named() if (share := history.share(*pair)) is not None]
    others = [share for pair in islice(history.others(), PAIRS) if (share := history.share(*pair)) is not None]
    print(json.dumps({"named": summary(named), "others": summary(others)}))


if __name__ == "__main__":
    own = [GIT, "rev-parse", "--path-format=absolute", "--git-common-dir"]
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(subprocess.check_output(own, text=True).strip()))
