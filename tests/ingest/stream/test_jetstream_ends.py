"""Trouble around the listener: it goes on, or says that it ended and why."""

import sqlite3

import pytest

from ingest.store.database import Store
from ingest.stream.jetstream import Listener, Subscription
from tests.ingest.stream.frames import SOURCE
from tests.ingest.stream.listening import Start, cursor, peer, wait_for_frame, written
from tests.waiting import wait_for


def test_a_listener_without_an_address_is_refused_at_once(store: Store) -> None:
    with pytest.raises(ValueError, match=r"There is no address to listen to: give at least one"):
        Listener(store, Subscription(SOURCE, [], ()), lambda: None)


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "http://127.0.0.1/subscribe", "ws://[::1/", "ws://127.0.0.1:99999/", f"ws://{'a' * 70}.test/"],
)
def test_a_wrong_address_is_a_problem_in_words_and_the_next_one_is_tried(store: Store, listen: Start, url: str) -> None:
    alone = listen(url)
    wait_for(lambda: alone.problem is not None)
    assert alone.is_alive()
    assert url in (alone.problem or "")
    alone.stop()
    assert alone.ended_because is None
    with peer(written(20)) as server:
        listen(url, server.url)
        wait_for_frame(store, 19)


def test_a_proxy_that_cannot_be_used_is_a_problem_in_words(listen: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ws_proxy", "socks5://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    monkeypatch.setenv("socks_proxy", "socks5://127.0.0.1:1")
    listener = listen("ws://stream.example.test/subscribe")
    wait_for(lambda: listener.problem is not None)
    assert "check it and the proxy settings" in (listener.problem or "")
    assert listener.is_alive()


def test_a_queue_that_cannot_be_written_for_a_while_ends_nothing(store: Store, listen: Start) -> None:
    calls = 0

    def wake() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise sqlite3.OperationalError("database or disk is full")

    with peer(written(20)) as server:
        listener = listen(server.url, on_loaded=wake)
        wait_for(lambda: calls >= 3)
        assert listener.is_alive()
    assert cursor(store) > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_the_program_is_told_and_a_renewed_listener_goes_on(store: Store, listen: Start) -> None:
    broken = True

    def wake() -> None:
        if broken:
            raise KeyError("a fault")

    frames = written(40)
    with peer(frames, hold_after=20) as server:
        listener = listen(server.url, on_loaded=wake)
        wait_for(lambda: not listener.is_alive())
        assert "ended by an error in the program ('a fault')" in (listener.ended_because or "")
        assert listener.problem == listener.ended_because
        broken = False
        server.release(None)
        renewed = listener.renewed()
        assert renewed.ended_because is None
        renewed.start()
        try:
            wait_for_frame(store, 39)
        finally:
            renewed.stop()
        assert (renewed.is_alive(), renewed.ended_because) == (False, None)
