"""The run that a maintainer set off: it comes first, interrupts, widens from the seeds outward, and stays bounded."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.backfill import runs, turn
from ingest.backfill.account import Sources
from ingest.backfill.turn import Backfiller, BackfillProblem, take_turn, widen
from ingest.http.fetcher import Fetcher
from ingest.records.registry import PULL
from ingest.store.database import Store
from tests.ingest.backfill.backfilled import sources
from tests.ingest.backfill.listed import NOW, Body, Query, entry, network
from tests.ingest.peer import Peer
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, STRANGER, Frames, at
from tests.pipeline import PLC, At, Result, opened
from tests.scoring.small import feed
from tests.waiting import LONG_SECONDS, wait_for

CROWD = [f"did:plc:{letter * 24}" for letter in "234567"]


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Result]:
    """Seed keeps a watched repository, vouches for ana, ana for mara; mallory offers there and vouches for a crowd."""
    with opened(tmp_path) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        frames.vouch(SEED, ANA)
        frames.vouch(ANA, MARA)
        frames.vouch(ANA, STRANGER, kind="denounce")
        frames.pull(MALLORY, "offered")
        for fake in CROWD:
            frames.vouch(MALLORY, fake)
        feed(result, frames)
        result.watch([REPO], [SEED])
        yield result


def listed(store: Store, run_id: str) -> set[str]:
    with store.read() as rows:
        return {row["did"] for row in rows.rows("select did from backfill_accounts where run_id = ?", [run_id])}


def the_run(store: Store) -> runs.Run:
    run = runs.next_run(store)
    assert run is not None
    return run


def test_it_widens_to_whom_the_seeds_vouch_for_and_to_who_offers_and_to_nobody_else(world: Result) -> None:
    run_id = runs.begin(world.store, "setup", [SEED])
    assert widen(world.store, the_run(world.store)) == 3
    assert listed(world.store, run_id) == {SEED, ANA, MARA, MALLORY}, "neither the denounced nor a stranger's crowd"
    assert widen(world.store, the_run(world.store)) == 0


def test_of_too_many_those_nearest_to_the_seeds_come_first(world: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "ACCOUNTS", 3)
    run_id = runs.begin(world.store, "setup", [SEED])
    while widen(world.store, the_run(world.store)):
        pass
    assert listed(world.store, run_id) == {SEED, ANA, MARA}


def test_whoever_was_erased_is_not_asked_and_ends_no_run_in_a_circle(world: Result) -> None:
    runs.begin(world.store, "setup", [SEED])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.store.tombstones), "without", lambda self, dids: [])
        assert widen(world.store, the_run(world.store)) == 0


def test_it_comes_before_a_run_that_was_entered_earlier(world: Result) -> None:
    runs.begin(world.store, "by_hand", [ANA])
    begun = runs.begin(world.store, "setup", [SEED])
    assert the_run(world.store).run_id == begun


def test_a_run_under_its_name_is_entered_once(world: Result) -> None:
    for _ in range(2):
        runs.begin(world.store, "setup", [SEED], run_id="once")
    assert world.value("select count(*) from backfills") == 1


def test_it_interrupts_a_run_that_lists_everybody_which_goes_on_afterwards(world: Result) -> None:
    world.store.wall = lambda: NOW
    crowd = [f"did:plc:{letter * 24}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    whole = runs.begin(world.store, "by_hand", crowd)
    asked: list[str] = []

    def listing(query: Query) -> Body:
        asked.append(query["repo"])
        if len(asked) == 1:
            runs.begin(world.store, "setup", [SEED], run_id="urgent")
        return {"records": []}

    with Peer(network(listing, describeRepo=_describe)) as peer:
        fetcher = Fetcher(peer.origin)
        sources = Sources(fetcher, PLC, (), (PULL,), world.folder, At(NOW))
        ended = []
        while (run := take_turn(world.store, sources, threading.Event(), first_wait=0.01)) is not None:
            ended.append(run.run_id)
        fetcher.close()
    assert ended == [whole, "urgent", whole]
    assert world.rows("select run_id from backfills where state <> 'done'") == []
    assert {*crowd, SEED} <= set(asked)
    assert asked.index(SEED) < len(crowd), "it waited for everybody"


def _describe(query: Query) -> Body:
    return {"did": query["repo"], "collections": [PULL]}


def test_accounts_found_on_the_way_are_listed_before_it_is_done(world: Result) -> None:
    runs.begin(world.store, "setup", [SEED])
    offered: dict[str, Any] = entry(
        MARA, PULL, "3mara22222222", {"title": "x", "target": {"repo": REPO, "branch": "main"}}
    )

    def listing(query: Query) -> Body:
        return {"records": [offered] if query["repo"] == MARA else []}

    with Peer(network(listing, describeRepo=_describe)) as peer:
        fetcher = Fetcher(peer.origin)
        take_turn(world.store, Sources(fetcher, PLC, (), (PULL,), world.folder, At(NOW)), threading.Event())
        fetcher.close()
    assert world.value("select state from backfills") == "done"
    assert world.value("select count(*) from pull_requests where title = 'x'") == 1


def test_a_backfill_that_cannot_go_on_says_why_until_it_does(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[BackfillProblem | None] = [BackfillProblem("no backfill host answered")]

    def take_turn(*_: object) -> None:
        if outcomes and (problem := outcomes.pop()):
            raise problem

    monkeypatch.setattr(turn, "take_turn", take_turn)
    monkeypatch.setattr(turn, "LOOK_SECONDS", 0.2)
    backfiller = Backfiller(store, sources("http://127.0.0.1:1", tmp_path, at(0)), lambda: True, lambda: None)
    backfiller.start()
    wait_for(lambda: backfiller.problem == "no backfill host answered")
    wait_for(lambda: backfiller.problem is None)
    backfiller.stop()
    assert not backfiller.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_backfill_that_ended_by_an_error_goes_on_in_a_new_thread(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, went_on = [ZeroDivisionError()], threading.Event()

    def take_turn(*_: object) -> None:
        if turns:
            raise turns.pop()
        went_on.set()

    monkeypatch.setattr(turn, "take_turn", take_turn)
    monkeypatch.setattr(turn, "LOOK_SECONDS", 0.05)
    ended = Backfiller(store, sources("http://127.0.0.1:1", tmp_path, at(0)), lambda: True, lambda: None)
    ended.start()
    ended.join(LONG_SECONDS)
    assert not ended.is_alive()
    again = ended.renewed()
    again.start()
    assert went_on.wait(LONG_SECONDS)
    again.stop()
