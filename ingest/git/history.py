"""Read the commits of the mirrors as git stores them, and the time span in which each one appeared.

The headers of a commit, its changes and the texts of files at it are read within bounds; odd bytes raise no error here.
A fetch shows which commits existed at its time and which did not: a commit that one fetch brings was absent at the
fetch before. The first fetch proves no absence. The shape of a branch is the chain of its own states, which tells the
state that brought each commit.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from ingest.clock import EPOCH
from ingest.errors import FetchProblem
from ingest.git.mirror import mirror_path
from ingest.git.patch import DiffReader, change_id
from ingest.git.process import Git
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store

OBJECT_LIMIT = 1_000_000  # bytes of one commit object
DIFF_LIMIT = 4_000_000  # bytes of one commit's diff: a larger one gets no patch-id, as no larger patch is read either
DIFF_SECONDS = 60.0  # for a chunk of diffs: nested trees may unfold without end
BROKEN = 3  # commits of one chunk on which git may fail; after that the rest of the chunk stays unread
SUBJECT, SIGNATURE, REVERTS = 300, 10_000, 50

_MOMENT = re.compile(rb"> (-?[0-9]{1,12}) [+-][0-9]{1,6}\s*\Z")
_REVERTS = re.compile(r"This reverts commits?\s+((?:[0-9a-f]{7,64}\b[\s,;and]*)+)")
_ID = re.compile(r"\b[0-9a-f]{7,64}\b")
_SPAN = 253_402_300_799  # the last second of 9999
DIFF = ("diff-tree", "--stdin", "--root", "-r", "--always", "--no-ext-diff", "--no-textconv", "--no-color")
# As `git format-patch` makes them: 3 lines of context, renames found. Binary content is named by its objects alone.
PATCH = (*DIFF, "-p", "-U3", "-M", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")

# Options for the inverse diff; -R would swap the prefixes too.
INVERSE = ("-R", "--src-prefix=b/", "--dst-prefix=a/")


@dataclass(frozen=True)
class Commit:
    """The claims that a commit makes about itself; its author chose them."""

    commit_id: str
    parents: tuple[str, ...]
    subject: str
    change_id: str | None
    reverts: tuple[str, ...]
    authored_at: datetime
    committed_at: datetime
    signature: str | None


def read_commits(git: Git, commits: Sequence[str]) -> Iterator[Commit]:
    """Yield these commits in order, without those that cannot be read. Raises FetchProblem."""
    for commit_id, data in read_objects(git, commits):
        yield parse_commit(commit_id, data)


def read_objects(git: Git, commits: Sequence[str], index: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield these commits' names and contents, cut at OBJECT_LIMIT, as `read_commits` does; `index` as in `Git.run`."""
    with git.stream("cat-file", "--batch", "--buffer", given=commits, index=index) as output:
        for _ in commits:
            head = output.readline(1_000).split()
            if len(head) != 3 or not head[2].isdigit():
                continue
            data = _read_object(output, int(head[2]))
            if head[1] == b"commit":
                yield head[0].decode("ascii", "replace"), data


def _read_object(output: IO[bytes], size: int) -> bytes:
    """Return one object's content, cut at the limit, and skip the line end behind it."""
    data = output.read(min(size, OBJECT_LIMIT))
    bytes_left = size - len(data) + 1
    while bytes_left > 0 and (chunk := output.read(min(bytes_left, 65_536))):
        bytes_left -= len(chunk)
    return data


def parse_commit(commit_id: str, data: bytes) -> Commit:
    """Parse a commit object's content. Never raises."""
    head, _, body = data.partition(b"\n\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in head.split(b"\n"):
        if line.startswith(b" ") and headers:
            name, value = headers.pop()
            headers.append((name, value + b"\n" + line[1:]))
        else:
            name, _, value = line.partition(b" ")
            headers.append((name, value))
    fields = dict(reversed(headers))
    message = _text(body)
    claimed = [b"change-id: " + fields.get(b"change-id", b""), *body.split(b"\n")]
    return Commit(
        commit_id,
        tuple(value.decode("ascii", "replace") for name, value in headers if name == b"parent"),
        " ".join(message.lstrip().partition("\n\n")[0].split())[:SUBJECT],
        next(filter(None, map(change_id, claimed)), None),
        _parse_reverts(message),
        _parse_time(fields.get(b"author", b"")),
        _parse_time(fields.get(b"committer", b"")),
        _text(fields[b"gpgsig"])[:SIGNATURE] if b"gpgsig" in fields else None,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def _parse_reverts(message: str) -> tuple[str, ...]:
    commit_ids = (name for match in _REVERTS.findall(message) for name in _ID.findall(match))
    return tuple(dict.fromkeys(commit_ids))[:REVERTS]


def _parse_time(line: bytes) -> datetime:
    """Return the time in an author or committer line, as naive UTC; 1970 if it has none."""
    match = _MOMENT.search(line)
    seconds = int(match[1]) if match else 0
    return EPOCH + timedelta(seconds=min(max(seconds, 0), _SPAN))


def read_diffs(
    git: Git, commits: Sequence[str], *options: str, against: Mapping[str, str] | None = None
) -> Iterator[tuple[str, DiffReader | None]]:
    """Yield the changes of each of these commits against its parent; none of them may be a merge.

    Yields None for a commit that is too large or unreadable. `options` such as INVERSE go to git; `against` names
    another commit to compare with. Raises FetchProblem only if the fetcher was closed.
    """
    remaining, broken = list(commits), 0
    while remaining:
        read_count = 0
        try:
            for commit_diff in _stream_diffs(git, remaining, options, against or {}):
                read_count += 1
                yield commit_diff
        except FetchProblem as problem:
            if problem.closed:
                raise
            broken += 1
        if read_count == len(remaining):
            return
        unreadable = remaining[read_count:] if broken >= BROKEN else remaining[read_count : read_count + 1]
        yield from ((commit, None) for commit in unreadable)
        remaining = remaining[read_count + len(unreadable) :]


def _stream_diffs(
    git: Git, commits: Sequence[str], options: Sequence[str], against: Mapping[str, str]
) -> Iterator[tuple[str, DiffReader | None]]:
    """Yield as `read_diffs` does, up to the first commit on which git fails."""
    requests = [f"{commit} {against[commit]}" if commit in against else commit for commit in commits]
    with git.stream(*PATCH, *options, given=requests, seconds=DIFF_SECONDS) as output:
        marks = [f"{commit}\n".encode() for commit in commits]
        if not commits or output.readline(100) != marks[0]:
            raise FetchProblem("git answered about another commit than asked")
        for commit, following in zip(commits, [*marks[1:], b""], strict=True):
            yield commit, _read_diff(output, following)


def _read_diff(output: IO[bytes], following: bytes) -> DiffReader | None:
    """Read up to the mark of the following commit. Raises FetchProblem if the stream ends before it."""
    reader, size = DiffReader(), 0
    while line := output.readline(DIFF_LIMIT):
        if line == following and (size > DIFF_LIMIT or not (reader.before or reader.after)):
            break
        size += len(line)
        if size <= DIFF_LIMIT:
            reader.line(line.rstrip(b"\n"))
    else:
        if following:
            raise FetchProblem("git ended before its last commit")
    reader.finish()
    return reader if size <= DIFF_LIMIT else None


FILES = 100  # of one change
FILE_BYTES = 1_000_000
ALL_BYTES = 5_000_000
FILES_SECONDS = 10.0


def read_files(git: Git, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
    """Return the texts of these files at a commit, by path, without those that are missing, too large or not text.

    Reads only the first FILES files, and ALL_BYTES in all. Raises FetchProblem where git fails.
    """
    wanted_paths = [path for path in dict.fromkeys(paths) if "\n" not in path and "\0" not in path][:FILES]
    if not wanted_paths:
        return {}
    blob_names = _find_small_blobs(git, commit, wanted_paths)
    with git.stream("cat-file", "--batch", "--buffer", given=blob_names.values(), seconds=FILES_SECONDS) as output:
        contents = dict(zip(blob_names, _read_contents(output, len(blob_names)), strict=False))
    return {path: data.decode("utf-8", "replace") for path, data in contents.items() if b"\0" not in data}


def _find_small_blobs(git: Git, commit: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the names of the blobs at these paths as far as both bounds on bytes allow."""
    answer = git.run("cat-file", "--batch-check", given=[f"{commit}:{path}" for path in paths], seconds=FILES_SECONDS)
    blob_names, size = {}, 0
    for path, line in zip(paths, answer.decode("utf-8", "surrogateescape").split("\n"), strict=False):
        words = line.split(" ")
        if len(words) == 3 and words[1] == "blob" and words[2].isdigit() and int(words[2]) <= FILE_BYTES:
            size += int(words[2])
            if size > ALL_BYTES:
                break
            blob_names[path] = words[0]
    return blob_names


def _read_contents(output: IO[bytes], count: int) -> Iterator[bytes]:
    for _ in range(count):
        head = output.readline(1_000).split()
        if len(head) != 3 or not head[2].isdigit():
            raise FetchProblem("git answers something else than the files that were asked for")
        yield output.read(int(head[2]))
        output.read(1)


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
    """Return how many mirrors have refs whose commits are not yet in the tables."""
    with store.read() as rows:
        return rows.value(f"select count(*) from ({UNREAD})")


def read_history(store: Store, fetcher: Fetcher, folder: Path, now: Callable[[], datetime]) -> int:
    """Read the new commits of the mirrors and return how many there are. Mark unreadable mirrors as failed."""
    with store.read() as reader:
        mirrors = reader.rows(UNREAD)
    new_commits = 0
    for mirror in mirrors:
        if fetcher.closed:
            break
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            new_commits += _read_mirror(store, git, mirror, now())
        except FetchProblem as problem:
            if not problem.closed:
                with store.write() as txn:
                    sql = "update mirrors set state = 'failed', reason = ? where repository_id = ?"
                    txn.execute(sql, [f"its history cannot be read: {problem}", mirror["repository_id"]])
    return new_commits


def closing(fetcher: Fetcher) -> Callable[[], FetchProblem | None]:
    """Return a watch that ends a child process when the fetcher is closed."""
    return lambda: FetchProblem("the fetcher was closed", retry=True, closed=True) if fetcher.closed else None


def _read_mirror(store: Store, git: Git, mirror: Row, now: datetime) -> int:
    repository_id, absent = mirror["repository_id"], mirror["read_at"]
    before, after = json.loads(mirror["read_refs"]), json.loads(mirror["refs"])
    reachable_commits = reachable(git, after.values(), before.values())
    with store.read() as reader:
        sql = "select commit_id from commits where repository_id = ? and commit_id in (select unnest(?))"
        stored = {row["commit_id"] for row in reader.rows(sql, [repository_id, reachable_commits])}
        target_branches = [row["branch"] for row in reader.rows(TARGETS, [repository_id, BRANCHES])]
    unknown = [commit for commit in reachable_commits if commit not in stored]
    span = {"repository_id": repository_id, "absent_at": absent, "appeared_at": now}
    for start in range(0, len(unknown), CHUNK):
        commit_rows = _commit_rows(git, unknown[start : start + CHUNK], span)
        with store.write() as txn:
            txn.append_new("commits", commit_rows)
    head = [mirror["head"]] if mirror["head"] in after else []
    branches = [branch for branch in dict.fromkeys([*head, *target_branches]) if branch in after]
    listed = [_branch_rows(store, git, branch, before, after, span) for branch in branches]
    with store.write() as txn:
        for branch_rows in listed:
            txn.append_new("branch_commits", branch_rows)
        # These refs are read now. If newer refs were fetched at the same time, the next pass reads those.
        sql = "update mirrors set read_at = ?, read_refs = ? where repository_id = ?"
        txn.execute(sql, [mirror["fetched_at"], mirror["refs"], repository_id])
    return len(unknown)


def reachable(git: Git, tips: Iterable[str], old: Iterable[str] = (), *options: str) -> list[str]:
    """Return the commits behind `tips` and not behind `old`, oldest first; tips that the mirror lost are ignored."""
    revisions = [*dict.fromkeys(tips), *(f"^{commit}" for commit in dict.fromkeys(old))]
    if not revisions:
        return []
    options = ("--topo-order", f"--max-count={COMMITS}", "--ignore-missing", *options)
    answer = git.run("rev-list", *options, "--stdin", given=revisions, limit=COMMITS * 70)
    return answer.decode("ascii").split()[::-1]


def _commit_rows(git: Git, commits: Sequence[str], span: Row) -> list[dict[str, object]]:
    parsed = list(read_commits(git, commits))
    diffs = dict(read_diffs(git, [commit.commit_id for commit in parsed if len(commit.parents) < 2]))
    return [_commit_row(commit, diffs.get(commit.commit_id), span) for commit in parsed]


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
    """Return rows for the new commits of a branch, and for its earlier ones when it is listed for the first time."""
    old = [before[branch]] if branch in before else []
    rows = [{**span, "branch": branch, "commit_id": commit} for commit in reachable(git, [after[branch]], old)]
    with store.read() as reader:
        sql = "select count(*) from branch_commits where repository_id = ? and branch = ?"
        listed = reader.value(sql, [span["repository_id"], branch])
    if listed or not old:
        return rows
    earlier = {**span, "branch": branch, "absent_at": None}
    return [*rows, *({**earlier, "commit_id": commit} for commit in reachable(git, old))]


@dataclass(frozen=True)
class Graph:
    """A branch's commits. A state is the branch after one push; the states are the first parents, from the tip back."""

    places: Mapping[str, int]  # parents before children
    parents: Mapping[str, Sequence[str]]
    states: Sequence[str]  # oldest first
    brought_by: Mapping[str, str]  # each commit's state; a state brings itself
    brings: Mapping[str, Sequence[str]]  # state that is a merge to the commits that came with it, without merges

    @property
    def first_parents(self) -> dict[str, str]:
        return {commit: parents[0] for commit, parents in self.parents.items() if len(parents) > 1}


def read_graph(git: Git, tip: str) -> Graph:
    """Return the graph behind a branch's newest commit, at most 200,000 commits. Raises FetchProblem."""
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
        new_commits = _claim_ancestors(state, parents, brought_by)
        if len(new_commits) > 1:
            brings[state] = [commit for commit in new_commits if len(parents[commit]) < 2]
    return Graph({commit: place for place, commit in enumerate(parents)}, parents, states, brought_by, brings)


def _claim_ancestors(state: str, parents: Mapping[str, Sequence[str]], brought_by: dict[str, str]) -> list[str]:
    """Return the commits that this state is the first to have, including itself."""
    waiting, new_commits = [state], []
    while waiting:
        commit = waiting.pop()
        if commit in parents and commit not in brought_by:
            brought_by[commit] = state
            new_commits.append(commit)
            waiting.extend(parents[commit])
    return new_commits
