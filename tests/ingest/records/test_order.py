"""Words out of their order: reordered by the stream, listed by a backfill, given back by a dead letter.

What must be equal whatever the order: every row of every table, but for two that are history by nature. Of vouches the
one that stands is compared: a version that came too late to stand is kept as one that never stood. Of when a
record was first seen a listing tells only where it came before the stream's own sight.
"""

import itertools
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.clock import to_microseconds
from ingest.records import order
from ingest.records.derive import derive
from ingest.store.database import Store
from tests.conftest import count
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
    CREATED,
    MARA,
    PULL,
    REPO,
    SEED,
    STATUS,
    VOUCH,
    at,
    pull_record,
    pull_uri,
    rows,
)
from trustsite.world.network import encode_tid as tid

FOLLOW = "sh.tangled.graph.follow"
KEY = "3mxf3x7ivft22"
Words = list[dict[str, Any]]


def record_of(collection: str, version: str) -> dict[str, Any]:
    """A record whose contents tell the version."""
    if collection == PULL:
        return pull_record(blobs=[f"{BLOB}{version}"], title=version)
    if collection == STATUS:
        return {"pull": pull_uri(MARA, "one"), "status": f"{STATUS}.{version}"}
    if collection == VOUCH:
        return {"kind": "vouch", "reason": version, "createdAt": CREATED}
    return {"subject": f"did:plc:{version}{'x' * 10}"}


def word(collection: str, number: int, operation: str, version: str = "", listed: bool = False) -> dict[str, Any]:
    """An event: `number` is its place in the history, and so its rev and when it was seen."""
    body = None if operation == "delete" else json.dumps(record_of(collection, version))
    seen = at(number) - timedelta(days=30) if listed else at(number)
    return {
        "event_id": f"{collection} {number} {operation} {listed}",
        "source": "backfill" if listed else "test",
        "kind": "commit",
        "did": MARA,
        "collection": collection,
        "rkey": ANA if collection == VOUCH else KEY,
        "operation": operation,
        "rev": tid(to_microseconds(at(number))),
        "cid": None if operation == "delete" else f"bafy{version}".ljust(10, "a"),
        "seen_at": seen,
        "body": body,
    }


def arrive(store: Store, words: Sequence[dict[str, Any]], batch: int = 1000) -> None:
    """Log the words in this order, each late where one with a higher rev came before or it was listed; derive."""
    with store.write() as txn:
        last = txn.value("select coalesce(max(event_seq), 0) from events")
        highest = txn.value("select coalesce(max(rev), '') from events")
        logged = []
        for number, one in enumerate(words, last + 1):
            late = one["source"] == "backfill" or one["rev"] <= highest
            highest = max(highest, one["rev"])
            logged.append(one | {"event_seq": number, "late": late, "loaded_clock": at(0)})
        txn.append("events", logged)
        txn.register_people(dict.fromkeys([MARA, ANA], at(0)))
    while derive(store, rows=batch):
        pass


def tables(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """What the words led to."""
    return {
        "pull_requests": rows(store, "select * exclude (repository_id) from pull_requests"),
        "pull_rounds": rows(store, "select * from pull_rounds order by all"),
        "statuses": rows(store, "select * exclude (event_seq) from statuses"),
        "follows": rows(store, "select * from follows"),
        "vouches": rows(store, "select * exclude (event_seq) from vouches where superseded_at is null"),
    }


def empty(store: Store) -> None:
    """Forget everything but the people."""
    with store.write() as txn:
        for table in ("events", "pull_requests", "pull_rounds", "statuses", "follows", "vouches", "dead_letters"):
            txn.execute(f"delete from {table}")
        for table in ("repositories", "repository_aliases"):
            txn.execute(f"delete from {table}")
        txn.execute("update hops set position_seq = 0 where name = 'derive'")


def history(collection: str, steps: str) -> Words:
    """A history from its shape: 'a' to 'y' write that version, '-' deletes."""
    return [
        word(collection, number, "delete") if step == "-" else word(collection, number, "update", step)
        for number, step in enumerate(steps)
    ]


every_kind = pytest.mark.parametrize("collection", [PULL, STATUS, FOLLOW, VOUCH])


@every_kind
@pytest.mark.parametrize("steps", ["a-b", "ab-"])
def test_every_order_of_arrival_of_a_history_gives_the_same_tables(store: Store, collection: str, steps: str) -> None:
    words = history(collection, steps)
    arrive(store, words)
    right = tables(store)
    for number, way in enumerate(itertools.permutations(words)):
        empty(store)
        arrive(store, way, 1 if number % 2 else 1000)
        assert tables(store) == right, [one["event_id"] for one in way]


@settings(max_examples=count(15, 2000))
@given(data=st.data())
def test_any_order_and_any_batches_give_the_same_tables_with_a_listing_in_between(
    scratch: Store, data: st.DataObject
) -> None:
    """The listing shows what stood when it was made, under a rev of that moment; the stream's own word dates it."""
    collection = data.draw(st.sampled_from([PULL, STATUS, FOLLOW, VOUCH]))
    puts = data.draw(st.lists(st.booleans(), min_size=1, max_size=7))
    live = history(collection, "".join(letter if put else "-" for put, letter in zip(puts, "abcdefg", strict=False)))
    empty(scratch)
    arrive(scratch, live)
    right = tables(scratch)
    shown = data.draw(st.none() | st.sampled_from([place for place, put in enumerate(puts) if put] or [None]))
    listings = [] if shown is None else [listing_of(collection, shown, "abcdefg"[shown])]
    empty(scratch)
    arrive(scratch, data.draw(st.permutations([*live, *listings])), data.draw(st.integers(1, 4)))
    assert tables(scratch) == right


def listing_of(collection: str, place: int, version: str) -> dict[str, Any]:
    """What a listing shows between this step of the history and the next."""
    told = word(collection, place, "create", version, listed=True)
    return told | {"rev": tid(to_microseconds(at(place) + timedelta(milliseconds=500)))}


@every_kind
def test_a_live_delete_beats_an_older_listed_create_whichever_came_first(store: Store, collection: str) -> None:
    listing, gone = word(collection, 0, "create", "a", listed=True), word(collection, 1, "delete")
    for way in ([listing, gone], [gone, listing]):
        empty(store)
        arrive(store, way)
        found = tables(store)
        stands = [row for name in ("pull_requests", "statuses", "follows", "vouches") for row in found[name]]
        if collection == VOUCH:
            assert stands == []
        else:
            assert at(1) in stands[0], "deleted when the stream said so"


@every_kind
def test_a_listed_newer_version_beats_an_older_live_one_whichever_came_first(store: Store, collection: str) -> None:
    live, listing = word(collection, 0, "create", "a"), word(collection, 1, "create", "b", listed=True)
    cids = {PULL: "pull_requests", STATUS: "statuses", FOLLOW: "follows", VOUCH: "vouches"}
    for way in ([live, listing], [listing, live]):
        empty(store)
        arrive(store, way)
        if collection == STATUS:
            assert rows(store, "select status from statuses") == [("b",)]
        else:
            where = "where superseded_at is null" if collection == VOUCH else ""
            assert rows(store, f"select record_cid from {cids[collection]} {where}") == [("bafybaaaaa",)]


def test_the_stream_dates_a_round_that_a_listing_told(store: Store) -> None:
    live, listing = word(PULL, 0, "create", "a"), word(PULL, 1, "create", "a", listed=True)
    arrive(store, [listing])
    assert rows(store, "select witnessed, seen_at < ? from pull_rounds", at(0)) == [(False, True)]
    arrive(store, [live])
    assert rows(store, "select witnessed, seen_at from pull_rounds") == [(True, at(0))]
    assert rows(store, "select seen_at, changed_at from pull_requests") == [(at(0), at(0))]


def test_a_vouch_that_came_too_late_to_stand_is_kept_and_never_stood(store: Store) -> None:
    arrive(store, [word(VOUCH, 1, "update", "b"), word(VOUCH, 0, "create", "a")])
    found = rows(store, "select reason, superseded_at is null, seen_at = superseded_at from vouches order by reason")
    assert found == [("a", False, True), ("b", True, None)]


def test_a_listing_under_an_older_rev_cannot_move_a_pull_request_to_another_repository(store: Store) -> None:
    """Its author's own server tells the listing, and could carry a rejection to where it counts for nothing."""
    live = word(PULL, 5, "create", "a")
    lie = word(PULL, 1, "create", "b", listed=True)
    lie["body"] = json.dumps(pull_record(target=SEED))
    arrive(store, [live])
    arrive(store, [lie])
    sql = "select repo_key, p.seen_at, title from pull_requests p join repositories using (repository_id)"
    assert rows(store, sql) == [(REPO, at(5), "a")]


def test_events_in_their_turn_ask_the_log_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "LOGGED", "this is no SQL")
    arrive(store, history(FOLLOW, "ab-c"))
    assert rows(store, "select subject, deleted_at from follows") == [(f"did:plc:c{'x' * 10}", None)]


def test_what_is_no_rev_counts_as_the_oldest(store: Store) -> None:
    """A peer may claim 'zzz' to be the newest for ever; only a TID is a rev."""
    forged = word(FOLLOW, 0, "create", "a") | {"rev": "zzzzzzzzzzzzzzzz"}
    arrive(store, [forged, word(FOLLOW, 1, "update", "b")])
    assert rows(store, "select subject from follows") == [(f"did:plc:b{'x' * 10}",)]
