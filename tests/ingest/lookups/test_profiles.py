"""Bluesky profiles: only of people who declare one, only of those who matter, once in seven days."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.people import fetch_profiles, public_profile, want_profile
from tests.ingest.lookups.asked import NOW, World, did
from tests.ingest.peer import Start, response

API = "https://public.api.bsky.app"
ANA = did("ana")


def declare(world: World, name: str, bluesky: bool = True) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did(name)])[did(name)]
        columns = "uri, author_id, description, links, bluesky, pinned, written_at, seen_at, changed_at"
        values = [f"at://{name}/self", number, "", "[]", bluesky, "[]", NOW, NOW, NOW]
        txn.execute(f"insert into profiles ({columns}) values ({', '.join('?' * 9)})", values)


def serve(world: World, **counts: Any) -> list[str]:
    asked: list[str] = []

    def say(query: Mapping[str, str]) -> dict[str, Any]:
        asked.append(query["actor"])
        return {"did": query["actor"], "handle": "x.test", "followersCount": 7, "followsCount": 3} | counts

    world.methods["app.bsky.actor.getProfile"] = say
    return asked


def fetched(world: World) -> int:
    return fetch_profiles(world.store, world.fetcher, API, world.now, world.wall)


def test_of_authors_here_only_those_who_declare_a_profile_are_asked_for_and_once_a_week(world: World) -> None:
    asked = serve(world, createdAt="2023-05-01T10:00:00.000Z")
    declare(world, "seed")  # no open pull request
    assert fetched(world) == 0
    declare(world, "mallory")
    assert fetched(world) == 1
    assert asked == [did("mallory")]
    sql = "select subject, key, value, known_from, expires_at, declared_by, evidence_uri from signals order by key"
    shared = (NOW, NOW + timedelta(days=7), did("mallory"), "at://mallory/self")
    told = {"created_at": "2023-05-01T10:00:00", "followers": "7", "follows": "3", "posts": "0"}
    assert world.rows(sql) == [(did("mallory"), key, value, *shared) for key, value in told.items()]
    assert fetched(world) == 0
    world.now += timedelta(days=7)
    assert fetched(world) == 1


def test_who_is_looked_at_is_asked_for_once_where_they_declare_it(world: World) -> None:
    asked = serve(world)
    declare(world, "ana")
    declare(world, "mara", bluesky=False)
    assert not want_profile(world.store, did("mara"), world.wall)
    assert not want_profile(world.store, "did:plc:nobody", world.wall)
    assert want_profile(world.store, ANA, world.wall)
    assert not want_profile(world.store, ANA, world.wall)
    assert fetched(world) == 1
    assert not want_profile(world.store, ANA, world.wall)
    world.now += timedelta(days=8)
    assert fetched(world) == 0  # nobody has looked since
    assert want_profile(world.store, ANA, world.wall)
    assert fetched(world) == 1
    assert asked == [ANA, ANA]


def test_who_has_no_profile_there_gets_no_signal(world: World) -> None:
    world.methods["app.bsky.actor.getProfile"] = lambda _: response(b'{"error":"InvalidRequest"}', 400)
    declare(world, "mallory")
    fetched(world)
    assert world.outcome("bluesky")[0] == "absent"
    assert world.rows("select * from signals where source = 'bluesky'") == []


@pytest.mark.parametrize("counts", [{"did": "did:plc:other"}, {"followersCount": -1}, {"postsCount": 2**60}])
def test_anothers_profile_or_senseless_counts_are_refused(world: World, counts: dict[str, Any]) -> None:
    serve(world, **counts)
    declare(world, "mallory")
    fetched(world)
    assert world.outcome("bluesky")[0] == "failed"
    assert world.rows("select * from signals where source = 'bluesky'") == []


FIELDS = ("did", "followersCount", "followsCount", "postsCount", "createdAt")


def test_whatever_the_api_answers_it_is_read_or_refused(peer: Start) -> None:
    said: list[bytes] = []
    fetcher = Fetcher(peer(lambda _: response(said[-1])).origin)

    @given(some.dictionaries(some.sampled_from(FIELDS), some.none() | some.integers() | some.text() | some.just(ANA)))
    def ask(told: dict[str, object]) -> None:
        said.append(json.dumps(told).encode())
        with suppress(FetchProblem):
            found = public_profile(fetcher, API, ANA)
            assert min(found.followers, found.follows, found.posts) >= 0

    ask()
