"""The columns of a file of past pull requests (docs/history.md), and which are never read. Pure."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "whole", "time", "flag"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column that is read; `needed`: a file without it is refused, and so is a row without a value."""

    name: str
    kind: Kind
    words: str
    needed: bool = False


COLUMNS = (
    Column("repo", "text", "the project as the file calls it, at most 200 characters", needed=True),
    Column("number", "whole", "of the pull request in that project", needed=True),
    Column("author", "text", "who opened it, as the file calls people, at most 200 characters", needed=True),
    Column("opened_at", "time", "when it was opened", needed=True),
    Column("snapshot_at", "time", "until when what happens to it was watched", needed=True),
    Column("state", "text", "merged, closed, closed_or_stale (180 days quiet), open or open_or_recent", needed=True),
    Column("additions", "whole", "lines added", needed=True),
    Column("deletions", "whole", "lines removed", needed=True),
    Column("files_touched", "whole", "files changed", needed=True),
    Column("did", "text", "the author's DID, where it is known"),
    Column("merged_at", "time", "when it was merged; every merged one has it, and no other"),
    Column("closed_at", "time", "when it was closed without a merge; every closed one has it"),
    Column("last_commit_at", "time", "its newest commit: the 180 quiet days of closed_or_stale begin then"),
    Column("reverted", "flag", "whether it was taken back; known from reverted_at, else from snapshot_at"),
    Column("reverted_at", "time", "when it was taken back"),
    Column("patched14_code", "flag", "whether lines that it added were changed within 14 days"),
    Column("patched14_code_fix", "flag", "the same, and the change says that it is a fix"),
    Column("patched14_first_at", "time", "when they first were; without it the end of the 14 days"),
    Column("checks_known", "flag", "whether the result of its checks is known (no)"),
    Column("checks_failed_at", "time", "when its checks failed for the second time"),
    Column("as_sent", "flag", "whether what was merged is what was first sent, a rebase without change included"),
    Column("push_holder", "flag", "whether the author had push access then; else 30 earlier merges count as that"),
    Column("is_bot", "flag", "whether the author is a program (no)"),
    Column("usable", "flag", "no: left out of every figure, unless it is only still open (yes)"),
    Column("binary_files", "whole", "how many of the files have no lines"),
    Column("touches_tests", "flag", "whether it changes tests"),
    Column("docs_only", "flag", "whether it changes nothing but documentation"),
    Column("touches_sensitive", "flag", "whether it changes what a person should always read"),
    Column(
        "title", "text", "only its length is kept, and whether it speaks of fixes, documentation, what is new, or code"
    ),
)
# They follow from what became of a pull request: whoever learns from them has read the answer.
LEAKING = ("n_commits", "n_authors", "fork_owner")
