"""A peer is asked by few at a time, and left alone when it says so."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.rate_limits import AT_A_TIME, PACES, Manners
from ingest.http.sockets import Leash
from tests.ingest.peer import Request, Start, response
from tests.waiting import LONG_SECONDS, ends_by_itself, wait_for


def test_a_host_gets_few_requests_at_a_time_and_others_do_not_wait_for_it(peer: Start) -> None:
    lock, release, most, now = threading.Lock(), threading.Event(), [0], [0]

    def answer(request: Request) -> bytes:
        if request.headers["host"] == "other.example.test":
            return response(b"at once")
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        release.wait(LONG_SECONDS)
        with lock:
            now[0] -= 1
        return response(b"slowly")

    fetcher = Fetcher(peer(answer).origin, timeout=LONG_SECONDS)
    with ThreadPoolExecutor(16) as pool:
        slow = [pool.submit(fetcher.get, "https://slow.example.test/") for _ in range(15)]
        wait_for(lambda: now[0] == AT_A_TIME)
        assert fetcher.get("https://other.example.test/") == b"at once"
        release.set()
        assert {one.result() for one in slow} == {b"slowly"}
    assert most[0] == AT_A_TIME


def test_who_waits_for_a_place_waits_no_longer_than_a_request_may_take() -> None:
    manners, closed = Manners(at_a_time=1), threading.Event()
    with manners.place("a.test", Leash(2 * LONG_SECONDS, closed)), ends_by_itself():  # noqa: SIM117
        with pytest.raises(OSError), manners.place("a.test", Leash(0.3, closed)):  # noqa: PT011
            pytest.fail("two at a time")
    with manners.place("a.test", Leash(5, closed)):
        pass


def test_a_host_with_a_pace_gets_no_second_request_before_its_time_and_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PACES, "slow.test", 2 * LONG_SECONDS)
    manners, closed = Manners(), threading.Event()
    with manners.place("slow.test", Leash(LONG_SECONDS, closed)):
        pass
    with pytest.raises(OSError), manners.place("slow.test", Leash(0.3, closed)):  # noqa: PT011
        pytest.fail("two within the time of one")
    with manners.place("other.test", Leash(LONG_SECONDS, closed)):
        pass
    monkeypatch.setitem(PACES, "brisk.test", 0.05)
    for _ in range(3):
        with manners.place("brisk.test", Leash(LONG_SECONDS, closed)):
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


def after_an_answer(peer: Start, status: int = 200, **headers: str) -> float:
    """How many seconds a host is left alone that answered once with these headers."""
    fetcher = Fetcher(peer(lambda _: response(b"said", status, **headers)).origin)
    with suppress(FetchProblem):
        fetcher.get("https://pds.example.test/")
    return fetcher.manners.quiet().get("pds.example.test", 0.0)


def test_a_host_of_whose_allowance_nothing_is_left_is_asked_again_once_it_begins_anew(peer: Start) -> None:
    server = peer(lambda _: response(b"said", RateLimit_Remaining="0", RateLimit_Reset=str(int(time.time()) + 200)))
    fetcher = Fetcher(server.origin)
    assert fetcher.get("https://pds.example.test/") == b"said"
    with pytest.raises(FetchProblem, match="is left alone") as caught:
        fetcher.get("https://pds.example.test/")
    assert caught.value.retry
    assert caught.value.after is not None
    assert 100 < caught.value.after <= 200
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("remaining", "reset", "least", "most"),
    [
        ("0", "120", 60, 120),
        ("0", "99999999999999", 800, 900),
        ("0", "86400", 800, 900),
        ("0", "1000000000", 0, 0),
        ("0", "soon", 0, 0),
        ("0", "-5", 0, 0),
        ("0", "9" * 400, 0, 0),
        ("1", "120", 0, 0),
        ("", "120", 0, 0),
        ("none", "120", 0, 0),
    ],
)
def test_the_rest_is_bounded_and_what_makes_no_sense_is_not_heeded(
    peer: Start, remaining: str, reset: str, least: float, most: float
) -> None:
    assert least <= after_an_answer(peer, RateLimit_Remaining=remaining, RateLimit_Reset=reset) <= most


def test_of_two_rests_that_a_host_asks_for_the_longer_counts(peer: Start) -> None:
    both = {"RateLimit_Remaining": "0", "Retry_After": "30"}
    assert 60 < after_an_answer(peer, 429, RateLimit_Reset="90", **both) <= 90
    assert 15 < after_an_answer(peer, 429, RateLimit_Reset="2", **both) <= 30


def test_a_refusal_without_a_word_of_when_is_over_when_the_allowance_begins_anew(peer: Start) -> None:
    server = peer(lambda _: response(b"", 429, RateLimit_Remaining="0", RateLimit_Reset="70"))
    with pytest.raises(FetchProblem) as caught:
        Fetcher(server.origin).get("https://pds.example.test/")
    assert caught.value.after == 70


def test_a_used_up_allowance_of_github_which_refuses_by_403_is_waited_for(peer: Start) -> None:
    reset = {"X_RateLimit_Reset": str(int(time.time()) + 200)}
    with pytest.raises(FetchProblem, match="answered 403") as caught:
        Fetcher(peer(lambda _: response(b"", 403, X_RateLimit_Remaining="0", **reset)).origin).get("https://x.test/")
    assert caught.value.retry
    assert caught.value.after is not None
    assert 100 < caught.value.after <= 200
    with pytest.raises(FetchProblem) as caught:
        Fetcher(peer(lambda _: response(b"", 403, X_RateLimit_Remaining="9", **reset)).origin).get("https://x.test/")
    assert not caught.value.retry
