"""Listeners that end with the test and try again at once."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.store.database import Store
from ingest.stream import jetstream, socket_process
from ingest.stream.jetstream import Listener
from tests.ingest.stream.listening import Start, listening


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches every 50 ms instead of every second; a failure is followed by a new try after 5 ms, in a fork."""
    monkeypatch.setattr(socket_process, "subprocess", SimpleNamespace(Popen=subprocess.Popen, PIPE=subprocess.PIPE))
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(jetstream, "LONGEST_WAIT_SECONDS", 0.005)
    monkeypatch.setattr(jetstream, "STORE_WAIT_SECONDS", 0.005)


@pytest.fixture
def listen(store: Store, fast: None) -> Iterator[Start]:
    """Starts listeners on a recording."""
    with ExitStack() as started:

        def start(*urls: str, **options: Any) -> Listener:
            return started.enter_context(listening(store, *urls, **options))

        yield start


@pytest.fixture
def live(listen: Start) -> Start:
    """Starts listeners on a stream that is never quiet for longer than a minute, or than told."""
    return partial(listen, quiet=60.0)
