"""The stand-in hosts over real sockets: wire shapes, errors, paging, faults and speed."""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.trustsite.standins.recordings import ANA, GONE, KNOT, MARA, PDS, POST, PULL, REPO, VOUCH, WEB, small
from tests.waiting import LONG_SECONDS
from trustsite.standins import StandIns

PDS_HOST = PDS.removeprefix("https://")
COLLABORATORS = "/xrpc/sh.tangled.repo.listCollaborators?subject="


class Asker:
    """One kept-alive connection that asks for any host."""

    def __init__(self, stand_ins: StandIns) -> None:
        self.stand_ins = stand_ins
        self.connection = http.client.HTTPConnection(stand_ins.origin.removeprefix("http://"), timeout=LONG_SECONDS)

    def ask(self, host: str, path: str, method: str = "GET") -> tuple[int, bytes]:
        self.connection.request(method, path, headers={"Host": host})
        response = self.connection.getresponse()
        return response.status, response.read()

    def json(self, host: str, path: str) -> tuple[int, Any]:
        status, body = self.ask(host, path)
        return status, json.loads(body)


@pytest.fixture
def asker() -> Iterator[Asker]:
    with StandIns(small()) as stand_ins:
        yield Asker(stand_ins)


def listing(collection: str, more: str = "", did: str = MARA) -> str:
    return f"/xrpc/com.atproto.repo.listRecords?repo={did}&collection={collection}{more}"


def test_the_directory_answers_with_a_did_document(asker: Asker) -> None:
    status, document = asker.json("plc.directory", f"/{MARA}")
    assert status == 200
    assert document["id"] == MARA
    assert document["alsoKnownAs"] == ["at://mara.example.test"]
    assert document["service"] == [
        {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": PDS},
    ]


def test_the_audit_log_tells_when_a_did_was_made(asker: Asker) -> None:
    status, log = asker.json("plc.directory", f"/{MARA}/log/audit")
    assert (status, len(log)) == (200, 1)
    assert log[0].keys() == {"did", "operation", "cid", "nullified", "createdAt"}
    assert log[0]["createdAt"] == "2024-02-01T00:00:00.000Z"
    assert log[0]["operation"].keys() == {
        *("type", "alsoKnownAs", "services", "rotationKeys", "verificationMethods", "prev", "sig"),
    }
    assert log[0]["operation"]["type"] == "plc_operation"


def test_an_unknown_did_is_404_and_a_tombstoned_one_410(asker: Asker) -> None:
    assert asker.ask("plc.directory", "/did:plc:nobody")[0] == 404
    assert asker.ask("plc.directory", "/did:plc:nobody/log/audit")[0] == 404
    assert asker.ask("plc.directory", f"/{WEB}")[0] == 404
    assert asker.ask("plc.directory", f"/{GONE}")[0] == 410
    assert [entry["operation"]["type"] for entry in asker.json("plc.directory", f"/{GONE}/log/audit")[1]] == [
        *("plc_operation", "plc_tombstone"),
    ]


def test_an_encoded_did_is_understood(asker: Asker) -> None:
    assert asker.ask("plc.directory", "/" + quote(MARA, safe=""))[0] == 200


def test_a_did_web_answers_on_its_own_host_and_port(asker: Asker) -> None:
    assert asker.json("quill.example.test:8080", "/.well-known/did.json")[1]["id"] == WEB
    assert asker.ask("quill.example.test", "/.well-known/did.json")[0] == 404


def test_a_repository_has_a_did_that_names_its_knot(asker: Asker) -> None:
    document = asker.json("plc.directory", f"/{REPO}")[1]
    assert document["service"][0]["serviceEndpoint"] == f"https://{KNOT}"
    assert document["alsoKnownAs"] == []


def test_a_handle_belongs_to_the_first_who_claims_it(asker: Asker) -> None:
    assert asker.ask("ana.example.test", "/.well-known/atproto-did") == (200, ANA.encode())
    assert asker.ask("ANA.example.test", "/.well-known/atproto-did") == (200, ANA.encode())
    assert asker.ask("nobody.example.test", "/.well-known/atproto-did")[0] == 404


def test_a_blob_comes_as_it_was_uploaded(asker: Asker) -> None:
    blob = "/xrpc/com.atproto.sync.getBlob"
    assert asker.ask(PDS_HOST, f"{blob}?did={MARA}&cid=bafkreia") == (200, b"\x1f\x8b patch")
    assert asker.json(PDS_HOST, f"{blob}?did={MARA}&cid=bafkreib")[1]["error"] == "BlobNotFound"
    assert asker.json(PDS_HOST, f"{blob}?did={ANA}&cid=bafkreia")[1]["error"] == "BlobNotFound"
    assert asker.json(PDS_HOST, f"{blob}?did={GONE}&cid=bafkreia")[1]["error"] == "RepoNotFound"
    assert asker.json("elsewhere.example.test", f"{blob}?did={MARA}&cid=bafkreia")[1]["error"] == "RepoNotFound"
    status, error = asker.json(PDS_HOST, f"{blob}?did={MARA}")
    assert (status, error["error"]) == (400, "InvalidRequest")


def test_records_are_listed_as_last_written(asker: Asker) -> None:
    records = asker.json(PDS_HOST, listing(PULL))[1]["records"]
    assert [(record["uri"], record["value"]["text"]) for record in records] == [
        (f"at://{MARA}/{PULL}/three", "third"),
        (f"at://{MARA}/{PULL}/one", "changed"),
    ]
    assert asker.json(PDS_HOST, listing(VOUCH, did=ANA))[1]["records"][0]["cid"] == "cid2"


def test_records_are_paged_both_ways(asker: Asker) -> None:
    first = asker.json(PDS_HOST, listing(PULL, "&limit=1&reverse=true"))[1]
    assert [record["uri"][-3:] for record in first["records"]] == ["one"]
    second = asker.json(PDS_HOST, listing(PULL, f"&limit=1&reverse=true&cursor={first['cursor']}"))[1]
    assert [record["uri"][-5:] for record in second["records"]] == ["three"]
    assert "cursor" not in second
    assert asker.json(PDS_HOST, listing(PULL, "&limit=0"))[0] == 400


def test_a_record_that_is_still_held_is_not_listed() -> None:
    with StandIns(small(), hold_after=5) as stand_ins:
        asker = Asker(stand_ins)
        assert len(asker.json(PDS_HOST, listing(PULL))[1]["records"]) == 2
        stand_ins.release(None)
        assert asker.json(PDS_HOST, listing(PULL))[1]["records"][1]["value"]["text"] == "changed"


def test_one_record_and_the_description_of_a_repository_are_answered(asker: Asker) -> None:
    record = f"/xrpc/com.atproto.repo.getRecord?repo={MARA}&collection={PULL}&rkey="
    assert asker.json(PDS_HOST, record + "one")[1]["value"]["text"] == "changed"
    status, error = asker.json(PDS_HOST, record + "two")
    assert (status, error["error"]) == (400, "RecordNotFound")
    description = asker.json(PDS_HOST, f"/xrpc/com.atproto.repo.describeRepo?repo={MARA}")[1]
    assert description["collections"] == [POST, PULL]
    assert description["handleIsCorrect"] is True


def test_the_knot_lists_push_holders_but_not_the_owner(asker: Asker, shared: Path) -> None:
    status, page = asker.json(KNOT, f"{COLLABORATORS}{quote(REPO)}&limit=1")
    assert status == 200
    assert [item["subject"] for item in page["items"]] == [MARA]
    rest = asker.json(KNOT, f"{COLLABORATORS}{REPO}&limit=1&cursor={page['cursor']}")[1]
    assert [item["subject"] for item in rest["items"]] == [GONE]
    assert "cursor" not in rest
    real = json.loads((shared / "examples" / "knot_listCollaborators.ndjson").read_text())["body"]
    assert page["items"][0].keys() == real["items"][0].keys()


def test_a_knot_knows_only_its_own_repositories(asker: Asker) -> None:
    status, error = asker.json("other.example.test", f"{COLLABORATORS}{REPO}")
    assert (status, error["error"]) == (404, "RepoNotFound")
    assert asker.json(KNOT, f"{COLLABORATORS}did:plc:nothing")[0] == 404


def test_what_nobody_serves_has_an_xrpc_error_or_404(asker: Asker) -> None:
    status, error = asker.json(PDS_HOST, "/xrpc/com.example.unheardOf")
    assert (status, error["error"]) == (501, "MethodNotImplemented")
    assert asker.ask(PDS_HOST, "/index.html")[0] == 404
    assert asker.ask(PDS_HOST, listing(PULL), "POST")[0] == 405


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_host_can_be_told_to_fail_while_others_go_on(asker: Asker, status: int) -> None:
    asker.stand_ins.peers.fail(PDS_HOST, status)
    assert asker.json(PDS_HOST, listing(PULL))[0] == status
    assert asker.ask("plc.directory", f"/{MARA}")[0] == 200
    asker.stand_ins.peers.fail(PDS_HOST, None)
    assert asker.ask(PDS_HOST, listing(PULL))[0] == 200


def test_a_throttled_host_says_when_to_come_back_and_others_go_on(asker: Asker) -> None:
    asker.stand_ins.peers.throttle(PDS_HOST, 0)
    assert asker.json(PDS_HOST, listing(PULL)) == (
        429,
        {"error": "RateLimitExceeded", "message": "Rate Limit Exceeded"},
    )
    assert asker.ask("plc.directory", f"/{MARA}")[0] == 200
    asker.stand_ins.peers.throttle(PDS_HOST, 100)
    assert asker.ask(PDS_HOST, listing(PULL))[0] == 200


def test_a_relay_names_who_keeps_a_collection_page_by_page(asker: Asker) -> None:
    keepers = "/xrpc/com.atproto.sync.listReposByCollection?collection="
    assert asker.json("relay.example.test", keepers + VOUCH)[1] == {"repos": [{"did": ANA}]}
    assert asker.json("relay.example.test", keepers + "com.example.unheardOf")[1] == {"repos": []}
    assert asker.json("relay.example.test", keepers + VOUCH + "&limit=2001")[0] == 400


def test_the_newest_commit_is_that_of_the_newest_frame(asker: Asker) -> None:
    newest = "/xrpc/com.atproto.sync.getLatestCommit?did="
    assert asker.json(PDS_HOST, newest + MARA)[1]["rev"] == "rev7"
    assert asker.json(PDS_HOST, newest + ANA)[1]["rev"] == "rev2"
    assert asker.json("elsewhere.example.test", newest + ANA)[1]["error"] == "RepoNotFound"


def test_a_host_can_close_without_an_answer(asker: Asker) -> None:
    asker.stand_ins.peers.fail(KNOT, "close")
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        asker.ask(KNOT, f"{COLLABORATORS}{REPO}")


def test_a_host_can_hang_until_the_client_gives_up(asker: Asker) -> None:
    asker.stand_ins.peers.fail(KNOT, "hang")
    asker.connection.timeout = 0.2
    with pytest.raises(TimeoutError):
        asker.ask(KNOT, f"{COLLABORATORS}{REPO}")
    assert Asker(asker.stand_ins).ask(PDS_HOST, listing(PULL))[0] == 200


def test_a_request_waits_for_no_acknowledgement(asker: Asker) -> None:
    asker.ask(PDS_HOST, listing(PULL))

    def seconds_for_one() -> float:
        began = time.perf_counter()
        asker.ask("plc.directory", f"/{MARA}")
        return time.perf_counter() - began

    # The best of many, since the machine may be busy: 0.3 ms alone, 40 ms where an answer waits for an acknowledgement.
    assert any(seconds_for_one() < 0.02 for _ in range(2_000))


def test_closing_ends_kept_alive_connections(asker: Asker) -> None:
    asker.ask("plc.directory", f"/{MARA}")
    asker.stand_ins.close()
    with pytest.raises((http.client.HTTPException, OSError)):
        asker.ask("plc.directory", f"/{MARA}")
