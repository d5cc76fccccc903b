"""The guarded fetcher against peers that lie, drip, flood, redirect and point at private places."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import msgspec
import pytest

from ingest.errors import FetchProblem
from ingest.http import fetcher as net
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import is_host, is_public
from tests.ingest.http.fetched import HOST, PUBLIC, SHORT, fetcher_to, served
from tests.ingest.peer import Answer, Peer, Request, Start, response
from tests.waiting import LONG_SECONDS, ends_by_itself


def test_a_redirect_is_a_problem_that_names_where_it_led(peer: Start) -> None:
    place = "https://169.254.169.254/latest\x1b[31m" + "x" * 5000
    server = peer(lambda _: response(b"", 302, Location=place))
    problem = problem_of(server)
    assert "a redirect to https://169.254.169.254/latest" in str(problem)
    assert "\x1b" not in str(problem)
    assert len(str(problem)) < 200
    assert (problem.status, problem.retry) == (302, False)
    assert len(server.requests) == 1


FLOOD = b"x" * 50_000


def endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def chunked(piece: bytes) -> Iterator[bytes]:
    yield response(Transfer_Encoding="chunked")
    while True:
        yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"


def headed(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from pieces


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: response(FLOOD),
        lambda _: headed(b"HTTP/1.1 200 Said\r\n\r\n", endless(FLOOD)),
        lambda _: chunked(FLOOD),
        lambda _: chunked(b"x"),
        lambda _: response(gzip.compress(b"\0" * 30_000_000), Content_Encoding="gzip"),
        lambda _: response(gzip.compress(gzip.compress(b"\0" * 30_000_000)), Content_Encoding="gzip, gzip"),
        lambda _: headed(b"HTTP/1.1 200 Said\r\nX: ", endless(FLOOD)),
        lambda _: headed(b"HTTP/1.1 200 Said\r\n", endless(b"X: y\r\n" * 90)),
        lambda _: endless(b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"),
    ],
    ids=["declared", "endless", "chunked", "one-byte-chunks", "bomb", "bombs", "header", "headers", "continue"],
)
def test_an_answer_over_the_limit_is_cut_off(peer: Start, answer: Callable[[Request], Answer]) -> None:
    problem = problem_of(peer(answer), limit=10_000)
    assert problem.too_large or "broke" in str(problem)  # and not: it took too long
    assert not problem.absent


def drip(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    for _ in range(int(2 * LONG_SECONDS / 0.05)):
        time.sleep(0.05)
        yield piece


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: drip(b"HTTP/1.1 200 Said\r\nContent-Length: 1000\r\n\r\n", b"x"),
        lambda _: drip(b"HTTP/1.1 200 Said\r\n", b"X"),
        lambda _: drip(b"HTTP/1.1 200 Said\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        lambda _: drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        lambda _: drip(b"", b""),
    ],
    ids=["body", "headers", "chunks", "continue", "silence"],
)
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_dripping_peer_cannot_hold_a_thread(
    answer: Callable[[Request], Answer], secure: bool, request: pytest.FixtureRequest
) -> None:
    certificate = request.getfixturevalue("tls") if secure else None
    with served(answer, certificate) as server:
        fetcher = fetcher_to(server.port, certificate, SHORT) if certificate else Fetcher(server.origin, SHORT)
        with ends_by_itself(), pytest.raises(FetchProblem, match="took too long") as caught:
            fetcher.get(f"https://{HOST}/")
        assert caught.value.retry
        with pytest.raises(FetchProblem, match="is left alone"):
            fetcher.get(f"https://{HOST}/")
    assert len(server.requests) <= 1


def test_one_connection_serves_many_requests_and_errors(peer: Start) -> None:
    server = peer(lambda request: response(b"no", 404) if request.path == "/none" else response(b"yes"))
    fetcher = Fetcher(server.origin)
    for _ in range(5):
        assert fetcher.get(f"https://{HOST}/some") == b"yes"
        with pytest.raises(FetchProblem):
            fetcher.get(f"https://{HOST}/none")
    assert (len(server.requests), server.connections) == (10, 1)


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(peer: Start) -> None:
    server = peer(lambda _: [response(b"once")])
    fetcher = Fetcher(server.origin)
    assert [fetcher.get(f"https://{HOST}/") for _ in range(3)] == [b"once"] * 3


@pytest.mark.parametrize(
    ("status", "absent", "retry"),
    [(404, True, False), (410, True, False), (400, False, False), (403, False, False), (204, False, False),
     (429, False, True), (500, False, True), (503, False, True), (408, False, True)],
)  # fmt: skip
def test_a_status_says_whether_to_ask_again(peer: Start, status: int, absent: bool, retry: bool) -> None:
    problem = problem_of(peer(lambda _: response(b"", status)))
    assert (problem.status, problem.absent, problem.retry) == (status, absent, retry)


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [("7", 7, 7), ("999999999", 21_600, 21_600), ("in a minute", 40, 61), ("0", 0, 0)],
)
def test_retry_after_is_read_and_bounded(peer: Start, said: str, least: int, most: int) -> None:
    said = formatdate(time.time() + 60, usegmt=True) if said == "in a minute" else said
    after = problem_of(peer(lambda _: response(b"", 429, Retry_After=said))).after
    assert after is not None
    assert least <= after <= most


@pytest.mark.parametrize("said", ["soon", "-5", "1e9", "٣", "Mon, 99 Foo 2020"])
def test_a_retry_after_without_sense_is_none(peer: Start, said: str) -> None:
    server = peer(lambda _: f"HTTP/1.1 503 Said\r\nRetry-After: {said}\r\nContent-Length: 0\r\n\r\n".encode())
    assert problem_of(server).after is None


def test_close_ends_a_request_in_hand_and_refuses_the_next(peer: Start) -> None:
    server = peer(lambda _: drip(b"HTTP/1.1 200 Said\r\nContent-Length: 1000\r\n\r\n", b"x"))
    fetcher = Fetcher(server.origin, 2 * LONG_SECONDS)
    threading.Timer(0.2, fetcher.close).start()
    with ends_by_itself():
        for _ in range(2):
            with pytest.raises(FetchProblem, match="was closed") as caught:
                fetcher.get(f"https://{HOST}/")
            assert caught.value.closed


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b'{"a": 1} x', b"[" * 100_000, b'{"a":' * 100_000, b'{"a": "text"}', b'{"a": 1e999}', b"\xff"],
)
def test_json_that_cannot_be_used_is_a_problem(peer: Start, body: bytes) -> None:
    server = peer(lambda _: response(body))
    with pytest.raises(FetchProblem, match="unusable JSON") as caught:
        Fetcher(server.origin).get_json(f"https://{HOST}/", dict[str, int])
    assert len(str(caught.value)) < 200


def test_deep_json_in_a_field_that_nobody_asked_for_is_a_problem_or_dropped(peer: Start) -> None:
    class Shape(msgspec.Struct):
        a: int

    server = peer(lambda _: response(b'{"b": ' + b"[" * 200_000 + b"]" * 200_000 + b', "a": 1}'))
    with pytest.raises(FetchProblem, match="unusable JSON"):
        Fetcher(server.origin).get_json(f"https://{HOST}/", Shape)


def test_what_is_no_http_is_a_problem(peer: Start) -> None:
    problem = problem_of(peer(lambda _: [b"SSH-2.0-OpenSSH_9.2\r\n\x00\xff\n"]))
    assert "broke" in str(problem)
    assert problem_of(peer(lambda _: [response(b"short", Content_Length="500")])).retry


def problem_of(server: Peer, limit: int = 1_000_000) -> FetchProblem:
    with pytest.raises(FetchProblem) as caught:
        Fetcher(server.origin).get(f"https://{HOST}/", limit)
    return caught.value


def test_a_refused_connection_is_told_as_that_and_the_host_is_asked_again_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    fetcher = fetcher_to(port)
    for _ in range(2):
        with pytest.raises(FetchProblem, match=f"^{HOST} could not be connected to$") as caught:
            fetcher.get(f"https://{HOST}/")
        assert caught.value.retry
    assert fetcher.left_alone() == []


PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.9", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1",
    "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fd00::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::", "64:ff9b::10.0.0.1",
    "64:ff9b:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "not an address",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_outside_the_public_internet_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1::1", "::ffff:93.184.216.34", "2002:5db8:d822::1"])
def test_an_address_of_the_public_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_host_that_points_to_a_private_address_is_never_connected_to(address: str) -> None:
    dialled: list[str] = []
    with pytest.raises(FetchProblem, match="not a public address"):
        fetcher_to(0, addresses=[PUBLIC, address], dialled=dialled).get(f"https://{HOST}/")
    assert dialled == []


@pytest.mark.parametrize(
    "url",
    [
        f"http://{HOST}/", f"ftp://{HOST}/", "file:///etc/passwd", f"https://user@{HOST}/", f"https://{HOST}:8443/",
        f"https://{HOST}:22/", f"https://{HOST}/a#b", f"https://{HOST}/a b", f"https://{HOST}/a\r\nHost: b",
        f"https://{HOST}\\@evil.test/", "https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/",
        "https://127.1/", "https://[::1]/", "https://localhost/", f"https://{HOST}./", "https://-a.test/", "https:///x",
        f"https://{'a' * 64}.test/", "https://exämple.test/", f"https://{HOST}/" + "a" * 3000, "",
    ],
)  # fmt: skip
def test_only_plain_https_to_a_named_host_is_fetched(url: str) -> None:
    dialled: list[str] = []
    with pytest.raises(FetchProblem) as caught:
        fetcher_to(0, dialled=dialled).get(url)
    assert not caught.value.retry
    assert len(str(caught.value)) < 250
    assert dialled == []


def test_host_names_are_lower_case_names_of_two_labels_or_more() -> None:
    assert is_host("knot1.tangled.sh")
    assert is_host("xn--bcher-kva.example")
    for name in ("tangled", "A.test", "a..test", "a.test.", "1.2.3.4", "a_b.test", "a.test/x", "", ".test"):
        assert not is_host(name), name


def test_the_certificate_must_be_for_the_name_and_the_name_is_sent(tls: Path) -> None:
    with served(lambda _: response(b"hello"), tls) as peer:
        assert fetcher_to(peer.port, tls).get(f"https://{HOST}/x") == b"hello"
        assert peer.names == [HOST]
        assert peer.requests[0].headers["host"] == HOST
        assert peer.requests[0].headers["user-agent"].startswith("Sunstead")
        with pytest.raises(FetchProblem, match=r"other\.example\.test has no valid certificate"):
            fetcher_to(peer.port, tls).get("https://other.example.test/")
        with pytest.raises(FetchProblem, match="no valid certificate"):
            fetcher_to(peer.port).get(f"https://{HOST}/")
    assert len(peer.requests) == 1


def test_a_name_that_turns_private_after_the_check_gains_nothing(tls: Path) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    dialled: list[str] = []
    with served(lambda _: response(b"", Connection="close"), tls) as peer:
        fetcher = fetcher_to(peer.port, tls, resolver=lambda _: next(answers), dialled=dialled)
        for _ in range(3):
            fetcher.get(f"https://{HOST}/")
    assert peer.connections == 3
    assert dialled == [PUBLIC]
    assert next(answers) == ["127.0.0.1"]


def test_a_name_is_checked_again_when_its_pin_runs_out(tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "PIN_SECONDS", 0.0)
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    with served(lambda _: response(b""), tls) as peer:
        fetcher = fetcher_to(peer.port, tls, resolver=lambda _: next(answers))
        fetcher.get(f"https://{HOST}/")
        with pytest.raises(FetchProblem, match="not a public address"):
            fetcher.get(f"https://{HOST}/")
    assert len(peer.requests) == 1


def test_proxies_of_the_environment_are_not_used(tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with served(lambda _: response(b"straight"), tls) as peer:
        assert fetcher_to(peer.port, tls).get(f"https://{HOST}/") == b"straight"


def test_a_resolver_that_hangs_cannot_hold_a_thread() -> None:
    release = threading.Event()
    fetcher = fetcher_to(0, resolver=lambda _: (release.wait(2 * LONG_SECONDS) and [PUBLIC]) or [PUBLIC], timeout=SHORT)
    with ends_by_itself(), pytest.raises(FetchProblem, match="looking up"):
        fetcher.get(f"https://{HOST}/")
    release.set()


@pytest.mark.parametrize(("error", "retry"), [(socket.EAI_AGAIN, True), (socket.EAI_NONAME, False)])
def test_a_name_without_address_is_told_from_a_resolver_in_trouble(error: int, retry: bool) -> None:
    def fail(_: str) -> list[str]:
        raise socket.gaierror(error, "no")

    with pytest.raises(FetchProblem, match="DNS finds no such name") as caught:
        fetcher_to(0, resolver=fail).get(f"https://{HOST}/")
    assert caught.value.retry is retry


def test_the_stand_in_gets_the_original_host_and_path(peer: Start) -> None:
    server = peer(lambda request: response(f"{request.headers['host']}{request.path}".encode()))
    fetcher = Fetcher(server.origin)
    assert fetcher.get("https://knot.example.test/xrpc/a?b=c") == b"knot.example.test/xrpc/a?b=c"
    assert fetcher.get("https://localhost:8765/x") == b"localhost:8765/x"
    assert fetcher.get(f"{server.origin}/plc") == f"127.0.0.1:{server.port}/plc".encode()
    with pytest.raises(FetchProblem):
        fetcher.get("http://knot.example.test/")


@pytest.mark.parametrize("origin", ["http://10.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1", "127.0.0.1:80"])
def test_a_stand_in_is_on_loopback(origin: str) -> None:
    with pytest.raises(ValueError, match="stand-in"):
        Fetcher(origin)
