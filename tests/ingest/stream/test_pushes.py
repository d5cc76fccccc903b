"""Words of knots and spindles are kept for the repositories that lie on them, believed for no others."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as some
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.sync.server import ServerConnection, serve

from ingest.clock import from_microseconds, to_microseconds
from ingest.http.fetcher import Fetcher
from ingest.stream import knots
from ingest.stream.knots import EventStream, begin, read_envelope, store_events
from tests.ingest.lookups.asked import KNOT, REPOSITORY, World, did, fetch
from tests.waiting import LONG_SECONDS, wait_for

OLD, NEW = "a" * 40, "b" * 40


def push(number: int = 0, at: int | None = None, named: Mapping[str, Any] | None = None) -> str:
    told = {"ref": "refs/heads/main", "committerDid": did("mara"), "oldSha": OLD, "newSha": NEW, "meta": {}}
    created = at or to_microseconds(from_microseconds(1_790_000_000_000_000) + timedelta(seconds=number)) * 1_000
    return json.dumps(
        {
            "rkey": "3k",
            "nsid": "sh.tangled.git.refUpdate",
            "event": told | dict(named or {"repo": REPOSITORY, "ownerDid": did("seed")}),
            "created": created,
        }
    )


def told(world: World, *frames: str, host: str = KNOT) -> bool:
    return store_events(world.store, host, [event for frame in frames if (event := read_envelope(frame))])


def mirrored(world: World) -> None:
    with world.store.write() as txn:
        txn.upsert("fetches", [fetch("mirror", REPOSITORY)])


@pytest.mark.parametrize(
    "named",
    [
        {"repo": REPOSITORY, "ownerDid": did("seed")},
        {"repoDid": REPOSITORY, "repoName": "other"},
        {"repoDid": did("seed"), "repoName": "project"},
        {"repo": "at://old/name"},
    ],
)
def test_trap_8_a_push_names_its_repository_in_whichever_meaning_the_field_had(
    world: World, named: dict[str, str]
) -> None:
    world.change("update repositories set name = 'project'")
    world.change("insert into repository_aliases values ('at://old/name', 1)")
    mirrored(world)
    assert told(world, push(named=named))
    assert world.rows("select knot, repository, ref, old_commit, new_commit, committer from ref_updates") == [
        (KNOT, REPOSITORY, "refs/heads/main", OLD, NEW, did("mara"))
    ]
    assert world.outcome("mirror")[2] is not None


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("knot.evil.test", {"repo": REPOSITORY}),
        (KNOT, {"repo": "did:plc:" + "u" * 24}),
        (KNOT, {"repoDid": did("mallory"), "repoName": "project"}),
        (KNOT, {"repo": did("seed"), "repoName": "project"}),
        (KNOT, {"repo": ["a"], "ref": 7}),
        (KNOT, {"repoDid": REPOSITORY, "ref": ""}),
    ],
)
def test_a_host_speaks_only_for_watched_repositories_that_lie_on_it(
    world: World, host: str, named: dict[str, Any]
) -> None:
    world.change("update repositories set name = 'project' where repository_id = 1")
    mirrored(world)
    assert not told(world, push(named=named), host=host)
    assert world.rows("select * from ref_updates") == []
    assert world.outcome("mirror")[2] is None


def test_a_stream_that_begins_again_changes_nothing_and_wakes_nobody(world: World) -> None:
    frames = [push(number) for number in range(20)]
    assert told(world, *frames)
    before = world.rows("select * from ref_updates order by all")
    mirrored(world)
    assert not told(world, *frames[5:], *frames[:5])
    assert world.rows("select * from ref_updates order by all") == before
    assert world.outcome("mirror")[2] is None


def test_of_a_repository_the_newest_pushes_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knots, "KEPT", 3)
    for start in (0, 4):
        told(world, *(push(number) for number in range(start, start + 4)))
    kept = world.rows("select happened_at from ref_updates order by 1")
    assert len(kept) == 3
    assert kept[-1] == (from_microseconds(1_790_000_000_000_000) + timedelta(seconds=7),)


def test_the_cursor_goes_on_and_an_event_from_the_future_does_not_move_it(world: World) -> None:
    wall = world.store.wall()
    assert abs(begin(world.store, KNOT) // 1_000 - to_microseconds(wall - timedelta(days=7))) < 60_000_000
    at = to_microseconds(wall) * 1_000
    told(world, push(at=at), push(at=to_microseconds(wall + timedelta(days=900)) * 1_000), push(at=at - 5))
    assert begin(world.store, KNOT) == at
    told(world, push(at=at - 10**9))
    assert begin(world.store, KNOT) == at


def test_ci_that_a_spindle_says_moved_is_asked_for_again_but_not_without_end(world: World) -> None:
    world.change("update repositories set spindle = 'spindle.example.test'")
    subject = world.rows("select pull_uri || ' ' || patch_ref from pull_requests")[0][0]
    later = world.store.wall() + timedelta(hours=5)
    with world.store.write() as txn:
        txn.upsert("fetches", [fetch("ci", subject) | {"due_clock": later}])
    frame = json.dumps({"nsid": "sh.tangled.pipeline.status", "event": {"status": "success"}, "created": 1})
    told(world, frame, host="spindle.evil.test")
    assert world.outcome("ci")[2] == later
    told(world, frame, host="spindle.example.test")
    assert world.outcome("ci")[2] < later
    with world.store.write() as txn:
        txn.upsert("fetches", [fetch("ci", subject) | {"due_clock": later, "fetched_clock": world.store.wall()}])
    told(world, frame, host="spindle.example.test")
    assert world.outcome("ci")[2] == later


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=9), inner, max_size=3),
    max_leaves=10,
)
FIELDS = ("repo", "repoDid", "repoName", "ownerDid", "ref", "oldSha", "newSha", "committerDid")
EVENTS = some.fixed_dictionaries(
    {
        "nsid": some.sampled_from(["sh.tangled.git.refUpdate", "sh.tangled.pipeline.status", "x"]),
        "event": some.dictionaries(some.sampled_from(FIELDS), JSON | some.just(REPOSITORY)) | JSON,
        "created": some.integers(-(2**65), 2**65) | JSON,
    }
)


@limits(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=some.lists(EVENTS.map(json.dumps) | JSON.map(json.dumps) | some.text() | some.binary(), max_size=5))
def test_whatever_a_host_sends_is_kept_within_bounds_or_dropped(world: World, frames: list[str | bytes]) -> None:
    store_events(world.store, KNOT, [event for frame in frames if (event := read_envelope(frame))])
    assert world.rows("select count(*) from ref_updates")[0][0] <= knots.KEPT
    assert begin(world.store, KNOT) <= to_microseconds(world.store.wall() + timedelta(hours=1)) * 1_000


# --- The thread. -----------------------------------------------------------------------------------------------------


@contextmanager
def knot(say: Callable[[ServerConnection], None], **options: Any) -> Generator[str]:
    """A WebSocket server on loopback; its address."""
    with serve(say, "127.0.0.1", 0, **options) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


@contextmanager
def reading(world: World, url: str) -> Generator[tuple[EventStream, threading.Event]]:
    """A stream that is read while the context is open; the event is set when look-ups became due."""
    due = threading.Event()
    stream = EventStream(world.store, Fetcher(), url, due.set)
    world.change("update repositories set knot = ?", stream.host)
    stream.start()
    try:
        yield stream, due
    finally:
        stream.interrupt()
        stream.join(LONG_SECONDS)
        assert not stream.is_alive()


def test_a_stream_is_resumed_at_its_cursor_after_every_cut(world: World) -> None:
    asked: list[int] = []

    def say(connection: ServerConnection) -> None:
        assert connection.request is not None
        address = urlsplit(connection.request.path)
        assert address.path == "/events"
        cursor = int(parse_qs(address.query)["cursor"][0])
        asked.append(cursor)
        for number in range(3):  # then the drain cap: the peer closes
            connection.send(push(at=cursor + (number + 1) * 1_000_000))
        connection.send("no event")

    with knot(say) as url, reading(world, url) as (stream, due):
        assert due.wait(LONG_SECONDS)
        wait_for(lambda: len(asked) >= 3)
        assert stream.unread
    assert asked[1] == asked[0] + 3_000_000
    assert asked[2] == asked[1] + 3_000_000
    assert len(world.rows("select * from ref_updates")) >= 6


def test_a_stream_that_sends_too_much_or_redirects_gets_nowhere(world: World) -> None:
    def redirect(connection: ServerConnection, request: object) -> Response:
        return Response(302, "Found", Headers({"Location": "ws://127.0.0.1:9/events"}))

    for say, options in ((lambda one: one.send("x" * 9_000_000), {}), (lambda _: None, {"process_request": redirect})):
        with knot(say, **options) as url, reading(world, url) as (stream, _):
            wait_for(lambda: stream.problem)
    assert world.rows("select * from ref_updates") == []


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "::1", "fd00::1"])
def test_a_stream_whose_name_points_to_a_private_address_is_never_connected_to(world: World, address: str) -> None:
    fetcher = Fetcher(resolver=lambda _: [address])
    stream = EventStream(world.store, fetcher, "wss://knot.example.test", lambda: None)
    stream.start()
    wait_for(lambda: stream.problem)
    stream.interrupt()
    stream.join(LONG_SECONDS)
    assert stream.problem is not None
    assert "not a public address" in stream.problem


@pytest.mark.parametrize(
    "url",
    [
        "http://a.test",
        "ws://knot.example.test",
        "wss://127.0.0.1",
        "wss://u@a.test",
        "wss://a.test?x=1",
        "wss://[::1]",
        "",
    ],
)
def test_only_named_hosts_over_tls_are_event_streams(world: World, url: str) -> None:
    with pytest.raises(ValueError, match="is not an event stream"):
        EventStream(world.store, Fetcher(), url, lambda: None)
