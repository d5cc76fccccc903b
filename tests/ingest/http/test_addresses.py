"""The fetcher connects to public addresses of plain names alone, pinned and proven by a certificate."""

import socket
import threading
from pathlib import Path

import pytest

from ingest.errors import FetchProblem
from ingest.http import fetcher as net
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import is_host, is_public
from tests.ingest.http.fetched import HOST, PUBLIC, SHORT, fetcher_to, served
from tests.ingest.peer import Start, response
from tests.waiting import LONG_SECONDS, ends_by_itself

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

    with pytest.raises(FetchProblem, match="no address") as caught:
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
