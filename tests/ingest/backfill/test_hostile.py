"""Data servers and hosts that lie, stall, repeat themselves or never end: bounded, told, and believed in nothing."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from ingest.backfill import account
from ingest.store.database import Store
from tests.ingest.backfill.listed import BORN, NOW, REV, Body, Query, creation, entry, key, network, nothing, reasons
from tests.ingest.peer import response
from tests.ingest.stream.frames import (
    ANA,
    CREATED,
    MALLORY,
    PULL,
    REPOSITORY,
    VOUCH,
    Frames,
    letters,
    pull_record,
    rows,
    take,
)


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
