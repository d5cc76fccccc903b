"""Visitors who say or take nothing are closed by the server of `manage.py web`, and keep no place."""

import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings
from waitress import channel as waitress_channel
from waitress import server as waitress_server
from waitress import wasyncore

from tests.waiting import LONG_SECONDS, wait_for
from trustsite.management.commands import web

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
    assert caplog.text == ""


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
