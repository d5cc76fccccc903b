"""Keep bare mirrors of watched repositories: the branches that the knot serves, and when each state was seen.

A folder is named by the repository's number. A fetch adds packs and then moves refs, so a kill leaves the older state
and at most a half pack, which the next fetch removes. If a fetch is too large, slow or broken, the mirror stays as it
was.

This module also lists the branches of a server and of a mirror, and checks their names.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.clock import DAY, waiting_time
from ingest.errors import FetchProblem
from ingest.git.process import TRIAL, Git, Remote, Watch
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import remotes
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

REFS_SECONDS = 60.0
REFS_LIMIT = 4_000_000  # bytes of a server's list of branches: some 50,000
PACKS = 40  # more packs are merged into one: each fetch adds a pack, and each pack slows every look-up

_REF = re.compile(
    r"(?!.*(?:\.\.|@\{|//|\.lock(?:/|\Z)|/\.|\.\Z|/\Z))[^\x00-\x20\x7f~^:?*\[\\./-][^\x00-\x20\x7f~^:?*\[\\]{0,240}"
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def served_branches(git: Git, remote: Remote) -> tuple[str | None, dict[str, str]]:
    """Return the server's default branch and all its branches now. Raises FetchProblem."""
    arguments = ("ls-remote", "--symref", "--end-of-options", remote.url, "HEAD", "refs/heads/*")
    answer = git.ask(remote, *arguments, limit=REFS_LIMIT, seconds=REFS_SECONDS, file_bytes=REFS_LIMIT)
    head, refs = None, {}
    for line in answer.decode("utf-8", "surrogateescape").split("\n"):
        value, _, name = line.partition("\t")
        if name == "HEAD" and value.startswith("ref: refs/heads/"):
            head = branch_name(value.removeprefix("ref: "))
        elif (branch := branch_name(name)) and _COMMIT.fullmatch(value):
            refs[branch] = value
    return head, refs


def pull(git: Git, remote: Remote, seconds: float, room: int) -> None:
    """Fetch every branch into the mirror, at most `room` bytes within `seconds`. Raises FetchProblem."""
    options = ("--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--force")
    arguments = ("fetch", *options, "--end-of-options", remote.url, "+refs/heads/*:refs/heads/*")
    git.ask(remote, *arguments, limit=1_000_000, seconds=seconds, file_bytes=room)
    if len(list(git.folder.glob("objects/pack/*.pack"))) > PACKS:
        git.run("repack", "-q", "-d", "--geometric=2")


def branches(git: Git) -> dict[str, str]:
    answer = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", limit=2 * REFS_LIMIT)
    lines = (line.partition(" ") for line in answer.decode("utf-8", "surrogateescape").split("\n"))
    return {branch: value for value, _, name in lines if (branch := branch_name(name))}


def branch_name(ref: str) -> str | None:
    """Return the short name of a branch if git allows it as a branch name, else None."""
    name = ref.removeprefix("refs/heads/")
    return name if name != ref and _REF.fullmatch(name) else None


OPEN_WAIT = timedelta(minutes=10)  # between two fetches while something is open
TOO_LARGE_WAIT = timedelta(days=7)  # asking again costs the whole limit once more
THREADS = 3
SPAN_SECONDS = 60.0  # no further fetch begins after this long

_FOLDER = re.compile(r"([0-9]{1,18})\.git")

# A new round or a push is fetched soon: only a fetch shows that a commit was absent when the round was seen.
DUE_MIRRORS = """
with named as (
  select repository_id, repo_key as name from repositories
  union select repository_id, alias from repository_aliases
), newest as (
  select p.repository_id, max(r.seen_at) as seen_at from pull_rounds r join pull_requests p using (pull_uri)
  where p.state = 'open' group by p.repository_id
), pushed as (
  select n.repository_id, max(u.happened_at) as happened_at
  from ref_updates u join named n on n.name = u.repository
  join repositories r on r.repository_id = n.repository_id and r.knot = u.knot
  group by n.repository_id
)
select r.repo_key as subject, r.repository_id, r.knot, r.name, c.did as owner_did,
  (select min(name) from named n where n.repository_id = r.repository_id and name like 'did:%') as repo_did,
  exists (from pull_requests p where p.repository_id = r.repository_id and p.state = 'open') as busy
from repositories r
join watched_repositories using (repository_id)
left join contributors c on c.contributor_id = r.owner_id
left join mirrors m on m.repository_id = r.repository_id
left join newest on newest.repository_id = r.repository_id
left join pushed on pushed.repository_id = r.repository_id
left join fetches f on f.kind = 'mirror' and f.subject = r.repo_key
where r.knot is not null and r.deleted_at is null and (
  f.subject is null or f.due_clock <= $wall
  or f.outcome = 'found' and f.fetched_clock <= $wall - interval 30 second
    and greatest(newest.seen_at, pushed.happened_at) > m.fetched_at)
order by r.repository_id
"""

# A repository has no knot once its owner was erased.
SERVED = "from watched_repositories anti join (from repositories where knot is null) using (repository_id)"


@dataclass(frozen=True)
class Limits:
    mirror_bytes: int
    mirrors_bytes: int
    seconds: float = 600.0  # for one fetch


@dataclass(frozen=True)
class _FetchResult:
    """The result of one fetch: the row that was due and its mirror, or the reason why there is none."""

    row: Mapping[str, Any]
    began: datetime
    head: str | None
    refs: Mapping[str, str]
    bytes: int
    problem: FetchProblem | None = None


def mirror_path(folder: Path, repository_id: int) -> Path:
    return folder / f"{int(repository_id)}.git"


def mirrors_below(folder: Path) -> dict[int, Path]:
    paths = folder.iterdir() if folder.is_dir() else ()
    return {int(match[1]): path for path in paths if (match := _FOLDER.fullmatch(path.name))}


def due_mirrors(rows: Rows, wall: Callable[[], datetime]) -> int:
    return rows.value(f"select count(*) from ({DUE_MIRRORS})", {"wall": wall()})


def fetch_mirrors(
    store: Store,
    fetcher: Fetcher,
    folder: Path,
    limits: Limits,
    wall: Callable[[], datetime],
    now: Callable[[], datetime],
    authorities: Path | None = None,
) -> int:
    """Fetch the mirrors that are due into `folder`; return how many were fetched or tried."""
    with store.read() as rows:
        due = rows.rows(DUE_MIRRORS, {"wall": wall()})
        watched = {row["repository_id"] for row in rows.rows(SERVED)}
    folder.mkdir(parents=True, exist_ok=True)
    for repository, path in mirrors_below(folder).items():
        if repository not in watched:
            shutil.rmtree(path, ignore_errors=True)
    deadline = time.monotonic() + SPAN_SECONDS

    def fetch_one(row: Mapping[str, Any]) -> bool:
        if fetcher.closed or time.monotonic() > deadline:
            return False
        result = _fetch(row, fetcher, folder, limits, now(), authorities)
        if result.problem and result.problem.closed:
            return False
        with store.write() as txn:
            _write(txn, result, wall())
        return True

    with ThreadPoolExecutor(THREADS, thread_name_prefix="mirror") as pool:
        return sum(pool.map(fetch_one, due))


def _fetch(
    row: Mapping[str, Any], fetcher: Fetcher, folder: Path, limits: Limits, began: datetime, authorities: Path | None
) -> _FetchResult:
    path = mirror_path(folder, row["repository_id"])
    empty = _FetchResult(row, began, None, {}, 0)
    watch: Watch | None = None
    try:
        room = _free_room(folder, path, limits)
        watch = _watch(fetcher, path, room)
        git = Git(path, watch, authorities)
        _prepare(git)
        head, refs = _fetch_first_answering(git, fetcher, row, limits, room)
        return _FetchResult(row, began, head, refs, folder_bytes(path))
    except FetchProblem as problem:
        # git's own child ends at the limit on one file without a message; the size of the folder shows the reason.
        return replace(empty, problem=(watch and watch()) or problem, bytes=_remove_leftovers(path))
    except OSError as error:
        problem = FetchProblem(f"the mirror cannot be written: {error.strerror}", retry=True)
        return replace(empty, problem=problem)


def _free_room(folder: Path, path: Path, limits: Limits) -> int:
    """Return the bytes that this mirror may take, beside the other mirrors and leaving half of the free disk alone."""
    others = folder_bytes(folder) - folder_bytes(path)
    room = min(limits.mirror_bytes, limits.mirrors_bytes - others, shutil.disk_usage(folder).free // 2)
    if room <= 0:
        raise FetchProblem("the other mirrors leave no room for this one", too_large=True)
    return room


def _watch(fetcher: Fetcher, path: Path, room: int) -> Watch:
    def watch() -> FetchProblem | None:
        if fetcher.closed:
            return FetchProblem("the fetcher was closed", retry=True, closed=True)
        if folder_bytes(path) > room:
            return FetchProblem(f"the repository takes more than {room} bytes", too_large=True)
        return None

    return watch


def _prepare(git: Git) -> None:
    """Make an empty mirror if there is none, and remove half-done files that a kill left."""
    if not (git.folder / "HEAD").is_file():
        shutil.rmtree(git.folder, ignore_errors=True)
        (git.folder / "refs").mkdir(parents=True)
        (git.folder / "objects").mkdir()
        (git.folder / "nothing").mkdir()
        (git.folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        (git.folder / "HEAD").write_text("ref: refs/heads/none\n")
    _remove_leftovers(git.folder)


def _remove_leftovers(path: Path) -> int:
    """Remove half packs, trials and stale locks; return the bytes that remain. No child process runs at this time."""
    for leftover in [*path.glob("objects/**/tmp_*"), *path.glob("*.lock"), *path.glob("refs/**/*.lock")]:
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
    for trial in path.glob(f"{TRIAL}*"):
        shutil.rmtree(trial, ignore_errors=True)
    return folder_bytes(path)


def _fetch_first_answering(
    git: Git, fetcher: Fetcher, row: Mapping[str, Any], limits: Limits, room: int
) -> tuple[str | None, Mapping[str, str]]:
    """Fetch from the first address that serves the repository; return its default branch and all branches."""
    absent: FetchProblem | None = None
    for remote in remotes(fetcher, row["knot"], row["repo_did"], row["owner_did"], row["name"]):
        try:
            head, served = served_branches(git, remote)
        except FetchProblem as problem:
            if not problem.absent:
                raise
            absent = problem
            continue
        if served != branches(git):
            pull(git, remote, limits.seconds, room)
        return head, branches(git)
    raise absent or FetchProblem("the knot serves no such repository", status=404)


def folder_bytes(path: Path) -> int:
    """Return the bytes of a folder's files on the drive, in blocks; a file that vanishes at the same time counts 0."""
    total = 0
    for path_below in path.rglob("*"):
        try:
            status = path_below.lstat()
        except FileNotFoundError:
            continue
        total += max(status.st_size, status.st_blocks * 512)
    return total


def _write(txn: Transaction, result: _FetchResult, wall: datetime) -> None:
    row, problem = result.row, result.problem
    mirror = txn.row("select * from mirrors where repository_id = ?", [row["repository_id"]])
    mirror = mirror or {"refs": "{}", "read_refs": "{}"}
    if problem is None:
        fetched = {"state": "fetched", "reason": None, "fetched_at": result.began, "head": result.head}
        mirror |= {**fetched, "refs": json.dumps(result.refs, sort_keys=True)}
    else:
        state = "too_large" if problem.too_large else "absent" if problem.absent else "failed"
        mirror |= {"state": state, "reason": str(problem)}
    txn.upsert("mirrors", [{**mirror, "repository_id": row["repository_id"], "bytes": result.bytes}])
    txn.upsert("fetches", [_fetch_row(txn, result, wall)])


def _fetch_row(txn: Transaction, result: _FetchResult, wall: datetime) -> dict[str, object]:
    problem, subject = result.problem, result.row["subject"]
    before = txn.value("select attempts from fetches where kind = 'mirror' and subject = ?", [subject]) or 0
    attempts = before + 1 if problem else 0
    if problem is None:
        outcome, wait = "found", OPEN_WAIT if result.row["busy"] else DAY
    elif problem.too_large:
        outcome, wait = "failed", TOO_LARGE_WAIT
    else:
        outcome = "absent" if problem.absent else "failed"
        wait = DAY if problem.absent else waiting_time(attempts, problem)
    return {
        "kind": "mirror",
        "subject": subject,
        "outcome": outcome,
        "reason": str(problem) if problem else None,
        "attempts": attempts,
        "due_clock": wall + wait,
        "fetched_clock": wall,
    }
