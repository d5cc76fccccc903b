"""Identities of DIDs, asked of a directory and of hosts that strangers own."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.atproto.identity import (
    handle_is_verified,
    is_handle,
    origin,
    read_identity,
    read_service,
    resolve,
    resolve_handle,
)
from ingest.atproto.syntax import is_did
from ingest.errors import FetchProblem
from ingest.http import fetcher as names
from ingest.http.fetcher import Fetcher, texts_of
from tests.ingest.http.dns_server import DnsServer
from tests.ingest.peer import Peer, Request, Start, response
from tests.waiting import LONG_SECONDS, ends_by_itself

PLC = "https://plc.directory"
ANA = "did:plc:" + "a" * 24
ANSWERS = dict[str, Any]


def entry(created: str = "2023-05-01T10:00:00.123Z", nullified: bool = False, **operation: Any) -> dict[str, Any]:
    shown = {"type": "plc_operation", "alsoKnownAs": ["at://Ana.example.test"], "services": service("pds.example.test")}
    return {"did": ANA, "cid": "b", "createdAt": created, "nullified": nullified, "operation": shown | operation}


def service(host: str) -> dict[str, Any]:
    return {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": f"https://{host}"}}


def test_the_newest_operation_names_and_the_first_valid_one_dates(network: Callable[[ANSWERS], Fetcher]) -> None:
    log = [
        entry("2020-01-01T00:00:00Z", nullified=True),
        entry("2023-05-01T12:00:00.5+02:00", alsoKnownAs=["at://old.example.test"]),
        entry("2024-01-01T00:00:00Z", alsoKnownAs=["https://x.test", "at://Ana.example.test", "at://b.example.test"]),
        entry("2025-01-01T00:00:00Z", nullified=True, alsoKnownAs=["at://thief.example.test"]),
    ]
    found = resolve(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)
    assert found.handle == "ana.example.test"
    assert found.pds == "https://pds.example.test"
    assert found.created_at == datetime(2023, 5, 1, 10, 0, 0, 500_000)


def test_a_repositorys_own_host_is_what_its_newest_operation_names(network: Callable[[ANSWERS], Fetcher]) -> None:
    knot = {"tangled_knot": {"type": "TangledKnot", "endpoint": "https://Knot.example.test/"}}
    log = [entry(services={}), entry(services=service("pds.example.test") | knot)]
    assert read_service(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA) == "knot.example.test"


@pytest.mark.parametrize("named", ["http://knot.example.test", "https://127.0.0.1", "https://knot.example.test:22/x"])
def test_what_is_no_host_of_a_repository_is_none(network: Callable[[ANSWERS], Fetcher], named: str) -> None:
    log = [entry(services={"tangled_knot": {"endpoint": named}})]
    with pytest.raises(FetchProblem, match="knows no host"):
        read_service(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)
    with pytest.raises(FetchProblem, match=r"not a did:plc"):
        read_service(network({}), PLC, "did:web:knot.example.test")


def test_the_oldest_form_of_an_operation_is_read(network: Callable[[ANSWERS], Fetcher]) -> None:
    oldest = {"type": "create", "handle": "ana.example.test", "service": "https://pds.example.test", "prev": None}
    log = [{"did": ANA, "cid": "b", "createdAt": "2022-11-17T00:00:00Z", "nullified": False, "operation": oldest}]
    found = resolve(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)
    assert (found.handle, found.pds) == ("ana.example.test", "https://pds.example.test")


def test_a_tombstoned_or_unknown_did_is_absent(network: Callable[[ANSWERS], Fetcher]) -> None:
    ended = [entry(), {**entry(), "operation": {"type": "plc_tombstone", "prev": "b", "sig": "s"}}]
    for log in (ended, [], [entry(nullified=True)]):
        with pytest.raises(FetchProblem) as caught:
            resolve(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)
        assert caught.value.absent
    with pytest.raises(FetchProblem) as caught:
        resolve(network({}), PLC, ANA)
    assert caught.value.absent


@pytest.mark.parametrize(
    "handle", ["localhost", "a b.test", "169.254.169.254", "evil.local", "x/../y.test", "a@b.test"]
)
@pytest.mark.parametrize(
    "place", ["http://pds.example.test", "https://127.0.0.1", "https://pds.test/path", "file:///x"]
)
def test_claims_that_could_lead_elsewhere_are_dropped(
    network: Callable[[ANSWERS], Fetcher], handle: str, place: str
) -> None:
    log = [entry(alsoKnownAs=[f"at://{handle}"], services={"atproto_pds": {"endpoint": place}})]
    found = resolve(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)
    assert (found.handle, found.pds) == (None, None)


@pytest.mark.parametrize("log", [{}, None, [1], [{"operation": {}}], [entry() | {"createdAt": 5}], "x"])
def test_a_log_of_another_shape_is_a_problem(network: Callable[[ANSWERS], Fetcher], log: object) -> None:
    with pytest.raises(FetchProblem, match="unusable JSON"):
        resolve(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)


def test_a_time_that_is_none_leaves_the_age_unknown(network: Callable[[ANSWERS], Fetcher]) -> None:
    for created in ("yesterday", "", "0001-01-01T00:00:00+23:00"):
        assert resolve(network({f"plc.directory/{ANA}/log/audit": [entry(created)]}), PLC, ANA).created_at is None


def test_a_did_web_is_asked_of_its_own_host_and_has_no_age(network: Callable[[ANSWERS], Fetcher]) -> None:
    did = "did:web:ana.example.test"
    place = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": "https://pds.example.test"}
    odd = {"id": "#other", "serviceEndpoint": {"a": [1]}}
    document = {"id": did, "alsoKnownAs": ["at://ana.example.test"], "service": [odd, place]}
    found = resolve(network({"ana.example.test/.well-known/did.json": document}), PLC, did)
    assert (found.handle, found.pds, found.created_at) == ("ana.example.test", "https://pds.example.test", None)
    with pytest.raises(FetchProblem, match="another DID"):
        resolve(network({"ana.example.test/.well-known/did.json": document | {"id": ANA}}), PLC, did)


def test_the_port_of_a_did_web_is_for_stand_ins_only(network: Callable[[ANSWERS], Fetcher]) -> None:
    did = "did:web:localhost%3A8765"
    found = resolve(network({"localhost:8765/.well-known/did.json": {"id": did}}), PLC, did)
    assert (found.handle, found.pds) == (None, None)
    with pytest.raises(FetchProblem, match="port"):
        resolve(Fetcher(resolver=lambda _: ["127.0.0.1"]), PLC, did)


def test_a_handle_counts_only_when_its_domain_names_the_did(network: Callable[[ANSWERS], Fetcher]) -> None:
    fetcher = network(
        {"ana.example.test/.well-known/atproto-did": f" {ANA}\n", "b.example.test/.well-known/atproto-did": "x"}
    )
    assert resolve_handle(fetcher, "ana.example.test") == ANA
    assert handle_is_verified(fetcher, "ana.example.test", ANA)
    assert not handle_is_verified(fetcher, "ana.example.test", "did:plc:" + "b" * 24)
    assert not handle_is_verified(fetcher, "b.example.test", ANA)
    assert not handle_is_verified(fetcher, "nobody.example.test", ANA)
    assert not handle_is_verified(fetcher, "no handle", ANA)


def test_a_host_in_trouble_is_no_proof_against_a_handle(network: Callable[[ANSWERS], Fetcher]) -> None:
    with pytest.raises(FetchProblem) as caught:
        handle_is_verified(network({"ana.example.test/.well-known/atproto-did": 503}), "ana.example.test", ANA)
    assert caught.value.retry


@pytest.mark.parametrize("did", [ANA, "did:web:example.test", "did:web:a.example.test%3A8443", "did:web:localhost%3A1"])
def test_dids_of_both_methods_are_known(did: str) -> None:
    assert is_did(did)


@pytest.mark.parametrize(
    "text",
    [
        "", "did:plc:", ANA + "a", ANA[:-1], ANA.upper(), ANA.replace("aa", "a1", 1), "did:key:z6Mk",
        "did:web:localhost",
        "did:web:a.test:path", "did:web:a.test%3A99999", "did:web:a.test%3A0", "did:web:a.test/x", "did:web:127.0.0.1",
        "did:web:A.test", ANA + "\n", "did:web:a.test%2Fx", f"at://{ANA}",
    ],
)  # fmt: skip
def test_anything_else_is_no_did(text: str) -> None:
    assert not is_did(text)
    with pytest.raises(FetchProblem):
        resolve(Fetcher(resolver=lambda _: ["127.0.0.1"]), PLC, text)


def test_handles_are_host_names_that_may_carry_one() -> None:
    for handle in ("ana.example.test", "a.co", "xn--bcher-kva.tld", "8.cn", "c-77eb43c6.example.test"):
        assert is_handle(handle), handle
    for text in (
        "ana",
        "Ana.test",
        "a.local",
        "a.onion",
        "a.example",
        "1.2.3.4",
        "a..b",
        "@a.test",
        "a.test\n",
        "-a.test",
    ):
        assert not is_handle(text), text


@given(some.text(max_size=60))
def test_no_text_that_passes_as_a_name_can_leave_a_url(text: str) -> None:
    for passes in (is_did(text), is_handle(text), origin(f"https://{text}") is not None and origin("https://" + text)):
        if passes:
            assert not set(text.removesuffix("/")) & set("/?#@\\ \r\n\t")


@pytest.fixture(name="network")
def network_fixture() -> Iterator[Callable[[ANSWERS], Fetcher]]:
    """Makes a fetcher whose network answers `host/path` with JSON, a text, or a status; 404 for everything else."""
    started: list[Peer] = []

    def make(answers: ANSWERS) -> Fetcher:
        def answer(request: Request) -> bytes:
            said = answers.get(request.headers["host"] + request.path, 404)
            if isinstance(said, int):
                return response(b"", said)
            plain = isinstance(said, str) and "well-known" in request.path
            return response(said.encode() if plain else json.dumps(said).encode())

        started.append(Peer(answer).__enter__())
        return Fetcher(started[-1].origin)

    yield make
    for server in started:
        server.__exit__()


def test_the_log_tells_moves_handles_keys_and_the_end_each_with_its_time(
    network: Callable[[ANSWERS], Fetcher],
) -> None:
    log = [
        entry("2023-01-01T00:00:00Z", rotationKeys=["did:key:a"]),
        entry(
            "2023-02-01T00:00:00Z", rotationKeys=["did:key:a"], services=service("thief.example.test"), nullified=True
        ),
        entry("2023-03-01T00:00:00Z", rotationKeys=["did:key:a"], services=service("other.example.test")),
        entry("2023-04-01T00:00:00Z", rotationKeys=["did:key:b"], services=service("other.example.test")),
        entry("2023-05-01T00:00:00Z", rotationKeys=["did:key:b"], alsoKnownAs=["at://new.example.test"]),
        {**entry("2023-06-01T00:00:00Z"), "operation": {"type": "plc_tombstone", "prev": "b", "sig": "s"}},
    ]
    found = read_identity(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA)
    assert found.tombstoned
    assert (found.handle, found.pds) == (None, None)
    assert [(change.kind, change.number, change.at.month) for change in found.changes] == [
        ("created_at", 1, 1),
        ("recoveries", 1, 3),
        ("pds_moves", 1, 3),
        ("pds_moves", 2, 5),
        ("key_rotations", 1, 4),
        ("handle_changes", 1, 5),
        ("tombstoned", 1, 6),
    ]


def test_a_long_log_keeps_the_newest_changes_and_their_true_numbers(network: Callable[[ANSWERS], Fetcher]) -> None:
    log = [entry(f"2023-01-01T00:{n // 60:02}:{n % 60:02}Z", services=service(f"p{n}.test")) for n in range(300)]
    changes = read_identity(network({f"plc.directory/{ANA}/log/audit": log}), PLC, ANA).changes
    moves = [change.number for change in changes if change.kind == "pds_moves"]
    assert moves == list(range(250, 300))


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=20),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
OPERATIONS = some.fixed_dictionaries(
    {
        "type": some.sampled_from(["plc_operation", "create", "plc_tombstone", ""]),
        "alsoKnownAs": some.lists(some.text(max_size=30), max_size=3),
        "services": some.dictionaries(
            some.sampled_from(["atproto_pds", "x"]), some.fixed_dictionaries({"endpoint": JSON})
        ),
        "rotationKeys": JSON,
        "handle": JSON,
    }
)


def test_whatever_a_log_holds_is_read_or_refused(peer: Start) -> None:
    said: list[bytes] = []
    fetcher = Fetcher(peer(lambda _: response(said[-1])).origin)
    entries = some.fixed_dictionaries({"operation": OPERATIONS | JSON, "createdAt": JSON | some.text()})

    @given(some.lists(entries, max_size=6))
    def ask(log: list[object]) -> None:
        said.append(json.dumps(log).encode())
        with suppress(FetchProblem):
            assert all(change.number >= 1 for change in read_identity(fetcher, PLC, ANA).changes)

    ask()


HANDLE, NAME = "ana.example.test", "_atproto.ana.example.test"
HANDLED, EVE = "did:plc:" + "a" * 24, "did:plc:" + "e" * 24
Network = Callable[..., Fetcher]


@pytest.mark.parametrize(
    ("texts", "file", "proven"),
    [
        ([f"did={HANDLED}"], None, True),
        (None, HANDLED, True),
        ([], HANDLED, True),
        ([f"did={HANDLED}"], HANDLED, True),
        ([f"did={HANDLED}", f"did={HANDLED}", "v=spf1 -all"], None, True),
        ([f"did={HANDLED}"], "<!doctype html>", True),
        ([f"did={HANDLED}"], EVE, False),
        ([f"did={EVE}"], HANDLED, False),
        ([f"did={HANDLED}", f"did={EVE}"], None, False),
        ([f"did={HANDLED}", "did=garbage"], None, False),
        (["did="], HANDLED, False),
        ([f"DID={HANDLED}", f" did={HANDLED}", HANDLED], None, False),
        (None, None, False),
    ],
)
def test_either_way_suffices_and_disagreement_proves_nothing(
    named: Network, texts: list[str] | None, file: str | None, proven: bool
) -> None:
    assert handle_is_verified(named({NAME: texts} if texts is not None else {}, file), HANDLE, HANDLED) is proven


def test_where_one_way_is_in_trouble_the_other_suffices_and_without_it_the_handle_is_asked_again(
    named: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "TEXT_SECONDS", 0.3)
    assert handle_is_verified(named({NAME: [f"did={HANDLED}"]}, 500), HANDLE, HANDLED)
    assert handle_is_verified(named({}, HANDLED, say=lambda _: None), HANDLE, HANDLED)
    for answer in (None, 500):
        with pytest.raises(FetchProblem) as caught:
            handle_is_verified(named({}, answer, say=lambda _: None), HANDLE, HANDLED)
        assert caught.value.retry


def test_a_silent_name_server_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "TEXT_SECONDS", 0.3)
    with DnsServer(say=lambda _: None) as server:
        patient = server.resolver()
        patient.lifetime = 2 * LONG_SECONDS  # its own bound
        with ends_by_itself(), pytest.raises(FetchProblem, match="gave no answer"):
            texts_of(NAME, patient)


def test_beside_a_stand_in_no_name_server_is_asked() -> None:
    with Peer(lambda _: response(HANDLED.encode())) as peer:
        assert resolve_handle(Fetcher(peer.origin), HANDLE) == HANDLED


@pytest.mark.parametrize("handle", ["localhost", "a.local", "x", "a..test", "_dmarc.example.com", "*.example.com", ""])
def test_what_is_no_handle_is_asked_of_nobody(named: Network, handle: str) -> None:
    with pytest.raises(FetchProblem, match="not a handle"):
        resolve_handle(named({}, HANDLED), handle)


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


@pytest.fixture(name="named")
def named_fixture() -> Iterator[Network]:
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
