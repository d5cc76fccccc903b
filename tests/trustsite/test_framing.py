"""A request whose end can be read in two ways is refused, so that no proxy and this site see two different ones."""

import socket
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waitress.adjustments import Adjustments
from waitress.parser import HTTPRequestParser

from tests.trustsite import runs
from tests.trustsite.busy import answers_at
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite import drive
from trustsite.demo.framing import StrictParser

PAGE = "/sign-in"
LENGTHS = ("Content-Length: 5", "content-length:5", "CONTENT-LENGTH: \t5 ", "Content-Length: 0")
ENCODINGS = ("Transfer-Encoding: chunked", "transfer-encoding:CHUNKED", "Transfer-Encoding: \tchunked ")
OTHERS = ("Host: 127.0.0.1", "Accept: */*", "X-Transfer-Encoding: chunked", "Connection: keep-alive")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a web process."""
    root, port = tmp_path_factory.mktemp("framing") / "drive", free_port()
    root.mkdir()
    drive.mark(root)
    process = runs.start("web", DATA_ROOT=root, BIND=f"127.0.0.1:{port}")
    try:
        wait_for(lambda: answers_at(port, PAGE))
        yield port
    finally:
        process.kill()
        process.communicate()


def everything_said(port: int, sent: bytes) -> bytes:
    """Read until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), LONG_SECONDS) as visitor:
        visitor.sendall(sent)
        said = b""
        while more := visitor.recv(65_536):
            said += more
        return said


SMUGGLED = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize("length", [b"4", b"0", b"6", b"1000"])
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("order", [1, -1])
def test_two_lengths_are_refused_and_what_follows_is_never_answered(
    port: int, length: bytes, version: bytes, order: int
) -> None:
    headers = [b"Content-Length: " + length, b"Transfer-Encoding: chunked"][::order]
    head = b"\r\n".join([b"POST /sign-in HTTP/" + version, b"Host: 127.0.0.1", b"Connection: keep-alive", *headers])
    said = everything_said(port, head + b"\r\n\r\n0\r\n\r\n" + SMUGGLED)
    assert said.split(b" ", 2)[1] == b"400"
    assert said.count(b"HTTP/1.") == 1
    assert b"leave open where the request ends" in said


def test_a_request_with_one_length_is_answered(port: int) -> None:
    chunked = (
        b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    assert everything_said(port, chunked).split(b" ", 2)[1] == b"403"  # no token of a form
    counted = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    assert everything_said(port, counted).split(b" ", 2)[1] == b"403"


def read(parser: type[HTTPRequestParser], headers: list[str]) -> HTTPRequestParser:
    made = parser(Adjustments())
    made.received(("POST / HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n").encode())
    return made


@given(
    others=st.lists(st.sampled_from(OTHERS), max_size=4, unique=True),
    lengths=st.lists(st.sampled_from(LENGTHS), max_size=1),
    encodings=st.lists(st.sampled_from(ENCODINGS), max_size=1),
    order=st.randoms(use_true_random=False),
)
def test_whatever_their_order_and_spelling_two_lengths_are_refused_and_one_is_read_as_before(
    others: list[str], lengths: list[str], encodings: list[str], order: Random
) -> None:
    headers = [*others, *lengths, *encodings]
    order.shuffle(headers)
    strict, plain = read(StrictParser, headers), read(HTTPRequestParser, headers)
    if lengths and encodings:
        assert strict.error is not None
        assert strict.error.code == 400
        assert strict.completed
    else:
        assert (strict.error, strict.headers, strict.chunked) == (plain.error, plain.headers, plain.chunked)
