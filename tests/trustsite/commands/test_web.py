"""Slow, many and large visitors against one real web process: everybody else is answered all the same.

A request whose end can be read in two ways is refused, so that no proxy and this site see two different ones.
"""

import contextlib
import resource
import selectors
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from waitress import channel as waitress_channel
from waitress import server as waitress_server
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.parser import HTTPRequestParser

from tests.conftest import Count
from tests.trustsite import runs
from tests.trustsite.busy import answers_at, get
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, ends_by_itself, wait_for
from trustsite import drive
from trustsite.management.commands import web
from trustsite.management.commands.web import LARGEST_BODY, StrictParser

PAGE = "/sign-in"
HEAD = b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /review/pr HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
OPEN_FILES = 2_400
LENGTHS = ("Content-Length: 5", "content-length:5", "CONTENT-LENGTH: \t5 ", "Content-Length: 0")
ENCODINGS = ("Transfer-Encoding: chunked", "transfer-encoding:CHUNKED", "Transfer-Encoding: \tchunked ")
OTHERS = ("Host: 127.0.0.1", "Accept: */*", "X-Transfer-Encoding: chunked", "Connection: keep-alive")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
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


def test_two_hundred_each_of_idle_half_header_and_half_body_sockets_keep_nobody_waiting(
    crowded: tuple[int, Path],
) -> None:
    port, _ = crowded
    half = POST % 1_000 + b"x" * 500
    with visitors(port, 200), visitors(port, 200, HEAD) as slow, visitors(port, 200, half):
        for _ in range(5):
            assert get(port, PAGE)[0] == 200
        slow[0].sendall(b"\r\n")  # who is slow is answered in the end
        assert status_of(slow[0]) == b"HTTP/1.1 200 OK"


def test_with_two_thousand_connections_open_the_next_is_answered_and_so_are_they(
    crowded: tuple[int, Path], count: Count
) -> None:
    port, _ = crowded
    with many_files(), visitors(port, 2_000) as made:
        assert get(port, PAGE)[0] == 200
        asking = made[:: count(200, 1)]
        for visitor in asking:
            visitor.sendall(HEAD + b"\r\n")
        assert {status_of(visitor) for visitor in asking} == {b"HTTP/1.1 200 OK"}


def test_a_body_of_fifty_megabytes_is_refused_before_it_is_read(crowded: tuple[int, Path]) -> None:
    port, root = crowded
    with visitors(port, 1, POST % 50_000_000) as (visitor,):
        assert status_of(visitor) == b"HTTP/1.1 413 Request Entity Too Large"
    assert get(port, PAGE)[0] == 200
    assert list((root / "cache" / "web").iterdir()) == []


def test_a_body_without_an_end_is_cut_off_at_the_same_size(crowded: tuple[int, Path]) -> None:
    port, root = crowded
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
    crowded: tuple[int, Path], length: bytes, version: bytes, order: int
) -> None:
    headers = [b"Content-Length: " + length, b"Transfer-Encoding: chunked"][::order]
    head = b"\r\n".join([b"POST /sign-in HTTP/" + version, b"Host: 127.0.0.1", b"Connection: keep-alive", *headers])
    said = everything_said(crowded[0], head + b"\r\n\r\n0\r\n\r\n" + SMUGGLED)
    assert said.split(b" ", 2)[1] == b"400"
    assert said.count(b"HTTP/1.") == 1
    assert b"leave open where the request ends" in said


def test_a_request_with_one_length_is_answered(crowded: tuple[int, Path]) -> None:
    port, _ = crowded
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


ASKED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HALF_HEAD, HALF_BODY = ASKED[:-2], b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
CHUNK, CHUNKS = b"x" * 1_000_000, 40  # of an answer that fits neither into the buffers nor below waitress' 16 MB
LOOKS_SECONDS = 30  # how often waitress looks for the silent


class Site:
    """A listening server with its own clock; its pages are short, of 2 kB, of 40 MB, and one waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.may_answer = threading.Event()
        self.server: Any = None

    def application(self, environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        """The page of this path."""
        if environ["PATH_INFO"] == "/waits":
            assert self.may_answer.wait(LONG_SECONDS)
        pages = {"/large": [CHUNK] * CHUNKS, "/page": [b"not so " * 300 + b"short"]}
        told = pages.get(environ["PATH_INFO"], [b"short"])
        start("200 OK", [("Content-Length", str(sum(map(len, told))))])
        return iter(told)

    def visit(self, says: bytes) -> socket.socket:
        """Somebody who has connected and said this much."""
        made = socket.create_connection(("127.0.0.1", int(self.server.effective_port)), LONG_SECONDS)
        made.sendall(says)
        return made

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on and the server look at it."""
        self.now += seconds
        self.server.pull_trigger()

    @property
    def channels(self) -> list[Any]:
        """Of the connections that the server holds."""
        return list(self.server.active_channels.values())

    def end(self) -> None:
        """Close what the server holds, from the thread that runs it."""
        self.may_answer.set()
        self.server.trigger.pull_trigger(lambda: wasyncore.close_all(self.server._map))
        self.server.task_dispatcher.shutdown()


@contextmanager
def serving(site: Site) -> Generator[ExitStack]:
    """The site served as `manage.py web` serves, and what closes the visitors."""
    site.server = web.listen("127.0.0.1:0")
    running = threading.Thread(target=site.server.run)
    running.start()
    try:
        with ExitStack() as visitors:
            yield visitors
    finally:
        site.end()
        running.join(LONG_SECONDS)
    assert not running.is_alive()


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site()
    settings.ROOT = tmp_path
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)  # which the server sets for its process
    monkeypatch.setitem(sys.modules, "trustsite.wsgi", SimpleNamespace(application=made.application))
    for module in (waitress_server, waitress_channel):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: made.now))
    return made


def answer(visitor: socket.socket) -> bytes:
    """What a visitor is told: up to the end of the short page, or b"" where the connection was closed."""
    told = b""
    while not told.endswith(b"short") and (more := visitor.recv(65_536)):
        told += more
    return told


def test_whoever_says_nothing_for_a_minute_is_closed_and_who_is_served_stays(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "CONNECTIONS", 7)  # the listening socket, the one that wakes it and five visitors
    with serving(site) as held:
        silent = [held.enter_context(site.visit(says)) for says in (b"", HALF_HEAD, HALF_BODY)]
        lively = held.enter_context(site.visit(ASKED))
        waiting = held.enter_context(site.visit(ASKED.replace(b"/ ", b"/waits ", 1)))
        assert answer(lively).endswith(b"short")
        wait_for(lambda: sum(one.request is not None for one in site.channels) == 2, what="both halves")
        turned_away = held.enter_context(site.visit(ASKED))  # the kernel takes it, the server does not
        site.pass_time(web.SILENT_SECONDS - 1)
        lively.sendall(ASKED)
        assert answer(lively).endswith(b"short")
        assert len(site.channels) == 5
        site.pass_time(LOOKS_SECONDS)
        assert [answer(visitor) for visitor in silent] == [b"", b"", b""]
        assert answer(turned_away).endswith(b"short"), "their places are free"
        lively.sendall(ASKED)
        site.may_answer.set()
        assert [answer(visitor)[:15] for visitor in (lively, waiting)] == [b"HTTP/1.1 200 OK"] * 2
        assert len(site.channels) == len(site.server._map) - 2 == 3


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the kernel is asked to do it, which Linux can")
def test_whoever_takes_nothing_of_a_large_answer_is_closed_and_frees_the_thread_that_made_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(web, "SILENT_SECONDS", 1)
    monkeypatch.setattr(web, "THREADS", 1)
    with serving(site) as held:
        held.enter_context(site.visit(ASKED.replace(b"/ ", b"/large ", 1)))
        wait_for(lambda: any(one.total_outbufs_len for one in site.channels), what="an answer that is not taken")
        behind = held.enter_context(site.visit(ASKED))
        assert answer(behind).endswith(b"short")
        assert len(site.channels) == 1
        assert caplog.text == ""  # while it is served: a thread may miss the server that is closed under it


def test_the_head_of_an_answer_is_sent_with_its_body(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send = list[int](), waitress_channel.HTTPChannel.send

    def counted(channel: Any, data: bytes, **how: Any) -> int:
        sent.append(len(data))
        return send(channel, data, **how)

    monkeypatch.setattr(waitress_channel.HTTPChannel, "send", counted)
    with serving(site) as held:
        for path in (b"/ ", b"/page "):
            assert answer(held.enter_context(site.visit(ASKED.replace(b"/ ", path, 1)))).endswith(b"short")
    assert len(sent) == 2, sent
