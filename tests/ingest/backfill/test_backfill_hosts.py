"""Hosts that fail, flood, go round or ask for patience: given up, bounded or waited for, and the others are read."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.backfill import runs, threads, turn
from ingest.backfill.account import Staging
from ingest.backfill.runs import Estimate, summarize
from ingest.errors import FetchProblem
from ingest.store.database import Store
from tests.conftest import simulated_network
from tests.ingest.backfill.backfilled import FIRST_WAIT, run_backfill, sources
from tests.ingest.backfill.listed import NOW, Body, Query, entry, network, nothing, reasons
from tests.ingest.conftest import Open
from tests.ingest.peer import Request, Start, response
from tests.ingest.stream.frames import (
    ANA,
    MALLORY,
    MARA,
    PULL,
    rows,
)
from trustsite.standins import StandIns


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
    monkeypatch.setattr(threads, "HOST_TRIES", 6)
    tries = []

    def dead(_: Query) -> Body:
        tries.append(1)
        return response(status=500)

    everybody = {"repos": [{"did": "did:plc:" + letter * 24} for letter in "abcdefghijklmnopqrstuvwxyz234567"]}
    summary = ask(network(nothing, getLatestCommit=dead, listReposByCollection=lambda _: everybody))
    assert summary["failed"] == 32
    assert len(tries) < 32 * threads.TRIES
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
    assert 1 < most[0] <= threads.AT_A_HOST


def test_a_server_that_asks_to_wait_is_waited_for(open_store: Open, tmp_path: Path) -> None:
    world = simulated_network().recording
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
    monkeypatch.setattr(turn, "HOST_ACCOUNTS", 2_500)
    asked = iter(range(10**9))

    def answer(request: Request) -> bytes:
        if request.headers["host"] == "honest.example.test":
            return response(json.dumps({"repos": [{"did": ANA}]}).encode())
        page = next(asked)
        names = [f"did:web:p{page}x{number}.example.com" for number in range(1_000)]
        return response(json.dumps({"repos": [{"did": name} for name in names], "cursor": f"c{page}"}).encode())

    hosts = ("https://flood.example.test", "https://honest.example.test")
    found = turn.find_accounts(sources(peer(answer).origin, tmp_path, NOW, hosts=hosts), lambda _: False)
    assert len(found.dids) == 2_501
    assert ANA in found.dids
    assert "names more than 2500 accounts" in found.notes[0]


def test_a_host_that_goes_round_in_a_circle_or_names_nonsense_is_left(peer: Start, tmp_path: Path) -> None:
    def answer(_: Request) -> bytes:
        names: list[dict[str, object]] = [{"did": "did:plc:short"}, {"did": "at://x"}, {"did": MARA}]
        return response(json.dumps({"repos": names, "cursor": "round"}).encode())

    found = turn.find_accounts(sources(peer(answer).origin, tmp_path, NOW), lambda _: False)
    assert (list(found.dids), found.notes) == ([MARA], [])


def test_where_one_host_fails_the_next_is_asked(peer: Start, tmp_path: Path) -> None:
    def answer(request: Request) -> bytes:
        if request.headers["host"] == "dead.example.test":
            return response(status=500)
        return response(json.dumps({"repos": [{"did": ANA}]}).encode())

    hosts = ("https://dead.example.test", "https://live.example.test")
    found = turn.find_accounts(sources(peer(answer).origin, tmp_path, NOW, hosts=hosts), lambda _: False)
    assert (list(found.dids), found.answered) == ([ANA], True)
    assert found.notes == ["https://dead.example.test named 0 accounts, then: dead.example.test answered 500"]


def test_where_nobody_names_anybody_the_run_stays_to_be_tried_again(store: Store, peer: Start, tmp_path: Path) -> None:
    asked = sources(peer(lambda _: response(status=403)).origin, tmp_path / "staging", NOW)
    runs.begin(store, "first_start")
    with pytest.raises(turn.BackfillProblem, match="check BACKFILL_HOSTS"):
        turn.take_turn(store, asked, threading.Event(), first_wait=FIRST_WAIT)
    assert rows(store, "select state from backfills") == [("finding",)]


def test_a_full_staging_folder_asks_to_wait_and_has_room_again_after_a_commit(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run", limit=10)
    page = staging.keep("did:plc:a/../../x", f"{PULL}/../x", 0, b"12345678")
    assert page.path.parent == tmp_path / "run"
    with pytest.raises(FetchProblem, match="full for now"):
        staging.keep("b", PULL, 0, b"123")
    staging.drop([page])
    staging.keep("b", PULL, 0, b"123")
    staging.close()
    assert not (tmp_path / "run").exists()
