"""Peers on loopback that end with the test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.ingest.peer import Answer, Peer, Request, Start


@pytest.fixture(name="peer")
def peer_fixture() -> Iterator[Start]:
    """Starts a plain server that answers as it is told; it ends with the test."""
    with ExitStack() as started:

        def start(answer: Callable[[Request], Answer]) -> Peer:
            return started.enter_context(Peer(answer))

        yield start
