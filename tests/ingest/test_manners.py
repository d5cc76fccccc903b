"""A peer is asked by few at a time, and left alone when it says so."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest.manners import AT_A_TIME, Manners
from ingest.net import Fetcher, FetchProblem
from ingest.wire import Leash
from tests.ingest.peer import Request, Start, response


def test_a_host_gets_few_requests_at_a_time_and_others_do_not_wait_for_it(peer: Start) -> None:
    lock, most, now = threading.Lock(), [0], [0]

    def answer(request: Request) -> bytes:
        if request.headers["host"] == "other.example.test":
            return response(b"at once")
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.1)
        with lock:
            now[0] -= 1
        return response(b"slowly")

    fetcher = Fetcher(peer(answer).origin)
    with ThreadPoolExecutor(16) as pool:
        slow = [pool.submit(fetcher.get, "https://slow.example.test/") for _ in range(15)]
        began = time.monotonic()
        assert fetcher.get("https://other.example.test/") == b"at once"
        assert time.monotonic() - began < 0.2
        assert {one.result() for one in slow} == {b"slowly"}
    assert most[0] == AT_A_TIME


def test_who_waits_for_a_place_waits_no_longer_than_a_request_may_take() -> None:
    manners, closed = Manners(at_a_time=1), threading.Event()
    with manners.place("a.test", Leash(5, closed)):
        began = time.monotonic()
        with pytest.raises(OSError), manners.place("a.test", Leash(0.3, closed)):  # noqa: PT011
            pytest.fail("two at a time")
        assert time.monotonic() - began < 1
    with manners.place("a.test", Leash(5, closed)):
        pass


def test_who_asked_to_be_left_alone_is_and_is_shown(peer: Start) -> None:
    server = peer(lambda _: response(b"", 429, Retry_After="30"))
    fetcher = Fetcher(server.origin)
    for _ in range(3):
        with pytest.raises(FetchProblem) as caught:
            fetcher.get("https://busy.example.test/")
        assert caught.value.retry
    assert len(server.requests) == 1
    assert list(fetcher.manners.quiet()) == ["busy.example.test"]
    assert 25 < fetcher.manners.quiet()["busy.example.test"] <= 30
