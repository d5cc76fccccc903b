"""Listeners that end with the test, what they hear, and how far they have come."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from ingest.store.database import Store
from ingest.stream import jetstream
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import load
from tests.ingest.stream.frames import ANA, FIRST_US, SOURCE, STRANGER, Frames, digest_of, rows
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import make_recording

Start = Callable[..., Listener]


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches every 50 ms instead of every second; a failure is followed by a new try after 5 ms."""
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(jetstream, "LONGEST_WAIT_SECONDS", 0.005)
    monkeypatch.setattr(jetstream, "STORE_WAIT_SECONDS", 0.005)


@pytest.fixture
def listen(store: Store) -> Iterator[Start]:
    """Starts listeners that end with the test."""
    with ExitStack() as started:

        def start(
            *urls: str, collections: Sequence[str] = (), on_loaded: Callable[[], None] = lambda: None
        ) -> Listener:
            listener = Listener(store, Subscription(SOURCE, urls, collections), on_loaded)
            listener.start()
            started.callback(listener.stop)
            return listener

        yield start


def written(size: int = 300) -> Frames:
    """Vouches with a stranger's identity event among every ten frames."""
    frames = Frames()
    while len(frames) < size:
        if len(frames) % 10 == 0:
            frames.identity(STRANGER)
        else:
            frames.vouch(ANA, f"did:plc:{len(frames):024d}")
    return frames


def peer(frames: Frames, hold_after: int | None = None) -> Jetstream:
    return Jetstream(make_recording(frames, {}, (), ()), hold_after)


def cursor(store: Store) -> int:
    return rows(store, "select max(cursor_us) from ingest_state")[0][0] or 0


def wait_for_frame(store: Store, number: int) -> None:
    wait_for(lambda: cursor(store) >= FIRST_US + number * 1_000_000)


def assert_whole(store: Store, frames: Frames, other: Store) -> None:
    """The store holds what one load of all frames gives."""
    load(other, SOURCE, frames)
    assert digest_of(store) == digest_of(other)
