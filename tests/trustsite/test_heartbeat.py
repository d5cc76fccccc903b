"""The heartbeat names the state of a worker's parts."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from huey import MemoryHuey

from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.knots import EventStream
from ingest.worker.status import Status
from tests.trustsite.ports import free_port
from tests.waiting import wait_for
from trustsite.hops import Hops
from trustsite.worker.worker import Publishing, Worker


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    owned = Store.open(tmp_path / "trust.duckdb")
    owned.bind("test")
    yield owned
    owned.close()


def told(store: Store, *streams: EventStream) -> Status:
    """The status of a worker of whom only these event streams run."""
    listener = Listener(store, Subscription("test", ["ws://127.0.0.1:9/subscribe"], [], None), lambda: None)
    parts = SimpleNamespace(
        listener=listener,
        publishing=Publishing(store.path.parent),
        hops=Hops(MemoryHuey("heartbeat"), {}),
        fetcher=Fetcher(),
        store=store,
        backfiller=None,
        event_streams=streams,
        runtime=SimpleNamespace(letters=SimpleNamespace(dropped=0)),
    )
    return Worker._status(cast(Worker, parts))


def test_an_event_stream_that_is_not_heard_is_told_with_its_host_and_reason(store: Store) -> None:
    dead, quiet = (
        EventStream(store, Fetcher(), f"ws://127.0.0.1:{free_port()}/events", lambda: None) for _ in range(2)
    )
    assert told(store, dead, quiet).event_streams_down == 0
    dead.start()
    wait_for(lambda: dead.problem)
    status = told(store, dead, quiet)
    dead.interrupt()
    assert status.event_streams_down == 1
    assert status.event_problems == (dead.problem,)
    assert status.event_problems[0].startswith(f"{dead.host} is not answering")
    dead.join()
