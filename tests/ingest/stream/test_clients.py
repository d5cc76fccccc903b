"""No client of a stream asks for compression or follows a redirect, whichever it is."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from ingest.stream.inspect import SampleProblem, listen
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.knots import EventStream
from tests.ingest.stream.frames import VOUCH
from tests.waiting import wait_for


def listen_for_good(store: Store, url: str) -> Callable[[], object]:
    listener = Listener(store, Subscription("test", [url], [VOUCH]), lambda: None)
    listener.start()
    return listener.stop


def sample(_: Store, url: str) -> Callable[[], object]:
    with suppress(SampleProblem):
        list(listen(url, [VOUCH], 0.5))
    return lambda: None


def read_events(store: Store, url: str) -> Callable[[], object]:
    stream = EventStream(store, Fetcher(), url.removesuffix("/subscribe"), lambda: None)
    stream.start()
    return stream.interrupt


CLIENTS = [listen_for_good, sample, read_events]


@contextmanager
def server(answer: Callable[[Request], Response | None]) -> Generator[tuple[str, list[Request]]]:
    """A WebSocket server that answers so, and what it was asked."""
    asked: list[Request] = []

    def note(_: ServerConnection, request: Request) -> Response | None:
        asked.append(request)
        return answer(request)

    with serve(lambda one: one.close() if one.recv() else None, "127.0.0.1", 0, process_request=note) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{serving.socket.getsockname()[1]}/subscribe", asked
        serving.shutdown()


@pytest.mark.parametrize("client", CLIENTS)
def test_trap_12_no_stream_is_asked_to_be_compressed(client: Callable[..., Callable[[], object]], store: Store) -> None:
    """Two schemes at once are answered by 400, and one that unfolds without bound would be a bomb."""
    with server(lambda _: None) as (url, asked):
        stop = client(store, url)
        wait_for(lambda: bool(asked))
        stop()
    assert asked
    assert [request.headers.get("Sec-WebSocket-Extensions") for request in asked] == [None] * len(asked)
    assert not [request for request in asked if "compress" in request.path]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_that_redirects_leads_nowhere(client: Callable[..., Callable[[], object]], store: Store) -> None:
    """Else any host of the list could point into the operator's own network."""
    with server(lambda _: None) as (private, reached):
        away = Response(307, "Over there", Headers({"Location": private, "Content-Length": "0"}))
        with server(lambda _: away) as (url, asked):
            stop = client(store, url)
            wait_for(lambda: bool(asked))
            time.sleep(0.5)
            stop()
    assert asked
    assert reached == []
