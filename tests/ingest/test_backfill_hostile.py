"""Data servers and hosts that lie, stall, repeat themselves or never end: bounded, told, and believed in nothing."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from ingest.backfill import account, census, crew, runs, turn
from ingest.backfill.staging import Staging
from ingest.backfill.summary import Estimate, summarize
from ingest.clock import to_microseconds
from ingest.net import FetchProblem
from ingest.store import Store
from tests.ingest.backfilled import FIRST_WAIT, run_backfill, sources
from tests.ingest.conftest import Open
from tests.ingest.peer import Request, Start, response
from tests.ingest.stream import (
    ANA,
    CREATED,
    MALLORY,
    MARA,
    PULL,
    REPOSITORY,
    VOUCH,
    Frames,
    letters,
    pull_record,
    rows,
    take,
)
from trustsite.standins import StandIns
from trustsite.world import build_world
from trustsite.world.encoding import encode_tid

NOW = datetime(2026, 11, 20, 12)
BORN = datetime(2026, 1, 1)
REV = encode_tid(to_microseconds(NOW - timedelta(hours=1)))
CID = "bafyrei" + "a" * 52
Query = Mapping[str, str]
Body = dict[str, Any] | bytes


def key(moment: datetime, clock: int = 0) -> str:
    return encode_tid(to_microseconds(moment), clock)


def entry(did: str, collection: str, rkey: str, value: object = None) -> dict[str, Any]:
    return {"uri": f"at://{did}/{collection}/{rkey}", "cid": CID, "value": {} if value is None else value}


def network(listing: Callable[[Query], Body], **others: Callable[[Query], Body]) -> Callable[[Request], bytes]:
    """One data server of well-behaved accounts but for what is given: a body, or the bytes of a whole response."""
    methods: dict[str, Callable[[Query], Body]] = {
        "listReposByCollection": lambda _: {"repos": [{"did": MALLORY}]},
        "getLatestCommit": lambda _: {"cid": CID, "rev": REV},
        "describeRepo": lambda query: {"did": query["repo"], "collections": [PULL, VOUCH, "com.example.other"]},
        "listRecords": listing,
        "audit": lambda _: response(json.dumps([creation()]).encode()),
        **others,
    }

    def answer(request: Request) -> bytes:
        parts = urlsplit(request.path)
        name = parts.path.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
        query = {one: values[0] for one, values in parse_qs(parts.query).items()}
        body = methods[name](query | {"path": unquote(parts.path)}) if name in methods else response(status=404)
        return body if isinstance(body, bytes) else response(json.dumps(body).encode())

    return answer


def creation(host: str = "pds.example.test") -> dict[str, Any]:
    services = {"atproto_pds": {"endpoint": f"https://{host}"}}
    operation = {"type": "plc_operation", "services": services, "alsoKnownAs": []}
    return {"operation": operation, "createdAt": BORN.isoformat() + "Z"}


def nothing(_: Query) -> Body:
    return {"records": []}


@pytest.fixture(name="ask")
def ask_fixture(store: Store, peer: Start, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Backfills from a network; the summary of the run."""

    def ask(answer: Callable[[Request], bytes], **changes: Any) -> dict[str, Any]:
        asked = sources(peer(answer).origin, tmp_path / "staging", NOW, **changes)
        run_id = run_backfill(store, asked)
        with store.read() as found:
            return summarize(found, run_id)

    return ask


def reasons(summary: dict[str, Any]) -> list[str]:
    return [row["reason"] for row in summary["not_had"]]


def standing_pull(store: Store, rkey: str) -> None:
    """A pull request that the stream brought before."""
    frames = Frames()
    frames.add(
        MALLORY,
        "commit",
        {
            "rev": key(BORN),
            "operation": "create",
            "collection": PULL,
            "rkey": rkey,
            "record": pull_record(),
            "cid": "bafyreiolder",
        },
    )
    take(store, frames)


def deletes(store: Store) -> list[tuple[Any, ...]]:
    return rows(store, "select rkey, rev from events where operation = 'delete'")


def test_a_listing_without_an_end_ends(
    ask: Callable[..., dict[str, Any]], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "ACCOUNT_PAGES", 7)
    standing_pull(store, "older")
    page = iter(range(10**6))

    def listing(query: Query) -> Body:
        number = next(page)
        return {"records": [entry(MALLORY, query["collection"], f"{number}")], "cursor": str(number)}

    summary = ask(network(listing))
    assert (summary["done"], summary["records"]) == (1, 7)
    assert reasons(summary) == ["it has more than 7 pages or 100 MB of records"]
    assert deletes(store) == []


@pytest.mark.parametrize("fresh", [True, False])
def test_a_cursor_that_comes_again_ends_a_listing_and_deletes_nothing(
    ask: Callable[..., dict[str, Any]], store: Store, fresh: bool
) -> None:
    standing_pull(store, "older")
    page = iter(range(10**6))

    def listing(query: Query) -> Body:
        number = next(page) if fresh else 0
        return {"records": [entry(MALLORY, query["collection"], f"{number}")], "cursor": "round"}

    summary = ask(network(listing))
    assert summary["records"] <= 4
    assert reasons(summary) == [f"{PULL} is listed without an end"]
    assert deletes(store) == []


def test_records_of_somebody_else_or_another_kind_are_not_taken(
    ask: Callable[..., dict[str, Any]], store: Store
) -> None:
    standing_pull(store, "older")

    def listing(query: Query) -> Body:
        strange = [entry(ANA, PULL, "a"), entry(MALLORY, REPOSITORY, "b"), entry(MALLORY, PULL, "../c"), {"uri": 5}]
        return {"records": [*strange[:3], entry(MALLORY, query["collection"], "mine")]}

    summary = ask(network(listing))
    assert rows(store, "select did, collection, rkey from events where source = 'backfill' order by all") == [
        (MALLORY, VOUCH, "mine"),
        (MALLORY, PULL, "mine"),
    ]
    assert "not its own" in reasons(summary)[0]
    assert deletes(store) == []


def test_a_page_that_is_too_large_is_asked_for_in_smaller_parts(
    ask: Callable[..., dict[str, Any]], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "PAGE_BYTES", 30_000)
    keys = [f"k{number:02}" for number in range(20)]

    def listing(query: Query) -> Body:
        left = [one for one in keys if one > query.get("cursor", "")] if query["collection"] == PULL else []
        page = left[: int(query["limit"])]
        records = [entry(MALLORY, PULL, one, {"body": "x" * (40_000 if one == "k19" else 2_500)}) for one in page]
        return {"records": records} | ({"cursor": page[-1]} if len(left) > len(page) else {})

    summary = ask(network(listing))
    assert summary["records"] == 19
    assert "could not be listed" in reasons(summary)[0]
    assert "more than 30000 bytes" in reasons(summary)[0]


def test_what_is_no_record_becomes_a_dead_letter(ask: Callable[..., dict[str, Any]], store: Store) -> None:
    ask(network(lambda query: {"records": [entry(MALLORY, PULL, "a", 5)] if query["collection"] == PULL else []}))
    assert letters(store) == ["a record that is not an object"]


def test_a_page_that_is_no_page_fails_the_account_in_words(ask: Callable[..., dict[str, Any]]) -> None:
    summary = ask(network(lambda _: response(b'{"records": [[[')))
    assert reasons(summary) == ["its data server sent a page that cannot be read"]
    assert summary["failed"] == 1


def test_only_collections_that_are_read_and_there_are_asked_for(ask: Callable[..., dict[str, Any]]) -> None:
    asked = []

    def listing(query: Query) -> Body:
        asked.append(query["collection"])
        return {"records": []}

    ask(network(listing))
    assert sorted(asked) == sorted([PULL, VOUCH])


def test_what_the_log_has_and_a_whole_listing_lacks_was_deleted(
    ask: Callable[..., dict[str, Any]], store: Store
) -> None:
    standing_pull(store, "older")
    summary = ask(network(nothing))
    assert summary["deletes"] == 1
    assert deletes(store) == [("older", REV)]
    assert rows(store, "select deleted_at from pull_requests") == [(NOW,)]


def test_a_collection_that_is_gone_takes_its_records_along(ask: Callable[..., dict[str, Any]], store: Store) -> None:
    standing_pull(store, "older")
    ask(network(nothing, describeRepo=lambda query: {"did": query["repo"], "collections": []}))
    assert deletes(store) == [("older", REV)]


def test_a_newest_commit_in_the_future_is_not_believed(ask: Callable[..., dict[str, Any]], store: Store) -> None:
    summary = ask(network(nothing, getLatestCommit=lambda _: {"rev": key(NOW + timedelta(days=400))}))
    assert reasons(summary) == ["its data server names a newest commit that cannot be"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"did": MALLORY, "active": False, "status": "deactivated"}, "its data server says that it is deactivated"),
        ({"did": MALLORY, "active": False, "status": "x" * 999}, "its data server says that it is not active"),
        ({"did": MALLORY, "active": True}, "its data server does not know it"),
    ],
)
def test_an_account_that_is_away_is_absent_with_the_reason(
    ask: Callable[..., dict[str, Any]], store: Store, status: dict[str, Any], reason: str
) -> None:
    standing_pull(store, "older")
    away = network(nothing, getLatestCommit=lambda _: response(status=400), getRepoStatus=lambda _: status)
    summary = ask(away)
    assert (summary["absent"], reasons(summary), deletes(store)) == (1, [reason], [])
    assert summary["not_had"][0]["examples"] == [MALLORY]


def test_a_tombstoned_did_is_absent(ask: Callable[..., dict[str, Any]]) -> None:
    tombstone = {"operation": {"type": "plc_tombstone"}, "createdAt": BORN.isoformat() + "Z"}
    summary = ask(network(nothing, audit=lambda _: response(json.dumps([creation(), tombstone]).encode())))
    assert (summary["absent"], reasons(summary)) == (1, ["the account was tombstoned"])


def test_a_server_that_only_fails_is_given_up_after_five_tries(
    ask: Callable[..., dict[str, Any]], store: Store
) -> None:
    tries = []

    def listing(query: Query) -> Body:
        tries.append(1)
        return response(status=500)

    summary = ask(network(listing))
    assert (len(tries), summary["failed"]) == (5, 1)
    assert reasons(summary) == ["pds.example.test answered 500, at 5 tries"]
    assert rows(store, "select attempts from backfill_accounts") == [(5,)]


def test_a_server_that_fails_now_and_then_is_read_to_the_end(ask: Callable[..., dict[str, Any]]) -> None:
    calls = iter(range(10**6))

    def listing(query: Query) -> Body:
        if next(calls) % 2:
            return response(status=502)
        number = int(query.get("cursor", "0")) + 1
        records = [entry(MALLORY, query["collection"], f"{number}")]
        return {"records": records} | ({"cursor": str(number)} if number < 9 else {})

    summary = ask(network(listing))
    assert (summary["done"], summary["records"], summary["not_had"]) == (1, 18, [])


def test_a_host_that_fails_everybody_is_not_asked_for_all_the_others(
    ask: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "HOST_TRIES", 6)
    tries = []

    def dead(_: Query) -> Body:
        tries.append(1)
        return response(status=500)

    everybody = {"repos": [{"did": "did:plc:" + letter * 24} for letter in "abcdefghijklmnopqrstuvwxyz234567"]}
    summary = ask(network(nothing, getLatestCommit=dead, listReposByCollection=lambda _: everybody))
    assert summary["failed"] == 32
    assert len(tries) < 32 * crew.TRIES
    assert "others at the same host were not answered" in " ".join(reasons(summary))


def test_the_rest_takes_as_long_as_the_last_minute_says() -> None:
    estimate = Estimate()
    assert estimate.left(0, 0, 1000) is None
    assert estimate.left(10, 100, 1000) == 90
    assert estimate.left(70, 700, 1000) == 30
    assert estimate.left(130, 720, 1000) == pytest.approx(280 * 60 / 20)


def test_a_host_gets_four_requests_at_a_time_at_most(ask: Callable[..., dict[str, Any]]) -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def listing(_: Query) -> Body:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return {"records": []}

    everybody = {"repos": [{"did": "did:plc:" + letter * 24} for letter in "abcdefghijklmnop"]}
    summary = ask(network(listing, listReposByCollection=lambda _: everybody))
    assert summary["done"] == 16
    assert 1 < most[0] <= crew.AT_A_HOST


def test_a_server_that_asks_to_wait_is_waited_for(open_store: Open, tmp_path: Path) -> None:
    world = build_world().recording
    with StandIns(world) as peers:
        for person in world.people:
            peers.peers.throttle(person.pds.removeprefix("https://"), 40)
        store = open_store("throttled")
        run_id = run_backfill(store, sources(peers.origin, tmp_path / "staging", NOW))
    with store.read() as found:
        summary = summarize(found, run_id)
    assert (summary["failed"], summary["absent"]) == (0, 0)
    assert summary["done"] == summary["accounts"] == len(world.people)


def test_a_host_that_names_millions_is_bounded_and_leaves_room_for_the_others(
    peer: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census, "HOST_ACCOUNTS", 2_500)
    asked = iter(range(10**9))

    def answer(request: Request) -> bytes:
        if request.headers["host"] == "honest.example.test":
            return response(json.dumps({"repos": [{"did": ANA}]}).encode())
        page = next(asked)
        names = [f"did:web:p{page}x{number}.example.com" for number in range(1_000)]
        return response(json.dumps({"repos": [{"did": name} for name in names], "cursor": f"c{page}"}).encode())

    hosts = ("https://flood.example.test", "https://honest.example.test")
    found = census.find_accounts(sources(peer(answer).origin, tmp_path, NOW, hosts=hosts), lambda _: False)
    assert len(found.dids) == 2_501
    assert ANA in found.dids
    assert "names more than 2500 accounts" in found.notes[0]


def test_a_host_that_goes_round_in_a_circle_or_names_nonsense_is_left(peer: Start, tmp_path: Path) -> None:
    def answer(_: Request) -> bytes:
        names: list[dict[str, object]] = [{"did": "did:plc:short"}, {"did": "at://x"}, {"did": MARA}]
        return response(json.dumps({"repos": names, "cursor": "round"}).encode())

    found = census.find_accounts(sources(peer(answer).origin, tmp_path, NOW), lambda _: False)
    assert (list(found.dids), found.notes) == ([MARA], [])


def test_where_one_host_fails_the_next_is_asked(peer: Start, tmp_path: Path) -> None:
    def answer(request: Request) -> bytes:
        if request.headers["host"] == "dead.example.test":
            return response(status=500)
        return response(json.dumps({"repos": [{"did": ANA}]}).encode())

    hosts = ("https://dead.example.test", "https://live.example.test")
    found = census.find_accounts(sources(peer(answer).origin, tmp_path, NOW, hosts=hosts), lambda _: False)
    assert (list(found.dids), found.answered) == ([ANA], True)
    assert found.notes == ["https://dead.example.test named 0 accounts, then: dead.example.test answered 500"]


def test_where_nobody_names_anybody_the_run_stays_to_be_tried_again(store: Store, peer: Start, tmp_path: Path) -> None:
    asked = sources(peer(lambda _: response(status=403)).origin, tmp_path / "staging", NOW)
    runs.begin(store, "first_start")
    with pytest.raises(turn.BackfillProblem, match="check BACKFILL_HOSTS"):
        turn.take_turn(store, asked, threading.Event(), first_wait=FIRST_WAIT)
    assert rows(store, "select state from backfills") == [("finding",)]


def test_times_come_from_the_key_and_stay_between_birth_and_listing(
    ask: Callable[..., dict[str, Any]], store: Store
) -> None:
    honest, early, late = (
        key(NOW - timedelta(days=9)),
        key(BORN - timedelta(days=900)),
        key(NOW + timedelta(days=9)),
    )
    told = {"createdAt": CREATED}

    def listing(query: Query) -> Body:
        pulls = [entry(MALLORY, PULL, rkey, pull_record()) for rkey in (honest, early, late)]
        return {"records": pulls if query["collection"] == PULL else [entry(MALLORY, VOUCH, ANA, told)]}

    ask(network(listing))
    seen = dict(rows(store, "select rkey, seen_at from events"))
    assert seen == {honest: NOW - timedelta(days=9), early: BORN, late: NOW, ANA: datetime(2026, 9, 21, 14)}


def test_a_full_staging_folder_asks_to_wait_and_has_room_again_after_a_commit(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run", limit=10)
    page = staging.keep("did:plc:a/../../x", PULL, b"12345678")
    assert page.path.parent == tmp_path / "run"
    with pytest.raises(FetchProblem, match="full for now"):
        staging.keep("b", PULL, b"123")
    staging.drop([page])
    staging.keep("b", PULL, b"123")
    staging.close()
    assert not (tmp_path / "run").exists()
