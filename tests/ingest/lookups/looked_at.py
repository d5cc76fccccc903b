"""A repository that was looked at once, made once and copied: that spares a test a dozen git processes, .3 s of CPU."""

import shutil
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from tests.ingest.git.git_world import DAY_ONE, HOUR, REPO_DID, TEXT, Knot, Place, Work
from tests.ingest.stream.frames import SOURCE
from tests.stores import fresh_store

LOOKED_AT = DAY_ONE + timedelta(days=1) + HOUR


def make_looked_at(folder: Path) -> None:
    """A repository of two files in `work`, its mirror after one look in `mirrors`, and the store of that place."""
    work = Work(folder / "work")
    work.commit("First", {"a.txt": TEXT, "b.txt": TEXT})
    store = fresh_store(folder / "trust.duckdb")
    store.bind(SOURCE)
    (folder / "mirrors").mkdir()
    with Knot({REPO_DID: work.folder}) as knot:
        Place(store, Fetcher(knot.origin), folder / "mirrors").look()
    store.close()


@contextmanager
def reopened(folder: Path, work: Work, copy: Path) -> Generator[Place]:
    """The place of `make_looked_at`, copied to another folder, with this copy of its repository behind the knot."""
    shutil.copytree(folder / "mirrors", copy / "mirrors")
    store = Store.open(Path(shutil.copy(folder / "trust.duckdb", copy)))
    with closing(store), Knot({REPO_DID: work.folder}) as knot:
        yield Place(store, Fetcher(knot.origin), copy / "mirrors", LOOKED_AT)
