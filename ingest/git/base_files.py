"""Texts of files at one commit of a mirror, within bounds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from ingest.errors import FetchProblem
from ingest.git.process import Git

FILES = 100  # of one change
FILE_BYTES = 1_000_000
ALL_BYTES = 5_000_000
SECONDS = 10.0


def read_files(git: Git, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
    """Return the texts of these files at a commit, by path; what is missing, too large or not text is left out.

    Reads at most FILES files, the first ones, and ALL_BYTES in all. Raises FetchProblem where git fails.
    """
    wanted = [path for path in dict.fromkeys(paths) if "\n" not in path and "\0" not in path][:FILES]
    if not wanted:
        return {}
    small = _small_blobs(git, commit, wanted)
    with git.stream("cat-file", "--batch", "--buffer", given=small.values(), seconds=SECONDS) as out:
        contents = dict(zip(small, _contents(out, len(small)), strict=False))
    return {path: text for path, data in contents.items() if (text := _text(data)) is not None}


def _small_blobs(git: Git, commit: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the names of the blobs at these paths as far as both bounds on bytes allow."""
    answer = git.run("cat-file", "--batch-check", given=[f"{commit}:{path}" for path in paths], seconds=SECONDS)
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


def _text(data: bytes) -> str | None:
    return None if b"\0" in data else data.decode("utf-8", "replace")
