"""A handle is proven by its own domain, in DNS or in a file; what is said there is a stranger's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.atproto.identity import handle_is_verified, resolve_handle
from ingest.errors import FetchProblem
from ingest.http import fetcher as names
from ingest.http.fetcher import Fetcher, texts_of
from tests.ingest.http.dns_server import DnsServer
from tests.ingest.peer import Peer, Request, response
from tests.waiting import LONG_SECONDS, ends_by_itself

HANDLE, NAME = "ana.example.test", "_atproto.ana.example.test"
ANA, EVE = "did:plc:" + "a" * 24, "did:plc:" + "e" * 24
Network = Callable[..., Fetcher]


@pytest.mark.parametrize(
    ("texts", "file", "proven"),
    [
        ([f"did={ANA}"], None, True),
        (None, ANA, True),
        ([], ANA, True),
        ([f"did={ANA}"], ANA, True),
        ([f"did={ANA}", f"did={ANA}", "v=spf1 -all"], None, True),
        ([f"did={ANA}"], "<!doctype html>", True),
        ([f"did={ANA}"], EVE, False),
        ([f"did={EVE}"], ANA, False),
        ([f"did={ANA}", f"did={EVE}"], None, False),
        ([f"did={ANA}", "did=garbage"], None, False),
        (["did="], ANA, False),
        ([f"DID={ANA}", f" did={ANA}", ANA], None, False),
        (None, None, False),
    ],
)
def test_either_way_suffices_and_disagreement_proves_nothing(
    network: Network, texts: list[str] | None, file: str | None, proven: bool
) -> None:
    assert handle_is_verified(network({NAME: texts} if texts is not None else {}, file), HANDLE, ANA) is proven


def test_where_one_way_is_in_trouble_the_other_suffices_and_without_it_the_handle_is_asked_again(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "TEXT_SECONDS", 0.3)
    assert handle_is_verified(network({NAME: [f"did={ANA}"]}, 500), HANDLE, ANA)
    assert handle_is_verified(network({}, ANA, say=lambda _: None), HANDLE, ANA)
    for answer in (None, 500):
        with pytest.raises(FetchProblem) as caught:
            handle_is_verified(network({}, answer, say=lambda _: None), HANDLE, ANA)
        assert caught.value.retry


def test_a_silent_name_server_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "TEXT_SECONDS", 0.3)
    with DnsServer(say=lambda _: None) as server:
        patient = server.resolver()
        patient.lifetime = 2 * LONG_SECONDS  # its own bound
        with ends_by_itself(), pytest.raises(FetchProblem, match="gave no answer"):
            texts_of(NAME, patient)


def test_beside_a_stand_in_no_name_server_is_asked() -> None:
    with Peer(lambda _: response(ANA.encode())) as peer:
        assert resolve_handle(Fetcher(peer.origin), HANDLE) == ANA


@pytest.mark.parametrize("handle", ["localhost", "a.local", "x", "a..test", "_dmarc.example.com", "*.example.com", ""])
def test_what_is_no_handle_is_asked_of_nobody(network: Network, handle: str) -> None:
    with pytest.raises(FetchProblem, match="not a handle"):
        resolve_handle(network({}, ANA), handle)


@given(some.lists(some.text(some.characters(exclude_categories=["Cs"]), max_size=80), max_size=60))
def test_whatever_the_records_say_a_handle_names_a_did_or_nothing(said: list[str]) -> None:
    fetcher = Fetcher("http://127.0.0.1:9", timeout=0.2, texts=lambda _: said)
    with pytest.raises(FetchProblem):
        resolve_handle(fetcher, HANDLE)


def test_records_are_bounded_in_number_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "TEXTS", 3)
    monkeypatch.setattr(names, "TEXT_LIMIT", 10)
    with DnsServer({NAME: [f"did={number}{'x' * 50}" for number in range(9)]}) as server:
        found = texts_of(NAME, server.resolver())
    assert [len(text) for text in found] == [10, 10, 10]


def test_an_answer_of_rubbish_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "TEXT_SECONDS", 0.02)
    heard: list[bytes] = []
    with DnsServer(say=lambda question: question.to_wire()[:2] + heard[-1]) as server:
        resolver = server.resolver()

        @given(some.binary(max_size=200))
        def ask(rubbish: bytes) -> None:
            heard.append(rubbish)
            with suppress(FetchProblem):
                assert texts_of(NAME, resolver) == []

        ask()


@pytest.fixture(name="network")
def network_fixture() -> Iterator[Network]:
    """A fetcher whose names are answered by a DNS server and whose files by a peer; None is 404, a number a status."""
    with ExitStack() as started:

        def start(records: dict[str, list[str]], file: str | int | None, **server: object) -> Fetcher:
            dns_server = started.enter_context(DnsServer(records, server.get("say")))  # ty: ignore[invalid-argument-type]
            resolver = dns_server.resolver()

            def answer(request: Request) -> bytes:
                if request.path != "/.well-known/atproto-did" or file is None:
                    return response(b"no", 404)
                return response(b"", file) if isinstance(file, int) else response(file.encode())

            peer = started.enter_context(Peer(answer))
            return Fetcher(peer.origin, texts=lambda name: texts_of(name, resolver))

        yield start
