"""The commits of the mirrors, each with the span in which it came to be there.

A fetch shows what was there at its moment and what was not: a commit that one fetch brings was absent at the fetch
before. The first fetch proves no absence.

The shape of a branch is the chain of its own states; it tells which of them brought each commit.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.errors import FetchProblem
from ingest.git.commits import Commit, read_commits, read_diffs
from ingest.git.mirror import mirror_path
from ingest.git.patch import DiffReader
from ingest.git.process import Git
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store

CHUNK = 1_000  # commits a transaction
COMMITS = 200_000  # of one repository, the newest; Linux makes 80,000 a year
BRANCHES = 200  # of one repository whose commits are listed: those that pull requests name

UNREAD = """
select * from mirrors semi join watched_repositories using (repository_id)
where fetched_at is not null and read_at is distinct from fetched_at order by repository_id
"""
TARGETS = """
select target_branch as branch from pull_requests
where repository_id = ? and target_branch is not null group by target_branch order by max(seen_at) desc limit ?
"""
Row = Mapping[str, Any]


def unread_mirrors(store: Store) -> int:
    """Return how many mirrors have refs whose commits are not in the tables."""
    with store.read() as rows:
        return rows.value(f"select count(*) from ({UNREAD})")


def read_history(store: Store, fetcher: Fetcher, folder: Path, now: Callable[[], datetime]) -> int:
    """Read what the mirrors' newest refs brought; returns how many commits are new.

    A mirror that cannot be read is marked failed, and read again after its next fetch.
    """
    with store.read() as rows:
        mirrors = rows.rows(UNREAD)
    found = 0
    for mirror in mirrors:
        if fetcher.closed:
            break
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            found += _read(store, git, mirror, now())
        except FetchProblem as problem:
            if not problem.closed:
                with store.write() as txn:
                    sql = "update mirrors set state = 'failed', reason = ? where repository_id = ?"
                    txn.execute(sql, [f"its history cannot be read: {problem}", mirror["repository_id"]])
    return found


def closing(fetcher: Fetcher) -> Callable[[], FetchProblem | None]:
    """Ends a child when the fetcher is closed."""
    return lambda: FetchProblem("the fetcher was closed", retry=True, closed=True) if fetcher.closed else None


def _read(store: Store, git: Git, mirror: Row, now: datetime) -> int:
    number, absent = mirror["repository_id"], mirror["read_at"]
    before, after = json.loads(mirror["read_refs"]), json.loads(mirror["refs"])
    fresh = reachable(git, after.values(), before.values())
    with store.read() as rows:
        sql = "select commit_id from commits where repository_id = ? and commit_id in (select unnest(?))"
        known = {row["commit_id"] for row in rows.rows(sql, [number, fresh])}
        wanted = [row["branch"] for row in rows.rows(TARGETS, [number, BRANCHES])]
    unknown = [commit for commit in fresh if commit not in known]
    span = {"repository_id": number, "absent_at": absent, "appeared_at": now}
    for start in range(0, len(unknown), CHUNK):
        made = _commit_rows(git, unknown[start : start + CHUNK], span)
        with store.write() as txn:
            txn.append_new("commits", made)
    head = [mirror["head"]] if mirror["head"] in after else []
    branches = [branch for branch in dict.fromkeys([*head, *wanted]) if branch in after]
    listed = [_branch_rows(store, git, branch, before, after, span) for branch in branches]
    with store.write() as txn:
        for some in listed:
            txn.append_new("branch_commits", some)
        # These refs are read, unless newer ones were fetched meanwhile: then those are read next, after these.
        sql = "update mirrors set read_at = ?, read_refs = ? where repository_id = ?"
        txn.execute(sql, [mirror["fetched_at"], mirror["refs"], number])
    return len(unknown)


def reachable(git: Git, tips: Iterable[str], old: Iterable[str] = (), *options: str) -> list[str]:
    """Commits behind `tips` and not behind `old`, oldest first; tips that the mirror lost count as not there."""
    given = [*dict.fromkeys(tips), *(f"^{commit}" for commit in dict.fromkeys(old))]
    if not given:
        return []
    options = ("--topo-order", f"--max-count={COMMITS}", "--ignore-missing", *options)
    answer = git.run("rev-list", *options, "--stdin", given=given, limit=COMMITS * 70)
    return answer.decode("ascii").split()[::-1]


def _commit_rows(git: Git, commits: Sequence[str], span: Row) -> list[dict[str, object]]:
    told = list(read_commits(git, commits))
    diffs = dict(read_diffs(git, [commit.commit_id for commit in told if len(commit.parents) < 2]))
    return [_commit_row(commit, diffs.get(commit.commit_id), span) for commit in told]


def _commit_row(commit: Commit, diff: DiffReader | None, span: Row) -> dict[str, object]:
    readable = diff is not None and diff.sound and diff.files
    return {
        **span,
        "commit_id": commit.commit_id,
        "patch_id": diff.identity() if diff and readable else None,
        "proves": bool(diff and readable and diff.proves),
        "subject": commit.subject,
        "change_id": commit.change_id,
        "reverts": list(commit.reverts),
        "authored_at": commit.authored_at,
        "committed_at": commit.committed_at,
        "signature": commit.signature,
    }


def _branch_rows(
    store: Store, git: Git, branch: str, before: Mapping[str, str], after: Mapping[str, str], span: Row
) -> list[dict[str, object]]:
    """Return what one branch has come to hold.

    A branch that is listed for the first time brings what it held before too.
    """
    old = [before[branch]] if branch in before else []
    rows = [{**span, "branch": branch, "commit_id": commit} for commit in reachable(git, [after[branch]], old)]
    with store.read() as known:
        sql = "select count(*) from branch_commits where repository_id = ? and branch = ?"
        listed = known.value(sql, [span["repository_id"], branch])
    if listed or not old:
        return rows
    earlier = {**span, "branch": branch, "absent_at": None}
    return [*rows, *({**earlier, "commit_id": commit} for commit in reachable(git, old))]


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
