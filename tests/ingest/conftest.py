"""Peers on loopback and stores that end with the test."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.backfill.runs import summarize
from ingest.store.database import Store
from tests.ingest.backfill.backfilled import run_backfill, sources
from tests.ingest.backfill.listed import NOW
from tests.ingest.erasure.planted import KEY
from tests.ingest.git.git_world import Place, Work
from tests.ingest.http.fetched import HOST
from tests.ingest.lookups.asked import World
from tests.ingest.lookups.looked_at import make_looked_at, reopened
from tests.ingest.peer import Answer, Peer, Request, Start, make_certificate
from tests.ingest.stream.frames import SOURCE
from tests.stores import fresh_store

Open = Callable[[str], Store]


@pytest.fixture(name="peer")
def peer_fixture() -> Iterator[Start]:
    """Starts a plain server that answers as it is told; it ends with the test."""
    with ExitStack() as started:

        def start(answer: Callable[[Request], Answer]) -> Peer:
            return started.enter_context(Peer(answer))

        yield start


@pytest.fixture(name="open_store")
def open_store_fixture(tmp_path: Path) -> Iterator[Open]:
    """Opens stores by name, bound to the test's stream; they are closed with the test."""
    with ExitStack() as opened:

        def open_store(name: str) -> Store:
            store = fresh_store(tmp_path / name / "trust.duckdb")
            opened.callback(store.close)
            store.bind(SOURCE)
            return store

        yield open_store


@pytest.fixture
def store(open_store: Open) -> Store:
    """An empty store that is bound to the test's stream."""
    return open_store("store")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store that takes all examples of a module."""
    made = fresh_store(tmp_path_factory.mktemp("scratch") / "trust.duckdb")
    made.bind(SOURCE)
    yield made
    made.close()


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[World]:
    """A small world that can be asked; it ends with the test."""
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture(name="kept")
def kept_fixture(tmp_path: Path) -> Iterator[Store]:
    """A store with the key of a drive."""
    store = fresh_store(tmp_path / "duckdb" / "trust.duckdb", key=KEY)
    store.bind(SOURCE)
    yield store
    with suppress(duckdb.ConnectionException):  # some tests have closed it, to open it again
        store.close()


@pytest.fixture(scope="session")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `make_looked_at`: every test takes a copy."""
    folder = tmp_path_factory.mktemp("looked_at")
    make_looked_at(folder)
    return folder


@pytest.fixture(name="work")
def work_fixture(looked_at: Path, tmp_path: Path) -> Work:
    """A working copy with two files and one commit."""
    return Work(shutil.copytree(looked_at / "work", tmp_path / "work"))


@pytest.fixture(name="place")
def place_fixture(looked_at: Path, work: Work, tmp_path: Path) -> Iterator[Place]:
    """A store that watches the repository of that copy and has looked at it once."""
    with reopened(looked_at, work, tmp_path) as place:
        yield place


@pytest.fixture(name="ask")
def ask_fixture(store: Store, peer: Start, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Backfills from a network; the summary of the run."""

    def ask(answer: Callable[[Request], bytes], **changes: Any) -> dict[str, Any]:
        asked = sources(peer(answer).origin, tmp_path / "staging", NOW, **changes)
        run_id = run_backfill(store, asked)
        with store.read() as found:
            return summarize(found, run_id)

    return ask


@pytest.fixture(scope="module", name="tls")
def tls_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for HOST."""
    return make_certificate(tmp_path_factory.mktemp("certificate"), HOST)
