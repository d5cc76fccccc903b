"""Backfill of a network ends in the tables that its stream leads to, whatever happens meanwhile."""

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest import files as room
from ingest.backfill import runs
from ingest.backfill.runs import summarize
from ingest.backfill.turn import BackfillProblem, take_turn
from ingest.clock import from_microseconds
from ingest.records.derive import derive
from ingest.store.database import Store
from ingest.stream.early import NOTHING_BEFORE, Gap, record_gap
from ingest.stream.load import load
from tests.conftest import Count, simulated_network
from tests.ingest.backfill.backfilled import FIRST_WAIT, finish, run_backfill, sources, standing
from tests.ingest.conftest import Open
from tests.ingest.peer import Start, response
from tests.ingest.stream.frames import SOURCE, open_gaps, rows
from tests.sources import PROJECT
from tests.stores import fresh_store
from trustsite.standins import StandIns
from trustsite.standins.recording import Recording

WORLD = simulated_network().recording
Standing = dict[str, list[dict[str, Any]]]
END = from_microseconds(WORLD.last_time_us)


@pytest.fixture(scope="module")
def peers() -> Iterator[StandIns]:
    with StandIns(WORLD) as network:
        yield network


def listen(store: Store, recording: Recording, start: int = 0, end: int | None = None) -> None:
    """The stream of a recording, or a stretch of it."""
    load(store, SOURCE, recording.frames[start:end])
    while derive(store):
        pass


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Standing:
    """What stands in a store that heard the whole stream: worked out once, since it takes a second of CPU."""
    with closing(fresh_store(tmp_path_factory.mktemp("streamed") / "trust.duckdb")) as store:
        store.bind(SOURCE)
        listen(store, WORLD)
        return standing(store)


def told(store: Store, run_id: str) -> dict[str, Any]:
    with store.read() as found:
        return summarize(found, run_id)


def test_backfill_and_stream_of_one_network_lead_to_equal_tables(
    store: Store, streamed: Standing, peers: StandIns, tmp_path: Path
) -> None:
    run_id = run_backfill(store, sources(peers.origin, tmp_path / "staging", END))
    assert standing(store) == streamed
    summary = told(store, run_id)
    assert (summary["state"], summary["failed"], summary["absent"], summary["waiting"]) == ("done", 0, 0, 0)
    assert summary["records"] == summary["logged"] == len(streamed["records"]) > 900
    assert list((tmp_path / "staging").rglob("*.*")) == []


def test_what_the_stream_brought_is_not_logged_again(
    store: Store, streamed: Standing, peers: StandIns, tmp_path: Path
) -> None:
    listen(store, WORLD)
    summary = told(store, run_backfill(store, sources(peers.origin, tmp_path / "staging", END)))
    assert (summary["logged"], summary["deletes"]) == (0, 0)
    assert standing(store) == streamed


@pytest.mark.parametrize("listed", ["ahead of the stream", "behind the stream"])
def test_any_part_of_the_stream_before_and_after_a_backfill_leads_to_the_same_tables(
    open_store: Open, streamed: Standing, tmp_path: Path, count: Count, listed: str
) -> None:
    """A listing may show what the stream has yet to bring, or land after newer words of it."""
    moments = random.Random(4)
    for number in range(count(2, 40)):
        store = open_store(f"folded{number}")
        earlier = moments.randrange(0 if listed == "ahead of the stream" else 100, len(WORLD.frames))
        later = moments.randint(earlier, len(WORLD.frames))
        heard, released = (earlier, later) if listed == "ahead of the stream" else (later, earlier)
        with StandIns(WORLD, hold_after=released) as peers:
            listen(store, WORLD, 0, heard)
            now = from_microseconds(WORLD.times[released - 1])
            run_backfill(store, sources(peers.origin, tmp_path / "staging", now))
        listen(store, WORLD, moments.randint(heard, max(heard, released)))
        assert standing(store) == streamed, (heard, released)


def test_kills_at_random_moments_lose_no_account_and_no_record(
    tmp_path: Path, count: Count, streamed: Standing
) -> None:
    moments, kills = random.Random(3), 0
    folder = tmp_path / "killed"
    folder.mkdir()
    with StandIns(WORLD) as peers:
        arguments = [str(folder), peers.origin, str(WORLD.last_time_us)]
        command = [sys.executable, "-m", "tests.ingest.backfill.backfilled", *arguments]
        while True:
            process = subprocess.Popen(command, cwd=PROJECT)
            try:
                assert process.wait(moments.uniform(0.5, 1.6) if kills < count(2, 10) else 300) == 0
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
    store = Store.open(folder / "trust.duckdb")
    try:
        assert standing(store) == streamed
        assert rows(store, "select state, reason from backfills") == [("done", "first_start")]
        assert rows(store, "select event_id from events group by event_id having count(*) > 1") == []
    finally:
        store.close()
    assert kills > 0
    assert not (folder / "staging" / "backfill").exists() or list((folder / "staging" / "backfill").iterdir()) == []


def test_what_a_gap_swallowed_is_listed_and_what_was_deleted_in_it_is_deleted(
    open_store: Open, streamed: Standing, peers: StandIns, tmp_path: Path
) -> None:
    holed = open_store("holed")
    begins, ends = 500, len(WORLD.frames) - 5
    listen(holed, WORLD, 0, begins)
    listen(holed, WORLD, ends)
    with holed.write() as txn:
        span = [SOURCE, WORLD.times[begins - 1], WORLD.times[ends], holed.wall()]
        txn.execute("insert into gaps values (?, ?, ?, 'the server began later', ?, null)", span)
    finish(holed, sources(peers.origin, tmp_path / "staging", END))
    assert rows(holed, "select reason, state from backfills") == [("gap", "done")]
    assert len(open_gaps(holed)) == 0
    assert standing(holed)["records"] == streamed["records"]
    since = from_microseconds(WORLD.times[begins - 1])
    known = {did for did in WORLD.dids[:begins] if did}
    late = rows(holed, "select did, seen_at from events where source = 'backfill'")
    assert late
    assert all(seen_at >= since for did, seen_at in late if did in known)


def test_a_run_of_some_accounts_and_collections_fills_no_gap(open_store: Open, peers: StandIns, tmp_path: Path) -> None:
    store, did = open_store("part"), next(person.did for person in WORLD.people)
    with store.write() as txn:
        txn.execute("insert into gaps values (?, 1, 2, 'the server began later', ?, null)", [SOURCE, store.wall()])
    runs.begin(store, "by_hand", [did])
    run = runs.next_run(store)
    assert run is not None
    runs.end(store, run)
    assert len(open_gaps(store)) == 1


def test_the_first_run_is_entered_once_and_only_where_the_stream_has_no_cursor(open_store: Open) -> None:
    fresh, used = open_store("fresh"), open_store("used")
    assert runs.begin_first(fresh, SOURCE) is not None
    assert runs.begin_first(fresh, SOURCE) is None
    listen(used, WORLD, 0, 5)
    assert runs.begin_first(used, SOURCE) is None
    assert runs.next_run(used) is None


def test_the_first_run_fills_the_gap_that_the_first_connection_found(
    open_store: Open, peers: StandIns, tmp_path: Path
) -> None:
    store = open_store("fresh")
    runs.begin_first(store, SOURCE)
    record_gap(store, Gap(SOURCE, 0, WORLD.times[0], NOTHING_BEFORE))
    finish(store, sources(peers.origin, tmp_path / "staging", END))
    assert rows(store, "select reason, state from backfills") == [("first_start", "done")]
    assert len(open_gaps(store)) == 0


def test_a_gap_stays_open_while_no_host_names_anybody(open_store: Open, peer: Start, tmp_path: Path) -> None:
    store = open_store("holed")
    listen(store, WORLD, 0, 500)
    record_gap(store, Gap(SOURCE, WORLD.times[400], WORLD.times[499], "the server began later"))
    nobody = sources(peer(lambda _: response(status=403)).origin, tmp_path / "staging", END)
    with pytest.raises(BackfillProblem, match="check BACKFILL_HOSTS"):
        take_turn(store, nobody, threading.Event(), first_wait=FIRST_WAIT)
    assert rows(store, "select reason, state from backfills") == [("gap", "finding")]
    assert len(open_gaps(store)) == 1


def test_without_hosts_the_known_are_listed_once_and_the_gap_stays_until_hosts_are_named(
    open_store: Open, peers: StandIns, tmp_path: Path
) -> None:
    store = open_store("holed")
    listen(store, WORLD, 0, 500)
    gap = Gap(SOURCE, WORLD.times[400], WORLD.times[499], "the server began later")
    record_gap(store, gap)
    finish(store, sources(peers.origin, tmp_path / "staging", END, hosts=()))
    ((notes,),) = rows(store, "select notes from backfills where state = 'done' and not is_whole")
    assert "gaps in the stream stay open; set BACKFILL_HOSTS" in notes[0]
    assert rows(store, "select count(*) > 100 from events where source = 'backfill'") == [(True,)]
    assert len(open_gaps(store)) == 1
    record_gap(store, Gap(SOURCE, gap.to_us + 1, gap.to_us + 2, "the server began later"))
    finish(store, sources(peers.origin, tmp_path / "staging", END, hosts=()))
    assert rows(store, "select count(*), sum(is_whole::integer) from backfills") == [(2, 0)]
    assert len(open_gaps(store)) == 2
    finish(store, sources(peers.origin, tmp_path / "staging", END))
    assert rows(store, "select count(*), sum(is_whole::integer) from backfills") == [(3, 1)]
    assert len(open_gaps(store)) == 0


def test_nothing_is_listed_into_a_store_without_room(
    open_store: Open, peers: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked = open_store("full"), sources(peers.origin, tmp_path / "staging", END)
    runs.begin(store, "by_hand")
    with monkeypatch.context() as full:
        full.setattr(room, "free_bytes", lambda path: 50_000_000)
        with pytest.raises(BackfillProblem, match="free space on the drive"):
            take_turn(store, asked, threading.Event(), first_wait=FIRST_WAIT)
    assert rows(store, "select count(*) from events") == [(0,)]
    finish(store, asked)
    assert len(standing(store)["records"]) > 900


def test_accounts_of_runs_that_ended_a_month_ago_are_not_kept(open_store: Open) -> None:
    store = open_store("old")
    old, new = (
        runs.begin(store, "by_hand", ["did:plc:" + "a" * 24]),
        runs.begin(store, "by_hand", ["did:plc:" + "b" * 24]),
    )
    with store.write() as txn:
        month_ago = store.wall() - timedelta(days=31)
        txn.execute("update backfills set state = 'done', ended_clock = ? where run_id = ?", [month_ago, old])
    run = runs.next_run(store)
    assert run is not None
    runs.end(store, run)
    assert rows(store, "select run_id from backfill_accounts") == [(new,)]
