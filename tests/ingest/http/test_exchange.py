"""An exchange gives refusals with their words, and is as guarded as every other request."""

import pytest

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher, end_within
from tests.ingest.http.fetched import HOST, PUBLIC, SHORT, fetcher_to
from tests.ingest.peer import Request, Start, response
from tests.waiting import ends_by_itself

URL = f"https://{HOST}/token"


def test_a_refusal_is_answered_with_its_body_and_the_chosen_headers(peer: Start) -> None:
    said = {"DPoP_Nonce": "n" * 3_000, "WWW_Authenticate": "DPoP", "Content_Type": "application/json", "X_Other": "x"}
    server = peer(lambda _: response(b'{"error": "no"}', 401, **said))
    answer = Fetcher(server.origin).exchange("GET", URL, {})
    assert (answer.status, answer.body) == (401, b'{"error": "no"}')
    assert dict(answer.headers) == {
        "content-type": "application/json",
        "dpop-nonce": "n" * 1_000,
        "www-authenticate": "DPoP",
    }


def test_method_headers_and_body_arrive_as_they_were_given(peer: Start) -> None:
    server = peer(lambda _: response(b"made", 201))
    answer = Fetcher(server.origin).exchange("POST", f"{URL}?a=b", {"DPoP": "proof", "Content-Type": "text/x"}, b"a=b")
    assert (answer.status, answer.body, answer.headers["dpop-nonce"]) == (201, b"made", "")
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/token?a=b", b"a=b")
    assert (request.headers["host"], request.headers["dpop"], request.headers["content-type"]) == (
        HOST,
        "proof",
        "text/x",
    )


@pytest.mark.parametrize("status", [301, 302, 307, 429, 500, 502, 503])
def test_what_is_neither_an_answer_nor_a_refusal_is_a_problem(peer: Start, status: int) -> None:
    server = peer(lambda _: response(b"elsewhere", status, Location="https://bank.example.org/"))
    fetcher = Fetcher(server.origin)
    with pytest.raises(FetchProblem) as caught:
        fetcher.exchange("POST", URL, {}, b"x")
    assert caught.value.status == status
    assert caught.value.retry == (status >= 429)
    assert bool(fetcher.left_alone()) == (status in (429, 503))
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "size", "is_read"), [(200, 50, True), (200, 51, False), (400, 50, True)])
def test_no_more_is_read_than_is_allowed(peer: Start, status: int, size: int, is_read: bool) -> None:
    fetcher = Fetcher(peer(lambda _: response(b"x" * size, status)).origin)
    if is_read:
        assert len(fetcher.exchange("GET", URL, {}, limit=50).body) == size
    else:
        with pytest.raises(FetchProblem, match="sent more than 50 bytes"):
            fetcher.exchange("GET", URL, {}, limit=50)


def test_a_refusal_has_sixteen_kilobytes_however_much_is_allowed(peer: Start) -> None:
    fetcher = Fetcher(peer(lambda _: response(b"x" * 17_000, 400)).origin)
    with pytest.raises(FetchProblem, match="sent more than 16384 bytes") as caught:
        fetcher.exchange("GET", URL, {})
    assert caught.value.too_large


def test_a_request_whose_answer_is_lost_is_not_sent_again(peer: Start) -> None:
    server = peer(lambda _: iter(()))
    with pytest.raises(FetchProblem) as caught:
        Fetcher(server.origin).exchange("POST", URL, {}, b"x")
    assert caught.value.retry
    assert len(server.requests) == 1


def test_a_silent_server_ends_with_the_deadline(peer: Start) -> None:
    def silent(_: Request) -> bytes:
        server.stopped.wait()
        return b""

    server = peer(silent)
    with ends_by_itself(), pytest.raises(FetchProblem, match="took too long"):
        Fetcher(server.origin, SHORT).exchange("POST", URL, {}, b"x")


def test_requests_that_end_together_end_in_time_and_the_last_one_is_not_blamed_on_its_host(peer: Start) -> None:
    def silent(_: Request) -> bytes:
        server.stopped.wait()
        return b""

    server = peer(silent)
    fetcher = Fetcher(server.origin)
    with end_within(SHORT), end_within(1_000), ends_by_itself():
        for _ in range(2):
            with pytest.raises(FetchProblem, match="took too long") as caught:
                fetcher.exchange("POST", URL, {}, b"x")
            assert caught.value.retry
    assert fetcher.left_alone() == []
    with pytest.raises(FetchProblem, match="took too long"):
        Fetcher(server.origin, SHORT).exchange("POST", URL, {}, b"x")


@pytest.mark.parametrize(
    "url", [f"http://{HOST}/", f"https://{HOST}:8443/", "https://127.0.0.1/", "file:///etc/passwd"]
)
def test_only_plain_https_to_a_named_host_is_asked(url: str) -> None:
    with pytest.raises(FetchProblem):
        fetcher_to(0).exchange("POST", url, {}, b"x")


def test_a_private_address_is_never_connected_to() -> None:
    dialled: list[str] = []
    with pytest.raises(FetchProblem, match="not a public address"):
        fetcher_to(0, addresses=[PUBLIC, "10.0.0.1"], dialled=dialled).exchange("POST", URL, {}, b"x")
    assert dialled == []


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nX-Injected: 1"])
def test_a_header_that_would_hold_another_is_not_sent(peer: Start, value: str) -> None:
    server = peer(lambda _: response(b""))
    with pytest.raises(FetchProblem):
        Fetcher(server.origin).exchange("GET", URL, {"Authorization": value})
    assert not any("x-injected" in request.headers for request in server.requests)


def test_a_closed_fetcher_exchanges_nothing(peer: Start) -> None:
    server = peer(lambda _: response(b""))
    fetcher = Fetcher(server.origin)
    fetcher.close()
    with pytest.raises(FetchProblem, match="was closed"):
        fetcher.exchange("GET", URL, {})
    assert not server.requests
