"""Bare mirrors and a person who is erased: what is theirs goes, what is others' public history stays and is told.

The mirror of a repository that they owned goes. What another repository shows of them is its maintainers' own public
history: no commit can be changed without all that follow, and the next fetch would bring it again. What a mirror holds
that its repository no longer shows, since a branch was rewritten, has no such reason: that mirror goes as a whole and
is fetched anew.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ingest.errors import FetchProblem
from ingest.git.mirror import mirrors_below
from ingest.git.process import Git
from ingest.store.database import Store
from ingest.store.tombstones import Names

PIECE = 1_000_000  # bytes of an object that are searched at once
OBJECTS = 10_000  # that name the person, of one mirror; beyond it is not counted
OWNED = """
select repository_id from repositories
where owner_id is not distinct from $number and owner_id is not null or starts_with(repo_key, 'at://' || $did || '/')
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """The mentions of a person in a mirror: how many its repository shows, and whether there are any beyond that."""

    shown: int
    beyond: bool


def erase_mirrors(store: Store, folder: Path, names: Names, number: int | None) -> tuple[int, tuple[str, ...]]:
    """Remove the mirrors that may not stay; how many, and of those that name the person and stay a sentence each."""
    with store.read() as rows:
        owned = {row["repository_id"] for row in rows.rows(OWNED, {"did": names.did, "number": number})}
    going, told = [], []
    for repository, path in sorted(mirrors_below(folder).items()):
        if repository in owned:
            going.append(repository)
            continue
        try:
            found = _search(Git(path), names)
        except FetchProblem as problem:
            told.append(f"{path} could not be searched ({problem}): whether it names them is not known.")
            continue
        if found.beyond:
            going.append(repository)
        if found.shown:
            told.append(_sentence(store, repository, path, found.shown))
    _remove(store, folder, going)
    return len(going), tuple(told)


def _search(git: Git, names: Names) -> _Found:
    """Look through every object and every branch's name. Raises FetchProblem."""
    named = _named_objects(git, names)
    shown = set()
    if named:
        with git.stream("rev-list", "--objects", "--no-object-names", "--all") as out:
            shown = named.intersection(line.strip() for line in out)
    refs = git.run("for-each-ref", "--format=%(refname)").decode("utf-8", "replace").splitlines()
    return _Found(len(shown) + sum(map(names.named_in, refs)), len(shown) < len(named))


def _named_objects(git: Git, names: Names) -> set[bytes]:
    found: set[bytes] = set()
    with git.stream("cat-file", "--batch-all-objects", "--batch", "--buffer", "--unordered") as out:
        while len(found) < OBJECTS and (head := out.readline(200)):
            name, _, size = head.split()
            if _is_named(out, int(size), names):
                found.add(name)
            out.read(1)  # the line end behind it
    return found


def _is_named(out: IO[bytes], size: int, names: Names) -> bool:
    """Return whether the next `size` bytes name the person.

    All of them are read. A mention may lie across two pieces.
    """
    needles = [needle.encode() for needle in names.needles]
    overlap, end, found = 2 * max(map(len, needles)), b"", False
    while size > 0 and (piece := out.read(min(size, PIECE))):
        size -= len(piece)
        text = end + piece
        if not found and any(needle in text.lower() for needle in needles):
            found = names.named_in(text.decode("utf-8", "replace"))
        end = text[-overlap:]
    return found


def _sentence(store: Store, repository: int, path: Path, count: int) -> str:
    with store.read() as rows:
        key = rows.value("select repo_key from repositories where repository_id = ?", [repository]) or "a repository"
    places = "1 place" if count == 1 else f"{count} places"
    return (
        f"{path}, the mirror of {key}, names them in {places}: that repository's own public history, which only its "
        "maintainers can change. It goes once nobody here watches the repository."
    )


def _remove(store: Store, folder: Path, repositories: Sequence[int]) -> None:
    """Remove these mirrors, and have those that somebody still serves fetched anew at once."""
    for repository in repositories:
        shutil.rmtree(mirrors_below(folder)[repository])
    with store.write() as txn:
        txn.execute(
            "delete from fetches where kind = 'mirror' and subject in "
            "(select repo_key from repositories where repository_id in (select unnest(?::integer[])))",
            [repositories],
        )
