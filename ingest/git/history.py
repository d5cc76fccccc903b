"""The commits of the mirrors as git stores them, each with the span in which it came to be there.

What a commit says of itself, what it changes and the texts of files at it are read within bounds; odd bytes make
nothing here fail. A fetch shows what was there at its moment and what was not: a commit that one fetch brings was
absent at the fetch before. The first fetch proves no absence. The shape of a branch is the chain of its own states; it
tells which of them brought each commit.
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
DIFF_LIMIT = 4_000_000  # bytes of one commit's diff: beyond it is not named, as no larger patch is read either
DIFF_SECONDS = 60.0  # for a chunk of diffs: a tree of trees of trees unfolds without end
BROKEN = 3  # commits of one chunk at which git may fail; the others of that chunk stay unread
SUBJECT, SIGNATURE, REVERTS = 300, 10_000, 50

_MOMENT = re.compile(rb"> (-?[0-9]{1,12}) [+-][0-9]{1,6}\s*\Z")
_REVERTS = re.compile(r"This reverts commits?\s+((?:[0-9a-f]{7,64}\b[\s,;and]*)+)")
_ID = re.compile(r"\b[0-9a-f]{7,64}\b")
_SPAN = 253_402_300_799  # the last second of 9999
DIFF = ("diff-tree", "--stdin", "--root", "-r", "--always", "--no-ext-diff", "--no-textconv", "--no-color")
# As `git format-patch` makes them: 3 lines of context, renames found. Binary content is named by its objects alone.
PATCH = (*DIFF, "-p", "-U3", "-M", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")

# The same turned round; -R would swap the prefixes too.
INVERSE = ("-R", "--src-prefix=b/", "--dst-prefix=a/")


@dataclass(frozen=True)
class Commit:
    """The claims that a commit makes of itself; whoever made it chose them."""

    commit_id: str
    parents: tuple[str, ...]
    subject: str
    change_id: str | None
    reverts: tuple[str, ...]
    authored_at: datetime
    committed_at: datetime
    signature: str | None


def read_commits(git: Git, commits: Sequence[str]) -> Iterator[Commit]:
    """These commits, in order, without those that cannot be read. Raises FetchProblem."""
    with git.stream("cat-file", "--batch", "--buffer", given=commits) as out:
        for _ in commits:
            head = out.readline(1_000).split()
            if len(head) != 3 or not head[2].isdigit():
                continue
            data = _take(out, int(head[2]))
            if head[1] == b"commit":
                yield parse_commit(head[0].decode("ascii", "replace"), data)


def _take(out: IO[bytes], size: int) -> bytes:
    """One object's content, cut at the limit, and the line end behind it."""
    data = out.read(min(size, OBJECT_LIMIT))
    left = size - len(data) + 1
    while left > 0 and (piece := out.read(min(left, 65_536))):
        left -= len(piece)
    return data


def parse_commit(commit_id: str, data: bytes) -> Commit:
    """A commit object's content. Never raises, whatever the bytes are."""
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
        _reverted(message),
        _moment(fields.get(b"author", b"")),
        _moment(fields.get(b"committer", b"")),
        _text(fields[b"gpgsig"])[:SIGNATURE] if b"gpgsig" in fields else None,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def _reverted(message: str) -> tuple[str, ...]:
    named = (name for found in _REVERTS.findall(message) for name in _ID.findall(found))
    return tuple(dict.fromkeys(named))[:REVERTS]


def _moment(line: bytes) -> datetime:
    """The time in an author or committer line, as naive UTC; 1970 where it says none."""
    found = _MOMENT.search(line)
    seconds = int(found[1]) if found else 0
    return EPOCH + timedelta(seconds=min(max(seconds, 0), _SPAN))


def read_diffs(
    git: Git, commits: Sequence[str], *options: str, against: Mapping[str, str] | None = None
) -> Iterator[tuple[str, DiffReader | None]]:
    """Yield what each of these commits, none a merge, changes against its parent.

    None for what is too large or unreadable.

    `options` such as INVERSE go to git; `against` names another commit to compare with. Raises FetchProblem only where
    the look-up was stopped from this side.
    """
    rest, broken = list(commits), 0
    while rest:
        done = 0
        try:
            for found in _diffs(git, rest, options, against or {}):
                done += 1
                yield found
        except FetchProblem as problem:
            if problem.closed:
                raise
            broken += 1
        if done == len(rest):
            return
        lost = rest[done:] if broken >= BROKEN else rest[done : done + 1]
        yield from ((commit, None) for commit in lost)
        rest = rest[done + len(lost) :]


def _diffs(
    git: Git, commits: Sequence[str], options: Sequence[str], against: Mapping[str, str]
) -> Iterator[tuple[str, DiffReader | None]]:
    """As `read_diffs`, up to the first commit at which git fails."""
    given = [f"{commit} {against[commit]}" if commit in against else commit for commit in commits]
    with git.stream(*PATCH, *options, given=given, seconds=DIFF_SECONDS) as out:
        marks = [f"{commit}\n".encode() for commit in commits]
        if not commits or out.readline(100) != marks[0]:
            raise FetchProblem("git answered about another commit than asked")
        for commit, following in zip(commits, [*marks[1:], b""], strict=True):
            yield commit, _one_diff(out, following)


def _one_diff(out: IO[bytes], following: bytes) -> DiffReader | None:
    """Read up to the mark of the following commit; FetchProblem where the stream ends before it."""
    reader, size = DiffReader(), 0
    while line := out.readline(DIFF_LIMIT):
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
    """Return the texts of these files at a commit, by path; what is missing, too large or not text is left out.

    Reads at most FILES files, the first ones, and ALL_BYTES in all. Raises FetchProblem where git fails.
    """
    wanted = [path for path in dict.fromkeys(paths) if "\n" not in path and "\0" not in path][:FILES]
    if not wanted:
        return {}
    small = _small_blobs(git, commit, wanted)
    with git.stream("cat-file", "--batch", "--buffer", given=small.values(), seconds=FILES_SECONDS) as out:
        contents = dict(zip(small, _contents(out, len(small)), strict=False))
    return {path: data.decode("utf-8", "replace") for path, data in contents.items() if b"\0" not in data}


def _small_blobs(git: Git, commit: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the names of the blobs at these paths as far as both bounds on bytes allow."""
    answer = git.run("cat-file", "--batch-check", given=[f"{commit}:{path}" for path in paths], seconds=FILES_SECONDS)
    found, size = {}, 0
    for path, line in zip(paths, answer.decode("utf-8", "surrogateescape").split("\n"), strict=False):
        words = line.split(" ")
        if len(words) == 3 and words[1] == "blob" and words[2].isdigit() and int(words[2]) <= FILE_BYTES:
            size += int(words[2])
            if size > ALL_BYTES:
                break
            found[path] = words[0]
    return found


def _contents(out: IO[bytes], count: int) -> Iterator[bytes]:
    for _ in range(count):
        head = out.readline(1_000).split()
        if len(head) != 3 or not head[2].isdigit():
            raise FetchProblem("git answers something else than the files that were asked for")
        yield out.read(int(head[2]))
        out.read(1)


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
    """Read what the mirrors' newest refs brought; how many commits are new. Unreadable ones are marked failed."""
    with store.read() as rows:
        mirrors = rows.rows(UNREAD)
    found = 0
    for mirror in mirrors:
        if fetcher.closed:
            break
        git = Git(mirror_path(folder, mirror["repository_id"]), closing(fetcher))
        try:
            found += _read_mirror(store, git, mirror, now())
        except FetchProblem as problem:
            if not problem.closed:
                with store.write() as txn:
                    sql = "update mirrors set state = 'failed', reason = ? where repository_id = ?"
                    txn.execute(sql, [f"its history cannot be read: {problem}", mirror["repository_id"]])
    return found


def closing(fetcher: Fetcher) -> Callable[[], FetchProblem | None]:
    """Ends a child when the fetcher is closed."""
    return lambda: FetchProblem("the fetcher was closed", retry=True, closed=True) if fetcher.closed else None


def _read_mirror(store: Store, git: Git, mirror: Row, now: datetime) -> int:
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
    """All that one branch has come to hold; one that is listed for the first time brings what it held before too."""
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
