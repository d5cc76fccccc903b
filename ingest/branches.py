"""The branches of a repository: those that a server serves, those that a mirror has, and their names, checked."""

import re

from ingest.git import Git, Remote

REFS_SECONDS = 60.0
REFS_LIMIT = 4_000_000  # bytes of a server's list of branches: some 50,000
PACKS = 40  # beyond these they are packed together: each fetch adds one, and each slows every look-up

_REF = re.compile(
    r"(?!.*(?:\.\.|@\{|//|\.lock(?:/|\Z)|/\.|\.\Z|/\Z))[^\x00-\x20\x7f~^:?*\[\\./-][^\x00-\x20\x7f~^:?*\[\\]{0,240}"
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def served_branches(git: Git, remote: Remote) -> tuple[str | None, dict[str, str]]:
    """The branch that a server calls its own, and all that it has now. Raises FetchProblem."""
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
    """Fetch every branch into the mirror, of at most `room` bytes within so many seconds. Raises FetchProblem."""
    options = ("--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--force")
    arguments = ("fetch", *options, "--end-of-options", remote.url, "+refs/heads/*:refs/heads/*")
    git.ask(remote, *arguments, limit=1_000_000, seconds=seconds, file_bytes=room)
    if len(list(git.folder.glob("objects/pack/*.pack"))) > PACKS:
        git.run("repack", "-q", "-d", "--geometric=2")


def branches(git: Git) -> dict[str, str]:
    """The branches of a mirror and their newest commits."""
    answer = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", limit=2 * REFS_LIMIT)
    lines = (line.partition(" ") for line in answer.decode("utf-8", "surrogateescape").split("\n"))
    return {branch: value for value, _, name in lines if (branch := branch_name(name))}


def branch_name(ref: str) -> str | None:
    """The short name of a branch that git itself would let anybody make; None for any other text."""
    name = ref.removeprefix("refs/heads/")
    return name if name != ref and _REF.fullmatch(name) else None
