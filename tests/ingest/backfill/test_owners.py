"""Repositories that the stream never brought are read from their owner's data server, once, and belong to the owner."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.backfill.account import Sources
from ingest.backfill.owners import LISTED, NOT_ASKED, Owner, OwnerProblem, find_owned, make_known
from ingest.backfill.runs import begin
from ingest.backfill.turn import BackfillProblem, take_turn
from ingest.clock import from_microseconds
from ingest.http.fetcher import Fetcher
from ingest.records import watched
from ingest.records.registry import REPOSITORY
from ingest.store.database import Store
from tests.conftest import simulated_network
from tests.ingest.backfill.listed import NOW, Body, Query, creation, entry, network
from tests.ingest.peer import Peer, response
from tests.pipeline import PLC, At
from tests.stores import fresh_store
from trustsite.standins import StandIns

WORLD = simulated_network()
ENDED = At(from_microseconds(WORLD.recording.last_time_us))


@pytest.fixture(scope="module")
def peers() -> Iterator[StandIns]:
    with StandIns(WORLD.recording) as network:
        yield network


def add(store: Store, peers: StandIns, *names: str) -> list[str]:
    sources = Sources(Fetcher(peers.origin), PLC, (), (), store.path.parent, ENDED)
    known = make_known(store, sources, names)
    return watched.add_maintainer(store, WORLD.cast["ana"], known, ENDED.now())


@pytest.mark.parametrize("owner", ["handle", "did"])
def test_a_repository_is_found_by_its_owner_and_name_before_any_frame_of_it_came(
    store: Store, peers: StandIns, owner: str
) -> None:
    named = "ana.example.test" if owner == "handle" else WORLD.cast["ana"]
    assert add(store, peers, f"{named}/lantern") == [WORLD.watched["lantern"]]
    with store.read() as rows:
        row = rows.row(
            "select * from repositories join contributors on contributor_id = owner_id where name = 'lantern'"
        )
        assert row is not None
        assert row["did"] == WORLD.cast["ana"]
        assert rows.value("select cursor_us from ingest_state") == 0


def test_looking_it_up_again_logs_nothing_twice(store: Store, peers: StandIns) -> None:
    add(store, peers, "ana.example.test/lantern")
    with store.read() as rows:
        before = rows.value("select count(*) from events")
    with pytest.raises(watched.UnknownRepository):
        add(store, peers, "ana.example.test/no-such-thing")
    with store.read() as rows:
        assert rows.value("select count(*) from events") == before > 0


@pytest.mark.parametrize(
    "name", ["nobody.example.test/lantern", "did:plc:" + "z" * 24 + "/lantern", "did:plc:" + "z" * 24]
)
def test_an_owner_who_cannot_be_asked_is_named_in_one_sentence(store: Store, peers: StandIns, name: str) -> None:
    with pytest.raises(watched.UnknownRepository, match=name[:20]):
        add(store, peers, name)
    with store.read() as rows:
        assert rows.value("select count(*) from watched_repositories") == 0


ANA, BEN = "did:plc:" + "a" * 24, "did:plc:" + "b" * 24
HANDLE, KNOT = "ana.example.test", "knot.example.test"


def repository(name: str, **more: object) -> dict[str, Any]:
    return entry(ANA, REPOSITORY, name, {"name": name, "knot": KNOT, "createdAt": "2026-01-01T00:00:00Z", **more})


def of_ana(query: Query) -> Body:
    return {"records": [repository("lantern", repoDid=BEN.replace("b", "r")), repository("attic", source="at://x")]}


def said(listing: Callable[[Query], Body] = of_ana, **others: Callable[[Query], Body]) -> Any:
    """A network in which ana's handle names her and ben may push to lantern."""
    methods: dict[str, Callable[[Query], Body]] = {
        "atproto-did": lambda _: response(ANA.encode()),
        "describeRepo": lambda query: {"did": query["repo"], "collections": [REPOSITORY]},
        "listCollaborators": lambda _: {"items": [{"subject": BEN}, {"subject": ANA}]},
        **others,
    }
    return network(listing, **methods)


@pytest.fixture(name="drive")
def drive_fixture(tmp_path: Path) -> Iterator[Store]:
    drive = fresh_store(tmp_path / "trust.duckdb")
    yield drive
    drive.close()


def find(drive: Store, answer: Any, who: str = HANDLE) -> tuple[Owner, list[str]]:
    told: list[str] = []
    with Peer(answer) as peer:
        fetcher = Fetcher(peer.origin)
        try:
            sources = Sources(fetcher, PLC, (), (), drive.path.parent, At(NOW))
            return find_owned(drive, sources, who, told.append), told
        finally:
            fetcher.close()


def test_a_handle_leads_to_its_repositories_and_to_who_may_push(drive: Store) -> None:
    owner, told = find(drive, said())
    assert (owner.did, owner.host, owner.left_out) == (ANA, "pds.example.test", "")
    attic, lantern = owner.repositories
    assert (attic.name, attic.is_fork, attic.holders) == ("attic", True, ())
    assert "no DID of its own" in attic.silent
    assert (lantern.name, lantern.holders, lantern.silent, lantern.is_watched) == ("lantern", (BEN,), "", False)
    assert lantern.record == f"at://{ANA}/{REPOSITORY}/lantern"
    assert told[-1] == "Asking for push access: 2 of 2."


def test_what_is_watched_already_says_so(drive: Store) -> None:
    first, _ = find(drive, said())
    watched.watch_repository(drive, first.repositories[1].record, NOW)
    again, _ = find(drive, said(), ANA)
    assert [one.is_watched for one in again.repositories] == [False, True]


def test_a_list_of_two_pages_is_read_whole(drive: Store) -> None:
    def pages(query: Query) -> Body:
        if "cursor" not in query:
            return {"records": [repository("lantern")], "cursor": "second"}
        return {"records": [repository("attic")]}

    owner, told = find(drive, said(pages))
    assert [one.name for one in owner.repositories] == ["attic", "lantern"]
    assert "1 records read." in told


def test_a_claim_of_somebody_elses_repository_is_told(drive: Store) -> None:
    find(drive, said())

    def of_ben(query: Query) -> Body:
        value = {"name": "lantern", "knot": KNOT, "repoDid": BEN.replace("b", "r"), "createdAt": "2026-01-01T00:00:00Z"}
        return {"records": [{**entry(BEN, REPOSITORY, "lantern", value)}]}

    owner, _ = find(drive, said(of_ben), BEN)
    assert [(one.record, one.is_disputed) for one in owner.repositories] == [(f"at://{BEN}/{REPOSITORY}/lantern", True)]
    assert [one.is_disputed for one in find(drive, said())[0].repositories] == [False, False]


def absent(_: Query) -> Body:
    return response(status=404)


def dead(_: Query) -> Body:
    return response(status=502)


def nowhere(_: Query) -> Body:
    first = creation()
    first["operation"]["services"] = {}
    return response(json.dumps([first]).encode())


@pytest.mark.parametrize(
    ("others", "who", "sentence"),
    [
        ({"atproto-did": absent}, HANDLE, "ana.example.test leads to no account"),
        ({"atproto-did": dead}, HANDLE, "ana.example.test could not be looked up: "),
        ({"audit": absent}, ANA, "is not an account: the directory does not know"),
        ({"audit": dead}, ANA, "could not be looked up in the directory"),
        ({"audit": nowhere}, ANA, "keeps no records: its DID document names no data server"),
        ({"describeRepo": dead}, ANA, "The data server pds.example.test of did:plc:"),
        ({"listRecords": dead}, ANA, "did not list its repositories"),
        ({"listRecords": lambda _: {"records": []}}, ANA, "has no repository: its data server pds.example.test"),
        ({"listRecords": lambda _: response(b"<html>")}, ANA, "sent a page that cannot be read"),
    ],
)
def test_whatever_is_missing_is_one_clear_sentence(
    drive: Store, others: Mapping[str, Callable[[Query], Body]], who: str, sentence: str
) -> None:
    with pytest.raises(OwnerProblem) as refused:
        find(drive, said(**others), who)
    assert sentence in str(refused.value)
    with drive.read() as rows:
        assert rows.value("select count(*) from watched_repositories") == 0


def nobody(host: str) -> Sequence[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_without_a_network_nobody_is_told_that_a_handle_is_misspelt(drive: Store) -> None:
    sources = Sources(Fetcher(resolver=nobody, texts=lambda name: []), PLC, (), (), drive.path.parent, At(NOW))
    offline = "No server can be reached from here (DNS finds no such name: plc.directory)"
    for name in (ANA, HANDLE):
        with pytest.raises(OwnerProblem) as refused:
            find_owned(drive, sources, name, print)
        told = f"{offline}, so {name} was not looked up. Connect this machine to the network."
        assert str(refused.value) == told, "neither sends to the other"
    with pytest.raises(watched.UnknownRepository) as refused_too:
        make_known(drive, sources, [f"{HANDLE}/lantern"])
    assert str(refused_too.value) == f"{HANDLE}/lantern was not added. {told}"
    hosts = replace(sources, hosts=("https://relay.example.test",), collections=(REPOSITORY,))
    begin(drive, "first_start")
    with pytest.raises(BackfillProblem) as stopped:
        take_turn(drive, hosts, threading.Event())
    assert str(stopped.value) == f"{offline}. Connect this machine to the network", "no setting mends that"


def test_a_knot_that_is_silent_hides_no_repository(drive: Store) -> None:
    owner, _ = find(drive, said(listCollaborators=dead))
    assert "answered 502" in owner.repositories[1].silent


def test_records_that_make_no_sense_are_left_out_of_the_choice(drive: Store) -> None:
    odd = [entry(ANA, REPOSITORY, "odd", "no object"), entry(ANA, REPOSITORY, "odder", {"name": ["x"], "knot": 5})]
    owner, _ = find(drive, said(lambda _: {"records": [repository("lantern"), *odd]}))
    assert "lantern" in [one.name for one in owner.repositories]
    assert all(isinstance(one.name, str) for one in owner.repositories)


def test_a_crowd_of_repositories_is_bounded_and_says_so(drive: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.backfill.owners.KNOTS_ASKED", 1)
    letters = str.maketrans("0189", "zyxw")
    keys = [f"did:plc:{number:024}".translate(letters) for number in range(LISTED + 5)]
    crowd = [repository(f"r{number:03}", repoDid=key) for number, key in enumerate(keys)]
    owner, _ = find(drive, said(lambda _: {"records": crowd}))
    assert len(owner.repositories) == LISTED
    assert "5 more are not shown" in owner.left_out
    assert [one.silent for one in owner.repositories[:2]] == ["", NOT_ASKED]
