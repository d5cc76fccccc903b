"""The hops that ask the network: what is due, what is written, what comes back after a failure."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.clock import waiting_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, forget_future
from ingest.lookups.people import DUE_IDENTITIES, fetch_profiles, public_profile, want_person
from tests.ingest.lookups.asked import KNOT, NOW, World, did
from tests.ingest.peer import Start, response
from tests.waiting import ends_by_itself, wait_for


def test_those_who_matter_get_their_identity_and_nobody_else(world: World) -> None:
    assert world.due() == 3  # seed, mallory, and the repository's push-holders
    assert world.identities() == 2
    seed, stranger = (
        world.rows("select handle, handle_verified, pds, did_created_at from contributors where did = ?", did(name))[0]
        for name in ("seed", "stranger")
    )
    assert seed == ("seed.example.test", True, "https://pds.example.test", datetime(2024, 1, 1))
    assert stranger == (None, False, None, None)
    assert world.identities() == 0
    assert world.inputs() == 1


def test_what_the_directory_logs_becomes_signals_that_are_read_as_of_a_moment(world: World) -> None:
    world.moved = True
    world.identities()
    sql = "select key, value, known_from from signals where subject = ? and source = 'plc' order by known_from"
    made, moved = datetime(2024, 1, 1), datetime(2025, 1, 1)
    wanted = [("created_at", made.isoformat(), made), ("pds_moves", "1", moved)]
    assert world.rows(sql, did("seed")) == wanted
    assert world.inputs() == 1
    with world.store.write() as txn:
        txn.execute("delete from fetches")
    world.identities()
    assert world.rows(sql, did("seed")) == wanted
    assert world.inputs() == 2  # nothing changed, but what waited for the answer is told


def test_an_identity_event_opens_the_look_up_again(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.execute("delete from fetches where subject = ?", [did("seed")])
    assert world.identities() == 1
    assert world.inputs() == 2  # nothing changed, but what waited for the answer is told


def test_on_whom_an_open_pull_request_rests_is_asked_about_each_day(world: World) -> None:
    """Its author and everybody on the trust path: an operation in the directory need not be told by the stream."""
    world.identities()
    world.now += timedelta(hours=23)
    assert world.identities() == 0
    world.now = NOW + timedelta(days=1)
    assert asked(world) == [did("mallory")]
    with world.store.write() as txn:
        path = [world.people[did("seed")], world.people[did("mallory")]]
        txn.execute(
            "insert into trust values (1, ?, 1, 0.9, 0.1, 1, ?, [0], null, false, 0, 0, 1, false)", [path[1], path]
        )
    assert asked(world) == [did("mallory"), did("seed")]
    world.moved = True
    assert world.identities() == 2
    told = "select subject from signals where key = 'pds_moves' order by subject"
    assert world.rows(told) == [(did("mallory"),), (did("seed"),)]
    world.now += timedelta(days=2)
    with world.store.write() as txn:
        txn.execute("update pull_requests set state = 'closed'")
    assert asked(world) == []


def asked(world: World) -> list[str]:
    """Who is due now."""
    with world.store.read() as rows:
        return sorted(row["subject"] for row in Due(DUE_IDENTITIES).rows(rows, world.now, 10))


def test_failures_come_back_later_each_time(world: World) -> None:
    world.faults["plc.directory"] = 500
    waits = []
    for attempt in range(1, 12):
        assert world.identities() == 2
        assert world.identities() == 0
        outcome, attempts, due, reason = world.outcome("identity")
        assert (outcome, attempts, reason) == ("failed", attempt, "plc.directory answered 500")
        waits.append((due - world.now).total_seconds() / 60)
        world.now = due
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]
    del world.faults["plc.directory"]
    assert world.identities() == 2
    assert world.outcome("identity") == ("found", 0, None, None)


def test_a_clock_that_ran_ahead_puts_no_look_up_off_once_it_is_right(world: World) -> None:
    world.faults["plc.directory"] = 500
    world.now = NOW + timedelta(days=365)
    assert world.identities() == 2
    del world.faults["plc.directory"]
    world.now = NOW
    assert world.identities() == 0
    assert forget_future(world.store, world.now) == 2
    assert world.identities() == 2
    assert forget_future(world.store, world.now) == 0


def test_the_absent_are_asked_again_after_a_day(world: World) -> None:
    world.faults["plc.directory"] = 404
    world.identities()
    assert world.outcome("identity")[:3] == ("absent", 1, NOW + timedelta(days=1))
    assert world.inputs() == 1


def test_a_wait_is_at_least_what_the_peer_asked_for_and_long_where_asking_is_vain() -> None:
    assert waiting_time(1, FetchProblem("", retry=True, after=3600)) == timedelta(hours=1)
    assert waiting_time(1, FetchProblem("")) == timedelta(hours=6)
    assert waiting_time(10_000, FetchProblem("", retry=True)) == timedelta(hours=6)


def test_a_handle_whose_host_is_in_trouble_stays_as_it_was_proven(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.execute("delete from fetches")
    world.faults["seed.example.test"] = 500
    world.faults["mallory.example.test"] = 404
    world.identities()
    proven = dict(world.rows("select did, handle_verified from contributors where handle is not null"))
    assert proven == {did("seed"): True, did("mallory"): False}
    again = dict(world.rows("select subject, due_clock from fetches where kind = 'identity'"))
    assert again == {did("seed"): NOW + timedelta(days=1), did("mallory"): None}


def test_the_knot_names_collaborators_and_the_owner_stays_owner(world: World) -> None:
    world.collaborators = [did("mara"), did("newcomer"), did("seed")]
    assert world.holders() == 1
    assert holders_of(world) == {did("seed"): "owner", did("mara"): "collaborator", did("newcomer"): "collaborator"}
    assert world.inputs() == 1
    world.now += timedelta(days=1)
    world.collaborators = []
    assert world.holders() == 1
    assert holders_of(world) == {did("seed"): "owner"}
    assert world.inputs() == 2


def test_a_silent_knot_changes_nothing_and_with_nothing_known_only_the_owner_counts(world: World) -> None:
    world.faults[KNOT] = 503
    world.holders()
    assert holders_of(world) == {did("seed"): "owner"}
    world.now += timedelta(minutes=1)
    world.faults.clear()
    world.fetcher = Fetcher(world.peer.origin)  # a host that answered 503 is left alone for some seconds
    world.holders()
    world.now += timedelta(days=1)
    world.faults[KNOT] = 500
    world.holders()
    assert holders_of(world) == {did("seed"): "owner", did("mara"): "collaborator"}
    assert world.inputs() == 2


def test_a_knot_cannot_keep_a_former_owner(world: World) -> None:
    with world.store.write() as txn:
        number = world.people[did("mallory")]
        txn.append(
            "push_holders",
            [
                {
                    "repository_id": 1,
                    "contributor_id": number,
                    "role": "owner",
                    "learned_from": "owner",
                    "held_from": None,
                    "held_until": None,
                }
            ],
        )
    world.faults[KNOT] = 500
    world.holders()
    assert holders_of(world) == {did("seed"): "owner"}


def test_a_closed_fetcher_ends_the_hop_and_what_was_asked_stays_due(world: World) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did("slow")])[did("slow")]
        txn.append("maintainers", [{"contributor_id": number, "repository_id": 0}])
    threading.Timer(2.0, world.fetcher.close).start()
    with ends_by_itself():
        world.identities()
    world.fetcher = Fetcher(world.peer.origin)
    world.hold.set()
    assert world.due() == 3  # slow, the push-holders, and the patch of mallory, who is known by now
    assert world.identities() == 1
    assert world.rows("select subject from fetches where outcome <> 'found'") == []


def test_the_writer_is_free_while_the_network_is_slow(world: World) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did("slow")])[did("slow")]
        txn.append("maintainers", [{"contributor_id": number, "repository_id": 0}])
    hop = threading.Thread(target=world.identities)
    hop.start()
    wait_for(lambda: any(request.headers["host"] == "slow.example.test" for request in world.peer.requests))
    with world.store.write() as txn:
        txn.execute("update contributors set account_status = 'deactivated' where did = ?", [did("slow")])
    assert hop.is_alive()
    world.hold.set()
    hop.join()
    kept = world.rows("select handle, account_status from contributors where did = ?", did("slow"))
    assert kept == [("slow.example.test", "deactivated")]


def test_many_people_are_asked_in_chunks(world: World, count: Callable[[int, int], int]) -> None:
    size = count(1_218, 5_000)
    with world.store.write() as txn:
        digits = str.maketrans("0123456789", "bcdefghijk")
        numbers = txn.person_ids([did(f"p{str(number).translate(digits)}") for number in range(size)])
        txn.append("maintainers", [{"contributor_id": each, "repository_id": 0} for each in numbers.values()])
    assert world.identities() == size + 2
    assert world.due() == 2  # the push-holders and the patch
    asked = Counter(request.path for request in world.peer.requests if request.path.endswith("/log/audit"))
    assert len(asked) == size + 2
    assert set(asked.values()) == {1}


def holders_of(world: World) -> dict[str, str]:
    current = "select did, role from push_holders join contributors using (contributor_id) where held_until is null"
    return dict(world.rows(current))


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
    assert not want_person(world.store, did("mara"), world.wall)
    assert not want_person(world.store, "did:plc:nobody", world.wall)
    assert want_person(world.store, ANA, world.wall)
    assert not want_person(world.store, ANA, world.wall)
    assert fetched(world) == 1
    assert not want_person(world.store, ANA, world.wall)
    world.now += timedelta(days=8)
    assert fetched(world) == 0  # nobody has looked since
    assert want_person(world.store, ANA, world.wall)
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
