"""Whether commits that were public before already made a commit's change between them, in whatever portions.

Who copies a branch of several commits as one offers a change that no single commit makes. But each line that commits
add or take away between them was added or taken away by one of them: where all lines of a change were, it may be a
copy.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import IO

from ingest.commits import DIFF
from ingest.git import Git
from ingest.history import reachable
from ingest.plain_words import FetchProblem

READ_LIMIT = 256_000_000  # bytes of earlier diffs for one change: beyond it nobody can say
READ_SECONDS = 120.0
LINE_LIMIT = 1_000_000
PATHS = 500  # a change of more files, or with longer names in all, is sought in whole commits
PATH_BYTES = 50_000  # of a command line
# As git stores them: a rename takes a file away and brings another; a merge is compared with each of its parents.
PIECES = (*DIFF, "-p", "-U0", "-m", "--no-renames", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")

_HUNK = re.compile(rb"@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)")

Piece = tuple[bytes, bytes]  # '+' or '-', and a line without white space or the name of a binary object; a new mode


def was_public(git: Git, commit: str, earlier: Collection[str]) -> bool:
    """Whether every line that a commit changes was changed so by one of the earlier ones, or nobody can say.

    Of those behind it (what was taken back and is brought again) the same files are looked at; of the others, which
    lie on other branches, all: a file may be called otherwise since. Raises FetchProblem only where this was stopped.
    """
    try:
        behind = set(reachable(git, [commit]))
        rest = set(_pieces(git, [commit]))
        rest -= _made(git, sorted(one for one in earlier if one not in behind), rest)
        if rest:
            rest -= _made(git, sorted(one for one in earlier if one in behind and one != commit), rest, commit)
        return not rest
    except FetchProblem as problem:
        if problem.closed:
            raise
        return True


def _made(git: Git, commits: Sequence[str], wanted: set[Piece], alike: str | None = None) -> set[Piece]:
    """Which of the wanted pieces these commits made; only in the files that the commit `alike` changes."""
    found: set[Piece] = set()
    for piece in _pieces(git, commits, _paths(git, alike) if alike else ()):
        if piece in wanted:
            found.add(piece)
            if len(found) == len(wanted):
                break
    return found


def _paths(git: Git, commit: str) -> list[str]:
    """The files that a commit changes; none where they are too many to be named."""
    answer = git.run(*DIFF, "-z", "--no-commit-id", "--name-only", "--no-renames", given=[commit])
    paths = [path.decode("utf-8", "surrogateescape") for path in answer.split(b"\0") if path]
    return paths if len(paths) <= PATHS and len(answer) <= PATH_BYTES else []


def _pieces(git: Git, commits: Sequence[str], paths: Sequence[str] = ()) -> Iterator[Piece]:
    if commits:
        with git.stream(*PIECES, "--", *paths, given=commits, seconds=READ_SECONDS) as out:
            yield from _read(out)


def _read(out: IO[bytes]) -> Iterator[Piece]:
    """The pieces of a stream of diffs without context. Raises FetchProblem where it is too long to be read."""
    left = size = 0  # lines that the running hunk still has; bytes read
    index = (b"", b"")
    while line := out.readline(LINE_LIMIT):
        size += len(line)
        if size > READ_LIMIT or len(line) == LINE_LIMIT:
            raise FetchProblem("earlier commits change more than is read", too_large=True)
        if left and line[:1] in b"+-":
            left -= 1
            if text := line[1:].translate(None, b" \t\n\v\f\r"):
                yield line[:1], text
        elif hunk := _HUNK.match(line):
            left = sum(int(count) if count is not None else 1 for count in hunk.groups())
        elif named := _INDEX.match(line):
            index = named[1], named[2]
        elif line.startswith(b"Binary files "):
            yield from zip((b"-", b"+"), index, strict=True)
        elif line.startswith(b"new mode "):
            yield b"m", line
