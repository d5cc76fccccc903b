"""Knots and data servers: what they say is bounded and proven, what they are called is checked."""

import base64
import hashlib
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import HOLDER_PAGES, blob, collaborators_added_by, push_holders, raw_digest
from ingest.records.pull_state import Holder
from tests.ingest.peer import Request, Start, response

REPOSITORY, ANA = "did:plc:" + "r" * 24, "did:plc:" + "a" * 24
KNOT, PDS = "knot.example.test", "https://pds.example.test"


def cid_of(data: bytes, head: bytes = b"\x01\x55\x12\x20") -> str:
    return "b" + base64.b32encode(head + hashlib.sha256(data).digest()).decode().lower().rstrip("=")


def asked(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def answered(body: object) -> bytes:
    return response(json.dumps(body).encode())


def person(number: int) -> str:
    return f"did:web:p{number}.example.test"


def test_holders_come_page_by_page_and_once_each(peer: Start) -> None:
    def answer(request: Request) -> bytes:
        start = int(asked(request).get("cursor", 0))
        items = [{"subject": person(number), "addedBy": ANA} for number in range(start, start + 3)]
        return answered(
            {"items": [*items, {"subject": person(0)}, {"subject": "nonsense"}], "cursor": str(start + 3)}
            if start < 6
            else {"items": items}
        )

    server = peer(answer)
    found = push_holders(Fetcher(server.origin), KNOT, REPOSITORY)
    assert found == [Holder(person(number), None) for number in range(9)]
    assert [asked(request)["subject"] for request in server.requests] == [REPOSITORY] * 3
    assert {request.headers["host"] for request in server.requests} == {KNOT}


def test_an_endless_list_of_holders_is_not_believed(peer: Start) -> None:
    server = peer(
        lambda request: answered({"items": [{"subject": ANA}], "cursor": asked(request).get("cursor", "") + "x"})
    )
    with pytest.raises(FetchProblem, match="not believed"):
        push_holders(Fetcher(server.origin), KNOT, REPOSITORY)
    assert len(server.requests) == HOLDER_PAGES


def test_a_cursor_that_repeats_ends_the_list(peer: Start) -> None:
    server = peer(lambda _: answered({"items": [{"subject": ANA}], "cursor": "again"}))
    assert push_holders(Fetcher(server.origin), KNOT, REPOSITORY) == [Holder(ANA, None)]
    assert len(server.requests) == 2


def test_who_let_others_push_is_told_once_and_only_by_a_did(peer: Start) -> None:
    said = [ANA, ANA, None, 7, "ana.example.test"]
    server = peer(lambda _: answered({"items": [{"subject": person(3), "addedBy": one} for one in said]}))
    assert collaborators_added_by(Fetcher(server.origin), KNOT, REPOSITORY) == [ANA]


@pytest.mark.parametrize(
    "name",
    ["", "localhost", "127.0.0.1", "169.254.169.254", "[::1]", "a.test/x?", "user@a.test", "a.test#", "a.test:22",
     "a b.test", "a.test\r\nHost: b.test", "https://a.test", "a.test\\@b.test", "xn--", "ä.test"],
)  # fmt: skip
def test_a_name_that_is_no_host_is_asked_nothing(name: str) -> None:
    def refuse(host: str) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    fetcher = Fetcher(resolver=refuse)
    for ask in (
        lambda: push_holders(fetcher, name, REPOSITORY),
        lambda: blob(fetcher, "https://https://" + name, ANA, cid_of(b""), 10),
    ):
        with pytest.raises(FetchProblem):
            ask()


def test_a_repository_without_a_did_is_not_asked_about(peer: Start) -> None:
    server = peer(lambda _: answered({"items": []}))
    with pytest.raises(FetchProblem, match="no DID"):
        push_holders(Fetcher(server.origin), KNOT, f"at://{ANA}/sh.tangled.repo/x&limit=1")
    assert server.requests == []


def test_a_blob_is_what_its_cid_names(peer: Start) -> None:
    server = peer(lambda _: response(b"patch"))
    assert blob(Fetcher(server.origin), PDS, ANA, cid_of(b"patch"), 100) == b"patch"
    assert asked(server.requests[0]) == {"did": ANA, "cid": cid_of(b"patch")}


def test_other_bytes_than_the_cid_names_are_refused(peer: Start) -> None:
    with pytest.raises(FetchProblem, match="other bytes"):
        blob(Fetcher(peer(lambda _: response(b"swapped")).origin), PDS, ANA, cid_of(b"patch"), 100)


@pytest.mark.parametrize(
    "cid",
    [cid_of(b"p", b"\x01\x71\x12\x20"), cid_of(b"p", b"\x01\x55\x11\x14"), "Qm" + "a" * 44, "", "b", "bafkrei",
     "../../x", cid_of(b"p") + "a", cid_of(b"p").upper(), cid_of(b"p") + "&did=x", cid_of(b"p")[:-1] + "1"],
)  # fmt: skip
def test_a_cid_that_proves_nothing_is_not_fetched(peer: Start, cid: str) -> None:
    server = peer(lambda _: response(b"p"))
    with pytest.raises(FetchProblem, match="nothing would prove"):
        blob(Fetcher(server.origin), PDS, ANA, cid, 100)
    assert server.requests == []


def test_a_blob_that_is_gone_is_absent_and_one_too_large_says_so(peer: Start) -> None:
    gone = peer(lambda _: response(b'{"error":"BlobNotFound"}', 400))
    large = peer(lambda _: response(b"x" * 500))
    with pytest.raises(FetchProblem) as caught:
        blob(Fetcher(gone.origin), PDS, ANA, cid_of(b"p"), 100)
    assert caught.value.absent
    with pytest.raises(FetchProblem) as caught:
        blob(Fetcher(large.origin), PDS, ANA, cid_of(b"p"), 100)
    assert caught.value.too_large


@given(some.binary(max_size=100))
def test_the_digest_is_read_from_every_raw_cid(data: bytes) -> None:
    assert raw_digest(cid_of(data)) == hashlib.sha256(data).digest()


def test_a_cid_of_a_real_blob_is_read() -> None:
    assert raw_digest("bafkreibkwl4ldznmbgigq6kvtq4mwhvi3xcox5enj3vmkpg4iiaypkeop4") is not None
