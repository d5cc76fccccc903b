"""The v2 endpoint: the same events as over v1, numbers of a server's own, refusals that name a gap, hostile frames."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.database import Store
from ingest.stream import frames, jetstream
from ingest.stream.frames import Told, address, is_v2, keep_seq, last_seq, read_v2
from ingest.stream.inspect import listen as sample
from ingest.stream.jetstream import OTHER_SERVER_US
from ingest.stream.load import load
from tests.conftest import simulated_network
from tests.ingest.stream.frames import (
    ANA,
    FIRST_US,
    MARA,
    SOURCE,
    STRANGER,
    VOUCH,
    Frames,
    digest_of,
    letters,
    open_gaps,
)
from tests.ingest.stream.listening import Start, cursor, digest_after, listening, peer, wait_for_frame, written
from tests.standins.jetstream_v2 import JetstreamV2
from tests.waiting import wait_for
from trustsite.standins.recording import make_recording

pytestmark = pytest.mark.usefixtures("fast")

SECOND = 1_000_000


def peer_v2(frames: Frames, hold_after: int | None = None, oldest: int = 0, first_seq: int = 7001) -> JetstreamV2:
    recording = make_recording(frames, {}, (), ())
    return JetstreamV2(recording, hold_after, oldest=oldest, first_seq=first_seq)


def gaps(store: Store) -> list[tuple[int, int]]:
    return [((since - FIRST_US) // SECOND, (until - FIRST_US) // SECOND) for since, until in open_gaps(store) if since]


def assert_whole(store: Store, frames: Sequence[bytes]) -> None:
    """The store holds what one load of all frames gives, but for what the servers said of themselves."""
    told, expected = digest_of(store), digest_after(*frames)
    assert {table for table in told if told[table] != expected[table]} <= {"gaps", "ingest_state"}
    assert cursor(store) == json.loads(frames[-1])["time_us"]


def every_kind() -> Frames:
    frames = written(200)
    frames.account(ANA, active=False, status="deactivated")
    frames.identity(ANA)
    frames.delete(ANA, VOUCH, f"did:plc:{1:024d}")
    frames.pull(MARA, "1", title="Ünï\u2028code")
    return frames


def test_over_v2_the_store_is_what_it_is_over_v1(store: Store, live: Start) -> None:
    frames = every_kind()
    with peer_v2(frames) as server:
        live(server.url, quiet=None)
        wait_for(lambda: last_seq(store, SOURCE, server.url) == 7001 + len(frames) - 1)
    assert_whole(store, frames)


def test_the_simulated_network_reads_the_same_over_v2(store: Store) -> None:
    recording = simulated_network().recording
    wanted = [name is None or name.startswith("sh.tangled.") for name in recording.collections]
    with JetstreamV2(recording) as server, listening(store, server.url, collections=["sh.tangled.*"]):
        wait_for(lambda: cursor(store) == recording.last_time_us)
        wait_for(lambda: last_seq(store, SOURCE, server.url) == len(recording.frames))
    assert_whole(store, [frame for frame, is_wanted in zip(recording.frames, wanted, strict=True) if is_wanted])


def test_cut_connections_go_on_at_the_servers_own_number(store: Store, live: Start) -> None:
    frames = every_kind()
    with peer_v2(frames, hold_after=0) as server:
        live(server.url, quiet=None)
        for released in range(50, len(frames) + 50, 50):
            server.release(released)
            wait_for_frame(store, min(released, len(frames)) - 1)
            server.drop_connections()
        asked = [cursor or 0 for cursor in server.asked if cursor != 10**15]
        assert asked
        assert all(7001 <= cursor < 7001 + len(frames) for cursor in asked)
    assert_whole(store, frames)


def test_a_number_that_is_too_old_is_a_gap_and_the_stream_goes_on_by_time(store: Store, live: Start) -> None:
    frames = written(400)
    load(store, SOURCE, frames[:100])
    with peer_v2(frames, oldest=130) as server:
        keep_seq(store, SOURCE, server.url, 7001 + 99)
        live(server.url)
        wait_for_frame(store, 399)
        assert server.asked == [7001 + 99, FIRST_US + 94 * SECOND]
    assert gaps(store) == [(99, 130)], "30 s, which would be no gap where the server does not say so itself"


def test_a_time_that_is_too_old_is_a_gap_since_the_server_says_so(store: Store, live: Start) -> None:
    frames = written(400)
    load(store, SOURCE, frames[:100])
    with peer_v2(frames, oldest=130) as server:
        live(server.url)
        wait_for_frame(store, 399)
    assert gaps(store) == [(99, 130)]


def test_a_number_of_another_server_is_not_asked_for(store: Store, live: Start) -> None:
    frames = written(300)
    with peer_v2(frames, hold_after=100) as one, peer_v2(frames, hold_after=200, first_seq=1) as other:
        first = live(one.url)
        wait_for_frame(store, 99)
        first.stop()
        second = live(other.url)
        wait_for_frame(store, 199)
        second.stop()
        assert other.asked == [FIRST_US + 99 * SECOND - OTHER_SERVER_US]
        one.release(None)
        live(one.url)
        wait_for_frame(store, 299)
        assert one.asked[-1] == FIRST_US + 199 * SECOND - OTHER_SERVER_US
    assert gaps(store) == []


def test_a_v1_server_in_between_makes_the_number_void(store: Store, live: Start) -> None:
    frames = written(300)
    with peer_v2(frames, hold_after=100) as new, peer(frames, hold_after=200) as old:
        first = live(new.url)
        wait_for_frame(store, 99)
        first.stop()
        second = live(old.url)
        wait_for_frame(store, 199)
        second.stop()
        assert last_seq(store, SOURCE, new.url) is None
        new.release(None)
        live(new.url)
        wait_for_frame(store, 299)
    assert_whole(store, frames)


def test_an_error_frame_ends_the_connection_in_the_servers_words_after_what_came_before(
    store: Store, live: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = written(100)
    problems: set[str] = set()
    told = b'{"$type":"error","error":"ConsumerTooSlow","message":"reading below the floor rate"}'
    frames.insert(50, told)
    monkeypatch.setattr(jetstream.log, "warning", lambda text, *arguments: problems.add(text % arguments))
    with peer_v2(frames) as server:
        live(server.url, quiet=None)
        wait_for(lambda: any("ConsumerTooSlow: reading below the floor rate" in problem for problem in problems))
        wait_for_frame(store, 98)


def test_a_sample_of_a_v2_server_is_told_in_the_words_of_v1() -> None:
    frames = written(20)
    with peer_v2(frames) as server:
        seen = [json.loads(frame) for frame in sample(server.url, ["sh.tangled.*"], 0.5, FIRST_US)]
    assert seen == [json.loads(frame) for frame in frames]


def test_addresses_follow_the_path() -> None:
    new, old = "wss://a.test/xrpc/network.bsky.jetstream.subscribeEvents", "wss://a.test/subscribe"
    assert (is_v2(new), is_v2(old)) == (True, False)
    assert address(old, ["a.b.*"], 5) == f"{old}?wantedCollections=a.b.%2A&cursor=5"
    assert address(new, ["a.b.*"], 5) == f"{new}?collections=a.b.%2A&kinds=commit&kinds=identity&kinds=account&cursor=5"


def message(kind: str, **payload: Any) -> bytes:
    told = {"$type": f"{frames.V2_PATH[6:]}#{kind}"} | payload
    return json.dumps({"$type": "message", "payload": told}).encode()


def test_what_is_no_event_becomes_a_dead_letter_and_stops_nothing(store: Store) -> None:
    bad = [
        b"no json",
        b'{"$type":"message"}',
        message("identity", did=STRANGER, seq=1, time="yesterday", identity={}),
        message("identity", did=STRANGER, seq=1, time="2026-01-01T00:00:00", identity={}),
        message("identity", did=STRANGER, seq="1", time="2026-01-01T00:00:00Z", identity={}),
    ]
    told = read_v2([*bad, message("sync", did=ANA, seq=9), message("new", did=ANA, seq=10), message("info", name="x")])
    assert told == Told(list(bad), seq=10)
    load(store, SOURCE, told.frames)
    assert len(letters(store)) == len(bad)


@pytest.mark.parametrize("seq", [-5, 0, 10**15, 2**62])
def test_a_number_that_would_be_taken_for_a_time_is_not_kept(seq: int) -> None:
    told = read_v2([message("account", did=ANA, seq=seq, time="2026-01-01T00:00:00.000001Z", account={"active": True})])
    assert told.seq is None
    assert json.loads(told.frames[0])["time_us"] % SECOND == 1


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
payloads = st.dictionaries(
    st.sampled_from(["$type", "seq", "did", "time", "commit", "record", "identity", "account", "cid", "rkey"]),
    values | st.sampled_from(["x#commit", "x#identity", "x#info", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"]),
)


@given(st.lists(payloads, max_size=5), st.binary(max_size=50))
def test_no_frame_breaks_the_reading_of_v2(told: list[dict[str, Any]], junk: bytes) -> None:
    raw = [msgspec.json.encode({"$type": "message", "payload": payload}) for payload in told]
    assert len(read_v2([*raw, junk]).frames) <= len(raw) + 1
