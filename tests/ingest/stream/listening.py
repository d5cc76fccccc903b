"""A listener for the length of a block, what it hears, and how far it has come."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ingest.store.database import Store
from ingest.stream.early import Gap
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import load
from tests.ingest.stream.frames import ANA, FIRST_US, SOURCE, STRANGER, Frames, digest_of, rows
from tests.stores import fresh_store
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import make_recording

Start = Callable[..., Listener]


@contextmanager
def listening(
    store: Store,
    *urls: str,
    collections: Sequence[str] = (),
    quiet: float | None = None,
    on_loaded: Callable[[], None] = lambda: None,
    on_gap: Callable[[Gap], None] = lambda gap: None,
) -> Generator[Listener]:
    """Listen until the block ends; to a live stream where `quiet` says how long it may be silent."""
    listener = Listener(store, Subscription(SOURCE, urls, collections, quiet), on_loaded, on_gap)
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


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


@cache
def digest_after(*frames: bytes) -> dict[str, str]:
    """The digest of a store after one load of these frames: worked out once for all tests that send the same."""
    with TemporaryDirectory() as folder, closing(fresh_store(Path(folder) / "trust.duckdb")) as store:
        store.bind(SOURCE)
        load(store, SOURCE, frames)
        return digest_of(store)


def assert_whole(store: Store, frames: Frames) -> None:
    """The store holds what one load of all frames gives."""
    assert digest_of(store) == digest_after(*frames)
