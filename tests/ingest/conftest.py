"""Peers on loopback and stores that end with the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ingest.store import Store
from tests.ingest.asked import World
from tests.ingest.peer import Answer, Peer, Request, Start
from tests.ingest.stream import SOURCE

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
            store = Store.open(tmp_path / name / "trust.duckdb")
            opened.callback(store.close)
            store.bind(SOURCE)
            return store

        yield open_store


@pytest.fixture
def store(open_store: Open) -> Store:
    """An empty store that is bound to the test's stream."""
    return open_store("store")


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[World]:
    """A small world that can be asked; it ends with the test."""
    made = World(tmp_path)
    yield made
    made.close()
