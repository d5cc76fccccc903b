"""Whether a commit is exactly what a series of mails makes of its parent, proven by applying them."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ingest.commits import DIFF, DIFF_SECONDS
from ingest.diffs import split_mails
from ingest.git import TRIAL, Git
from ingest.plain_words import FetchProblem

_STAT = re.compile(r" \d+ files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?")


def growth(git: Git, commits: Sequence[str]) -> dict[str, int]:
    """Lines added less lines removed, for those of these commits that can be read. A series and its squash agree in it.

    Raises FetchProblem.
    """
    found: dict[str, int] = {}
    current = ""
    with git.stream(*DIFF, "--shortstat", "--no-renames", given=commits, seconds=DIFF_SECONDS) as out:
        for line in iter(lambda: out.readline(1_000), b""):
            text = line.decode("ascii", "replace").rstrip("\n")
            if stat := _STAT.match(text):
                found[current] = int(stat[1] or 0) - int(stat[2] or 0)
            else:
                current = text
    return found


def is_squash(git: Git, commit: str, patch: str) -> bool:
    """Whether this patch, applied to the commit's first parent, gives the commit's tree. The mirror stays as it is."""
    try:
        wanted = git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")
        with tempfile.TemporaryDirectory(prefix=TRIAL, dir=git.folder) as folder:
            index = Path(folder)
            (index / "objects").mkdir()
            git.run("read-tree", f"{commit}^1", index=index)
            for mail in split_mails(patch):
                if any(line.startswith(("diff --git ", "--- ")) for line in mail):  # a cover letter changes nothing
                    git.run("apply", "--cached", "--whitespace=nowarn", "-", given=mail, index=index)
            return git.run("write-tree", index=index) == wanted
    except FetchProblem as problem:
        if problem.closed:
            raise
        return False
