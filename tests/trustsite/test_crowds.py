"""Slow, many and large visitors against one real web process: everybody else is answered all the same."""

import contextlib
import resource
import selectors
import socket
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.conftest import Count
from tests.trustsite import runs
from tests.trustsite.busy import answers_at, get
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, ends_by_itself, wait_for
from trustsite import drive
from trustsite.management.commands.web import LARGEST_BODY

PAGE = "/sign-in"
HEAD = b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /review/pr HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
OPEN_FILES = 2_400


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port and the drive of a web process."""
    root, port = tmp_path_factory.mktemp("crowd") / "drive", free_port()
    root.mkdir()
    drive.mark(root)
    process = runs.start("web", DATA_ROOT=root, BIND=f"127.0.0.1:{port}")
    try:
        wait_for(lambda: answers_at(port, PAGE))
        yield port, root
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


@contextmanager
def visitors(port: int, number: int, says: bytes = b"") -> Generator[list[socket.socket]]:
    """So many connections that have said this much and wait."""
    with ExitStack() as held:
        made = []
        for _ in range(number):
            visitor = held.enter_context(socket.create_connection(("127.0.0.1", port), LONG_SECONDS))
            visitor.sendall(says)
            made.append(visitor)
        yield made


@contextmanager
def many_files() -> Generator[None]:
    """Room for thousands of sockets in this process; skips where the machine gives none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES and hard != resource.RLIM_INFINITY and hard < OPEN_FILES:
        pytest.skip(f"a process may have {hard} files open here, {OPEN_FILES} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, OPEN_FILES), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def status_of(visitor: socket.socket) -> bytes:
    """The first line of the answer."""
    told = b""
    while b"\r\n" not in told and (more := visitor.recv(65_536)):
        told += more
    return told.split(b"\r\n")[0]


def test_two_hundred_each_of_idle_half_header_and_half_body_sockets_keep_nobody_waiting(web: tuple[int, Path]) -> None:
    port, _ = web
    half = POST % 1_000 + b"x" * 500
    with visitors(port, 200), visitors(port, 200, HEAD) as slow, visitors(port, 200, half):
        for _ in range(5):
            assert get(port, PAGE)[0] == 200
        slow[0].sendall(b"\r\n")  # who is slow is answered in the end
        assert status_of(slow[0]) == b"HTTP/1.1 200 OK"


def test_with_two_thousand_connections_open_the_next_is_answered_and_so_are_they(
    web: tuple[int, Path], count: Count
) -> None:
    port, _ = web
    with many_files(), visitors(port, 2_000) as made:
        assert get(port, PAGE)[0] == 200
        asking = made[:: count(200, 1)]
        for visitor in asking:
            visitor.sendall(HEAD + b"\r\n")
        assert {status_of(visitor) for visitor in asking} == {b"HTTP/1.1 200 OK"}


def test_a_body_of_fifty_megabytes_is_refused_before_it_is_read(web: tuple[int, Path]) -> None:
    port, root = web
    with visitors(port, 1, POST % 50_000_000) as (visitor,):
        assert status_of(visitor) == b"HTTP/1.1 413 Request Entity Too Large"
    assert get(port, PAGE)[0] == 200
    assert list((root / "cache" / "web").iterdir()) == []


def test_a_body_without_an_end_is_cut_off_at_the_same_size(web: tuple[int, Path]) -> None:
    port, root = web
    head = HEAD.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"
    piece, sent = b"10000\r\n" + b"x" * 0x10000 + b"\r\n", 0
    with visitors(port, 1, head) as (visitor,), ends_by_itself(), contextlib.suppress(ConnectionError):
        while not readable(visitor):
            visitor.sendall(piece)
            sent += 0x10000
            assert sent < 50_000_000
        assert status_of(visitor) == b"HTTP/1.1 413 Request Entity Too Large"
    assert sent >= LARGEST_BODY - 0x10000
    assert list((root / "cache" / "web").iterdir()) == []
    assert get(port, PAGE)[0] == 200


def readable(visitor: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(visitor, selectors.EVENT_READ)
        return bool(selector.select(0))
