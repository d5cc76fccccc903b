"""The leash of the SDK's client: a peer that trickles its answer, head or body, is cut after the time that it has."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from scoring.review.answers import NoAnswer
from scoring.review.anthropic_client import Access, Block, Claude, Request
from tests.waiting import LONG_SECONDS, ends_by_itself

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n"


class Trickle:
    """A peer that sends these bytes one at a time and never ends."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self._first, self._then = first, then
        self._end = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.recv(65536)
            connection.sendall(self._first)
            while not self._end.wait(0.02):
                connection.sendall(self._then)

    def close(self) -> None:
        self._end.set()
        self._listener.close()
        self._thread.join(LONG_SECONDS)


@pytest.fixture(name="trickle", params=[(b"HTTP/1.1 200 OK\r\nx-pear: ", b"a"), (HEAD + b"\r\n", b" "), (b"", b"")])
def trickle_fixture(request: pytest.FixtureRequest) -> Iterator[Trickle]:
    peer = Trickle(*request.param)
    yield peer
    peer.close()


def test_an_answer_that_never_ends_is_cut_in_time(trickle: Trickle) -> None:
    claude = Claude(Access("key", trickle.url, seconds=0.2, attempts=1), lambda _: None)
    request = Request("claude-sonnet-4-6", "Review.", (Block("data"),))
    with ends_by_itself(), pytest.raises(NoAnswer) as caught:
        claude.ask(request, 100)
    assert caught.value.reason == "timeout"
